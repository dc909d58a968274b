"""A finding put before a person: a block that explains it, a question that asks one thing, a line that confirms.

The block is markdown, the question is plain text, and neither repeats the other.
"""

import re
from dataclasses import dataclass
from posixpath import basename

from pipeline.findings.model import Finding
from pipeline.findings.signature import line_range
from pipeline.findings.walk.advice import Action, conflict
from pipeline.findings.walk.entry import Item
from pipeline.findings.walk.menu import NO_SINK, legal, ticket
from pipeline.findings.walk.proposal import proposal
from pipeline.findings.walk.sinks import Sinks
from pipeline.findings.walk.wording import ELLIPSIS, TITLE, escaped, flat, sentences

WRONG, FIX, WHY = "What's wrong", "Proposed fix", "Why it works"
UNDECIDED = "No concrete fix proposed; needs a decision."
_WORDS = 8  # of a title
_WHY_SENTENCES = 3
_LINE = re.compile(
    r"\s+(?:on|at|in)\s+lines?\s+\d+(?:\s*[-–]\s*\d+)?\s*$|\s*\(lines?\s+\d+(?:\s*[-–]\s*\d+)?\)\s*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Block:
    """What is shown before the question."""

    heading: str
    place: str
    sections: tuple[tuple[str, str], ...]  # a label, and markdown below it
    conflict: str = ""

    def __str__(self) -> str:
        """As markdown."""
        told = [f"**{label}**\n\n{text}" for label, text in self.sections]
        parts = [f"## {self.heading}", escaped(self.place), *told, escaped(self.conflict)]
        return "\n\n".join(part for part in parts if part)


def title(finding: Finding) -> str:
    """What happens, in at most eight words and without the line."""
    told = flat(finding.plain_title or finding.title, TITLE)
    words = (_LINE.sub("", told) or told).rstrip(".").split()
    return " ".join(words) if len(words) <= _WORDS else f"{' '.join(words[:_WORDS])}{ELLIPSIS}"


def handle(finding: Finding) -> str:
    """The title within a sentence: a word that is only capitalised because it comes first is not."""
    told = title(finding)
    first = told.split(" ", 1)[0]
    return told[:1].lower() + told[1:] if first[1:] == first[1:].lower() and len(first) > 1 else told


def place(finding: Finding, *, whole: bool = False) -> str:
    """`path:line`, or with all its lines; nothing when it is nowhere."""
    at = finding.location
    if at is None:
        return ""
    path = flat(at.path, 200)
    if at.start is None:
        return path
    return f"{path}:{line_range(at) if whole else at.start}"


def block(item: Item, number: int, total: int, sinks: Sinks) -> Block:
    """What explains a finding, the number-th of so many."""
    return Block(
        heading=f"{_position(number, total, ' — ')}{item.level} {title(item.finding)}",
        place=" — ".join(part for part in (place(item.finding), _same_as(item)) if part),
        sections=tuple(_sections(item)),
        conflict=_conflict(item, sinks),
    )


def stem(item: Item, number: int, total: int, sinks: Sinks) -> str:
    """The question: what is recommended, as a yes or no."""
    lines = [f"{_position(number, total, ' — ')}{item.level} {handle(item.finding)}.", _framing(item, sinks)]
    told = _conflict(item, sinks)
    lines += [f"({told})"] if told else []
    lines += [] if sinks.any_sink_available else [NO_SINK]
    return "\n".join(lines)


def confirmation(item: Item, action: Action, reference: str = "") -> str:
    """What was done, in one line."""
    if action is Action.DEFER:
        return f"→ Deferred. Ticket filed: {flat(reference, 400)}."
    where = place(item.finding, whole=True)
    if action is Action.APPLY and where:
        return f"→ Applied. Fix staged at {where}."
    return f"→ {action.done}."


def _same_as(item: Item) -> str:
    return f"may be the same as {', '.join(f'#{number}' for number in item.same_as)}" if item.same_as else ""


def _position(number: int, total: int, then: str) -> str:
    return f"Finding {number} of {total}{then}" if total > 1 else ""


def _conflict(item: Item, sinks: Sinks) -> str:
    shown = legal(item.recommended, sinks, advisory=item.advisory)
    return conflict(item.finding, item.recommended, shown, sink=sinks.any_sink_available)


def _sections(item: Item) -> list[tuple[str, str]]:
    told = item.detail
    fix = _proposed(item)
    if not told.impact:
        return [(FIX, fix)] if fix else []
    sections = [(WRONG, _paragraphs(told.impact)), (FIX, fix), (WHY, _reasoning(told.why))]
    return [(label, text) for label, text in sections if text]


def _proposed(item: Item) -> str:
    finding = item.finding
    if finding.fix and finding.fix.strip():
        return proposal(finding.fix, place(finding), item.detail.pointer)
    return "" if item.advisory else UNDECIDED


def _reasoning(why: str) -> str:
    return escaped(" ".join(sentences(flat(why))[:_WHY_SENTENCES]))


def _paragraphs(text: str) -> str:
    return "\n\n".join(escaped(line) for part in re.split(r"\n\s*\n", text[:20_000]) if (line := flat(part)))


def _framing(item: Item, sinks: Sinks) -> str:
    """What the recommended action does, as a question in one phrase."""
    finding = item.finding
    match legal(item.recommended, sinks, advisory=item.advisory):
        case Action.APPLY:
            at = finding.location
            return f"Apply the proposed fix in {flat(basename(at.path), 60)}?" if at else "Apply the proposed fix?"
        case Action.DEFER:
            return f"Defer and file a {ticket(sinks)}?"
        case Action.ACKNOWLEDGE:
            return "Acknowledge it as reviewed?"
        case Action.SKIP:
            return "Skip the fix and leave the finding open?"
