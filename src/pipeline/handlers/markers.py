"""What an agent states about its own answer: `[STATUS: ...]` and similar markers, outside code and quotes."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.engine.outcome import Status

LONGEST_ANSWER = 4 * 1024 * 1024  # characters; a longer answer is not read at all, so that no part of it is missed
_STATUSES = {status.value: status for status in (Status.SUCCESS, Status.FAIL, Status.PARTIAL_SUCCESS, Status.RETRY)}
_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})")
_BACKTICKS = re.compile(r"`+")
# Every repetition is bounded, so that reading takes time in proportion to the answer's length.
_STATUS = re.compile(r"\[\s{0,20}STATUS\s{0,20}:\s{0,20}(?P<status>[A-Z_][A-Z_ -]{0,40}?)\s{0,20}\]", re.IGNORECASE)
_BRACKET = re.compile(
    r"(?P<marker>\[\s{0,20}(?:STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\s{0,20}:)|[\[\]]", re.IGNORECASE
)
_TEXT_MARKER = re.compile(r"\[\s{0,20}(?P<name>FAILURE_REASON|PREFERRED_LABEL|NEXT)\s{0,20}:", re.IGNORECASE)


class StatusMarkers(NamedTuple):
    """The markers of an answer. `status` is None if it has none, or an unknown one."""

    status: Status | None = None
    reason: str = ""
    preferred_label: str = ""
    preferred_next: str = ""


def length_problem(answer: str) -> str:
    """Why an answer is too long to be read, or nothing."""
    if len(answer) <= LONGEST_ANSWER:
        return ""
    return f"the answer has {len(answer):,} characters, and at most {LONGEST_ANSWER:,} are read"


def read_markers(answer: str) -> StatusMarkers:
    """The last marker of each kind; text in code or quotes is not a marker."""
    if "[" not in answer or length_problem(answer):
        return StatusMarkers()
    own_lines = (line for line in lines_outside_fences(answer) if not line.lstrip().startswith(">"))
    text = "\n".join(_without_inline_code(line) if "`" in line else line for line in own_lines)
    statuses = [re.sub(r"[ -]+", "_", found["status"].strip().lower()) for found in _STATUS.finditer(text)]
    texts: dict[str, str] = {}
    for found in _TEXT_MARKER.finditer(text):
        value = _read_to_closing_bracket(text, found.end())
        if value is not None:
            texts[found["name"].upper()] = " ".join(value.split())
    return StatusMarkers(
        status=_STATUSES.get(statuses[-1]) if statuses else None,
        reason=texts.get("FAILURE_REASON", ""),
        preferred_label=texts.get("PREFERRED_LABEL", ""),
        preferred_next=texts.get("NEXT", ""),
    )


def lines_outside_fences(text: str) -> Iterator[str]:
    """The lines that are not in a fenced code block."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if found and (not fence or (found["fence"].startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else found["fence"]
        elif not fence:
            yield line


def _without_inline_code(line: str) -> str:
    """The line without its inline code, which is between two equally long runs of backticks."""
    runs = list(_BACKTICKS.finditer(line))
    next_run: dict[int, int] = {}  # by length, seen from the end of the line
    closing = [0] * len(runs)
    for index in reversed(range(len(runs))):
        length = len(runs[index][0])
        closing[index] = next_run.get(length, index)
        next_run[length] = index
    kept, end, index = [], 0, 0
    while index < len(runs):
        if closing[index] > index:
            kept.append(line[end : runs[index].start()])
            index = closing[index]
            end = runs[index].end()
        index += 1
    return "".join((*kept, line[end:]))


def _read_to_closing_bracket(text: str, start: int) -> str | None:
    """The text up to the bracket that closes a marker; without one, up to the next marker or the end of the line."""
    depth, end = 1, len(text)
    for bracket in _BRACKET.finditer(text, start):
        if bracket["marker"]:
            end = bracket.start()
            break
        depth += 1 if bracket[0] == "[" else -1
        if depth == 0:
            return text[start : bracket.start()]
    return text[start:end].partition("\n")[0].strip() or None
