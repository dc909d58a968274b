"""The files that claims are checked against. Nothing outside the repository is ever opened, whatever a path says."""

import os
import stat
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.model import Category, Confidence, Evidence, Location, RawFinding
from pipeline.findings.normalize import PathRefused, Worded, legible, normalise, shown, title_key
from pipeline.findings.scales import confidence_from_anchor

LARGEST = 4 * 1024 * 1024  # bytes of a file that is looked at
_FILES_HELD = 32  # files in memory; claims are looked at file by file
_KNOWN = 65_536  # paths whose place is remembered


class SourceFiles(Protocol):
    """The files of the repository as they are now."""

    def lines(self, path: str) -> Sequence[str] | None:
        """The lines of a file; None when there is no such file, or none that can be read."""
        ...

    def outside(self, path: str) -> bool:
        """Whether a path leads out of the repository, as a link can."""
        ...


class MemoryFiles:
    """Files that are only in memory: path to text."""

    def __init__(self, files: Mapping[str, str] | None = None) -> None:
        self._files = dict(files or {})

    def lines(self, path: str) -> Sequence[str] | None:
        """The lines of a file."""
        text = self._files.get(path)
        return None if text is None else split(text)

    def outside(self, path: str) -> bool:
        """Whether the path itself leads out: there are no links here."""
        return isinstance(normalise(path), PathRefused)


class RepositoryFiles:
    """The regular files under a directory; links are followed as long as they stay in it."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._read = lru_cache(maxsize=_FILES_HELD)(self._lines)
        self._found = lru_cache(maxsize=_KNOWN)(self._place)

    def lines(self, path: str) -> Sequence[str] | None:
        """The lines of a file; None for anything but a regular file of the repository that is not too large."""
        return self._read(path)

    def outside(self, path: str) -> bool:
        """Whether the path leads out of the directory, by its own words or by a link."""
        return self._found(path) is None

    def _place(self, path: str) -> str | None:
        normal = normalise(path)
        if isinstance(normal, PathRefused):
            return None
        place = os.path.realpath(os.path.join(self._root, normal))  # noqa: PTH118 - `Path.resolve` raises for a loop
        inside = place == self._root or place.startswith(self._root.rstrip("/") + "/")
        return place if inside else None

    def _lines(self, path: str) -> tuple[str, ...] | None:
        place = self._found(path)
        content = _content(place) if place is not None else None
        return None if content is None else tuple(split(content.decode(errors="replace")))


def split(text: str) -> list[str]:
    """The lines of a text as editors count them: a form feed or a Unicode separator begins none."""
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _content(place: str) -> bytes | None:
    """What a regular file holds. Opening never waits, as it would for the other end of a pipe."""
    try:
        with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(file.fileno())
            fit = stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST
            return file.read(LARGEST) if fit else None
    except OSError:  # not there, a directory, or not ours to read: either way, no file to check against
        return None


AWAY = 30  # lines that a quotation may stand from where it is said to be
_LONG = 4096  # characters of a line that are looked at
_WIDE = 400  # lines of a cited range that are looked at

Span = tuple[int, int]  # first and last line, counted from 1


class Text:
    """The lines of a file, ready to be searched."""

    __slots__ = ("_numbers", "_starts", "_text", "length")

    def __init__(self, lines: Sequence[str]) -> None:
        self.length = len(lines)
        self._numbers: list[int] = []  # of the lines that are not blank
        self._starts: list[int] = []  # where each of them begins in `_text`
        plain: list[str] = []
        place = 0
        for number, line in enumerate(lines, 1):
            if kept := compact(line[:_LONG]):
                self._numbers.append(number)
                self._starts.append(place)
                plain.append(kept)
                place += len(kept) + 1
        self._text = " ".join(plain)

    def near(self, needle: str, cited: Span) -> Span | None:
        """Where a compacted quotation stands, as close to the cited lines as can be, and not too far from them."""
        last = min(cited[1], cited[0] + _WIDE)
        here, low, high = self._offset(cited[0]), self._offset(cited[0] - AWAY), self._offset(last + AWAY + 1)
        after = self._text.find(needle, here, high + len(needle))
        before = self._text.rfind(needle, low, here + len(needle) - 1)
        spans = [self._span(place, needle) for place in (before, after) if place >= 0]
        close = [span for span in spans if _distance(span, cited) <= AWAY]
        return min(close, key=lambda span: (_distance(span, cited), span), default=None)

    def anywhere(self, needle: str) -> tuple[Span, bool] | None:
        """Where a compacted quotation stands first, and whether it stands nowhere else."""
        place = self._text.find(needle)
        if place < 0:
            return None
        return self._span(place, needle), self._text.find(needle, place + 1) < 0

    def _offset(self, number: int) -> int:
        """Where the first line that is not blank, from one on, begins."""
        index = bisect_left(self._numbers, number)
        return self._starts[index] if index < len(self._starts) else len(self._text)

    def _span(self, place: int, needle: str) -> Span:
        first = bisect_right(self._starts, place) - 1
        last = bisect_right(self._starts, place + len(needle) - 1) - 1
        return self._numbers[first], self._numbers[last]


def compact(text: str) -> str:
    """A text with single spaces."""
    return " ".join(text.split())


def needle_of(quote: str) -> str:
    """What to look for: the quotation without spacing and the marks of a diff; empty when it has no word."""
    text = quote[:QUOTE]
    lines = [line for line in text.split("\n") if line.strip()]
    if lines and all(line.startswith("+") and not line.startswith("++") for line in lines):
        text = "\n".join(line[1:] for line in lines)
    needle = compact(text)
    return needle if any(letter.isalnum() for letter in needle) else ""


def _distance(span: Span, cited: Span) -> int:
    """How many lines lie between two ranges; 0 when they touch."""
    return max(0, span[0] - cited[1], cited[0] - span[1])


ELSEWHERE = frozenset({Category.PRODUCT, Category.REQUIREMENT})  # what may be about a work item, not code


@dataclass(frozen=True, slots=True)
class Lines:
    """A range of lines that makes sense, or none, and what was wrong with it."""

    span: Span | None
    note: str = ""
    lost: bool = False  # the file has no such line


def named(claim: RawFinding) -> Iterator[Location | Evidence]:
    """All that a claim says of files, the place it is about first."""
    yield from (item for item in claim.locations if item.path)
    yield from (item for item in claim.evidence if item.path)


def with_paths(worded: Worded, sources: SourceFiles) -> Worded | PathRefused:
    """A claim whose paths are all of the repository."""
    claim = worded.claim
    paths = {path: _path(path, claim, sources) for path in dict.fromkeys(item.path for item in named(claim))}
    first = next(iter(paths.values()), "")
    if isinstance(first, PathRefused):
        return first
    notes = (*worded.notes, *(path.reason for path in paths.values() if isinstance(path, PathRefused)))
    locations = tuple(_location(item, paths) for item in claim.locations if isinstance(paths.get(item.path), str))
    evidence = tuple(_clean_evidence(item, paths) for item in claim.evidence)
    if locations == claim.locations and evidence == claim.evidence:
        return worded
    return Worded(replace(claim, locations=locations, evidence=evidence), notes)


def read_lines(start: int | None, end: int | None, length: int | None = None) -> Lines:
    """Both ends or neither, the first before the last, and within the file where its length is known."""
    if start is None or start < 1:
        return Lines(None, f"it gives line {end} as an end, and no beginning" if end is not None and end > 0 else "")
    last = start if end is None or end < 1 else end
    if last < start:
        start, last, note = last, start, f"its lines {start}-{last} were read as {last}-{start}"
    else:
        note = ""
    if length is not None and start > length:
        return Lines(None, f"line {start} is beyond the end of the file, which has {length}", lost=True)
    if length is not None and last > length:
        return Lines((start, length), f"its last line, {last}, is beyond the end of the file, which has {length}")
    return Lines((start, last), note)


def _path(path: str, claim: RawFinding, sources: SourceFiles) -> str | PathRefused:
    work_item = claim.category in ELSEWHERE
    normal = normalise(path, work_item=work_item)
    if isinstance(normal, PathRefused) or (work_item and "://" in normal):
        return normal
    if sources.outside(normal):
        return PathRefused(f"the path {shown(path)} leads out of the repository by a link")
    return normal


def _location(item: Location, paths: Mapping[str, str | PathRefused]) -> Location:
    path, symbol = paths[item.path], legible(item.symbol)
    if isinstance(path, PathRefused) or (path, symbol) == (item.path, item.symbol):
        return item
    return Location(path=path, start=item.start, end=item.end, symbol=symbol)


def _clean_evidence(item: Evidence, paths: Mapping[str, str | PathRefused]) -> Evidence:
    """Evidence under its path, with a quotation of the right length; what is cut off stays in `raw`.

    Of evidence from outside the repository only the words are kept.
    """
    path, quote, raw = paths.get(item.path, ""), legible(item.quote), legible(item.raw)
    if isinstance(path, PathRefused):
        return Evidence(raw=raw or quote)
    if len(quote) > QUOTE:
        quote, raw = quote[:QUOTE], raw or quote
    symbol = legible(item.symbol)
    if (path, quote, raw, symbol) == (item.path, item.quote, item.raw, item.symbol):
        return item
    return Evidence(path=path, start=item.start, end=item.end, symbol=symbol, quote=quote, raw=raw)


UNQUOTED = 50  # the most confidence in a claim whose quotation is not in the file
_HELD = 32  # files in memory
_SCALES = frozenset({"", "anchor", "fraction", "word"})  # of reviewers; any other is a tool's


@dataclass(frozen=True, slots=True)
class Placed:
    """A claim whose places are checked, and how it stood the check."""

    claim: RawFinding  # as it was before the check
    place: Location  # where it is first of all; without a path when it names none
    locations: tuple[Location, ...]
    evidence: tuple[Evidence, ...]
    confidence: Confidence  # what the check left of it
    sure: bool  # whether it has a hold in the code, or needs none
    title: str  # what titles are compared by
    notes: tuple[str, ...] = ()

    @property
    def by_tool(self) -> bool:
        """Whether a program said so: its lines are exact, and it sees what it reports."""
        return self.claim.confidence.scale not in _SCALES

    @property
    def checked(self) -> RawFinding:
        """The claim as the check left it."""
        return replace(self.claim, locations=self.locations, evidence=self.evidence, confidence=self.confidence)

    @property
    def order(self) -> tuple[object, ...]:
        """Where it stands among claims, whatever order they came in."""
        claim, place = self.claim, self.place
        return (
            place.path, place.start or 0, place.end or 0, self.title, claim.title, claim.severity.rank,
            -self.confidence.value, claim.category, claim.reviewer, claim.input_id, claim.impact, claim.fix or "",
        )  # fmt: skip


class Texts:
    """The files that claims speak of, each made searchable once while claims about it come one after another."""

    def __init__(self, sources: SourceFiles) -> None:
        self._sources = sources
        self._held: OrderedDict[str, Text | None] = OrderedDict()

    def of(self, path: str) -> Text | None:
        """A file; None when there is none to check against."""
        if path not in self._held:
            lines = self._sources.lines(path) if path else None
            self._held[path] = None if lines is None else Text(lines)
            if len(self._held) > _HELD:
                self._held.popitem(last=False)
        return self._held[path]


@dataclass(frozen=True, slots=True)
class _Held:
    """A piece of evidence after it was looked for."""

    item: Evidence
    found: bool | None = None  # None when there was nothing to check
    moved: tuple[Span, Span] | None = None  # from the cited lines to those that it is on
    note: str = ""


def place(worded: Worded, texts: Texts, *, quote_the_line: bool = False) -> Placed:
    """A claim held against the files. `quote_the_line` asks that its first evidence is a line of the file."""
    claim = worded.claim
    spot, lines = _spot(claim, texts)
    held = [_hold(item, spot, texts) for item in claim.evidence]
    spot = _corrected(spot, held)
    found = next((item.found for item in held if item.found is not None), None)
    if quote_the_line and claim.confidence.scale == "anchor" and not _first_is_a_line(claim, spot, held, texts):
        found = False
    trusted = _Trust(found=found, there=texts.of(spot.path) is not None, lost=lines.lost)
    notes = [*worded.notes, lines.note, *(item.note for item in held), *trusted.notes(claim)]
    return Placed(
        claim=claim,
        place=spot,
        locations=_locations(claim, spot, texts),
        evidence=_evidence(held, spot),
        confidence=trusted.confidence(claim),
        sure=trusted.sure(claim),
        title=title_key(claim.title),
        notes=tuple(filter(None, notes)),
    )


@dataclass(frozen=True, slots=True)
class _Trust:
    """What the check came to, and what it leaves of a claim."""

    found: bool | None  # whether the file has what is quoted; None when nothing could be looked for
    there: bool  # whether there is such a file
    lost: bool  # whether it has no such line

    def sure(self, claim: RawFinding) -> bool:
        if self.found is not None:
            return self.found
        if self.there:
            return not self.lost
        return claim.category in ELSEWHERE or claim.confidence.scale not in _SCALES

    def confidence(self, claim: RawFinding) -> Confidence:
        return confidence_from_anchor(UNQUOTED) if self._lowered(claim) else claim.confidence

    def notes(self, claim: RawFinding) -> Iterator[str]:
        if self._lowered(claim):
            said = claim.confidence.value
            yield f"confidence lowered from {said} to {UNQUOTED}: the file does not say what it quotes"
        if not self.sure(claim) and not claim.unreadable:
            yield "uncertain: nothing in the code could be held against it"

    def _lowered(self, claim: RawFinding) -> bool:
        return self.found is False and claim.confidence.value > UNQUOTED


def _spot(claim: RawFinding, texts: Texts) -> tuple[Location, Lines]:
    """Where a claim is first of all, and what is to be said of its lines."""
    first = next(named(claim), None)
    if first is None:
        return Location(path=""), Lines(None)
    symbol = first.symbol or next((item.symbol for item in claim.evidence if item.path == first.path), "")
    text = texts.of(first.path)
    lines = read_lines(first.start, first.end, text.length if text else None)
    start, end = lines.span or (None, None)
    return Location(path=first.path, start=start, end=end, symbol=symbol), lines


def _hold(item: Evidence, spot: Location, texts: Texts) -> _Held:
    """Look for what is quoted, where it is said to be and around it."""
    text = texts.of(item.path or spot.path)
    lines = read_lines(item.start, item.end, text.length if text else None)
    needle = needle_of(item.quote)
    if text is None or not needle:
        return _Held(_on(item, item.path, lines.span))
    cited = lines.span or (_span(spot) if item.path in ("", spot.path) else None)
    found, span = _look(text, needle, cited)
    if not found:  # words that name no file need not be in one
        return _Held(_on(item, item.path, lines.span), False if item.path else None)
    on = _on(item, item.path or spot.path, span or lines.span)
    if span is None or cited is None or span == cited:
        return _Held(on, found=True)
    note = f"line {cited[0]} was corrected to {span[0]}, where what it quotes stands"
    return _Held(on, found=True, moved=(cited, span), note=note)


def _look(text: Text, needle: str, cited: Span | None) -> tuple[bool, Span | None]:
    """Whether a quotation is there, and the lines that are meant, where that is sure."""
    if cited is None:
        hit = text.anywhere(needle)
        return hit is not None, hit[0] if hit and hit[1] else None
    span = text.near(needle, cited)
    if span is None:
        return False, None
    if span[0] <= cited[1] and span[1] >= cited[0]:
        return True, cited
    return True, (span[0], min(max(span[1], span[0] + cited[1] - cited[0]), text.length))


def _corrected(spot: Location, held: list[_Held]) -> Location:
    """The first place, on the lines of its evidence where it has none of its own or cites the same wrong ones."""
    cited = _span(spot)
    for held_item in held:
        item = held_item.item
        moved = held_item.moved is not None and held_item.moved[0] == cited
        if item.path == spot.path and item.start and (moved or (cited is None and held_item.found is not False)):
            return replace(spot, start=item.start, end=item.end)
    return spot


def _locations(claim: RawFinding, spot: Location, texts: Texts) -> tuple[Location, ...]:
    if not spot.path:
        return ()
    return (spot, *(_tidy(item, texts) for item in claim.locations[1:]))


def _tidy(item: Location, texts: Texts) -> Location:
    text = texts.of(item.path)
    start, end = read_lines(item.start, item.end, text.length if text else None).span or (None, None)
    return item if (start, end) == (item.start, item.end) else replace(item, start=start, end=end)


def _evidence(held: list[_Held], spot: Location) -> tuple[Evidence, ...]:
    """All evidence; a claim that names a place has a piece that refers to it."""
    items = tuple(item.item for item in held)
    if not spot.path or any(item.path == spot.path for item in items):
        return items
    return (Evidence(path=spot.path, start=spot.start, end=spot.end, symbol=spot.symbol), *items)


def _first_is_a_line(claim: RawFinding, spot: Location, held: list[_Held], texts: Texts) -> bool:
    text = texts.of(spot.path)
    if text is None or (held and held[0].found):
        return True
    needle = needle_of(claim.evidence[0].raw) if claim.evidence else ""
    return bool(needle) and _look(text, needle, _span(spot))[0]


def _on(item: Evidence, path: str, span: Span | None) -> Evidence:
    start, end = span or (None, None)
    if (item.path, item.start, item.end) == (path, start, end):
        return item
    return replace(item, path=path, start=start, end=end)


def _span(location: Location) -> Span | None:
    return None if location.start is None else (location.start, location.end or location.start)
