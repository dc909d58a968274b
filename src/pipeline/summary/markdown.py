"""Quotes untrusted text in markdown so that it cannot break out of its quotation.

A fence is longer than any run of backticks or tildes inside it, and a text on one line cannot start a heading, a rule
or a fence. Sanitizing never makes a text longer.
"""

import json
import re
from typing import Any

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors and cursors
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,2000}(?:\x07|\x1b\\|\x9c)"  # titles and links
)
_LINE_BREAK = re.compile("\r\n?|[\x85\u2028\u2029]")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for newline and tab, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks
    "\u200b\u2060-\u2064\ufeff\U000e0000-\U000e01ef]"  # invisible to people, but read by an agent
)
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold
_UNSAFE = re.compile(f"{_CONTROL.pattern[:-1]}\u2028\u2029\ud800-\udfff]")
_RUNS = (re.compile("```+"), re.compile("~~~+"))  # two patterns: with a fixed start they are found fast
_LINE_START = re.compile(r"[#`>]|(?:[-=*_] ?){3}")
_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)

SHORTEST_FENCE = 3


def sanitize(text: str) -> str:
    """A text without control characters, invisible ones, and empty lines at its ends."""
    if _UNSAFE.search(text):
        text = _LINE_BREAK.sub("\n", _ESCAPE.sub("", text))
        text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", _CONTROL.sub("", text))
    return text.strip("\n") if text.strip() else ""


def one_line(text: str, limit: int) -> str:
    """A text as one line of at most `limit` characters that starts no heading, rule or fence."""
    line = " ".join(sanitize(text[: 2 * limit]).split())
    for runs in _RUNS:
        line = runs.sub("'''", line)
    if _LINE_START.match(line):
        line = f"\\{line}"
    return shorten(f"{line}…" if len(text) > 2 * limit else line, limit)


def path_line(path: str, limit: int) -> str:
    """A path as one line; its spaces are part of the name."""
    return shorten(re.sub(r"\s", " ", sanitize(path)), limit)


def shorten(line: str, limit: int) -> str:
    """A line of at most `limit` characters, with an ellipsis if some are missing."""
    return line if len(line) <= limit else f"{line[: limit - 1]}…"[:limit]


def fence(text: str) -> str:
    """A sanitized text in a fence that it cannot close."""
    marks = "`" * _fence_width(text)
    return f"{marks}\n{text}\n{marks}"


def longest_run(text: str) -> int:
    """The length of the longest run of backticks or tildes that could be a fence."""
    return max((len(run) for runs in _RUNS for run in runs.findall(text)), default=0)


def start_that_fits(text: str, room: int) -> str:
    """As much of a text's start as fits into `room` characters together with its fence."""
    return text[: _fitting_length(text[: max(room, 0)], room)]


def end_that_fits(text: str, room: int) -> str:
    """As much of a text's end as fits into `room` characters together with its fence."""
    length = _fitting_length(text[-room:], room) if room > 0 else 0
    return text[-length:] if length else ""


def _fitting_length(text: str, room: int) -> int:
    """How many characters fit. A third of the room always does: no run in them needs a fence longer than itself."""
    if room <= 2 + 2 * SHORTEST_FENCE:
        return 0
    return max(room - 2 - 2 * _fence_width(text), (room - 4) // 3)


def _fence_width(text: str) -> int:
    return max(SHORTEST_FENCE, longest_run(text) + 1)


def close_fence(text: str) -> str:
    """A text whose last fence is closed."""
    marks = ""
    for found in _FENCE_LINE.finditer(text):
        run, rest = found.groups()
        if not marks:
            marks = "" if run[0] == "`" and "`" in rest else run
        elif run.startswith(marks) and not rest.strip():
            marks = ""
    return f"{text}\n{marks}" if marks else text


def value_text(value: Any) -> str:
    """A context value as text: a string as it is, nothing for null, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return f"(a {type(value).__name__} that cannot be shown)"
