"""Which drafts of one pass describe the same defect, though different reviewers found it and put it in other words."""

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence

from pipeline.findings.fingerprints import content_words, likeness, symbol_of
from pipeline.findings.model import Finding

NEAR = 3  # lines between the leader of a cluster and a member
ALIKE = 0.25  # of the words: measured on comments of six models and people (docs/benchmarks.md)
_LEADERS = 12  # of one place that a draft is compared with, so that 10,000 drafts in one file stay cheap


def cluster(drafts: Sequence[Finding]) -> list[list[int]]:
    """The indices of the drafts in clusters, every index once; the first of a cluster is the one nearest to the top.

    A member is compared with the first alone: near pairs must not add up to a chain through the whole file.
    """
    if len({draft.sources for draft in drafts}) < 2:
        return [[index] for index in range(len(drafts))]
    clusters = list[list[int]]()
    leaders = defaultdict[Hashable, deque[int]](lambda: deque(maxlen=_LEADERS))
    for index in sorted(range(len(drafts)), key=lambda index: _order(drafts[index])):
        draft = drafts[index]
        near = {at for key in _keys(draft) for at in leaders[key] if _adjacent(drafts[clusters[at][0]], draft)}
        alike, nearest = max(
            (
                (likeness(_said(drafts[clusters[at][0]]), _said(draft)), -at)
                for at in near
                if not any(set(drafts[member].sources) & set(draft.sources) for member in clusters[at])
            ),
            default=(0.0, 0),
        )
        if alike >= ALIKE:
            clusters[-nearest].append(index)
            continue
        for key in _keys(draft):
            leaders[key].append(len(clusters))
        clusters.append([index])
    return clusters


def _keys(draft: Finding) -> list[Hashable]:
    """Where the drafts that may be the same are looked up: in the file, and in the function."""
    place = draft.location
    if place is None or draft.unreadable:
        return []
    symbol = symbol_of(draft)
    return [place.path, *([(place.path, symbol)] if symbol else [])]


def _adjacent(leader: Finding, draft: Finding) -> bool:
    first, second = leader.location, draft.location
    if first is None or second is None:
        return False
    near = first.start is not None and second.start is not None and abs(second.start - first.start) <= NEAR
    return near or (bool(symbol_of(leader)) and symbol_of(leader) == symbol_of(draft))


def _said(draft: Finding) -> frozenset[str]:
    return content_words((draft.title, draft.impact))


def _order(draft: Finding) -> tuple[Hashable, ...]:
    """An order that does not depend on who reported first."""
    place = draft.location
    where = (place.path, place.start or 0, place.end or 0) if place else ("", 0, 0)
    return (*where, draft.severity.rank, draft.title, draft.sources, draft.impact, draft.signature)
