"""Real `awf` processes without the half second that each needs to import its packages.

A server imports the program once and forks for every command: each is a process with its own id, directory,
environment, signals and exit code. Tests that are about the start of a program start the console script.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn, TextIO

import pipeline
from pipeline.cli.main import main

_LONGEST = 120.0  # seconds that a command may take


class ForkServer:
    """A process that runs one command after the other, each in a fork."""

    def __init__(self, channel: socket.socket, answers: TextIO) -> None:
        self._channel = channel
        self._answers = answers

    def run(self, *arguments: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run `awf` to its end; what it wrote and its exit code, negative for a signal."""
        given = json.dumps({"arguments": arguments, "cwd": str(cwd), "env": dict(env)})
        with _file(given) as request, _file() as nothing, _file() as out, _file() as err:
            files = (request, nothing, out, err)
            socket.send_fds(self._channel, [b"."], [file.fileno() for file in files])
            code = self._ended(int(self._answers.readline()))
            return subprocess.CompletedProcess(["awf", *arguments], code, _text(out), _text(err))

    def _ended(self, pid: int) -> int:
        try:
            return int(self._answers.readline())
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise


@contextmanager
def fork_server() -> Iterator[ForkServer]:
    """A server that lives as long as the block."""
    ours, theirs = socket.socketpair()
    ours.settimeout(_LONGEST)
    command = [sys.executable, __file__, str(theirs.fileno())]
    bare = {"PATH": os.environ["PATH"]}  # what is asked for decides everything else
    quiet = subprocess.DEVNULL
    server = subprocess.Popen(command, env=bare, pass_fds=[theirs.fileno()], stdin=quiet, stdout=quiet)
    with server, ours, ours.makefile("r") as answers:
        theirs.close()
        yield ForkServer(ours, answers)
        ours.shutdown(socket.SHUT_RDWR)  # the end of all requests


def _file(content: str = "") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(content.encode())
    file.seek(0)
    return file


def _text(file: IO[bytes]) -> str:
    """Everything in a file, with line ends as a text pipe gives them."""
    file.seek(0)
    return file.read().decode().replace("\r\n", "\n").replace("\r", "\n")


def _serve(channel: socket.socket) -> None:
    """Fork for every request until there are no more. Returns in the forks alone, which are to be the command."""
    while files := socket.recv_fds(channel, 1, 4)[1]:
        child = os.fork()
        if child == 0:
            channel.close()
            _become(files)
            return
        for file in files:
            os.close(file)
        channel.sendall(f"{child}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        channel.sendall(f"{code}\n".encode())
    os._exit(0)


def _become(files: list[int]) -> None:
    """Take over the directory, environment, arguments and standard streams of a request."""
    with open(files[0], "rb") as written:  # noqa: PTH123 - a descriptor has no path
        request: dict[str, Any] = json.load(written)
    for stream, file in enumerate(files[1:]):
        os.dup2(file, stream)
        os.close(file)
    os.chdir(request["cwd"])
    kept = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}  # as Python sets it at every start
    os.environ.clear()
    os.environ.update(kept | request["env"])
    sys.argv = ["awf", *request["arguments"]]


def _end(code: int) -> NoReturn:
    """Leave at once: taking the interpreter down would copy every page that is shared with the server."""
    sys.stdout.flush()
    os._exit(code)


def _run() -> int:
    """The console script, and how it ends."""
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    except BaseException:  # noqa: BLE001 - as the interpreter does with whatever nobody caught
        sys.excepthook(*sys.exc_info())
    return 1


if __name__ == "__main__":
    loaded = [module.name for module in pkgutil.walk_packages(pipeline.__path__, "pipeline.")]
    for name in ["networkx", *loaded]:  # but for what needs packages that may be missing
        if not name.startswith("pipeline.cluster"):
            importlib.import_module(name)
    gc.freeze()  # pages that no collection writes to stay shared with the forks
    _serve(socket.socket(fileno=int(sys.argv[1])))
    _end(_run())
