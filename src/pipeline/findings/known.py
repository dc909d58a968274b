"""What a review is shown of known findings: its own, to rule on by number, and dismissed ones with their reasons."""

from collections.abc import Collection, Sequence

from pipeline.findings.answers import RULING_FORMAT, quote_line
from pipeline.findings.fix_prompt import Members, findings_section, short_list
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding
from pipeline.findings.triage import importance
from pipeline.text import plural

HEADING = "## Known findings"
CONSIDERED = "## Already considered"
FULL_LOOK_EVERY = 3  # visits of a review
_MAX_CONSIDERED = 20  # dismissals in one prompt
_FULL_LOOK = "This is a full look: review the whole change, not only what changed since you last looked."
_VERIFY = "This review only verifies fixes: rule on every finding above by its number, and report no others."
_DELTA = "Look for new defects in what changed since your last visit. What you find elsewhere is marked as late."


def is_full_look(visit: int) -> bool:
    """Whether a review is given the whole change: on its first visit and on every third one."""
    return visit == 1 or visit % FULL_LOOK_EVERY == 0


def findings_to_rule_on(
    ledger: Ledger, run: str, reviewer: str, paths: Collection[str] = ()
) -> tuple[list[Finding], list[Finding]]:
    """The findings that need attention: those a reviewer reported, and those that only others did.

    They are those of a run, and what earlier reviews found in some paths.
    """
    own, others = list[Finding](), list[Finding]()
    for finding in ledger:
        here = any(place.path in paths for place in finding.locations)
        reviewers = {vote.reviewer for vote in finding.votes if here or vote.run == run}
        if finding.state.needs_attention and reviewers:
            (own if reviewer in reviewers else others).append(finding)
    return own, others


def known_section(
    own: Sequence[Finding],
    others: Sequence[Finding],
    room: int,
    members: Members,
    *,
    full_look: bool,
    verifies: bool = False,
) -> str:
    """The findings that a review rules on, each with the fixer's answers, and those of others; empty without any."""
    if not own and not others:
        return ""
    notes = [_VERIFY if verifies else _FULL_LOOK if full_look else _DELTA]
    if others:
        notes.append(f"Reported by others, for you to know; rule on them if you looked:\n\n{short_list(others)}")
    listed = findings_section(
        own, room - sum(len(note) + 2 for note in notes), members, heading=HEADING, answer_format=RULING_FORMAT
    )
    return "\n\n".join((listed or HEADING, *notes))


def considered_section(ledger: Ledger, paths: Collection[str] | None, at: str) -> str:
    """The dismissals that still hold for some files, or for all of them with None, and why; empty without any."""
    dismissed = [
        finding
        for finding in ledger
        if finding.state.dismissed
        and (paths is None or finding.location is None or any(place.path in paths for place in finding.locations))
        and not (finding.suppression and finding.suppression.expires and at[:10] > finding.suppression.expires)
    ]
    if not dismissed:
        return ""
    about = "Reported before, and dismissed for the reason given. Raise one again only with new evidence."
    lines = [_dismissal_line(finding) for finding in sorted(dismissed, key=importance)[:_MAX_CONSIDERED]]
    if more := len(dismissed) - len(lines):
        lines.append(f"- and {plural(more, 'more finding')}: awf findings list --state dismissed")
    return "\n".join((CONSIDERED, "", about, "", *lines))


def _dismissal_line(finding: Finding) -> str:
    place = quote_line(finding.location.path_line, 120) if finding.location else "no file"
    why = quote_line(finding.suppression.reason if finding.suppression else "", 300) or "no reason given"
    title = quote_line(finding.title, 120)
    return f"- #{finding.number} ({finding.state}, {finding.severity}) {place}: {title}\n    reason: {why}"
