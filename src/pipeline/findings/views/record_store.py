"""A record store of the project's own: a program that is given each record on its standard input.

The repository names the program, so it runs only if the user's own settings name the very same command.
"""

import json
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.backends.environment import child_environment
from pipeline.backends.program import run_program
from pipeline.findings.formats import strict_json

SETTINGS = "storage.json"
OPERATION = "record.write"
TIMEOUT = 30.0  # seconds for one record
_MAX_SETTINGS = 1024 * 1024  # bytes
_MAX_OUTPUT = 16 * 1024 * 1024  # bytes
_MAX_ERROR = 200  # characters


@dataclass(frozen=True, slots=True)
class Trust:
    """The commands that the user lets receive records, and the environment that they inherit without its secrets."""

    commands: Collection[str] = ()
    environ: Mapping[str, str] = field(default_factory=dict)


NO_TRUST = Trust()


@dataclass(frozen=True, slots=True)
class RecordStore:
    """The program that receives records."""

    argv: tuple[str, ...]
    directory: Path
    timeout: float
    environ: Mapping[str, str]

    def write(self, record: bytes) -> str:
        """Hand a record over; return what went wrong, if anything."""
        program, environment = self.argv[0], child_environment(self.environ)
        try:
            done = run_program(
                self.argv,
                env=environment,
                timeout=self.timeout,
                cwd=self.directory,
                stdin=record,
                max_output=_MAX_OUTPUT,
            )
        except TimeoutError:
            return f'"{program}" took longer than {self.timeout:g} seconds'
        except OSError as error:
            return f'"{program}" could not be run: {error}'
        if not done.returncode:
            return ""
        said = " ".join(done.stderr[: _MAX_ERROR * 4].decode(errors="replace").split())[:_MAX_ERROR]
        return ": ".join(filter(None, (f'"{program}" exited with code {done.returncode}', said)))


def load_record_store(workspace: Path, trust: Trust, timeout: float = TIMEOUT) -> RecordStore | str | None:
    """The store that a workspace names, why it cannot be used, or None if it names none."""
    try:
        data = files.read_file(workspace / SETTINGS, _MAX_SETTINGS)
        settings = strict_json.loads(data) if data is not None else None
    except (files.NotAFile, OSError, ValueError) as error:
        return f"{SETTINGS} cannot be read: {error}"
    argv = _command(settings)
    if argv is None:
        return None
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        return f"{SETTINGS} must bind {OPERATION} to a list of strings: a program and its arguments"
    command = shlex.join(argv)
    if command not in trust.commands:
        return (
            f"{SETTINGS} names a program that your settings do not allow; to allow it, "
            f"write trust {{ record-write {json.dumps(command, ensure_ascii=False)} }} in ~/.config/awf/config.kdl"
        )
    return RecordStore(tuple(argv), workspace.parent, timeout, trust.environ)


def _command(settings: Any) -> Any:
    """What the operation is bound to, at the top level or under `bindings`."""
    if not isinstance(settings, dict):
        return None
    bindings = settings.get("bindings")
    return settings.get(OPERATION, bindings.get(OPERATION) if isinstance(bindings, dict) else None)
