"""Workflow files on disk. A file that cannot be read is a diagnostic, never a traceback."""

import os
from pathlib import Path

from pipeline.errors import AwfError
from pipeline.language.diagnostics import RuleHit
from pipeline.language.reader import MAX_BYTES, TOO_LARGE, UNREADABLE_FILE, WorkflowDraft, parse_workflow
from pipeline.language.source import START, SourceText, Span, decode
from pipeline.text import did_you_mean

SUFFIX = ".awf.kdl"
_NEVER_SEARCHED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__"})


def load_file(path: Path, name: str) -> WorkflowDraft:
    """Read and parse a workflow; diagnostics call the file `name`."""
    try:
        source, hits = read_source(path, name)
    except OSError as error:
        source, hits = SourceText(name, ""), [_unreadable(path, name, error)]
    return WorkflowDraft(source, None, tuple(hits)) if hits else parse_workflow(source)


def read_source(path: Path, name: str) -> tuple[SourceText, list[RuleHit]]:
    """The text of a file, or why it has none: too large, binary, or not UTF-8. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return SourceText(name, ""), [TOO_LARGE.hit(START, f'"{name}" is too large; the limit is 1 MiB', "split it up")]
    if b"\0" in data:
        return SourceText(name, ""), [UNREADABLE_FILE.hit(START, f'"{name}" is a binary file')]
    try:
        return decode(name, data), []
    except UnicodeDecodeError as error:
        before = decode(name, data[: error.start]).text
        source = SourceText(name, before + "\N{REPLACEMENT CHARACTER}")
        message = f"invalid UTF-8: byte 0x{data[error.start]:02x}"
        span = Span(len(before), len(before) + 1)
        return source, [UNREADABLE_FILE.hit(span, message, "save the file as UTF-8")]


def read_text(path: Path, help: str) -> str:
    """The text of a file that a user named. Raises AwfError with `help` if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError as error:
        why = f"invalid UTF-8: {error.reason} at byte {error.start}"
    raise AwfError(f'cannot read "{path}": {why}', help=help)


def workflow_files(directory: Path) -> list[Path]:
    """Every workflow file in a directory and below it, sorted."""
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name not in _NEVER_SEARCHED]
        found += [Path(folder, name) for name in names if name.endswith(SUFFIX)]
    return sorted(found)


def _unreadable(path: Path, name: str, error: OSError) -> RuleHit:
    match error:
        case FileNotFoundError():
            beside = did_you_mean(path.name, sorted(one.name for one in path.parent.glob(f"*{SUFFIX}")))
            message, help = f'"{name}" does not exist', beside or '"awf workflows" lists what can be run by name'
        case IsADirectoryError():
            message, help = f'"{name}" is a directory', f'name a file in it that ends in "{SUFFIX}"'
        case PermissionError():
            message, help = f'no permission to read "{name}"', "chmod u+r"
        case _:
            message, help = f'cannot read "{name}": {error.strerror or error}', "name a readable file"
    return UNREADABLE_FILE.hit(START, message, help)
