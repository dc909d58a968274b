"""What is particular about Codex: its last turn decides, and it counts by thread."""

import json
from typing import Any

import pytest
from tests.unit.backends.agents.transcripts import events_of, printing, request, result_of

from pipeline.backends.agents.codex import Codex
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentSession, AgentStatus, ErrorKind

OK, ERROR = AgentStatus.OK, AgentStatus.ERROR
THREAD = "01a1e1b3-fc02-77a3-ad83-35401a40fce3"
ONE, TWO = Usage(input_tokens=100, output_tokens=20), Usage(input_tokens=200, output_tokens=40)  # requests
BEGUN, STARTED = {"type": "thread.started", "thread_id": THREAD}, {"type": "turn.started"}
COMPLETED = {"type": "turn.completed", "usage": {"input_tokens": 300, "cached_input_tokens": 90, "output_tokens": 60}}
FAILED = {"type": "turn.failed", "error": {"message": "no"}}


def item(kind: str, event: str = "item.completed", **more: object) -> dict[str, object]:
    """An event of an item."""
    return {"type": event, "item": {"id": "item_1", "type": kind, **more}}


ANSWER = item("agent_message", text="yes")


def test_the_last_turn_decides() -> None:
    """Neither an answer nor an error of an earlier one is left."""
    assert result_of(Codex(), printing(STARTED, ANSWER, FAILED)).status is ERROR
    assert result_of(Codex(), printing(STARTED, FAILED, STARTED, ANSWER, COMPLETED)).status is OK
    assert result_of(Codex(), printing(STARTED, ANSWER, COMPLETED, FAILED)).text == ""
    assert result_of(Codex(), printing(STARTED, FAILED, ANSWER, COMPLETED)).status is OK
    again = result_of(Codex(), printing(STARTED, ANSWER, COMPLETED, STARTED))
    assert (again.usage, again.error and again.error.kind) == (None, ErrorKind.PROTOCOL)
    empty = result_of(Codex(), printing(STARTED, ANSWER, COMPLETED, STARTED, COMPLETED))
    assert empty.error is not None
    assert empty.error.kind is ErrorKind.EMPTY


def test_the_usage_is_unknown_if_the_thread_s_earlier_use_is() -> None:
    """Its sum is of the whole thread, and known again for the next turn."""
    got = result_of(Codex(), "codex_resume", session=AgentSession(THREAD))
    assert (got.usage, got.session) == (None, AgentSession(THREAD, TWO))


@pytest.mark.parametrize("usage", [None, {}, {"input_tokens": "many", "output_tokens": 1}])
def test_a_turn_without_usage_is_an_answer(usage: object) -> None:
    """What it used is unknown."""
    got = result_of(Codex(), printing(BEGUN, STARTED, ANSWER, {"type": "turn.completed", "usage": usage}))
    assert (got.status, got.text, got.usage, got.session) == (OK, "yes", None, AgentSession(THREAD))


@pytest.mark.parametrize("name", ["codex_hang", "codex_401"])
def test_a_failed_run_keeps_its_thread(name: str) -> None:
    """It can be continued, and what it had used is not forgotten."""
    session = result_of(Codex(), name, session=AgentSession("earlier", ONE)).session
    assert session is not None
    assert session.id.startswith("01a1e1b4-")
    assert session.used == ONE


def body(**error: object) -> str:
    """What a provider answers to a request that it rejects."""
    return json.dumps({"error": {"message": "no", "type": None, "code": None, **error}})


@pytest.mark.parametrize(
    ("message", "kind", "shown"),
    [
        (body(type="invalid_request_error", code="model_not_found"), ErrorKind.NOT_FOUND, "no"),
        (body(type="invalid_request_error", code="invalid_api_key"), ErrorKind.AUTH, "no"),
        (body(code="rate_limit_exceeded"), ErrorKind.RATE_LIMIT, "no"),
        (body(message="at most 500 tokens"), ErrorKind.INVALID, "at most 500 tokens"),
        ('{"detail": "that model is not yours"}', ErrorKind.INVALID, "that model is not yours"),
        ('{"error": "no"}', ErrorKind.INVALID, "no"),
        ('{"why": 1}', ErrorKind.INVALID, '{"why": 1}'),
        ("[400]", ErrorKind.INVALID, "[400]"),  # not a provider's answer: judged by its words
        ("[" * 100_000, ErrorKind.UNKNOWN, "[" * 100_000),
        ("unexpected status 404 Not Found: 500 models, none yours", ErrorKind.NOT_FOUND, None),
        ("unexpected status 503 Service Unavailable: usage limit", ErrorKind.SERVER, None),
        ("You've hit your usage limit. Try again later.", ErrorKind.QUOTA, None),
        ("Quota exceeded. Check your plan and billing details.", ErrorKind.QUOTA, None),
        ("Selected model is at capacity. Please try a different model.", ErrorKind.SERVER, None),
        ("stream disconnected before completion: it was cut", ErrorKind.NETWORK, None),
        ("Codex ran out of room in the model's context window.", ErrorKind.INVALID, None),
        ("Connection failed: error sending request", ErrorKind.NETWORK, None),
        ("Your access token was revoked. Please log out and sign in again.", ErrorKind.AUTH, None),
        ("something else", ErrorKind.UNKNOWN, None),
        ({"not": "words"}, ErrorKind.UNKNOWN, '"codex" failed without an error message'),
    ],
)
def test_a_failed_turn_has_its_kind(message: str | dict[str, str], kind: ErrorKind, shown: str | None) -> None:
    """By the provider's own name for it, by the status, else by the words."""
    run = printing(STARTED, {"type": "turn.failed", "error": {"message": message}}, code=1)
    assert result_of(Codex(), run).error == AgentError(kind, shown or str(message))


def test_standard_error_is_no_refusal_once_it_has_begun() -> None:
    """It explains the exit code, no more."""
    error = result_of(Codex(), printing(BEGUN, code=1, stderr="error: it broke\n")).error
    assert error == AgentError(ErrorKind.UNKNOWN, '"codex" exited with code 1: error: it broke')


def test_events_are_shown_in_their_order() -> None:
    """Warnings, texts, tools and usage."""
    warning, *others = events_of(Codex(), "codex_multi_msgs")
    assert (warning.kind, warning.text[:24]) == ("warning", "Model metadata for `gpt-")
    assert others == [
        AgentEvent("text", "thinking aloud"),
        AgentEvent("tool_start", "shell: true"),
        AgentEvent("tool_end", "shell: true"),
        AgentEvent("text", "final one"),
        AgentEvent("usage", usage=TWO),
    ]


def test_a_reconnection_is_a_retry() -> None:
    """It is not an error yet."""
    dropped = "Reconnecting... 1/1 (stream disconnected before completion: stream closed before response.completed)"
    assert AgentEvent("retry", dropped) in events_of(Codex(), "codex_drop")
    assert events_of(Codex(), printing({"type": "error", "message": "odd"})) == [AgentEvent("warning", "odd")]


@pytest.mark.parametrize(
    ("more", "label"),
    [
        ({"kind": "command_execution", "command": "/bin/sh -c true"}, "shell: true"),
        ({"kind": "command_execution", "command": "ls -c 'a"}, "shell: ls -c 'a"),
        ({"kind": "command_execution", "command": "git status -s"}, "shell: git status -s"),
        ({"kind": "command_execution", "command": "x" * 200}, f"shell: {'x' * 119}…"),
        ({"kind": "file_change", "changes": [{"path": "a.py"}, {"path": "b.py"}, None, {}]}, "edit: a.py, b.py"),
        ({"kind": "mcp_tool_call", "server": "docs", "tool": "find"}, "docs: find"),
        ({"kind": "web_search", "query": ""}, "web search"),
        ({"kind": "collab_tool_call", "tool": "wait"}, "agents: wait"),
    ],
)
def test_each_kind_of_tool_has_its_label(more: dict[str, Any], label: str) -> None:
    """The start is shown even if the program reports only the end."""
    events = events_of(Codex(), printing(item(**more, event="item.started"), item(**more, status="failed")))
    assert events == [AgentEvent("tool_start", label), AgentEvent("tool_end", f"{label}: failed")]
    ended = events_of(Codex(), printing(item(**more, status="completed")))
    assert ended == [AgentEvent("tool_start", label), AgentEvent("tool_end", label)]


def test_thoughts_and_lists_are_not_shown() -> None:
    """They are not tools."""
    run = printing(item("reasoning", text="hm"), item("todo_list", event="item.started", items=[]))
    assert events_of(Codex(), run) == []


def test_a_refused_tool_is_named_once() -> None:
    """By its name, with what it was used for in the event."""
    refused = item("command_execution", command="rm x", status="declined")
    got = result_of(Codex(), printing(refused, refused, item("agent_message", text="could not"), COMPLETED))
    assert (got.status, got.denied) == (OK, ("shell",))
    assert events_of(Codex(), printing(refused))[-1] == AgentEvent("tool_end", "shell: rm x: failed")


def test_what_the_sandbox_blocks_counts_as_refused() -> None:
    """A command that fails for another reason does not."""
    blocked = {"command": "touch x", "aggregated_output": "touch: cannot touch 'x': Read-only file system\n"}
    for status, output, denied in (("failed", blocked, ("shell",)), ("completed", blocked, ()), ("failed", {}, ())):
        run = printing(item("command_execution", **{"command": "x", **output, "status": status}), ANSWER, COMPLETED)
        assert result_of(Codex(), run).denied == denied


@pytest.mark.parametrize("session", [None, AgentSession(THREAD)])
def test_the_order_of_its_arguments(session: AgentSession | None) -> None:
    """The address is a setting; the user's arguments come before the session and the prompt's `-`."""
    env = {"OPENAI_BASE_URL": 'http://here/"v1"'}
    asked = request(model="gpt-5", reasoning_effort="high", session=session, env=env)
    arguments = Codex().invocation(asked, ("--search",)).arguments
    wanted = (
        *("--json", "--skip-git-repo-check", "-m", "gpt-5"),
        *("-c", "shell_environment_policy.ignore_default_excludes=false", "-c", 'model_reasoning_effort="high"'),
        *("-c", 'openai_base_url="http://here/\\"v1\\""'),
    )
    if session:
        assert arguments == ("exec", "resume", *wanted, "-c", 'sandbox_mode="workspace-write"', "--search", THREAD, "-")
    else:
        assert arguments == ("exec", *wanted, "-s", "workspace-write", "--search", "-")
