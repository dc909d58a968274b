"""What is particular about Claude Code: its result message decides, and it counts by session."""

from pathlib import Path

import pytest
from tests.unit.backends.agents.transcripts import events_of, printing, request, result_of

from pipeline.backends.agents.claude import Claude
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.language.model import Access

ERROR = AgentStatus.ERROR


def message(kind: str, *blocks: object, **more: object) -> dict[str, object]:
    """A message of the assistant or of the user."""
    content = {"role": kind, "content": list(blocks)}
    return {"type": kind, "message": content, "parent_tool_use_id": None, "session_id": "s1", **more}


def result(**changes: object) -> dict[str, object]:
    """The message at the end of a run."""
    model = {"inputTokens": 100, "cacheReadInputTokens": 7, "cacheCreationInputTokens": 3, "outputTokens": 20}
    ended = {"is_error": False, "subtype": "success", "result": "done", "terminal_reason": "completed"}
    used = {"total_cost_usd": 0.5, "modelUsage": {"opus": model, "haiku": {**model, "outputTokens": 1}}}
    return {"type": "result", "session_id": "s1", **ended, **used, "permission_denials": [], **changes}


def test_only_the_last_result_counts() -> None:
    """A run may continue after a result; a message of a subagent is no sign of that."""
    more = message("assistant", {"type": "text", "text": "wait"})
    assert result_of(Claude(), printing(result(), more)).status is ERROR
    assert result_of(Claude(), printing(result(), more, result(result="more"))).text == "more"
    assert result_of(Claude(), printing(result(), {**more, "parent_tool_use_id": "t1"})).text == "done"
    assert result_of(Claude(), printing(result(), result(is_error="?"))).status is ERROR


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"api_error_status": 401, "api_error_type": "authentication_error"}, ErrorKind.AUTH),
        ({"api_error_status": 429, "api_error_type": "rate_limit_error"}, ErrorKind.RATE_LIMIT),
        ({"api_error_status": 529, "api_error_type": "overloaded_error"}, ErrorKind.SERVER),
        ({"api_error_status": None, "api_error_type": "overloaded_error"}, ErrorKind.SERVER),
        ({"api_error_status": None, "api_error": "connection_failed"}, ErrorKind.NETWORK),
        ({"terminal_reason": "aborted_tools"}, ErrorKind.KILLED),
        ({"terminal_reason": "aborted_streaming", "is_error": False}, ErrorKind.KILLED),
        ({"subtype": "error_during_execution", "is_error": False}, ErrorKind.UNKNOWN),
    ],
)
def test_an_unsuccessful_result_has_its_kind(changes: dict[str, object], kind: ErrorKind) -> None:
    """Whatever its exit code, and whatever it calls itself."""
    got = result_of(Claude(), printing(result(**{"is_error": True, "result": "no", **changes})))
    assert (got.status, got.text, got.error) == (ERROR, "", AgentError(kind, "no"))


def test_the_last_answer_may_say_that_it_was_cut_off() -> None:
    """The result then has no stop reason of its own."""
    answer = message("assistant", {"type": "text", "text": "half"})
    answer["message"] = {"content": [], "stop_reason": "max_tokens"}
    error = result_of(Claude(), printing(answer, result())).error
    assert error is not None
    assert error.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    "words", ["No conversation found with session ID: s1", "Error: --resume requires a valid session"]
)
def test_a_missing_session_is_not_kept(words: str) -> None:
    """Its result names the session that it did not find."""
    failed = result(is_error=True, subtype="error_during_execution", errors=[words])
    got = result_of(Claude(), printing(failed, code=1))
    assert (got.session, got.error) == (None, AgentError(ErrorKind.CONFIG, words))


def test_a_stopped_run_keeps_its_session() -> None:
    """It can be continued, and what it had used is not forgotten."""
    earlier = Usage(input_tokens=5, output_tokens=1, cost_usd=0.1)
    begun = printing({"type": "system", "subtype": "init", "session_id": "s1"}, timed_out=True, code=143)
    got = result_of(Claude(), begun, session=AgentSession("s1", earlier))
    assert (got.status, got.session, got.usage) == (AgentStatus.TIMEOUT, AgentSession("s1", earlier), None)


def test_all_models_and_the_cache_are_counted() -> None:
    """The input includes what was read from the cache and written to it, by every model."""
    assert result_of(Claude(), printing(result())).usage == Usage(input_tokens=220, output_tokens=21, cost_usd=0.5)


def test_the_cost_is_unknown_if_the_session_s_earlier_use_is() -> None:
    """The tokens are then those of the last turn."""
    tokens = {"input_tokens": 50, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 9}
    got = result_of(Claude(), printing(result(usage=tokens)), session=AgentSession("s1"))
    assert got.usage == Usage(input_tokens=56, output_tokens=9)


def test_a_forked_session_has_its_own_id() -> None:
    """The next run continues the fork."""
    session = result_of(Claude(), "claude_sess_fork").session
    assert session is not None
    assert session.id == "08721a57-a6b5-4c8a-bc23-ab0b241fda56"


def test_a_tool_that_was_refused_twice_is_named_once() -> None:
    """In the order of the first refusals."""
    denials = [{"tool_name": name, "tool_input": "x"} for name in ("Write", "Bash", "Write")]
    assert result_of(Claude(), printing(result(permission_denials=denials))).denied == ("Write", "Bash")


def test_standard_error_is_no_refusal_once_it_has_begun() -> None:
    """It explains the exit code, no more."""
    begun = {"type": "system", "subtype": "init", "session_id": "s1"}
    failed = result_of(Claude(), printing(begun, code=1, stderr="Error: it broke\n"))
    assert failed.error == AgentError(ErrorKind.UNKNOWN, '"claude" exited with code 1: Error: it broke')


def test_its_version_is_reported() -> None:
    """The first message has it."""
    assert result_of(Claude(), "claude_stream").version == "2.1.325"


def test_events_are_shown() -> None:
    """Texts and tools of a message in their order, denials, retries and provider errors; thoughts are not."""
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "one\ntwo"},
        {"type": "tool_use", "id": "t1", "name": "Task", "input": None},
        {"type": "tool_use", "id": "t2", "name": "Write", "input": {"file_path": "x" * 200, "content": "hi"}},
    ]
    ends = [{"type": "tool_result", "tool_use_id": name, "is_error": name == "t1"} for name in ("t1", "t9")]
    denied = {"type": "system", "subtype": "permission_denied", "message": "may not write"}
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 5, "error": "rate_limit"}
    lost = message("assistant", {"type": "text", "text": "API Error: 429"}, is_api_error_message=True)
    run = printing(message("assistant", *blocks), denied, message("user", *ends), {**retry, "error_status": 429}, lost)
    assert events_of(Claude(), run) == [
        AgentEvent("text", "one\ntwo"),
        AgentEvent("tool_start", "Task"),
        AgentEvent("tool_start", f"Write: {'x' * 119}…"),
        AgentEvent("warning", "may not write"),
        AgentEvent("tool_end", "Task: failed"),
        AgentEvent("tool_end", "a tool"),
        AgentEvent("retry", "rate_limit 429; attempt 1 of 5"),
        AgentEvent("warning", "API Error: 429"),
    ]
    usage = Usage(input_tokens=220, output_tokens=21, cost_usd=0.5)
    assert events_of(Claude(), printing(result())) == [AgentEvent("usage", usage=usage)]


def test_retries_are_bounded_unless_the_user_says_otherwise() -> None:
    """By default it retries for minutes."""
    name = "CLAUDE_CODE_MAX_RETRIES"
    assert Claude().invocation(request(env={name: "0"}), ()).env == {name: "0"}


def test_the_project_s_instructions_are_handed_over(tmp_path: Path) -> None:
    """From the top of the repository down, with whatever access; links out of the project and other files are not."""
    (tmp_path / "repo/.git").mkdir(parents=True)
    inner = tmp_path / "repo/inner"
    (inner / ".claude").mkdir(parents=True)
    (tmp_path / "CLAUDE.md").write_text("outside")
    (tmp_path / "repo/CLAUDE.md").write_text("use tabs\n")
    (inner / ".claude/CLAUDE.md").write_text("no globals\0\n")
    (inner / "CLAUDE.md").symlink_to(tmp_path / "CLAUDE.md")
    for access in Access:
        arguments = Claude().invocation(request(cwd=inner, access=access), ()).arguments
        given = arguments[arguments.index("--append-system-prompt") + 1]
        assert given.index('file="../CLAUDE.md">\nuse tabs') < given.index('file=".claude/CLAUDE.md">\nno globals\n')
        assert "outside" not in given
        assert arguments[arguments.index("--setting-sources") + 1] == "user"  # nor its settings and hooks


def test_instructions_of_any_length_fit_in_an_argument(tmp_path: Path) -> None:
    """What is too long is cut; a project without any adds nothing."""
    assert "--append-system-prompt" not in Claude().invocation(request(cwd=tmp_path), ()).arguments
    (tmp_path / "CLAUDE.md").write_text("ä" * 200_000)
    arguments = Claude().invocation(request(cwd=tmp_path), ()).arguments
    assert len(arguments[arguments.index("--append-system-prompt") + 1].encode()) < 128 * 1024


def test_a_tool_that_its_access_leaves_out_counts_as_refused() -> None:
    """Beside those that its own rules denied; each is named once."""
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}
    text = "<tool_use_error>Error: No such tool available: Bash</tool_use_error>"
    refused = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": text}
    denials = [{"tool_name": "Write"}, {"tool_name": "Bash"}]
    run = printing(message("assistant", use), message("user", refused), result(permission_denials=denials))
    assert result_of(Claude(), run).denied == ("Bash", "Write")
