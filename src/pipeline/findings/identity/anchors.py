"""A finding reduced to what it is recognised by, taken out of it once: matching compares these and nothing else."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from sys import intern

from pipeline.findings.identity.linemap import LineMap
from pipeline.findings.identity.texts import NTH, OURS, POSITIONS, TEXT, WINDOW, symbol_of
from pipeline.findings.model import Category, Finding
from pipeline.findings.signature import norm_quote, norm_title

_POSITION = re.compile(r"-[0-9a-f]{8}-\d+(?:-\d+)?$")  # how the id of a verdict file ends
_CARRIED = "awf/"  # how the names begin under which another format carries an id or a signature of ours
_STEM = 5  # letters: rotate and rotation are one word
_MUCH = 0.2  # of all the words of two titles: what two reviewers of one defect share
_TITLES = 4  # of those it was reported under
_EMPTY = frozenset(
    {
        *("a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "does", "for", "from", "has", "have"),
        *("if", "in", "into", "is", "it", "its", "may", "missing", "no", "not", "of", "on", "or", "possible"),
        *("potential", "should", "that", "the", "this", "to", "when", "where", "which", "with", "without"),
    }
)


@dataclass(frozen=True, slots=True)
class Anchor:
    """One finding, known or of this pass. For a known one, path and line are where git says they are now."""

    at: int  # its index
    sources: frozenset[str]
    unreadable: bool  # nobody knows what it says: it is recognised by its own text alone
    names: tuple[str, ...]  # that are its own wherever it stands
    ids: tuple[str, ...]  # that tools gave it
    loose: str  # a signature that holds no code: it says only that this is the n-th such finding of its file
    path: str
    line: int  # 0 for none
    mapped: bool  # git says that the line went here, or that what replaced it did
    kept: bool  # git says that the line is the same
    text: str
    distinctive: bool  # the text is not one that could stand anywhere
    once: bool  # no other line of its file has this text
    nth: str
    window: tuple[str, ...]
    symbol: str
    category: Category
    words: frozenset[str]  # of its titles
    claim: frozenset[str]  # those that do not just repeat its line
    active: bool


def of_draft(at: int, draft: Finding) -> Anchor:
    """The anchor of a finding of this pass."""
    place = draft.location
    return _anchor(at, draft, place.path if place else "", (place and place.start) or 0)


def of_known(at: int, known: Finding, lines: LineMap | None) -> Anchor:
    """The anchor of a known finding, moved to where its lines are now when that can be told."""
    place = known.location
    if place is None or lines is None:
        return _anchor(at, known, place.path if place else "", (place and place.start) or 0)
    path, line = lines.path(place.path), place.start or 0
    if not path or not line:  # of a deleted file, what was in it may have gone to another
        return _anchor(at, known, path or place.path, line)
    same = lines.line(place.path, line) is not None
    return _anchor(at, known, path, lines.guess(place.path, line), mapped=True, kept=same)


def _anchor(at: int, finding: Finding, path: str, line: int, *, mapped: bool = False, kept: bool = False) -> Anchor:
    prints = finding.fingerprints
    text = prints.get(TEXT, "")
    told = words((finding.title, *(vote.title for vote in finding.votes[-_TITLES:])))
    return Anchor(
        at=at,
        sources=frozenset(finding.sources),
        unreadable=bool(finding.unreadable),
        names=tuple(_names(finding)),
        ids=tuple(_ids(finding)),
        loose=finding.signature if is_loose(finding) else "",
        path=path,
        line=line,
        mapped=mapped,
        kept=kept,
        text=text,
        distinctive=bool(norm_quote(text)),
        once=prints.get(NTH) == "1/1",
        nth=prints.get(NTH, ""),
        window=tuple(map(intern, prints.get(WINDOW, "").split())),  # most lines are in several windows
        symbol=symbol_of(finding),
        category=finding.category,
        words=told,
        claim=_but(told, words((text,))),
        active=finding.state.active,
    )


def _but(told: frozenset[str], line: frozenset[str]) -> frozenset[str]:
    return told if told.isdisjoint(line) else told - line


@lru_cache(maxsize=1 << 14)  # titles and lines come again and again
def words(titles: tuple[str, ...]) -> frozenset[str]:
    """What titles are about: their words without endings, and without those that say nothing."""
    every = {word for title in titles for word in norm_title(title).split()}
    return frozenset(word[:_STEM] for word in every - _EMPTY)


def likeness(one: Anchor, other: Anchor) -> float:
    """How much two titles have in common, from 0 to 1."""
    shared = len(one.words & other.words)
    return shared / (len(one.words) + len(other.words) - shared) if shared else 0.0


def overlap(one: Anchor, other: Anchor) -> float:
    """How much of the code around one is around the other, from 0 to 1."""
    longest = max(len(one.window), len(other.window))
    if not longest:
        return 0.0
    left = list(other.window)
    for line in one.window:
        if line in left:
            left.remove(line)
    return (len(other.window) - len(left)) / longest


def agree(known: Anchor, draft: Anchor) -> bool:
    """Whether the two say much the same: a good part of it in the same words, or some of it of the same kind."""
    shared = bool(known.claim & draft.claim)
    return shared and (known.category == draft.category or likeness(known, draft) >= _MUCH)


def may_be(known: Anchor, draft: Anchor) -> bool:
    """Whether the two can be one defect. Neither the same place nor the same kind is enough."""
    return agree(known, draft) if known.category != draft.category else bool(known.words & draft.words)


def apart(known: Anchor, draft: Anchor) -> bool:
    """Whether the two cannot be one, wherever they stand: nobody said both, and they share no word."""
    if draft.unreadable:
        return True
    strangers = bool(known.sources and draft.sources) and known.sources.isdisjoint(draft.sources)
    return strangers and not known.claim & draft.claim


def _names(finding: Finding) -> Iterable[str]:
    """Signatures, aliases and tools' own ids. A name made of a position is another's as soon as lines move."""
    yield finding.id
    if not is_loose(finding):
        yield finding.signature
    positions = {finding.fingerprints.get(name, "") for name in POSITIONS}
    for alias in finding.aliases:
        if alias not in positions and not _POSITION.search(alias) and alias != finding.signature:
            yield alias
    yield from (value for name, value in finding.fingerprints.items() if value and name.startswith(_CARRIED))


def _ids(finding: Finding) -> Iterable[str]:
    """What tools call it, within its kind: they give two rules on one line the same."""
    for name, value in finding.fingerprints.items():
        if value and name not in OURS and not name.startswith(_CARRIED):
            yield f"{finding.category}\0{name}\0{value}"


def is_loose(finding: Finding) -> bool:
    """Whether a finding names files but quotes no code: its signature then says nothing of which line it is about."""
    return bool(finding.evidence and not finding.unreadable) and not any(
        item.symbol or norm_quote(item.quote or item.raw) for item in finding.evidence
    )
