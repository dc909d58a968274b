"""What rounds and passes resolved, carried over, found and brought back, and when more rounds are pointless."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

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


class _Timeline:
    """Tells what had been said of a finding right after a pass.

    What a pass says counts from that pass on. So does what a record said that the pass took in: that names no pass of
    this store. What is said outside of passes, such as a claim after the second one, counts from the third one on.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._numbers = {str(id): number for number, id in enumerate(ledger.passes, 1)}

    def number(self, passed: Pass) -> int:
        """Return the number of a pass in the store, from 1."""
        return self._numbers[passed.id]

    def said(self, finding: Finding, after: Pass) -> Sequence[Change]:
        """Return the history of a finding right after a pass."""
        number = self.number(after)
        history = zip(finding.history, self._ledger.passes_before[finding.id], strict=True)
        return [change for change, before in history if self._counts_from(change, before) <= number]

    def _counts_from(self, change: Change, before: int) -> int:
        """Return the number of the first pass that a change counts for, given how many there were when it was made."""
        outside = before if change.what in (What.RAISED, What.SEEN) else before + 1
        return self._numbers.get(change.pass_id, outside)

    def said_in_run(self, finding: Finding, after: Pass | None) -> Sequence[Change]:
        """Return the same, and nothing as long as the run of the pass has said nothing of the finding."""
        if after is None:
            return ()
        said, own = self.said(finding, after), self._ledger.passes_of(after.run)
        return said if any(change.pass_id in own for change in said) else ()


def rounds(ledger: Ledger, run: str) -> list[Round]:
    """Return the rounds of a run, first to last."""
    found: list[Round] = []
    timeline, before = _Timeline(ledger), None
    for number, group in groupby(passes_of(ledger, run), key=lambda passed: passed.round):
        after = list(group)[-1]
        numbers: dict[str, list[int]] = {name: [] for name in BECAME}
        for finding in ledger.findings.values():
            name = _became(timeline.said_in_run(finding, before), timeline.said_in_run(finding, after))
            if name:
                numbers[name].append(finding.number)
        found.append(Round(number, **{name: tuple(sorted(listed)) for name, listed in numbers.items()}))
        before = after
    return found


def stall_reason(ledger: Ledger, run: str) -> str:
    """Return why another round would be pointless; empty while it is not. Only what was said counts, no trends."""
    return next(_stall_signals(ledger, run), "")


def _stall_signals(ledger: Ledger, run: str) -> Iterator[str]:
    own = ledger.passes_of(run)
    last = next(reversed(list(own)), "")
    for finding in ledger.findings.values():
        if not finding.state.active or finding.failing_stage:  # a stage may fail for another reason each time
            continue
        said = [change for change in finding.history if change.run == run or change.pass_id in own]
        answers = list(_answered_claims(said))
        refuted = sum(claim == "fixed" for claim, _ in answers)
        upheld = sum(claim == "wrong" and word != "lowered" for claim, word in answers)  # who lowers it gives way
        if refuted >= STALL_LIMIT:
            yield f"finding #{finding.number} was claimed to be fixed and was not, {refuted} times"
        if upheld >= STALL_LIMIT:
            yield f"finding #{finding.number} was disputed and upheld {upheld} times; a person has to decide"
        if said and said[-1].note.startswith("regression") and said[-1].pass_id == last:
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
    timeline = _Timeline(ledger)
    if timeline.number(before) > timeline.number(after):
        raise AwfError(f"{before.id} is later than {after.id}", help="give the earlier pass first")
    lists: dict[str, list[Finding]] = {name: [] for name in (*BECAME, "claimed")}
    for finding in ledger.findings.values():
        said = timeline.said(finding, after)
        name = _became(timeline.said(finding, before), said)
        if name:
            lists[name].append(finding)
        if _state(said) is FindingState.FIX_CLAIMED:
            lists["claimed"].append(finding)
    return lists


def _became(before: Sequence[Change], after: Sequence[Change]) -> str:
    """Return what became of a finding between two moments of its history; empty if it was open at neither."""
    was_open, is_open = _is_open(before), _is_open(after)
    if not is_open:
        return "resolved" if was_open else ""
    if was_open is None:
        return "new"
    closed = any(change.state and not change.state.is_open for change in after[len(before) :])
    return "carried" if was_open and not closed else "regressed"


def _is_open(said: Sequence[Change]) -> bool | None:
    """Return whether a finding is open after all that was said; None before it was raised."""
    state = _state(said)
    return state.is_open if state else None


def _state(said: Sequence[Change]) -> FindingState | None:
    """Return the state after all that was said; None before the finding was raised."""
    return next((change.state for change in reversed(said) if change.state), None)
