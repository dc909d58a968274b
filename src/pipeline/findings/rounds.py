"""What rounds and passes resolved, carried over, found and brought back, and when more rounds are pointless."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.ledger import Ledger, passes_of
from pipeline.findings.model import Change, Finding, FindingState, PassId, What
from pipeline.findings.rulings import STANDING

STALL_LIMIT = 2  # refuted fixes or upheld disputes of one finding


@dataclass(frozen=True, slots=True)
class Round:
    """One round of reviews. A finding is given by its number."""

    number: int
    resolved: tuple[int, ...] = ()  # open after the round before, and closed since
    carried: tuple[int, ...] = ()  # open after the round before, and still open
    new: tuple[int, ...] = ()
    regressed: tuple[int, ...] = ()  # were closed, and are back

    @property
    def outstanding(self) -> frozenset[int]:
        """The findings that are open after it."""
        return frozenset((*self.carried, *self.new, *self.regressed))


def rounds(ledger: Ledger, run: str) -> list[Round]:
    """Return the rounds of a run, first to last."""
    found: list[Round] = []
    before: dict[str, FindingState] = {}
    for number, group in groupby(passes_of(ledger, run), key=lambda passed: passed.round):
        after = _states_after(ledger, run, list(group)[-1])
        found.append(_round(number, before, after, ledger))
        before = after
    return found


def _states_after(ledger: Ledger, run: str, last: Pass) -> dict[str, FindingState]:
    """Return the states of a run's findings right after a pass, by their ids."""
    order = {id: number for number, id in enumerate(ledger.passes)}
    own = {passed.id for passed in passes_of(ledger, run) if order[passed.id] <= order[last.id]}
    found: dict[str, FindingState] = {}
    for finding in ledger.findings.values():
        if any(change.pass_id in own for change in finding.history):
            state = _state_at(finding, _history_length(finding, last, order))
            if state:
                found[finding.id] = state
    return found


def _round(number: int, before: dict[str, FindingState], after: dict[str, FindingState], ledger: Ledger) -> Round:
    lists: dict[str, list[int]] = {"resolved": [], "carried": [], "new": [], "regressed": []}
    for finding in ledger.findings.values():
        was, now = before.get(finding.id), after.get(finding.id)
        if now is None:
            continue
        if now.is_open:
            name = "new" if was is None else "carried" if was.is_open else "regressed"
            lists[name].append(finding.number)
        elif was is not None and was.is_open:
            lists["resolved"].append(finding.number)
    return Round(number, **{name: tuple(sorted(numbers)) for name, numbers in lists.items()})


def stall_reason(ledger: Ledger, run: str) -> str:
    """Return why another round would be pointless; empty while it is not. Only what was said counts, no trends."""
    return next(_stall_signals(ledger, run), "")


def _stall_signals(ledger: Ledger, run: str) -> Iterator[str]:
    own = passes_of(ledger, run)
    if not own:
        return
    ids = {passed.id for passed in own}
    for finding in ledger.findings.values():
        if not finding.state.active or finding.failing_stage:  # a stage may fail for another reason each time
            continue
        said = [change for change in finding.history if change.run == run or change.pass_id in ids]
        if (times := _refuted_fixes(said)) >= STALL_LIMIT:
            yield f"finding #{finding.number} was claimed to be fixed and was not, {times} times"
        if (times := _upheld_disputes(said)) >= STALL_LIMIT:
            yield f"finding #{finding.number} was disputed and upheld {times} times; a person has to decide"
        if said and said[-1].note.startswith("regression") and said[-1].pass_id == own[-1].id:
            yield f"finding #{finding.number} was fixed and came back"


def _refuted_fixes(said: Sequence[Change]) -> int:
    """Return how often a fix was claimed and what was said next is that it is not fixed."""
    times, claimed = 0, False
    for change in said:
        if change.what is What.CLAIM:
            claimed = change.word == "fixed"
        elif claimed and _says_it_is_there(change):
            times, claimed = times + 1, False
    return times


def _upheld_disputes(said: Sequence[Change]) -> int:
    """Return how often a fixer called it wrong, and what was said next is that it is right."""
    times, disputed = 0, False
    for change in said:
        if change.what is What.CLAIM:
            disputed = change.word == "wrong"
        elif disputed and _says_it_is_there(change):
            times, disputed = times + (1 if change.word != "lowered" else 0), False
    return times


def _says_it_is_there(change: Change) -> bool:
    """Return whether somebody said that the defect is still in the code."""
    return change.what is What.SEEN or (change.what is What.RULING and change.word in STANDING)


def compare_passes(ledger: Ledger, before: Pass, after: Pass) -> dict[str, list[Finding]]:
    """Return what became of findings from one pass to a later one, by what each was right after either of them.

    Resolved, carried, new or regressed, each in at most one list; `claimed` has those of them with a fix to verify.
    """
    order = {id: number for number, id in enumerate(ledger.passes)}
    if order[before.id] > order[after.id]:
        raise AwfError(f"{before.id} is later than {after.id}", help="give the earlier pass first")
    lists: dict[str, list[Finding]] = {"resolved": [], "carried": [], "new": [], "regressed": [], "claimed": []}
    for finding in ledger.findings.values():
        was, now = _history_length(finding, before, order), _history_length(finding, after, order)
        if name := _classify(finding, was, now):
            lists[name].append(finding)
        if _state_at(finding, now) is FindingState.FIX_CLAIMED:
            lists["claimed"].append(finding)
    return lists


def _classify(finding: Finding, was: int, now: int) -> str:
    """Return what became of a finding; empty if it has no part in either pass."""
    first, last = _state_at(finding, was), _state_at(finding, now)
    if last is None:
        return ""
    if first is None:
        return "new" if last.is_open else ""
    if not last.is_open:
        return "resolved" if first.is_open else ""
    closed = any(change.state and not change.state.is_open for change in finding.history[was:now])
    return "regressed" if closed or not first.is_open else "carried"


def _history_length(finding: Finding, after: Pass, order: Mapping[PassId, int]) -> int:
    """Return how long the history was after a pass: up to the last change by it, or else all that is not later."""
    own = [number for number, change in enumerate(finding.history, 1) if change.pass_id == after.id]
    if own:
        return own[-1]
    for number, change in enumerate(finding.history):
        if change.at > after.started_at or order.get(PassId(change.pass_id), -1) > order[after.id]:
            return number
    return len(finding.history)


def _state_at(finding: Finding, length: int) -> FindingState | None:
    """Return the state after that much of the history; None before it was raised."""
    return next((change.state for change in reversed(finding.history[:length]) if change.state), None)
