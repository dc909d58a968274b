"""Durations as authors write them: `250ms`, `30s`, `10m`, `2h`, `1d`, and sums such as `1h30m`."""

import re
from datetime import timedelta

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"(\d+)(ms|[dhms])", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:ms|[dhms]))+", re.ASCII)
LONGEST = timedelta(days=3650)
_ENOUGH_DIGITS = 13  # more than LONGEST has milliseconds; the rest of an absurd number need not be read


def parse_duration(text: str) -> timedelta:
    """Read a duration; a ValueError says what is wrong with it and what would be right."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'"{text}" is not a duration; write one such as "30s", "10m" or "1h30m"')
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    if units != sorted(set(units), key=list(_UNITS).index):
        raise ValueError(f'"{text}" is not a duration; write each unit once, the largest first, such as "1h30m"')
    milliseconds = sum(int(digits[:_ENOUGH_DIGITS]) * _UNITS[unit] for digits, unit in parts)
    if milliseconds > LONGEST // timedelta(milliseconds=1):
        raise ValueError(f"a duration is at most {LONGEST.days} days")
    return timedelta(milliseconds=milliseconds)


def format_duration(duration: timedelta) -> str:
    """Write a duration the way `parse_duration` reads it."""
    rest = duration // timedelta(milliseconds=1)
    written = ""
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        written += f"{count}{unit}" if count else ""
    return written or "0s"
