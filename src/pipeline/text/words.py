"""Words for people: numbers, times, costs and lists in a few characters, values in messages, and hints."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from itertools import islice
from typing import Any

from pipeline.text.layout import truncate, truncate_length
from pipeline.text.safety import sanitize_line

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_MAX_RANGES = 8  # of visits that are spelled out
_MAX_NAME = 100  # characters of a name; nobody mistypes a longer one
_MAX_CANDIDATES = 1000  # names to compare with: a hint is worth no more time


def visit_label(stage: str, visit: int, width: int = 0) -> str:
    """Return a visit's name, such as `fix #2`; where it is too wide, the stage is truncated, never the number."""
    name, number = sanitize_line(stage), f" #{visit}" if visit else ""
    return (truncate(name, max(width - len(number), 2)) if width else name) + number


def plural(number: int, one: str, several: str = "") -> str:
    """Return a number of things, such as `1 stage`, `1,200 stages`, or `2 fixes are` with words of their own."""
    if number == 1:
        return f"1 {one}"
    return f"{number:,} {several or f'{one}s'}"


def listing(words: Sequence[str], most: int | None = None, last: str = "and") -> str:
    """Return words as a list, such as `a, b and c`; beyond `most` of them the others are counted."""
    shown = list(words[:most])
    if len(shown) < len(words):
        shown.append(f"{len(words) - len(shown)} more")
        last = "and"
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def sentence(words: str) -> str:
    """Return words as a sentence, with a capital letter and a full stop."""
    end = "" if words.endswith((".", "?", "!")) else "."
    return words[:1].upper() + words[1:] + end


def quote_value(value: object, length: int = 40) -> str:
    """Return a value as a message shows it: a text quoted and truncated, a number or word of the language as it is."""
    match value:
        case str():
            return f'"{truncate_length(value, length)}"'
        case None:
            return "null"
        case bool():
            return str(value).lower()
    return str(value)


def value_text(value: Any) -> str:
    """Return a context value as text: a string as it is, nothing for null, anything else as JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return f"(a {type(value).__name__} that cannot be shown)"


def format_visits(numbers: Iterable[int]) -> str:
    """Return visits in words: `visit 2`, `visits 2 and 3`, `visits 1 to 40`, `visits 1, 3 and 5 to 7`."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1].append(number)
        else:
            ranges.append([number])
    words: list[str] = []
    for visits in ranges[-_MAX_RANGES:]:
        words += [f"{visits[0]} to {visits[-1]}"] if len(visits) > 2 else map(str, visits)
    if len(ranges) > _MAX_RANGES:
        words[:0] = [f"{ranges[0][0]}", "..."]
    is_one = len(words) == 1 and words[0].isdigit()
    return f"{'visit' if is_one else 'visits'} {listing(words)}"


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


def format_utc(at: float) -> str:
    """Return a time that is the same wherever it is read, such as `2026-01-31 15:04:05 UTC`."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


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


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to the given one, or None if none is similar."""
    if len(name) > _MAX_NAME:
        return None
    candidates = (candidate for candidate in known if candidate and len(candidate) <= _MAX_NAME)
    by_lower = {candidate.lower(): candidate for candidate in islice(candidates, _MAX_CANDIDATES)}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a hint that suggests the nearest known name, or None."""
    found = nearest(name, known)
    return f'did you mean "{found}"?' if found else None
