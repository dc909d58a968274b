"""A store of the project's own, to which records are handed first: a program that reads one on its standard input."""

import os
import signal
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any

from pipeline.findings.codecs import strict

SETTINGS = "storage.json"
OPERATION = "record.write"
_SAID = 200  # characters of a program's complaint


@dataclass(frozen=True, slots=True)
class Binding:
    """The program that takes records."""

    argv: tuple[str, ...]
    directory: Path
    timeout: float

    def write(self, record: bytes) -> str:
        """Hand a record over; what went wrong, or nothing."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(record)
            stdin.seek(0)
            try:
                program = Popen(
                    self.argv,
                    cwd=self.directory,
                    stdin=stdin,
                    stdout=DEVNULL,
                    stderr=stderr,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                return f'"{self.argv[0]}" could not be started: {error}'
            code = _wait(program, self.timeout)
            stderr.seek(0)
            said = " ".join(stderr.read(_SAID * 4).decode(errors="replace").split())[:_SAID]
        if code is None:
            return f'"{self.argv[0]}" took longer than {self.timeout:g} seconds'
        return f'"{self.argv[0]}" ended with exit code {code}{": " if said else ""}{said}' if code else ""


def bound(workspace: Path, timeout: float) -> Binding | str | None:
    """The binding that a workspace has; why it cannot be used, in words; or None when there is none."""
    path = workspace / SETTINGS
    if not path.is_file():
        return None
    try:
        settings = strict.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return f"{SETTINGS} cannot be read: {error}"
    argv = _operation(settings)
    if argv is None:
        return None
    if not strict.is_texts(argv) or not argv:
        return f"{SETTINGS} binds {OPERATION} to what is no program: give a list of texts, the program first"
    return Binding(tuple(argv), workspace.parent, timeout)


def _operation(settings: Any) -> Any:
    """What the operation is bound to: at the top, or under `bindings`."""
    if not isinstance(settings, dict):
        return None
    bindings = settings.get("bindings")
    return settings.get(OPERATION, bindings.get(OPERATION) if isinstance(bindings, dict) else None)


def _wait(program: Popen[bytes], timeout: float) -> int | None:
    """The exit code of a program; None when it took too long, and then all that it started is ended too."""
    try:
        return program.wait(timeout)
    except TimeoutExpired:
        return None
    finally:
        if program.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
