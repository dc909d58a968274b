"""Who is paired with whom, once everybody's likely partners are known: one to one, best first, and no coin is tossed.

The result depends on the scores alone. Who is tied for the best place gets none: another tier may tell them apart.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from pipeline.findings.identity.anchors import Anchor

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
    drafts: tuple[Anchor, ...]

    def near(self, line: int) -> tuple[Anchor, ...]:
        """Those nearest to a line, about half of them before it."""
        count = NEAREST if len(self.lines) < CROWD else CROWDED
        first = max(0, bisect_left(self.lines, line) - count // 2)
        return self.drafts[first : first + count]

    def within(self, line: int, reach: int) -> tuple[Anchor, ...]:
        """Those at most so many lines away."""
        first, last = bisect_left(self.lines, line - reach), bisect_left(self.lines, line + reach + 1)
        return self.drafts[first : min(last, first + NEAREST)]


def shelves(keyed: Iterable[tuple[Hashable, Anchor]]) -> Mapping[Hashable, DraftGroup]:
    """Drafts by their keys."""
    found = defaultdict[Hashable, list[Anchor]](list)
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


def _shelf(drafts: list[Anchor]) -> DraftGroup:
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
