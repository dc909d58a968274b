"""Asking about groups that may tell of one defect. Without anybody to ask they stay apart, and related.

A merge needs a yes in both orders. Only leaders are asked about: a yes is never handed on from group to group.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.findings.claims import Claim
from pipeline.findings.intake.group import Group, Pair, united

Judge = Callable[[Claim, Claim], bool]  # would one fix resolve both?


@dataclass(frozen=True, slots=True)
class Judged:
    """The groups after the questions, and the pairs of them that stay apart."""

    groups: tuple[Group, ...]
    related: tuple[Pair, ...] = ()  # nobody was asked
    declined: tuple[Pair, ...] = ()  # somebody was, and they are two


def judge_pairs(groups: Sequence[Group], pairs: Sequence[Pair], judge: Judge | None) -> Judged:
    """Join the pairs that the judge takes for one defect."""
    if judge is None:
        return Judged(tuple(groups), related=tuple(pairs))
    questions = _Questions(groups, judge)
    for pair in pairs:
        questions.ask(pair)
    return questions.result()


class _Questions:
    """The groups while questions are asked about them."""

    def __init__(self, groups: Sequence[Group], judge: Judge) -> None:
        self._groups = groups
        self._judge = judge
        self._into: dict[int, int] = {}  # which group one was joined to
        self._piles: dict[int, list[int]] = {index: [index] for index in range(len(groups))}
        self._voices = [set(group.reviewers) for group in groups]
        self._apart: dict[Pair, bool] = {}  # pairs that are not one, and whether they were asked about

    def ask(self, pair: Pair) -> None:
        """Join a pair, or tell it apart. What is known is not asked again."""
        first, second = self._leaders(pair)
        if first == second or self._apart.get((first, second)):
            return
        if not self._voices[first].isdisjoint(self._voices[second]):  # by now somebody raised both
            self._apart[first, second] = False
        elif self._same(first, second):
            self._join(first, second)
        else:
            self._apart[first, second] = True

    def result(self) -> Judged:
        """The groups that are left, and how they stand to each other."""
        number = {index: place for place, index in enumerate(self._piles)}
        apart: dict[Pair, bool] = {}
        for pair, asked in self._apart.items():
            first, second = (number[index] for index in self._leaders(pair))
            if first != second:
                apart[first, second] = asked or apart.get((first, second), False)
        return Judged(
            tuple(self._pile(indices) for indices in self._piles.values()),
            related=tuple(sorted(pair for pair, asked in apart.items() if not asked)),
            declined=tuple(sorted(pair for pair, asked in apart.items() if asked)),
        )

    def _leaders(self, pair: Pair) -> Pair:
        one, other = pair
        while one in self._into:
            one = self._into[one]
        while other in self._into:
            other = self._into[other]
        return min(one, other), max(one, other)

    def _same(self, first: int, second: int) -> bool:
        one, other = self._groups[first].leader.checked, self._groups[second].leader.checked
        return self._judge(one, other) and self._judge(other, one)

    def _join(self, first: int, second: int) -> None:
        self._into[second] = first
        self._piles[first] += self._piles.pop(second)
        self._voices[first] |= self._voices[second]

    def _pile(self, indices: list[int]) -> Group:
        groups = [self._groups[index] for index in indices]
        return groups[0] if len(groups) == 1 else united(groups, "judged to be the same defect")
