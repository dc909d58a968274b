"""What a tracker is and what it is given: a line of work as a ticket.

Text from outside is fenced, so that it links to nothing and mentions nobody. The id of the line of work is hidden in
the first line of the text and shown at its end, so that a ticket is found again however it was truncated.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pipeline.findings.lines import Line
from pipeline.findings.model import Evidence, Finding, FindingState
from pipeline.findings.scales import confidence_to_word
from pipeline.text import sanitize_block, sanitize_line, truncate_length
from pipeline.text.budget import fit_whole

MAX_TITLE = 200  # characters
_MAX_PROSE = 9_000  # characters of one text
_MAX_QUOTES = 16_000  # characters of all quotations
_MAX_QUOTE = 2_000
_MAX_OTHERS = 7_000  # characters of what other reviewers say about the same defect
_MAX_METADATA = 500  # characters of one line
_WIDTH = 100  # columns: trackers do not wrap what is fenced
_WRAPPER = textwrap.TextWrapper(_WIDTH, break_long_words=False, break_on_hyphens=False)
VALID_ID = re.compile(r"fnd_[0-9A-Za-z_]{1,64}")  # safe in a file name and in a comment
_MARK = re.compile(r"<!-- awf:(fnd_[0-9A-Za-z_]{1,64}) -->")
_FORGED_MARK = re.compile(r"<!(?=--\s*awf:)")

Redact = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Filed:
    """A ticket was filed. The url may be any reference by which people find it."""

    url: str


@dataclass(frozen=True, slots=True)
class TicketFailed:
    """No ticket was filed, and why, in the tracker's words."""

    reason: str


@dataclass(frozen=True, slots=True)
class TrackerContext:
    """Where tickets are filed from."""

    root: Path  # of the repository
    store: Path
    environ: Mapping[str, str]


class Tracker(Protocol):
    """Files tickets."""

    @property
    def name(self) -> str:
        """What people call it, such as `Linear` or `GitHub Issues`."""

    def file(self, line: Line) -> Filed | TicketFailed:
        """File a ticket for a line of work. Return what went wrong instead of raising it."""


OpenTracker = Callable[[TrackerContext], Tracker | TicketFailed]
"""Returns a tracker that can be used here, or why it cannot. It files nothing and writes nothing."""


@dataclass(frozen=True, slots=True)
class TrackerStatus:
    """Which tracker tickets go to. It decides whether deferring is offered, and how the option is labelled."""

    name: str = ""  # empty if there is none
    certain: bool = False  # whether somebody named it, and it has not failed: labels say its name

    @property
    def available(self) -> bool:
        """Whether there is a tracker."""
        return bool(self.name)

    @property
    def label(self) -> str:
        """A ticket of this tracker, as labels call it."""
        return f"{self.name} ticket" if self.certain else "ticket"


NO_TRACKER = TrackerStatus()


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a tracker stores."""

    title: str
    body: str
    label: str


def ticket(line: Line, redact: Redact) -> Ticket:
    """Return the ticket of a line of work, without the secrets that it quotes: a tracker may be public."""
    finding = line.lead
    shown = replace(
        finding,
        title=redact(finding.title),
        plain_title=redact(finding.plain_title),
        impact=redact(finding.impact),
        fix=redact(finding.fix or ""),
        evidence=tuple(replace(one, quote=redact(one.quote), raw=redact(one.raw)) for one in finding.evidence),
    )
    title = _one_line(shown.plain_title or shown.title, MAX_TITLE) or str(line.id)
    others = [redact(_other(other)) for other in line.others]
    return Ticket(title, _body(line, shown, others), f"severity: {line.severity}")


def _other(finding: Finding) -> str:
    """Return what another reviewer says about the same defect."""
    return f"{finding.reviewer} ({finding.severity}): {finding.title}\n{finding.impact}".rstrip()


def owner_of(text: str) -> str:
    """Return the id of the line whose ticket a text is; empty if it is not a ticket."""
    found = _MARK.search(text)
    return found[1] if found else ""


def reopened_comment(line: Line, redact: Redact) -> str:
    """Return what is said at the closed ticket of a line of work that is open, and why it is if somebody said so."""
    changes = [change for finding in line.members for change in finding.history]
    notes = [one.note for one in changes if one.state is FindingState.REOPENED and one.note]
    why = fenced(redact([f"It is {line.state}.", *notes][-1]))
    return f"This finding is open.\n\n{why}\n\nFinding ID: {line.id}\n"


def fenced(text: str, *, wrap: bool = True) -> str:
    """Return a text from outside in a fence longer than any in it."""
    shown = truncate_length(_defuse(text).strip("\n"), _MAX_PROSE)
    if wrap:
        lines = (_WRAPPER.fill(line) if len(line) > _WIDTH else line for line in shown.split("\n"))
        shown = "\n".join(lines)
    longest = {sign: max(map(len, re.findall(f"{sign}+", shown)), default=0) for sign in "`~"}
    sign = min(longest, key=lambda one: longest[one])  # the shorter fence: trackers limit the length of a ticket
    fence = sign * max(3, longest[sign] + 1)
    return f"{fence}text\n{shown}\n{fence}"


def _body(line: Line, finding: Finding, others: list[str]) -> str:
    quotes = list(filter(None, fit_whole([_quote(one) for one in finding.evidence], _MAX_QUOTES)))
    also = list(filter(None, fit_whole([fenced(truncate_length(text, _MAX_QUOTE)) for text in others], _MAX_OTHERS)))
    sections = [
        f"<!-- awf:{line.id} -->",
        "## Why it matters",
        fenced(finding.impact or finding.title),
        "## Suggested fix",
        fenced(finding.fix) if finding.fix else "None was proposed: it needs a decision.",
        *(["## Evidence", *quotes] if quotes else []),
        *(["## Also reported", *also] if also else []),
        "## About",
        fenced("\n".join(_metadata(line)), wrap=False),
        f"Full text, without limits: `awf findings show {line.id}`",
    ]
    return "\n\n".join(sections) + "\n"


def _quote(evidence: Evidence) -> str:
    text = evidence.quote or evidence.raw
    if not text.strip():
        return ""
    where = _one_line(evidence.path_line, _MAX_METADATA)
    return fenced("\n".join(filter(str.strip, (where, truncate_length(text, _MAX_QUOTE)))), wrap=False)


def _metadata(line: Line) -> Iterator[str]:
    confidence = line.lead.confidence
    yield f"Severity: {line.severity}"
    yield f"Confidence: {confidence.value} ({confidence_to_word(confidence)})"
    yield f"Reviewer(s): {_one_line(', '.join(line.reviewers), _MAX_METADATA)}"
    yield f"Finding ID: {line.id}"
    if line.location is not None:
        yield f"Location: {_one_line(str(line.location), _MAX_METADATA)}"


def _one_line(text: str, limit: int) -> str:
    return truncate_length(_defuse(sanitize_line(text)), limit)


def _defuse(text: str) -> str:
    """Return the text without control characters and without another finding's mark."""
    return _FORGED_MARK.sub("<! ", sanitize_block(text))
