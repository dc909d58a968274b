"""Lines of work: the findings of several reviewers about one defect, shown and worked on under one number.

A line has no state of its own. Everything it shows is computed from its members, each of which keeps its text,
severity, state and file.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.findings.fingerprints import content_words, likeness
from pipeline.findings.model import Change, Draft, Finding, FindingId, FindingState, Gate, Location, Severity

NEAR = 3  # lines between the first item of a group and another one
ALIKE = 0.3  # of the words: measured on comments of six models and people (docs/benchmarks.md)
_LEADERS = 12  # groups of one place that a draft is compared with, so that 10,000 drafts in one file stay cheap


@dataclass(frozen=True, slots=True)
class Line:
    """A line of work. Its members are its findings, oldest first; most lines have one."""

    id: FindingId
    number: int
    members: tuple[Finding, ...]

    @property
    def lead(self) -> Finding:
        """The member that is shown: the worst open one, or the worst of all if none is open."""
        return min(self.members, key=_shown_first)

    @property
    def is_open(self) -> bool:
        """Whether any member is open."""
        return any(finding.state.is_open for finding in self.members)

    @property
    def open_members(self) -> tuple[Finding, ...]:
        """The members that are open."""
        return tuple(finding for finding in self.members if finding.state.is_open)

    @property
    def state(self) -> FindingState:
        """The state of the member that is shown: active if any member is, and then claimed if any member is."""
        return self.lead.state

    @property
    def severity(self) -> Severity:
        """The worst severity of what is open, or of all if nothing is."""
        return min((finding.severity for finding in self.open_members or self.members), key=lambda one: one.rank)

    @property
    def gate(self) -> Gate:
        """Whether any open member must be fixed; any member at all if none is open."""
        must = any(finding.gate is Gate.MUST for finding in self.open_members or self.members)
        return Gate.MUST if must else Gate.SUGGEST

    @property
    def title(self) -> str:
        """The title of the member that is shown."""
        return self.lead.title

    @property
    def location(self) -> Location | None:
        """The place of the member that is shown."""
        return self.lead.location

    @property
    def reviewers(self) -> tuple[str, ...]:
        """Everyone who reported it, that of the member that is shown first."""
        return tuple(dict.fromkeys((self.lead.reviewer, *(finding.reviewer for finding in self.members))))

    @property
    def others(self) -> tuple[Finding, ...]:
        """The members that are not the one that is shown."""
        lead = self.lead
        return tuple(finding for finding in self.members if finding.id != lead.id)

    @property
    def decisions(self) -> tuple[Change, ...]:
        """What was decided in walks, oldest first. It is recorded with every member, and counted once."""
        made = dict.fromkeys(change for finding in self.members for change in finding.decisions)
        return tuple(sorted(made, key=lambda change: change.at))


def _shown_first(finding: Finding) -> tuple[bool, bool, int, int]:
    return not finding.state.active, not finding.state.is_open, finding.severity.rank, finding.number


class _Item(NamedTuple):
    """What a draft, or a finding of the same tree, is grouped by."""

    place: int  # among the drafts
    reviewer: str
    path: str
    start: int
    end: int
    symbol: str
    words: frozenset[str]
    order: tuple[Hashable, ...]


def group(drafts: Sequence[Draft]) -> list[list[int]]:
    """Return the indices of drafts that describe the same defect in other words, every index once.

    Two drafts of one reviewer are two defects. The others are compared with the first item of a group alone: near pairs
    must not add up to a chain through the whole file. The order in which reviewers answered changes nothing.
    """
    if len({draft.reviewer for draft in drafts}) < 2:
        return [[index] for index in range(len(drafts))]
    items = sorted((_item(index, draft) for index, draft in enumerate(drafts)), key=lambda item: item.order)
    groups: list[list[_Item]] = []
    nearby = defaultdict[Hashable, deque[int]](lambda: deque(maxlen=_LEADERS))  # groups by place
    for item in items:
        best = _best_group(item, groups, {number for key in _keys(item) for number in nearby[key]})
        if best is not None:
            groups[best].append(item)
            continue
        for key in _keys(item):
            nearby[key].append(len(groups))
        groups.append([item])
    return [[item.place for item in members] for members in groups]


def _best_group(item: _Item, groups: Sequence[Sequence[_Item]], near: Iterable[int]) -> int | None:
    """Return the group that an item fits best; None if it fits none."""
    best, most = None, ALIKE
    for number in sorted(near):
        members = groups[number]
        if any(member.reviewer == item.reviewer for member in members) or not _is_near(members[0], item):
            continue
        alike = likeness(members[0].words, item.words)
        if alike > most or (best is None and alike == most):
            best, most = number, alike
    return best


def _item(index: int, draft: Draft) -> _Item:
    place = draft.location or Location(path="")
    start, end = place.start or 0, place.end or 0
    order = (place.path, start, end, draft.severity.rank, draft.title, draft.reviewer, draft.impact, draft.signature)
    words = content_words((draft.title, draft.impact))
    return _Item(index, draft.reviewer, place.path, start, end, _symbol(draft), words, order)


def _symbol(draft: Draft) -> str:
    named = (draft.location.symbol if draft.location else "", *(item.symbol for item in draft.evidence))
    return next((symbol for symbol in named if symbol), "")


def _keys(item: _Item) -> list[Hashable]:
    """Return what an item is looked up by: its file, and its function."""
    if not item.path:
        return []
    return [item.path, (item.path, item.symbol)] if item.symbol else [item.path]


def _is_near(first: _Item, item: _Item) -> bool:
    """Whether two items of one file are a few lines apart, or in one function."""
    if first.symbol and first.symbol == item.symbol:
        return True
    return bool(first.start and item.start) and abs(first.start - item.start) <= NEAR
