"""When an agent that hit a limit can be asked again, read from what it says.

Fields are read before words: `retry-after`, `retryDelay`, `resets_at`. A clock time without a zone is in the zone of
the clock that is passed in.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from zoneinfo import ZoneInfo

LONGEST_WAIT = timedelta(days=31).total_seconds()
_SCANNED = 16 * 1024  # characters of a message that are looked at
_QUOTES = str.maketrans("", "", "\\\"'`’")  # JSON in a string in JSON has its quotes escaped once or twice
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])"
_PART = rf"\d{{1,12}}(?:\.\d{{1,12}})?\s?{_UNIT}"
_DURATION = rf"(?:{_PART})(?:(?:\s|,\s|\sand\s|,\sand\s)?{_PART}){{0,5}}"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:\s?Z|\s?UTC|\s?GMT|\s?[+-]\d\d:?\d\d)?"
_HTTP_DATE = r"[A-Z][a-z]{2},\s\d{1,2}\s[A-Z][a-z]{2}\s\d{4}\s\d\d:\d\d:\d\d\sGMT"
_VALUE = rf"(?P<value>{_ISO}|{_HTTP_DATE}|(?:{_PART})+|-?\d{{1,16}}(?:\.\d{{1,12}})?)"
_IS = r"\s?[:=]\s?(?:\{?\s?seconds\s?:\s?)?"
_FIELDS = tuple(
    re.compile(rf"(?<![a-z]){name}{_IS}{_VALUE}", re.IGNORECASE)
    for name in (
        r"(?P<ms>retry[-_]?after[-_]?ms|retry[-_]?delay[-_]?ms|delayms)",
        r"(?:retry[-_]?after|retry[-_]?delay)(?:[-_]?seconds)?",
        r"resets?[-_]?in(?:[-_]?seconds)?",
        r"resets?[-_]?at",
        r"anthropic-ratelimit-unified-reset",
        r"x-ratelimit-reset",
    )
)
_EPOCH = re.compile(r"limit reached\|(?P<value>\d{10}|\d{13})(?!\d)")
_AGAIN = r"\b(?:again|retry(?:ing)?|resets?|until|wait|available|renews?|refreshes)\b"
_SOON = re.compile(
    rf"{_AGAIN}(?:\s(?!every\b)[a-z]+){{0,3}}?\s(?:about\s|~\s?)?(?P<value>{_DURATION})"
    rf"|requested (?P<asked>{_PART}) retry",
    re.IGNORECASE,
)
_MINUTE = re.compile(rf"{_AGAIN} in (?:less than )?a minute", re.IGNORECASE)
_LATER = rf"{_AGAIN}[\s:·∙•]{{0,3}}(?:(?:will|be|on|at|by|is)\s){{0,3}}"
_TIMESTAMP = re.compile(rf"{_LATER}(?P<value>{_ISO})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MOMENT = re.compile(
    rf"""{_LATER}
    (?:(?P<tomorrow>tomorrow)|(?P<weekday>{"|".join(_DAYS)})[a-z]{{0,6}}\b)?[\s,]{{0,2}}
    (?:(?P<month>{"|".join(_MONTHS)})[a-z]{{0,6}}\.?\s(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?!:)
       (?:,?\s(?P<year>20\d\d))?)?
    (?:[\s,]{{0,2}}(?:at\s)?(?:(?P<midnight>midnight)|(?P<hour>\d{{1,2}})(?::(?P<minute>\d\d))?(?::\d\d)?
       \s?(?P<half>[ap]\.?m\b)?))?
    \.?(?:\s?\((?P<place>[A-Za-z_]+(?:/[A-Za-z_+-]+){{0,2}})\)|\s?(?P<zone>[A-Z]{{2,4}})\b)?""",
    re.IGNORECASE | re.VERBOSE,
)
_ZONES = {
    **dict.fromkeys(("UTC", "GMT"), "UTC"),
    **dict.fromkeys(("CET", "CEST"), "Europe/Berlin"),
    **dict.fromkeys(("PT", "PST", "PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("ET", "EST", "EDT"), "America/New_York"),
}


def read_retry_after(message: str, now: datetime) -> float | None:
    """Seconds from `now` until trying again can help; None where the message does not say, or says nonsense."""
    text = " ".join(message[:_SCANNED].translate(_QUOTES).split())
    return next((seconds for seconds in _readings(text, now) if 0 <= seconds <= LONGEST_WAIT), None)


def _readings(text: str, now: datetime) -> Iterator[float]:
    for field in _FIELDS:
        for found in field.finditer(text):
            value = _value(found["value"], now)
            yield value / 1000 if "ms" in found.groupdict() else value
    for found in _EPOCH.finditer(text):
        yield _value(found["value"], now)
    for found in _SOON.finditer(text):
        yield _duration(found["value"] or found["asked"])
    if _MINUTE.search(text):
        yield 60.0
    for found in _TIMESTAMP.finditer(text):
        yield _value(found["value"], now)
    for found in _MOMENT.finditer(text):
        if (moment := _moment(found, now)) is not None:
            yield (moment - now).total_seconds()


def _value(text: str, now: datetime) -> float:
    """The value of a field: seconds, seconds or milliseconds since 1970, a duration, a timestamp or an HTTP date."""
    if re.fullmatch(r"-?\d+(?:\.\d+)?", text):
        number = float(text)
        epoch = number / 1000 if number >= 1e11 else number
        return epoch - now.timestamp() if epoch >= 1e8 else number
    if re.fullmatch(rf"(?:{_PART})+", text, re.IGNORECASE):
        return _duration(text)
    try:
        if text[:1].isalpha():
            moment = parsedate_to_datetime(text)
        else:
            moment = datetime.fromisoformat(re.sub(r"\s?(?:Z|UTC|GMT)$", "+00:00", re.sub(r" (?=[+-])", "", text)))
    except ValueError:
        return -1.0  # no such date
    return (moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)).timestamp() - now.timestamp()


def _duration(text: str) -> float:
    parts = re.findall(rf"(\d+(?:\.\d+)?)\s?({_UNIT})", text, re.IGNORECASE)
    return sum(float(number) * _UNITS["ms" if unit.lower().startswith(("ms", "mil")) else unit[0].lower()]
               for number, unit in parts)  # fmt: skip


def _moment(found: re.Match[str], now: datetime) -> datetime | None:
    """The next such time after `now`; None where it names no day and no time, or there is no such day or time."""
    timed = found["midnight"] or found["half"] or found["minute"]
    if not (timed or found["month"] or found["weekday"] or found["tomorrow"]):
        return None
    try:
        here = now.astimezone(_zone(found, now))
        clock = _clock(found) if timed else time()
        if found["month"]:
            month, day = _MONTHS.index(found["month"].lower()) + 1, int(found["day"])
            year = int(found["year"] or here.year)
            moment = datetime.combine(here.replace(year=year, month=month, day=day), clock, here.tzinfo)
            if moment <= here and not found["year"]:
                moment = moment.replace(year=year + 1)
            return moment
        moment = datetime.combine(here, clock, here.tzinfo)
        if found["weekday"]:
            moment += timedelta(days=(_DAYS.index(found["weekday"].lower()) - here.weekday()) % 7)
            return moment if moment > here else moment + timedelta(days=7)
        return moment + timedelta(days=1) if found["tomorrow"] or moment <= here else moment
    except (
        ValueError,
        KeyError,
        OverflowError,
        OSError,
    ):  # ZoneInfo: KeyError for an unknown zone, OSError for a bad name
        return None


def _clock(found: re.Match[str]) -> time:
    if found["midnight"]:
        return time()
    hour, half = int(found["hour"]), (found["half"] or "").lower()
    if half and not 1 <= hour <= 12:
        raise ValueError(f"there is no {hour}{half}")
    return time(hour % 12 + (12 if half.startswith("p") else 0) if half else hour, int(found["minute"] or 0))


def _zone(found: re.Match[str], now: datetime) -> tzinfo:
    if found["place"]:
        return UTC if found["place"].upper() in ("UTC", "GMT") else ZoneInfo(found["place"])
    named = _ZONES.get((found["zone"] or "").upper())
    return ZoneInfo(named) if named else now.tzinfo or UTC
