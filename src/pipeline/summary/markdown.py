"""Quoting text that nobody vouches for, so that it stays inside its quotation.

A fence is longer than any run of backticks or tildes within it, and a text of one line can begin nothing: no heading,
no rule, no fence. Cleaning never makes a text longer.
"""

import json
import re
from functools import lru_cache
from typing import Any

_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours and cursors
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,2000}(?:\x07|\x1b\\|\x9c)"  # titles and links
)
_BREAK = re.compile("\r\n?|[\x85\u2028\u2029]")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for newline and tab, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks
    "\u200b\u2060-\u2064\ufeff\U000e0000-\U000e01ef]"  # what nobody sees and an agent reads
)
_LONE = re.compile("[\ud800-\udfff]")  # halves of a character, which no file can hold
_ODD = re.compile(f"{_CONTROL.pattern[:-1]}\u2028\u2029\ud800-\udfff]")
_RUNS = (re.compile("```+"), re.compile("~~~+"))  # apart, as a pattern with a fixed beginning is found fast
_BEGINS = re.compile(r"[#`>]|(?:[-=*_] ?){3}")
_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)

SHORTEST = 3  # marks of a fence


def clean(text: str) -> str:
    """A text of several lines without control characters, invisible ones, and empty lines at its ends."""
    if _ODD.search(text):
        text = _BREAK.sub("\n", _ESCAPE.sub("", text))
        text = _LONE.sub("\N{REPLACEMENT CHARACTER}", _CONTROL.sub("", text))
    return text.strip("\n") if text.strip() else ""


def flat(text: str, most: int) -> str:
    """A text as one line of at most so many characters, which begins no heading, rule or fence."""
    return _flat(text[: 2 * most], most, more=len(text) > 2 * most)


@lru_cache(maxsize=1000)  # names, statuses and reasons come again with every prompt of a run
def _flat(text: str, most: int, *, more: bool) -> str:
    words = " ".join(clean(text).split())
    for runs in _RUNS:
        words = runs.sub("'''", words)
    if _BEGINS.match(words):
        words = f"\\{words}"
    return cut(f"{words}…" if more else words, most)


def path(text: str, most: int) -> str:
    """A path as one line; spaces are part of its name."""
    return cut(re.sub(r"\s", " ", clean(text)), most)


def cut(line: str, most: int) -> str:
    """A line of at most so many characters, with a sign when some are missing."""
    return line if len(line) <= most else f"{line[: most - 1]}…"[:most]


def quote(text: str) -> str:
    """A clean text in a fence it cannot end."""
    marks = "`" * marks_for(text)
    return f"{marks}\n{text}\n{marks}"


def marks_for(text: str) -> int:
    """How long a fence must be to hold a text."""
    return max(SHORTEST, longest_run(text) + 1)


def longest_run(text: str) -> int:
    """The most backticks or tildes in a row, where there are enough to make a fence."""
    return max((len(run) for runs in _RUNS for run in runs.findall(text)), default=0)


def beginning(text: str, room: int) -> str:
    """As much of a text's beginning as fits into the room together with its fence."""
    return text[: _taken(text[: max(room, 0)], room)]


def ending(text: str, room: int) -> str:
    """As much of a text's end as fits into the room together with its fence."""
    taken = _taken(text[-room:], room) if room > 0 else 0
    return text[-taken:] if taken else ""


def _taken(text: str, room: int) -> int:
    """How many characters fit. A third of the room always does: no run of them needs a fence longer than itself."""
    if room <= 2 + 2 * SHORTEST:
        return 0
    return max(room - 2 - 2 * marks_for(text), (room - 4) // 3)


def closed(text: str) -> str:
    """A text whose last fence is closed, if it was open."""
    marks = ""
    for found in _FENCE_LINE.finditer(text):
        run, rest = found.groups()
        if not marks:
            marks = "" if run[0] == "`" and "`" in rest else run
        elif run.startswith(marks) and not rest.strip():
            marks = ""
    return f"{text}\n{marks}" if marks else text


def as_text(value: Any) -> str:
    """A JSON value in words: a string as it is, nothing for null, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return f"(a {type(value).__name__} that cannot be shown)"
