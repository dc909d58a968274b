"""The real command: as a process of its own for every call, and from its console script where the start matters."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.forking import ForkServer, fork_server

Awf = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = str(Path(sys.executable).with_name("awf"))


@pytest.fixture(scope="session")
def server() -> Iterator[ForkServer]:
    """What the commands of this session are forked from."""
    with fork_server() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def impatient(home: Path) -> Path:
    """A home whose settings have transient errors retried at once."""
    settings = home / ".config/awf/config.kdl"
    settings.parent.mkdir(parents=True)
    settings.write_text('limits { retry_delay "1ms"; idle "700ms" }\n')
    return home


@pytest.fixture
def awf(tmp_path: Path, home: Path, server: ForkServer, script: Awf) -> Awf:
    """Run `awf` in an empty directory with an empty home: a fork that has imported everything already."""

    def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        if "PYTHONPATH" in environment:  # says what is imported, and a fork has done that
            return script(*arguments, cwd=cwd, **environment)
        env = {"PATH": os.environ["PATH"], "HOME": str(home), **environment}
        return server.run(*arguments, cwd=cwd or tmp_path, env=env)

    return run


@pytest.fixture
def script(tmp_path: Path, home: Path) -> Awf:
    """Run the console script `awf` as a shell does, in an empty directory with an empty home."""

    def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=cwd or tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(home), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run
