"""Errors of model providers: what kind one is, and when trying again can help, read from what was said.

Fields are read before words: `retry-after`, `retryDelay`, `resets_at`. A clock time without a time zone is in the zone
of the clock that is passed in.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from zoneinfo import ZoneInfo

from pipeline.engine.ports import AgentError, ErrorKind

LONGEST_WAIT = timedelta(days=31).total_seconds()
LONGEST_RATE_LIMIT = 300.0  # seconds; a longer wait means a used-up quota, whatever the provider calls it
_SCANNED = 16 * 1024  # characters of a message that are searched
_RETRYABLE = (ErrorKind.QUOTA, ErrorKind.RATE_LIMIT, ErrorKind.SERVER)
_KIND_BY_STATUS = MappingProxyType(
    {400: ErrorKind.INVALID, 401: ErrorKind.AUTH, 403: ErrorKind.AUTH, 404: ErrorKind.NOT_FOUND, 422: ErrorKind.INVALID}
    | {402: ErrorKind.QUOTA, 408: ErrorKind.NETWORK, 413: ErrorKind.INVALID, 429: ErrorKind.RATE_LIMIT}
)


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


_NO_CAPACITY = _any_of(r"no capacity available|MODEL_CAPACITY_EXHAUSTED")  # Google's word for "busy", not a quota
_QUOTA = _any_of(
    r"usage.?limit|hit your (\w+ )?limit|(hour|weekly|daily|monthly|session|opus|sonnet) (usage )?limit reached",
    r"insufficient.?(quota|credits|balance|funds)|credit balance is too low|requires more credits|out of credits",
    r"exceeded (your|the) ([\w-]+ ){0,3}quota|quota.?(is |has been )?(exceeded|exhausted|used up)",
    r"quota will reset|have no quota|exhausted your (capacity|\w+ quota)|usage (exceeded|exhausted)|spending.?limit",
    r"billing.{0,20}limit|payment required",
    r"RESOURCE_EXHAUSTED[\s\S]{0,2000}?retryDelay",
)
_KIND_BY_WORDS = (  # the first match decides
    (
        ErrorKind.PROTOCOL,  # the answer was cut off
        _any_of(
            r"incomplete response.{0,40}max_output_tokens",
            r"exceeded the \d{1,9} output token maximum",
            r"(finish|stop).?reason\W{1,5}(length|max.?tokens)",
            r"response (was )?truncated|truncated due to token limit|ended without a .?finish_reason",
        ),
    ),
    (ErrorKind.RATE_LIMIT, _NO_CAPACITY),
    (ErrorKind.QUOTA, _QUOTA),
    (
        ErrorKind.AUTH,
        _any_of(
            r"\b(401|403)\b|unauthori[sz]ed|unauthenticated|forbidden|PERMISSION_DENIED",
            r"(?<![a-z])(invalid|incorrect|no|missing|bad)(?![a-z]).{0,20}(api.?key|credentials|auth token)",
            r"(api.?key|credentials|(auth|access|bearer|session).?token).{0,30}(missing|invalid|required|expired|revoked)",
            r"(api.?key|credentials).{0,30}not (found|set|provided)",
            r"not logged in|please (run )?/?login|(log ?in|sign in) again|authentication|missing environment variable",
        ),
    ),
    (
        ErrorKind.BAD_FLAG,
        _any_of(
            r"(unknown|unrecogni[sz]ed|unexpected|(?<!contains an )invalid|no such) (option|flag|arguments?)\b",
            r"invalid value .{0,80} for '?--",
        ),
    ),
    (ErrorKind.RATE_LIMIT, _any_of(r"\b429\b|rate.?limit|too many requests|RESOURCE_EXHAUSTED|throttl")),
    (
        ErrorKind.NOT_FOUND,
        _any_of(
            r"model.{0,60}(not found|does not exist|not supported|is not available)|unknown model|invalid model",
            r"issue with the selected model|not_found_error|model_?not_?found",
        ),
    ),
    (ErrorKind.INVALID, _any_of(r"context (window|length)|prompt is too long|invalid.?request|bad request")),
    (
        ErrorKind.SERVER,
        _any_of(
            r"\b(500|502|503|504|520|522|524|529|5xx)\b|overloaded|internal server error|bad gateway",
            r"service unavailable|gateway time-?out|high demand|at capacity|temporarily unavailable",
        ),
    ),
    (
        ErrorKind.NETWORK,
        _any_of(
            r"(connection|socket|stream).{0,20}(reset|refused|closed|failed|disconnected|timed? ?out|aborted|error)",
            r"request timed out|\blost (the )?connection",
            r"disconnected|\bterminated\b|stream ended|fetch failed|socket hang up|\b(ECONN|ENOTFOUND|ETIMEDOUT|EPIPE)",
            r"EAI_AGAIN|getaddrinfo|network (error|is unreachable)|could not connect|unable to connect|connect error",
            r"error sending request|premature close|unexpected EOF|connection error",
        ),
    ),
    (ErrorKind.NOT_FOUND, _any_of(r"\b404\b")),
    (ErrorKind.INVALID, _any_of(r"\b(400|422)\b")),
)


def error_kind(message: str, status: int | None = None, *, default: ErrorKind = ErrorKind.UNKNOWN) -> ErrorKind:
    """The kind of a provider's error, by its HTTP status or else by its words; quotas are told by their words."""
    text = message[:_SCANNED]
    if status is None:
        return next((kind for kind, words in _KIND_BY_WORDS if words.search(text)), default)
    if status in (400, 403, 429) and _QUOTA.search(text) and not _NO_CAPACITY.search(text):
        return ErrorKind.QUOTA
    return _KIND_BY_STATUS.get(status, ErrorKind.SERVER if status >= 500 else default)


def truncated_answer(reason: str) -> AgentError:
    """The error of an answer that was cut off at the model's token limit; `reason` is what the agent called it."""
    return AgentError(ErrorKind.PROTOCOL, f'the answer was cut off at the model\'s token limit ("{reason}")')


def with_retry_after(error: AgentError, sources: Iterable[str], now: datetime) -> AgentError:
    """The error with the seconds until a retry can help, from the first of the `sources` that gives a time."""
    if error.kind not in _RETRYABLE:
        return error
    waits = [error.retry_after, *(read_retry_after(text, now) for text in sources)]
    wait = next((wait for wait in waits if wait is not None), None)
    if wait is not None and wait > LONGEST_RATE_LIMIT and error.kind is ErrorKind.RATE_LIMIT:
        return replace(error, kind=ErrorKind.QUOTA, retry_after=wait)
    return replace(error, retry_after=wait)


_QUOTES = str.maketrans("", "", "\\\"'`’")  # JSON in a string in JSON has its quotes escaped once or twice
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNIT = r"(?:ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)(?![a-z])"
_PART = rf"\d{{1,12}}(?:\.\d{{1,12}})?\s?{_UNIT}"
_DURATION = rf"(?:{_PART})(?:(?:\s|,\s|\sand\s|,\sand\s)?{_PART}){{0,5}}"
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,9})?(?:\s?Z|\s?UTC|\s?GMT|\s?[+-]\d\d:?\d\d)?"
_HTTP_DATE = r"[A-Z][a-z]{2},\s\d{1,2}\s[A-Z][a-z]{2}\s\d{4}\s\d\d:\d\d:\d\d\sGMT"
_VALUE = rf"(?P<value>{_ISO}|{_HTTP_DATE}|(?:{_PART})+|-?\d{{1,16}}(?:\.\d{{1,12}})?)"
_FIELDS = tuple(
    re.compile(rf"(?<![a-z]){name}\s?[:=]\s?(?:\{{?\s?seconds\s?:\s?)?{_VALUE}", re.IGNORECASE)
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
_IN_A_WHILE = re.compile(
    rf"{_AGAIN}(?:\s(?!every\b)[a-z]+){{0,3}}?\s(?:about\s|~\s?)?(?P<value>{_DURATION})"
    rf"|requested (?P<asked>{_PART}) retry",
    re.IGNORECASE,
)
_IN_A_MINUTE = re.compile(rf"{_AGAIN} in (?:less than )?a minute", re.IGNORECASE)
_AT = rf"{_AGAIN}[\s:·∙•]{{0,3}}(?:(?:will|be|on|at|by|is)\s){{0,3}}"
_TIMESTAMP = re.compile(rf"{_AT}(?P<value>{_ISO})", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_CLOCK_TIME = re.compile(
    rf"""{_AT}
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
    """Seconds from `now` until a retry can help; None if the message gives no time, or an impossible one."""
    text = " ".join(message[:_SCANNED].translate(_QUOTES).split())
    return next((wait for wait in _find_waits(text, now) if 0 <= wait <= LONGEST_WAIT), None)


def _find_waits(text: str, now: datetime) -> Iterator[float]:
    for field in _FIELDS:
        for found in field.finditer(text):
            value = _read_value(found["value"], now)
            yield value / 1000 if "ms" in found.groupdict() else value
    for found in _EPOCH.finditer(text):
        yield _read_value(found["value"], now)
    for found in _IN_A_WHILE.finditer(text):
        yield _read_duration(found["value"] or found["asked"])
    if _IN_A_MINUTE.search(text):
        yield 60.0
    for found in _TIMESTAMP.finditer(text):
        yield _read_value(found["value"], now)
    for found in _CLOCK_TIME.finditer(text):
        if (moment := _next_moment(found, now)) is not None:
            yield (moment - now).total_seconds()


def _read_value(text: str, now: datetime) -> float:
    """Seconds, given as a number, an epoch in seconds or milliseconds, a duration, a timestamp or an HTTP date."""
    if re.fullmatch(r"-?\d+(?:\.\d+)?", text):
        number = float(text)
        epoch = number / 1000 if number >= 1e11 else number
        return epoch - now.timestamp() if epoch >= 1e8 else number
    if re.fullmatch(rf"(?:{_PART})+", text, re.IGNORECASE):
        return _read_duration(text)
    iso = re.sub(r"\s?(?:Z|UTC|GMT)$", "+00:00", re.sub(r" (?=[+-])", "", text))
    try:
        moment = parsedate_to_datetime(text) if text[:1].isalpha() else datetime.fromisoformat(iso)
    except ValueError:
        return -1.0  # not a real date
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=now.tzinfo)
    return moment.timestamp() - now.timestamp()


def _read_duration(text: str) -> float:
    seconds = 0.0
    for number, unit in re.findall(rf"(\d+(?:\.\d+)?)\s?({_UNIT})", text, re.IGNORECASE):
        short = unit.lower()
        seconds += float(number) * _UNITS["ms" if short.startswith(("ms", "mil")) else short[0]]
    return seconds


def _next_moment(found: re.Match[str], now: datetime) -> datetime | None:
    """Return the next such time after `now`; None if it names neither a day nor a time, or one that does not exist."""
    has_time = found["midnight"] or found["half"] or found["minute"]
    if not (has_time or found["month"] or found["weekday"] or found["tomorrow"]):
        return None
    try:
        here = now.astimezone(_read_zone(found) or now.tzinfo)
        clock = _read_clock(found) if has_time else time()
        moments = (datetime.combine(day, clock, here.tzinfo) for day in _candidate_days(found, here))
        return next((moment for moment in moments if moment > here), None)
    except (ValueError, KeyError, OverflowError, OSError):  # ZoneInfo raises KeyError or OSError for an unknown zone
        return None


def _candidate_days(found: re.Match[str], here: datetime) -> list[datetime]:
    """Return the days that may be meant, the nearest first: the first of them is over if its time has passed."""
    if found["month"]:
        month, day = _MONTHS.index(found["month"].lower()) + 1, int(found["day"])
        years = [int(found["year"])] if found["year"] else [here.year, here.year + 1]
        return [here.replace(year=year, month=month, day=day) for year in years]
    if found["weekday"]:
        nearest = here + timedelta(days=(_DAYS.index(found["weekday"].lower()) - here.weekday()) % 7)
        return [nearest, nearest + timedelta(days=7)]
    tomorrow = here + timedelta(days=1)
    return [tomorrow] if found["tomorrow"] else [here, tomorrow]


def _read_zone(found: re.Match[str]) -> tzinfo | None:
    """Return the time zone that a clock time is followed by, a place or an abbreviation; None if there is none."""
    name = found["place"] or _ZONES.get((found["zone"] or "").upper())
    if not name:
        return None
    return UTC if name.upper() in ("UTC", "GMT") else ZoneInfo(name)


def _read_clock(found: re.Match[str]) -> time:
    if found["midnight"]:
        return time()
    hour, minute, half = int(found["hour"]), int(found["minute"] or 0), (found["half"] or "").lower()
    if not half:
        return time(hour, minute)
    if not 1 <= hour <= 12:
        raise ValueError(f"{hour}{half} is not a time")
    afternoon = 12 if half.startswith("p") else 0
    return time(hour % 12 + afternoon, minute)
