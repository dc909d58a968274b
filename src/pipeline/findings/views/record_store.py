"""A store of the project's own, to which records are handed first: a program that reads one on its standard input.

The repository names it, so it runs only if the user's own settings name the very same command.
"""

import json
import os
import shlex
import signal
import tempfile
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any

from pipeline import files
from pipeline.backends.environment import child_environment
from pipeline.findings.formats import strict_json as strict

SETTINGS = "storage.json"
OPERATION = "record.write"
_SAID = 200  # characters of a program's complaint
_LARGEST = 1024 * 1024  # bytes of the file that names it
SECONDS = 30.0  # for it to take one record


@dataclass(frozen=True, slots=True)
class Trust:
    """What the user allows: which commands take records, and with which environment, which loses its keys."""

    commands: Collection[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


NO_TRUST = Trust()


@dataclass(frozen=True, slots=True)
class RecordStore:
    """The program that takes records."""

    argv: tuple[str, ...]
    directory: Path
    timeout: float
    environ: Mapping[str, str]

    def write(self, record: bytes) -> str:
        """Hand a record over; what went wrong, or nothing."""
        with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stderr:
            stdin.write(record)
            stdin.seek(0)
            try:
                program = Popen(
                    self.argv,
                    cwd=self.directory,
                    env=child_environment(self.environ),
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


def load_record_store(workspace: Path, trust: Trust, timeout: float = SECONDS) -> RecordStore | str | None:
    """The binding that a workspace has; why it cannot be used, in words; or None when there is none."""
    try:
        data = files.read_file(workspace / SETTINGS, _LARGEST)
        settings = strict.loads(data) if data is not None else None
    except (files.NotAFile, OSError, ValueError) as error:
        return f"{SETTINGS} cannot be read: {error}"
    argv = _operation(settings)
    if argv is None:
        return None
    if not strict.is_texts(argv) or not argv:
        return f"{SETTINGS} binds {OPERATION} to what is not a program: give a list of texts, the program first"
    command = shlex.join(argv)
    if command not in trust.commands:
        return (
            f"{SETTINGS} names a program that your own settings do not allow; to allow it, "
            f"write trust {{ record-write {json.dumps(command, ensure_ascii=False)} }} in ~/.config/awf/config.kdl"
        )
    return RecordStore(tuple(argv), workspace.parent, timeout, trust.environ)


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
