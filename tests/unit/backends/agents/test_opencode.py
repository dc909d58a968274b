"""What is particular about opencode: its last step decides, and its configuration limits access."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.agents.transcripts import events_of, printing, request, result_of

from pipeline.backends.agents.opencode import Opencode
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.errors import AwfError
from pipeline.language.model import Access

OK, ERROR = AgentStatus.OK, AgentStatus.ERROR
READ_ONLY = {"*": "deny", "read": "allow", "grep": "allow", "glob": "allow", "list": "allow"}
START = {"type": "step_start", "sessionID": "ses_1", "part": {}}


def text(words: str) -> dict[str, Any]:
    """A part of what the assistant says."""
    return {"type": "text", "part": {"text": words}}


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


@pytest.mark.parametrize(
    "why",
    [
        "The user has specified a rule which prevents you from using this specific tool call.",
        "Model tried to call unavailable tool 'invalid'. Available tools: glob, grep, read.",
    ],
)
def test_a_refusal_that_it_continued_after_is_no_error(why: str) -> None:
    """It may find another way; the tool is still named."""
    run = printing(START, refused(error=why), finish("tool-calls"), START, text("so"), finish())
    result = result_of(Opencode(), run)
    assert (result.status, result.text, result.denied) == (OK, "so", ("write",))


def test_a_tool_that_failed_was_not_refused() -> None:
    """A missing file is nobody's refusal."""
    failed = tool("read", status="error", error="File not found")
    run = printing(START, failed, finish("tool-calls"), START, text("so"), finish())
    assert result_of(Opencode(), run).denied == ()


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ((START, text("I look"), tool(), finish("tool-calls")), ErrorKind.PROTOCOL),  # nothing refused: it was cut off
        ((START, refused(), finish("tool-calls"), START, tool(), finish("tool-calls")), ErrorKind.PROTOCOL),
        ((START, text("half"), finish("unknown")), ErrorKind.PROTOCOL),
        ((START, text("half")), ErrorKind.PROTOCOL),
        ((START, text("one"), finish(), START, text("half")), ErrorKind.PROTOCOL),
        ((START, text("half"), finish("content-filter")), ErrorKind.DENIED),
    ],
)
def test_an_incomplete_last_step_is_an_error(lines: tuple[dict[str, Any], ...], kind: ErrorKind) -> None:
    """The exit code is 0 in each of these."""
    result = result_of(Opencode(), printing(*lines))
    assert (result.status, result.error and result.error.kind) == (ERROR, kind)


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        ({"name": "APIError", "data": {"message": "slow", "statusCode": 429}}, ErrorKind.RATE_LIMIT, "slow"),
        ({"name": "APIError", "data": {"message": "boom", "statusCode": 500}}, ErrorKind.SERVER, "boom"),
        ({"name": "ProviderAuthError", "data": {"message": "not logged in"}}, ErrorKind.AUTH, "not logged in"),
        ({"name": "MessageAbortedError"}, ErrorKind.UNKNOWN, "MessageAbortedError"),
    ],
)
def test_an_error_line_is_an_error(error: dict[str, Any], kind: ErrorKind, message: str) -> None:
    """By the provider's status, else by its words, whatever else was said."""
    run = printing(START, text("x"), finish(), {"type": "error", "error": error}, code=1)
    assert result_of(Opencode(), run).error == AgentError(kind, message)
    assert AgentEvent("warning", message) in events_of(Opencode(), run)


def test_the_answer_is_the_text_of_the_last_step() -> None:
    """Its parts are paragraphs; what was said in earlier steps is shown, but is not the answer."""
    run = printing(START, text("I look."), tool(), finish("tool-calls"), START, text("One."), text("Two."), finish())
    assert result_of(Opencode(), run).text == "One.\nTwo."
    assert [event.text for event in events_of(Opencode(), run) if event.kind == "text"] == ["I look.", "One.", "Two."]


def test_usage_is_the_sum_of_the_steps() -> None:
    """Cached tokens are input, reasoning is output, and what is not reported is not counted."""
    tokens = {"input": 10, "output": 5, "reasoning": 3, "cache": {"read": 100, "write": 7}}
    run = printing(
        *(START, finish("tool-calls", tokens=tokens, cost=0.5)),
        *(START, text("x"), finish(tokens={"input": 1, "output": None}, cost=0.25)),
    )
    first = Usage(input_tokens=117, output_tokens=8, cost_usd=0.5)
    both = Usage(input_tokens=118, output_tokens=8, cost_usd=0.75)
    assert result_of(Opencode(), run).usage == both
    assert [event.usage for event in events_of(Opencode(), run) if event.kind == "usage"] == [first, both]
    assert result_of(Opencode(), printing(START, text("x"), finish(cost=0.5))).usage == Usage(cost_usd=0.5)


def config(**fields: Any) -> dict[str, Any]:
    """The configuration that a request is started with."""
    loaded = json.loads(Opencode().invocation(request(**fields), ()).env["OPENCODE_CONFIG_CONTENT"])
    assert isinstance(loaded, dict)
    return loaded


def test_a_coding_agent_has_the_rules_of_the_user() -> None:
    """By default it may do everything inside its directory; it neither shares nor updates itself."""
    assert config() == {"share": "disabled", "autoupdate": False}
    env = Opencode().invocation(request(), ()).env
    assert set(env) == {
        *("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_CONFIG_CONTENT"),
        *("OPENCODE_PRINT_LOGS", "OPENCODE_LOG_LEVEL"),
    }


@pytest.mark.parametrize(
    ("access", "permission"), [(Access.READ_ONLY, READ_ONLY), (Access.NONE, {"*": "deny"})], ids=str
)
def test_less_access_is_an_agent_of_our_own(access: Access, permission: dict[str, str]) -> None:
    """No configuration of the project can allow more, and the rules are in the order in which they apply."""
    env = Opencode().invocation(request(access=access), ()).env
    assert env["OPENCODE_DISABLE_PROJECT_CONFIG"] == "1"
    made = config(access=access)
    assert (made["permission"], made["agent"]) == (permission, {"awf": {"mode": "primary", "permission": permission}})
    assert [*made["agent"]["awf"]["permission"]] == [*permission]


def test_the_user_s_configuration_is_kept() -> None:
    """But for what would widen access, share the session or change the program."""
    theirs = {"provider": {"x": {}}, "share": "auto", "autoupdate": True, "permission": {"bash": "allow"}}
    agents = {"mine": {"prompt": "p"}, "awf": {"permission": {"bash": "allow"}}}
    env = {"OPENCODE_CONFIG_CONTENT": json.dumps({**theirs, "agent": agents})}
    assert config(env=env, access=Access.READ_ONLY) == {
        "provider": {"x": {}},
        "share": "disabled",
        "autoupdate": False,
        "permission": READ_ONLY,
        "agent": {"mine": {"prompt": "p"}, "awf": {"mode": "primary", "permission": READ_ONLY}},
    }
    assert config(env=env)["permission"] == {"bash": "allow"}
    odd = {"OPENCODE_CONFIG_CONTENT": '{"agent": 1}'}
    assert config(env=odd, access=Access.NONE)["agent"] == {"awf": {"mode": "primary", "permission": {"*": "deny"}}}
    assert config(env={"OPENCODE_CONFIG_CONTENT": ""}) == config()


@pytest.mark.parametrize("content", ["{", "[]"])
def test_an_unreadable_configuration_is_an_error(content: str) -> None:
    """It is not dropped silently."""
    with pytest.raises(AwfError, match="OPENCODE_CONFIG_CONTENT is not"):
        Opencode().invocation(request(env={"OPENCODE_CONFIG_CONTENT": content}), ())


LOG = (
    'timestamp=2026-11-18T10:48:38.125Z level=ERROR run=95e436d1 message="stream error" providerID=local '
    'small={small} error.error="{error}"\n'
)
UNEXPLAINED = {"name": "UnknownError", "data": {"message": "Unexpected server error. Check server logs for details."}}


@pytest.mark.parametrize(
    ("error", "kind"),
    [("AI_APICallError: slow down, 429", ErrorKind.RATE_LIMIT), ("AI_APICallError: boom", ErrorKind.SERVER)],
)
def test_its_log_says_why_it_was_slow(error: str, kind: ErrorKind) -> None:
    """It retries for ever what it retries at all; a failed request for a title does not count."""
    log = LOG.format(small="false", error=error) * 2 + LOG.format(small="true", error="AI_APICallError: 401")
    result = result_of(Opencode(), printing(stderr=log, timed_out=True))
    assert result.error is not None
    assert (result.error.kind, error in result.error.message) == (kind, True)
    stopped = result_of(Opencode(), printing(stderr=LOG.format(small="false", error=error) * 60))
    assert stopped.error is not None
    assert (stopped.error.kind, "51 failed requests" in stopped.error.message) == (kind, True)


def test_its_log_explains_an_error_without_words() -> None:
    """An unknown model is named nowhere else."""
    cause = "ProviderModelNotFoundError: Model not found: local/nope."
    log = f'timestamp=1 level=ERROR run=1 message=failed ref=err_1 error="{cause}" cause="{cause}\\n    at x"\n'
    run = printing({"type": "error", "error": UNEXPLAINED}, code=1, stderr=log)
    result = result_of(Opencode(), run, model="local/nope")
    assert result.error == AgentError(ErrorKind.NOT_FOUND, cause)


def test_printing_its_help_is_how_it_rejects_a_flag() -> None:
    """It says nothing else."""
    help = (
        "opencode run [message..]\n\nOptions:\n  -m, --model  model to use in the format of provider/model  [string]\n"
    )
    result = result_of(Opencode(), printing(code=1, stderr=help))
    assert result.error is not None
    assert result.error.kind is ErrorKind.BAD_FLAG


def test_runs_at_the_same_time_have_databases_of_their_own(tmp_path: Path) -> None:
    """The first has the user's own; a session is continued where it is, and what is free is used again."""
    one = request(env={"HOME": str(tmp_path)})
    agents = Opencode(), Opencode()  # as in two processes
    with agents[0].reserve(one) as first, agents[1].reserve(one) as second, agents[0].reserve(one) as third:
        databases = [held.env.get("OPENCODE_DB", "") for held in (first, second, third)]
        assert databases[0] == ""
        assert len(set(databases)) == 3
        third.session = AgentSession("s")
    with agents[0].reserve(one) as again, agents[0].reserve(one._replace(session=AgentSession("s"))) as continued:
        assert (again.env, continued.env) == ({}, third.env)


def test_without_a_place_for_databases_the_user_s_own_is_used(tmp_path: Path) -> None:
    """A home that cannot be written does not fail the stage."""
    (tmp_path / "file").touch()
    homes: list[dict[str, str]] = [{}, {"HOME": str(tmp_path / "file")}]
    for env in homes:
        with Opencode().reserve(request(env=env)) as first, Opencode().reserve(request(env=env)) as second:
            assert (first.env, second.env) == ({}, {})


def test_the_project_s_instructions_are_read_without_its_configuration(tmp_path: Path) -> None:
    """With less access it does not look for them by itself."""
    (tmp_path / "AGENTS.md").write_text("use tabs")
    env = {"OPENCODE_CONFIG_CONTENT": '{"instructions": ["mine.md"]}'}
    given = config(cwd=tmp_path, access=Access.READ_ONLY, env=env)["instructions"]
    assert given == ["mine.md", str(tmp_path / "AGENTS.md")]
    assert "instructions" not in config(cwd=tmp_path)
