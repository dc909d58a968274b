"""A Temporal server of this machine for all tests of a session, and workers inside the test's own process."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.lab import Lab

    from pipeline.cluster.client import LoopThread

if find_spec("temporalio") is None:  # nothing of it can be imported without the extra [cluster]
    collect_ignore_glob = ["test_*.py"]


def temporal_program() -> str:
    """The server's program, or the reason why these tests are skipped."""
    pytest.importorskip("temporalio", reason="it comes with the extra [cluster]; make test-cluster installs all of it")
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if not found:
        pytest.skip("there is no temporal server here; make test-cluster installs it")
    return found


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """A development server with a database, which can be stopped and started again."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        self.url = f"temporal://127.0.0.1:{self.port}/default"
        where = ("--ip", "127.0.0.1", "--port", str(self.port), "--db-filename", str(folder / "temporal.db"))
        self._command = [program, "server", "start-dev", "--headless", *where, "--log-level", "never"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it can be reached afterwards."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pause = threading.Event()
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            pause.wait(0.1)
        raise AssertionError("the Temporal server did not start")

    def stop(self) -> None:
        """Stop it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """A server for as long as the context lasts."""
    server = Server(temporal_program(), folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of this session."""
    with served(tmp_path_factory.mktemp("temporal")) as running:
        yield running


@pytest.fixture(scope="session")
def loop() -> "Iterator[LoopThread]":
    """A loop for the clients and workers of this session."""
    from pipeline.cluster.client import LoopThread  # noqa: PLC0415 - it needs the extra

    made = LoopThread()
    yield made
    made.close()


@pytest.fixture
def lab(server: Server, loop: "LoopThread", tmp_path: Path) -> "Iterator[Lab]":
    """A store, a queue and one worker of the test's own."""
    from tests.cluster.lab import Lab  # noqa: PLC0415 - it needs the extra

    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with ExitStack() as stack:
        made = Lab(server, loop, tmp_path, environ)
        stack.callback(made.close)
        made.begin()
        yield made
