"""Workflow files on disk: read with limits, so that a wrong file is a diagnostic and never a traceback."""

import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.errors import AwfError
from pipeline.language.diagnostics import RuleHit
from pipeline.language.reader import MAX_BYTES, WorkflowDraft, parse_workflow
from pipeline.language.rules import reading
from pipeline.language.source import START, SourceText, Span, decode
from pipeline.text import did_you_mean

SUFFIX = ".awf.kdl"
_NEVER_SEARCHED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__"})


def load_file(path: Path, name: str) -> WorkflowDraft:
    """Read and parse a file; `name` is what its diagnostics call it."""
    try:
        source, seen = read_source(path, name)
    except OSError as error:
        source, seen = SourceText(name, ""), reading.unreadable_file(*_why(path, name, error))
    return WorkflowDraft(source, None, tuple(seen)) if seen else parse_workflow(source)


def read_source(path: Path, name: str) -> tuple[SourceText, list[RuleHit]]:
    """The text of a file, or what is wrong with it: too large, binary, or not UTF-8. Raises OSError."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return SourceText(name, ""), reading.too_large(START, f'"{name}" is too large', "1 MiB")
    if b"\0" in data:
        return SourceText(name, ""), reading.unreadable_file(START, f'"{name}" is not text but binary data')
    try:
        return decode(name, data), []
    except UnicodeDecodeError as error:
        return _not_utf8(name, data, error)


def read_text(path: Path, help: str) -> str:
    """The text of a file that somebody named, or an error that says why it cannot be had."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError as error:
        why = f"it is not UTF-8: {error.reason} at byte {error.start}"
    raise AwfError(f'"{path}" cannot be read: {why}', help=help)


def workflow_files(directory: Path) -> list[Path]:
    """Every workflow file in a directory and below it, in order."""
    return sorted(_walk(directory))


def _walk(directory: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name not in _NEVER_SEARCHED]
        yield from (Path(folder, name) for name in names if name.endswith(SUFFIX))


def _why(path: Path, name: str, error: OSError) -> tuple[Span, str, str]:
    match error:
        case FileNotFoundError():
            beside = did_you_mean(path.name, sorted(one.name for one in path.parent.glob(f"*{SUFFIX}")))
            help = beside or 'see "awf workflows" for the workflows that are found by name'
            return START, f'there is no file "{name}"', help
        case IsADirectoryError():
            return START, f'"{name}" is a directory', f'name a file in it that ends in "{SUFFIX}"'
        case PermissionError():
            return START, f'"{name}" may not be read', "give yourself permission to read it: chmod u+r"
        case _:
            return START, f'"{name}" cannot be read: {error.strerror or error}', "name a file that you may read"


def _not_utf8(name: str, data: bytes, error: UnicodeDecodeError) -> tuple[SourceText, list[RuleHit]]:
    before = data[: error.start].decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    source = SourceText(name, before + "\N{REPLACEMENT CHARACTER}")
    at = Span(len(before), len(before) + 1)
    message = f"this is not UTF-8 text: the byte 0x{data[error.start]:02x} has no meaning here"
    return source, reading.unreadable_file(at, message, "save the file as UTF-8")
