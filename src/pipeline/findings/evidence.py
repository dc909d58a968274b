"""Locations and quotations of a finding, checked against the files of the repository.

Wrong lines are corrected where the quotation is found. A quotation that is not found is noted; it neither lowers the
confidence nor filters anything.
"""

import os
import stat
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TypeVar

from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.model import STAGE, Category, Draft, Evidence, Location

MAX_FILE = 16 * 1024 * 1024  # bytes of a file that is checked against
WORK_ITEMS = frozenset({Category.PRODUCT, Category.REQUIREMENT})  # may be about a work item instead of a file
_FILES_KEPT = 32  # findings come file by file
_PATHS_KEPT = 65_536
_MAX_DISTANCE = 30  # lines between a quotation and where it is said to be
_MAX_LINE = 4096  # characters of a line that are searched
_MAX_CITED = 400  # lines of a cited range that are searched
_MIN_TELLING = 6  # characters: a shorter quotation is found anywhere

Span = tuple[int, int]  # first and last line, counted from 1
_Place = TypeVar("_Place", bound=Location)


def check_evidence(finding: Draft, files: "RepositoryFiles") -> Draft:
    """The finding with corrected lines, notes on what was not found, and `uncertain` if it points at no code."""
    first = next(named_places(finding), Location(path=""))
    symbol = first.symbol or next((item.symbol for item in finding.evidence if item.path == first.path), "")
    span, note = valid_lines(first.start, first.end, files.length(first.path))
    location = _with_lines(Location(path=first.path, symbol=symbol), span)
    checked = [_check_quotation(item, location, files) for item in finding.evidence]
    notes = [note, *(check.note for check in checked)]
    uncertain = not _points_at_code(finding, location, checked, files)
    if uncertain and not finding.unreadable:
        notes.append("uncertain: it points at no code")

    location = _correct_location(location, checked)
    others = (_with_lines(place, _valid_span(place, files, place.path)) for place in finding.locations[1:])
    evidence = tuple(check.item for check in checked)
    if location.path and not any(item.path == location.path for item in evidence):
        own = Evidence(path=location.path, start=location.start, end=location.end, symbol=location.symbol)
        evidence = (own, *evidence)
    return replace(
        finding,
        locations=(location, *others) if location.path else (),
        evidence=evidence,
        uncertain=uncertain,
        notes=(*finding.notes, *dict.fromkeys(filter(None, notes))),
    )


def _points_at_code(
    finding: Draft, location: Location, checked: Sequence["QuoteCheck"], files: "RepositoryFiles"
) -> bool:
    """Return whether a finding points at code, as a quotation does that is found, an existing line, or a file alone.

    A tool, a status and what is about a work item need no code.
    """
    if any(check.result is QuoteResult.FOUND for check in checked):
        return True
    if files.text(location.path) is None:
        return finding.by_tool or finding.category in WORK_ITEMS or STAGE in finding.tool_ids
    cited = next(named_places(finding)).start
    return location.start is not None or cited is None or cited < 1


def named_places(finding: Draft) -> Iterator[Location]:
    """Everything a finding says about files, the place it is about first."""
    yield from (place for place in finding.locations if place.path)
    yield from (item for item in finding.evidence if item.path)


def valid_lines(start: int | None, end: int | None, length: float = inf) -> tuple[Span | None, str]:
    """Both ends in order and within the file, or None; and a note on what was wrong."""
    if start is None or start < 1:
        return None, ""
    first = last = start
    note = ""
    if end is not None and end > 0:
        first, last = sorted((start, end))
    if first < start:
        note = f"lines {last}-{first} were read as {first}-{last}"
    if first > length:
        return None, f"line {first} is beyond the end of the file, which has {length}"
    if last > length:
        return (first, int(length)), f"the last line, {last}, is beyond the end of the file, which has {length}"
    return (first, last), note


class QuoteResult(Enum):
    """What became of looking for a quotation."""

    FOUND = "found"
    NOT_FOUND = "not found"
    NOT_LOOKED_FOR = "not looked for"  # there is nothing to look for, or nowhere to look


@dataclass(frozen=True, slots=True)
class QuoteCheck:
    """A piece of evidence on the lines of its quotation, and the lines that it cited."""

    item: Evidence
    result: QuoteResult
    cited: Span | None

    @property
    def note(self) -> str:
        """What is to be said of it."""
        if self.result is QuoteResult.NOT_FOUND:
            return "quote not found"
        if self.result is QuoteResult.FOUND and self.cited and _span(self.item) != self.cited:
            return f"line {self.cited[0]} corrected to {self.item.start}, where the quotation is"
        return ""


def _check_quotation(item: Evidence, location: Location, files: "RepositoryFiles") -> QuoteCheck:
    path = item.path or location.path
    text, quotation = files.text(path), search_text(item.quote)
    own = _valid_span(item, files, path)
    cited = own or (_span(location) if path == location.path else None)
    as_cited = QuoteCheck(_with_lines(item, own), QuoteResult.NOT_LOOKED_FOR, cited)
    if text is None or not quotation:
        return as_cited
    near = text.find_near(quotation, cited) if cited else None
    anywhere = None if cited else text.find_anywhere(quotation)
    if near is None and anywhere is None:  # words that name no file need not be in one
        return replace(as_cited, result=QuoteResult.NOT_FOUND) if item.path else as_cited
    span = None
    if near and cited:
        span = _cited_lines(near, cited, text.length)
    elif anywhere and anywhere[1]:
        span = anywhere[0]
    return QuoteCheck(_with_lines(replace(item, path=path), span), QuoteResult.FOUND, cited)


def _cited_lines(found: Span, cited: Span, length: int) -> Span:
    """The cited lines if the quotation touches them, else as many lines from where the quotation begins."""
    if found[0] <= cited[1] and found[1] >= cited[0]:
        return cited
    return found[0], min(max(found[1], found[0] + cited[1] - cited[0]), length)


def _correct_location(location: Location, checked: Iterable[QuoteCheck]) -> Location:
    """The location, moved to the lines of its evidence if it has no lines or cites the same wrong ones."""
    lines = _span(location)
    for check in checked:
        usable = check.result is QuoteResult.FOUND and check.cited == lines
        if lines is None:
            usable = check.result is not QuoteResult.NOT_FOUND
        if usable and check.item.path == location.path and check.item.start:
            return _with_lines(location, _span(check.item))
    return location


def _valid_span(place: Location, files: "RepositoryFiles", path: str) -> Span | None:
    return valid_lines(place.start, place.end, files.length(path))[0]


def _with_lines(place: _Place, span: Span | None) -> _Place:
    start, end = span or (None, None)
    return place if (start, end) == (place.start, place.end) else replace(place, start=start, end=end)


def _span(place: Location) -> Span | None:
    return None if place.start is None else (place.start, place.end or place.start)


# --- files and quotations --------------------------------------------------------------------------------------------


class RepositoryFiles:
    """The regular files below a directory. Links are followed as long as they stay in it; nothing else is opened."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self.lines = lru_cache(maxsize=_FILES_KEPT)(self._lines)
        self.text = lru_cache(maxsize=_FILES_KEPT)(self._text)
        self._resolve = lru_cache(maxsize=_PATHS_KEPT)(self._resolve_path)  # tools name a file many times

    def is_outside(self, path: str) -> bool:
        """Whether a path leads out of the directory, by its own words or by a link."""
        return self._resolve(path) is None

    def _lines(self, path: str) -> tuple[str, ...] | None:
        """The lines of a file; None for anything but a regular file of the repository that is not too large."""
        place = self._resolve(path) if path else None
        if place is None or place.startswith(f"{self._root}/.git/"):  # which may hold a password
            return None
        try:  # opening never waits, as it would for the other end of a pipe
            with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a descriptor
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE:
                    return None
                text = file.read(MAX_FILE).decode(errors="replace")
        except OSError:  # missing, a directory, or not readable: no file to check against
            return None
        return tuple(split_text(text))

    def _text(self, path: str) -> "SearchableText | None":
        """A file made searchable; None as above."""
        lines = self.lines(path)
        return None if lines is None else SearchableText(lines)

    def length(self, path: str) -> float:
        """How many lines a file has; without end if there is no such file."""
        text = self.text(path)
        return inf if text is None else text.length

    def _resolve_path(self, path: str) -> str | None:
        try:
            place = os.path.realpath(os.path.join(self._root, path))  # noqa: PTH118 - `Path.resolve` raises for a loop
        except ValueError:  # a NUL in it
            return None
        return place if place == self._root or place.startswith(self._root.rstrip("/") + "/") else None


def split_text(text: str) -> list[str]:
    """The lines of a text as editors count them: only a newline ends one."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


class SearchableText:
    """The lines of a file without their spacing. A search costs what the lines around the cited ones hold."""

    __slots__ = ("_numbers", "_starts", "_text", "length")

    def __init__(self, lines: Sequence[str]) -> None:
        self.length = len(lines)
        self._numbers: list[int] = []  # of the lines that are not blank
        self._starts: list[int] = []  # where each of them begins in `_text`
        compact: list[str] = []
        offset = 0
        for number, line in enumerate(lines, 1):
            if kept := " ".join(line[:_MAX_LINE].split()):
                self._numbers.append(number)
                self._starts.append(offset)
                compact.append(kept)
                offset += len(kept) + 1
        self._text = " ".join(compact)

    def find_near(self, quotation: str, cited: Span) -> Span | None:
        """The lines of a quotation as close to the cited ones as possible; None if it is too far from them."""
        last = min(cited[1], cited[0] + _MAX_CITED)
        here, low = self._offset(cited[0]), self._offset(cited[0] - _MAX_DISTANCE)
        high = self._offset(last + _MAX_DISTANCE + 1)
        after = self._text.find(quotation, here, high + len(quotation))
        before = self._text.rfind(quotation, low, here + len(quotation) - 1)
        spans = [self._span(offset, quotation) for offset in (before, after) if offset >= 0]
        close = [span for span in spans if _distance(span, cited) <= _MAX_DISTANCE]
        return min(close, key=lambda span: (_distance(span, cited), span), default=None)

    def find_anywhere(self, quotation: str) -> tuple[Span, bool] | None:
        """The first lines of a quotation, and whether it is there only once."""
        offset = self._text.find(quotation)
        if offset < 0:
            return None
        return self._span(offset, quotation), self._text.find(quotation, offset + 1) < 0

    def _offset(self, number: int) -> int:
        """Where the first line that is not blank, from this number on, begins."""
        index = bisect_left(self._numbers, number)
        return self._starts[index] if index < len(self._starts) else len(self._text)

    def _span(self, offset: int, quotation: str) -> Span:
        first = bisect_right(self._starts, offset) - 1
        last = bisect_right(self._starts, offset + len(quotation) - 1) - 1
        return self._numbers[first], self._numbers[last]


def search_text(quote: str) -> str:
    """A quotation without spacing and the marks of a diff, to search for; empty if it is too short to tell anything."""
    text = quote[:QUOTE]
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and all(line.startswith("+") and not line.startswith("++") for line in lines):
        text = "\n".join(line[1:] for line in lines)
    compact = " ".join(text.split())
    return compact if len(compact) >= _MIN_TELLING and any(map(str.isalnum, compact)) else ""


def _distance(span: Span, cited: Span) -> int:
    """How many lines lie between two ranges; 0 if they touch."""
    return max(0, span[0] - cited[1], cited[0] - span[1])
