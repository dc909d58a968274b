"""A finding reduced to what it is recognised by, taken out of it once: matching compares these and nothing else."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from sys import intern

from pipeline.findings.fingerprints import (
    AROUND,
    NTH,
    OURS,
    POSITIONS,
    TEXT,
    WINDOW,
    content_words,
    norm_quote,
    symbol_of,
)
from pipeline.findings.linemap import LineMap
from pipeline.findings.model import Category, Finding, FindingId, Strength

_POSITION = re.compile(r"-[0-9a-f]{8}-\d+(?:-\d+)?$")  # how the id of a verdict file ends
_CARRIED = "awf/"  # how the names begin under which another format carries an id or a signature of ours
_MUCH = 0.2  # of all the words of two titles: what two reviewers of one defect share
_TITLES = 4  # of those it was reported under


@dataclass(frozen=True, slots=True)
class MatchFeatures:
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


def of_draft(at: int, draft: Finding) -> MatchFeatures:
    """The anchor of a finding of this pass."""
    place = draft.location
    return _anchor(at, draft, place.path if place else "", (place and place.start) or 0)


def of_known(at: int, known: Finding, lines: LineMap | None) -> MatchFeatures:
    """The anchor of a known finding, moved to where its lines are now when that can be told."""
    place = known.location
    if place is None or lines is None:
        return _anchor(at, known, place.path if place else "", (place and place.start) or 0)
    path, line = lines.path(place.path), place.start or 0
    if not path or not line:  # of a deleted file, what was in it may have gone to another
        return _anchor(at, known, path or place.path, line)
    same = lines.line(place.path, line) is not None
    return _anchor(at, known, path, lines.guess(place.path, line), mapped=True, kept=same)


def _anchor(
    at: int, finding: Finding, path: str, line: int, *, mapped: bool = False, kept: bool = False
) -> MatchFeatures:
    prints = finding.fingerprints
    text = prints.get(TEXT, "")
    told = content_words((finding.title, *(vote.title for vote in finding.votes[-_TITLES:])))
    return MatchFeatures(
        at=at,
        sources=frozenset(finding.sources),
        unreadable=bool(finding.unreadable),
        names=tuple(_names(finding)),
        ids=tuple(_ids(finding)),
        loose=finding.signature if quotes_no_code(finding) else "",
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
        claim=_but(told, content_words((text,))),
        active=finding.state.active,
    )


def _but(told: frozenset[str], line: frozenset[str]) -> frozenset[str]:
    return told if told.isdisjoint(line) else told - line


def likeness(one: MatchFeatures, other: MatchFeatures) -> float:
    """How much two titles have in common, from 0 to 1."""
    shared = len(one.words & other.words)
    return shared / (len(one.words) + len(other.words) - shared) if shared else 0.0


def overlap(one: MatchFeatures, other: MatchFeatures) -> float:
    """How much of the code around one is around the other, from 0 to 1."""
    longest = max(len(one.window), len(other.window))
    if not longest:
        return 0.0
    left = list(other.window)
    for line in one.window:
        if line in left:
            left.remove(line)
    return (len(other.window) - len(left)) / longest


def agree(known: MatchFeatures, draft: MatchFeatures) -> bool:
    """Whether the two say much the same: a good part of it in the same words, or some of it of the same kind."""
    shared = bool(known.claim & draft.claim)
    return shared and (known.category == draft.category or likeness(known, draft) >= _MUCH)


def may_be(known: MatchFeatures, draft: MatchFeatures) -> bool:
    """Whether the two can be one defect. Neither the same place nor the same kind is enough."""
    return agree(known, draft) if known.category != draft.category else bool(known.words & draft.words)


def apart(known: MatchFeatures, draft: MatchFeatures) -> bool:
    """Whether the two cannot be one, wherever they stand: nobody said both, and they share no word."""
    if draft.unreadable:
        return True
    strangers = bool(known.sources and draft.sources) and known.sources.isdisjoint(draft.sources)
    return strangers and not known.claim & draft.claim


def _names(finding: Finding) -> Iterable[str]:
    """Signatures, aliases and tools' own ids. A name made of a position is another's as soon as lines move."""
    yield finding.id
    if not quotes_no_code(finding):
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


def quotes_no_code(finding: Finding) -> bool:
    """Whether a finding names files but quotes no code: its signature then says nothing of which line it is about."""
    return bool(finding.evidence and not finding.unreadable) and not any(
        item.symbol or norm_quote(item.quote or item.raw) for item in finding.evidence
    )


NEAREST, CROWDED = 12, 4  # of those that share a key, how many are compared with one: nothing here is quadratic
CROWD = 500  # that share a key, from which on it is fewer
Score = tuple[float, ...]


@dataclass(frozen=True, slots=True, order=True)
class Pair:
    """Two that may be one, and how well they fit; more is better."""

    score: Score
    known: int
    draft: int


@dataclass(frozen=True, slots=True)
class DraftGroup:
    """Drafts that share a key, from the top of the file to its end."""

    lines: tuple[int, ...]
    drafts: tuple[MatchFeatures, ...]

    def near(self, line: int) -> tuple[MatchFeatures, ...]:
        """Those nearest to a line, about half of them before it."""
        count = NEAREST if len(self.lines) < CROWD else CROWDED
        first = max(0, bisect_left(self.lines, line) - count // 2)
        return self.drafts[first : first + count]

    def within(self, line: int, reach: int) -> tuple[MatchFeatures, ...]:
        """Those at most so many lines away."""
        first, last = bisect_left(self.lines, line - reach), bisect_left(self.lines, line + reach + 1)
        return self.drafts[first : min(last, first + NEAREST)]


def shelves(keyed: Iterable[tuple[Hashable, MatchFeatures]]) -> Mapping[Hashable, DraftGroup]:
    """Drafts by their keys."""
    found = defaultdict[Hashable, list[MatchFeatures]](list)
    for key, draft in keyed:
        found[key].append(draft)
    return {key: _shelf(drafts) for key, drafts in found.items()}


def assign(pairs: Iterable[Pair], *, by_order: bool = False) -> Iterator[Pair]:
    """One partner for each, best score first; ties are left apart, or go in order where they make no difference."""
    taken = _Taken()
    ranked = sorted(set(pairs), key=lambda pair: (tuple(-part for part in pair.score), pair.known, pair.draft))
    for _, group in groupby(ranked, key=lambda pair: pair.score):
        free = [pair for pair in group if not taken.has(pair)]
        for pair in free if by_order else _clear(free):
            if not taken.has(pair):
                yield pair
                taken.add(pair)
        for pair in free:
            taken.add(pair)  # tied, it is out of this tier: a worse partner would be the wrong one


def _clear(pairs: list[Pair]) -> list[Pair]:
    known, drafts = Counter(pair.known for pair in pairs), Counter(pair.draft for pair in pairs)
    return [pair for pair in pairs if known[pair.known] == drafts[pair.draft] == 1]


def _shelf(drafts: list[MatchFeatures]) -> DraftGroup:
    ordered = sorted(drafts, key=lambda draft: (draft.line, draft.at))
    return DraftGroup(tuple(draft.line for draft in ordered), tuple(ordered))


class _Taken:
    def __init__(self) -> None:
        self.known: set[int] = set()
        self.drafts: set[int] = set()

    def has(self, pair: Pair) -> bool:
        return pair.known in self.known or pair.draft in self.drafts

    def add(self, pair: Pair) -> None:
        self.known.add(pair.known)
        self.drafts.add(pair.draft)


_LONG = 24  # characters of a text that is the same one in another file
_ALIKE = 0.5  # of the lines around, for a place to be the same though its text is not
_SURROUNDED = 0.25  # of the lines around, for one of several equal texts
_ELSEWHERE = 0.75  # of the lines around, for a text that git says stayed where no draft is


Same = Callable[[MatchFeatures, MatchFeatures], bool]
Pairing = Callable[[Sequence[MatchFeatures], Sequence[MatchFeatures]], Iterable[Pair]]


@dataclass(frozen=True, slots=True)
class Tier:
    """One way to recognise a finding."""

    name: str
    strength: Strength
    pairs: Pairing
    by_order: bool = False  # equals are paired as they come: whoever has the name is the one


def _named(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures]) -> Iterator[Pair]:
    """T1: the same signature, alias or id of a tool, which is the claim and the code together."""
    found = shelves((name, draft) for draft in drafts for name in (*draft.names, *draft.ids, draft.loose) if name)
    for one in known:
        for name in (*one.names, *one.ids, one.loose):
            if name in found:
                near = (draft for draft in found[name].near(one.line) if _is_named(one, draft, name))
                yield from (_pair(one, draft, _placed(one, draft), overlap(one, draft)) for draft in near)


def _is_named(one: MatchFeatures, draft: MatchFeatures, name: str) -> bool:
    """Whether a name that two share makes them one: a tool's id only where they share a word, or their source."""
    if name == one.loose:
        return _same_place(one, draft)
    return name in one.names or not one.sources.isdisjoint(draft.sources) or bool(one.words & draft.words)


def _mapped(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures], same: Same) -> Iterator[Pair]:
    """T2: the same text on the line where git says that it went."""
    found = shelves(((draft.path, draft.line, draft.text), draft) for draft in drafts if draft.text)
    for one in known:
        if one.kept and (one.path, one.line, one.text) in found:
            near = found[one.path, one.line, one.text].near(one.line)
            yield from (_pair(one, draft) for draft in near if same(one, draft))


def _unique(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures], same: Same) -> Iterator[Pair]:
    """T3: a text that its file has once, then and now."""
    found = shelves(((draft.path, draft.text), draft) for draft in drafts if draft.once and draft.distinctive)
    for one in known:
        if one.once and (one.path, one.text) in found:
            near = found[one.path, one.text].near(one.line)
            yield from (_pair(one, draft) for draft in near if same(one, draft))


def _surrounded(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures], same: Same) -> Iterator[Pair]:
    """T4: of several equal texts the one with the most of its surroundings, then the nearest."""
    found = shelves(((draft.path, draft.text), draft) for draft in drafts if draft.text)
    for one in known:
        for draft in found[one.path, one.text].near(one.line) if (one.path, one.text) in found else ():
            around = overlap(one, draft)
            if around >= _least(one, draft) and same(one, draft):
                yield _pair(one, draft, around, one.nth == draft.nth, -abs(one.line - draft.line))


def _within_symbol(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures]) -> Iterator[Pair]:
    """T5: the only one of its kind in a function, then and now, in words that are not just the function's name."""

    def key(one: MatchFeatures) -> Hashable:
        return one.path, one.symbol, one.category

    found = shelves((key(draft), draft) for draft in drafts if draft.symbol)
    alone = Counter(key(one) for one in known if one.symbol)
    for one in known:
        if alone[key(one)] == 1 and len(found[key(one)].drafts if key(one) in found else ()) == 1:
            draft = found[key(one)].drafts[0]
            if (one.words & draft.words) - content_words((one.symbol,)):
                yield _pair(one, draft)


def _close(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures], same: Same) -> Iterator[Pair]:
    """T6: at most three lines away, in much the same surroundings."""
    nearby = _nearby(drafts)
    for one in known:
        for draft in nearby(one):
            around = overlap(one, draft)
            if around >= (_SURROUNDED if one.kept and same is agree else _ALIKE) and same(one, draft):
                yield _pair(one, draft, around, -abs(one.line - draft.line))


def _nearby(drafts: Sequence[MatchFeatures]) -> Callable[[MatchFeatures], Iterable[MatchFeatures]]:
    """Who is near: by the line that git says, or else by any line of the surroundings."""
    by_path = shelves((draft.path, draft) for draft in drafts if draft.line)
    by_line = shelves(((draft.path, line), draft) for draft in drafts for line in set(draft.window))

    def near(one: MatchFeatures) -> Iterable[MatchFeatures]:
        if one.mapped:
            return by_path[one.path].within(one.line, AROUND) if one.path in by_path else ()
        keys = [(one.path, line) for line in sorted(set(one.window)) if (one.path, line) in by_line]
        return {draft.at: draft for key in keys for draft in by_line[key].near(one.line)}.values()

    return near


def _in_another_file(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures]) -> Iterator[Pair]:
    """T7: a long text that one known finding and one draft have, in different files, with some of its surroundings."""
    found = defaultdict[str, list[MatchFeatures]](list)
    for draft in drafts:
        if _is_long(draft):
            found[draft.text].append(draft)
    alone = Counter(one.text for one in known if _is_long(one))
    for one in known:
        if alone[one.text] == 1 == len(found.get(one.text, ())):
            draft = found[one.text][0]
            if one.path != draft.path and overlap(one, draft) >= _SURROUNDED and may_be(one, draft):
                yield _pair(one, draft)


def _loose(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures]) -> Iterator[Pair]:
    """Last: the same claim about the same file by one who quotes no code; which of its lines is meant, nobody knows."""
    found = shelves((draft.loose, draft) for draft in drafts if draft.loose)
    for one in known:
        if one.loose in found:
            yield from (_pair(one, draft, overlap(one, draft)) for draft in found[one.loose].near(one.line))


def of_one_file(known: Sequence[MatchFeatures], drafts: Sequence[MatchFeatures]) -> Iterator[Pair]:
    """T8: those that a judge may be asked about."""
    found = shelves((draft.path, draft) for draft in drafts)
    for one in known:
        if one.path in found:
            yield from (_pair(one, draft, overlap(one, draft)) for draft in found[one.path].near(one.line))


TIERS = (
    Tier("name", Strength.EXACT, _named, by_order=True),
    # At each kind of place first those that say much the same; told anew, the same text is a guess and is called so.
    Tier("mapped", Strength.MAPPED, partial(_mapped, same=agree)),
    Tier("unique", Strength.CONTENT, partial(_unique, same=agree)),
    Tier("surrounded", Strength.CONTENT, partial(_surrounded, same=agree)),
    Tier("mapped, told anew", Strength.FUZZY, partial(_mapped, same=may_be)),
    Tier("unique, told anew", Strength.FUZZY, partial(_unique, same=may_be)),
    Tier("surrounded, told anew", Strength.FUZZY, partial(_surrounded, same=may_be)),
    Tier("symbol", Strength.FUZZY, _within_symbol),
    Tier("close", Strength.FUZZY, partial(_close, same=agree)),
    Tier("close, told anew", Strength.FUZZY, partial(_close, same=may_be)),
    Tier("moved", Strength.CONTENT, _in_another_file),
    Tier("loose", Strength.FUZZY, _loose, by_order=True),
)


def _pair(one: MatchFeatures, draft: MatchFeatures, *first: float) -> Pair:
    """A pair by what its tier looks at, then by what is said, then for a finding that still counts."""
    said = (one.category == draft.category) + 2 * likeness(one, draft)
    return Pair((*map(float, first), said, float(one.active)), one.at, draft.at)


def _placed(one: MatchFeatures, draft: MatchFeatures) -> float:
    return -float(abs(one.line - draft.line)) if one.path == draft.path else float("-inf")


def _same_place(one: MatchFeatures, draft: MatchFeatures) -> bool:
    """Whether a claim that quotes nothing is about the same line."""
    if one.text != draft.text:
        return False
    return one.line == draft.line or (one.once and draft.once)


def _least(one: MatchFeatures, draft: MatchFeatures) -> float:
    if one.mapped and abs(one.line - draft.line) > AROUND:
        return _ELSEWHERE
    return _SURROUNDED if one.distinctive else _ALIKE


def _is_long(one: MatchFeatures) -> bool:
    return one.once and one.distinctive and len(one.text) >= _LONG


_LEAST = 3  # lines that no other file has, known from the old file and found in the new one


def renamed(known: Mapping[int, MatchFeatures], drafts: Iterable[MatchFeatures]) -> dict[int, MatchFeatures]:
    """Known findings, those of a renamed file under its new name."""
    drafts = tuple(drafts)
    reported = {draft.path for draft in drafts}
    lost = [one for one in known.values() if not one.mapped and one.path not in reported]
    names = _new_names(_owners(lost), _owners(drafts)) if lost else {}
    return {
        at: replace(one, path=names[one.path]) if not one.mapped and one.path in names else one
        for at, one in known.items()
    }


def _owners(anchors: Iterable[MatchFeatures]) -> dict[str, str]:
    """The file of each line that only one file has."""
    files = defaultdict[str, set[str]](set)
    for one in anchors:
        for line in one.window:
            files[line].add(one.path)
    return {line: next(iter(paths)) for line, paths in files.items() if len(paths) == 1}


def _new_names(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Old names to new ones, where more than half of an old file's lines that are found again are in one file."""
    votes = defaultdict[str, Counter[str]](Counter)
    for line, path in old.items():
        if line in new:
            votes[path][new[line]] += 1
    best = {path: found.most_common(1)[0] for path, found in votes.items()}
    return {
        path: name for path, (name, count) in best.items() if count >= _LEAST and 2 * count > sum(votes[path].values())
    }


Judge = Callable[[Finding, Finding], bool]

JUDGED = 50  # questions to a judge in one pass
_SURE = (Strength.EXACT, Strength.MAPPED, Strength.CONTENT)


@dataclass(frozen=True, slots=True)
class Match:
    """A draft, by its index, that is a known finding."""

    draft: int
    known: FindingId
    strength: Strength
    tier: str


@dataclass(frozen=True, slots=True)
class Matching:
    """What became of all drafts and all known findings. Nobody is in it twice, and nobody is missing."""

    matches: tuple[Match, ...] = ()  # by draft
    new: tuple[int, ...] = ()
    unseen: tuple[FindingId, ...] = ()
    doubtful: tuple[Match, ...] = ()  # of new drafts: what they may be, without being taken for it


def match(
    known: Sequence[Finding],
    drafts: Sequence[Finding],
    maps: Mapping[str, LineMap] | None = None,
    judge: Judge | None = None,
) -> Matching:
    """Recognise known findings among the drafts of a pass; both have their fingerprints, `maps` is by pass."""
    old = sorted(known, key=lambda finding: finding.id)
    new = sorted(range(len(drafts)), key=lambda index: _order(drafts[index]))
    same = _same_signature(old, [drafts[index] for index in new])
    taken = set(same.values())
    found = _Found({}, {})
    if len(same) < min(len(old), len(new)):
        after = {at: of_draft(at, drafts[index]) for at, index in enumerate(new) if at not in taken}
        before = {
            at: of_known(at, finding, (maps or {}).get(finding.pass_id))
            for at, finding in enumerate(old)
            if at not in same
        }
        found = _Found(renamed(before, after.values()), after)
    found.pairs += [(Pair((), known, draft), Strength.EXACT, TIERS[0].name) for known, draft in same.items()]
    for tier in TIERS:
        found.take(tier)
    if judge is not None:
        found.ask(lambda pair: judge(old[pair.known], drafts[new[pair.draft]]))
    return _matching(found, old, new)


def _same_signature(known: Sequence[Finding], drafts: Sequence[Finding]) -> dict[int, int]:
    """The known findings and drafts that alone have a signature with code in it: nothing else need be looked at."""
    before, after = _alone(known), _alone(drafts)
    return {at: after[signed] for signed, at in before.items() if signed in after}


def _alone(findings: Sequence[Finding]) -> dict[str, int]:
    counts = Counter(finding.signature for finding in findings)
    return {
        finding.signature: at
        for at, finding in enumerate(findings)
        if counts[finding.signature] == 1 and finding.evidence and not quotes_no_code(finding)
    }


class _Found:
    """Who is still alone, and who is not."""

    def __init__(self, known: dict[int, MatchFeatures], drafts: dict[int, MatchFeatures]) -> None:
        self.known, self.drafts = known, drafts
        self.pairs: list[tuple[Pair, Strength, str]] = []

    def take(self, tier: Tier) -> None:
        """Let one tier pair whom it can."""
        if self.known and self.drafts:
            pairs = tier.pairs(tuple(self.known.values()), tuple(self.drafts.values()))
            if tier.strength is not Strength.EXACT:
                pairs = (pair for pair in pairs if not apart(self.known[pair.known], self.drafts[pair.draft]))
            for pair in assign(pairs, by_order=tier.by_order):
                self._pair(pair, tier.strength, tier.name)

    def ask(self, same: Callable[[Pair], bool]) -> None:
        """Let a judge look at those that are left, the likeliest first."""
        pairs = of_one_file(tuple(self.known.values()), tuple(self.drafts.values()))
        ranked = sorted(pairs, key=lambda pair: (tuple(-part for part in pair.score), pair.known, pair.draft))
        free = (pair for pair in ranked if pair.known in self.known and pair.draft in self.drafts)
        for pair in islice(free, JUDGED):
            if same(pair):
                self._pair(pair, Strength.JUDGED, "judge")

    def _pair(self, pair: Pair, strength: Strength, tier: str) -> None:
        del self.known[pair.known], self.drafts[pair.draft]
        self.pairs.append((pair, strength, tier))


def _matching(found: _Found, old: Sequence[Finding], new: Sequence[int]) -> Matching:
    """Who is who. What is only likely is taken for an open finding, and for no other: that would hide a defect."""
    matches, doubtful = list[Match](), list[Match]()
    for pair, strength, tier in sorted(found.pairs, key=lambda one: new[one[0].draft]):
        known = old[pair.known]
        taken = strength in _SURE or (known.state.active and not known.unreadable)
        (matches if taken else doubtful).append(Match(new[pair.draft], known.id, strength, tier))
    paired, matched = {pair.known for pair, _, _ in found.pairs}, {one.draft for one in matches}
    return Matching(
        tuple(matches),
        tuple(sorted(index for index in new if index not in matched)),
        tuple(finding.id for at, finding in enumerate(old) if at not in paired),
        tuple(doubtful),
    )


def _order(draft: Finding) -> tuple[Hashable, ...]:
    """An order of drafts that does not depend on who reported first."""
    place = draft.location
    where = (place.path, place.start or 0, place.end or 0) if place else ("", 0, 0)
    return (*where, draft.signature, draft.title, draft.category, draft.severity.rank, draft.impact)
