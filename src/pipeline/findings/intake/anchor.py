"""Holding a claim against the real file: is there such a file, such a line, and does it say what is quoted?

A line that is cited wrongly is corrected. A quotation that the file does not have lowers the confidence, before anybody
agrees with it. Nothing is dropped for that.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from pipeline.findings.claims import Claim
from pipeline.findings.intake.files import CurrentSources
from pipeline.findings.intake.places import ELSEWHERE, Lines, named, read_lines
from pipeline.findings.intake.quotes import Span, Text, needle_of
from pipeline.findings.intake.wording import Worded, title_key
from pipeline.findings.model import Confidence, Evidence, Location
from pipeline.findings.scales import of_anchor

UNQUOTED = 50  # the most confidence in a claim whose quotation is not in the file
_HELD = 32  # files in memory
_SCALES = frozenset({"", "anchor", "fraction", "word"})  # of reviewers; any other is a tool's


@dataclass(frozen=True, slots=True)
class Placed:
    """A claim whose places are checked, and how it stood the check."""

    claim: Claim  # as it was before the check
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
    def checked(self) -> Claim:
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

    def __init__(self, sources: CurrentSources) -> None:
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

    def sure(self, claim: Claim) -> bool:
        if self.found is not None:
            return self.found
        if self.there:
            return not self.lost
        return claim.category in ELSEWHERE or claim.confidence.scale not in _SCALES

    def confidence(self, claim: Claim) -> Confidence:
        return of_anchor(UNQUOTED) if self._lowered(claim) else claim.confidence

    def notes(self, claim: Claim) -> Iterator[str]:
        if self._lowered(claim):
            said = claim.confidence.value
            yield f"confidence lowered from {said} to {UNQUOTED}: the file does not say what it quotes"
        if not self.sure(claim) and not claim.unreadable:
            yield "uncertain: nothing in the code could be held against it"

    def _lowered(self, claim: Claim) -> bool:
        return self.found is False and claim.confidence.value > UNQUOTED


def _spot(claim: Claim, texts: Texts) -> tuple[Location, Lines]:
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


def _locations(claim: Claim, spot: Location, texts: Texts) -> tuple[Location, ...]:
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


def _first_is_a_line(claim: Claim, spot: Location, held: list[_Held], texts: Texts) -> bool:
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
