"""The rounds of a run: what each of them resolved, carried on, found anew and brought back. Counted, never guessed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from pipeline.findings.events import Pass
from pipeline.findings.fingerprints import content_words
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Change, Finding, FindingState, Strength, Vote
from pipeline.findings.transitions import CAUSED, ReviewScope

STALL_LIMIT = 2  # times that a finding was said to be fixed and was not; rounds in a row in which fixes made findings


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of reviews came to; numbers are those of findings."""

    number: int
    resolved: tuple[int, ...] = ()  # were outstanding in the round before, and whoever would tell does not any more
    carried: tuple[int, ...] = ()  # were outstanding in the round before, and still are
    new: tuple[int, ...] = ()
    regressed: tuple[int, ...] = ()  # were fixed, and are back
    late: tuple[int, ...] = ()  # new, on lines that an earlier round had seen as they are
    caused_by_fix: tuple[int, ...] = ()  # new, on lines that a fix wrote

    @property
    def outstanding(self) -> frozenset[int]:
        """What is left to be fixed after it."""
        return frozenset((*self.carried, *self.new, *self.regressed))


def rounds(ledger: Ledger, run: str) -> list[Round]:
    """The rounds of a run, first to last."""
    told = _told(ledger)
    done: list[Round] = []
    for number, passes in enumerate(_grouped(ledger, run), 1):
        changes: dict[int, list[Change]] = defaultdict(list)
        for finding, change in (one for passed in passes for one in told[passed.id]):
            changes[finding].append(change)
        done.append(_round(number, passes, changes, done[-1].outstanding if done else frozenset(), ledger))
    return done


def _told(ledger: Ledger) -> Mapping[str, list[tuple[int, Change]]]:
    """What each pass changed, with the number of the finding."""
    told: dict[str, list[tuple[int, Change]]] = defaultdict(list)
    for finding in ledger:
        for change in finding.history:
            told[change.pass_id].append((finding.number, change))
    return told


def _grouped(ledger: Ledger, run: str) -> list[list[Pass]]:
    """The passes of each round: one ends where a stage looks again. Not every stage need look in every round."""
    groups: list[list[Pass]] = []
    for passed in ledger.passes.values():
        if passed.run != run:
            continue
        if not groups or any(one.stage == passed.stage for one in groups[-1]):
            groups.append([])
        groups[-1].append(passed)
    return groups


def _round(
    number: int, passes: Sequence[Pass], told: Mapping[int, list[Change]], before: frozenset[int], ledger: Ledger
) -> Round:
    known = {finding.number: finding for finding in ledger if finding.number in told or finding.number in before}
    new = [one for one, changes in told.items() if any(change.what == "raised" for change in changes)]
    seen = {one for one, changes in told.items() if any(change.what == "seen" for change in changes)}
    regressed = [one for one, changes in told.items() if _came_back(changes)]
    covered = [ReviewScope.of(passed.coverage) for passed in passes]
    resolved = {one for one in before - seen - {*new} if one not in known or _would_be_told(known[one], covered)}
    return Round(
        number,
        resolved=tuple(sorted(resolved)),
        carried=tuple(sorted(before - resolved - {*regressed})),
        new=tuple(sorted(new)),
        regressed=tuple(sorted(regressed)),
        late=tuple(sorted(one for one in new if known[one].late)),
        caused_by_fix=tuple(sorted(one for one in new if any(link.kind == CAUSED for link in known[one].links))),
    )


def _would_be_told(finding: Finding, covered: Iterable[ReviewScope]) -> bool:
    path = finding.location.path if finding.location else ""
    return any(one.expects(finding, path) for one in covered)


def _came_back(changes: Iterable[Change]) -> bool:
    return any(change.state is FindingState.REOPENED and change.note.startswith("regression") for change in changes)


def stall_reason(ledger: Ledger, run: str) -> str:
    """Why one more round would be of no use; empty while there is hope. Only what was ruled on counts, no trend."""
    return next(_signals(ledger, run), "")


def _signals(ledger: Ledger, run: str) -> Iterator[str]:
    done = rounds(ledger, run)
    if not done:
        return
    began = next(passed.started_at for passed in ledger.passes.values() if passed.run == run)
    for finding in ledger:
        if finding.number not in done[-1].outstanding or not finding.state.active or not _is_one(finding):
            continue
        if (times := _refuted(finding, began)) >= STALL_LIMIT:
            yield f"finding #{finding.number} was said to be fixed and was not, {times} times"
        if finding.number in done[-1].regressed:
            yield f"finding #{finding.number} was fixed and came back"
    causes = [_causes(one, ledger) for one in done[-STALL_LIMIT:]]
    if len(done) >= STALL_LIMIT and all(causes) and causes[-1] - frozenset().union(*causes[:-1]):
        yield f"finding #{done[-1].caused_by_fix[0]} is on lines that a fix wrote, as one of the round before was"


def _causes(done: Round, ledger: Ledger) -> frozenset[str]:
    """The findings whose fixes wrote the lines of new ones. What one fix broke may be found in several rounds."""
    new = (finding for finding in ledger if finding.number in done.caused_by_fix)
    return frozenset(link.to for finding in new for link in finding.links if link.kind == CAUSED)


def _refuted(finding: Finding, began: str) -> int:
    """How often somebody said that it is fixed and the next look said that it is not, since the run began.

    A fix that a pass only supposed, since nobody mentioned the finding, was said by nobody; and a fixer who says that
    something is not fixed yet claims nothing.
    """
    times, said = 0, False
    for change in finding.history:
        if change.at < began or change.state is None:
            continue
        times += said and change.state is FindingState.REOPENED
        said = change.state is FindingState.FIX_CLAIMED and (said or not change.pass_id)
    return times


def _is_one(finding: Finding) -> bool:
    """Whether every report was of one defect: on the same code, or beside it in much the same words as the one before.

    Where a fix was made another defect may be taken for the one that was there, and what is said of both is no ruling.
    """
    return all(_alike(finding.votes, change.pass_id) for change in finding.history if _is_guess(change))


def _is_guess(change: Change) -> bool:
    return change.what == "seen" and change.note.endswith(Strength.FUZZY)


def _alike(votes: Sequence[Vote], passed: str) -> bool:
    said = content_words(tuple(vote.title for vote in votes if vote.pass_id == passed))
    earlier = tuple(takewhile(lambda vote: vote.pass_id != passed, votes))
    before = content_words(tuple(vote.title for vote in earlier[-1:]))
    return 2 * len(before & said) >= len(before | said)
