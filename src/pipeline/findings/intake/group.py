"""Which claims tell of one defect. Sure cases are joined, likely ones only named: the same line is not the same defect.

Nothing is compared with everything: claims are found by place and title, and a group has few neighbours.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from pipeline.findings.identity.anchors import words
from pipeline.findings.intake.anchor import Placed
from pipeline.findings.model import Category

NEAR = 3  # lines between two claims about one defect
NEIGHBOURS = 8  # groups that one is compared with, to either side
_FAMILIES = (
    frozenset({
        Category.BUG, Category.SECURITY, Category.PERFORMANCE, Category.CONCURRENCY, Category.API_CONTRACT,
        Category.DATA_LOSS,
    }),
    frozenset({Category.PRODUCT, Category.REQUIREMENT}),
)  # fmt: skip

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Group:
    """Claims about one defect, its leader first, and why each of the others is with it."""

    members: tuple[Placed, ...]
    reasons: tuple[str, ...] = ()

    @property
    def leader(self) -> Placed:
        """The one that others are measured by."""
        return self.members[0]

    @property
    def reviewers(self) -> frozenset[str]:
        """Who said so."""
        return frozenset(member.claim.reviewer for member in self.members)


def united(groups: Sequence[Group], reason: str) -> Group:
    """One group of several, led by the first."""
    first, rest = groups[0], [member for group in groups[1:] for member in group.members]
    return Group((*first.members, *rest), (*first.reasons, *(reason for _ in rest)))


def exact(claims: Iterable[Placed]) -> list[Group]:
    """Claims with one title on one line are one; so are those of different reviewers on one symbol of one category."""
    titled = defaultdict[tuple[object, ...], list[Placed]](list)
    for claim in sorted(claims, key=lambda claim: claim.order):
        titled[(*_spot(claim), claim.title)].append(claim)
    groups = [Group(tuple(members), ("same line, same title",) * (len(members) - 1)) for members in titled.values()]
    return _by_symbol(groups)


def identical(claims: Iterable[Placed]) -> list[Group]:
    """Claims that cannot be read: only those of one reviewer with one text are one."""
    same = defaultdict[tuple[str, str], list[Placed]](list)
    for claim in sorted(claims, key=lambda claim: claim.order):
        same[claim.claim.reviewer, claim.claim.impact].append(claim)
    return [Group(tuple(members), ("the same text",) * (len(members) - 1)) for members in same.values()]


def near(groups: Iterable[Group]) -> list[Group]:
    """Groups with equal titles, at most three lines from the first of them. Distance is never added up."""
    leaders = defaultdict[tuple[str, str], deque[int]](deque)
    done: list[Group] = []
    for group in groups:  # they come in the order of their leaders
        keys = sorted({(group.leader.place.path, member.title) for member in group.members})
        into = next((index for key in keys for index in leaders[key] if _joins(group, done[index])), None)
        if into is not None:
            done[into] = united([done[into], group], f"same title, within {NEAR} lines")
            continue
        for key in keys:
            while leaders[key] and not _within(done[leaders[key][0]].leader, group.leader):
                leaders[key].popleft()
            leaders[key].append(len(done))
        done.append(group)
    return done


def candidates(groups: Sequence[Group]) -> list[Pair]:
    """Pairs of groups that different reviewers may have raised for one defect: close by, or on one symbol."""
    pairs = {(a, b) for a in range(len(groups)) for b in _following(groups, a)}
    symbols = defaultdict[tuple[str, str], list[int]](list)
    for index, group in enumerate(groups):
        if group.leader.place.symbol:
            symbols[group.leader.place.path, group.leader.place.symbol].append(index)
    for same in symbols.values():
        pairs.update((a, b) for nth, a in enumerate(same) for b in islice(same, nth + 1, nth + 1 + NEIGHBOURS))
    voices = [group.reviewers for group in groups]
    categories = [group.leader.claim.category for group in groups]
    return sorted(
        (a, b) for a, b in pairs if voices[a].isdisjoint(voices[b]) and compatible(categories[a], categories[b])
    )


def compatible(one: Category, other: Category) -> bool:
    """Whether two reviewers may call one defect by these two."""
    return one == other or any(one in family and other in family for family in _FAMILIES)


def _spot(claim: Placed) -> tuple[object, ...]:
    """What exact claims share: the line; where there is none, the symbol and the words that are quoted."""
    place = claim.place
    if place.start is not None:
        return (place.path, place.start)
    quote = next((item.quote for item in claim.evidence if item.quote), "")
    return (place.path, None, place.symbol, quote)


def _by_symbol(groups: Sequence[Group]) -> list[Group]:
    """Join groups on one line, of one category and symbol, whose titles share a word.

    Two that one reviewer raised are two: they were told apart.
    """
    spots = defaultdict[tuple[object, ...], list[int]](list)
    for index, group in enumerate(groups):
        leader = group.leader
        if leader.place.symbol and leader.place.start is not None:
            spots[(*_spot(leader), leader.claim.category, leader.place.symbol)].append(index)
    done: dict[int, Group] = dict(enumerate(groups))
    for same in spots.values():
        voices = [reviewer for index in same for reviewer in groups[index].reviewers]
        if len(voices) == len(set(voices)) and frozenset.intersection(
            *(words((groups[i].leader.claim.title,)) for i in same)
        ):
            done[same[0]] = united([done.pop(index) for index in same], "same line, category and symbol")
    return [done[index] for index in sorted(done)]


def _joins(group: Group, leader: Group) -> bool:
    """Whether a group belongs to a leader. A tool that names two lines means two defects."""
    return _within(leader.leader, group.leader) and not (_tools(group) & _tools(leader))


def _within(leader: Placed, claim: Placed) -> bool:
    first, line = leader.place.start, claim.place.start
    return first is not None and line is not None and line - first <= NEAR


def _tools(group: Group) -> frozenset[str]:
    return frozenset(member.claim.reviewer for member in group.members if member.by_tool)


def _following(groups: Sequence[Group], index: int) -> Iterable[int]:
    """The next few groups that begin on the lines of one, or shortly after."""
    place = groups[index].leader.place
    if place.start is None:
        return
    last = (place.end or place.start) + NEAR
    for other in range(index + 1, min(index + 1 + NEIGHBOURS, len(groups))):
        start = groups[other].leader.place.start
        if groups[other].leader.place.path != place.path or start is None or start > last:
            return
        yield other
