"""The completion report of a walk, the same however it ended. Its counts add up to the findings it started with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pipeline.findings.events import Coverage
from pipeline.findings.model import AutofixClass, Finding, FindingState
from pipeline.findings.verdicts import Readiness, verdicts
from pipeline.findings.walk.machine import Action, Walk, WalkContext, WalkItem
from pipeline.findings.walk.present import location, one_line, title

_MAX_NOTE = 300  # characters
_MAX_NAME = 60


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
_WORDS = {WalkBucket.DROPPED: "dropped by the validator", WalkBucket.LEFT: "left open"}


@dataclass(frozen=True, slots=True)
class ReportLine:
    """What became of one finding."""

    item: WalkItem
    bucket: WalkBucket
    note: str = ""  # the ticket, the reason, or how the fix went
    reference: str = ""  # of the ticket


@dataclass(frozen=True, slots=True)
class ReportFailure:
    """A fix or a ticket that failed."""

    item: WalkItem
    what: str  # ticket or fix
    reason: str
    tracker: str = ""
    then: str = ""


def render_report(walk: Walk) -> str:
    """Return the report as markdown: failures, findings by what became of them, counts, coverage, verdict."""
    verdict = f"Verdict: {readiness(walk)}."
    if not walk.items:
        return f"{summarize(walk)}\n\n{verdict}"
    sections = ["## Completion report", *_failure_section(walk), *_bucket_sections(walk)]
    return "\n\n".join([*sections, summarize(walk), _coverage_section(walk), verdict])


def summarize(walk: Walk) -> str:
    """Return the counts, such as `4 applied, 2 deferred`, or why there was nothing to decide."""
    if not walk.items:
        return _why_incomplete(walk.context) or _nothing_to_decide(walk.context.findings)
    parts = {bucket: f"{count} {_WORDS.get(bucket, bucket)}" for bucket, count in counts(walk).items() if count}
    if failed := sum(failure.what == "fix" for failure in failures(walk)):
        parts[WalkBucket.APPLIED] += f" ({failed} failed)"
    return ", ".join(parts.values())


def counts(walk: Walk) -> dict[WalkBucket, int]:
    """Return how many findings are in each bucket."""
    buckets = [line.bucket for line in lines(walk)]
    return {bucket: buckets.count(bucket) for bucket in WalkBucket}


def lines(walk: Walk) -> list[ReportLine]:
    """Return what became of every finding, by bucket and in the order of the walk."""
    order = list(WalkBucket)
    return sorted((_line(item, walk) for item in walk.items), key=lambda line: order.index(line.bucket))


def failures(walk: Walk) -> list[ReportFailure]:
    """Return the fixes and tickets that failed."""
    items = {item.finding.id: item for item in walk.items}
    fixes = [
        ReportFailure(items[finding.id], "fix", one_line(reason, _MAX_NOTE) or "no reason given")
        for finding in walk.accepted
        if (reason := walk.fixes.failed.get(finding.id)) is not None
    ]
    tickets = [
        ReportFailure(items[attempt.id], "ticket", attempt.failure, attempt.tracker, attempt.then)
        for attempt in walk.tickets
        if attempt.failure
    ]
    return [*fixes, *tickets]


def readiness(walk: Walk) -> Readiness:
    """Return the verdict on what remains. A fix counts as claimed until someone has verified it."""
    if not walk.context.reviewed:
        return Readiness.NOT_READY
    made = walk.fixes.made
    left = [
        replace(finding, state=FindingState.FIX_CLAIMED) if finding.id in made else finding
        for finding in walk.context.findings
    ]
    fixes_applied = bool(made or _count_safe_fixes(left))
    return verdicts(left, walk.context.coverage, fixes_applied=fixes_applied).readiness


def report_data(walk: Walk) -> dict[str, Any]:
    """Return the report for programs."""
    return {
        "route": str(walk.route),
        "failures": [
            {
                "finding_id": failure.item.finding.id,
                "what": failure.what,
                "tracker": failure.tracker,
                "reason": failure.reason,
                "then": failure.then,
            }
            for failure in failures(walk)
        ],
        "findings": [
            {
                "id": line.item.finding.id,
                "number": line.item.finding.number,
                **_described(line.item),
                "action": str(line.bucket),
                "reference": line.reference,
                "note": line.note,
            }
            for line in lines(walk)
        ],
        "counts": {str(bucket): count for bucket, count in counts(walk).items()},
        "apply": [finding.id for finding in walk.accepted],
        "tickets": _tickets(walk),
        "coverage": _coverage(walk),
        "summary": summarize(walk),
        "verdict": str(readiness(walk)),
    }


def _line(item: WalkItem, walk: Walk) -> ReportLine:
    id = item.finding.id
    if id in walk.dropped:
        return ReportLine(item, WalkBucket.DROPPED, one_line(walk.dropped[id], _MAX_NOTE))
    decision = walk.decisions.get(id)
    if decision is None:
        return ReportLine(item, WalkBucket.LEFT)
    note = decision.ref or decision.reason
    if decision.action == Action.APPLY:
        note = "the fix failed" if id in walk.fixes.failed else location(item.finding, all_lines=True)
        if id not in walk.fixes.made and id not in walk.fixes.failed:
            note = ", ".join(filter(None, (note, "staged and not made yet")))
    return ReportLine(item, _BUCKETS[Action(decision.action)], one_line(note, _MAX_NOTE), decision.ref)


def _failure_section(walk: Walk) -> Iterator[str]:
    texts = []
    for failure in failures(walk):
        tracker = f" on {one_line(failure.tracker, _MAX_NAME)}" if failure.tracker else ""
        then = f"; {failure.then}" if failure.then else ""
        texts.append(f"- {_name(failure.item)} — {failure.what}{tracker} failed: {failure.reason}{then}")
    if texts:
        yield "**Failures**"
        yield "\n".join(texts)


def _bucket_sections(walk: Walk) -> Iterator[str]:
    found = lines(walk)
    for bucket in WalkBucket:
        word = _WORDS.get(bucket, bucket).capitalize()
        texts = [
            f"- {_name(line.item)} — {word}{f': {line.note}' if line.note else ''}"
            for line in found
            if line.bucket is bucket
        ]
        if texts:
            yield f"**{word} ({len(texts)})**"
            yield "\n".join(texts)


def _coverage(walk: Walk) -> dict[str, Any]:
    """What the findings do not show."""
    coverage = walk.context.coverage or Coverage()
    unexplained = [item for item in walk.items if item.unexplained_by]
    reviewers = dict.fromkeys(name for item in unexplained for name in item.unexplained_by)
    return {
        "suppressed": walk.context.suppressed,
        "residual_risks": [one_line(text, _MAX_NOTE) for text in coverage.residual_risks],
        "testing_gaps": [one_line(text, _MAX_NOTE) for text in coverage.testing_gaps],
        "failed_reviewers": _failed_reviewers(coverage),
        "framing_gaps": {"count": len(unexplained), "reviewers": [one_line(name, _MAX_NAME) for name in reviewers]},
    }


def _coverage_section(walk: Walk) -> str:
    coverage = _coverage(walk)
    texts = [f"- Suppressed findings: {coverage['suppressed']}"]
    lists = ("residual_risks", "testing_gaps", "failed_reviewers")
    texts += [f"- {key.replace('_', ' ').capitalize()}: {'; '.join(coverage[key])}" for key in lists if coverage[key]]
    if gaps := coverage["framing_gaps"]["count"]:
        texts.append(f"- Framing-enrichment gaps: {gaps} ({', '.join(coverage['framing_gaps']['reviewers'])})")
    return "\n".join(["**Coverage**\n", *texts])


def _failed_reviewers(coverage: Coverage) -> list[str]:
    return [f"{one_line(name, _MAX_NAME)} ({status})" for name, status in coverage.silent.items()]


def _name(item: WalkItem) -> str:
    return f"{item.level} {title(item.finding)}"


def _described(item: WalkItem) -> dict[str, Any]:
    where = item.finding.location
    return {
        "title": item.finding.title,
        "severity": item.level,
        "file": where.path if where else None,
        "line": where.start if where else None,
    }


def _tickets(walk: Walk) -> dict[str, list[dict[str, Any]]]:
    """What became of every ticket: each finding is in one list, a filed ticket counting more than a failed one."""
    filed = {attempt.id: attempt for attempt in walk.tickets if attempt.reference}
    failed = {attempt.id: attempt for attempt in walk.tickets if attempt.failure and attempt.id not in filed}
    no_tracker = [item for item in walk.items if item.finding.id in walk.untracked - set(failed)]
    return {
        "filed": [{"finding_id": id, "tracker": one.tracker, "url": one.reference} for id, one in filed.items()],
        "failed": [{"finding_id": id, "tracker": one.tracker, "reason": one.failure} for id, one in failed.items()],
        "no_sink": [{"finding_id": item.finding.id, **_described(item)} for item in no_tracker],
    }


def _why_incomplete(context: WalkContext) -> str:
    """Why nothing can be called resolved: nothing was reviewed, or a reviewer did not answer. Empty otherwise."""
    if not context.reviewed:
        return "Nothing was reviewed."
    if context.coverage is None or context.coverage.complete:
        return ""
    return f"The review is incomplete: {', '.join(_failed_reviewers(context.coverage))}. No finding needs a decision."


def _nothing_to_decide(findings: Sequence[Finding]) -> str:
    """Findings are called resolved only if none of them remains open."""
    safe = _count_safe_fixes(findings)
    applied = f" — {safe} safe_auto {'fix' if safe == 1 else 'fixes'} applied" if safe else ""
    kinds = [_kind(finding) for finding in findings if finding.state.active]
    if not kinds:
        return f"All findings resolved{applied}."
    names = ("advisory", "pre-existing", "safe_auto", "doubtful")
    listed = ", ".join(f"{kinds.count(name)} {name}" for name in names if name in kinds)
    remain = "finding remains" if len(kinds) == 1 else "findings remain"
    unresolved = "safe_auto" in kinds or "doubtful" in kinds
    resolved = "No finding needs a decision" if unresolved else "All actionable findings resolved"
    return f"{resolved}{applied}. ({listed} {remain} in the report.)"


def _count_safe_fixes(findings: Sequence[Finding]) -> int:
    done = (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED)
    return sum(finding.autofix_class is AutofixClass.SAFE_AUTO and finding.state in done for finding in findings)


def _kind(finding: Finding) -> str:
    if finding.pre_existing:
        return "pre-existing"
    kinds = {AutofixClass.ADVISORY: "advisory", AutofixClass.SAFE_AUTO: "safe_auto"}
    return kinds.get(finding.autofix_class, "doubtful")
