"""Which drafts of one pass describe the same defect, though different reviewers found it and put it in other words."""

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence

from pipeline.findings.fingerprints import content_words, likeness, symbol_of
from pipeline.findings.model import Finding

NEAR = 3  # lines between the leader of a cluster and a member
ALIKE = 0.3  # of the words: measured on comments of six models and people (docs/benchmarks.md)
_LEADERS = 12  # of one place that a draft is compared with, so that 10,000 drafts in one file stay cheap


def cluster(drafts: Sequence[Finding]) -> list[list[int]]:
    """The indices of the drafts in clusters, every index once; the first of a cluster is the one nearest to the top.

    A member is compared with the first alone: near pairs must not add up to a chain through the whole file.
    """
    if len({draft.sources for draft in drafts}) < 2:
        return [[index] for index in range(len(drafts))]
    clusters = list[list[int]]()
    numbers = defaultdict[Hashable, deque[int]](lambda: deque(maxlen=_LEADERS))  # of clusters, by place
    for index in sorted(range(len(drafts)), key=lambda index: _order(drafts[index])):
        draft = drafts[index]
        near = {number for key in _keys(draft) for number in numbers[key]}
        alike = {number: _alike([drafts[member] for member in clusters[number]], draft) for number in near}
        best = max(alike, key=lambda number: (alike[number], -number), default=-1)
        if alike.get(best, 0.0) >= ALIKE:
            clusters[best].append(index)
        else:
            for key in _keys(draft):
                numbers[key].append(len(clusters))
            clusters.append([index])
    return clusters


def _alike(members: Sequence[Finding], draft: Finding) -> float:
    """How well a draft fits a cluster, from 0 to 1: in words, where it is near enough and nobody is in it twice."""
    if not _near(members[0], draft) or any(set(member.sources) & set(draft.sources) for member in members):
        return 0.0
    leader, other = (content_words((one.title, one.impact)) for one in (members[0], draft))
    return likeness(leader, other)


def _keys(draft: Finding) -> list[Hashable]:
    """Where the drafts that may be the same are looked up: in the file, and in the function."""
    place = draft.location
    if place is None or draft.unreadable:
        return []
    symbol = symbol_of(draft)
    return [place.path, *([(place.path, symbol)] if symbol else [])]


def _near(leader: Finding, draft: Finding) -> bool:
    """Whether two in one file are a few lines apart, or in one function."""
    if (symbol := symbol_of(leader)) and symbol == symbol_of(draft):
        return True
    lines = [one.location.start for one in (leader, draft) if one.location and one.location.start is not None]
    return len(lines) == 2 and abs(lines[0] - lines[1]) <= NEAR


def _order(draft: Finding) -> tuple[Hashable, ...]:
    """An order that does not depend on who reported first."""
    place = draft.location
    where = (place.path, place.start or 0, place.end or 0) if place else ("", 0, 0)
    return (*where, draft.severity.rank, draft.title, draft.sources, draft.impact, draft.signature)
