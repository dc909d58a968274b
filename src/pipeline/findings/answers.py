"""What agents answer about findings by their numbers. A fixer's answer is a claim; a reviewer's decides."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.findings.events import FixAttempted, LedgerEvent, StateChanged
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Finding, FindingState, FixAttempt
from pipeline.handlers.markers import lines_outside_fences
from pipeline.text import ELLIPSIS

_ANSWER = re.compile(
    r"\[\s*FINDING\s+#?(?P<number>[0-9]{1,9})\s*:\s*(?P<word>not[ _-]fixed|fixed|wrong)\b(?P<why>[^\]\n]*)\]"
    r"[\s,;.*_]*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"\s*(?:[-*+]\s+|[0-9]{1,9}[.)]\s+)?[*_]*")
_MARKER = re.compile(r"\[(?=\s*(?:FINDING|STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\b)", re.IGNORECASE)
_MAX_WHY = 500  # characters of an explanation
ANSWER_FORMAT = """Say what became of each finding by its number, one line each, outside any code block:

[FINDING N: fixed]
[FINDING N: not fixed, because ...]
[FINDING N: wrong, because ...]"""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer about one finding."""

    number: int
    word: str  # fixed, not_fixed or wrong
    why: str = ""


def quote_line(text: str, length: int) -> str:
    """Return a text from outside on one line for a prompt: it starts no heading or list and holds no answer."""
    start = text[: 4 * length]
    line = _MARKER.sub("(", " ".join("".join(c if c.isprintable() else " " for c in start).split()))
    return line if len(line) <= length and start == text else f"{line[: length - 1]}{ELLIPSIS}"


def read_answers(text: str) -> list[Answer]:
    """The answers in a text; the last one about a finding counts.

    An answer starts its line: one in the middle of a line may be quoted.
    """
    found: dict[int, Answer] = {}
    for line in lines_outside_fences(text):
        bullet = _BULLET.match(line) if "[" in line else None
        at = bullet.end() if bullet else len(line)
        while one := _ANSWER.match(line, at):
            number, word, why = int(one["number"]), one["word"].lower(), one["why"].strip(" \t,:;—-")
            found[number] = Answer(number, re.sub(r"[ -]", "_", word), why[:_MAX_WHY])
            at = one.end()
    return list(found.values())


def _with_findings(answers: Sequence[Answer], ledger: Ledger) -> Iterator[tuple[Answer, Finding]]:
    """The answers about findings that need attention, with those findings; the others change nothing."""
    by_number = {finding.number: finding for finding in ledger}
    for answer in answers:
        finding = by_number.get(answer.number)
        if finding is not None and finding.state.needs_attention:
            yield answer, finding


def fixer_events(
    answers: Sequence[Answer], ledger: Ledger, *, run: str, round: int, by: str, at: str
) -> Iterator[LedgerEvent]:
    """The events that a fixer's answers ask for."""
    for answer, finding in _with_findings(answers, ledger):
        outcome = {"fixed": "claimed"}.get(answer.word, answer.word)
        attempt = FixAttempt(run=run, round=round, by=by, what=answer.why, outcome=outcome)
        yield FixAttempted(at=at, id=finding.id, attempt=attempt)
        state, note = finding.state, answer.why
        if answer.word == "fixed":
            state = FindingState.FIX_CLAIMED
        elif answer.word == "wrong":
            state, note = FindingState.UNCERTAIN, ": ".join(filter(None, (f"{by} says that it is wrong", note)))
        if state is not finding.state:
            yield StateChanged(at=at, id=finding.id, state=state, by=Actor.FINISH_TASK, note=note)


def drop_conflicting_fixes(answers: list[Answer], ledger: Ledger, reported: Collection[str]) -> list[Answer]:
    """The answers of a reviewer without those that call a finding fixed which the same review reports."""
    numbers = {finding.number for finding in ledger if finding.id in reported}
    return [answer for answer in answers if answer.word != "fixed" or answer.number not in numbers]


def reviewer_events(
    answers: Sequence[Answer], ledger: Ledger, *, run: str, round: int, by: str, at: str
) -> Iterator[LedgerEvent]:
    """The events that a reviewer's answers ask for: a fix is verified, or a claimed one is refused.

    What a tool still reports is not fixed, whatever a reviewer says.
    """
    for answer, finding in _with_findings(answers, ledger):
        fixed = answer.word == "fixed"
        if answer.word == "wrong" or (finding.state.active and not fixed):
            continue
        attempt = FixAttempt(run=run, round=round, by=by, what=answer.why, outcome="not_fixed")
        if fixed and (tool := finding.still_reported_by):
            what = f"says that it is fixed, and {tool} still reports it"
            yield FixAttempted(at=at, id=finding.id, attempt=replace(attempt, what=what, outcome="claimed"))
            continue
        state = FindingState.VERIFIED_FIXED if fixed else FindingState.REOPENED
        note = f"{by} looked again: {answer.why or answer.word.replace('_', ' ')}"
        yield StateChanged(at=at, id=finding.id, state=state, by=Actor.REVALIDATE, note=note)
        if not fixed:
            yield FixAttempted(at=at, id=finding.id, attempt=attempt)
