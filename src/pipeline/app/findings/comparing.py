"""What became of findings between two passes, told by what each was right after either of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.passes import Pass


@dataclass(frozen=True, slots=True)
class Difference:
    """The findings of two passes, each in at most one list."""

    before: Pass
    after: Pass
    resolved: tuple[Finding, ...]  # fixed or dismissed, or changed and not reported again
    carried: tuple[Finding, ...]
    new: tuple[Finding, ...]
    regressed: tuple[Finding, ...]  # settled in between, and back
    claimed: frozenset[str]  # of the resolved, those that nobody has verified

    def lists(self) -> dict[str, tuple[Finding, ...]]:
        """The findings under the word for what became of them."""
        return {name: getattr(self, name) for name in ("resolved", "carried", "new", "regressed")}

    def as_json(self) -> dict[str, Any]:
        """The ids for a program."""
        told = {name: [finding.id for finding in findings] for name, findings in self.lists().items()}
        claimed = [finding.id for finding in self.resolved if finding.id in self.claimed]
        return {"from": self.before.id, "to": self.after.id, **told, "claimed": claimed}


def compare(ledger: Ledger, before: Pass, after: Pass) -> Difference:
    """What became of findings from one pass to a later one."""
    order = {str(id): number for number, id in enumerate(ledger.passes)}
    if order[before.id] > order[after.id]:
        raise AwfError(f"{before.id} is later than {after.id}", help="give the earlier pass first")
    lists: dict[str, list[Finding]] = {"resolved": [], "carried": [], "new": [], "regressed": []}
    claimed = set[str]()
    for finding in ledger:
        was, now = _cut(finding, before, order), _cut(finding, after, order)
        if name := _became(finding, was, now):
            lists[name].append(finding)
            if name == "resolved" and _state(finding, now) is FindingState.FIX_CLAIMED:
                claimed.add(finding.id)
    found = {name: tuple(findings) for name, findings in lists.items()}
    return Difference(before, after, **found, claimed=frozenset(claimed))


def _became(finding: Finding, was: int, now: int) -> str:
    """The word for what became of a finding, nothing where it has no part in either pass."""
    first, last = _state(finding, was), _state(finding, now)
    if last is None:
        return ""
    if first is None:
        return "new" if last.needs_attention else ""
    if not last.needs_attention or (last is FindingState.FIX_CLAIMED and first.active):
        return "resolved" if first.needs_attention else ""
    settled = any(change.state and not change.state.needs_attention for change in finding.history[was:now])
    return "regressed" if settled or not first.needs_attention else "carried"


def _cut(finding: Finding, passed: Pass, order: Mapping[str, int]) -> int:
    """How much of a history there was after a pass: up to its own last line, or else all that is not later than it."""
    own = [number for number, change in enumerate(finding.history, 1) if change.pass_id == passed.id]
    if own:
        return own[-1]
    later = (
        number
        for number, change in enumerate(finding.history)
        if change.at > passed.started_at or order.get(change.pass_id, -1) > order[passed.id]
    )
    return next(later, len(finding.history))


def _state(finding: Finding, cut: int) -> FindingState | None:
    """What a finding was after so much of its history; None before it was raised."""
    return next((change.state for change in reversed(finding.history[:cut]) if change.state), None)
