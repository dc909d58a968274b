"""The ways to recognise a finding, surest first. Each says who may be whom and how well that fits; none decides."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline.findings.identity.anchors import Anchor, agree, likeness, may_be, overlap, words
from pipeline.findings.identity.assign import Pair, shelves
from pipeline.findings.identity.texts import AROUND
from pipeline.findings.model import Strength

_LONG = 24  # characters of a text that is the same one in another file
_ALIKE = 0.5  # of the lines around, for a place to be the same though its text is not
_SURROUNDED = 0.25  # of the lines around, for one of several equal texts
_ELSEWHERE = 0.75  # of the lines around, for a text that git says stayed where no draft is


Same = Callable[[Anchor, Anchor], bool]
Pairing = Callable[[Sequence[Anchor], Sequence[Anchor]], Iterable[Pair]]


@dataclass(frozen=True, slots=True)
class Tier:
    """One way to recognise a finding."""

    name: str
    strength: Strength
    pairs: Pairing
    by_order: bool = False  # equals are paired as they come: whoever has the name is the one


def _named(known: Sequence[Anchor], drafts: Sequence[Anchor]) -> Iterator[Pair]:
    """T1: the same signature, alias or id of a tool, which is the claim and the code together."""
    found = shelves((name, draft) for draft in drafts for name in (*draft.names, *draft.ids, draft.loose) if name)
    for one in known:
        for name in (*one.names, *one.ids, one.loose):
            if name in found:
                near = (draft for draft in found[name].near(one.line) if _is_named(one, draft, name))
                yield from (_pair(one, draft, _placed(one, draft), overlap(one, draft)) for draft in near)


def _is_named(one: Anchor, draft: Anchor, name: str) -> bool:
    """Whether a name that two share makes them one: a tool's id only where they share a word, or their source."""
    if name == one.loose:
        return _same_place(one, draft)
    return name in one.names or not one.sources.isdisjoint(draft.sources) or bool(one.words & draft.words)


def _mapped(known: Sequence[Anchor], drafts: Sequence[Anchor], same: Same) -> Iterator[Pair]:
    """T2: the same text on the line where git says that it went."""
    found = shelves(((draft.path, draft.line, draft.text), draft) for draft in drafts if draft.text)
    for one in known:
        if one.kept and (one.path, one.line, one.text) in found:
            near = found[one.path, one.line, one.text].near(one.line)
            yield from (_pair(one, draft) for draft in near if same(one, draft))


def _unique(known: Sequence[Anchor], drafts: Sequence[Anchor], same: Same) -> Iterator[Pair]:
    """T3: a text that its file has once, then and now."""
    found = shelves(((draft.path, draft.text), draft) for draft in drafts if draft.once and draft.distinctive)
    for one in known:
        if one.once and (one.path, one.text) in found:
            near = found[one.path, one.text].near(one.line)
            yield from (_pair(one, draft) for draft in near if same(one, draft))


def _surrounded(known: Sequence[Anchor], drafts: Sequence[Anchor], same: Same) -> Iterator[Pair]:
    """T4: of several equal texts the one with the most of its surroundings, then the nearest."""
    found = shelves(((draft.path, draft.text), draft) for draft in drafts if draft.text)
    for one in known:
        for draft in found[one.path, one.text].near(one.line) if (one.path, one.text) in found else ():
            around = overlap(one, draft)
            if around >= _least(one, draft) and same(one, draft):
                yield _pair(one, draft, around, one.nth == draft.nth, -abs(one.line - draft.line))


def _within_symbol(known: Sequence[Anchor], drafts: Sequence[Anchor]) -> Iterator[Pair]:
    """T5: the only one of its kind in a function, then and now, in words that are not just the function's name."""

    def key(one: Anchor) -> Hashable:
        return one.path, one.symbol, one.category

    found = shelves((key(draft), draft) for draft in drafts if draft.symbol)
    alone = Counter(key(one) for one in known if one.symbol)
    for one in known:
        if alone[key(one)] == 1 and len(found[key(one)].drafts if key(one) in found else ()) == 1:
            draft = found[key(one)].drafts[0]
            if (one.words & draft.words) - words((one.symbol,)):
                yield _pair(one, draft)


def _close(known: Sequence[Anchor], drafts: Sequence[Anchor], same: Same) -> Iterator[Pair]:
    """T6: at most three lines away, in much the same surroundings."""
    nearby = _nearby(drafts)
    for one in known:
        for draft in nearby(one):
            around = overlap(one, draft)
            if around >= (_SURROUNDED if one.kept and same is agree else _ALIKE) and same(one, draft):
                yield _pair(one, draft, around, -abs(one.line - draft.line))


def _nearby(drafts: Sequence[Anchor]) -> Callable[[Anchor], Iterable[Anchor]]:
    """Who is near: by the line that git says, or else by any line of the surroundings."""
    by_path = shelves((draft.path, draft) for draft in drafts if draft.line)
    by_line = shelves(((draft.path, line), draft) for draft in drafts for line in set(draft.window))

    def near(one: Anchor) -> Iterable[Anchor]:
        if one.mapped:
            return by_path[one.path].within(one.line, AROUND) if one.path in by_path else ()
        keys = [(one.path, line) for line in sorted(set(one.window)) if (one.path, line) in by_line]
        return {draft.at: draft for key in keys for draft in by_line[key].near(one.line)}.values()

    return near


def _in_another_file(known: Sequence[Anchor], drafts: Sequence[Anchor]) -> Iterator[Pair]:
    """T7: a long text that one known finding and one draft have, in different files, with some of its surroundings."""
    found = defaultdict[str, list[Anchor]](list)
    for draft in drafts:
        if _is_long(draft):
            found[draft.text].append(draft)
    alone = Counter(one.text for one in known if _is_long(one))
    for one in known:
        if alone[one.text] == 1 == len(found.get(one.text, ())):
            draft = found[one.text][0]
            if one.path != draft.path and overlap(one, draft) >= _SURROUNDED and may_be(one, draft):
                yield _pair(one, draft)


def _loose(known: Sequence[Anchor], drafts: Sequence[Anchor]) -> Iterator[Pair]:
    """Last: the same claim about the same file by one who quotes no code; which of its lines is meant, nobody knows."""
    found = shelves((draft.loose, draft) for draft in drafts if draft.loose)
    for one in known:
        if one.loose in found:
            yield from (_pair(one, draft, overlap(one, draft)) for draft in found[one.loose].near(one.line))


def of_one_file(known: Sequence[Anchor], drafts: Sequence[Anchor]) -> Iterator[Pair]:
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


def _pair(one: Anchor, draft: Anchor, *first: float) -> Pair:
    """A pair by what its tier looks at, then by what is said, then for a finding that still counts."""
    said = (one.category == draft.category) + 2 * likeness(one, draft)
    return Pair((*map(float, first), said, float(one.active)), one.at, draft.at)


def _placed(one: Anchor, draft: Anchor) -> float:
    return -float(abs(one.line - draft.line)) if one.path == draft.path else float("-inf")


def _same_place(one: Anchor, draft: Anchor) -> bool:
    """Whether a claim that quotes nothing is about the same line."""
    if one.text != draft.text:
        return False
    return one.line == draft.line or (one.once and draft.once)


def _least(one: Anchor, draft: Anchor) -> float:
    if one.mapped and abs(one.line - draft.line) > AROUND:
        return _ELSEWHERE
    return _SURROUNDED if one.distinctive else _ALIKE


def _is_long(one: Anchor) -> bool:
    return one.once and one.distinctive and len(one.text) >= _LONG
