"""The kinds of providers' errors, and when a retry can help: the wordings of real programs, at one fixed time."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from pipeline.backends.provider_errors import error_kind, read_retry_after
from pipeline.engine.ports import ErrorKind

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 18, 13, 0, tzinfo=BERLIN)  # a Wednesday; 12:00 UTC
EPOCH = int(NOW.timestamp())
MINUTE, HOUR, DAY = 60, 3600, 86400

WORDINGS = [
    # claude
    (f"Claude AI usage limit reached|{EPOCH + 7200}", 2 * HOUR),
    (f"Claude AI usage limit reached|{(EPOCH + 7200) * 1000}", 2 * HOUR),
    ("Claude usage limit reached. Your limit will reset at 5pm (Europe/Warsaw).", 4 * HOUR),
    ("Claude usage limit reached. Your limit will reset at 1 PM (Asia/Dubai).", 21 * HOUR),
    ("You've hit your limit · resets 3pm (Europe/Berlin)", 2 * HOUR),
    ("You've hit your limit · resets 10pm", 9 * HOUR),
    ("You've hit your session limit · resets 12:50am (America/Los_Angeles)", 20 * HOUR + 50 * MINUTE),
    ("You've hit your session limit · resets 10:30pm (Europe/Berlin)\n/upgrade to increase it.", 9.5 * HOUR),
    ("5-hour limit reached ∙ resets 2am", 13 * HOUR),
    ("5-hour limit reached ∙ resets 3pm\n     /upgrade to increase your usage limit.", 2 * HOUR),
    ("Weekly limit reached · resets 10am (Asia/Seoul) · /upgrade to Max or turn on /extra-usage", 13 * HOUR),
    ("Weekly limit reached ∙ resets Nov 21 at 10am", 2 * DAY + 21 * HOUR),
    ("Opus weekly limit reached ∙ resets Nov 24, 9am", 5 * DAY + 20 * HOUR),
    ("Opus weekly limit reached ∙ resets Nov 24", 5 * DAY + 11 * HOUR),
    ("You’ve hit your limit for Claude messages. Limits will reset at 9:30 AM.", 20.5 * HOUR),
    (f'{{"status":"rejected","resetsAt":{EPOCH + 600},"rateLimitType":"five_hour"}}', 600),
    (f"anthropic-ratelimit-unified-reset: {EPOCH + 60}", 60),
    ('{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":536.5}', 0.5365),
    # codex
    ("You've hit your usage limit. Try again in 4 days 20 hours 9 minutes.", 4 * DAY + 20 * HOUR + 9 * MINUTE),
    (
        "You've hit your usage limit. Upgrade to Pro (https://openai.com/chatgpt/pricing) or try again in 2 days 3"
        " hours 5 minutes.",
        2 * DAY + 3 * HOUR + 5 * MINUTE,
    ),
    ("You've hit your usage limit. Upgrade to Pro (https://x.invalid/pricing) or try again at 3:05 PM.", 7500),
    ("You’ve hit your usage limit. Try again at Nov 20th, 2026 3:05 PM.", 2 * DAY + 7500),
    ("You've hit your usage limit. Upgrade your plan to continue, or try again at Nov 25, 2026, 7:38 AM.", 585480),
    ("You've hit your usage limit. Try again in less than a minute.", 60),
    ('{"error":{"type":"usage_limit_reached","plan_type":"free","resets_in_seconds":602705}}', 602705),
    (f'{{"error":{{"type":"usage_limit_reached","plan_type":"plus","resets_at":{EPOCH + 13872}}}}}', 13872),
    ('{"five_hour":{"utilization":100.0,"resets_at":"2026-11-18T13:59:59.602877+00:00"}}', 7199.602877),
    ("Rate limit reached for gpt-5 on tokens per min (TPM). Please try again in 1m26.4s. Visit x.invalid", 86.4),
    ("Rate limit reached for requests. Please try again in 20ms.", 0.02),
    ("stream error: exceeded retry limit, last status: 429; retry-after: 34", 34),
    # gemini
    ("You have exhausted your capacity on this model. Your quota will reset after 3h21m5s.", 12065),
    ("Attempt 1 failed: Your quota will reset after 5s.. Retrying after 6173ms...", 5),
    ("Please retry in 38.601658672s.", 38.601658672),
    ('{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}', 34),
    ('[API Error: {\\"details\\":[{\\"retryDelay\\": \\"34.5s\\"}]}]', 34.5),
    ("map[@type:type.googleapis.com/google.rpc.RetryInfo retryDelay:12s]", 12),
    ("Quota exceeded.\nSuggested retry after 59s.", 59),
    ("Daily quota exceeded; it resets at midnight PT", 20 * HOUR),
    # opencode, pi and what they pass on
    ('{"retry-after":"120","content-type":"application/json"}', 120),
    ('{"retry-after-ms":"1500","retry-after":"2"}', 1.5),
    ('{"Retry-After":"Wed, 18 Nov 2026 12:30:00 GMT"}', 1800),
    ("Free usage exceeded, subscribe to Go\nretrying in 6h16m - attempt #1", 22560),
    ("You have exceeded the 5-hour usage quota. It will reset at 2026-11-18 21:11:46 +0800 CST.", 4306),
    ("Cloud Code Assist API error (429): Your quota will reset after 12h34m16s.", 45256),
    ("You have hit your ChatGPT usage limit (plus plan). Try again in ~42 min.", 42 * MINUTE),
    ("Server requested 1234s retry delay (max: 60s). Please wait.", 1234),
    ("Sorry, your request was rate-limited. Please wait 3 hours 5 minutes before trying again.", 11100),
    ("Limit reached, resets in 2h 13m", 7980),
    ("Limit reached. Resets Friday at 9:00 AM", DAY + 20 * HOUR),
    ("Limit reached. Resets tomorrow at 15:30 UTC", DAY + 3.5 * HOUR),
    ("quota is used up until 2026-11-18T12:10:00Z", 600),
    # nothing to read, or nonsense
    ("You've hit your usage limit. Try again later.", None),
    ("You've hit your usage limit, or wait for limits to reset (every 5h and every week.).", None),
    ("exceeded retry limit, last status: 429 Too Many Requests", None),
    ("5-hour limit reached", None),
    ("Claude AI usage limit reached|1749924000", None),
    ("retry-after: -5", None),
    ("try again in 32 days", None),
    (f"try again in {'9' * 400} days", None),
    ("retry-after: 99999999999999999999999999", None),
    ("resets 25pm", None),
    ("resets 3pm (Mars/Olympus)", None),
    ("resets 3pm (../../etc/passwd)", 2 * HOUR),
    ("resets Feb 31, 9am", None),
    ("resets_at: 2026-13-45T99:99:99Z", None),
    ("", None),
]


@pytest.mark.parametrize(("message", "seconds"), WORDINGS)
def test_a_retry_time_is_read_from_real_wordings(message: str, seconds: float | None) -> None:
    """Fields, epochs, dates, clock times with and without a zone, and durations give the seconds left."""
    found = read_retry_after(message, NOW)
    assert found == (seconds if seconds is None else pytest.approx(seconds))


def test_a_clock_time_without_a_zone_is_in_the_zone_of_the_clock() -> None:
    """The same words mean another moment in another zone."""
    assert read_retry_after("resets 3pm", NOW.astimezone(ZoneInfo("UTC"))) == 3 * HOUR


def test_only_the_beginning_of_a_long_message_is_read() -> None:
    """A message of megabytes does not hold up a run."""
    for words in ("again ", "resets ", "retry-after: ", "wait 1s ", "1h", "resets at Nov "):
        assert read_retry_after(words * 1_000_000, NOW) in (None, 1.0)


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (401, "usage limit", ErrorKind.AUTH),
        (429, '{"code":"insufficient_quota"}', ErrorKind.QUOTA),
        (429, "Resource has been exhausted (e.g. check quota).", ErrorKind.RATE_LIMIT),
        (429, "MODEL_CAPACITY_EXHAUSTED: You have exhausted your capacity", ErrorKind.RATE_LIMIT),
        (503, "usage limit service unavailable", ErrorKind.SERVER),
        (None, "invalid_request_error: max_tokens is too large", ErrorKind.INVALID),
        (None, "There's an issue with the selected model (nope)", ErrorKind.NOT_FOUND),
        (None, "all 512 tests are fine", ErrorKind.UNKNOWN),
        (None, "x" * 5_000_000, ErrorKind.UNKNOWN),
    ],
)
def test_a_status_precedes_words(status: int | None, message: str, kind: ErrorKind) -> None:
    """Words decide if there is no status, and whether a 429 is a quota."""
    assert error_kind(message, status) is kind
