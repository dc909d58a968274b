"""What an agent says about itself: `[STATUS: ...]` and its relatives, read from the text outside code and quotes."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.engine.outcome import Status

LONGEST_ANSWER = 4 * 1024 * 1024  # characters; a longer answer is not read at all, so that no part of it is missed
_CLAIMABLE = {status.value: status for status in (Status.SUCCESS, Status.FAIL, Status.PARTIAL_SUCCESS, Status.RETRY)}
_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})")
_BACKTICKS = re.compile(r"`+")
# Every repetition is bounded, so that no answer takes longer to read than its length allows.
_STATUS = re.compile(r"\[\s{0,20}STATUS\s{0,20}:\s{0,20}(?P<status>[A-Z_][A-Z_ -]{0,40}?)\s{0,20}\]", re.IGNORECASE)
_GAP = re.compile(r"[ -]+")
_BRACKET = re.compile(
    r"(?P<marker>\[\s{0,20}(?:STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\s{0,20}:)|[\[\]]", re.IGNORECASE
)
_OPENING = re.compile(r"\[\s{0,20}(?P<name>FAILURE_REASON|PREFERRED_LABEL|NEXT)\s{0,20}:", re.IGNORECASE)


class StatusMarkers(NamedTuple):
    """What an answer claims. `status` is None when it claims none."""

    status: Status | None = None
    reason: str = ""
    preferred_label: str = ""
    preferred_next: str = ""


def length_problem(answer: str) -> str:
    """Why an answer is too long to be read; nothing when it is not."""
    if len(answer) <= LONGEST_ANSWER:
        return ""
    return f"the answer has {len(answer):,} characters, and at most {LONGEST_ANSWER:,} are read"


def read_markers(answer: str) -> StatusMarkers:
    """The last marker of each kind wins; what stands in code or quotes is no marker."""
    start = answer.find("[")
    if start < 0 or length_problem(answer):
        return StatusMarkers()
    quotes = "`" in answer or "~" in answer or ">" in answer
    text = "\n".join(_spoken(answer)) if quotes else answer[start:]
    statuses = [_CLAIMABLE.get(_word(found["status"])) for found in _STATUS.finditer(text)]
    named = {name.upper(): value for name, value in _bracketed(text)}
    return StatusMarkers(
        statuses[-1] if statuses else None,
        named.get("FAILURE_REASON", ""),
        named.get("PREFERRED_LABEL", ""),
        named.get("NEXT", ""),
    )


def _word(status: str) -> str:
    return _GAP.sub("_", status.strip().lower())


def _spoken(answer: str) -> Iterator[str]:
    """The lines that are the agent's own words: no fenced code, no quotation, no inline code."""
    for line in lines_outside_fences(answer):
        if not line.lstrip().startswith(">"):
            yield _without_code(line) if "`" in line else line


def _without_code(line: str) -> str:
    """The line without its inline code, which stands between two runs of as many backticks."""
    runs = list(_BACKTICKS.finditer(line))
    closing: dict[int, int] = {}  # where the next run of that length begins, from the end of the line
    closes = [0] * len(runs)
    for at in reversed(range(len(runs))):
        length = runs[at].end() - runs[at].start()
        closes[at] = closing.get(length, at)
        closing[length] = at
    spoken, end, at = [], 0, 0
    while at < len(runs):
        if closes[at] > at:
            spoken.append(line[end : runs[at].start()])
            end, at = runs[closes[at]].end(), closes[at]
        at += 1
    return "".join((*spoken, line[end:]))


def lines_outside_fences(text: str) -> Iterator[str]:
    """The lines that stand in no fence."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found and (not fence or (found["fence"].startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else found["fence"]
        elif not fence:
            yield line


def _bracketed(text: str) -> Iterator[tuple[str, str]]:
    """Markers with a free text, which may run over lines and hold brackets of its own."""
    for found in _OPENING.finditer(text):
        value = _until_closed(text, found.end())
        if value is not None:
            yield found["name"], " ".join(value.split())


def _until_closed(text: str, start: int) -> str | None:
    """The text up to the bracket that closes the marker; up to the next marker or line when nothing closes it."""
    depth, end = 1, len(text)
    for bracket in _BRACKET.finditer(text, start):
        at = bracket.start()
        if bracket[0] == "]":
            depth -= 1
            if depth == 0:
                return text[start:at]
        elif bracket["marker"]:
            end = at  # the next marker begins, so this one was never closed
            break
        else:
            depth += 1
    return text[start:end].partition("\n")[0].strip() or None
