"""The programs on PATH, each with its own model. Those that are missing are skipped, unless they are required."""

import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.agents.harness import AgentHarness, left
from tests.agents.programs import PROGRAMS, Program, variables
from tests.agents.server.http import ModelServer, serving
from tests.agents.server.script import Script, Step

REQUIRED = "AWF_REQUIRED_AGENTS"  # names of programs, separated by blanks, that may not be skipped
VERSIONS = "AWF_AGENT_VERSIONS"  # of the programs on PATH: `older`, else the newest

Steps = Mapping[str, tuple[Step, ...]]
Serve = Callable[[Steps], ModelServer]
Make = Callable[..., tuple[AgentHarness, ModelServer]]


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", "real_agent: runs the real command-line agents against a model on loopback")


def are_older() -> bool:
    """Whether the programs on PATH are older versions; then only the command-line programs are tested."""
    return os.environ.get(VERSIONS) == "older"


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.name)
def program(request: pytest.FixtureRequest) -> Program:
    """Each of the installed programs."""
    chosen: Program = request.param
    if chosen.command and are_older():
        pytest.skip("agents of the Agent Client Protocol are tested in their newest versions only")
    if shutil.which(chosen.executable) is None:
        reason = f'the program "{chosen.executable}" is not on PATH; "make test-agents" installs it'
        if chosen.executable in os.environ.get(REQUIRED, "").split():
            pytest.fail(reason)
        pytest.skip(reason)
    return chosen


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a model with a script."""
    with ExitStack() as stack:
        yield lambda steps: stack.enter_context(serving(Script(steps)))


@pytest.fixture
def label() -> Iterator[str]:
    """The label of a test's processes; those that a failed test leaves behind are killed."""
    name = f"awf-{uuid.uuid4().hex}"
    yield name
    for line in left(name):
        with suppress(ProcessLookupError):
            os.kill(int(line.partition(" ")[0]), signal.SIGKILL)


@pytest.fixture
def make(program: Program, tmp_path: Path, serve: Serve, label: str) -> Make:
    """Make an agent and its model from the steps for each token; `more` is added to the environment."""

    def made(steps: Steps, **more: str) -> tuple[AgentHarness, ModelServer]:
        server = serve(steps)
        environ = variables(program, tmp_path, server.url, os.environ["PATH"])
        return AgentHarness(program, tmp_path, {**environ, **more}, label), server

    return made
