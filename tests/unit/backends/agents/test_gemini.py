"""What is particular about gemini: text in pieces, complaints before a good end, errors on standard error."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.backends.agents.transcripts import events_of, printing, request, result_of

from pipeline.backends.agents.base import MAX_FAILED_REQUESTS
from pipeline.backends.agents.gemini import Gemini
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentEvent, AgentStatus, ErrorKind
from pipeline.language.model import Access

OK, ERROR = AgentStatus.OK, AgentStatus.ERROR


def piece(text: str) -> dict[str, Any]:
    """A piece of what the assistant says."""
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def use(**parameters: object) -> dict[str, Any]:
    """A shell command that starts."""
    return {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "1", "parameters": parameters}


def used(**fields: object) -> dict[str, Any]:
    """A shell command that ended."""
    return {"type": "tool_result", "tool_id": "1", "status": "success", **fields}


def end(status: str = "success", **fields: object) -> dict[str, Any]:
    """The last line."""
    return {"type": "result", "status": status, **fields}


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("When using Gemini API, you must specify the GEMINI_API_KEY environment variable.\nUpdate", ErrorKind.AUTH),
        ("Please set an Auth method in your settings", ErrorKind.AUTH),
        ("Error resuming session: No previous sessions found for this project.", ErrorKind.INVALID),
        ('{\n "error": "not an object"}', ErrorKind.UNKNOWN),
        ("{\n no JSON", ErrorKind.UNKNOWN),
        ('{\n "a": ' + "[" * 3000, ErrorKind.UNKNOWN),  # deeper than a parser can go
        ('{\n "other": 1}', ErrorKind.UNKNOWN),
    ],
)
def test_standard_error_explains_a_run_that_did_not_begin(stderr: str, kind: ErrorKind) -> None:
    """In plain words, even if JSON lines were asked for."""
    error = result_of(Gemini(), printing(code=1, stderr=stderr)).error
    assert error is not None
    assert error.kind is kind


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"type": "FatalAuthenticationError", "message": "no"}, ErrorKind.AUTH),
        ({"type": "FatalInputError", "message": "no"}, ErrorKind.INVALID),
        ({"type": "FatalConfigError", "message": "no"}, ErrorKind.CONFIG),
        ({"type": "FatalUntrustedWorkspaceError", "message": "no"}, ErrorKind.CONFIG),
        ({"type": "FatalCancellationError", "message": "Operation cancelled."}, ErrorKind.KILLED),
        ({"type": "unknown", "message": '[API Error: {"error":{"code": 429}}]'}, ErrorKind.RATE_LIMIT),
        ({"type": "unknown", "message": '[API Error: {"error":{"code":503}}]'}, ErrorKind.SERVER),
        ({"type": "unknown", "message": "too many requests"}, ErrorKind.RATE_LIMIT),
        ({"type": "unknown", "message": "[API Error: terminated]"}, ErrorKind.NETWORK),
        ({"type": "FatalTurnLimitedError", "message": "Reached max session turns"}, ErrorKind.UNKNOWN),
    ],
)
def test_a_result_with_an_error_has_its_kind(fault: dict[str, str], kind: ErrorKind) -> None:
    """By the name of the error, else by the provider's status, else by its words."""
    result = result_of(Gemini(), printing(end("error", error=fault)))
    assert (result.status, result.error and result.error.kind) == (ERROR, kind)


@pytest.mark.parametrize(
    ("severity", "words", "status", "kind"),
    [
        ("error", "The model returned an empty response with no text or thoughts.", "error", ErrorKind.EMPTY),
        ("error", "The model returned reasoning thoughts but no final response text.", "error", ErrorKind.EMPTY),
        ("error", "Model response was truncated because it exceeded the token limit.", "error", ErrorKind.PROTOCOL),
        ("error", "Maximum session turns exceeded", "success", ErrorKind.UNKNOWN),
        ("warning", "Loop detected, stopping execution", "success", ErrorKind.UNKNOWN),
        ("warning", "Agent execution blocked: no", "success", ErrorKind.UNKNOWN),
    ],
)
def test_a_complaint_before_the_end_is_an_error(severity: str, words: str, status: str, kind: ErrorKind) -> None:
    """The last line may still say success."""
    run = printing(piece("half"), {"type": "error", "severity": severity, "message": words}, end(status))
    result = result_of(Gemini(), run)
    assert (result.status, result.error and result.error.kind) == (ERROR, kind)
    assert AgentEvent("warning", words) in events_of(Gemini(), run)


@pytest.mark.parametrize("after", [(piece("answer"),), (use(), used(), piece("answer"))])
def test_a_complaint_that_it_recovered_from_is_only_shown(after: tuple[dict[str, Any], ...]) -> None:
    """It may be refused once and fall back to another model."""
    result = result_of(Gemini(), printing({"type": "error", "severity": "error", "message": "full"}, *after, end()))
    assert (result.status, result.text) == (OK, "answer")


def test_a_mere_warning_is_no_error() -> None:
    """Unless it means that the answer is incomplete."""
    notice = {"type": "error", "severity": "warning", "message": "slow today"}
    assert result_of(Gemini(), printing(piece("answer"), notice, end())).status is OK


def test_an_unexplained_status_is_an_error() -> None:
    """A last line that says error, and nothing more."""
    error = result_of(Gemini(), printing(piece("x"), end("error"))).error
    assert error is not None
    assert '"error"' in error.message


def test_the_answer_is_what_follows_the_last_tool() -> None:
    """What it says before and between tools is shown, but is not the answer."""
    run = printing(piece("I look.\n"), use(), used(), piece("Again."), use(), used(), piece("Done."), end())
    assert result_of(Gemini(), run).text == "Done."
    assert [event.text for event in events_of(Gemini(), run) if event.kind == "text"] == ["I look.", "Again.", "Done."]
    unanswered = result_of(Gemini(), printing(piece("I start."), use(), end()))
    assert (unanswered.status, unanswered.error and unanswered.error.kind) == (ERROR, ErrorKind.EMPTY)


@pytest.mark.parametrize(
    ("reason", "denied"),
    [
        ("policy_violation", ("run_shell_command",)),
        ("tool_not_registered", ("run_shell_command",)),
        ("shell_execute_error", ()),
    ],
)
def test_a_refused_tool_is_named(reason: str, denied: tuple[str, ...]) -> None:
    """A tool that failed was not refused."""
    run = printing(use(), used(status="error", error={"type": reason, "message": "no"}), piece("x"), end())
    assert result_of(Gemini(), run).denied == denied
    assert AgentEvent("tool_end", "run_shell_command: no") in events_of(Gemini(), run)


@pytest.mark.parametrize(
    ("stats", "usage"),
    [
        ({"input_tokens": 100, "output_tokens": 20, "total_tokens": 150, "cached": 60}, (100, 50)),
        ({"input_tokens": 100, "output_tokens": 20}, (100, 20)),
        ({}, (None, None)),
    ],
)
def test_thinking_counts_as_output(stats: dict[str, int], usage: tuple[int | None, int | None]) -> None:
    """Thoughts are in the total alone; cached tokens are in the input already; there is no cost."""
    expected = Usage(input_tokens=usage[0], output_tokens=usage[1])
    run = printing(piece("x"), end(stats=stats))
    assert result_of(Gemini(), run).usage == expected
    assert events_of(Gemini(), run)[-1] == AgentEvent("usage", usage=expected)


@given(st.lists(st.text(st.sampled_from("ab \n")), min_size=1))
def test_text_is_shown_in_whole_lines(pieces: list[str]) -> None:
    """However the text is cut into pieces, its lines are shown whole and the answer is all of it."""
    run, text = printing(*map(piece, pieces), end()), "".join(pieces)
    assert result_of(Gemini(), run).text == text
    lines = [event.text for event in events_of(Gemini(), run) if event.kind == "text"]
    assert lines == [line for line in text.split("\n") if line.strip()]


DENY_ALL = {"toolName": "*", "decision": "deny", "priority": 998}
READERS = ["read_file", "read_many_files", "list_directory", "glob", "grep_search"]


@pytest.mark.parametrize(
    ("access", "rules"),
    [
        (Access.READ_ONLY, [DENY_ALL, {"toolName": READERS, "decision": "allow", "priority": 999}]),
        (Access.NONE, [DENY_ALL]),
    ],
)
def test_less_access_is_a_policy(tmp_path: Path, access: Access, rules: list[dict[str, Any]]) -> None:
    """Plan mode alone would not hold: the agent may leave it by itself."""
    Gemini().invocation(request(access=access, artifacts=tmp_path), ())
    assert tomllib.loads((tmp_path / "gemini-policy.toml").read_text("utf-8")) == {"rule": rules}


@pytest.mark.parametrize(
    ("code", "kind"),
    [(41, ErrorKind.AUTH), (401 % 256, ErrorKind.AUTH), (429 % 256, ErrorKind.RATE_LIMIT), (1, ErrorKind.UNKNOWN)],
)
def test_an_exit_code_has_its_kind(code: int, kind: ErrorKind) -> None:
    """Even if the program prints nothing: 41 means no key, and a refusal's status is cut to one byte."""
    error = result_of(Gemini(), printing(code=code)).error
    assert error is not None
    assert error.kind is kind


def failed_attempts(count: int) -> str:
    """The standard error of a run whose requests failed, each with a stack trace."""
    trace = "    at async retryWithBackoff (chunk.js:1:1)\n" * 50
    return "".join(
        f"Attempt {n} failed with status 429. Retrying with backoff...\n{trace}" for n in range(1, count + 1)
    )


def test_a_slow_failure_keeps_its_cause() -> None:
    """A run that reaches a limit while it retries failed for the reason of its last request."""
    result = result_of(Gemini(), printing(stderr=failed_attempts(3), timed_out=True))
    assert result.status is AgentStatus.ERROR
    assert result.error is not None
    assert (result.error.kind, "status 429" in result.error.message) == (ErrorKind.RATE_LIMIT, True)


def test_progress_ends_a_series_of_failures() -> None:
    """A run that is slow for another reason timed out."""
    transcript = Gemini().transcript(None)
    shown: list[AgentEvent] = []
    transcript.follow(
        transcript.read_stderr("Attempt 1 failed with status 500. Retrying with backoff..."), shown.append
    )
    assert transcript.failed_requests == 1
    transcript.follow(transcript.read(piece("so far\n")), shown.append)
    assert (transcript.last_failure, transcript.failed_requests) == (None, 0)
    assert [event.kind for event in shown] == ["retry", "text"]


@pytest.mark.parametrize(("count", "stopped"), [(MAX_FAILED_REQUESTS, False), (MAX_FAILED_REQUESTS + 9, True)])
def test_a_program_whose_requests_keep_failing_is_stopped(count: int, *, stopped: bool) -> None:
    """After more than fifty failed requests in a row it is stopped, with the cause."""
    result = result_of(Gemini(), printing(stderr=failed_attempts(count)))
    assert result.error is not None
    assert (result.error.kind is ErrorKind.RATE_LIMIT, "51 failed requests" in result.error.message) == (True, stopped)


def test_a_program_that_waits_for_hours_is_stopped() -> None:
    """Its announcement says when the limit resets; nobody waits for its idle limit."""
    announced = "Attempt 1 failed: You have exhausted your capacity. Retrying after 7200000ms...\n"
    result = result_of(Gemini(), printing(stderr=announced, timed_out=True))
    assert result.error is not None
    assert (result.error.kind, result.error.retry_after) == (ErrorKind.QUOTA, 7200.0)
    assert "1 failed request" in result.error.message


def test_its_help_is_a_rejected_flag() -> None:
    """The line that names the flag is before the end of its standard error."""
    help = "  -s, --sandbox                   Run in sandbox?  [boolean]\n"
    result = result_of(Gemini(), printing(stderr=help, code=1))
    assert result.error is not None
    assert result.error.kind is ErrorKind.BAD_FLAG
