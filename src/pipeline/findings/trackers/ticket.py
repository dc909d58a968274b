"""A finding as a ticket. What comes from outside stands in fences that it cannot close: it links and pings nobody.

The finding's id stands hidden in the first line and in the metadata, so that a ticket is found again whatever is cut.
"""

import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from pipeline.findings.model import Evidence, Finding, FindingState
from pipeline.findings.scales import confidence_to_word


@dataclass(frozen=True, slots=True)
class Filed:
    """A ticket was made. The url may be any reference by which people find it."""

    url: str


@dataclass(frozen=True, slots=True)
class TicketFailed:
    """No ticket was made, and why: in the tracker's words."""

    reason: str


class Tracker(Protocol):
    """Makes tickets."""

    @property
    def name(self) -> str:
        """What people call it, such as `Linear` or `GitHub Issues`."""

    def file(self, finding: Finding) -> Filed | TicketFailed:
        """Make a ticket for a finding. It says what went wrong instead of raising it."""


class Trackers(Tracker, Protocol):
    """The trackers of one session, used one after the other: as a tracker, it is the one in use."""

    def sinks(self) -> "TrackerStatus":
        """What is known of them by now."""

    def fall_back(self, reason: str) -> bool:
        """Give the one in use up; whether there is another."""


@dataclass(frozen=True, slots=True)
class TrackerStatus:
    """What is known of the trackers: looked up once, and only ever found to be less than was thought."""

    tracker_name: str = ""
    confidence: Literal["high", "low"] = "low"  # that the named tracker is the one the project uses
    named_sink_available: bool = False
    any_sink_available: bool = False

    @property
    def named(self) -> str:
        """The tracker's name where it may be told; nothing where a label should be general."""
        sure = self.any_sink_available and self.named_sink_available and self.confidence == "high"
        return self.tracker_name if sure else ""


NO_TRACKER = TrackerStatus()


TITLE = 200  # characters
LONGEST = 60_000  # characters of a body: trackers refuse more than 65,536
_PROSE = 9_000  # characters of one text
_QUOTES = 16_000  # characters of all quotations
_QUOTE = 2_000
_META = 500  # characters of one line of metadata
_WIDTH = 100  # columns: what is fenced is not wrapped by whoever shows it
_ID = re.compile(r"fnd_[0-9A-Za-z_]{1,64}")
_MARK = re.compile(r"<!-- awf:(fnd_[0-9A-Za-z_]{1,64}) -->")
_COMMENT = re.compile(r"<!(?=--\s*awf:)")
_KEPT = "\n\t"
_ACTIVE = ("Cc", "Cf", "Cs", "Zl", "Zp")  # what moves a cursor, reverses the reading direction or is no text


Redact = Callable[[str], str]


def _as_it_is(text: str) -> str:
    """Leave a text alone."""
    return text


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a tracker is given."""

    title: str
    body: str
    labels: tuple[str, ...]


def ticket(finding: Finding, redact: Redact = _as_it_is) -> Ticket:
    """The ticket of a finding, without the secrets that it quotes: a tracker may be open to everybody."""
    shown = _redacted(finding, redact)
    text = plain(shown.plain_title or shown.title, TITLE) or str(finding.id)
    return Ticket(text, _body(shown), (label(finding),))


def label(finding: Finding) -> str:
    """The label by which tickets of its severity are found."""
    return f"severity: {finding.severity}"


def unfit(finding: Finding) -> str:
    """Why a finding's id cannot stand in a ticket; nothing when it can."""
    return "" if _ID.fullmatch(finding.id) else f"{finding.id!a} is no id by which a ticket could be found again"


def mark(finding: Finding) -> str:
    """The hidden line that says whose ticket it is."""
    return f"<!-- awf:{finding.id} -->"


def marked(text: str) -> str:
    """The id of the finding whose ticket a text is; nothing when it is none's."""
    found = _MARK.search(text)
    return found[1] if found else ""


def comment(finding: Finding, redact: Redact = _as_it_is) -> str:
    """What is said on a ticket whose finding is there again."""
    last = next((change for change in reversed(finding.history) if change.state is FindingState.REOPENED), None)
    why = fenced(redact(last.note if last else "") or f"It is {finding.state}.")
    return f"{comment_mark(finding)}\n\nThis finding is open again.\n\n{why}\n\nFinding ID: {finding.id}\n"


def comment_mark(finding: Finding) -> str:
    """The hidden line that says which return of a finding a comment is about, so that it is told once."""
    times = sum(change.state is FindingState.REOPENED for change in finding.history)
    return f"<!-- awf:{finding.id} open again {times} -->"


def fenced(text: str, most: int = _PROSE, *, wrapped: bool = True) -> str:
    """A text from outside in a fence longer than any in it."""
    shown = cut(_calm(text).strip("\n"), most)
    if wrapped:
        shown = "\n".join(_wrapped(line) for line in shown.split("\n"))
    fence = min((_fence(shown, sign) for sign in "`~"), key=len)
    return f"{fence}text\n{shown}\n{fence}"


def _fence(text: str, sign: str) -> str:
    longest = max(map(len, re.findall(f"{sign}+", text)), default=0)
    return sign * max(3, longest + 1)


def plain(text: str, most: int) -> str:
    """A text from outside on one line."""
    return cut(" ".join(_calm(text).split()), most)


def cut(text: str, most: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _redacted(finding: Finding, redact: Redact) -> Finding:
    evidence = tuple(replace(one, quote=redact(one.quote), raw=redact(one.raw)) for one in finding.evidence)
    names = ("title", "plain_title", "impact", "fix")
    texts: dict[str, Any] = {name: redact(getattr(finding, name) or "") for name in names}
    return replace(finding, **texts, evidence=evidence)


def _body(finding: Finding) -> str:
    sections = [mark(finding), *_sections(finding)]
    if _is_cut(finding):
        sections.append(f"Cut for length. The whole of it: `awf findings show {finding.id}`")
    return "\n\n".join(sections) + "\n"


def _sections(finding: Finding) -> Iterator[str]:
    yield "## Why it matters"
    yield fenced(finding.impact or finding.title)
    yield "## Suggested fix"
    yield fenced(finding.fix) if finding.fix else "None was proposed: it needs a decision."
    if quotes := list(_quotes(finding)):
        yield "## Evidence"
        yield from quotes
    yield "## About"
    yield fenced("\n".join(_metadata(finding)), wrapped=False)


def _quotes(finding: Finding) -> Iterator[str]:
    room = _QUOTES
    for one in finding.evidence:
        text = _quoted(one)
        if not text or len(text) > room:
            continue
        room -= len(text)
        yield text


def _quoted(evidence: Evidence) -> str:
    said = evidence.quote or evidence.raw
    where = f"{evidence.path}:{evidence.start}" if evidence.path and evidence.start else evidence.path
    lines = [part for part in (plain(where, _META), cut(said, _QUOTE)) if part.strip()]
    return fenced("\n".join(lines), wrapped=False) if said.strip() else ""


def _metadata(finding: Finding) -> Iterator[str]:
    yield f"Severity: {finding.severity}"
    yield f"Confidence: {finding.confidence.value} ({confidence_to_word(finding.confidence)})"
    yield f"Reviewer(s): {plain(', '.join(finding.sources) or 'not known', _META)}"
    yield f"Finding ID: {finding.id}"
    if finding.location is not None:
        yield f"Place: {plain(str(finding.location), _META)}"


def _is_cut(finding: Finding) -> bool:
    """Whether the ticket leaves out something of its finding."""
    texts = (finding.impact, finding.fix or "")
    said = [one.quote or one.raw for one in finding.evidence]
    told = len(list(_quotes(finding))) == sum(bool(text.strip()) for text in said)
    too_long = any(len(text) > _PROSE for text in texts) or any(len(text) > _QUOTE for text in said)
    return too_long or not told or len(finding.title) > TITLE


def _wrapped(line: str) -> str:
    if len(line) <= _WIDTH:
        return line
    return "\n".join(textwrap.wrap(line, _WIDTH, break_long_words=False, break_on_hyphens=False)) or line


def _calm(text: str) -> str:
    """A text that can neither act on whoever shows it nor pass for another finding's ticket."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    if not (lines.isascii() and lines.replace("\n", "").isprintable()):
        lines = "".join("\N{REPLACEMENT CHARACTER}" if _acts(letter) else letter for letter in lines)
    return _COMMENT.sub("<! ", lines)


def _acts(letter: str) -> bool:
    return letter not in _KEPT and unicodedata.category(letter) in _ACTIVE
