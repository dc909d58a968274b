"""pi: how it is started, and what is made of what it prints."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.backends.agents.transcripts import heard, names, printed, read, request

from pipeline.backends.agents.pi import Pi
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.language.model import Access

OK, ERROR, TIMEOUT = AgentStatus.OK, AgentStatus.ERROR, AgentStatus.TIMEOUT
VERDICT = "Looks bad [STATUS: fail] [FAILURE_REASON: x]"
NOTHING = (0, 0, 0.0)  # it says that a refused request used nothing
ONE = (100, 20, 0.0006)  # one message of the recorded model
TWO = (200, 40, 0.0012)
# What was printed without `--mode json` is plain text. We never ask for it, and take no answer from it.
PLAIN = (ERROR, ErrorKind.PROTOCOL, "", None)

Expected = tuple[AgentStatus, ErrorKind | None, str, tuple[int, int, float] | None]
EXPECTED: dict[str, Expected] = {
    "pi_401": (ERROR, ErrorKind.AUTH, "", NOTHING),  # stopReason "error", "401: …"; the exit code is 0
    "pi_429once": (OK, None, "ok", ONE),  # refused once, tried again, answered
    "pi_500": (ERROR, ErrorKind.SERVER, "", NOTHING),  # four refusals, then it settled; the exit code is 0
    "pi_anthropic": PLAIN,
    "pi_badmodel": (ERROR, ErrorKind.INVALID, "", None),  # 'Model "nope/none" not found' on the standard error
    "pi_drop": (OK, None, "ok", ONE),  # "partial" is in a message that ended with an error, "ok" in the next
    "pi_hang": (TIMEOUT, None, "", None),
    "pi_json": (OK, None, VERDICT, ONE),
    "pi_nokey": (ERROR, ErrorKind.AUTH, "", None),  # "No API key found for fake." on the standard error
    "pi_readonly": (OK, None, "ok", TWO),  # its bash was not found; it answered all the same
    "pi_responses": PLAIN,
    "pi_sess1": (OK, None, "first", ONE),
    "pi_sess2": (OK, None, "second", ONE),  # of this call alone
    "pi_text": PLAIN,
    "pi_text401": (ERROR, ErrorKind.AUTH, "", None),  # "401: …" on the standard error; the exit code is 1
    "pi_tool": (OK, None, "done [STATUS: success]", TWO),  # what the last message says
}

SETTLED = {"type": "agent_settled"}


def answer(text: str = "", reason: str = "stop", **fields: object) -> dict[str, Any]:
    """The end of a message of the assistant."""
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    return {"type": "message_end", "message": {"role": "assistant", "content": content, "stopReason": reason, **fields}}


def test_every_transcript_is_expected() -> None:
    """The table names all that pi printed."""
    assert sorted(EXPECTED) == names("pi_")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_transcript_is_read_as_what_it_is(name: str) -> None:
    """What failed is an error with its kind; an answer is the answer alone, with what it used and cost."""
    result = read(Pi(), name)
    status, kind, text, used = EXPECTED[name]
    assert (result.status, result.error.kind if result.error else None, result.text) == (status, kind, text)
    told = result.usage and (result.usage.input_tokens, result.usage.output_tokens, result.usage.cost_usd)
    assert told == (used and pytest.approx(used))


@pytest.mark.parametrize("name", ["pi_sess1", "pi_sess2"])
def test_the_session_can_be_gone_on_with(name: str) -> None:
    """It is told in the first line, and stays the same when it is gone on with."""
    assert read(Pi(), name).session == AgentSession("engine-stage-1")


def test_a_missing_key_is_said_in_one_sentence() -> None:
    """Not by the last of the lines that follow it."""
    result = read(Pi(), "pi_nokey")
    assert result.error is not None
    assert result.error.message == "No API key found for fake."


def test_what_happens_is_told_in_order() -> None:
    """A retry is told with its reason, a text as a whole message, and the usage so far."""
    kinds = [event.kind for event in heard(Pi(), "pi_429once")]
    assert kinds == ["usage", "retry", "text", "usage"]
    assert heard(Pi(), "pi_429once")[1].text.startswith("429: ")


def test_tools_are_told_and_refusals_named() -> None:
    """A tool that is not among the allowed ones is not found; that is a refusal."""
    events = heard(Pi(), "pi_readonly")
    assert AgentEvent("tool_start", "bash: touch no.txt") in events
    assert AgentEvent("tool_end", "bash: error") in events
    assert read(Pi(), "pi_readonly").denied == ("bash",)
    assert read(Pi(), "pi_tool").denied == ()
    assert AgentEvent("tool_end", "bash: done") in heard(Pi(), "pi_tool")


def test_a_tool_that_failed_was_not_refused() -> None:
    """Only a tool that does not exist for it is."""
    failed = {"type": "tool_execution_end", "toolName": "bash", "isError": True, "result": {"content": []}}
    assert read(Pi(), printed(failed, answer("x"), SETTLED)).denied == ()


def test_a_tool_without_a_telling_argument_is_named() -> None:
    """Its name is all there is to show."""
    line = {"type": "tool_execution_start", "toolName": "think", "args": ["x"]}
    assert heard(Pi(), printed(line)) == [AgentEvent("tool_start", "think")]


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ((answer("half", "error", errorMessage="429: slow"), SETTLED), ErrorKind.RATE_LIMIT),
        ((answer("half", "error", errorMessage="400: bad"), SETTLED), ErrorKind.INVALID),
        ((answer("half", "error", errorMessage="connection refused"), SETTLED), ErrorKind.SERVER),
        ((answer("half", "error", errorMessage="Stream ended without finish_reason"), SETTLED), ErrorKind.SERVER),
        ((answer("half", "error", errorMessage="terminated"), SETTLED), ErrorKind.SERVER),
        ((answer("half", "error", errorMessage="a list of 4299 things"), SETTLED), ErrorKind.UNKNOWN),
        ((answer("half", "error"), SETTLED), ErrorKind.UNKNOWN),
        ((answer("half", "aborted"), SETTLED), ErrorKind.KILLED),
        ((answer("half", "length"), SETTLED), ErrorKind.PROTOCOL),
        ((answer("half", "deferred"), SETTLED), ErrorKind.UNKNOWN),
        ((answer("half", ""), SETTLED), ErrorKind.UNKNOWN),
        ((answer("I look", "toolUse"), SETTLED), ErrorKind.PROTOCOL),
        ((answer("one"), answer("I look", "toolUse"), SETTLED), ErrorKind.PROTOCOL),
        ((answer("one"), SETTLED, answer("two")), ErrorKind.PROTOCOL),  # it did not settle again
        ((answer("whole"),), ErrorKind.PROTOCOL),
        ((SETTLED,), ErrorKind.PROTOCOL),
        ((answer(" \n"), SETTLED), ErrorKind.EMPTY),
        ((answer("one"), answer("half", "error", errorMessage="500: boom"), SETTLED), ErrorKind.SERVER),
    ],
)
def test_what_is_not_a_whole_answer_is_a_failure(lines: tuple[dict[str, Any], ...], kind: ErrorKind) -> None:
    """The exit code is 0 in each of these; only a last message that stopped by itself, with text, is a success."""
    result = read(Pi(), printed(*lines))
    assert (result.status, result.error and result.error.kind) == (ERROR, kind)


def test_half_an_answer_is_no_text() -> None:
    """The words of a message that broke off are told while it runs, and are not the answer."""
    said = printed(answer("half", "error", errorMessage="500: boom"), SETTLED)
    assert read(Pi(), said).text == ""
    assert AgentEvent("text", "half") in heard(Pi(), said)


def test_the_answer_is_all_text_of_the_last_message() -> None:
    """Its blocks are paragraphs; thoughts, earlier messages and those of others are not in it."""
    blocks = [{"type": "text", "text": "One."}, {"type": "toolCall", "name": "x"}, {"type": "text", "text": "Two."}]
    other = {"type": "message_end", "message": {"role": "user", "content": "no", "stopReason": "stop"}}
    said = printed(answer("I look.", "toolUse"), answer(content=blocks), other, SETTLED)
    assert read(Pi(), said).text == "One.\nTwo."


def test_usage_is_the_sum_of_the_messages() -> None:
    """Cached tokens are input; what is not told stays unknown."""
    used = {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 7, "cost": {"total": 0.5}}
    said = printed(answer("x", "toolUse", usage=used), answer("y", usage={"input": 1, "output": 2}), SETTLED)
    assert read(Pi(), said).usage == Usage(input_tokens=118, output_tokens=7, cost_usd=0.5)
    unpriced = printed(answer("y", usage={"output": 2, "cost": {"total": None}}), SETTLED)
    assert read(Pi(), unpriced).usage == Usage(input_tokens=0, output_tokens=2)


def test_a_failed_compaction_is_a_warning() -> None:
    """It goes on with the long conversation; the provider may refuse it later."""
    line = {"type": "compaction_end", "errorMessage": "no"}
    assert heard(Pi(), printed(line, {"type": "compaction_end"})) == [AgentEvent("warning", "no")]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "message_end", "message": {"role": "assistant", "content": "text"}},
        {"type": "message_end", "message": {"role": "assistant", "stopReason": 1}},
        {"type": "tool_execution_start", "toolName": 1},
        {"type": "tool_execution_end", "isError": "perhaps"},
    ],
)
def test_a_line_in_another_form_is_a_failure_of_the_protocol(line: dict[str, object]) -> None:
    """A lost line could be the one that mattered."""
    result = read(Pi(), printed(line, answer("x"), SETTLED))
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
KINDS = st.sampled_from(
    ["session", "message_end", "tool_execution_start", "tool_execution_end", "auto_retry_start", "compaction_end"]
)
FIELDS = st.sampled_from(
    ["id", "toolName", "args", "result", "isError", "errorMessage", "content", "usage", "stopReason", "cost", "input"]
)
NESTED = JSON | st.dictionaries(FIELDS, JSON, max_size=3)
ANSWERS = st.builds(dict[str, Any], st.dictionaries(FIELDS, NESTED, max_size=4), role=st.just("assistant"))
LINES = st.builds(dict[str, Any], st.dictionaries(FIELDS, JSON, max_size=4), type=KINDS | JSON, message=ANSWERS | JSON)


@given(st.lists(LINES, max_size=6), st.text())
def test_nothing_that_it_prints_raises(lines: list[dict[str, Any]], stderr: str) -> None:
    """Any JSON object can be read, and before it has settled nothing is a good end."""
    reader = Pi().reader(request())
    for line in lines:
        assert all(isinstance(event, AgentEvent) for event in reader.read(line))
    assert not reader.conclude(stderr).ended


@pytest.mark.parametrize(
    ("access", "arguments"),
    [
        (Access.CODING, ()),
        (Access.READ_ONLY, ("--tools", "read,grep,find,ls")),
        (Access.NONE, ("--no-tools",)),
    ],
)
def test_access_is_a_list_of_tools(access: Access, arguments: tuple[str, ...]) -> None:
    """It asks nobody, so what it may not do it must not have; extensions of the project are never loaded."""
    started = Pi().invocation(request(access=access, prompt="secret plan"), ())
    assert started.arguments == ("--print", "--mode", "json", "--no-approve", *arguments)
    assert started.env == {"PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1"}


@pytest.mark.parametrize(
    ("provider", "model", "arguments"),
    [
        (None, None, ()),
        ("openai", None, ("--provider", "openai")),
        (None, "openai/gpt-5", ("--model", "openai/gpt-5")),
        ("openai", "gpt-5", ("--model", "openai/gpt-5")),
        ("openrouter", "openai/gpt-5", ("--model", "openai/gpt-5")),
        (None, "gpt-5", ("--model", "gpt-5")),
    ],
)
def test_a_model_is_named_with_its_provider(
    provider: str | None, model: str | None, arguments: tuple[str, ...]
) -> None:
    """Unless the name has one already; without a name the provider's own choice is taken."""
    assert Pi().invocation(request(provider=provider, model=model), ()).arguments[4:] == arguments


def test_a_request_in_full() -> None:
    """Effort and session have their arguments, and the user's come last."""
    asked = request(reasoning_effort="high", session=AgentSession("s1"), provider="x", access=Access.READ_ONLY)
    arguments = Pi().invocation(asked, ("--verbose",)).arguments
    assert arguments[6:] == ("--provider", "x", "--thinking", "high", "--session-id", "s1", "--verbose")
    assert {argument for argument in arguments if argument.startswith("--")} <= {*Pi.flags, "--verbose"}


def test_it_gets_the_key_of_its_provider_alone() -> None:
    """With none named it has only its own login."""
    own = Pi().variables(None)
    assert own == tuple(name for name in own if name.startswith("PI_"))
    assert {"ANTHROPIC_API_KEY", *own} < set(Pi().variables("anthropic"))
