"""Reading the text of a workflow or settings file."""

from pathlib import Path

from pipeline.language.diagnostics import RuleHit
from pipeline.language.reader import MAX_BYTES, TOO_LARGE, UNREADABLE_FILE
from pipeline.language.source import START, SourceText, Span, decode
from pipeline.text import REPLACEMENT


def read_source(path: Path, name: str) -> tuple[SourceText, list[RuleHit]]:
    """Return the text of a file, or why it has none: too large, binary, or not UTF-8. Raises OSError."""
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
        source = SourceText(name, before + REPLACEMENT)
        message = f"invalid UTF-8: byte 0x{data[error.start]:02x}"
        span = Span(len(before), len(before) + 1)
        return source, [UNREADABLE_FILE.hit(span, message, "save the file as UTF-8")]
