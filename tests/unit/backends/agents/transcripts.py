"""What real command-line agents printed, replayed through `ProgramBackend` as if the program ran now."""

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipeline.backends.agents.base import AgentProgram, ProgramBackend
from pipeline.engine.ports import (
    AgentEvent,
    AgentRequest,
    AgentResult,
    ExitReason,
    OnLine,
    ProcessCommand,
    ProcessResult,
)

DIRECTORY = Path(__file__).parents[3] / "transcripts"
NOWHERE = Path("/nowhere")


@dataclass(frozen=True, slots=True)
class Transcript:
    """One run of a program, and the `Processes` that replay it."""

    stdout: str
    stderr: str = ""
    code: int = 0
    timed_out: bool = False

    async def run(
        self, command: ProcessCommand, on_line: OnLine | None = None, on_error_line: OnLine | None = None
    ) -> ProcessResult:
        """Print everything at once and exit."""
        for text, take in ((self.stdout, on_line), (self.stderr, on_error_line)):
            for line in text.encode().split(b"\n"):
                if take:
                    take(line)
        ending, message = ExitReason.EXITED, ""
        if self.timed_out:
            ending = ExitReason.TIMEOUT
        elif self.code < 0:
            ending, message = ExitReason.SIGNAL, f"signal {-self.code}"
        return ProcessResult(
            ending=ending,
            exit_code=self.code if ending is ExitReason.EXITED else None,
            duration=1.0,
            stdout=command.artifacts / "stdout.log",
            stderr=command.artifacts / "stderr.log",
            stdout_tail=self.stdout[-4096:],
            stderr_tail="\n".join(self.stderr.split("\n")[-30:])[-4096:],
            message=message,
        )

    def without_last_line(self) -> "Transcript":
        """The same run, with its last message lost."""
        lines = self.stdout.rstrip("\n").split("\n")
        return replace(self, stdout="\n".join(lines[:-1]))


def transcript_names(program: str) -> list[str]:
    """The names of a program's recorded runs."""
    return sorted(path.stem for path in DIRECTORY.glob(f"{program}_*.json"))


def recorded(name: str) -> Transcript:
    """The recorded run of that name."""
    data = json.loads((DIRECTORY / f"{name}.json").read_text("utf-8"))
    return Transcript(data["stdout"], data["stderr"], data["rc"], data["timed_out"])


def printing(*messages: object, code: int = 0, stderr: str = "", timed_out: bool = False) -> Transcript:
    """A run that prints these messages as lines of JSON."""
    return Transcript("".join(f"{json.dumps(message)}\n" for message in messages), stderr, code, timed_out)


def request(**fields: Any) -> AgentRequest:
    """A request in which only what matters is given."""
    defaults = {"stage": "build", "visit": 1, "attempt": 1, "prompt": "Do it.\n"}
    return AgentRequest(**{**defaults, "cwd": NOWHERE, "artifacts": NOWHERE, **fields})


def result_of(agent: AgentProgram, run: str | Transcript, **fields: Any) -> AgentResult:
    """The result of a request whose program does what a transcript says."""
    return _replay(agent, run, fields)[0]


def events_of(agent: AgentProgram, run: str | Transcript, **fields: Any) -> list[AgentEvent]:
    """What is shown while the program runs, but for the event that it started."""
    return _replay(agent, run, fields)[1][1:]


def _replay(agent: AgentProgram, run: str | Transcript, fields: dict[str, Any]) -> tuple[AgentResult, list[AgentEvent]]:
    events: list[AgentEvent] = []
    backend = ProgramBackend(agent, recorded(run) if isinstance(run, str) else run)
    return asyncio.run(backend.run(request(**fields), events.append)), events
