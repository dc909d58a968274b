"""What a program writes: kept on disk up to a limit, in memory only its last lines and the line being read.

Secrets are taken out before anything is kept or handed on.
"""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.redaction import Redactor, unfinished_key

TAIL_LINES = 30
TAIL_BYTES = 4096
LONGEST_LINE = 8 * 1024 * 1024
LONGEST_HELD = 64 * 1024  # bytes held back for the sake of a line or a private key that does not end
_CONTINUATION = bytes(range(0x80, 0xC0))  # a cut through a character leaves these at the front


class Spool:
    """A file that takes the first `limit` bytes it is given, counts the rest, and remembers how it all ended."""

    def __init__(self, path: Path, limit: int) -> None:
        self.path = path
        self._file = path.open("wb")
        self._limit = self._room = limit
        self._dropped = 0
        self._kept_end = b""
        self._tail = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            if self.truncated:
                self._file.write(self._note())

    @property
    def truncated(self) -> bool:
        """Whether some of the output was not kept."""
        return self._dropped > 0

    def write(self, data: bytes) -> None:
        """Take what was written next; it can be read from the file at once."""
        if kept := data[: self._room]:
            self._file.write(kept)
            self._file.flush()
            self._kept_end = kept[-1:]
        self._room -= len(kept)
        self._dropped += len(data) - len(kept)
        self._tail = (self._tail + data[-TAIL_BYTES - 1 :])[-TAIL_BYTES - 1 :]

    def tail(self) -> str:
        """The last 30 lines of all that was written, at most 4 KB of it."""
        cut = len(self._tail) > TAIL_BYTES
        data = self._tail[1:].lstrip(_CONTINUATION) if cut else self._tail
        lines = data.decode(errors="replace").removesuffix("\n").split("\n")
        text = "\n".join(lines[-TAIL_LINES:])
        return text.encode()[-TAIL_BYTES:].decode(errors="ignore")  # a replacement is longer than what it replaces

    def _note(self) -> bytes:
        start = "" if self._kept_end in (b"", b"\n") else "\n"
        return f"{start}[{self._dropped} more bytes were not kept: the limit is {self._limit}]\n".encode()


class LineSplitter:
    """Cuts what it is fed into lines at LF bytes and nowhere else; a line that is too long is replaced by a mark."""

    def __init__(self, on_line: Callable[[bytes], None], longest: int = LONGEST_LINE) -> None:
        self._on_line = on_line
        self._longest = longest
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, data: bytes) -> None:
        """Take what was written next, and hand on every line that it completes."""
        *complete, rest = data.split(b"\n")
        for part in complete:
            self._keep(part)
            self._hand_on()
        self._keep(rest)

    def finish(self) -> None:
        """Hand on what came after the last LF, if anything did."""
        if self._length:
            self._hand_on()

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._longest:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _hand_on(self) -> None:
        skipped = self._length > self._longest
        line = b"[a line of %d bytes was skipped]" % self._length if skipped else b"".join(self._parts)
        self._parts, self._length = [], 0
        self._on_line(line)


class RedactionFilter:
    """Takes the secrets out of what it is fed and hands on the rest, whole lines at a time.

    A line that does not end is handed on but for its end, in which a secret may have begun; a private key that does not
    end is handed on as a mark, again and again.
    """

    def __init__(self, redactor: Redactor, *sinks: Callable[[bytes], None]) -> None:
        self._redactor = redactor
        self._sinks = sinks
        self._overlap = redactor.overlap
        self._held = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._hand_on_all()

    def feed(self, data: bytes) -> None:
        """Take what was written next, and hand on every line that it completes."""
        self._held += data
        if b"\n" in data or self._too_long():
            data, cut = self._redactor.redact_prefix(bytes(self._held), self._end())
            del self._held[:cut]
            self._hand_on(data)
        if self._too_long():
            key = unfinished_key(bytes(self._held))
            self._hand_on_all()
            self._held += key

    def _too_long(self) -> bool:
        return len(self._held) > LONGEST_HELD + self._overlap

    def _end(self) -> int:
        """How far all is known: to the last LF, or in a line without end, as far as no secret can have begun."""
        line = self._held.rfind(b"\n") + 1
        return len(self._held) - self._overlap if len(self._held) - line > LONGEST_HELD + self._overlap else line

    def _hand_on_all(self) -> None:
        data = self._redactor.data(bytes(self._held))
        self._held.clear()
        self._hand_on(data)

    def _hand_on(self, data: bytes) -> None:
        if data:
            for take in self._sinks:
                take(data)
