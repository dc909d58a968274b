"""Codex: what it is started with, and what is made of what it really printed."""

import json
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
from pipeline.backends.agents.codex import Codex
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.language.model import Access

THREAD = "01a1e1b3-fc02-77a3-ad83-35401a40fce3"
OK, ERROR, TIMEOUT = AgentStatus.OK, AgentStatus.ERROR, AgentStatus.TIMEOUT
ALWAYS = ("--json", "--skip-git-repo-check")
SCRUBBED = ("-c", "shell_environment_policy.ignore_default_excludes=false")
ONE, TWO = Usage(input_tokens=100, output_tokens=20), Usage(input_tokens=200, output_tokens=40)  # requests
DONE = "done [STATUS: success]"
BAD = "Looks bad [STATUS: fail] [FAILURE_REASON: x]"

EXPECTED: dict[str, tuple[AgentStatus, ErrorKind | None, str, Usage | None]] = {
    # turn.failed, with the provider's bare answer for a 400, the status or words for others; it tells no usage
    "codex_400": (ERROR, ErrorKind.INVALID, "", None),
    "codex_401": (ERROR, ErrorKind.AUTH, "", None),
    "codex_429": (ERROR, ErrorKind.RATE_LIMIT, "", None),
    "codex_500": (ERROR, ErrorKind.SERVER, "", None),
    "codex_nokey": (ERROR, ErrorKind.AUTH, "", None),
    # nothing but words on its standard error: it did not like what it was started with
    "codex_badcfg": (ERROR, ErrorKind.CONFIG, "", None),
    "codex_chatwire": (ERROR, ErrorKind.CONFIG, "", None),
    "codex_nogit": (ERROR, ErrorKind.CONFIG, "", None),
    "codex_resume_bad": (ERROR, ErrorKind.CONFIG, "", None),
    # killed by us in the middle of its turn
    "codex_baseurl_env": (TIMEOUT, None, "", None),
    "codex_hang": (TIMEOUT, None, "", None),
    # "error" items and events on the way that it got over
    "codex_baseurl_cfg": (OK, None, BAD, ONE),
    "codex_drop": (OK, None, "ok after", ONE),
    # answers, with a tool in two requests; of several messages the last
    "codex_json": (OK, None, BAD, ONE),
    "codex_stdin_lastmsg": (OK, None, BAD, ONE),
    "codex_schema": (OK, None, '{"status":"fail","failure_reason":"x"}', ONE),
    "codex_schema_never": (OK, None, "I will not", ONE),
    "codex_cd": (OK, None, "ok", TWO),
    "codex_multi_msgs": (OK, None, "final one", TWO),
    "codex_tool_bypass": (OK, None, DONE, TWO),
    "codex_tool_bypass_envpolicy": (OK, None, DONE, TWO),
    "codex_tool_default": (OK, None, DONE, TWO),
    "codex_tool_envcore": (OK, None, DONE, TWO),
    "codex_tool_ws": (OK, None, DONE, TWO),
    "codex_ws_plain": (OK, None, "ok", TWO),
    # a thread: one request each
    "codex_sess1": (OK, None, "first", ONE),
    "codex_resume": (OK, None, "second", ONE),
}
COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 300, "cached_input_tokens": 90, "output_tokens": 60}}


def fields(name: str) -> dict[str, Any]:
    """What a transcript's request needs: the thread that it went on with."""
    return {"session": AgentSession(THREAD, ONE)} if name == "codex_resume" else {}


def item(kind: str, event: str = "item.completed", **more: object) -> dict[str, object]:
    """An event of an item."""
    return {"type": event, "item": {"id": "item_1", "type": kind, **more}}


def failed(words: object) -> Transcript:
    """A run of which the turn failed with these words."""
    return printed({"type": "turn.started"}, {"type": "turn.failed", "error": {"message": words}}, rc=1)


def test_it_is_an_agent() -> None:
    """It is all that the frame asks of a command-line agent."""
    agent: AgentProgram = Codex()
    assert (agent.name, agent.help) == ("codex", ("exec", "--help"))
    assert agent.install


def test_every_transcript_is_expected() -> None:
    """None is left out of the table."""
    assert sorted(EXPECTED) == names("codex_")


@pytest.mark.parametrize("name", EXPECTED)
def test_what_a_transcript_comes_to(name: str) -> None:
    """Status, kind of error, answer, and usage of this run alone, whose cost is unknown."""
    got = read(Codex(), name, **fields(name))
    assert (got.status, got.error and got.error.kind, got.text, got.usage) == EXPECTED[name]


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name][0] is OK])
def test_an_end_that_is_missing_is_no_success(name: str) -> None:
    """Without its last event a run that exits with 0 is an error."""
    whole = transcript(name)
    lines = whole.stdout.rstrip("\n").split("\n")
    cut = Transcript(whole.cmd, whole.rc, whole.timed_out, "\n".join(lines[:-1]), whole.stderr)
    got = read(Codex(), cut)
    assert (got.status, got.text, got.usage) == (ERROR, "", None)
    assert got.error is not None
    assert got.error.kind is ErrorKind.PROTOCOL


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("codex_400", "bad thing"),
        ("codex_badcfg", "error: invalid value 'bogus' for '--sandbox <SANDBOX_MODE>'"),
        ("codex_chatwire", 'Error loading config.toml: `wire_api = "chat"` is no longer supported.'),
        ("codex_nokey", "Missing environment variable: `FAKE_KEY`."),
    ],
)
def test_an_error_has_its_words(name: str, words: str) -> None:
    """The message is what the program said, from whichever stream."""
    kind = EXPECTED[name][1]
    assert kind is not None
    assert read(Codex(), name).error == AgentError(kind, words)


def test_a_thread_that_is_not_there_is_told() -> None:
    """And there is nothing to go on with."""
    got = read(Codex(), "codex_resume_bad")
    assert got.session is None
    assert got.error is not None
    assert "no rollout found for thread id" in got.error.message


def test_the_thread_is_told_with_all_that_it_used() -> None:
    """The next turn of it subtracts that."""
    assert read(Codex(), "codex_sess1").session == AgentSession(THREAD, ONE)
    assert read(Codex(), "codex_resume", **fields("codex_resume")).session == AgentSession(THREAD, TWO)


def test_without_the_thread_s_earlier_use_the_usage_is_unknown() -> None:
    """Its sum is of the whole thread; the thread's is known again for the next turn."""
    got = read(Codex(), "codex_resume", session=AgentSession(THREAD))
    assert (got.usage, got.session) == (None, AgentSession(THREAD, TWO))


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": "many", "output_tokens": 1}])
def test_a_usage_that_is_not_told_is_unknown(usage: object) -> None:
    """The answer is one all the same."""
    answer = item("agent_message", text="yes")
    begun = {"type": "thread.started", "thread_id": THREAD}
    got = read(Codex(), printed(begun, {"type": "turn.started"}, answer, {"type": "turn.completed", "usage": usage}))
    assert (got.status, got.text, got.usage, got.session) == (OK, "yes", None, AgentSession(THREAD))


@pytest.mark.parametrize("name", ["codex_hang", "codex_401"])
def test_a_run_that_failed_keeps_its_thread(name: str) -> None:
    """It can be gone on with, and what it has used by then is not forgotten."""
    got = read(Codex(), name, session=AgentSession("earlier", ONE))
    assert got.session is not None
    assert got.session.id.startswith("01a1e1b4-")
    assert got.session.used == ONE


def body(**error: object) -> str:
    """What a provider answers to a request that it does not take."""
    return json.dumps({"error": {"message": "no", "type": None, "code": None, **error}})


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        (body(type="invalid_request_error", code="model_not_found"), ErrorKind.INVALID, "no"),
        (body(type="invalid_request_error", code="invalid_api_key"), ErrorKind.AUTH, "no"),
        (body(code="rate_limit_exceeded"), ErrorKind.RATE_LIMIT, "no"),
        (body(message="at most 500 tokens"), ErrorKind.INVALID, "at most 500 tokens"),
        ('{"detail": "that model is not yours"}', ErrorKind.INVALID, "that model is not yours"),
        ('{"error": "no"}', ErrorKind.INVALID, "no"),
        ('{"why": 1}', ErrorKind.INVALID, '{"why": 1}'),
        ("[400]", ErrorKind.INVALID, "[400]"),  # no answer of a provider: judged by its words
        ("[" * 100_000, ErrorKind.UNKNOWN, "[" * 100_000),
        ("unexpected status 404 Not Found: 500 models, none yours", ErrorKind.INVALID, None),
        ("unexpected status 503 Service Unavailable: usage limit", ErrorKind.SERVER, None),
        ("You've hit your usage limit. Try again later.", ErrorKind.QUOTA, None),
        ("Quota exceeded. Check your plan and billing details.", ErrorKind.QUOTA, None),
        ("Selected model is at capacity. Please try a different model.", ErrorKind.SERVER, None),
        ("stream disconnected before completion: it was cut", ErrorKind.SERVER, None),
        ("Codex ran out of room in the model's context window.", ErrorKind.INVALID, None),
        ("Connection failed: error sending request", ErrorKind.SERVER, None),
        ("Your access token was revoked. Please log out and sign in again.", ErrorKind.AUTH, None),
        ("something else", ErrorKind.UNKNOWN, None),
        ({"not": "words"}, ErrorKind.UNKNOWN, "it failed without a word"),
    ],
)
def test_a_turn_that_failed_has_its_kind(words: str | dict[str, str], kind: ErrorKind, said: str | None) -> None:
    """By the provider's own name for it, by the status, else by the words."""
    assert read(Codex(), failed(words)).error == AgentError(kind, said or str(words))


def test_the_last_turn_decides() -> None:
    """Neither an answer nor an error of an earlier one is left."""
    answer, started = item("agent_message", text="yes"), {"type": "turn.started"}
    lost = {"type": "turn.failed", "error": {"message": "no"}}
    assert read(Codex(), printed(started, answer, lost)).status is ERROR
    assert read(Codex(), printed(started, lost, started, answer, COMPLETED)).status is OK
    assert read(Codex(), printed(started, answer, COMPLETED, lost)).text == ""
    assert read(Codex(), printed(started, lost, answer, COMPLETED)).status is OK
    again = read(Codex(), printed(started, answer, COMPLETED, started))
    assert again.error == AgentError(ErrorKind.PROTOCOL, '"codex" stopped before it told how it ended')
    empty = read(Codex(), printed(started, answer, COMPLETED, started, COMPLETED))
    assert empty.error == AgentError(ErrorKind.EMPTY, '"codex" answered nothing')


def test_words_on_the_standard_error_are_no_verdict_once_it_began() -> None:
    """A run that exits with 0 after its turn went well, went well."""
    begun, answer = {"type": "thread.started", "thread_id": THREAD}, item("agent_message", text="yes")
    assert read(Codex(), printed(begun, answer, COMPLETED, stderr="error: could not save\n")).status is OK
    assert read(Codex(), printed(answer, COMPLETED, stderr="error: could not save\n")).status is OK
    assert read(Codex(), printed(begun, rc=1, stderr="error: it broke\n")).error == AgentError(
        ErrorKind.UNKNOWN, '"codex" exited with code 1: error: it broke'
    )


def test_a_run_is_told_as_it_goes() -> None:
    """Warnings, tools, whole texts and what it used."""
    told = heard(Codex(), "codex_multi_msgs")
    assert (told[0].kind, told[0].text[:24]) == ("warning", "Model metadata for `gpt-")
    assert told[1:] == [
        AgentEvent("text", "thinking aloud"),
        AgentEvent("tool_start", "shell: true"),
        AgentEvent("tool_end", "shell: true"),
        AgentEvent("text", "final one"),
        AgentEvent("usage", usage=TWO),
    ]


def test_a_new_try_is_told() -> None:
    """It is no error yet."""
    dropped = "Reconnecting... 1/1 (stream disconnected before completion: stream closed before response.completed)"
    assert AgentEvent("retry", dropped) in heard(Codex(), "codex_drop")
    assert heard(Codex(), printed({"type": "error", "message": "odd"})) == [AgentEvent("warning", "odd")]


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"kind": "command_execution", "command": "/bin/bash -lc 'pytest -q'"}, "shell: pytest -q"),
        ({"kind": "command_execution", "command": "/bin/sh -c true"}, "shell: true"),
        ({"kind": "command_execution", "command": "ls -c 'a"}, "shell: ls -c 'a"),
        ({"kind": "command_execution", "command": "git status -s"}, "shell: git status -s"),
        ({"kind": "command_execution", "command": "x" * 200}, f"shell: {'x' * 120}…"),
        ({"kind": "file_change", "changes": [{"path": "a.py"}, {"path": "b.py"}, None, {}]}, "edit: a.py, b.py"),
        ({"kind": "mcp_tool_call", "server": "docs", "tool": "find"}, "docs: find"),
        ({"kind": "web_search", "query": ""}, "web search"),
        ({"kind": "collab_tool_call", "tool": "wait"}, "agents: wait"),
    ],
)
def test_a_tool_is_told_with_what_it_is_used_for(more: dict[str, Any], label: str) -> None:
    """In one short line; its start is told also where the program tells only its end."""
    events = heard(Codex(), printed(item(**more, event="item.started"), item(**more, status="failed")))
    assert events == [AgentEvent("tool_start", label), AgentEvent("tool_end", f"{label}: failed")]
    assert heard(Codex(), printed(item(**more, status="completed"))) == [
        AgentEvent("tool_start", label),
        AgentEvent("tool_end", label),
    ]


def test_what_is_no_tool_is_not_told() -> None:
    """Its thoughts and lists are its own."""
    assert (
        heard(Codex(), printed(item("reasoning", text="hm"), item("todo_list", event="item.started", items=[]))) == []
    )


def test_a_tool_that_was_refused_is_told_once() -> None:
    """By its name, with what it was used for in the event."""
    refused = item("command_execution", command="rm x", status="declined")
    got = read(Codex(), printed(refused, refused, item("agent_message", text="could not"), COMPLETED))
    assert (got.status, got.denied) == (OK, ("shell",))
    assert heard(Codex(), printed(refused))[-1] == AgentEvent("tool_end", "shell: rm x: failed")


@pytest.mark.parametrize(
    ("access", "sandbox"),
    [(Access.NONE, "read-only"), (Access.READ_ONLY, "read-only"), (Access.CODING, "workspace-write")],
)
def test_access_is_kept_by_its_sandbox(access: Access, sandbox: str) -> None:
    """A new thread has a flag for it, one that is gone on with a setting."""
    new = Codex().invocation(request(access=access), ())
    assert new.arguments == ("exec", *ALWAYS, *SCRUBBED, "-s", sandbox, "-")
    more = Codex().invocation(request(access=access, session=AgentSession(THREAD)), ())
    setting = ("-c", f'sandbox_mode="{sandbox}"')
    assert more.arguments == ("exec", "resume", *ALWAYS, *SCRUBBED, *setting, THREAD, "-")
    assert (new.env, more.env) == ({}, {})


@pytest.mark.parametrize("session", [None, AgentSession(THREAD)])
def test_what_is_asked_for_is_in_the_arguments(session: AgentSession | None) -> None:
    """Model, effort and address; the user's own come before what has to stand last; the prompt is in none of them."""
    env = {"OPENAI_BASE_URL": 'http://here/"v1"'}
    asked = request(model="gpt-5", reasoning_effort="high", session=session, env=env)
    arguments = Codex().invocation(asked, ("--search",)).arguments
    address = ("-c", 'openai_base_url="http://here/\\"v1\\""')
    wanted = (*ALWAYS, "-m", "gpt-5", *SCRUBBED, "-c", 'model_reasoning_effort="high"', *address)
    start = 2 if session else 1
    assert arguments[start : start + len(wanted)] == wanted
    assert arguments[start + len(wanted) + 2 :] == (("--search", THREAD, "-") if session else ("--search", "-"))


@pytest.mark.parametrize(
    ("provider", "given", "kept"),
    [
        (None, {"OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"}, {"ANTHROPIC_API_KEY"}),
        ("azure", {"AZURE_OPENAI_API_KEY"}, {"OPENAI_API_KEY"}),
    ],
)
def test_it_gets_one_provider_s_key(provider: str | None, given: set[str], kept: set[str]) -> None:
    """And the directory of its own files."""
    variables = set(Codex().variables(provider))
    assert {*given, "CODEX_HOME"} <= variables
    assert not kept & variables


KEYS = (
    *("type", "thread_id", "item", "id", "text", "message", "error", "usage", "input_tokens", "output_tokens"),
    *("command", "changes", "path", "server", "tool", "query", "status", "detail"),
)
WORDS = (
    *("thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.completed", "error"),
    *("agent_message", "command_execution", "file_change", "mcp_tool_call", "web_search", "declined", '{"error": {}}'),
)


@given(st.lists(any_message(KEYS, WORDS), max_size=4), st.sampled_from(["", "error: it broke", "401"]))
def test_nothing_it_prints_makes_the_reader_fail(messages: list[dict[str, Any]], stderr: str) -> None:
    """What is not known is passed over; the last event of a turn alone ends it."""
    reader = Codex().reader(request())
    for one in messages:
        list(reader.read(one))
    reading = reader.conclude(stderr)
    assert not (reading.ended and reading.error)
    assert reading.ended or not reading.text
    turns = [one["type"] for one in messages if str(one["type"]).startswith("turn.")]
    assert reading.ended is (turns[-1:] == ["turn.completed"])
