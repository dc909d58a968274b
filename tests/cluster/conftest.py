"""A Temporal development server for the tests of a session, and workers inside the test's own process."""

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cluster.lab import Lab

    from pipeline.cluster.server import LoopThread

if find_spec("temporalio") is None:  # it comes with the extra [cluster]
    collect_ignore_glob = ["test_*.py"]


def temporal_program() -> str:
    """Return the path of the server's program, or skip the test."""
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    if not found:
        pytest.skip("there is no Temporal server; make test-cluster installs it")
    return found


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Server:
    """A development server with a database, which can be stopped and started again."""

    def __init__(self, program: str, folder: Path) -> None:
        self.port = free_port()
        self.url = f"temporal://127.0.0.1:{self.port}/default"
        self.database = folder / "temporal.db"
        where = ("--ip", "127.0.0.1", "--port", str(self.port), "--db-filename", str(self.database))
        self._command = [program, "server", "start-dev", "--headless", *where, "--log-level", "never"]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it can be reached."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        pause = threading.Event()
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            pause.wait(0.1)
        raise AssertionError("the Temporal server did not start")

    def stop(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def running_server(folder: Path) -> Iterator[Server]:
    """Run a server with its database in a directory."""
    server = Server(temporal_program(), folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of this session."""
    with running_server(tmp_path_factory.mktemp("temporal")) as running:
        yield running


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that the test may stop."""
    (tmp_path / "temporal").mkdir()
    with running_server(tmp_path / "temporal") as running:
        yield running


@pytest.fixture(scope="session")
def loop() -> "Iterator[LoopThread]":
    """An event loop for the clients and workers of this session."""
    from pipeline.cluster.server import LoopThread  # noqa: PLC0415 - an extra

    made = LoopThread()
    yield made
    made.close()


@contextmanager
def running_lab(server: Server, loop: "LoopThread", folder: Path) -> "Iterator[Lab]":
    """A cluster on a server, without workers; those that a test starts are stopped at the end."""
    from tests.cluster.lab import Lab  # noqa: PLC0415 - an extra

    lab = Lab(server, loop, folder, {"PATH": os.environ["PATH"], "HOME": str(folder)})
    lab.connect()
    try:
        yield lab
    finally:
        lab.close()


@pytest.fixture
def lab(server: Server, loop: "LoopThread", tmp_path: Path) -> "Iterator[Lab]":
    """A cluster with an object store, a queue and one worker of its own."""
    with running_lab(server, loop, tmp_path) as lab:
        lab.worker("w1")
        yield lab


@pytest.fixture
def lab_with_own_server(own_server: Server, loop: "LoopThread", tmp_path: Path) -> "Iterator[Lab]":
    """A cluster on a server that the test may stop, without workers."""
    with running_lab(own_server, loop, tmp_path) as lab:
        yield lab
