"""The report in words and for programs: what failed first, then every finding, the counts, the gaps and the verdict."""

from collections.abc import Iterator
from typing import Any

from pipeline.findings.walk.advice import Action
from pipeline.findings.walk.block import title
from pipeline.findings.walk.report import Gaps, WalkBucket, WalkFailure, WalkLine, WalkReport
from pipeline.findings.walk.wording import flat

_WORDS = {WalkBucket.DROPPED: "dropped by the validator", WalkBucket.LEFT: "left open"}


def markdown(told: WalkReport) -> str:
    """The report for people."""
    verdict = f"Verdict: {told.verdict}."
    if told.nothing:
        return f"{told.nothing}\n\n{verdict}"
    return "\n\n".join(["## Completion report", *_failures(told), *_buckets(told), counts(told), *_gaps(told), verdict])


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


def _failures(told: WalkReport) -> Iterator[str]:
    if told.failures:
        yield "**Failures**"
        yield "\n".join(map(_failed, told.failures))


def _failed(failure: WalkFailure) -> str:
    on = f" on {flat(failure.tracker, 60)}" if failure.tracker else ""
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


def _gaps(told: WalkReport) -> Iterator[str]:
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
