"""The places that a claim names, before any file is read: paths of the repository, and lines that make sense.

A claim is refused for the first place it names; a later one that is none of the repository is left out and noted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pipeline.findings.claims import Claim
from pipeline.findings.intake.files import CurrentSources
from pipeline.findings.intake.paths import PathRefused, normalise, shown
from pipeline.findings.intake.quotes import Span
from pipeline.findings.intake.wording import Worded, legible
from pipeline.findings.model import Category, Evidence, Location
from pipeline.findings.signature import QUOTE

ELSEWHERE = frozenset({Category.PRODUCT, Category.REQUIREMENT})  # what may be about a work item, not code


@dataclass(frozen=True, slots=True)
class Lines:
    """A range of lines that makes sense, or none, and what was wrong with it."""

    span: Span | None
    note: str = ""
    lost: bool = False  # the file has no such line


def named(claim: Claim) -> Iterator[Location | Evidence]:
    """All that a claim says of files, the place it is about first."""
    yield from (item for item in claim.locations if item.path)
    yield from (item for item in claim.evidence if item.path)


def with_paths(worded: Worded, sources: CurrentSources) -> Worded | PathRefused:
    """A claim whose paths are all of the repository."""
    claim = worded.claim
    paths = {path: _path(path, claim, sources) for path in dict.fromkeys(item.path for item in named(claim))}
    first = next(iter(paths.values()), "")
    if isinstance(first, PathRefused):
        return first
    notes = (*worded.notes, *(path.reason for path in paths.values() if isinstance(path, PathRefused)))
    locations = tuple(_location(item, paths) for item in claim.locations if isinstance(paths.get(item.path), str))
    evidence = tuple(_evidence(item, paths) for item in claim.evidence)
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


def _path(path: str, claim: Claim, sources: CurrentSources) -> str | PathRefused:
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


def _evidence(item: Evidence, paths: Mapping[str, str | PathRefused]) -> Evidence:
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
