"""Findings as a Markdown report for people: what must be fixed first, what is only claimed, what was dismissed.

The templates have the words; here is what they say, as plain values. What a finding says is text: it cannot start a
heading, a link or any other markup.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pipeline import templates
from pipeline.findings.events import Disposition, Look, Pass
from pipeline.findings.gate import importance
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, Gate, ReportStatus
from pipeline.findings.reviews import Review, review
from pipeline.findings.scales import CATEGORY_LABEL
from pipeline.findings.verdicts import counts

_HEADINGS = ("Must fix", "Suggested", "Claimed to be fixed", "Fixed", "Suppressed, not gating")
_HIDDEN = (Disposition.FILTERED, Disposition.DEMOTED)
_ANSWERS = {
    ReportStatus.RETURNED: "answered",
    ReportStatus.EMPTY: "looked and found nothing",
    ReportStatus.PARTIAL: "answered, not everything can be read",
    ReportStatus.MALFORMED: "answered, and it cannot be read",
    ReportStatus.MISSING: "did not answer",
}


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Return the verdict and the findings, each under its heading, in the order given."""
    return templates.render("findings.md.j2", **_findings_view(findings, ledger))


def write_review(about: Review) -> str:
    """Return the report of a review: what was reviewed, by whom, the verdict, what is open, and the findings."""
    return templates.render("review.md.j2", **_review_view(about))


def _findings_view(findings: Iterable[Finding], ledger: Ledger) -> dict[str, Any]:
    about = review(ledger)
    return {
        "last": {"id": about.passed.id, "at": about.passed.started_at} if about.passed else None,
        "verdict": about.headline,
        "gaps": about.gaps if about.passed else (),
        "groups": _groups(findings, ledger),
    }


def _review_view(about: Review) -> dict[str, Any]:
    passes = about.passes
    lenses = {look.lens for one in passes for look in one.coverage.looks}
    still_open = (finding for finding in about.findings if finding.state.is_open)
    return {
        "kind": "Full review" if len(lenses) > 1 else "Code review",
        "id": about.id,
        "verdict": about.headline,
        "gaps": about.gaps,
        "facts": [(name, text) for name, text in _facts(passes) if text],
        "changed": about.changed,
        "unseen": about.unseen,
        "unruled": about.unruled,
        "open": [_open_view(one, about.ledger) for one in sorted(still_open, key=importance)],
        "elsewhere": len(about.elsewhere),
        "looks": {
            "head": ("reviewer", "stage", "visit", "answer", "items", "problem"),
            "rows": list(_looks(about)),
            "numbers": (2, 4),
        },
        "groups": _groups(sorted(about.findings, key=importance), about.ledger),
        "said": [
            {"reviewer": look.reviewer, "verdict": look.verdict, "argument": look.argument}
            for one in passes
            for look in one.coverage.looks
            if look.verdict
        ],
        "patterns": [
            {"name": pattern.name, "location": pattern.location, "rationale": pattern.rationale}
            for one in passes
            for pattern in one.patterns
        ],
        "filtered": [
            {"id": item.input_id, "title": item.title, "reason": item.reason, "disposition": item.disposition}
            for one in passes
            for item in one.entries
            if item.disposition in _HIDDEN
        ],
        "notes": [
            ("Residual risks", [text for one in passes for text in one.coverage.residual_risks]),
            ("Testing gaps", [text for one in passes for text in one.coverage.testing_gaps]),
        ],
    }


def _facts(passes: tuple[Pass, ...]) -> Iterator[tuple[str, str]]:
    """Return what was reviewed; a text is empty if it is not known."""
    first = passes[0]
    yield "Reviewed", f"{first.scope} {first.target}, {first.mode}" if first.target else f"{first.scope}, {first.mode}"
    yield "Commit", first.head
    yield "Base", first.base
    yield "Branch", first.branch
    yield "Task", first.task
    yield "Started", first.started_at
    yield "Passes", ", ".join(one.id for one in passes)


def _looks(about: Review) -> Iterator[tuple[str, ...]]:
    """Return a row for each look of each reviewer, and for each reviewer that still owes an earlier one."""
    seen = set[str]()
    for one in about.passes:
        for look in one.coverage.looks:
            seen.add(look.reviewer)
            items = sum(item.input_id.rpartition("#")[0] == look.reviewer for item in one.entries)
            yield _look_row(look, str(one.visit) if one.visit else "", str(items))
    for look in about.coverage.looks:
        if look.reviewer not in seen:
            yield _look_row(look, "", "")


def _look_row(look: Look, visit: str, items: str) -> tuple[str, ...]:
    return look.reviewer, look.stage, visit, _ANSWERS[look.status], items, look.problem


def _open_view(finding: Finding, ledger: Ledger) -> dict[str, Any]:
    uncounted = "" if counts(finding) else "it existed before the change"
    return {**_finding_view(finding, ledger), "uncounted": uncounted}


def _groups(findings: Iterable[Finding], ledger: Ledger) -> list[dict[str, Any]]:
    """Return the headings that have findings, each with its findings."""
    groups: dict[str, list[dict[str, Any]]] = {heading: [] for heading in _HEADINGS}
    for finding in findings:
        groups[_heading(finding)].append(_finding_view(finding, ledger))
    return [{"heading": heading, "findings": chosen} for heading, chosen in groups.items() if chosen]


def _heading(finding: Finding) -> str:
    if finding.state.dismissed:
        return "Suppressed, not gating"
    if finding.state is FindingState.FIX_CLAIMED:
        return "Claimed to be fixed"
    if finding.state is FindingState.VERIFIED_FIXED:
        return "Fixed"
    return "Must fix" if finding.gate is Gate.MUST else "Suggested"


def _finding_view(finding: Finding, ledger: Ledger) -> dict[str, Any]:
    """Return what a page says about a finding, and of which line of work it is a part."""
    line = ledger.line(finding.id)
    return {
        "number": finding.number,
        "id": finding.id,
        "title": finding.title,
        "gate": finding.gate,
        "severity": finding.severity_text or finding.severity,
        "category": CATEGORY_LABEL[finding.category],
        "state": finding.state.replace("_", " "),
        "location": str(finding.location) if finding.location else "",
        "quote": next((item.quote for item in finding.evidence if item.quote.strip()), ""),
        "impact": finding.impact,
        "fix": finding.fix,
        "reviewers": (finding.reviewer,),
        "others": [{"reviewers": (one.reviewer,), "title": one.title} for one in line.members if one.id != finding.id],
        "dismissal": str(finding.suppression) if finding.suppression else "",
    }
