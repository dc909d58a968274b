"""The programs that are on PATH, each with a model of its own. Those that are not are skipped, unless required."""

import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.agents.desk import Desk, left
from tests.agents.programs import PROGRAMS, Program, variables
from tests.agents.server.http import ModelServer, serving
from tests.agents.server.script import Script, Step

REQUIRED = "AWF_REQUIRED_AGENTS"  # names of programs, with blanks between: these may not be skipped

Steps = Mapping[str, tuple[Step, ...]]
Serve = Callable[[Steps], ModelServer]
Make = Callable[..., tuple[Desk, ModelServer]]


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", "real_agent: runs the real command-line agents against a model on loopback")


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.name)
def program(request: pytest.FixtureRequest) -> Program:
    """Each of the programs that are there."""
    chosen: Program = request.param
    if shutil.which(chosen.name) is None:
        reason = f'the program "{chosen.name}" is not on PATH; "make test-agents" installs it'
        if chosen.name in os.environ.get(REQUIRED, "").split():
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
    """What the processes of a test are known by; those that a failed test leaves are killed."""
    name = f"awf-{uuid.uuid4().hex}"
    yield name
    for line in left(name):
        with suppress(ProcessLookupError):
            os.kill(int(line.partition(" ")[0]), signal.SIGKILL)


@pytest.fixture
def make(program: Program, tmp_path: Path, serve: Serve, label: str) -> Make:
    """Make an agent and its model, from the steps of each token; `more` is in the environment of who runs it."""

    def made(steps: Steps, **more: str) -> tuple[Desk, ModelServer]:
        server = serve(steps)
        environ = variables(program, tmp_path, server.url, os.environ["PATH"])
        return Desk(program, tmp_path, {**environ, **more}, label), server

    return made
