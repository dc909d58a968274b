"""Runs a short program to its end, without an event loop: commands that only read load nothing else."""

import errno
import os
import signal
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, CompletedProcess, Popen


def run_program(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    timeout: float,
    cwd: Path | None = None,
    stdin: bytes = b"",
    max_output: int | None = None,
    inherit_stderr: bool = False,
) -> CompletedProcess[bytes]:
    """Run a short program to its end and return what it wrote; inherited standard error goes to the user instead.

    Raises OSError if it cannot be started or writes more than `max_output` bytes, TimeoutError (also an OSError) after
    `timeout` seconds. It is then killed with its whole process group.
    """
    limit = -1 if max_output is None else max_output + 1
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        source = given if stdin else DEVNULL
        try:
            stderr = None if inherit_stderr else errors
            process = Popen(argv, cwd=cwd, env=env, stdin=source, stdout=PIPE, stderr=stderr, start_new_session=True)
        except ValueError as error:  # such as a NUL in an argument
            raise OSError(errno.EINVAL, str(error), argv[0]) from error
        timer = threading.Timer(timeout, _kill_group, (process,))
        timer.start()
        with process:
            try:
                stdout = process.stdout.read(limit) if process.stdout else b""
                if max_output is not None and len(stdout) > max_output:
                    raise OSError(errno.EFBIG, f"it wrote more than {max_output} bytes")
                process.wait()
            finally:
                timer.cancel()
                _kill_group(process)
        if time.monotonic() >= deadline:
            raise TimeoutError(errno.ETIMEDOUT, f"it took longer than {timeout:g} seconds")
        errors.seek(0)
        return CompletedProcess(argv, process.returncode, stdout, errors.read())


def _kill_group(process: Popen[bytes]) -> None:
    if process.returncode is None:  # not reaped, so the id still belongs to its group, even if it has exited
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
