"""What a review is shown of known findings: its own, to rule on by number, and dismissed ones with their reasons."""

from collections.abc import Callable, Collection, Sequence

from pipeline.findings.fix_prompt import findings_section, short_list
from pipeline.findings.gate import importance
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Finding
from pipeline.findings.rulings import RULING_FORMAT, quote_line
from pipeline.text import plural

HEADING = "## Known findings"
CONSIDERED = "## Already considered"
_MAX_CONSIDERED = 20  # dismissals in one prompt
WHOLE = "Review the whole change, not only what is listed above."
VERIFY = "This review verifies fixes: rule on every finding above by its number, and look at what changed since."
DELTA = "Look for new defects in what changed since your last look."
SAME = "The files are as they were at your last look: rule on the findings above."


def known_section(own: Sequence[Finding], others: Sequence[Finding], room: int, task: str) -> str:
    """Return the findings that a review rules on, each with the fixer's claims, and those of others.

    `task` says what else it is to do: one of the sentences above.
    """
    if not own and not others:
        return ""
    notes = [task]
    if others:
        listed = short_list([_alone(finding) for finding in others])
        notes.append(f"Reported by others, for you to know; rule on them if you looked:\n\n{listed}")
    listed = findings_section(
        [_alone(finding) for finding in own],
        room - sum(len(note) + 2 for note in notes),
        heading=HEADING,
        answer_format=RULING_FORMAT,
    )
    return "\n\n".join((listed or HEADING, *notes))


def _alone(finding: Finding) -> Line:
    """A finding by its own number: a ruling is about one finding, not about a line of work."""
    return Line(finding.id, finding.number, (finding,))


def considered_section(
    ledger: Ledger,
    paths: Collection[str] | None,
    at: str,
    follow: Callable[[Sequence[Finding]], Sequence[Finding]] = tuple,  # puts them into the files as they are called now
) -> str:
    """Return the dismissals that still hold for some files, or for all of them with None, and why."""
    found = [finding for finding in ledger.findings.values() if finding.state.dismissed]
    dismissed = [finding for finding in follow(found) if _holds(finding, paths, at)]
    if not dismissed:
        return ""
    about = "Reported before, and dismissed for the reason given. Raise one again only with new evidence."
    lines = [_dismissal_line(finding) for finding in sorted(dismissed, key=importance)[:_MAX_CONSIDERED]]
    more = len(dismissed) - len(lines)
    if more:
        lines.append(f"- and {plural(more, 'more finding')}: awf findings list --state dismissed")
    return "\n".join((CONSIDERED, "", about, "", *lines))


def _holds(finding: Finding, paths: Collection[str] | None, at: str) -> bool:
    if finding.suppression and finding.suppression.expires and at[:10] > finding.suppression.expires:
        return False
    return paths is None or finding.location is None or any(place.path in paths for place in finding.locations)


def _dismissal_line(finding: Finding) -> str:
    place = quote_line(finding.location.path_line, 120) if finding.location else "no file"
    why = quote_line(finding.suppression.reason if finding.suppression else "", 300) or "no reason given"
    title = quote_line(finding.title, 120)
    return f"- #{finding.number} ({finding.state}, {finding.severity}) {place}: {title}\n    reason: {why}"
