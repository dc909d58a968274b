"""What rounds and passes resolved, carried over, found and brought back, and when more rounds are pointless."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.ledger import Ledger, passes_of
from pipeline.findings.model import Change, Finding, FindingState, What
from pipeline.findings.rulings import STANDING

BECAME = ("resolved", "carried", "new", "regressed")
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


class _Moment(NamedTuple):
    """Right after a pass."""

    passed: Pass
    number: int  # of the pass in the store, from 1


def rounds(ledger: Ledger, run: str) -> list[Round]:
    """Return the rounds of a run, first to last."""
    found: list[Round] = []
    before: _Moment | None = None
    for number, group in groupby(passes_of(ledger, run), key=lambda passed: passed.round):
        after = _right_after(list(group)[-1], ledger)
        numbers: dict[str, list[int]] = {name: [] for name in BECAME}
        for finding in ledger.findings.values():
            name = _became(_said_in_run(ledger, finding, before), _said_in_run(ledger, finding, after))
            if name:
                numbers[name].append(finding.number)
        found.append(Round(number, **{name: tuple(sorted(listed)) for name, listed in numbers.items()}))
        before = after
    return found


def _right_after(passed: Pass, ledger: Ledger) -> _Moment:
    return _Moment(passed, list(ledger.passes).index(passed.id) + 1)


def _said_in_run(ledger: Ledger, finding: Finding, moment: _Moment | None) -> Sequence[Change]:
    """Return the history of a finding up to a moment of a run; empty if the run had said nothing of it by then."""
    if moment is None:
        return ()
    said, own = _said_by(ledger, finding, moment), ledger.passes_of(moment.passed.run)
    return said if any(change.pass_id in own for change in said) else ()


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
        answers = list(_answered_claims(said))
        refuted = sum(claim == "fixed" for claim, _ in answers)
        upheld = sum(claim == "wrong" and word != "lowered" for claim, word in answers)  # who lowers it gives way
        if refuted >= STALL_LIMIT:
            yield f"finding #{finding.number} was claimed to be fixed and was not, {refuted} times"
        if upheld >= STALL_LIMIT:
            yield f"finding #{finding.number} was disputed and upheld {upheld} times; a person has to decide"
        if said and said[-1].note.startswith("regression") and said[-1].pass_id == own[-1].id:
            yield f"finding #{finding.number} was fixed and came back"


def _answered_claims(said: Iterable[Change]) -> Iterator[tuple[str, str]]:
    """Yield each claim of a fixer that was answered with "it is still there", with the word of that answer."""
    claim = ""
    for change in said:
        if change.what is What.CLAIM:
            claim = change.word
        elif claim and _says_it_is_there(change):
            yield claim, change.word
            claim = ""


def _says_it_is_there(change: Change) -> bool:
    """Return whether somebody said that the defect is still in the code."""
    return change.what is What.SEEN or (change.what is What.RULING and change.word in STANDING)


def compare_passes(ledger: Ledger, before: Pass, after: Pass) -> dict[str, list[Finding]]:
    """Return what became of findings from one pass to a later one, by what each was right after either of them.

    Resolved, carried, new or regressed, each in at most one list; `claimed` has those of them with a fix to verify.
    """
    first, last = _right_after(before, ledger), _right_after(after, ledger)
    if first.number > last.number:
        raise AwfError(f"{before.id} is later than {after.id}", help="give the earlier pass first")
    lists: dict[str, list[Finding]] = {name: [] for name in (*BECAME, "claimed")}
    for finding in ledger.findings.values():
        said = _said_by(ledger, finding, last)
        name = _became(_said_by(ledger, finding, first), said)
        if name:
            lists[name].append(finding)
        if _state(said) is FindingState.FIX_CLAIMED:
            lists["claimed"].append(finding)
    return lists


def _became(before: Sequence[Change], after: Sequence[Change]) -> str:
    """Return what became of a finding between two moments of its history; empty if it was open at neither."""
    was, now = _state(before), _state(after)
    was_open = was is not None and was.is_open
    if now is None or not now.is_open:
        return "resolved" if was_open else ""
    if was is None:
        return "new"
    closed = any(change.state and not change.state.is_open for change in after[len(before) :])
    return "carried" if was_open and not closed else "regressed"


def _said_by(ledger: Ledger, finding: Finding, moment: _Moment) -> Sequence[Change]:
    """Return the history of a finding right after a pass: what was said before the pass, and what the pass said.

    A claim that follows the second pass has the count 2, as what this pass said itself.
    """
    said = zip(finding.history, ledger.passes_before[finding.id], strict=True)
    own = moment.passed.id
    return [change for change, count in said if count < moment.number or change.pass_id == own]


def _state(said: Sequence[Change]) -> FindingState | None:
    """Return the state after all that was said; None before the finding was raised."""
    return next((change.state for change in reversed(said) if change.state), None)
