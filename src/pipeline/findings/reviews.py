"""A review: the passes that assess a change together. An import is one pass; in a run they are those of a round."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from hashlib import sha256

from pipeline.findings.events import Coverage, Pass, ReviewerVerdict
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState, PassId, ReportStatus
from pipeline.findings.verdicts import BLOCK, RECORD, TREE_CHANGED, Verdicts, tree_changed, verdicts

FULL_REVIEW = "full-review"
TREE_UNKNOWN = "tree_unknown"  # the key of a pass's `ext` if git could not tell which files it saw
_NO_ANSWER = Coverage(reviewers={"": ReportStatus.MISSING})  # nothing was reviewed
_CLAIMED = (FindingState.FIX_CLAIMED, FindingState.REOPENED)


@dataclass(frozen=True, slots=True)
class Review:
    """The passes of one review, the findings it is about, and the verdicts on those."""

    passes: tuple[Pass, ...]
    findings: tuple[Finding, ...]
    coverage: Coverage
    verdicts: Verdicts

    @property
    def tree_changed(self) -> bool:
        """Whether files changed while its reviewers worked."""
        return any(map(tree_changed, self.passes))

    @property
    def rejections(self) -> list[ReviewerVerdict]:
        """Its reviewers that reject the whole change."""
        return [said for passed in self.passes for said in passed.reviewer_verdicts if said.verdict == BLOCK]


def review_of(ledger: Ledger, passed: Pass, also: Container[str] = ()) -> Review:
    """The review that a pass belongs to.

    It is about what its passes reported and ruled on, and what its run reported earlier and is not settled. A
    verification is also about every fix that was claimed. `also` has the ids of findings that it is about besides.
    """
    passes: tuple[Pass, ...] = (passed,)
    reported = {*passed.finding_ids}
    unsettled = set[str]()  # what counts only while it needs attention
    if passed.run:
        for group in passes_by_round(ledger, passed.run):
            reported = {id for one in group for id in one.finding_ids}
            if passed.id in (one.id for one in group):
                passes = tuple({one.stage: one for one in group}.values())  # the last attempt of each
                break
            unsettled |= reported
    reported, unsettled = _leaders(ledger, reported), _leaders(ledger, unsettled)
    own = {one.id for one in passes}
    findings = tuple(
        finding
        for finding in ledger
        if finding.id in reported
        or finding.id in also
        or (finding.id in unsettled and finding.state.needs_attention)
        or (passed.mode == "verify" and finding.state in _CLAIMED)
        or any(change.what == "ruling" and change.pass_id in own for change in finding.history)
    )
    said = [verdict for one in passes for verdict in one.reviewer_verdicts]
    coverage = ledger.coverage(passes[-1]) or _NO_ANSWER
    changed = any(map(tree_changed, passes))
    return Review(passes, findings, coverage, verdicts(findings, coverage, said, changed=changed))


def last_review(ledger: Ledger) -> Review | None:
    """The review that the last pass belongs to."""
    return review_of(ledger, ledger.last) if ledger.last else None


def passes_by_round(ledger: Ledger, run: str) -> list[list[Pass]]:
    """The passes of each round of a run. A round ends when a stage reviews again; not every stage is in every round."""
    groups: list[list[Pass]] = []
    for passed in ledger.passes.values():
        if passed.run != run:
            continue
        if not groups or _begins_round(passed, groups[-1]):
            groups.append([])
        groups[-1].append(passed)
    return groups


def _begins_round(passed: Pass, before: Iterable[Pass]) -> bool:
    """Whether a stage reviews again after some passes; another attempt of the same visit does not."""
    return any(one.stage == passed.stage and not 0 < one.visit == passed.visit for one in before)


def ledger_verdicts(ledger: Ledger) -> Verdicts:
    """The verdicts on all findings; incomplete if nothing was reviewed. A BLOCK holds until that reviewer answers."""
    last = last_review(ledger)
    changed = last is not None and last.tree_changed
    return verdicts(ledger, ledger.coverage() or _NO_ANSWER, standing_rejections(ledger), changed=changed)


def standing_rejections(ledger: Ledger) -> list[ReviewerVerdict]:
    """The reviewers that reject the whole change in their last answer."""
    said: dict[str, ReviewerVerdict] = {}
    for passed in ledger.passes.values():
        for name, status in passed.coverage.reviewers.items():
            if status.answered:
                said.pop(name, None)
        said |= {one.reviewer: one for one in passed.reviewer_verdicts if one.verdict == BLOCK}
    return list(said.values())


def review_id(passed: Pass) -> str:
    """The id of a review that begins with a pass: eight hexadecimal digits."""
    return sha256(passed.id.encode()).hexdigest()[:8]


def review_ids(ledger: Ledger) -> dict[PassId, str]:
    """The id of each pass's review. A round of a run has one, and a verification keeps that of the review before."""
    ids, latest = dict[PassId, str](), ""
    rounds: dict[str, list[Pass]] = {}  # the last one of each run so far
    for passed in ledger.passes.values():
        before = rounds.get(passed.run, [])
        is_next = not passed.run or _begins_round(passed, before)
        rounds[passed.run] = [passed] if is_next else [*before, passed]
        if passed.mode != "verify" or not latest:
            latest = review_id(rounds[passed.run][0])
        ids[passed.id] = latest
    return ids


def claims_to_verify(ledger: Ledger) -> list[Finding]:
    """The findings that a verification looks at: those claimed to be fixed, and those reopened."""
    return [finding for finding in ledger if finding.state in _CLAIMED]


def full_review_pass(review: Review) -> Pass | None:
    """The pass over all lenses of a review; None until each of its stages has reviewed, and if it has one lens."""
    first = review.passes[0]
    stages = {name for passed in review.passes for name in passed.full_review}
    if not stages or not stages <= {passed.stage for passed in review.passes}:
        return None
    patterns = [pattern for passed in review.passes for pattern in passed.patterns]
    extra = {"x_passes": [str(passed.id) for passed in review.passes]}
    return replace(
        first,
        skill=FULL_REVIEW,
        stage="",
        coverage=Coverage(
            reviewers={name: status for one in review.passes for name, status in one.coverage.reviewers.items()},
            problems={name: problem for one in review.passes for name, problem in one.coverage.problems.items()},
        ),
        finding_ids=tuple(dict.fromkeys(id for passed in review.passes for id in passed.finding_ids)),
        patterns=tuple(replace(one, id=f"P{number}") for number, one in enumerate(patterns, 1)),
        reviewer_verdicts=tuple(said for passed in review.passes for said in passed.reviewer_verdicts),
        ext={RECORD: extra | ({TREE_CHANGED: True} if review.tree_changed else {})},
    )


def _leaders(ledger: Ledger, ids: set[str]) -> set[str]:
    return {ledger.leader(FindingId(id)) for id in ids if id in ledger.findings}
