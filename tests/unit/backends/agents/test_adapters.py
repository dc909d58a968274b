"""The five command-line agents in one table: program by situation, driven by what the real programs printed."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.backends.agents.transcripts import (
    Transcript,
    events_of,
    printing,
    recorded,
    request,
    result_of,
    transcript_names,
)

from pipeline.backends.agents import base
from pipeline.backends.select import AGENTS
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.language.model import Access

OK, ERROR, TIMEOUT = AgentStatus.OK, AgentStatus.ERROR, AgentStatus.TIMEOUT
NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
EPOCH = int(NOW.timestamp())
DONE = "done [STATUS: success]"
BAD = "Looks bad [STATUS: fail] [FAILURE_REASON: x]"
SCHEMA = '{"status":"fail","failure_reason":"x"}'

# What the recorded runs used: the model behind them reports 100 and 20 tokens for every request.
NOTHING = (0, 0, 0.0)
ONE, TWO = (100, 20, None), (200, 40, None)
PRICED_ONE, PRICED_TWO = (100, 20, 0.0006), (200, 40, 0.0012)
CLAUDE_ONE, CLAUDE_TWO = (100, 20, 0.0008), (200, 40, 0.0016)
Used = tuple[int | None, int | None, float | None] | None

TRANSCRIPTS: dict[str, tuple[AgentStatus, ErrorKind | None, str, Used]] = {
    # claude: a result with is_error and api_error_status; without one its words say that nobody is logged in
    "claude_400": (ERROR, ErrorKind.INVALID, "", NOTHING),
    "claude_404model": (ERROR, ErrorKind.NOT_FOUND, "", NOTHING),
    "claude_500_forever": (ERROR, ErrorKind.SERVER, "", NOTHING),
    "claude_nokey": (ERROR, ErrorKind.AUTH, "", NOTHING),
    # stopped by us before it printed anything
    "claude_401": (TIMEOUT, None, "", None),
    "claude_hang": (TIMEOUT, None, "", None),
    # one request was made, then a limit of its arguments was reached
    "claude_budget": (ERROR, ErrorKind.CONFIG, "", CLAUDE_ONE),
    "claude_maxturns": (ERROR, ErrorKind.CONFIG, "", CLAUDE_ONE),
    # it refused its arguments, on standard error only
    "claude_badflag": (ERROR, ErrorKind.BAD_FLAG, "", None),
    "claude_emptyprompt": (ERROR, ErrorKind.CONFIG, "", None),
    "claude_env_scrub": (ERROR, ErrorKind.CONFIG, "", None),
    "claude_sess_badid": (ERROR, ErrorKind.CONFIG, "", None),
    "claude_tool_bypass_root": (ERROR, ErrorKind.CONFIG, "", None),
    # errors that it recovered from; the dropped answer is paid for, too
    "claude_429once": (OK, None, "ok", CLAUDE_ONE),
    "claude_drop": (OK, None, "ok after drop", (200, 21, 0.00122)),
    # answers, some after a tool call
    "claude_json": (OK, None, BAD, CLAUDE_ONE),
    "claude_stream": (OK, None, BAD, PRICED_ONE),
    "claude_schema": (OK, None, SCHEMA, CLAUDE_ONE),
    "claude_schema_never": (OK, None, "I will not", CLAUDE_TWO),
    "claude_bare": (OK, None, DONE, CLAUDE_TWO),
    "claude_env_scrub2": (OK, None, DONE, CLAUDE_TWO),
    "claude_keyhelper": (OK, None, DONE, CLAUDE_TWO),
    "claude_tool_allowed": (OK, None, DONE, CLAUDE_TWO),
    "claude_tool_bypass_sandbox": (OK, None, DONE, CLAUDE_TWO),
    "claude_write_accept": (OK, None, "ok", CLAUDE_TWO),
    # a tool was refused and it continued
    "claude_tool_accept": (OK, None, DONE, CLAUDE_TWO),
    "claude_tool_default": (OK, None, DONE, CLAUDE_TWO),
    "claude_tool_dontask": (OK, None, DONE, CLAUDE_TWO),
    "claude_write_outside": (OK, None, "ok", CLAUDE_TWO),
    # one request each in a session, without what it had used before
    "claude_sess1": (OK, None, "first", CLAUDE_ONE),
    "claude_sess2": (OK, None, "second", CLAUDE_ONE),
    "claude_sess_fork": (OK, None, "third", CLAUDE_ONE),
    "claude_sess_othercwd": (OK, None, "second", CLAUDE_ONE),
    # codex: turn.failed, with the provider's bare answer for a 400, a status or words for others; no usage
    "codex_400": (ERROR, ErrorKind.INVALID, "", None),
    "codex_401": (ERROR, ErrorKind.AUTH, "", None),
    "codex_429": (ERROR, ErrorKind.RATE_LIMIT, "", None),
    "codex_500": (ERROR, ErrorKind.SERVER, "", None),
    "codex_nokey": (ERROR, ErrorKind.AUTH, "", None),
    "codex_badcfg": (ERROR, ErrorKind.BAD_FLAG, "", None),
    "codex_chatwire": (ERROR, ErrorKind.CONFIG, "", None),
    "codex_nogit": (ERROR, ErrorKind.CONFIG, "", None),
    "codex_resume_bad": (ERROR, ErrorKind.CONFIG, "", None),
    "codex_baseurl_env": (ERROR, ErrorKind.NETWORK, "", None),  # its last retry says why
    "codex_hang": (TIMEOUT, None, "", None),
    # "error" items and events that it recovered from
    "codex_baseurl_cfg": (OK, None, BAD, ONE),
    "codex_drop": (OK, None, "ok after", ONE),
    # of several messages the last
    "codex_json": (OK, None, BAD, ONE),
    "codex_stdin_lastmsg": (OK, None, BAD, ONE),
    "codex_schema": (OK, None, SCHEMA, ONE),
    "codex_schema_never": (OK, None, "I will not", ONE),
    "codex_cd": (OK, None, "ok", TWO),
    "codex_multi_msgs": (OK, None, "final one", TWO),
    "codex_tool_bypass": (OK, None, DONE, TWO),
    "codex_tool_bypass_envpolicy": (OK, None, DONE, TWO),
    "codex_tool_default": (OK, None, DONE, TWO),
    "codex_tool_envcore": (OK, None, DONE, TWO),
    "codex_tool_ws": (OK, None, DONE, TWO),
    "codex_ws_plain": (OK, None, "ok", TWO),
    "codex_sess1": (OK, None, "first", ONE),
    "codex_resume": (OK, None, "second", ONE),
    # gemini: the error is a JSON document on standard error; its exit code is 0 when it is stopped
    "gemini_400": (ERROR, ErrorKind.INVALID, "", None),
    "gemini_401": (ERROR, ErrorKind.AUTH, "", None),
    "gemini_500": (ERROR, ErrorKind.SERVER, "", None),  # its last retry says why
    "gemini_hang": (TIMEOUT, None, "", None),
    "gemini_nokey": (ERROR, ErrorKind.AUTH, "", None),
    "gemini_untrusted": (ERROR, ErrorKind.CONFIG, "", None),
    "gemini_stream": (OK, None, BAD, ONE),
    "gemini_stream_err": (ERROR, ErrorKind.INVALID, "", (0, 0, None)),
    "gemini_tool_yolo": (OK, None, DONE, TWO),
    # one document over many lines, for which we never ask: a line that is not of the stream proves nothing
    "gemini_drop": (ERROR, ErrorKind.PROTOCOL, "", None),
    "gemini_json": (ERROR, ErrorKind.PROTOCOL, "", None),
    "gemini_resume": (ERROR, ErrorKind.PROTOCOL, "", None),
    "gemini_resume_latest": (ERROR, ErrorKind.PROTOCOL, "", None),
    "gemini_sess1": (ERROR, ErrorKind.PROTOCOL, "", None),
    "gemini_tool_default": (ERROR, ErrorKind.PROTOCOL, "", None),
    # opencode: an error line with a status; it retries a 500 for ever, and hides the cause of a wrong model
    "opencode_401": (ERROR, ErrorKind.AUTH, "", None),
    "opencode_500": (TIMEOUT, None, "", None),
    "opencode_hang": (TIMEOUT, None, "", None),
    "opencode_badmodel": (ERROR, ErrorKind.UNKNOWN, "", None),
    "opencode_outside": (ERROR, ErrorKind.DENIED, "", PRICED_ONE),
    "opencode_resume_bad": (ERROR, ErrorKind.INVALID, "", None),
    "opencode_anthropic": (OK, None, BAD, PRICED_ONE),
    "opencode_auto_outside": (OK, None, "ok", PRICED_TWO),
    "opencode_dir": (OK, None, "ok", PRICED_TWO),
    "opencode_drop": (OK, None, "ok", PRICED_ONE),  # "partial" was in a step that ended "unknown"
    "opencode_json": (OK, None, BAD, PRICED_ONE),
    "opencode_openai": (OK, None, BAD, (100, 20, 0.000325)),
    "opencode_resume": (OK, None, "second", PRICED_ONE),
    "opencode_sess1": (OK, None, "first", PRICED_ONE),
    "opencode_stdin": (OK, None, BAD, PRICED_ONE),
    "opencode_tool": (OK, None, DONE, PRICED_TWO),
    # pi: stopReason "error"; its exit code is 0
    "pi_401": (ERROR, ErrorKind.AUTH, "", NOTHING),
    "pi_500": (ERROR, ErrorKind.SERVER, "", NOTHING),
    "pi_badmodel": (ERROR, ErrorKind.NOT_FOUND, "", None),
    "pi_nokey": (ERROR, ErrorKind.AUTH, "", None),
    "pi_text401": (ERROR, ErrorKind.AUTH, "", None),
    "pi_hang": (TIMEOUT, None, "", None),
    "pi_429once": (OK, None, "ok", PRICED_ONE),
    "pi_drop": (OK, None, "ok", PRICED_ONE),  # "partial" was in a message that ended with an error
    "pi_json": (OK, None, BAD, PRICED_ONE),
    "pi_readonly": (OK, None, "ok", PRICED_TWO),  # its bash was not found; it answered all the same
    "pi_sess1": (OK, None, "first", PRICED_ONE),
    "pi_sess2": (OK, None, "second", PRICED_ONE),
    "pi_tool": (OK, None, DONE, PRICED_TWO),
    # plain text, for which we never ask
    "pi_anthropic": (ERROR, ErrorKind.PROTOCOL, "", None),
    "pi_responses": (ERROR, ErrorKind.PROTOCOL, "", None),
    "pi_text": (ERROR, ErrorKind.PROTOCOL, "", None),
}
CLAUDE_SESSION = "11111111-2222-4333-8444-555555555555"
CODEX_THREAD = "01a1e1b3-fc02-77a3-ad83-35401a40fce3"
SESSIONS = {  # what the continued sessions had used before; None for agents that report each run by itself
    "claude_sess2": AgentSession(CLAUDE_SESSION, Usage(input_tokens=100, output_tokens=20, cost_usd=0.0008)),
    "claude_sess_fork": AgentSession(CLAUDE_SESSION, Usage(input_tokens=200, output_tokens=40, cost_usd=0.0016)),
    "claude_sess_othercwd": AgentSession(CLAUDE_SESSION, Usage(input_tokens=200, output_tokens=40, cost_usd=0.0016)),
    "codex_resume": AgentSession(CODEX_THREAD, Usage(input_tokens=100, output_tokens=20)),
}
DENIED = {
    "claude_tool_accept": ("Bash",),
    "claude_tool_default": ("Bash",),
    "claude_tool_dontask": ("Bash",),
    "claude_write_outside": ("Write",),
    "opencode_outside": ("write",),
    "pi_readonly": ("bash",),
}


def agent_of(name: str) -> Any:
    """The agent that printed a transcript."""
    return AGENTS[name.partition("_")[0]]


@pytest.mark.parametrize("program", AGENTS)
def test_every_transcript_is_in_the_table(program: str) -> None:
    """A new recording needs an expectation."""
    assert sorted(name for name in TRANSCRIPTS if name.startswith(f"{program}_")) == transcript_names(program)


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_a_transcript_has_its_result(name: str) -> None:
    """Status, kind of error, answer, usage of this run alone, and refused tools."""
    result = result_of(agent_of(name), name, session=SESSIONS.get(name))
    status, kind, text, used = TRANSCRIPTS[name]
    assert (result.status, result.error and result.error.kind, result.text) == (status, kind, text)
    assert (result.usage is None) is (used is None)
    if result.usage and used:
        assert (result.usage.input_tokens, result.usage.output_tokens) == used[:2]
        assert result.usage.cost_usd == pytest.approx(used[2])
    assert result.denied == DENIED.get(name, ())


@pytest.mark.parametrize("name", [name for name, expected in TRANSCRIPTS.items() if expected[0] is OK])
def test_a_run_without_its_last_message_is_an_error(name: str) -> None:
    """Even if it exits with 0."""
    result = result_of(agent_of(name), recorded(name).without_last_line(), session=SESSIONS.get(name))
    assert result.status is ERROR


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("claude_badflag", "error: unknown option '--nope'"),
        ("claude_sess_badid", "No conversation found with session ID: 11111111-2222-4333-8444-000000000000"),
        ("claude_maxturns", "Reached maximum number of turns (1)"),
        ("claude_nokey", "Not logged in · Please run /login"),
        ("codex_400", "bad thing"),
        ("codex_badcfg", "error: invalid value 'bogus' for '--sandbox <SANDBOX_MODE>'"),
        ("codex_chatwire", 'Error loading config.toml: `wire_api = "chat"` is no longer supported.'),
        ("codex_nokey", "Missing environment variable: `FAKE_KEY`."),
        ("gemini_401", '{"error":{"code":401,"message":"bad key","status":"UNAUTHENTICATED"}}'),
        ("opencode_resume_bad", "Session not found"),
        ("pi_nokey", "No API key found for fake."),
    ],
)
def test_an_error_has_the_program_s_own_words(name: str, message: str) -> None:
    """From whichever stream they come."""
    assert result_of(agent_of(name), name).error == AgentError(TRANSCRIPTS[name][1] or ErrorKind.UNKNOWN, message)


@pytest.mark.parametrize(
    ("name", "session"),
    [
        ("claude_sess1", SESSIONS["claude_sess2"]),
        ("claude_sess2", SESSIONS["claude_sess_othercwd"]),
        ("codex_sess1", SESSIONS["codex_resume"]),
        ("codex_resume", AgentSession(CODEX_THREAD, Usage(input_tokens=200, output_tokens=40))),
        ("codex_resume_bad", None),
        ("gemini_stream", AgentSession("6e75604c-c4aa-474e-9462-03282076776e")),
        ("opencode_sess1", AgentSession("ses_e1e469235ffeLSj3jQQZYXiW3D")),
        ("opencode_resume", AgentSession("ses_e1e469235ffeLSj3jQQZYXiW3D")),
        ("pi_sess1", AgentSession("engine-stage-1")),
        ("pi_sess2", AgentSession("engine-stage-1")),
    ],
)
def test_a_session_can_be_continued(name: str, session: AgentSession | None) -> None:
    """Where the program counts by session, what it has used so far is kept for the next run to subtract."""
    assert result_of(agent_of(name), name, session=SESSIONS.get(name)).session == session


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one program says what all of them say."""

    answer: Callable[[str], list[dict[str, Any]]]  # a successful run with this answer
    failure: Callable[[str], Transcript]  # a run that failed with this message
    truncated: list[dict[str, Any]]  # an answer that ended at the token limit
    malformed: list[dict[str, Any]]  # messages of known types whose content is not what it should be
    keys: tuple[str, ...]  # of its messages
    words: tuple[str, ...]  # values of its messages that matter
    started: dict[str, Any]  # a tool call: `pytest -q` in a shell
    start_label: str
    finished: dict[str, Any]
    finish_labels: tuple[str, ...]


def claude_result(**fields: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": "x", "session_id": "s", **fields}


def claude_failure(message: str, status: int | None = None, *before: dict[str, Any]) -> Transcript:
    init = {"type": "system", "subtype": "init", "session_id": "s"}
    return printing(init, *before, claude_result(is_error=True, result=message, api_error_status=status), code=1)


def codex_item(event: str, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": event, "item": {"id": "1", "type": kind, **fields}}


def codex_failure(message: str) -> Transcript:
    failed = {"type": "turn.failed", "error": {"message": message}}
    return printing({"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}, failed, code=1)


def gemini_text(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def gemini_failure(message: str) -> Transcript:
    failed = {"type": "result", "status": "error", "error": {"type": "unknown", "message": message}}
    return printing({"type": "init", "session_id": "s"}, failed, code=1)


def opencode_part(kind: str, **part: Any) -> dict[str, Any]:
    return {"type": kind, "sessionID": "s", "part": part}


def opencode_failure(message: str, status: int | None = None, **data: Any) -> Transcript:
    error = {"name": "APIError", "data": {"message": message, "statusCode": status, **data}}
    return printing({"type": "error", "sessionID": "s", "error": error}, code=1)


def pi_answer(text: str, reason: str = "stop", **fields: Any) -> list[dict[str, Any]]:
    message = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": reason, **fields}
    return [{"type": "message_end", "message": message}, {"type": "agent_settled"}]


def pi_failure(message: str) -> Transcript:
    return printing({"type": "session", "id": "s"}, *pi_answer("", "error", errorMessage=message))


DIALECTS = {
    "claude": Dialect(
        answer=lambda text: [claude_result(result=text)],
        failure=claude_failure,
        truncated=[claude_result(stop_reason="max_tokens")],
        malformed=[
            claude_result(is_error=None),
            claude_result(total_cost_usd=float("inf")),
            claude_result(total_cost_usd=10**400),
        ],
        keys=(
            *("type", "subtype", "message", "content", "session_id", "is_error", "result", "errors", "modelUsage"),
            *("permission_denials", "tool_name", "id", "name", "input", "command", "tool_use_id", "text", "usage"),
            *("total_cost_usd", "api_error_status", "inputTokens", "error", "attempt", "claude_code_version"),
        ),
        words=("system", "init", "api_retry", "assistant", "user", "result", "fail", "text", "tool_use", "tool_result"),
        started={
            "type": "assistant",
            "message": {
                "content": [{"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": "pytest\n -q"}}]
            },
        },
        start_label="Bash: pytest -q",
        finished={"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "1"}]}},
        finish_labels=("Bash: pytest -q",),
    ),
    "codex": Dialect(
        answer=lambda text: [
            {"type": "turn.started"},
            codex_item("item.completed", "agent_message", text=text),
            {"type": "turn.completed"},
        ],
        failure=codex_failure,
        truncated=[
            {"type": "turn.failed", "error": {"message": "Incomplete response returned, reason: max_output_tokens"}}
        ],
        malformed=[],
        keys=(
            *("type", "thread_id", "item", "id", "text", "message", "error", "usage", "input_tokens", "output_tokens"),
            *("command", "changes", "path", "server", "tool", "query", "status", "detail"),
        ),
        words=(
            *("thread.started", "turn.started", "turn.failed", "item.started", "item.completed", "error"),
            *("agent_message", "command_execution", "file_change", "mcp_tool_call", "declined", '{"error": {}}'),
        ),
        started=codex_item("item.started", "command_execution", command="/bin/bash -lc 'pytest -q'"),
        start_label="shell: pytest -q",
        finished=codex_item("item.completed", "command_execution", command="/bin/bash -lc 'pytest -q'"),
        finish_labels=("shell: pytest -q",),
    ),
    "gemini": Dialect(
        answer=lambda text: [gemini_text(text), {"type": "result", "status": "success"}],
        failure=gemini_failure,
        truncated=[
            gemini_text("half"),
            {"type": "error", "severity": "warning", "message": "Response truncated due to token limits."},
            {"type": "result", "status": "success"},
        ],
        malformed=[
            {"type": "message", "role": "assistant", "content": 1},
            {"type": "result", "status": "success", "stats": 1},
            {"type": "tool_result", "error": "no"},
            {"type": "tool_use", "tool_name": 1},
            {"type": "error", "message": []},
        ],
        keys=(
            *("session_id", "role", "content", "tool_name", "tool_id", "parameters", "severity", "message", "code"),
            *("status", "error", "stats", "type", "input_tokens"),
        ),
        words=("init", "message", "tool_use", "tool_result", "error", "result", "assistant"),
        started={"type": "tool_use", "tool_name": "shell", "tool_id": "1", "parameters": {"command": "pytest -q"}},
        start_label="shell: pytest -q",
        finished={"type": "tool_result", "tool_id": "1", "status": "success"},
        finish_labels=("shell: success",),
    ),
    "opencode": Dialect(
        answer=lambda text: [
            opencode_part("step_start"),
            opencode_part("text", text=text),
            opencode_part("step_finish", reason="stop"),
        ],
        failure=opencode_failure,
        truncated=[opencode_part("text", text="half"), opencode_part("step_finish", reason="length")],
        malformed=[
            opencode_part("text", text=1),
            {"type": "step_finish", "part": "stop"},
            opencode_part("step_finish", reason="stop", tokens={"input": "many"}),
            opencode_part("tool_use", state=1),
            {"type": "error", "error": "no"},
        ],
        keys=("part", "error", "sessionID", "text", "tool", "state", "input", "data", "statusCode", "tokens", "cost"),
        words=("step_start", "text", "tool_use", "step_finish", "error", "tool-calls", "length"),
        started=opencode_part(
            "tool_use", tool="bash", state={"status": "completed", "input": {"command": "pytest -q"}}
        ),
        start_label="bash: pytest -q",
        finished={"type": "nothing"},  # a tool call is reported once, when it has ended
        finish_labels=("bash: completed",),
    ),
    "pi": Dialect(
        answer=pi_answer,
        failure=pi_failure,
        truncated=pi_answer("half", "length"),
        malformed=[
            {"type": "message_end", "message": {"role": "assistant", "content": "text"}},
            {"type": "message_end", "message": {"role": "assistant", "stopReason": 1}},
            {"type": "tool_execution_start", "toolName": 1},
            {"type": "tool_execution_end", "isError": "perhaps"},
        ],
        keys=("message", "role", "id", "toolName", "args", "isError", "errorMessage", "content", "usage", "stopReason"),
        words=("session", "message_end", "assistant", "tool_execution_end", "auto_retry_start", "error", "aborted"),
        started={"type": "tool_execution_start", "toolName": "bash", "args": {"command": "pytest -q"}},
        start_label="bash: pytest -q",
        finished={"type": "tool_execution_end", "toolName": "bash"},
        finish_labels=("bash: done",),
    ),
}


@pytest.mark.parametrize("program", AGENTS)
def test_lines_that_are_not_messages_are_ignored(program: str) -> None:
    """Programs print warnings, too, and messages of types that are not known yet."""
    run = printing(["a", "list"], 3, {"type": "brand.new", "text": 1}, *DIALECTS[program].answer("fine"))
    noisy = Transcript(f"Warning: old\n{'[' * 10_000}\n{run.stdout}")
    result = result_of(AGENTS[program], noisy)
    assert (result.status, result.text) == (OK, "fine")


@pytest.mark.parametrize("program", AGENTS)
def test_warnings_on_standard_error_do_not_spoil_an_answer(program: str) -> None:
    """A run that reported a good end is one."""
    run = printing(*DIALECTS[program].answer("fine"), stderr="error: a hook broke\nSession not found\n401\n")
    assert result_of(AGENTS[program], run).status is OK


@pytest.mark.parametrize("program", AGENTS)
def test_an_empty_answer_is_an_error(program: str) -> None:
    """Although the program reports success."""
    error = result_of(AGENTS[program], printing(*DIALECTS[program].answer(" \n"))).error
    assert error == AgentError(ErrorKind.EMPTY, f'"{program}" returned an empty answer')


@pytest.mark.parametrize("program", AGENTS)
def test_an_answer_cut_off_at_the_token_limit_is_an_error(program: str) -> None:
    """It is never taken for a whole one."""
    error = result_of(AGENTS[program], printing(*DIALECTS[program].truncated)).error
    assert error is not None
    assert error.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize("program", AGENTS)
def test_a_silent_exit_is_an_error(program: str) -> None:
    """Exit code 0 without a message proves nothing."""
    error = result_of(AGENTS[program], printing()).error
    assert error == AgentError(ErrorKind.PROTOCOL, f'"{program}" exited without reporting how it ended')


@pytest.mark.parametrize("program", AGENTS)
def test_a_failed_exit_has_the_last_words(program: str) -> None:
    """What it last printed on standard error explains the exit code."""
    error = result_of(AGENTS[program], printing(code=1, stderr="one\nit broke\n\n")).error
    assert error == AgentError(ErrorKind.UNKNOWN, f'"{program}" exited with code 1: it broke')


@pytest.mark.parametrize("program", AGENTS)
@pytest.mark.parametrize("code", [137, 143, -9, -15])
def test_a_killed_agent_is_reported_as_killed(program: str, code: int) -> None:
    """Whether the system reports the signal or the exit code does."""
    error = result_of(AGENTS[program], printing(code=code, stderr="caught it\n")).error
    assert error is not None
    assert error.kind is ErrorKind.KILLED
    assert "caught it" in error.message


@pytest.mark.parametrize("program", AGENTS)
def test_an_error_without_words_has_a_message(program: str) -> None:
    """It is never empty."""
    error = result_of(AGENTS[program], DIALECTS[program].failure("")).error
    assert error is not None
    assert error.kind is ErrorKind.UNKNOWN
    assert error.message


@pytest.mark.parametrize(
    ("program", "message"), [(name, message) for name, dialect in DIALECTS.items() for message in dialect.malformed]
)
def test_a_malformed_message_is_an_error(program: str, message: dict[str, Any]) -> None:
    """It could be the one that mattered, so a good end after it does not count."""
    result = result_of(AGENTS[program], printing(message, *DIALECTS[program].answer("fine")))
    assert result.error is not None
    assert (result.status, result.error.kind) == (ERROR, ErrorKind.PROTOCOL)
    assert f'"{message["type"]}"' in result.error.message


@pytest.mark.parametrize("program", AGENTS)
def test_a_tool_call_is_shown(program: str) -> None:
    """With what it is used for, on one line."""
    dialect = DIALECTS[program]
    events = events_of(AGENTS[program], printing(dialect.started, dialect.finished))
    ends = [AgentEvent("tool_end", label) for label in dialect.finish_labels]
    assert events == [AgentEvent("tool_start", dialect.start_label), *ends]


def any_message(dialect: Dialect) -> st.SearchStrategy[dict[str, Any]]:
    """What a program might print: its own keys and words, in an order and with values that nobody promised."""
    words = st.sampled_from(dialect.words)
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.text(max_size=3)
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(dialect.keys), inner, max_size=4),
        max_leaves=6,
    )
    types = st.fixed_dictionaries({"type": words | scalars})
    return st.builds(dict.__or__, st.dictionaries(st.sampled_from(dialect.keys), values, max_size=5), types)


@pytest.mark.parametrize("program", AGENTS)
@given(data=st.data(), stderr=st.sampled_from(["", "error: it broke", "401", '{\n "error": 1}', "{\n no JSON"]))
def test_nothing_a_program_prints_is_taken_for_success(program: str, data: st.DataObject, stderr: str) -> None:
    """Any JSON can be read, and without the program's own report of a good end there is no answer."""
    run = printing(*data.draw(st.lists(any_message(DIALECTS[program]), max_size=4)), stderr=stderr)
    assert result_of(AGENTS[program], run).status is ERROR


REJECTED = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": EPOCH + 900}}
ALLOWED = {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": EPOCH + 900}}
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 5, "error_status": 429, "retry_delay_ms": 4000}
LIMIT = '{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":700}}'
RETRY_INFO = (
    '[API Error: {"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED",'
    '"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]'
)
FAILURES: list[tuple[str, Transcript, ErrorKind, float | None]] = [
    ("claude", claude_failure("Claude AI usage limit reached|1795010400"), ErrorKind.QUOTA, 1795010400 - EPOCH),
    ("claude", claude_failure("You've hit your limit · resets 3pm (Europe/Berlin)", 429), ErrorKind.QUOTA, 7200),
    ("claude", claude_failure("You've hit your limit · resets 3pm", 429, REJECTED), ErrorKind.QUOTA, 900),
    ("claude", claude_failure("You've hit your limit · resets 3pm", 429, RETRY), ErrorKind.QUOTA, 10800),
    ("claude", claude_failure("5-hour limit reached ∙ resets 3pm", 429, ALLOWED), ErrorKind.QUOTA, 10800),
    ("claude", claude_failure("Credit balance is too low", 400), ErrorKind.QUOTA, None),
    ("claude", claude_failure("API Error: 429 slow down", 429, RETRY), ErrorKind.RATE_LIMIT, 4),
    ("claude", claude_failure("API Error: Rate limited; retry-after: 7200", 429), ErrorKind.QUOTA, 7200),
    ("claude", claude_failure("API Error: Connection error."), ErrorKind.NETWORK, None),
    ("claude", claude_failure("Invalid API key · Please run /login"), ErrorKind.AUTH, None),
    ("claude", claude_failure("API Error: 403 Forbidden", 403), ErrorKind.AUTH, None),
    ("claude", printing(code=1, stderr="Error: read ECONNRESET"), ErrorKind.NETWORK, None),
    ("claude", printing(code=1, stderr="error: unknown option '--x'\n(Did you mean --y?)"), ErrorKind.BAD_FLAG, None),
    ("codex", codex_failure("You've hit your usage limit. Try again in 2 days 3 hours."), ErrorKind.QUOTA, 183600),
    ("codex", codex_failure("You've hit your usage limit. Try again at 3:05 PM."), ErrorKind.QUOTA, 11100),
    ("codex", codex_failure(LIMIT), ErrorKind.QUOTA, 700),
    ("codex", codex_failure("exceeded retry limit, last status: 429 Too Many Requests"), ErrorKind.RATE_LIMIT, None),
    ("codex", codex_failure("Rate limit reached. Please try again in 1.5s."), ErrorKind.RATE_LIMIT, 1.5),
    ("codex", codex_failure("unexpected status 403 Forbidden: no"), ErrorKind.AUTH, None),
    ("codex", codex_failure("unexpected status 404 Not Found: The model x does not exist"), ErrorKind.NOT_FOUND, None),
    ("codex", codex_failure("stream disconnected before completion: error sending request"), ErrorKind.NETWORK, None),
    ("codex", printing(code=2, stderr="error: unexpected argument '--x' found"), ErrorKind.BAD_FLAG, None),
    ("gemini", gemini_failure(RETRY_INFO), ErrorKind.QUOTA, 34),
    ("gemini", gemini_failure("Your quota will reset after 3h21m5s."), ErrorKind.QUOTA, 12065),
    ("gemini", gemini_failure('{"error":{"code":429,"message":"No capacity available"}}'), ErrorKind.RATE_LIMIT, None),
    ("gemini", gemini_failure('{"error":{"code":403,"status":"PERMISSION_DENIED"}}'), ErrorKind.AUTH, None),
    ("gemini", gemini_failure('{"error":{"code":404,"message":"models/x is not found"}}'), ErrorKind.NOT_FOUND, None),
    ("gemini", gemini_failure("exception TypeError: fetch failed sending request"), ErrorKind.NETWORK, None),
    ("gemini", printing(code=1, stderr="Unknown arguments: nope, x"), ErrorKind.BAD_FLAG, None),
    ("opencode", opencode_failure("slow", 429, responseHeaders={"retry-after": "30"}), ErrorKind.RATE_LIMIT, 30),
    ("opencode", opencode_failure("slow", 429, responseHeaders={"retry-after": "22560"}), ErrorKind.QUOTA, 22560),
    ("opencode", opencode_failure("no", 429, responseBody='{"code":"insufficient_quota"}'), ErrorKind.QUOTA, None),
    ("opencode", opencode_failure("You have no quota", 402), ErrorKind.QUOTA, None),
    ("opencode", opencode_failure("no", 403), ErrorKind.AUTH, None),
    ("opencode", opencode_failure("no such model", 404), ErrorKind.NOT_FOUND, None),
    ("opencode", opencode_failure("Unable to connect. Is the computer able to access it?"), ErrorKind.NETWORK, None),
    ("pi", pi_failure(f"Codex error: {LIMIT}"), ErrorKind.QUOTA, 700),
    ("pi", pi_failure("You have hit your ChatGPT usage limit. Try again in ~42 min."), ErrorKind.QUOTA, 2520),
    ("pi", pi_failure("429: slow"), ErrorKind.RATE_LIMIT, None),
    ("pi", pi_failure("403: no"), ErrorKind.AUTH, None),
    ("pi", pi_failure("404: no such model"), ErrorKind.NOT_FOUND, None),
    ("pi", pi_failure("Connection error."), ErrorKind.NETWORK, None),
    ("pi", printing(code=1, stderr="Error: Unknown option: --nope"), ErrorKind.BAD_FLAG, None),
]


@pytest.mark.parametrize(("program", "run", "kind", "retry_after"), FAILURES)
def test_a_failure_has_a_kind_and_a_time(
    monkeypatch: pytest.MonkeyPatch, program: str, run: Transcript, kind: ErrorKind, retry_after: float | None
) -> None:
    """A used-up quota, a short rate limit, a refusal and a lost connection are different for each agent."""
    monkeypatch.setattr(base, "local_now", lambda: NOW)
    result = result_of(AGENTS[program], run)
    assert result.error is not None
    found = result.error.retry_after
    assert (result.error.kind, found if found is None else pytest.approx(found)) == (kind, retry_after)


CLAUDE = ("--print", "--verbose", "--output-format", "stream-json", "--setting-sources", "user", "--strict-mcp-config")
CODEX = ("--json", "--skip-git-repo-check", "-c", "shell_environment_policy.ignore_default_excludes=false")
GEMINI = ("--prompt", "", "--output-format", "stream-json", "--skip-trust", "--approval-mode")
OPENCODE = ("run", "--format", "json", "--dir", "WORK")
PI = ("--print", "--mode", "json", "--no-approve")
ARGUMENTS = {
    ("claude", Access.NONE): (*CLAUDE, "--tools", ""),
    ("claude", Access.READ_ONLY): (*CLAUDE, "--tools", "Read,Grep,Glob"),
    ("claude", Access.CODING): (*CLAUDE, "--permission-mode", "acceptEdits", "--allowedTools", "Bash"),
    ("codex", Access.NONE): ("exec", *CODEX, "-s", "read-only", "-"),
    ("codex", Access.READ_ONLY): ("exec", *CODEX, "-s", "read-only", "-"),
    ("codex", Access.CODING): ("exec", *CODEX, "-s", "workspace-write", "-"),
    ("gemini", Access.NONE): (*GEMINI, "plan", "--policy", "ARTIFACTS/gemini-policy.toml"),
    ("gemini", Access.READ_ONLY): (*GEMINI, "plan", "--policy", "ARTIFACTS/gemini-policy.toml"),
    ("gemini", Access.CODING): (*GEMINI, "yolo"),
    ("opencode", Access.NONE): (*OPENCODE, "--agent", "awf"),
    ("opencode", Access.READ_ONLY): (*OPENCODE, "--agent", "awf"),
    ("opencode", Access.CODING): OPENCODE,
    ("pi", Access.NONE): (*PI, "--no-tools"),
    ("pi", Access.READ_ONLY): (*PI, "--tools", "read,grep,find,ls"),
    ("pi", Access.CODING): PI,
}
ENVIRONMENTS = {
    "claude": {"CLAUDE_CODE_MAX_RETRIES": "5"},
    "codex": {},
    "gemini": {"TMPDIR": "ARTIFACTS"},
    "pi": {"PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"},
}
IN_FULL = {  # a model of a provider, an effort, a session, and an argument of the user
    "claude": ("--model", "m", "--effort", "high", "--resume", "s", "--own"),
    "codex": (*("-c", 'model_reasoning_effort="high"', "-c", 'sandbox_mode="workspace-write"'), "--own", "s", "-"),
    "gemini": ("--model", "m", "--resume", "s", "--own"),  # it has no flag for the effort
    "opencode": ("--model", "p/m", "--variant", "high", "--session", "s", "--own"),
    "pi": ("--provider", "p", "--model", "m", "--thinking", "high", "--session-id", "s", "--own"),
}


@pytest.mark.parametrize(("program", "access"), ARGUMENTS)
def test_access_decides_the_arguments(tmp_path: Path, program: str, access: Access) -> None:
    """Nothing of the repository's own settings is used; the prompt is never among the arguments."""
    artifacts = tmp_path / "not" / "yet"
    invocation = AGENTS[program].invocation(request(access=access, cwd=Path("WORK"), artifacts=artifacts), ())
    assert (
        tuple(word.replace(str(artifacts), "ARTIFACTS") for word in invocation.arguments) == ARGUMENTS[program, access]
    )
    if program in ENVIRONMENTS:
        env = {name: value.replace(str(artifacts), "ARTIFACTS") for name, value in invocation.env.items()}
        assert env == ENVIRONMENTS[program]
    assert artifacts.exists() is ("--policy" in invocation.arguments)


@pytest.mark.parametrize("program", AGENTS)
def test_a_request_in_full_has_its_arguments(tmp_path: Path, program: str) -> None:
    """Model, effort and session; the user's own arguments come last."""
    asked = request(
        model="m", provider="p", reasoning_effort="high", session=AgentSession("s"), artifacts=tmp_path, prompt="secret"
    )
    arguments = AGENTS[program].invocation(asked, ("--own",)).arguments
    expected = IN_FULL[program]
    assert arguments[-len(expected) :] == expected
    assert "secret" not in arguments


@pytest.mark.parametrize("program", AGENTS)
def test_every_flag_that_is_used_is_probed(tmp_path: Path, program: str) -> None:
    """So that a version of the program without it is found out beforehand."""
    agent, asked = AGENTS[program], {"model": "m", "reasoning_effort": "high", "session": AgentSession("s")}
    requests = [request(access=access, artifacts=tmp_path, **fields) for access in Access for fields in (asked, {})]
    words = {word for one in requests for word in agent.invocation(one, ()).arguments}
    assert {word for word in words if word.startswith("--")} <= set(agent.flags)


@pytest.mark.parametrize(
    ("provider", "model", "named"),
    [
        (None, "openai/gpt-5", "openai/gpt-5"),
        ("openai", "gpt-5", "openai/gpt-5"),
        ("openrouter", "openai/gpt-5", "openai/gpt-5"),
        (None, "gpt-5", "gpt-5"),
    ],
)
def test_a_model_is_named_with_its_provider(provider: str | None, model: str, named: str) -> None:
    """Unless the name has one already."""
    arguments = AGENTS["opencode"].invocation(request(provider=provider, model=model), ()).arguments
    assert arguments[-2:] == ("--model", named)


@pytest.mark.parametrize(
    ("program", "provider", "given", "withheld"),
    [
        ("claude", None, {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"}, {"OPENAI_API_KEY"}),
        ("claude", None, {"CLAUDE_CONFIG_DIR", "CLAUDE_CODE_MAX_RETRIES"}, {"CLAUDE_CODE_USE_BEDROCK"}),
        ("claude", "Bedrock", {"AWS_REGION", "CLAUDE_CODE_USE_BEDROCK"}, {"ANTHROPIC_API_KEY"}),
        ("claude", "vertex", {"CLAUDE_CODE_USE_VERTEX", "CLOUD_ML_REGION"}, {"ANTHROPIC_API_KEY", "AWS_REGION"}),
        ("codex", None, {"OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"}, {"ANTHROPIC_API_KEY"}),
        ("codex", "azure", {"AZURE_OPENAI_API_KEY", "CODEX_HOME"}, {"OPENAI_API_KEY"}),
        ("gemini", None, {"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME"}, {"ANTHROPIC_API_KEY"}),
        ("gemini", "google", {"GEMINI_API_KEY", "GOOGLE_CLOUD_PROJECT"}, {"ANTHROPIC_API_KEY"}),
        ("opencode", None, {"OPENCODE_CONFIG_CONTENT", "OPENCODE_CONFIG"}, {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}),
        ("opencode", "openai", {"OPENAI_API_KEY", "OPENCODE_CONFIG_DIR"}, {"ANTHROPIC_API_KEY"}),
        ("pi", None, {"PI_CODING_AGENT_DIR", "PI_OFFLINE"}, {"OPENAI_API_KEY", "ANTHROPIC_API_KEY"}),
        ("pi", "anthropic", {"ANTHROPIC_API_KEY", "PI_PACKAGE_DIR"}, {"OPENAI_API_KEY"}),
    ],
)
def test_an_agent_gets_the_key_of_one_provider(
    program: str, provider: str | None, given: set[str], withheld: set[str]
) -> None:
    """And the variables that say where it keeps its own files."""
    names = set(AGENTS[program].variables(provider))
    assert given <= names
    assert not withheld & names
