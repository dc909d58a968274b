"""Words for a narrow place: text from anywhere made inert and cut; times, numbers and money in few letters."""

import re
import unicodedata
from datetime import datetime

ELLIPSIS = "…"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_UNUSUAL = re.compile(r"[^\n\t -~]")
_ACTIVE = ("Cc", "Cf", "Cs", "Zl", "Zp")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def sanitize_line(text: str) -> str:
    """Text on one line that can neither act on a terminal nor reverse the reading direction."""
    if text.isascii() and text.isprintable():
        return text.strip()
    words = " ".join(_ESCAPES.sub("", text).split())
    return "".join(REPLACEMENT if is_control(c) else c for c in words)


def sanitize_block(text: str) -> str:
    """The same for a text of several lines, which keep their ends and their spaces."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _UNUSUAL.sub(lambda found: REPLACEMENT if is_control(found[0]) else found[0], lines)


def is_control(character: str) -> bool:
    """Whether a character does something to a terminal rather than show."""
    return unicodedata.category(character) in _ACTIVE


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = (sanitize_line(line) for line in reversed(text.splitlines()))
    return next((line for line in lines if line), "")


def display_width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_width, text))


def truncate(text: str, width: int) -> str:
    """A text in at most so many columns; one that is cut ends with an ellipsis."""
    if display_width(text) <= width:
        return text
    taken, room = 0, max(width, 1) - 1
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > room:
            return text[:place].rstrip() + ELLIPSIS if width > 0 else ""
    return text


def pad(text: str, width: int) -> str:
    """A text in at least so many columns."""
    return text + " " * (width - display_width(text))


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def visit_label(stage: str, visit: int, width: int = 0) -> str:
    """A visit's name, such as `fix #2`; the stage is cut where it would be wider, never the number."""
    name, number = sanitize_line(stage), f" #{visit}" if visit else ""
    return (truncate(name, max(width - len(number), 2)) if width else name) + number


def format_duration(seconds: float) -> str:
    """A length of time, such as `3.2s`, `1m05s`, `2h03m` or `3d04h`."""
    if seconds < _MINUTE - 0.05:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    for unit, size, smaller, below in (("m", _MINUTE, "s", 1), ("h", _HOUR, "m", _MINUTE), ("d", _DAY, "h", _HOUR)):
        if whole < size * (24 if unit == "h" else 60) or unit == "d":
            return f"{whole // size}{unit}{whole % size // below:02}{smaller}"
    raise AssertionError  # the last unit takes every number


def format_time_until(at: float, now: float) -> str:
    """A time to come, such as `at 15:04, in 2h13m`; with its date when it is not within a day."""
    return f"at {format_clock(at, now)}, in {format_duration(at - now)}" if at > now else f"at {format_clock(at, now)}"


def format_clock(at: float, now: float) -> str:
    """A time of day, such as `15:04`; with its date when it is not within a day of now."""
    form = "%H:%M" if abs(at - now) < _DAY else "%d %b %H:%M"
    return datetime.fromtimestamp(at).astimezone().strftime(form)


def format_age(seconds: float) -> str:
    """How long ago something was, in one unit: `12s`, `5m`, `3h`, `9d`."""
    whole = max(int(seconds), 0)
    for unit, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def format_count(number: int) -> str:
    """A large number in few letters: `950`, `12.3k`, `4.5M`."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size - size // 2000:
            return f"{number / size:.1f}{unit}"
    return str(number)


def format_cost(dollars: float) -> str:
    """An amount of dollars; one that is not nothing never looks like nothing."""
    return f"${dollars:.2f}" if not dollars or dollars >= 0.005 else "<$0.01"


def plural(number: int, word: str) -> str:
    """A number of things, such as `1 stage` or `3 stages`."""
    return f"{number} {word}{'' if number == 1 else 's'}"
