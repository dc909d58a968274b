"""Text for people: made safe for a terminal, shortened, and numbers, times and costs in a few characters."""

import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from difflib import get_close_matches
from itertools import islice

ELLIPSIS = "…"
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colors and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_NOT_PLAIN = re.compile(r"[^\n\t -~]")
_CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def sanitize_line(text: str) -> str:
    """Return the text on one line, without anything that controls a terminal or reverses the reading direction."""
    line = " ".join(_ESCAPE_SEQUENCE.sub("", text).split())
    return _NOT_PLAIN.sub(_replace_control, line)


def sanitize_block(text: str) -> str:
    """Do the same for a text of several lines; line breaks and spaces are kept."""
    lines = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _NOT_PLAIN.sub(_replace_control, lines)


def _replace_control(found: re.Match[str]) -> str:
    return REPLACEMENT if is_control(found[0]) else found[0]


def is_control(character: str) -> bool:
    """Whether a character controls a terminal instead of being shown."""
    return unicodedata.category(character) in _CONTROL_CATEGORIES


def last_line(text: str) -> str:
    """Return the last line that is not blank, sanitized."""
    lines = (sanitize_line(line) for line in reversed(text.splitlines()))
    return next((line for line in lines if line), "")


def display_width(text: str) -> int:
    """Return how many terminal columns a text takes."""
    if text.isascii():
        return len(text)
    return len(text) + sum(_character_width(character) - 1 for character in text if not character.isascii())


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf") or unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def truncate(text: str, width: int) -> str:
    """Return the text in at most `width` columns; a shortened text ends with an ellipsis."""
    if display_width(text) <= width:
        return text
    if width <= 0:
        return ""
    if text.isascii():  # most texts are; a table of 100,000 findings is printed in half the time
        return text[: width - 1].rstrip() + ELLIPSIS
    taken = 0
    for index, character in enumerate(text):
        taken += _character_width(character)
        if taken > width - 1:
            return text[:index].rstrip() + ELLIPSIS
    return text


def pad(text: str, width: int) -> str:
    """Return the text in at least `width` columns."""
    return text + " " * (width - display_width(text))


def visit_label(stage: str, visit: int, width: int = 0) -> str:
    """Return a visit's name, such as `fix #2`; where it is too wide, the stage is truncated, never the number."""
    name, number = sanitize_line(stage), f" #{visit}" if visit else ""
    return (truncate(name, max(width - len(number), 2)) if width else name) + number


def plural(number: int, noun: str) -> str:
    """Return a number of things, such as `1 stage` or `3 stages`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Return a duration, such as `3.2s`, `1m05s`, `2h03m` or `3d04h`."""
    if seconds < _MINUTE - 0.05:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02}h"


def format_time_until(at: float, now: float) -> str:
    """Return a time to come, such as `at 15:04, in 2h13m`."""
    return f"at {format_clock(at, now)}, in {format_duration(at - now)}" if at > now else f"at {format_clock(at, now)}"


def format_clock(at: float, now: float) -> str:
    """Return a time of day, such as `15:04`, with its date if it is more than a day away."""
    form = "%H:%M" if abs(at - now) < _DAY else "%d %b %H:%M"
    return datetime.fromtimestamp(at).astimezone().strftime(form)


def format_age(seconds: float) -> str:
    """Return how long ago something was, in one unit: `12s`, `5m`, `3h`, `9d`."""
    whole = max(int(seconds), 0)
    for unit, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def format_count(number: int) -> str:
    """Return a large number in a few characters: `950`, `12.3k`, `4.5M`."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size - size // 2000:
            return f"{number / size:.1f}{unit}"
    return str(number)


def format_cost(dollars: float) -> str:
    """Return an amount of dollars; one that is not zero never looks like zero."""
    return f"${dollars:.2f}" if not dollars or dollars >= 0.005 else "<$0.01"


_MAX_NAME = 100  # characters of a name; nobody mistypes a longer one
_MAX_CANDIDATES = 1000  # names to compare with: a hint is worth no more time


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most similar to the given one, or None if none is similar."""
    if len(name) > _MAX_NAME:
        return None
    candidates = (candidate for candidate in known if candidate and len(candidate) <= _MAX_NAME)
    by_lower = {candidate.lower(): candidate for candidate in islice(candidates, _MAX_CANDIDATES)}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that suggests the nearest known name, or None."""
    found = nearest(name, known)
    return f'did you mean "{found}"?' if found else None
