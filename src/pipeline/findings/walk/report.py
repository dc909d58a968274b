"""What a walk came to: the same report for every way it can end. Its counts add up to the findings it began with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pipeline.findings.model import AutofixClass, Finding, FindingState
from pipeline.findings.scales import confidence_to_anchor
from pipeline.findings.verdicts import Readiness, verdicts
from pipeline.findings.walk.present import (
    Action,
    Item,
    Walk,
    WalkContext,
    WalkDecision,
    count_of,
    one_line,
    place,
    sentences,
    title,
)

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
    made: WalkDecision | None = None


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
    impact = one_line(item.detail.impact)
    return (
        one_line(sentences(impact)[0], _SNIPPET)
        if impact
        else f"confidence {confidence_to_anchor(item.finding.confidence)}"
    )


def _line(item: Item, walk: Walk) -> WalkLine:
    id = item.finding.id
    if id in walk.dropped:
        return WalkLine(item, WalkBucket.DROPPED, one_line(walk.dropped[id], _NOTE))
    made = walk.decided.get(id)
    if made is None:
        return WalkLine(item, WalkBucket.LEFT)
    note = _fixed(item, walk) if made.action is Action.APPLY else made.reference or made.reason
    return WalkLine(item, _BUCKETS[made.action], one_line(note, _NOTE), made)


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
            yield WalkFailure(items[id], "fix", one_line(walk.fixes.failed[id], _NOTE) or "no reason given")
    for trouble in walk.troubles:
        yield WalkFailure(items[trouble.id], "ticket", trouble.reason, trouble.tracker, trouble.then)


def _gaps(walk: Walk) -> Gaps:
    covered = walk.around.coverage
    unframed = [item for item in walk.items if item.detail.missing]
    names = dict.fromkeys(name for item in unframed for name in item.detail.missing)
    told = Gaps(walk.around.suppressed, unframed=len(unframed), unframed_by=tuple(one_line(name, 60) for name in names))
    if covered is None:
        return told
    return Gaps(
        suppressed=told.suppressed,
        residual_risks=tuple(one_line(risk, _NOTE) for risk in covered.residual_risks),
        testing_gaps=tuple(one_line(gap, _NOTE) for gap in covered.testing_gaps),
        failed_reviewers=tuple(f"{one_line(name, 60)} ({status})" for name, status in covered.silent.items()),
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


def _unreviewed(around: WalkContext) -> str:
    """Why nothing can be said to be resolved: nobody looked, or not everybody answered."""
    if not around.reviewed:
        return "Nothing was reviewed."
    if around.coverage is None or around.coverage.complete:
        return ""
    silent = (f"{one_line(name, 60)} ({status})" for name, status in around.coverage.silent.items())
    return f"The review is incomplete: {', '.join(silent)}. No finding needs a decision."


def _nothing(findings: Sequence[Finding]) -> str:
    """What is said when there is nothing to decide: all is resolved only when nothing remains."""
    fixed = _repaired(findings)
    applied = f" — {count_of(fixed, 'safe_auto fix')} applied" if fixed else ""
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


_WORDS = {WalkBucket.DROPPED: "dropped by the validator", WalkBucket.LEFT: "left open"}


def markdown(told: WalkReport) -> str:
    """The report for people."""
    verdict = f"Verdict: {told.verdict}."
    if told.nothing:
        return f"{told.nothing}\n\n{verdict}"
    return "\n\n".join(
        ["## Completion report", *_failure_lines(told), *_buckets(told), counts(told), *_coverage_lines(told), verdict]
    )


def counts(told: WalkReport) -> str:
    """How many findings became what, such as `4 applied, 2 deferred`; what there is none of is left out."""
    failed = sum(failure.what == "fix" for failure in told.failures)
    parts = {
        bucket: f"{count} {_WORDS.get(WalkBucket(bucket), bucket)}" for bucket, count in told.counts.items() if count
    }
    if failed:
        parts[WalkBucket.APPLIED] += f" ({failed} failed)"
    return ", ".join(parts.values())


def document(told: WalkReport) -> dict[str, Any]:
    """The report for programs."""
    return {
        "route": told.route,
        "failures": [_failure(failure) for failure in told.failures],
        "findings": [_finding(line) for line in told.lines],
        "counts": told.counts,
        "apply": [line.item.finding.id for line in told.lines if line.bucket is WalkBucket.APPLIED],
        "tickets": _tickets(told),
        "coverage": _coverage(told.gaps),
        "summary": told.nothing or counts(told),
        "verdict": str(told.verdict),
    }


def _failure_lines(told: WalkReport) -> Iterator[str]:
    if told.failures:
        yield "**Failures**"
        yield "\n".join(map(_failed, told.failures))


def _failed(failure: WalkFailure) -> str:
    on = f" on {one_line(failure.tracker, 60)}" if failure.tracker else ""
    then = f"; {failure.then}" if failure.then else ""
    return f"- {_named(failure)} — {failure.what}{on} failed: {failure.reason}{then}"


def _buckets(told: WalkReport) -> Iterator[str]:
    for bucket in WalkBucket:
        lines = [line for line in told.lines if line.bucket is bucket]
        if lines:
            word = _WORDS.get(bucket, bucket).capitalize()
            yield f"**{word} ({len(lines)})**"
            yield "\n".join(f"- {_named(line)} — {word}{f': {line.note}' if line.note else ''}" for line in lines)


def _named(about: WalkLine | WalkFailure) -> str:
    return f"{about.item.level} {title(about.item.finding)}"


def _coverage_lines(told: WalkReport) -> Iterator[str]:
    gaps = told.gaps
    yield "**Coverage**"
    lists = {
        "Residual risks": gaps.residual_risks,
        "Testing gaps": gaps.testing_gaps,
        "Failed reviewers": gaps.failed_reviewers,
    }
    lines = [f"- Suppressed findings: {gaps.suppressed}"]
    lines += [f"- {name}: {'; '.join(texts)}" for name, texts in lists.items() if texts]
    lines += [f"- Framing-enrichment gaps: {gaps.unframed} ({', '.join(gaps.unframed_by)})"] if gaps.unframed else []
    yield "\n".join(lines)


def _failure(failure: WalkFailure) -> dict[str, Any]:
    return {
        "finding_id": failure.item.finding.id,
        "what": failure.what,
        "tracker": failure.tracker,
        "reason": failure.reason,
        "then": failure.then,
    }


def _finding(line: WalkLine) -> dict[str, Any]:
    finding, made = line.item.finding, line.made
    return {
        "id": finding.id,
        "number": finding.number,
        "title": finding.title,
        "severity": line.item.level,
        **_where(line),
        "action": str(line.bucket),
        "reference": made.reference if made else "",
        "note": line.note,
    }


def _where(line: WalkLine) -> dict[str, Any]:
    place = line.item.finding.location
    return {"file": place.path if place else None, "line": place.start if place else None}


def _tickets(told: WalkReport) -> dict[str, list[dict[str, Any]]]:
    """What became of every ticket that was to be made."""
    filed = [line for line in told.lines if line.bucket is WalkBucket.DEFERRED]
    failed = {failure.item.finding.id: failure for failure in told.failures if failure.what == "ticket"}
    for line in filed:
        failed.pop(line.item.finding.id, None)
    unsunk = [line for line in told.lines if line.made and line.made.action is Action.SKIP and line.made.unsunk]
    return {
        "filed": [
            {"finding_id": line.item.finding.id, "tracker": line.made.tracker, "url": line.made.reference}
            for line in filed
            if line.made
        ],
        "failed": [{"finding_id": id, "tracker": one.tracker, "reason": one.reason} for id, one in failed.items()],
        "no_sink": [
            {
                "finding_id": line.item.finding.id,
                "title": line.item.finding.title,
                "severity": line.item.level,
                **_where(line),
            }
            for line in unsunk
            if line.item.finding.id not in failed
        ],
    }


def _coverage(gaps: Gaps) -> dict[str, Any]:
    return {
        "suppressed": gaps.suppressed,
        "residual_risks": list(gaps.residual_risks),
        "testing_gaps": list(gaps.testing_gaps),
        "failed_reviewers": list(gaps.failed_reviewers),
        "framing_gaps": {"count": gaps.unframed, "reviewers": list(gaps.unframed_by)},
    }
