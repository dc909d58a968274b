"""What rounds and passes resolved, carried over, found and brought back, and when more rounds are pointless."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pipeline.errors import AwfError
from pipeline.findings.answers import STANDING
from pipeline.findings.events import Pass
from pipeline.findings.fingerprints import content_words
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Change, Finding, FindingState, Strength
from pipeline.findings.reviews import passes_by_round
from pipeline.findings.transitions import CAUSED, ReviewScope

STALL_LIMIT = 2  # refuted fixes or upheld disputes of one finding, or rounds in a row in which fixes caused findings


@dataclass(frozen=True, slots=True)
class Round:
    """One round of reviews. A finding is given by its number."""

    number: int
    resolved: tuple[int, ...] = ()  # open after the round before, and no longer reported by a review that would
    carried: tuple[int, ...] = ()  # open after the round before, and still open
    new: tuple[int, ...] = ()
    regressed: tuple[int, ...] = ()  # were fixed, and are back
    late: tuple[int, ...] = ()  # new, on lines that an earlier round had reviewed unchanged
    caused_by_fix: tuple[int, ...] = ()  # new, on lines that a fix wrote

    @property
    def outstanding(self) -> frozenset[int]:
        """The findings that are open after it."""
        return frozenset((*self.carried, *self.new, *self.regressed))


def rounds(ledger: Ledger, run: str) -> list[Round]:
    """The rounds of a run, first to last."""
    by_pass = defaultdict[str, list[tuple[int, Change]]](list)
    for finding in ledger:
        for change in finding.history:
            by_pass[change.pass_id].append((finding.number, change))
    found: list[Round] = []
    for number, passes in enumerate(passes_by_round(ledger, run), 1):
        changes = [change for one in passes for change in by_pass[one.id]]
        found.append(_round(number, passes, changes, found[-1].outstanding if found else frozenset(), ledger))
    return found


def stall_reason(ledger: Ledger, run: str) -> str:
    """Why another round would be pointless; empty while it is not. Only rulings count, no trends."""
    return next(_stall_signals(ledger, run), "")


def _round(
    number: int, passes: Sequence[Pass], changes: Sequence[tuple[int, Change]], before: frozenset[int], ledger: Ledger
) -> Round:
    concerned = before.union(one for one, _ in changes)
    known = {finding.number: finding for finding in ledger if finding.number in concerned}
    scopes = [ReviewScope.of(passed.coverage) for passed in passes]

    def expected(finding: Finding) -> bool:
        path = finding.location.path if finding.location else ""
        return any(scope.expects(finding, path) for scope in scopes)

    new = {one for one, change in changes if change.what == "raised"}
    seen = {one for one, change in changes if change.what == "seen" or _is_upheld(change)}
    reopened = [(one, change) for one, change in changes if change.state is FindingState.REOPENED]
    regressed = {one for one, change in reopened if change.note.startswith("regression")}
    resolved = {one for one in before - seen - new if one not in known or expected(known[one])}
    return Round(
        number,
        resolved=tuple(sorted(resolved)),
        carried=tuple(sorted(before - resolved - regressed)),
        new=tuple(sorted(new)),
        regressed=tuple(sorted(regressed)),
        late=tuple(sorted(one for one in new if known[one].late)),
        caused_by_fix=tuple(sorted(one for one in new if any(link.kind == CAUSED for link in known[one].links))),
    )


def _stall_signals(ledger: Ledger, run: str) -> Iterator[str]:
    found = rounds(ledger, run)
    if not found:
        return
    began = next(passed.started_at for passed in ledger.passes.values() if passed.run == run)
    last = found[-1]
    for finding in ledger:
        if finding.number not in last.outstanding or not finding.state.active or not _is_one_defect(finding):
            continue
        if (times := _refuted_fixes(finding, began)) >= STALL_LIMIT:
            yield f"finding #{finding.number} was claimed to be fixed and was not, {times} times"
        if (times := _upheld_disputes(finding, began)) >= STALL_LIMIT:
            yield f"finding #{finding.number} was disputed and upheld {times} times; a person has to decide"
        if finding.number in last.regressed:
            yield f"finding #{finding.number} was fixed and came back"
    causes = [_causes(one, ledger) for one in found[-STALL_LIMIT:]]
    # One fix may cause findings in several rounds; only another fix that does is a signal.
    if len(found) >= STALL_LIMIT and all(causes) and causes[-1] - frozenset().union(*causes[:-1]):
        yield f"finding #{last.caused_by_fix[0]} is on lines that a fix wrote, as one of the round before was"


def _causes(one: Round, ledger: Ledger) -> frozenset[str]:
    """The findings whose fixes wrote the lines of new ones."""
    new = (finding for finding in ledger if finding.number in one.caused_by_fix)
    return frozenset(link.to for finding in new for link in finding.links if link.kind == CAUSED)


def _refuted_fixes(finding: Finding, began: str) -> int:
    """How often a fix was claimed and the next review refuted it, since the run began.

    A pass that only assumed a fix, because the finding was not reported, did not claim one.
    """
    times, claimed = 0, False
    for change in finding.history:
        if change.at < began or change.state is None:
            continue
        times += claimed and change.state is FindingState.REOPENED
        claimed = change.state is FindingState.FIX_CLAIMED and (claimed or not change.pass_id)
    return times


def _upheld_disputes(finding: Finding, began: str) -> int:
    """How often a fixer called it wrong and the next review upheld it or reported it again, since the run began."""
    times, disputed = 0, False
    for change in finding.history:
        if change.at < began:
            continue
        if change.what == "attempt" and change.note == "wrong":
            disputed = True
        elif disputed and (change.what == "seen" or _is_upheld(change)):
            times, disputed = times + (not change.note.startswith("lowered")), False
    return times


def _is_upheld(change: Change) -> bool:
    """Whether a reviewer ruled that the defect is still in the code."""
    return change.what == "ruling" and change.note.partition(":")[0] in STANDING


def _is_one_defect(finding: Finding) -> bool:
    """Whether every report was surely of the same defect: a fuzzy match must repeat most words of the report before.

    A stage may fail for another reason each time.

    Near a fix, another defect may be mistaken for the first one, and what is said about both is not a ruling on either.
    """
    if finding.failing_stage:
        return False
    guessed = (change for change in finding.history if change.what == "seen" and change.note.endswith(Strength.FUZZY))
    return all(_repeats_words(finding, change.pass_id) for change in guessed)


def _repeats_words(finding: Finding, pass_id: str) -> bool:
    words = content_words(tuple(vote.title for vote in finding.votes if vote.pass_id == pass_id))
    earlier = tuple(takewhile(lambda vote: vote.pass_id != pass_id, finding.votes))
    before = content_words(tuple(vote.title for vote in earlier[-1:]))
    return 2 * len(before & words) >= len(before | words)


def compare_passes(ledger: Ledger, before: Pass, after: Pass) -> dict[str, list[Finding]]:
    """What became of findings from one pass to a later one, by what each was right after either of them.

    Resolved, carried, new or regressed, each in at most one list; of the resolved, `claimed` has those that nobody has
    verified.
    """
    order = {str(id): number for number, id in enumerate(ledger.passes)}
    if order[before.id] > order[after.id]:
        raise AwfError(f"{before.id} is later than {after.id}", help="give the earlier pass first")
    lists: dict[str, list[Finding]] = {"resolved": [], "carried": [], "new": [], "regressed": [], "claimed": []}
    for finding in ledger:
        was, now = _history_length(finding, before, order), _history_length(finding, after, order)
        if name := _classify(finding, was, now):
            lists[name].append(finding)
            if name == "resolved" and _state_at(finding, now) is FindingState.FIX_CLAIMED:
                lists["claimed"].append(finding)
    return lists


def _classify(finding: Finding, was: int, now: int) -> str:
    """What became of a finding; empty if it has no part in either pass."""
    first, last = _state_at(finding, was), _state_at(finding, now)
    if last is None:
        return ""
    if first is None:
        return "new" if last.needs_attention else ""
    if not last.needs_attention or (last is FindingState.FIX_CLAIMED and first.active):
        return "resolved" if first.needs_attention else ""
    closed = any(change.state and not change.state.needs_attention for change in finding.history[was:now])
    return "regressed" if closed or not first.needs_attention else "carried"


def _history_length(finding: Finding, after: Pass, order: Mapping[str, int]) -> int:
    """How long the history was after a pass: up to the last change by it, or else all that is not later."""
    own = [number for number, change in enumerate(finding.history, 1) if change.pass_id == after.id]
    if own:
        return own[-1]
    for number, change in enumerate(finding.history):
        if change.at > after.started_at or order.get(change.pass_id, -1) > order[after.id]:
            return number
    return len(finding.history)


def _state_at(finding: Finding, length: int) -> FindingState | None:
    """The state after that much of the history; None before it was raised."""
    return next((change.state for change in reversed(finding.history[:length]) if change.state), None)
