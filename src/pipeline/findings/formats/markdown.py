"""Findings as a Markdown report for people: what must be fixed first, what is only claimed, what was dismissed.

What a finding says is text: it cannot start a heading, a link or any other markup.
"""

import re
from collections.abc import Iterable, Iterator

from pipeline.findings.events import Coverage, Disposition
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, Gate
from pipeline.findings.reviews import Review, ledger_verdicts
from pipeline.findings.scales import CATEGORY_LABEL
from pipeline.findings.triage import importance
from pipeline.findings.verdicts import Verdicts

_HEADINGS = ("Must fix", "Suggested", "Claimed to be fixed", "Fixed", "Suppressed, not gating")
_MARKUP = re.compile(r"[\\`*_{}\[\]<>()!|~&$^#]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_NUMBER = re.compile(r"^(\d{1,9})(?=[.)])")  # would start a list
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_AT = "@<!-- -->"  # a backslash before it would still mention the person with that name


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """The verdict and the findings, each under its heading, in the order given."""
    return "\n".join(["# Findings", "", *_summary(ledger), *_sections(findings, ledger)])


def write_review(review: Review, id: str, ledger: Ledger) -> str:
    """The report of one review: what was reviewed, by whom, the verdict and the findings."""
    first, coverage = review.passes[0], review.coverage
    reviewers = {name: status for one in review.passes for name, status in one.coverage.reviewers.items()}
    hidden = (Disposition.FILTERED, Disposition.DEMOTED)
    skill = "Full review" if first.full_review else "Code review"
    reviewed = " ".join(filter(None, (first.scope, code_span(first.target) if first.target else "")))
    facts = {
        "Reviewed": f"{reviewed}, {first.mode}",
        "Commit": code_span(first.head) if first.head else "",
        "Base": code_span(first.base) if first.base else "",
        "Branch": code_span(first.branch) if first.branch else "",
        "Task": escape(first.task),
        "Started": code_span(first.started_at),
        "Passes": ", ".join(code_span(passed.id) for passed in review.passes),
        "Reviewers": ", ".join(
            f"{escape(name)} ({status})" for name, status in (reviewers | coverage.reviewers).items()
        ),
    }
    lines = [f"# {skill} {id}", "", *_verdict_lines(review.verdicts, coverage)]
    lines += [*(f"- {name}: {value}" for name, value in facts.items() if value), ""]
    if review.tree_changed:
        lines += ["Files changed while the reviewers worked: this review does not ship.", ""]
    lines += _sections(sorted(review.findings, key=importance), ledger)
    said = [one for passed in review.passes for one in passed.reviewer_verdicts]
    found = [pattern for passed in review.passes for pattern in passed.patterns]
    lists = {
        "Verdicts of reviewers": [
            f"{escape(one.reviewer)}: **{escape(one.verdict)}** {escape(one.argument)}".rstrip() for one in said
        ],
        "Patterns worth repeating": [
            f"{escape(one.name)}{f', {code_span(one.location)}' if one.location else ''}: {escape(one.rationale)}"
            for one in found
        ],
        "Filtered or demoted": [
            f"{escape(item.title)}: {escape(item.reason)}"
            for one in review.passes
            for item in one.entries
            if item.disposition in hidden
        ],
        "Residual risks": [escape(text) for one in review.passes for text in one.coverage.residual_risks],
        "Testing gaps": [escape(text) for one in review.passes for text in one.coverage.testing_gaps],
    }
    for heading, entries in lists.items():
        if entries:
            lines += [f"## {heading}", "", *(f"- {entry}" for entry in entries), ""]
    return "\n".join(lines)


def _sections(findings: Iterable[Finding], ledger: Ledger) -> Iterator[str]:
    sections: dict[str, list[Finding]] = {heading: [] for heading in _HEADINGS}
    for finding in findings:
        sections[_heading(finding)].append(finding)
    for heading, chosen in sections.items():
        if chosen:
            yield f"## {heading} ({len(chosen)})"
            yield ""
            yield from (line for finding in chosen for line in _entry(finding, ledger))
    if not any(sections.values()):
        yield "No findings."
        yield ""


def escape(text: str) -> str:
    """Text from outside on one line, in which nothing is markup."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    return _NUMBER.sub(r"\1\\", _MARKUP.sub(r"\\\g<0>", line)).replace("@", _AT)


def code_span(text: str) -> str:
    """Text from outside as code on one line; a backtick in it cannot end it."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def _summary(ledger: Ledger) -> Iterator[str]:
    last, coverage = ledger.last, ledger.coverage()
    if last is None or coverage is None:
        return
    yield from _verdict_lines(ledger_verdicts(ledger), coverage)
    yield f"Last pass: {code_span(last.id)}, {code_span(last.started_at)}"
    yield ""


def _verdict_lines(verdicts: Verdicts, coverage: Coverage) -> Iterator[str]:
    yield f"Verdict: **{verdicts.verdict}**"
    if verdicts.verdict != verdicts.after_verification:
        yield f"as claimed; **{verdicts.after_verification}** until the claimed fixes are verified"
    yield ""
    for name in coverage.silent:
        yield f"- **Incomplete**: {escape(name)}: {escape(coverage.problems.get(name, 'no answer'))}"
    if coverage.silent:
        yield ""


def _heading(finding: Finding) -> str:
    if finding.state.dismissed:
        return "Suppressed, not gating"
    if finding.state is FindingState.FIX_CLAIMED:
        return "Claimed to be fixed"
    if finding.state is FindingState.VERIFIED_FIXED:
        return "Fixed"
    return "Must fix" if finding.gate.value is Gate.MUST else "Suggested"


def _entry(finding: Finding, ledger: Ledger) -> Iterator[str]:
    location = f", {code_span(str(finding.location))}" if finding.location else ""
    quote = next((item.quote for item in finding.evidence if item.quote.strip()), "")
    paragraphs = (
        f"### {finding.number}. {escape(finding.title)}",
        f"{code_span(finding.id)}, {finding.severity}, {CATEGORY_LABEL[finding.category]}, {finding.state}{location}",
        code_span(quote) if quote else "",
        escape(finding.impact),
        f"Fix: {escape(finding.fix)}" if finding.fix else "",
        f"Reported by {escape(', '.join(finding.sources))}." if finding.sources else "",
        *(f"{escape(', '.join(member.sources))}: {escape(member.title)}" for member in ledger.members(finding.id)),
        _dismissal(finding),
    )
    for paragraph in filter(None, paragraphs):
        yield paragraph
        yield ""


def _dismissal(finding: Finding) -> str:
    held = finding.suppression
    if held is None:
        return ""
    until = f" until {escape(held.expires)}" if held.expires else ""
    return f"Dismissed by {escape(held.by or 'unknown')}{until}: {escape(held.reason or 'no reason given')}"
