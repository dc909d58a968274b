"""Which finding of a pass is which known one: by a name they share, or else by where they are and what they claim.

Every draft is at most one known finding and every known finding at most one draft. What fits two about as well is new:
a duplicate can be merged by hand, a defect that was taken for another is lost.
"""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import intern

from pipeline.findings.fingerprints import (
    NTH,
    OURS,
    TEXT,
    VERDICT,
    WINDOW,
    content_words,
    norm_quote,
    symbol_of,
)
from pipeline.findings.linemap import LineMap, similarity
from pipeline.findings.model import Category, Finding, FindingId, Strength
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
_LONG = 24  # characters of a line that is the same one in another file
_TITLES = 4  # the latest, of those that it was reported under
_POSITION = re.compile(r"-[0-9a-f]{8}-\d+(?:-\d+)?$")  # how the id of a verdict file ends
_CARRIED = "awf/"  # the prefix under which another format carries an id or a signature of ours


@dataclass(frozen=True, slots=True)
class Match:
    """A draft, by its index, that is a known finding."""

    draft: int
    known: FindingId
    strength: Strength


@dataclass(frozen=True, slots=True)
class Matching:
    """What became of all drafts and all known findings."""

    matches: tuple[Match, ...] = ()  # by draft
    new: tuple[int, ...] = ()
    unseen: tuple[FindingId, ...] = ()
    doubtful: tuple[Match, ...] = ()  # of new drafts: what they may be, without being taken for it


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
    sources: frozenset[str]
    category: Category | None  # None where nobody chose it
    titles: tuple[frozenset[str], ...]  # the words of each
    said: frozenset[str]  # the words of title, impact and fix
    line_words: frozenset[str]
    active: bool


@dataclass(frozen=True, slots=True)
class _Pair:
    score: tuple[float, ...]  # more is better
    known: int
    draft: int
    strength: Strength


def match(known: Sequence[Finding], drafts: Sequence[Finding], maps: Mapping[str, LineMap] | None = None) -> Matching:
    """Recognise known findings among the drafts of a pass; both have their fingerprints, `maps` is by pass."""
    old = sorted(known, key=lambda finding: finding.id)
    new = sorted(range(len(drafts)), key=lambda index: _order(drafts[index]))
    same = _same_signature(old, [drafts[index] for index in new])
    found = [Match(new[draft], old[index].id, Strength.EXACT) for index, draft in same.items()]
    if len(same) < min(len(old), len(new)):
        taken = set(same), set(same.values())
        after = [_of_draft(index, drafts[at]) for index, at in enumerate(new) if index not in taken[1]]
        left = ((index, finding) for index, finding in enumerate(old) if index not in same)
        before = list(_of_known(left, after, maps or {}))
        pairs = [*_assign(_named(before, after), taken), *_assign(_scored(before, after), taken)]
        found += [Match(new[pair.draft], old[pair.known].id, pair.strength) for pair in pairs]
    found.sort(key=lambda one: one.draft)
    sure = tuple(one for one in found if one.strength is not Strength.FUZZY)
    matched, recognised = {one.draft for one in sure}, {one.known for one in sure}
    return Matching(
        sure,
        tuple(index for index in range(len(drafts)) if index not in matched),
        tuple(finding.id for finding in old if finding.id not in recognised),
        tuple(one for one in found if one.strength is Strength.FUZZY),
    )


def _same_signature(known: Sequence[Finding], drafts: Sequence[Finding]) -> dict[int, int]:
    """Those that alone have a signature with code in it. Of 100,000 results most are, and need no features."""

    def alone(findings: Sequence[Finding]) -> dict[str, int]:
        counts = Counter(finding.signature for finding in findings)
        return {
            finding.signature: index
            for index, finding in enumerate(findings)
            if counts[finding.signature] == 1 and finding.evidence and not quotes_no_code(finding)
        }

    after = alone(drafts)
    return {index: after[signed] for signed, index in alone(known).items() if signed in after}


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
    if name == one.loose:
        same_line = one.line == draft.line and one.text in ("", draft.text)
        return same_line or (one.text == draft.text and one.once and draft.once)
    if name in one.names or not one.sources.isdisjoint(draft.sources):
        return True
    return any(title & other for title in one.titles for other in draft.titles)


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
        yield "moved", one.text
    yield from ((one.path, quote) for quote in one.quotes)
    if one.symbol:
        yield one.path, "symbol", one.symbol
    if one.loose:
        yield one.loose


def _compare(one: MatchFeatures, draft: MatchFeatures) -> _Pair | None:
    """A pair that may be one defect, as a match or as a doubt; None for two that have nothing to do with each other.

    Place and claim count up to 1 each: the very line is not enough without a claim that agrees, nor the very title
    without a place. One common word of a short title takes the very line and a category that the reviewer chose twice.
    """
    claim = _claim(one, draft)
    place, strength = _place(one, draft) if claim else (0.0, Strength.FUZZY)
    if not place:
        return None
    chosen = one.category is not None and draft.category is not None
    score = round(place + claim + (_CATEGORY[one.category == draft.category] if chosen else 0.0), 6)
    if place < _LEAST_PLACE or score < ENOUGH:
        strength = Strength.FUZZY
    away = abs(one.line - draft.line)
    ranked = (float(strength is not Strength.FUZZY), score, float(one.active), -float(away))
    return _Pair(ranked, one.index, draft.index, strength)


def _claim(one: MatchFeatures, draft: MatchFeatures) -> float:
    """How much two say the same, from 0 to 1. Names that are in the code of the line say nothing of the defect.

    Titles decide. The rest can only cast doubt on them: some reviewers give the same reason for everything.
    """
    code = one.line_words | draft.line_words
    if any(title == other for title in one.titles for other in draft.titles):
        return 1.0
    title = max((_common(title - code, other - code) for title in one.titles for other in draft.titles), default=0.0)
    words = min(title, (title + _common(one.said - code, draft.said - code)) / 2)
    return min(1.0, _WORD * words * (1.0 if _share_source(one, draft) else _OTHERS))


def _common(words: frozenset[str], others: frozenset[str]) -> float:
    """How many words two texts share. The longer they are, the more of them are chance."""
    return len(words & others) / (1 + len(words) * len(others) / _VOCABULARY)


def _share_source(one: MatchFeatures, draft: MatchFeatures) -> bool:
    """Whether one reviewer reported both, as far as anybody knows."""
    return not (one.sources and draft.sources and one.sources.isdisjoint(draft.sources))


def _place(one: MatchFeatures, draft: MatchFeatures) -> tuple[float, Strength]:
    """How surely two are at the same place, from 0 to 1, and by what."""
    around = _overlap(one, draft)
    same_text = bool(one.text) and one.text == draft.text
    once = one.once and draft.once
    repeated = 0.1 * bool(one.window and draft.window and not once)  # of equal lines a reviewer may mean another
    if one.path != draft.path:
        moved = same_text and around >= (0.25 if once and len(one.text) >= _LONG else 0.5)
        return (0.7 + 0.2 * around, Strength.CONTENT) if moved else (0.0, Strength.FUZZY)
    hint = around >= 0.5 or (one.symbol and one.symbol == draft.symbol) or (one.loose and one.loose == draft.loose)
    found = [(0.4 if hint else 0.0, Strength.FUZZY)]
    away = abs(one.line - draft.line)
    if one.traced is not None and away <= REACH and one.line and draft.line:
        alike = 1.0 if one.traced == 1 else max(one.traced, around, similarity(one.text, draft.text))
        found.append((1.0 - 0.5 * (1 - alike) ** 2 - 0.1 * away - repeated, Strength.MAPPED))
    if one.quotes & draft.quotes:
        found.append((0.9 + 0.1 * around - repeated, Strength.CONTENT))
    if same_text and once and one.distinctive:
        found.append((0.95, Strength.CONTENT))
    elif same_text and around >= (0.25 if one.distinctive else 0.5):
        elsewhere = one.traced == 1 and away > REACH
        found.append((0.4 if elsewhere else 0.5 + 0.4 * around, Strength.CONTENT))
    return max(found, key=lambda one: one[0])


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
        yield replace(pair, strength=Strength.FUZZY) if close else pair


def _is_rival(pair: _Pair, other: _Pair) -> bool:
    """Whether a match is not clearly better than another. No name is doubted, nor what is open for what is settled."""
    if other == pair or not {pair.strength, other.strength}.isdisjoint((Strength.EXACT, Strength.FUZZY)):
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


def _of_draft(index: int, draft: Finding) -> MatchFeatures:
    place = draft.location
    return _features(index, draft, place.path if place else "", (place and place.start) or 0, None)


def _of_known(
    known: Iterable[tuple[int, Finding]], drafts: Sequence[MatchFeatures], maps: Mapping[str, LineMap]
) -> Iterator[MatchFeatures]:
    """The known findings that share a file, a line of code or a name with a draft, where their lines are now."""
    files, texts = {draft.path for draft in drafts}, {draft.text for draft in drafts if draft.text}
    names = {name for draft in drafts for name in (*draft.names, *draft.tool_ids, draft.loose)}
    for index, finding in known:
        place, lines = finding.location, maps.get(finding.pass_id)
        path, line = (place.path, place.start or 0) if place else ("", 0)
        now = lines.path(path) if lines and path else ""
        shared = (now or path) in files or finding.fingerprints.get(TEXT) in texts
        if not shared and names.isdisjoint((finding.signature, *_names(finding), *_tool_ids(finding))):
            continue
        if lines is None or not now or not line:  # what was in a deleted file may be in another
            yield _features(index, finding, now or path, line, None)
        else:
            yield _features(index, finding, now, *lines.trace(path, line))


def _features(index: int, finding: Finding, path: str, line: int, traced: float | None) -> MatchFeatures:
    prints = finding.fingerprints
    text = prints.get(TEXT, "")
    titles = (finding.title, *(vote.title for vote in finding.votes[-_TITLES:]))
    if finding.unreadable and not finding.id:  # a draft; a known one may be returned again in a readable form
        titles = ()
    chosen = all(finding.category != default_category(source) for source in finding.sources)
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
        quotes=frozenset(quote for item in finding.evidence if (quote := norm_quote(item.quote))),
        symbol=symbol_of(finding),
        sources=frozenset(finding.sources),
        category=finding.category if chosen else None,
        titles=tuple(dict.fromkeys(words for title in titles if (words := content_words((title,))))),
        said=content_words((*titles[:1], finding.impact, finding.fix or "")) if titles else frozenset(),
        line_words=content_words((text,)),
        active=finding.state.active,
    )


def _names(finding: Finding) -> Iterator[str]:
    """Signatures, aliases and our own ids. A name made of a position is another's as soon as lines move."""
    yield finding.id
    if not quotes_no_code(finding):
        yield finding.signature
    for alias in finding.aliases:
        if alias not in (finding.fingerprints.get(VERDICT), finding.signature) and not _POSITION.search(alias):
            yield alias
    yield from (value for name, value in finding.fingerprints.items() if value and name.startswith(_CARRIED))


def _tool_ids(finding: Finding) -> Iterator[str]:
    """What tools call it, within its category: they give two rules on one line the same."""
    for name, value in finding.fingerprints.items():
        if value and name not in OURS and not name.startswith(_CARRIED):
            yield f"{finding.category}\0{name}\0{value}"


def quotes_no_code(finding: Finding) -> bool:
    """Whether a finding names files but quotes no code: its signature then does not tell which line it is about."""
    return bool(finding.evidence and not finding.unreadable) and not any(
        item.symbol or norm_quote(item.quote or item.raw) for item in finding.evidence
    )


def _order(draft: Finding) -> tuple[Hashable, ...]:
    """An order of drafts that does not depend on who reported first."""
    place = draft.location
    where = (place.path, place.start or 0, place.end or 0) if place else ("", 0, 0)
    return (*where, draft.signature, draft.title, draft.category, draft.severity.rank, draft.impact)
