"""Claude Code: what it is started with, and what is made of what it really printed."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.backends.agents.transcripts import (
    Transcript,
    any_message,
    heard,
    names,
    printed,
    read,
    request,
    transcript,
)

from pipeline.backends.agents.base import AgentProgram
from pipeline.backends.agents.claude import Claude
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.language.model import Access

SESSION = "11111111-2222-4333-8444-555555555555"
OK, ERROR, TIMEOUT = AgentStatus.OK, AgentStatus.ERROR, AgentStatus.TIMEOUT
ALWAYS = (
    *("--print", "--verbose", "--output-format", "stream-json"),
    *("--setting-sources", "user", "--strict-mcp-config"),
)
CODING = ("--permission-mode", "acceptEdits", "--allowedTools", "Bash")
NOTHING, ONE, TWO = (0, 0, 0.0), (100, 20, 0.0008), (200, 40, 0.0016)  # requests; each is of 100 and 20 tokens
DONE = "done [STATUS: success]"
BAD = "Looks bad [STATUS: fail] [FAILURE_REASON: x]"

EXPECTED: dict[str, tuple[Any, ...]] = {
    # is_error with api_error_status: 400, 404, 500; without one the words say that nobody is logged in
    "claude_400": (ERROR, ErrorKind.INVALID, "", NOTHING),
    "claude_404model": (ERROR, ErrorKind.INVALID, "", NOTHING),
    "claude_500_forever": (ERROR, ErrorKind.SERVER, "", NOTHING),
    "claude_nokey": (ERROR, ErrorKind.AUTH, "", NOTHING),
    # killed by us before it printed anything
    "claude_401": (TIMEOUT, None, "", None),
    "claude_hang": (TIMEOUT, None, "", None),
    # one request was made, then a limit of its arguments was reached; of the budget's, `usage` tells nothing
    "claude_budget": (ERROR, ErrorKind.CONFIG, "", ONE),
    "claude_maxturns": (ERROR, ErrorKind.CONFIG, "", ONE),
    # nothing but words on its standard error: it did not like what it was started with
    "claude_badflag": (ERROR, ErrorKind.CONFIG, "", None),
    "claude_emptyprompt": (ERROR, ErrorKind.CONFIG, "", None),
    "claude_env_scrub": (ERROR, ErrorKind.CONFIG, "", None),
    "claude_sess_badid": (ERROR, ErrorKind.CONFIG, "", None),
    "claude_tool_bypass_root": (ERROR, ErrorKind.CONFIG, "", None),
    # trouble on the way that it got over; the dropped answer is paid for too
    "claude_429once": (OK, None, "ok", ONE),
    "claude_drop": (OK, None, "ok after drop", (200, 21, 0.00122)),
    # answers, with a tool in two requests
    "claude_json": (OK, None, BAD, ONE),
    "claude_stream": (OK, None, BAD, (100, 20, 0.0006)),
    "claude_schema": (OK, None, '{"status":"fail","failure_reason":"x"}', ONE),
    "claude_schema_never": (OK, None, "I will not", TWO),
    "claude_bare": (OK, None, DONE, TWO),
    "claude_env_scrub2": (OK, None, DONE, TWO),
    "claude_keyhelper": (OK, None, DONE, TWO),
    "claude_tool_allowed": (OK, None, DONE, TWO),
    "claude_tool_bypass_sandbox": (OK, None, DONE, TWO),
    "claude_write_accept": (OK, None, "ok", TWO),
    # a tool was refused and it went on
    "claude_tool_accept": (OK, None, DONE, TWO),
    "claude_tool_default": (OK, None, DONE, TWO),
    "claude_tool_dontask": (OK, None, DONE, TWO),
    "claude_write_outside": (OK, None, "ok", TWO),
    # a session: one request each
    "claude_sess1": (OK, None, "first", ONE),
    "claude_sess2": (OK, None, "second", ONE),
    "claude_sess_fork": (OK, None, "third", ONE),
    "claude_sess_othercwd": (OK, None, "second", ONE),
}
USED = {  # before, in the sessions that were gone on with
    "claude_sess2": Usage(input_tokens=100, output_tokens=20, cost_usd=0.0008),
    "claude_sess_fork": Usage(input_tokens=200, output_tokens=40, cost_usd=0.0016),
    "claude_sess_othercwd": Usage(input_tokens=200, output_tokens=40, cost_usd=0.0016),
}
DENIED = {
    "claude_tool_accept": ("Bash",),
    "claude_tool_default": ("Bash",),
    "claude_tool_dontask": ("Bash",),
    "claude_write_outside": ("Write",),
}


def fields(name: str) -> dict[str, Any]:
    """What a transcript's request needs: the session that it went on with."""
    return {"session": AgentSession(SESSION, USED[name])} if name in USED else {}


def message(kind: str, *blocks: object, **more: object) -> dict[str, object]:
    """A message of an assistant or of the user."""
    content = {"role": kind, "content": list(blocks)}
    return {"type": kind, "message": content, "parent_tool_use_id": None, "session_id": "s1", **more}


def result(**changes: object) -> dict[str, object]:
    """The message at the end of a run."""
    model = {"inputTokens": 100, "cacheReadInputTokens": 7, "cacheCreationInputTokens": 3, "outputTokens": 20}
    told = {"is_error": False, "subtype": "success", "result": "done", "terminal_reason": "completed"}
    used = {"total_cost_usd": 0.5, "modelUsage": {"opus": model, "haiku": {**model, "outputTokens": 1}}}
    return {"type": "result", "session_id": "s1", **told, **used, "permission_denials": [], **changes}


def test_it_is_an_agent() -> None:
    """It is all that the frame asks of a command-line agent."""
    agent: AgentProgram = Claude()
    assert (agent.name, agent.help) == ("claude", ("--help",))
    assert agent.install


def test_every_transcript_is_expected() -> None:
    """None is left out of the table."""
    assert sorted(EXPECTED) == names("claude_")


@pytest.mark.parametrize("name", EXPECTED)
def test_what_a_transcript_comes_to(name: str) -> None:
    """Status, kind of error, answer, usage of this run alone, and what was refused."""
    got = read(Claude(), name, **fields(name))
    status, kind, text, usage = EXPECTED[name]
    assert (got.status, got.error and got.error.kind, got.text) == (status, kind, text)
    assert got.denied == DENIED.get(name, ())
    counted = got.usage and (got.usage.input_tokens, got.usage.output_tokens, pytest.approx(got.usage.cost_usd))
    assert counted == usage


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name][0] is OK])
def test_an_end_that_is_missing_is_no_success(name: str) -> None:
    """Without its last message a run that exits with 0 is an error."""
    whole = transcript(name)
    lines = whole.stdout.rstrip("\n").split("\n")
    cut = Transcript(whole.cmd, whole.rc, whole.timed_out, "\n".join(lines[:-1]), whole.stderr)
    got = read(Claude(), cut, **fields(name))
    assert (got.status, got.text) == (ERROR, "")
    assert got.error is not None
    assert got.error.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("claude_badflag", "error: unknown option '--nope'"),
        ("claude_sess_badid", "No conversation found with session ID: 11111111-2222-4333-8444-000000000000"),
        ("claude_maxturns", "Reached maximum number of turns (1)"),
        ("claude_nokey", "Not logged in · Please run /login"),
    ],
)
def test_an_error_has_its_words(name: str, words: str) -> None:
    """The message is what the program said, from whichever stream."""
    assert read(Claude(), name).error == AgentError(EXPECTED[name][1], words)


def test_the_session_is_told_with_all_that_it_used() -> None:
    """The next run that goes on with it subtracts that."""
    assert read(Claude(), "claude_sess1").session == AgentSession(SESSION, USED["claude_sess2"])
    second = read(Claude(), "claude_sess2", **fields("claude_sess2"))
    assert second.session == AgentSession(SESSION, USED["claude_sess_othercwd"])
    forked = read(Claude(), "claude_sess_fork", **fields("claude_sess_fork")).session
    assert forked is not None
    assert forked.id == "08721a57-a6b5-4c8a-bc23-ab0b241fda56"


def test_without_the_session_s_earlier_use_the_cost_is_unknown() -> None:
    """The tokens are then those of the last turn, as the program counts them."""
    tokens = {"input_tokens": 50, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 9}
    got = read(Claude(), printed(result(usage=tokens)), session=AgentSession("s1"))
    assert got.usage == Usage(input_tokens=56, output_tokens=9)


def test_all_models_and_the_cache_are_counted() -> None:
    """The input has what was read from the cache and written to it, of every model that was used."""
    got = read(Claude(), printed(result()))
    assert got.usage == Usage(input_tokens=220, output_tokens=21, cost_usd=0.5)


def test_a_run_that_was_stopped_keeps_its_session() -> None:
    """It can be gone on with, and what it has used by then is not forgotten."""
    earlier = Usage(input_tokens=5, output_tokens=1, cost_usd=0.1)
    begun = printed({"type": "system", "subtype": "init", "session_id": "s1"}, timed_out=True, rc=143)
    got = read(Claude(), begun, session=AgentSession("s1", earlier))
    assert (got.status, got.session, got.usage) == (TIMEOUT, AgentSession("s1", earlier), None)


@pytest.mark.parametrize(
    "words", ["No conversation found with session ID: s1", "Error: --resume requires a valid session"]
)
def test_a_session_that_is_not_there_is_not_kept(words: str) -> None:
    """In this format it prints a result, which names the session that it did not find."""
    got = read(Claude(), printed(result(is_error=True, subtype="error_during_execution", errors=[words]), rc=1))
    assert got.session is None
    assert got.error == AgentError(ErrorKind.CONFIG, words)


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"api_error_status": 401, "api_error_type": "authentication_error"}, ErrorKind.AUTH),
        ({"api_error_status": 429, "api_error_type": "rate_limit_error"}, ErrorKind.RATE_LIMIT),
        ({"api_error_status": 529, "api_error_type": "overloaded_error"}, ErrorKind.SERVER),
        ({"api_error_status": None, "api_error_type": "overloaded_error"}, ErrorKind.SERVER),
        ({"api_error_status": None, "api_error": "connection_failed"}, ErrorKind.SERVER),
        ({"terminal_reason": "aborted_tools"}, ErrorKind.KILLED),
        ({"terminal_reason": "aborted_streaming", "is_error": False}, ErrorKind.KILLED),
        ({"subtype": "error_during_execution", "is_error": False}, ErrorKind.UNKNOWN),
        ({"is_error": None}, ErrorKind.PROTOCOL),
        ({"total_cost_usd": float("inf")}, ErrorKind.PROTOCOL),
        ({"total_cost_usd": 10**400}, ErrorKind.PROTOCOL),
    ],
)
def test_a_result_that_is_no_success_has_its_kind(changes: dict[str, object], kind: ErrorKind) -> None:
    """Whatever its exit code, and whatever it calls itself."""
    got = read(Claude(), printed(result(**{"is_error": True, "result": "no", **changes})))
    assert (got.status, got.text) == (ERROR, "")
    assert got.error is not None
    assert got.error.kind is kind


def test_an_error_without_words_is_told() -> None:
    """It is never an empty message."""
    got = read(Claude(), printed(result(is_error=True, result=None, terminal_reason=None)))
    assert got.error == AgentError(ErrorKind.UNKNOWN, "it failed without a word")


def test_an_empty_answer_is_an_error() -> None:
    """It says that all went well, and nothing more."""
    got = read(Claude(), printed(result(result="")))
    assert got.error == AgentError(ErrorKind.EMPTY, '"claude" answered nothing')


def test_a_tool_that_was_refused_twice_is_told_once() -> None:
    """In the order of the first refusals."""
    denials = [{"tool_name": name, "tool_input": "x"} for name in ("Write", "Bash", "Write")]
    assert read(Claude(), printed(result(permission_denials=denials))).denied == ("Write", "Bash")


def test_only_the_last_result_counts() -> None:
    """A run may go on after a result; a subagent's message is no sign of that."""
    more = message("assistant", {"type": "text", "text": "wait"})
    assert read(Claude(), printed(result(), more)).status is ERROR
    assert read(Claude(), printed(result(), more, result(result="more"))).text == "more"
    assert read(Claude(), printed(result(), {**more, "parent_tool_use_id": "t1"})).text == "done"
    assert read(Claude(), printed(result(), result(is_error="?"))).status is ERROR


def test_words_on_the_standard_error_are_no_verdict_once_it_began() -> None:
    """They are the complaint of a run that failed, and nothing to one that did not."""
    begun = {"type": "system", "subtype": "init", "session_id": "s1"}
    failed = read(Claude(), printed(begun, rc=1, stderr="Error: it broke\n"))
    assert failed.error == AgentError(ErrorKind.UNKNOWN, '"claude" exited with code 1: Error: it broke')
    assert read(Claude(), printed(begun, result(), stderr="Error: a hook broke\n")).status is OK


def test_its_version_is_told() -> None:
    """The first message has it."""
    assert read(Claude(), "claude_stream").version == "2.1.325"


def test_a_tool_is_told_of_from_its_start_to_its_end() -> None:
    """With what it is used for in short; a failure and a refusal are told."""
    bash = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "pytest\n  -q", "description": "x"}}
    other = {"type": "tool_use", "id": "t2", "name": "Task", "input": None}
    long = {"type": "tool_use", "id": "t3", "name": "Write", "input": {"file_path": "x" * 200, "content": "hi"}}
    ends = [{"type": "tool_result", "tool_use_id": name, "is_error": name == "t1"} for name in ("t1", "t2", "t9")]
    denied = {"type": "system", "subtype": "permission_denied", "message": "may not write"}
    events = heard(Claude(), printed(message("assistant", bash, other, long), denied, message("user", *ends)))
    assert events == [
        AgentEvent("tool_start", "Bash: pytest -q"),
        AgentEvent("tool_start", "Task"),
        AgentEvent("tool_start", f"Write: {'x' * 120}…"),
        AgentEvent("warning", "may not write"),
        AgentEvent("tool_end", "Bash: pytest -q: failed"),
        AgentEvent("tool_end", "Task"),
        AgentEvent("tool_end", "a tool"),
    ]


def test_texts_are_whole_messages() -> None:
    """What it says is told once; its thoughts are not."""
    thought = {"type": "thinking", "thinking": "hm"}
    told = heard(Claude(), printed(message("assistant", thought, {"type": "text", "text": "one\ntwo"}), result()))
    assert told == [
        AgentEvent("text", "one\ntwo"),
        AgentEvent("usage", usage=Usage(input_tokens=220, output_tokens=21, cost_usd=0.5)),
    ]


def test_an_error_on_the_way_is_a_retry_or_a_warning() -> None:
    """It is none of the agent's words."""
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1, "max_retries": 5, "error_status": 429}
    lost = {"type": "system", "subtype": "api_retry", "attempt": 2, "max_retries": 5, "error_status": None}
    gave_up = message("assistant", {"type": "text", "text": "API Error: 429"}, is_api_error_message=True)
    events = heard(Claude(), printed({**retry, "error": "rate_limit"}, {**lost, "error": "unknown"}, gave_up))
    assert events == [
        AgentEvent("retry", "rate_limit 429; try 1 of 5"),
        AgentEvent("retry", "unknown; try 2 of 5"),
        AgentEvent("warning", "API Error: 429"),
    ]


@pytest.mark.parametrize(
    ("access", "arguments"),
    [
        (Access.NONE, ("--tools", "")),
        (Access.READ_ONLY, ("--tools", "Read,Grep,Glob")),
        (Access.CODING, CODING),
    ],
)
def test_access_is_kept_by_its_tools(access: Access, arguments: tuple[str, ...]) -> None:
    """And nothing of the repository's own settings is used."""
    assert Claude().invocation(request(access=access), ()).arguments == (*ALWAYS, *arguments)


def test_what_is_asked_for_is_in_the_arguments() -> None:
    """Model, effort and session; the user's own come last, and the prompt is in none of them."""
    asked = request(model="opus", reasoning_effort="high", session=AgentSession(SESSION))
    arguments = Claude().invocation(asked, ("--max-turns", "3")).arguments
    wanted = ("--model", "opus", "--effort", "high", "--resume", SESSION, "--max-turns", "3")
    assert arguments == (*ALWAYS, *CODING, *wanted)


def test_every_flag_that_is_used_is_looked_for() -> None:
    """So that a version of the program without it is found out beforehand."""
    asked = {"model": "opus", "reasoning_effort": "high", "session": AgentSession(SESSION)}
    runs = [Claude().invocation(request(access=access, **asked), ()).arguments for access in Access]
    used = {word for arguments in runs for word in arguments if word.startswith("--")}
    assert used == set(Claude.flags)


def test_tries_are_bounded_unless_the_user_says_otherwise() -> None:
    """By itself it tries again for minutes."""
    name = "CLAUDE_CODE_MAX_RETRIES"
    assert Claude().invocation(request(), ()).env == {name: "5"}
    assert Claude().invocation(request(env={name: "0"}), ()).env == {name: "0"}


@pytest.mark.parametrize(
    ("provider", "given", "kept"),
    [
        (None, {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"}, {"OPENAI_API_KEY"}),
        ("Bedrock", {"AWS_REGION", "CLAUDE_CODE_USE_BEDROCK"}, {"ANTHROPIC_API_KEY"}),
        ("vertex", {"CLAUDE_CODE_USE_VERTEX", "CLOUD_ML_REGION"}, {"ANTHROPIC_API_KEY", "AWS_REGION"}),
    ],
)
def test_it_gets_one_provider_s_key(provider: str | None, given: set[str], kept: set[str]) -> None:
    """And the directory of its own files."""
    names = set(Claude().variables(provider))
    assert {*given, "CLAUDE_CONFIG_DIR"} <= names
    assert not kept & names


KEYS = (
    *("type", "subtype", "message", "content", "session_id", "is_error", "result", "errors", "usage", "modelUsage"),
    *("permission_denials", "tool_name", "id", "name", "input", "command", "tool_use_id", "text", "terminal_reason"),
    *("total_cost_usd", "api_error_status", "inputTokens", "error", "attempt", "claude_code_version"),
)
WORDS = ("system", "init", "api_retry", "assistant", "user", "result", "success", "text", "tool_use", "tool_result")


@given(st.lists(any_message(KEYS, WORDS), max_size=4), st.sampled_from(["", "error: it broke", "401"]))
def test_nothing_it_prints_makes_the_reader_fail(messages: list[dict[str, Any]], stderr: str) -> None:
    """What is not known is passed over; it never makes an answer of it without a result that says so."""
    reader = Claude().reader(request())
    for one in messages:
        list(reader.read(one))
    reading = reader.conclude(stderr)
    assert not (reading.ended and reading.error)
    assert reading.ended or not reading.text
    fine = [one for one in messages if one.get("type") == "result" and one.get("subtype") == "success"]
    assert fine or not reading.ended
