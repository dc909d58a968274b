"""A real agent in a directory of its own, and what it leaves behind."""

import asyncio
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from tests.agents.programs import Program
from tests.integration.conftest import COMMAND

from pipeline.backends import process_tree as sweep
from pipeline.backends.agents.acp import AcpBackend
from pipeline.backends.agents.base import ProgramBackend
from pipeline.backends.agents.override import AgentOverride
from pipeline.backends.environment import child_environment
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import AGENTS
from pipeline.engine.ports import AgentEvent, AgentRequest, AgentResult, AgentSession, Backend, RequestLimits
from pipeline.language.model import Access

LONGEST = 120.0  # seconds for one request
PAUSE = 0.02  # seconds between two polls


class AgentHarness:
    """Runs one program. `label` is in the marker of all its processes and in the commands that tests let it run."""

    def __init__(self, program: Program, directory: Path, environ: dict[str, str], label: str) -> None:
        self.program = program
        self.environ = environ
        self.label = label
        self.cwd = directory / "project"
        self.cwd.mkdir()
        self.artifacts = directory / "artifacts"
        self.events: list[AgentEvent] = []

    def ask(
        self,
        prompt: str,
        timeout: float = LONGEST,
        access: Access = Access.CODING,
        session: AgentSession | None = None,
    ) -> AgentResult:
        """Run the program to its end."""
        return asyncio.run(self.run(self.request(prompt, timeout)._replace(access=access, session=session)))

    def request(self, prompt: str, timeout: float = LONGEST) -> AgentRequest:
        """A request with the environment that a stage of a workflow would give."""
        names = self._backend().variables(self.program.provider)
        return AgentRequest(
            stage="stage",
            visit=1,
            attempt=1,
            prompt=prompt,
            cwd=self.cwd,
            artifacts=self.artifacts,
            model=self.program.model,
            provider=self.program.provider,
            limits=RequestLimits(timeout=timeout),
            env=child_environment(self.environ, extra_names=names),
        )

    async def run(self, request: AgentRequest, extra: tuple[str, ...] = ()) -> AgentResult:
        """Run the program with `extra` arguments; cancelling this stops it."""
        return await self._backend(extra).run(request, self.events.append)

    def _backend(self, extra: tuple[str, ...] = ()) -> Backend:
        program = self.program
        if program.command:
            return AcpBackend((*program.command, *extra), self.label, program.passed)
        return ProgramBackend(AGENTS[program.name], LocalProcesses(self.label), AgentOverride(extra=extra))

    @property
    def running(self) -> Path:
        """The file that an endless command creates."""
        return self.cwd / "running"

    def left(self) -> list[str]:
        """The processes of the agent and its tools that still run."""
        return left(self.label)

    def files(self) -> set[str]:
        """The files of the project."""
        return {str(path.relative_to(self.cwd)) for path in self.cwd.rglob("*")}


def awf(project: Path, environ: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command `awf` to its end."""
    return subprocess.run(
        [COMMAND, *arguments],
        cwd=project,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * LONGEST,
    )


def commit_all(project: Path) -> None:
    """Make a repository of a directory, with one commit of all its files."""
    for words in (["init", "-q"], ["add", "-Af"], ["commit", "-qm", "start"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
        subprocess.run(["git", *identity, *words], cwd=project, check=True, env={**os.environ, "HOME": str(project)})


def endless(label: str) -> str:
    """A command that leaves its parent's session, creates the file `running`, and never ends."""
    return f"setsid -w sh -c 'touch running; sleep 3600; : {label}'"


def left(label: str) -> list[str]:
    """The processes with a label in their marker or their arguments; a sandbox may hide the marker."""
    alive = [process for process in sweep.list_processes() if sweep.is_alive(process)]
    return [
        f"{process.pid} {command}"
        for process, command in ((process, _command(process)) for process in alive)
        if label in command or (sweep.read_marker(process) or "").startswith(label)
    ]


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it is gone


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < deadline, f"{what} never happened"
        time.sleep(PAUSE)
