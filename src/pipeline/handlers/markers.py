"""What an agent states about its own answer: `[STATUS: ...]` and similar markers, outside code, quotes and thinking."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from pipeline.engine.status import Status

LONGEST_ANSWER = 4 * 1024 * 1024  # characters; a longer answer is not read at all, so that no part of it is missed
_STATUSES = {status.value: status for status in (Status.SUCCESS, Status.FAIL, Status.PARTIAL_SUCCESS, Status.RETRY)}
_FENCE = re.compile(r"^ {0,3}(?P<fence>`{3,}|~{3,})")
_BACKTICKS = re.compile(r"`+")
# Every repetition is bounded, so that reading takes time in proportion to the answer's length.
_STATUS = re.compile(r"\[\s{0,20}STATUS\s{0,20}:\s{0,20}(?P<status>[A-Z_][A-Z_ -]{0,40}?)\s{0,20}\]", re.IGNORECASE)
_BRACKET = re.compile(
    r"(?P<marker>\[\s{0,20}(?:STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\s{0,20}:)|[\[\]]", re.IGNORECASE
)
_UNSEEN = re.compile(
    "\x1b\\[[0-9;?]*[A-Za-z]|[\u200b-\u200f\u2060-\u2064\ufeff\u00ad]"
)  # colours, and characters without width
_THINKING = "think|thinking|thought|thoughts|reasoning|analysis|reflection|scratchpad|antthinking|antml:thinking"
_TAG = re.compile(
    rf"(?<!`)(?:<(?P<close>/?)(?P<name>{_THINKING})(?:\s[^<>\n]{{0,200}})?>|\[(?P<close2>/?)(?P<name2>THINK)\])",
    re.IGNORECASE,
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
    """The last marker of each kind; text in code, quotes or thinking is not a marker."""
    if "[" not in answer or length_problem(answer):
        return StatusMarkers()
    own_lines = (line for line in lines_outside_fences(answer) if not line.lstrip().startswith(">"))
    text = "\n".join(_without_inline_code(line) if "`" in line else line for line in own_lines)
    stated = (found for found in _STATUS.finditer(text) if _ends_its_line(text, found.end()))
    statuses = [re.sub(r"[ -]+", "_", found["status"].strip().lower()) for found in stated]
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


def _ends_its_line(text: str, position: int) -> bool:
    """Return whether no words follow a marker on its line: one in the middle of a sentence is talked about."""
    rest = text[position:].partition("\n")[0]
    return not re.search(r"[^\W\d_]", rest.partition("[")[0])


def without_thinking(answer: str) -> str:
    """Return an answer without what stands in tags such as `<think>`, and without what nobody sees.

    A tag that is never closed is closed by the end. One that is closed without having been opened was opened before the
    answer began. A tag in quotation marks or behind a backtick is only talked about.
    """
    answer = _UNSEEN.sub("", answer)
    kept: list[str] = []
    position = 0
    tag = _next_tag(answer, 0)
    while tag:
        if tag["close"] or tag["close2"]:
            kept.clear()
            position = tag.end()
        else:
            kept.append(answer[position : tag.start()])
            name = re.escape(tag["name"] or tag["name2"])
            end = re.compile(rf"[<\[]/{name}\s*[>\]]", re.IGNORECASE).search(answer, tag.end())
            if end is None:
                return "".join(kept)
            position = end.end()
        tag = _next_tag(answer, position)
    return "".join((*kept, answer[position:]))


def _next_tag(answer: str, position: int) -> re.Match[str] | None:
    """Return the next tag that is not inside quotation marks, which are counted from the beginning of its line."""
    start, quotes = position, 0
    for tag in _TAG.finditer(answer, position):
        line = answer.rfind("\n", start, tag.start())
        quotes = 0 if line >= 0 else quotes
        part = answer[max(line + 1, start) : tag.start()]
        quotes += part.count('"') - part.count('\\"')
        start = tag.start()
        if quotes % 2 == 0:
            return tag
    return None


def lines_outside_fences(text: str) -> Iterator[str]:
    """The lines of an answer that are in no fenced code block, and no thinking."""
    fence = ""
    for line in without_thinking(text).splitlines():
        found = _FENCE.match(line)
        if found and (not fence or (found["fence"].startswith(fence) and not line.strip().strip(fence[0]))):
            fence = "" if fence else found["fence"]
        elif not fence:
            yield line


def _without_inline_code(line: str) -> str:
    """Return the line without its inline code, which is between two equally long runs of backticks."""
    runs = list(_BACKTICKS.finditer(line))
    left = defaultdict[int, list[re.Match[str]]](list)  # the runs that are still to come, by length, the next one last
    for run in reversed(runs):
        left[len(run[0])].append(run)
    kept, end = [], 0  # the end of the code that was left out last
    for run in runs:
        closing = left[len(run[0])]
        closing.pop()  # the run itself
        if closing and run.start() >= end:
            kept.append(line[end : run.start()])
            end = closing[-1].end()
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
