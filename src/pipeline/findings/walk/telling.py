"""The report in words and for programs: what failed first, then every finding, the counts, the gaps and the verdict."""

from collections.abc import Iterator
from typing import Any

from pipeline.findings.walk.advice import Action
from pipeline.findings.walk.block import title
from pipeline.findings.walk.report import Bucket, Failure, Gaps, Line, Report
from pipeline.findings.walk.wording import flat

_WORDS = {Bucket.DROPPED: "dropped by the validator", Bucket.LEFT: "left open"}


def markdown(told: Report) -> str:
    """The report for people."""
    verdict = f"Verdict: {told.verdict}."
    if told.nothing:
        return f"{told.nothing}\n\n{verdict}"
    return "\n\n".join(["## Completion report", *_failures(told), *_buckets(told), counts(told), *_gaps(told), verdict])


def counts(told: Report) -> str:
    """How many findings became what, such as `4 applied, 2 deferred`; what there is none of is left out."""
    failed = sum(failure.what == "fix" for failure in told.failures)
    parts = {bucket: f"{count} {_WORDS.get(Bucket(bucket), bucket)}" for bucket, count in told.counts.items() if count}
    if failed:
        parts[Bucket.APPLIED] += f" ({failed} failed)"
    return ", ".join(parts.values())


def document(told: Report) -> dict[str, Any]:
    """The report for programs."""
    return {
        "route": told.route,
        "failures": [_failure(failure) for failure in told.failures],
        "findings": [_finding(line) for line in told.lines],
        "counts": told.counts,
        "apply": [line.item.finding.id for line in told.lines if line.bucket is Bucket.APPLIED],
        "tickets": _tickets(told),
        "coverage": _coverage(told.gaps),
        "summary": told.nothing or counts(told),
        "verdict": str(told.verdict),
    }


def _failures(told: Report) -> Iterator[str]:
    if told.failures:
        yield "**Failures**"
        yield "\n".join(map(_failed, told.failures))


def _failed(failure: Failure) -> str:
    on = f" on {flat(failure.tracker, 60)}" if failure.tracker else ""
    then = f"; {failure.then}" if failure.then else ""
    return f"- {_named(failure)} — {failure.what}{on} failed: {failure.reason}{then}"


def _buckets(told: Report) -> Iterator[str]:
    for bucket in Bucket:
        lines = [line for line in told.lines if line.bucket is bucket]
        if lines:
            word = _WORDS.get(bucket, bucket).capitalize()
            yield f"**{word} ({len(lines)})**"
            yield "\n".join(f"- {_named(line)} — {word}{f': {line.note}' if line.note else ''}" for line in lines)


def _named(about: Line | Failure) -> str:
    return f"{about.item.level} {title(about.item.finding)}"


def _gaps(told: Report) -> Iterator[str]:
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


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "finding_id": failure.item.finding.id,
        "what": failure.what,
        "tracker": failure.tracker,
        "reason": failure.reason,
        "then": failure.then,
    }


def _finding(line: Line) -> dict[str, Any]:
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


def _where(line: Line) -> dict[str, Any]:
    place = line.item.finding.place
    return {"file": place.path if place else None, "line": place.start if place else None}


def _tickets(told: Report) -> dict[str, list[dict[str, Any]]]:
    """What became of every ticket that was to be made."""
    filed = [line for line in told.lines if line.bucket is Bucket.DEFERRED]
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
