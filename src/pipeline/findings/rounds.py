"""The rounds of a run: what each of them resolved, carried on, found anew and brought back. Counted, never guessed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pipeline.findings.identity.merging import CAUSED
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Change, Finding, State


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of reviews came to; numbers are those of findings."""

    number: int
    resolved: tuple[int, ...] = ()  # were outstanding in the round before, and are not reported any more
    carried: tuple[int, ...] = ()  # were outstanding in the round before, and still are
    new: tuple[int, ...] = ()
    regressed: tuple[int, ...] = ()  # were fixed, and are back
    late: tuple[int, ...] = ()  # new, on lines that an earlier round had seen as they are
    caused_by_fix: tuple[int, ...] = ()  # new, on lines that a fix wrote


def rounds(ledger: Ledger, run: str) -> list[Round]:
    """The rounds of a run, first to last."""
    passes: dict[int, set[str]] = defaultdict(set)
    for passed in ledger.passes.values():
        if passed.run == run:
            passes[passed.round].add(passed.id)
    done: list[Round] = []
    before: set[int] = set()
    for number, ids in sorted(passes.items()):
        done.append(_round(number, ids, before, list(ledger)))
        before = {*done[-1].carried, *done[-1].new, *done[-1].regressed}
    return done


def _round(number: int, passes: set[str], before: set[int], findings: Iterable[Finding]) -> Round:
    new, seen, regressed, late, caused = [], set(), [], [], []
    for finding in findings:
        changes = [change for change in finding.history if change.pass_id in passes]
        if any(change.what == "raised" for change in changes):
            new.append(finding.number)
            late += [finding.number] if finding.late else []
            caused += [finding.number] if any(link.kind == CAUSED for link in finding.links) else []
        elif any(change.what == "seen" for change in changes):
            seen.add(finding.number)
            regressed += [finding.number] if _came_back(changes) else []
    carried = (seen & before) - set(regressed)
    return Round(
        number,
        resolved=tuple(sorted(before - seen - set(new))),
        carried=tuple(sorted(carried)),
        new=tuple(new),
        regressed=tuple(regressed),
        late=tuple(late),
        caused_by_fix=tuple(caused),
    )


def _came_back(changes: Iterable[Change]) -> bool:
    return any(change.state is State.REOPENED and change.note.startswith("regression") for change in changes)


def stalled(ledger: Ledger, run: str) -> str:
    """Why one more round would be of no use; empty while there is hope. Only what was ruled on counts, no trend."""
    return next(_signals(ledger, run), "")


def _signals(ledger: Ledger, run: str) -> Iterator[str]:
    done = rounds(ledger, run)
    if not done:
        return
    now = {*done[-1].carried, *done[-1].new, *done[-1].regressed}
    for finding in ledger:
        tries = [one for one in finding.attempts if one.run == run and one.outcome == "not_fixed"]
        if finding.number in now and len(tries) >= 2:
            yield f"finding #{finding.number} was said to be fixed and was not, {len(tries)} times"
    if done[-1].regressed:
        yield f"finding #{done[-1].regressed[0]} was fixed and came back"
    if len(done) > 1 and done[-1].caused_by_fix and done[-2].caused_by_fix:
        yield f"finding #{done[-1].caused_by_fix[0]} is on lines that a fix wrote, as one of the round before was"
