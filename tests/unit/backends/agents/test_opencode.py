"""opencode: how it is started and configured, and what is made of what it prints."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.backends.agents.transcripts import heard, names, printed, read, request

from pipeline.backends.agents.opencode import Opencode
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.errors import AwfError
from pipeline.language.model import Access

OK, ERROR, TIMEOUT = AgentStatus.OK, AgentStatus.ERROR, AgentStatus.TIMEOUT
VERDICT = "Looks bad [STATUS: fail] [FAILURE_REASON: x]"
ONE = (100, 20, 0.0006)  # one step of the recorded model
TWO = (200, 40, 0.0012)
READ_ONLY = {"*": "deny", "read": "allow", "grep": "allow", "glob": "allow", "list": "allow"}

Expected = tuple[AgentStatus, ErrorKind | None, str, tuple[int, int, float] | None]
EXPECTED: dict[str, Expected] = {
    "opencode_401": (ERROR, ErrorKind.AUTH, "", None),  # an error line with the status 401
    "opencode_500": (TIMEOUT, None, "", None),  # it tried for ever and printed nothing
    "opencode_anthropic": (OK, None, VERDICT, ONE),
    "opencode_auto_outside": (OK, None, "ok", TWO),  # a tool, then a step that stopped with "ok"
    "opencode_badmodel": (ERROR, ErrorKind.UNKNOWN, "", None),  # "Unexpected server error": it hides what happened
    "opencode_dir": (OK, None, "ok", TWO),
    "opencode_drop": (OK, None, "ok", ONE),  # "partial" was said in a step that ended "unknown"; the next one stopped
    "opencode_hang": (TIMEOUT, None, "", None),
    "opencode_json": (OK, None, VERDICT, ONE),
    "opencode_openai": (OK, None, VERDICT, (100, 20, 0.000325)),
    "opencode_outside": (ERROR, ErrorKind.DENIED, "", ONE),  # write was refused; the last step ended "tool-calls"
    "opencode_resume": (OK, None, "second", ONE),  # of this call alone
    "opencode_resume_bad": (ERROR, ErrorKind.INVALID, "", None),  # "Session not found" on the standard error
    "opencode_sess1": (OK, None, "first", ONE),
    "opencode_stdin": (OK, None, VERDICT, ONE),
    "opencode_tool": (OK, None, "done [STATUS: success]", TWO),
}

START = {"type": "step_start", "sessionID": "ses_1", "part": {}}


def text(said: str) -> dict[str, Any]:
    """A part of what the assistant says."""
    return {"type": "text", "part": {"text": said}}


def tool(name: str = "bash", **state: object) -> dict[str, Any]:
    """A tool that ended."""
    return {"type": "tool_use", "part": {"tool": name, "state": {"status": "completed", **state}}}


def finish(reason: str = "stop", **part: object) -> dict[str, Any]:
    """The end of a step."""
    return {"type": "step_finish", "part": {"reason": reason, **part}}


def refused(**state: object) -> dict[str, Any]:
    """A tool that nobody was there to allow."""
    why = "The user rejected permission to use this specific tool call."
    return tool("write", **{"status": "error", "error": why, **state})


def test_every_transcript_is_expected() -> None:
    """The table names all that opencode printed."""
    assert sorted(EXPECTED) == names("opencode_")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_transcript_is_read_as_what_it_is(name: str) -> None:
    """What failed is an error with its kind; an answer is the answer alone, with what it used and cost."""
    result = read(Opencode(), name)
    status, kind, answer, used = EXPECTED[name]
    assert (result.status, result.error.kind if result.error else None, result.text) == (status, kind, answer)
    told = result.usage and (result.usage.input_tokens, result.usage.output_tokens, result.usage.cost_usd)
    assert told == (used and pytest.approx(used))


@pytest.mark.parametrize("name", ["opencode_sess1", "opencode_resume"])
def test_the_session_can_be_gone_on_with(name: str) -> None:
    """It is in every line, and stays the same when it is gone on with."""
    assert read(Opencode(), name).session == AgentSession("ses_e1e469235ffeLSj3jQQZYXiW3D")


def test_a_refused_tool_is_named() -> None:
    """The result says which tool was refused, and so does its error."""
    result = read(Opencode(), "opencode_outside")
    assert result.denied == ("write",)
    assert result.error is not None
    assert result.error.message == '"opencode" was refused write and gave up without an answer'


@pytest.mark.parametrize(
    "why",
    [
        "The user has specified a rule which prevents you from using this specific tool call.",
        "Model tried to call unavailable tool 'invalid'. Available tools: glob, grep, read.",
    ],
)
def test_a_refusal_that_it_went_on_after_is_no_failure(why: str) -> None:
    """It may find another way; the tool is still named."""
    result = read(Opencode(), printed(START, refused(error=why), finish("tool-calls"), START, text("so"), finish()))
    assert (result.status, result.text, result.denied) == (OK, "so", ("write",))


def test_a_tool_that_failed_was_not_refused() -> None:
    """A file that is not there is nobody's refusal."""
    failed = tool("read", status="error", error="File not found")
    assert read(Opencode(), printed(START, failed, finish("tool-calls"), START, text("so"), finish())).denied == ()


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ((START, text("I look"), tool(), finish("tool-calls")), ErrorKind.PROTOCOL),  # nothing refused: it was cut off
        ((START, refused(), finish("tool-calls"), START, tool(), finish("tool-calls")), ErrorKind.PROTOCOL),
        ((START, text("half"), finish("unknown")), ErrorKind.PROTOCOL),
        ((START, text("half")), ErrorKind.PROTOCOL),
        ((START, text("one"), finish(), START, text("half")), ErrorKind.PROTOCOL),
        ((START, text("half"), finish("length")), ErrorKind.PROTOCOL),
        ((START, text("half"), finish("content-filter")), ErrorKind.DENIED),
        ((START, text(" \n"), finish()), ErrorKind.EMPTY),
    ],
)
def test_what_is_not_a_whole_answer_is_a_failure(lines: tuple[dict[str, Any], ...], kind: ErrorKind) -> None:
    """The exit code is 0 in each of these; only a last step that stopped by itself, with text, is a success."""
    result = read(Opencode(), printed(*lines))
    assert (result.status, result.error and result.error.kind) == (ERROR, kind)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"name": "APIError", "data": {"message": "slow", "statusCode": 429}}, ErrorKind.RATE_LIMIT, "slow"),
        ({"name": "APIError", "data": {"message": "boom", "statusCode": 500}}, ErrorKind.SERVER, "boom"),
        ({"name": "ProviderAuthError", "data": {"message": "not logged in"}}, ErrorKind.AUTH, "not logged in"),
        ({"name": "MessageAbortedError"}, ErrorKind.UNKNOWN, "MessageAbortedError"),
        ({}, ErrorKind.UNKNOWN, '"opencode" failed and did not say why'),
    ],
)
def test_an_error_line_is_a_failure(error: dict[str, Any], kind: ErrorKind, message: str) -> None:
    """Its kind comes from the provider's status, else from its words, whatever else was said."""
    said = printed(START, text("x"), finish(), {"type": "error", "error": error}, rc=1)
    result = read(Opencode(), said)
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (kind, message)
    assert AgentEvent("warning", message) in heard(Opencode(), said)


def test_the_answer_is_the_text_of_the_last_step() -> None:
    """Its parts are paragraphs; what was said in earlier steps is told but is not the answer."""
    said = printed(START, text("I look."), tool(), finish("tool-calls"), START, text("One."), text("Two."), finish())
    assert read(Opencode(), said).text == "One.\nTwo."
    assert [event.text for event in heard(Opencode(), said) if event.kind == "text"] == ["I look.", "One.", "Two."]


def test_tools_are_told_with_what_they_do() -> None:
    """The command or the file is shown beside the name."""
    shell = tool(input={"description": "tests", "command": "pytest -q"})
    told = [(event.kind, event.text) for event in heard(Opencode(), printed(shell, tool("todoread", input=None)))]
    assert told == [
        ("tool_start", "bash: pytest -q"),
        ("tool_end", "bash: completed"),
        ("tool_start", "todoread"),
        ("tool_end", "todoread: completed"),
    ]


def test_usage_is_the_sum_of_the_steps() -> None:
    """Cached tokens are input, reasoning is output, and what is not told is not counted."""
    tokens = {"input": 10, "output": 5, "reasoning": 3, "cache": {"read": 100, "write": 7}}
    said = printed(
        *(START, finish("tool-calls", tokens=tokens, cost=0.5)),
        *(START, text("x"), finish(tokens={"input": 1, "output": None}, cost=0.25)),
    )
    first = Usage(input_tokens=117, output_tokens=8, cost_usd=0.5)
    both = Usage(input_tokens=118, output_tokens=8, cost_usd=0.75)
    assert read(Opencode(), said).usage == both
    assert [event.usage for event in heard(Opencode(), said) if event.kind == "usage"] == [first, both]


def test_tokens_that_are_not_told_are_unknown() -> None:
    """A step may have a cost and no tokens."""
    assert read(Opencode(), printed(START, text("x"), finish(cost=0.5))).usage == Usage(cost_usd=0.5)


@pytest.mark.parametrize(
    "line",
    [
        {"type": "text", "part": {"text": 1}},
        {"type": "step_finish", "part": "stop"},
        {"type": "step_finish", "part": {"reason": "stop", "tokens": {"input": "many"}}},
        {"type": "tool_use", "part": {"state": 1}},
        {"type": "error", "error": "no"},
    ],
)
def test_a_line_in_another_form_is_a_failure_of_the_protocol(line: dict[str, object]) -> None:
    """A lost line could be the one that mattered."""
    result = read(Opencode(), printed(START, line, text("x"), finish()))
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROTOCOL
    assert f'"{line["type"]}"' in result.error.message


PLAIN_JSON = st.sampled_from([None, True, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", "x", "\udc00"])
JSON = (
    PLAIN_JSON
    | st.text(max_size=3)
    | st.lists(PLAIN_JSON, max_size=2)
    | st.dictionaries(st.text(), PLAIN_JSON, max_size=1)
)
KINDS = st.sampled_from(["step_start", "text", "tool_use", "error"])
FIELDS = st.sampled_from(
    ["part", "error", "sessionID", "text", "tool", "state", "input", "data", "statusCode", "tokens", "cost", "cache"]
)
NESTED = JSON | st.dictionaries(FIELDS, JSON, max_size=3)
LINES = st.builds(dict[str, Any], st.dictionaries(FIELDS, NESTED, max_size=4), type=KINDS | JSON)
STEPS = st.builds(dict[str, Any], st.dictionaries(FIELDS, JSON, max_size=4), type=st.just("step_finish"))


@given(st.lists(LINES | STEPS, max_size=6), st.text())
def test_nothing_that_it_prints_raises(lines: list[dict[str, Any]], stderr: str) -> None:
    """Any JSON object can be read, and without a step that stopped nothing is a good end."""
    reader = Opencode().reader(request())
    for line in lines:
        assert all(isinstance(event, AgentEvent) for event in reader.read(line))
    assert not reader.conclude(stderr).ended


def config(**fields: Any) -> dict[str, Any]:
    """The configuration that a request is started with."""
    loaded = json.loads(Opencode().invocation(request(**fields), ()).env["OPENCODE_CONFIG_CONTENT"])
    assert isinstance(loaded, dict)
    return loaded


def test_a_coding_agent_has_the_rules_of_the_user() -> None:
    """Its default is to allow everything inside its directory; it neither shares nor updates itself."""
    started = Opencode().invocation(request(cwd=Path("/project")), ())
    assert started.arguments == ("run", "--format", "json", "--dir", "/project")
    assert config() == {"share": "disabled", "autoupdate": False}
    assert set(started.env) == {"OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_CONFIG_CONTENT"}


@pytest.mark.parametrize(
    ("access", "permission"), [(Access.READ_ONLY, READ_ONLY), (Access.NONE, {"*": "deny"})], ids=str
)
def test_less_access_is_an_agent_of_our_own(access: Access, permission: dict[str, str]) -> None:
    """No configuration of the project can allow more, and the rules are in the order in which they hold."""
    started = Opencode().invocation(request(access=access), ())
    assert started.arguments[5:] == ("--agent", "awf")
    assert started.env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    set_up = config(access=access)
    assert (set_up["permission"], set_up["agent"]) == (
        permission,
        {"awf": {"mode": "primary", "permission": permission}},
    )
    assert [*set_up["agent"]["awf"]["permission"]] == [*permission]


def test_the_user_s_configuration_is_kept() -> None:
    """But for what would widen access, share the session or change the program."""
    theirs = {"provider": {"x": {}}, "share": "auto", "autoupdate": True, "permission": {"bash": "allow"}}
    agents = {"mine": {"prompt": "p"}, "awf": {"permission": {"bash": "allow"}}}
    env = {"OPENCODE_CONFIG_CONTENT": json.dumps({**theirs, "agent": agents})}
    merged = config(env=env, access=Access.READ_ONLY)
    ours = {"mode": "primary", "permission": READ_ONLY}
    assert merged == {
        "provider": {"x": {}},
        "share": "disabled",
        "autoupdate": False,
        "permission": READ_ONLY,
        "agent": {"mine": {"prompt": "p"}, "awf": ours},
    }
    assert config(env=env)["permission"] == {"bash": "allow"}
    odd = {"OPENCODE_CONFIG_CONTENT": '{"agent": 1}'}
    assert config(env=odd, access=Access.NONE)["agent"] == {"awf": {"mode": "primary", "permission": {"*": "deny"}}}


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_configuration_that_cannot_be_read_is_said(content: str) -> None:
    """It is not dropped silently."""
    with pytest.raises(AwfError, match="OPENCODE_CONFIG_CONTENT is not"):
        Opencode().invocation(request(env={"OPENCODE_CONFIG_CONTENT": content}), ())


def test_an_empty_configuration_is_none() -> None:
    """A variable that is set to nothing is as good as not set."""
    assert config(env={"OPENCODE_CONFIG_CONTENT": ""}) == config()


@pytest.mark.parametrize(
    ("provider", "model", "arguments"),
    [
        (None, None, ()),
        ("openai", None, ()),  # it has no flag for a provider alone
        (None, "openai/gpt-5", ("--model", "openai/gpt-5")),
        ("openai", "gpt-5", ("--model", "openai/gpt-5")),
        ("openrouter", "openai/gpt-5", ("--model", "openai/gpt-5")),
        (None, "gpt-5", ("--model", "gpt-5")),
    ],
)
def test_a_model_is_named_with_its_provider(
    provider: str | None, model: str | None, arguments: tuple[str, ...]
) -> None:
    """Unless the name has one already."""
    asked = request(provider=provider, model=model)
    assert Opencode().invocation(asked, ()).arguments[5:] == arguments


def test_a_request_in_full() -> None:
    """Effort and session have their arguments, and the user's come last; the prompt is not among them."""
    asked = request(reasoning_effort="high", session=AgentSession("ses_1"), access=Access.NONE, prompt="secret plan")
    arguments = Opencode().invocation(asked, ("--pure",)).arguments
    assert arguments[5:] == ("--variant", "high", "--agent", "awf", "--session", "ses_1", "--pure")
    assert {argument for argument in arguments if argument.startswith("--")} <= {*Opencode.flags, "--pure"}


def test_it_gets_the_key_of_its_provider_alone() -> None:
    """With none named it has only its own login."""
    own = Opencode().variables(None)
    assert own == tuple(name for name in own if name.startswith("OPENCODE_") and not name.endswith("_KEY"))
    assert {"OPENAI_API_KEY", *own} < set(Opencode().variables("openai"))
