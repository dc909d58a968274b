"""What a program writes: redacted, kept on disk up to a limit, and passed on line by line.

In memory are only the last lines and the line being read.
"""

import json
from codecs import getincrementaldecoder
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pipeline.engine.ports import FindPiece, LogFate, TextPiece
from pipeline.redaction import Redactor, unfinished_key

TAIL_LINES = 30
TAIL_BYTES = 4096
LONGEST_LINE = 8 * 1024 * 1024
LONGEST_HELD = 64 * 1024  # bytes held back of a line or a private key that does not end
_CONTINUATION = bytes(range(0x80, 0xC0))  # a cut through a UTF-8 character leaves these at the front


class Spool:
    """A file that keeps the first `limit` bytes, counts the rest, and remembers the end of everything written."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._file = path.open("wb")
        self._limit = self._room = limit
        self._dropped = 0
        self._last_kept = b""
        self._tail = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            if self.truncated:
                start = "" if self._last_kept in (b"", b"\n") else "\n"
                note = f"{start}[{self._dropped} more bytes were not kept: the limit is {self._limit}]\n"
                self._file.write(note.encode())

    @property
    def truncated(self) -> bool:
        """Whether some of the output was not kept."""
        return self._dropped > 0

    def write(self, data: bytes) -> None:
        """Add data, which can be read from the file at once."""
        if kept := data[: self._room]:
            self._file.write(kept)
            self._file.flush()
            self._last_kept = kept[-1:]
        self._room -= len(kept)
        self._dropped += len(data) - len(kept)
        self._tail = (self._tail + data[-TAIL_BYTES - 1 :])[-TAIL_BYTES - 1 :]

    def tail(self) -> str:
        """The last 30 lines of everything written, at most 4 KB."""
        data = self._tail[1:].lstrip(_CONTINUATION) if len(self._tail) > TAIL_BYTES else self._tail
        lines = data.decode(errors="replace").removesuffix("\n").split("\n")
        text = "\n".join(lines[-TAIL_LINES:])
        return text.encode()[-TAIL_BYTES:].decode(errors="ignore")  # a replacement is longer than what it replaces


class LineSplitter:
    """Passes on lines, ended by LF alone. A line that is too long is replaced by a note."""

    def __init__(self, on_line: Callable[[bytes], None], longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> None:
        """Add data, and pass on every line that it completes."""
        *complete, rest = data.split(b"\n")
        for part in complete:
            self._add(part)
            self._pass_on()
        self._add(rest)

    def finish(self) -> None:
        """Pass on what came after the last LF, if anything did."""
        if self._length:
            self._pass_on()

    def _add(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._longest:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _pass_on(self) -> None:
        too_long = self._length > self._longest
        line = b"[a line of %d bytes was skipped]" % self._length if too_long else b"".join(self._parts)
        self._parts, self._length = [], 0
        self._on_line(line)


class RedactionFilter:
    """Redacts a stream and passes it on, whole lines at a time.

    A line that does not end is passed on except for its end, where a secret may have started. A private key that does
    not end is passed on as one mark after another.
    """

    def __init__(self, redactor: Redactor, *sinks: Callable[[bytes], None]) -> None:
        self._redactor = redactor
        self._sinks = sinks
        self._overlap = redactor.overlap
        self._held = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish()

    def feed(self, data: bytes) -> None:
        """Add data, and pass on every line that it completes."""
        longest = LONGEST_HELD + self._overlap
        self._held += data
        if b"\n" in data or len(self._held) > longest:
            line = self._held.rfind(b"\n") + 1
            end = line if len(self._held) - line <= longest else len(self._held) - self._overlap
            redacted, cut = self._redactor.redact_prefix(bytes(self._held), end)
            del self._held[:cut]
            self._pass_on(redacted)
        if len(self._held) > longest:
            key = unfinished_key(bytes(self._held))
            self.finish()
            self._held += key

    def finish(self) -> None:
        """Pass on what was held back."""
        data = self._redactor.data(bytes(self._held))
        self._held.clear()
        self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        if data:
            for sink in self._sinks:
                sink(data)


class _JoinedText:
    """A text so far: redacted, except for its end."""

    def __init__(self, redactor: Redactor) -> None:
        self.message: dict[str, Any] = {}  # the last that held a piece of it
        self._redacted = bytearray()
        self._filter = RedactionFilter(redactor, self._redacted.extend)
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def add(self, piece: str) -> bool:
        """Add a piece; returns whether there is enough for a line."""
        self._filter.feed(piece.encode(errors="replace"))
        return len(self._redacted) > LONGEST_HELD

    def take(self, *, final: bool = False) -> str:
        """What is redacted of it and was not taken yet; all of it if this is the end."""
        if final:
            self._filter.finish()
        text = self._decoder.decode(bytes(self._redacted), final)
        self._redacted.clear()
        return text


class TextJoiner:
    """Passes on lines of JSON, with the pieces of a text joined in one line: a secret may be in none of them alone.

    A text that is very long is passed on in several lines, none of which ends within a secret.
    """

    def __init__(self, redactor: Redactor, find_piece: FindPiece, sink: Callable[[bytes], None]) -> None:
        self._redactor = redactor
        self._find_piece = find_piece
        self._sink = sink
        self._lines = LineSplitter(self._read_line)
        self._texts: dict[TextPiece, _JoinedText] = {}
        self.feed = self._lines.feed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lines.finish()
        self._end_texts()

    def _read_line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        found = self._find_piece(message) if isinstance(message, dict) else LogFate.KEEP
        if isinstance(found, TextPiece):
            text = self._texts.setdefault(found, _JoinedText(self._redactor))
            text.message = message
            if text.add(_parent(message, found)[found.path[-1]]):
                self._pass_on(found, message, text.take())
            return
        if found is LogFate.END:
            self._end_texts()
        if found is not LogFate.SKIP:
            self._sink(line + b"\n")

    def _end_texts(self) -> None:
        for piece, text in self._texts.items():
            if rest := text.take(final=True):
                self._pass_on(piece, text.message, rest)
        self._texts.clear()

    def _pass_on(self, piece: TextPiece, message: dict[str, Any], text: str) -> None:
        _parent(message, piece)[piece.path[-1]] = text
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        self._sink(line.encode(errors="replace") + b"\n")


def _parent(message: dict[str, Any], piece: TextPiece) -> dict[str, Any]:
    """The object that holds a piece."""
    return reduce(lambda inner, name: inner[name], piece.path[:-1], message)
