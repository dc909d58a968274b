"""What kind of error a failed run of each command-line agent is, and when it can be tried again."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.unit.backends.agents.transcripts import Replay, Transcript, printed, request

from pipeline.backends.agents.base import ProgramBackend, kind_of
from pipeline.backends.agents.registry import AGENTS, agent
from pipeline.engine.ports import AgentError, AgentStatus, ErrorKind

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
EPOCH = int(NOW.timestamp())


def error_of(name: str, run: Transcript) -> AgentError:
    """The error that a run of an agent ended with, at a fixed time."""
    backend = ProgramBackend(agent(name), Replay(run), now=lambda: NOW)
    result = asyncio.run(backend.run(request(), lambda _: None))
    assert result.status is AgentStatus.ERROR
    assert result.error is not None
    return result.error


def claude(words: str, status: int | None, *before: dict[str, Any], **more: object) -> Transcript:
    """A run of claude that failed."""
    said = {"type": "result", "subtype": "success", "is_error": True, "result": words, "api_error_status": status}
    return printed({"type": "system", "subtype": "init", "session_id": "s"}, *before, {**said, **more}, rc=1)


def codex(words: str) -> Transcript:
    """A run of codex that failed."""
    failed = {"type": "turn.failed", "error": {"message": words}}
    return printed({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}, failed, rc=1)


def gemini(words: str) -> Transcript:
    """A run of gemini that failed."""
    failed = {"type": "result", "status": "error", "error": {"type": "unknown", "message": words}}
    return printed({"type": "init", "session_id": "s"}, failed, rc=1)


def opencode(words: str, status: int | None = None, **data: object) -> Transcript:
    """A run of opencode that failed."""
    about = {"message": words, "statusCode": status, **data}
    return printed({"type": "error", "sessionID": "s", "error": {"name": "APIError", "data": about}}, rc=1)


def pi(words: str) -> Transcript:
    """A run of pi that failed."""
    answer = {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": words}
    return printed(
        {"type": "session", "id": "s"}, {"type": "message_end", "message": answer}, {"type": "agent_settled"}
    )


REJECTED = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": EPOCH + 900}}
ALLOWED = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": EPOCH + 900}}
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 5, "error_status": 429, "retry_delay_ms": 4000}
LIMIT = '{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":700}}'
RETRY_INFO = (
    '[API Error: {"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED",'
    '"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]'
)


@pytest.mark.parametrize(
    ("name", "run", "kind", "after"),
    [
        ("claude", claude("Claude AI usage limit reached|1795010400", None), ErrorKind.QUOTA, 1795010400 - EPOCH),
        ("claude", claude("You've hit your limit · resets 3pm (Europe/Berlin)", 429), ErrorKind.QUOTA, 7200),
        ("claude", claude("You've hit your limit · resets 3pm", 429, REJECTED), ErrorKind.QUOTA, 900),
        ("claude", claude("You've hit your limit · resets 3pm", 429, RETRY), ErrorKind.QUOTA, 10800),
        ("claude", claude("5-hour limit reached ∙ resets 3pm", 429, ALLOWED), ErrorKind.QUOTA, 10800),
        ("claude", claude("Credit balance is too low", 400), ErrorKind.QUOTA, None),
        ("claude", claude("API Error: 429 slow down", 429, RETRY), ErrorKind.RATE_LIMIT, 4),
        ("claude", claude("API Error: Rate limited; retry-after: 7200", 429), ErrorKind.QUOTA, 7200),
        ("claude", claude("API Error: Connection error.", None), ErrorKind.SERVER, None),
        ("claude", claude("Invalid API key · Please run /login", None), ErrorKind.AUTH, None),
        ("claude", claude("API Error: 403 Forbidden", 403), ErrorKind.AUTH, None),
        ("claude", printed(rc=1, stderr="Error: read ECONNRESET"), ErrorKind.SERVER, None),
        ("claude", printed(rc=1, stderr="error: unknown option '--x'\n(Did you mean --y?)"), ErrorKind.CONFIG, None),
        ("codex", codex("You've hit your usage limit. Try again in 2 days 3 hours."), ErrorKind.QUOTA, 183600),
        ("codex", codex("You've hit your usage limit. Try again at 3:05 PM."), ErrorKind.QUOTA, 11100),
        ("codex", codex(LIMIT), ErrorKind.QUOTA, 700),
        ("codex", codex("exceeded retry limit, last status: 429 Too Many Requests"), ErrorKind.RATE_LIMIT, None),
        ("codex", codex("Rate limit reached. Please try again in 1.5s."), ErrorKind.RATE_LIMIT, 1.5),
        ("codex", codex("unexpected status 403 Forbidden: no"), ErrorKind.AUTH, None),
        ("codex", codex("unexpected status 404 Not Found: The model x does not exist"), ErrorKind.INVALID, None),
        ("codex", codex("stream disconnected before completion: error sending request"), ErrorKind.SERVER, None),
        ("codex", codex("Incomplete response returned, reason: max_output_tokens"), ErrorKind.PROTOCOL, None),
        ("codex", printed(rc=2, stderr="error: unexpected argument '--x' found"), ErrorKind.CONFIG, None),
        ("gemini", gemini(RETRY_INFO), ErrorKind.QUOTA, 34),
        ("gemini", gemini("Your quota will reset after 3h21m5s."), ErrorKind.QUOTA, 12065),
        ("gemini", gemini('{"error":{"code":429,"message":"No capacity available"}}'), ErrorKind.RATE_LIMIT, None),
        ("gemini", gemini('{"error":{"code":403,"status":"PERMISSION_DENIED"}}'), ErrorKind.AUTH, None),
        ("gemini", gemini('{"error":{"code":404,"message":"models/x is not found"}}'), ErrorKind.INVALID, None),
        ("gemini", gemini("exception TypeError: fetch failed sending request"), ErrorKind.SERVER, None),
        ("gemini", printed(rc=1, stderr="Unknown arguments: nope, x"), ErrorKind.CONFIG, None),
        ("opencode", opencode("slow", 429, responseHeaders={"retry-after": "30"}), ErrorKind.RATE_LIMIT, 30),
        ("opencode", opencode("slow", 429, responseHeaders={"retry-after": "22560"}), ErrorKind.QUOTA, 22560),
        (
            "opencode",
            opencode("no", 429, responseBody='{"error":{"code":"insufficient_quota"}}'),
            ErrorKind.QUOTA,
            None,
        ),
        ("opencode", opencode("You have no quota", 402), ErrorKind.QUOTA, None),
        ("opencode", opencode("no", 403), ErrorKind.AUTH, None),
        ("opencode", opencode("no such model", 404), ErrorKind.INVALID, None),
        ("opencode", opencode("Unable to connect. Is the computer able to access the url?"), ErrorKind.SERVER, None),
        ("pi", pi(f"Codex error: {LIMIT}"), ErrorKind.QUOTA, 700),
        ("pi", pi("You have hit your ChatGPT usage limit. Try again in ~42 min."), ErrorKind.QUOTA, 2520),
        ("pi", pi("429: slow"), ErrorKind.RATE_LIMIT, None),
        ("pi", pi("403: no"), ErrorKind.AUTH, None),
        ("pi", pi("404: no such model"), ErrorKind.INVALID, None),
        ("pi", pi("Connection error."), ErrorKind.SERVER, None),
        ("pi", printed(rc=1, stderr="Error: Unknown option: --nope"), ErrorKind.CONFIG, None),
    ],
)
def test_what_an_agent_says_is_a_kind_and_a_time(
    name: str, run: Transcript, kind: ErrorKind, after: float | None
) -> None:
    """A used-up quota, a short rate limit, a refusal and a lost connection are told apart for each agent."""
    error = error_of(name, run)
    assert (error.kind, error.retry_after) == (kind, after if after is None else pytest.approx(after))


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("code", [137, 143, -9, -15])
def test_an_agent_that_was_killed_is_that(name: str, code: int) -> None:
    """A signal is KILLED, whether the system tells of it or the exit code does, with what the agent said last."""
    error = error_of(name, printed(rc=code, stderr="caught it\n"))
    assert error.kind is ErrorKind.KILLED
    assert "caught it" in error.message


@pytest.mark.parametrize("name", AGENTS)
def test_a_stream_that_stops_is_no_answer(name: str) -> None:
    """Without its last event a run that exits with 0 is an error."""
    assert error_of(name, printed({"type": "message", "role": "assistant", "content": "half"})).kind in (
        ErrorKind.PROTOCOL,
        ErrorKind.EMPTY,
    )


@pytest.mark.parametrize("where", ["result", "message"])
def test_an_answer_of_claude_that_was_cut_off_is_an_error(where: str) -> None:
    """The token limit is told by its result or by the last message of the model."""
    message = {
        "content": [{"type": "text", "text": "half"}],
        "stop_reason": "max_tokens" if where == "message" else None,
    }
    end = {"type": "result", "subtype": "success", "is_error": False, "result": "half"}
    if where == "result":
        end["stop_reason"] = "max_tokens"
    error = error_of("claude", printed({"type": "assistant", "message": message}, end))
    assert error.kind is ErrorKind.PROTOCOL
    assert "cut off" in error.message


def test_a_truncated_answer_of_gemini_is_an_error() -> None:
    """It only warns of it and calls the end a success."""
    warned = {"type": "error", "severity": "warning", "message": "Response truncated due to token limits."}
    said = {"type": "message", "role": "assistant", "content": "half"}
    run = printed({"type": "init", "session_id": "s"}, said, warned, {"type": "result", "status": "success"})
    assert error_of("gemini", run).kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (401, "usage limit", ErrorKind.AUTH),
        (429, '{"code":"insufficient_quota"}', ErrorKind.QUOTA),
        (429, "Resource has been exhausted (e.g. check quota).", ErrorKind.RATE_LIMIT),
        (429, "MODEL_CAPACITY_EXHAUSTED: You have exhausted your capacity", ErrorKind.RATE_LIMIT),
        (503, "usage limit service unavailable", ErrorKind.SERVER),
        (None, "invalid_request_error: max_tokens is too large", ErrorKind.INVALID),
        (None, "There's an issue with the selected model (nope)", ErrorKind.INVALID),
        (None, "all 512 tests are fine", ErrorKind.UNKNOWN),
        (None, "x" * 5_000_000, ErrorKind.UNKNOWN),
    ],
)
def test_a_status_goes_before_words(status: int | None, words: str, kind: ErrorKind) -> None:
    """The words of a message decide where there is no status, and whether a 429 is a quota."""
    assert kind_of(status, words) is kind
