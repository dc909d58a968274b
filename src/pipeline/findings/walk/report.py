"""What a walk came to: the same report for every way it can end. Its counts add up to the findings it began with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pipeline.findings.model import AutofixClass, Finding, FindingState
from pipeline.findings.scales import anchor_of
from pipeline.findings.verdicts import Readiness, verdicts
from pipeline.findings.walk.advice import Action
from pipeline.findings.walk.block import place
from pipeline.findings.walk.entry import Item
from pipeline.findings.walk.state import Around, Made, Walk
from pipeline.findings.walk.wording import counted, flat, sentences

_SNIPPET = 100  # characters of a reason
_NOTE = 300


class WalkBucket(StrEnum):
    """What became of a finding, in the order of the report."""

    APPLIED = "applied"
    DEFERRED = "deferred"
    SKIPPED = "skipped"
    ACKNOWLEDGED = "acknowledged"
    DROPPED = "dropped"  # the validator refused it
    LEFT = "left"  # nothing was decided


_BUCKETS = {
    Action.APPLY: WalkBucket.APPLIED,
    Action.DEFER: WalkBucket.DEFERRED,
    Action.SKIP: WalkBucket.SKIPPED,
    Action.ACKNOWLEDGE: WalkBucket.ACKNOWLEDGED,
}


@dataclass(frozen=True, slots=True)
class WalkLine:
    """What the report says of one finding."""

    item: Item
    bucket: WalkBucket
    note: str = ""  # the ticket, the reason, or how the fix went
    made: Made | None = None


@dataclass(frozen=True, slots=True)
class Gaps:
    """What the findings do not tell."""

    suppressed: int = 0
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()
    failed_reviewers: tuple[str, ...] = ()
    unframed: int = 0  # findings of which no reviewer told what breaks
    unframed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WalkFailure:
    """Something that was to be done and was not."""

    item: Item
    what: str  # ticket or fix
    reason: str
    tracker: str = ""
    then: str = ""


@dataclass(frozen=True, slots=True)
class WalkReport:
    """The end of a walk."""

    route: str
    failures: tuple[WalkFailure, ...]
    lines: tuple[WalkLine, ...]  # by bucket, and in the order of the walk
    gaps: Gaps
    verdict: Readiness
    nothing: str = ""  # what is said instead when there was nothing to decide

    @property
    def counts(self) -> dict[str, int]:
        """How many findings are in each bucket."""
        return {str(bucket): sum(line.bucket is bucket for line in self.lines) for bucket in WalkBucket}


def report(walk: Walk) -> WalkReport:
    """The report on a walk that is over."""
    order = list(WalkBucket)
    lines = sorted((_line(item, walk) for item in walk.items), key=lambda line: order.index(line.bucket))
    return WalkReport(
        route=str(walk.route),
        failures=tuple(_failures(walk)),
        lines=tuple(lines),
        gaps=_gaps(walk),
        verdict=_verdict(walk),
        nothing="" if walk.items else _unreviewed(walk.around) or _nothing(walk.around.findings),
    )


def skipped_because(item: Item) -> str:
    """Why a finding that a person skips can be skipped: what it is about, or how sure it is."""
    impact = flat(item.detail.impact)
    return flat(sentences(impact)[0], _SNIPPET) if impact else f"confidence {anchor_of(item.finding.confidence)}"


def _line(item: Item, walk: Walk) -> WalkLine:
    id = item.finding.id
    if id in walk.dropped:
        return WalkLine(item, WalkBucket.DROPPED, flat(walk.dropped[id], _NOTE))
    made = walk.decided.get(id)
    if made is None:
        return WalkLine(item, WalkBucket.LEFT)
    note = _fixed(item, walk) if made.action is Action.APPLY else made.reference or made.reason
    return WalkLine(item, _BUCKETS[made.action], flat(note, _NOTE), made)


def _fixed(item: Item, walk: Walk) -> str:
    if item.finding.id in walk.fixes.failed:
        return "the fix failed"
    where = place(item.finding, whole=True)
    if item.finding.id in walk.fixes.made:
        return where
    return f"{where}, staged and not made yet" if where else "staged and not made yet"


def _failures(walk: Walk) -> Iterator[WalkFailure]:
    items = {item.finding.id: item for item in walk.items}
    for id in walk.accepted:
        if id in walk.fixes.failed:
            yield WalkFailure(items[id], "fix", flat(walk.fixes.failed[id], _NOTE) or "no reason given")
    for trouble in walk.troubles:
        yield WalkFailure(items[trouble.id], "ticket", trouble.reason, trouble.tracker, trouble.then)


def _gaps(walk: Walk) -> Gaps:
    covered = walk.around.coverage
    unframed = [item for item in walk.items if item.detail.missing]
    names = dict.fromkeys(name for item in unframed for name in item.detail.missing)
    told = Gaps(walk.around.suppressed, unframed=len(unframed), unframed_by=tuple(flat(name, 60) for name in names))
    if covered is None:
        return told
    return Gaps(
        suppressed=told.suppressed,
        residual_risks=tuple(flat(risk, _NOTE) for risk in covered.residual_risks),
        testing_gaps=tuple(flat(gap, _NOTE) for gap in covered.testing_gaps),
        failed_reviewers=tuple(f"{flat(name, 60)} ({status})" for name, status in covered.silent.items()),
        unframed=told.unframed,
        unframed_by=told.unframed_by,
    )


def _verdict(walk: Walk) -> Readiness:
    """How ready the change is, with what was done: a fix that was made is a claim until somebody has looked."""
    if not walk.around.reviewed:
        return Readiness.NOT_READY
    made = walk.fixes.made
    left = [
        replace(finding, state=FindingState.FIX_CLAIMED) if finding.id in made else finding
        for finding in walk.around.findings
    ]
    return verdicts(left, walk.around.coverage, fixes_applied=bool(made or _repaired(left))).readiness


def _repaired(findings: Sequence[Finding]) -> int:
    """How many findings were repaired without asking anybody."""
    done = (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED)
    return sum(finding.autofix_class is AutofixClass.SAFE_AUTO and finding.state in done for finding in findings)


def _unreviewed(around: Around) -> str:
    """Why nothing can be said to be resolved: nobody looked, or not everybody answered."""
    if not around.reviewed:
        return "Nothing was reviewed."
    if around.coverage is None or around.coverage.complete:
        return ""
    silent = (f"{flat(name, 60)} ({status})" for name, status in around.coverage.silent.items())
    return f"The review is incomplete: {', '.join(silent)}. No finding needs a decision."


def _nothing(findings: Sequence[Finding]) -> str:
    """What is said when there is nothing to decide: all is resolved only when nothing remains."""
    fixed = _repaired(findings)
    applied = f" — {counted(fixed, 'safe_auto fix')} applied" if fixed else ""
    left = {name: count for name, count in _remaining(findings).items() if count}
    if not left:
        return f"All findings resolved{applied}."
    one = sum(left.values()) == 1
    names = ", ".join(f"{count} {name}" for name, count in left.items())
    rest = f"({names} {'finding remains' if one else 'findings remain'} in the report.)"
    open_safe = "safe_auto" in left or "doubtful" in left
    return f"{'No finding needs a decision' if open_safe else 'All actionable findings resolved'}{applied}. {rest}"


def _remaining(findings: Sequence[Finding]) -> dict[str, int]:
    """The findings that are open and that nobody is asked about, by why."""
    names = ("advisory", "pre-existing", "safe_auto", "doubtful")
    kinds = [_kind(finding) for finding in findings if finding.state.active]
    return {name: kinds.count(name) for name in names}


def _kind(finding: Finding) -> str:
    if finding.pre_existing:
        return "pre-existing"
    advice = {AutofixClass.ADVISORY: "advisory", AutofixClass.SAFE_AUTO: "safe_auto"}
    return advice.get(finding.autofix_class, "doubtful")
