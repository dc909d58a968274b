"""Which draft of a pass is which known finding: by a name they share, or else by where they are and what they say.

Every draft is at most one known finding and every known finding at most one draft. What fits two about as well is new:
a duplicate can be merged by hand, a defect that was taken for another is lost.

An example of a score. A reviewer said "Empty cart crashes the checkout" of a line that git says is 42 now. In this
pass it says "Checkout divides by zero for an empty cart" of line 43. Place: the traced line, one line off, 0.9. Words:
three in common (empty, cart, checkout), 0.36 each, less what is chance, which gives 0.9. Category: both `bug`, 0.25.
That is 2.05, more than 1.5, and they are one. Had it said "The total is rounded down", no word would be common: no
match at any place.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from sys import intern

from pipeline.findings.fingerprints import (
    NTH,
    OURS,
    TEXT,
    WINDOW,
    content_words,
    norm_quote,
    symbol_of,
)
from pipeline.findings.linemap import LineMap
from pipeline.findings.model import Category, Draft, Finding, FindingId, Location
from pipeline.findings.scales import default_category

REACH = 3  # lines that a reviewer may be off
ENOUGH = 1.5  # what place, claim and category must add up to; measured on histories of real code (docs/benchmarks.md)

_COMPARED = 16  # drafts of one place or text that a known finding is compared with: nothing here is quadratic
_LEAST_PLACE = 0.5  # below it there are hints only
_CLEAR = 0.1  # how much better a match is than the next best
_WORD = 0.36  # what a common word of two short texts counts
_OTHERS = 0.4  # how much of that, of two reviewers: on one line they often use the same words for two defects
_CATEGORY = {True: 0.25, False: -0.1}  # whether both chose the same one
_VOCABULARY = 150  # words that reviewers choose from, as far as chance is concerned
_POSITION = re.compile(r"-[0-9a-f]{8}-\d+(?:-\d+)?$")  # how the id of a verdict file ends
_CARRIED = "awf/"  # the prefix under which another format carries an id or a signature of ours


class Strength(StrEnum):
    """How a draft was recognised."""

    EXACT = "exact"  # the same signature, alias or tool's id
    MAPPED = "mapped"  # the same text where git says the line is now
    CONTENT = "content"  # the same code
    DOUBTFUL = "doubtful"  # similar: it may be the same


@dataclass(frozen=True, slots=True)
class Match:
    """A draft, by its index, that is a known finding, or in doubt may be it."""

    draft: int
    known: FindingId
    strength: Strength

    @property
    def is_sure(self) -> bool:
        """Whether the draft is that finding, as far as code can tell."""
        return self.strength is not Strength.DOUBTFUL


@dataclass(frozen=True, slots=True)
class MatchFeatures:
    """What a finding is recognised by. For a known one, path and line are where git says they are now."""

    index: int
    path: str
    line: int  # 0 for none
    traced: float | None  # how similar the line is that git found, 1 for the same; None when git was not asked
    names: tuple[str, ...]  # signatures, aliases and ids, which are its own wherever it is
    tool_ids: tuple[str, ...]
    loose: str  # a signature without code, which is that of any such finding in its file
    text: str
    distinctive: bool  # whether the text could not be just anywhere
    once: bool  # whether no other line of its file has this text
    window: Counter[str]
    quotes: frozenset[str]
    symbol: str
    reviewer: str
    category: Category | None  # None where nobody chose it
    title: frozenset[str]  # its words
    said: frozenset[str]  # the words of title, impact and fix
    line_words: frozenset[str]
    active: bool


@dataclass(frozen=True, slots=True)
class _Pair:
    score: tuple[float, ...]  # more is better
    known: int
    draft: int
    strength: Strength


def match(known: Sequence[Finding], drafts: Sequence[Draft], maps: Mapping[str, LineMap]) -> list[Match]:
    """Return which drafts are known findings, the sure ones and the doubts; both have their fingerprints.

    `maps` tells, by pass, where lines are now. What is not in the result is new, or was not reported.
    """
    old = sorted(known, key=lambda finding: finding.id)
    new = sorted(range(len(drafts)), key=lambda index: _order(drafts[index]))
    after = [_of_draft(index, drafts[at]) for index, at in enumerate(new)]
    before = list(_of_known(old, after, maps))
    taken = set[int](), set[int]()
    pairs = [*_assign(_named(before, after), taken)]
    before = [one for one in before if one.index not in taken[0]]
    after = [one for one in after if one.index not in taken[1]]
    pairs += _assign(_scored(before, after), taken)
    found = [Match(new[pair.draft], old[pair.known].id, pair.strength) for pair in pairs]
    return sorted(found, key=lambda one: one.draft)


def _is_settled_elsewhere(one: MatchFeatures, draft: MatchFeatures) -> bool:
    """Return whether a settled finding's line is unchanged in its own place, and the draft is about another one."""
    return not one.active and _is_elsewhere(one, draft)


def _is_elsewhere(one: MatchFeatures, draft: MatchFeatures) -> bool:
    """Return whether git says that a finding's line is unchanged, and not where the draft is."""
    if one.traced != 1 or not one.line:
        return False
    return one.path != draft.path or abs(one.line - draft.line) > REACH


def _named(known: Iterable[MatchFeatures], drafts: Iterable[MatchFeatures]) -> Iterator[_Pair]:
    """Those that share a signature, an alias or a tool's own id; of several, the one at the same place."""
    found = _Groups((name, draft) for draft in drafts for name in (*draft.names, *draft.tool_ids, draft.loose) if name)
    for one in known:
        for name in (*one.names, *one.tool_ids, one.loose):
            for draft in found.near(name, one.line):
                if _shares_name(one, draft, name):
                    away = abs(one.line - draft.line) if one.path == draft.path else float("inf")
                    score = (-float(away), _overlap(one, draft), _claim(one, draft), float(one.active))
                    yield _Pair(score, one.index, draft.index, Strength.EXACT)


def _shares_name(one: MatchFeatures, draft: MatchFeatures, name: str) -> bool:
    """Whether a common name makes two one: a tool's id only with a common word or source, a loose one on its line."""
    if _is_settled_elsewhere(one, draft):
        return False
    if name == one.loose:
        same_line = one.line == draft.line and one.text in ("", draft.text)
        return same_line or (one.text == draft.text and one.once and draft.once)
    if name in one.names or one.reviewer == draft.reviewer:
        return True
    return not one.title.isdisjoint(draft.title)


def _scored(known: Iterable[MatchFeatures], drafts: Iterable[MatchFeatures]) -> Iterator[_Pair]:
    """Every known finding with the drafts near it or like it, by how well place and claim fit."""
    found = _Groups((key, draft) for draft in drafts for key in _keys(draft))
    for one in known:
        near = {draft.index: draft for key in _keys(one) for draft in found.near(key, one.line)}
        for draft in near.values():
            if pair := _compare(one, draft):
                yield pair


def _keys(one: MatchFeatures) -> Iterator[Hashable]:
    """What a known finding shares with the drafts that it is compared with."""
    yield one.path
    if one.text:
        yield one.path, one.text
    yield from ((one.path, quote) for quote in one.quotes)


def _compare(one: MatchFeatures, draft: MatchFeatures) -> _Pair | None:
    """A pair that may be one defect, as a match or as a doubt; None for two that have nothing to do with each other.

    Place and claim count up to 1 each: the very line is not enough without a claim that agrees, nor the very title
    without a place. One common word of a short title takes the very line and a category that the reviewer chose twice.
    """
    claim = _claim(one, draft)
    quoted_alike = one.reviewer == draft.reviewer and not one.quotes.isdisjoint(draft.quotes)
    if not claim and not quoted_alike:
        return None
    place, strength = _place(one, draft)
    if not place:
        return None
    if not claim:  # the same reviewer quotes the same code at the same place: at least a doubt
        place = 0.0
    category = 0.0
    if one.category is not None and draft.category is not None:
        category = _CATEGORY[one.category == draft.category]
    score = round(place + claim + category, 6)
    if place < _LEAST_PLACE or score < ENOUGH or _is_settled_elsewhere(one, draft):
        strength = Strength.DOUBTFUL
    away = abs(one.line - draft.line)
    ranked = (float(strength is not Strength.DOUBTFUL), score, float(one.active), -float(away))
    return _Pair(ranked, one.index, draft.index, strength)


def _claim(one: MatchFeatures, draft: MatchFeatures) -> float:
    """How much two say the same, from 0 to 1. Names that are in the code of the line say nothing of the defect.

    Titles decide. The rest can only cast doubt on them: some reviewers give the same reason for everything.
    """
    if one.title and one.title == draft.title:
        return 1.0
    code = one.line_words | draft.line_words
    title = _common(one.title - code, draft.title - code)
    words = min(title, (title + _common(one.said - code, draft.said - code)) / 2)
    trust = 1.0 if one.reviewer == draft.reviewer else _OTHERS
    return min(1.0, _WORD * words * trust)


def _common(words: frozenset[str], others: frozenset[str]) -> float:
    """How many words two texts share. The longer they are, the more of them are chance."""
    return len(words & others) / (1 + len(words) * len(others) / _VOCABULARY)


_NOWHERE = (0.0, Strength.DOUBTFUL)


def _place(one: MatchFeatures, draft: MatchFeatures) -> tuple[float, Strength]:
    """Return how surely two are at the same place, from 0 to 1, and by what. Git alone follows renamed files."""
    if one.path != draft.path:
        return _NOWHERE
    found = [_hinted_place(one, draft), _traced_place(one, draft), _quoted_place(one, draft), _same_text(one, draft)]
    return max(found, key=lambda place: place[0])


def _hinted_place(one: MatchFeatures, draft: MatchFeatures) -> tuple[float, Strength]:
    """Much the same code around it, the same function, or a claim that names no code: never enough alone."""
    same_symbol = bool(one.symbol) and one.symbol == draft.symbol
    same_claim = bool(one.loose) and one.loose == draft.loose
    if same_symbol or same_claim or _overlap(one, draft) >= 0.5:
        return 0.4, Strength.DOUBTFUL
    return _NOWHERE


def _traced_place(one: MatchFeatures, draft: MatchFeatures) -> tuple[float, Strength]:
    """The line where git says the known one is now, or one a few lines off."""
    away = abs(one.line - draft.line)
    if one.traced is None or away > REACH or not one.line or not draft.line:
        return _NOWHERE
    alike = max(one.traced, _overlap(one, draft))
    return 1.0 - 0.5 * (1 - alike) ** 2 - 0.1 * away - _repeated(one, draft), Strength.MAPPED


def _quoted_place(one: MatchFeatures, draft: MatchFeatures) -> tuple[float, Strength]:
    """The same quotation."""
    if one.quotes.isdisjoint(draft.quotes):
        return _NOWHERE
    return 0.9 + 0.1 * _overlap(one, draft) - _repeated(one, draft), Strength.CONTENT


def _same_text(one: MatchFeatures, draft: MatchFeatures) -> tuple[float, Strength]:
    """The same line of code, wherever in the file it is now."""
    if not one.text or one.text != draft.text:
        return _NOWHERE
    if one.once and draft.once and one.distinctive:
        return 0.95, Strength.CONTENT
    around = _overlap(one, draft)
    if around < (0.25 if one.distinctive else 0.5):
        return _NOWHERE
    if _is_elsewhere(one, draft):
        return 0.4, Strength.CONTENT
    return 0.5 + 0.4 * around, Strength.CONTENT


def _repeated(one: MatchFeatures, draft: MatchFeatures) -> float:
    """What is taken off where a file has equal lines: a reviewer may mean another of them."""
    once = one.once and draft.once
    return 0.1 if one.window and draft.window and not once else 0.0


def _overlap(one: MatchFeatures, draft: MatchFeatures) -> float:
    """How much of the code around one is around the other, from 0 to 1."""
    longest = max(one.window.total(), draft.window.total())
    return (one.window & draft.window).total() / longest if longest else 0.0


def _assign(pairs: Iterable[_Pair], taken: tuple[set[int], set[int]]) -> Iterator[_Pair]:
    """One partner for each, best score first; a doubt where another that is free fits nearly as well."""
    known, drafts = taken
    ranked = sorted(set(pairs), key=lambda pair: (tuple(-part for part in pair.score), pair.known, pair.draft))
    fits = defaultdict[tuple[str, int], list[_Pair]](list)
    for pair in ranked:
        fits["known", pair.known].append(pair)
        fits["draft", pair.draft].append(pair)
    for pair in ranked:
        if pair.known in known or pair.draft in drafts:
            continue
        others = (*fits["known", pair.known], *fits["draft", pair.draft])
        free = [other for other in others if other.known not in known and other.draft not in drafts]
        known.add(pair.known)
        drafts.add(pair.draft)
        close = any(_is_rival(pair, other) for other in free)
        yield replace(pair, strength=Strength.DOUBTFUL) if close else pair


def _is_rival(pair: _Pair, other: _Pair) -> bool:
    """Whether a match is not clearly better than another. No name is doubted, nor what is open for what is settled."""
    if other == pair or not {pair.strength, other.strength}.isdisjoint((Strength.EXACT, Strength.DOUBTFUL)):
        return False
    (_, score, active, _), (_, next_score, next_active, _) = pair.score, other.score
    return next_active >= active and score - next_score < _CLEAR


class _Groups:
    """Drafts that share a key, from the top of a file to its end."""

    def __init__(self, keyed: Iterable[tuple[Hashable, MatchFeatures]]) -> None:
        self._groups = defaultdict[Hashable, list[MatchFeatures]](list)
        for key, draft in keyed:
            self._groups[key].append(draft)
        for drafts in self._groups.values():
            drafts.sort(key=lambda draft: (draft.line, draft.index))

    def near(self, key: Hashable, line: int) -> Sequence[MatchFeatures]:
        """Those nearest to a line, about half of them before it."""
        drafts = self._groups.get(key, [])
        first = max(0, bisect_left(drafts, line, key=lambda draft: draft.line) - _COMPARED // 2)
        return drafts[first : first + _COMPARED]


def _of_draft(index: int, draft: Draft) -> MatchFeatures:
    place = draft.location or Location(path="")
    return _features(index, draft, place.path, place.start or 0, None)


def _of_known(
    known: Sequence[Finding], drafts: Sequence[MatchFeatures], maps: Mapping[str, LineMap]
) -> Iterator[MatchFeatures]:
    """The known findings that share a file or a name with a draft, where their lines are now."""
    files = {draft.path for draft in drafts}
    names = {name for draft in drafts for name in (*draft.names, *draft.tool_ids, draft.loose)}
    for index, finding in enumerate(known):
        place, lines = finding.location or Location(path=""), maps.get(finding.placed_in)
        path, line, traced = place.path, place.start or 0, None
        if lines and line and lines.path(path):
            line, traced = lines.trace(path, line)
            path = lines.path(path)
        if path in files or not names.isdisjoint((finding.signature, *_names(finding), *_tool_ids(finding))):
            yield _features(index, finding, path, line, traced)


def _features(index: int, finding: Finding | Draft, path: str, line: int, traced: float | None) -> MatchFeatures:
    prints = finding.fingerprints
    text = prints.get(TEXT, "")
    # A draft that cannot be read has no title of its own; a known one may be reported again in a readable form.
    titled = isinstance(finding, Finding) or not finding.unreadable
    title = content_words((finding.title,)) if titled else frozenset[str]()
    chosen = finding.category != default_category(finding.reviewer)
    return MatchFeatures(
        index=index,
        path=path,
        line=line,
        traced=traced,
        names=tuple(_names(finding)),
        tool_ids=tuple(_tool_ids(finding)),
        loose=finding.signature if quotes_no_code(finding) else "",
        text=text,
        distinctive=bool(norm_quote(text)),
        once=prints.get(NTH) == "1/1",
        window=Counter(map(intern, prints.get(WINDOW, "").split())),
        quotes=frozenset(filter(None, (norm_quote(item.quote) for item in finding.evidence))),
        symbol=symbol_of(finding),
        reviewer=finding.reviewer,
        category=finding.category if chosen else None,
        title=title,
        said=content_words((finding.title, finding.impact, finding.fix or "")) if titled else frozenset(),
        line_words=content_words((text,)),
        active=isinstance(finding, Finding) and finding.state.active,
    )


def _names(finding: Finding | Draft) -> Iterator[str]:
    """Signatures, aliases and our own ids. A name made of a position is another's as soon as lines move."""
    if not quotes_no_code(finding):
        yield finding.signature
    if isinstance(finding, Finding):
        yield finding.id
        yield from (alias for alias in finding.aliases if not _POSITION.search(alias))
    yield from (value for name, value in finding.fingerprints.items() if value and name.startswith(_CARRIED))


def _tool_ids(finding: Finding | Draft) -> Iterator[str]:
    """What tools call it, within its category: they give two rules on one line the same."""
    for name, value in finding.fingerprints.items():
        if value and name not in OURS and not name.startswith(_CARRIED):
            yield f"{finding.category}\0{name}\0{value}"


def quotes_no_code(finding: Finding | Draft) -> bool:
    """Whether a finding names files but quotes no code: its signature then does not tell which line it is about."""
    return bool(finding.evidence and not finding.unreadable) and not any(
        item.symbol or norm_quote(item.quote or item.raw) for item in finding.evidence
    )


def _order(draft: Draft) -> tuple[Hashable, ...]:
    """An order of drafts that does not depend on who reported first."""
    place = draft.location
    where = (place.path, place.start or 0, place.end or 0) if place else ("", 0, 0)
    return (*where, draft.signature, draft.title, draft.category, draft.severity.rank, draft.impact)
