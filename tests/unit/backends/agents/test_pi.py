"""What is particular about pi: its last message decides, once it has settled."""

from typing import Any

import pytest
from tests.unit.backends.agents.transcripts import events_of, printing, request, result_of

from pipeline.backends.agents.pi import Pi
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentEvent, AgentStatus, ErrorKind

SETTLED = {"type": "agent_settled"}


def answer(text: str = "", reason: str = "stop", **fields: object) -> dict[str, Any]:
    """The end of a message of the assistant."""
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    return {"type": "message_end", "message": {"role": "assistant", "content": content, "stopReason": reason, **fields}}


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ((answer("half", "error", errorMessage="400: bad"), SETTLED), ErrorKind.INVALID),
        ((answer("half", "error", errorMessage="connection refused"), SETTLED), ErrorKind.NETWORK),
        ((answer("half", "error", errorMessage="Stream ended without finish_reason"), SETTLED), ErrorKind.NETWORK),
        ((answer("half", "error", errorMessage="terminated"), SETTLED), ErrorKind.NETWORK),
        ((answer("half", "error", errorMessage="a list of 4299 things"), SETTLED), ErrorKind.UNKNOWN),
        ((answer("half", "aborted"), SETTLED), ErrorKind.KILLED),
        ((answer("half", "deferred"), SETTLED), ErrorKind.UNKNOWN),
        ((answer("half", ""), SETTLED), ErrorKind.UNKNOWN),
        ((answer("I look", "toolUse"), SETTLED), ErrorKind.PROTOCOL),
        ((answer("one"), answer("I look", "toolUse"), SETTLED), ErrorKind.PROTOCOL),
        ((answer("one"), SETTLED, answer("two")), ErrorKind.PROTOCOL),  # it did not settle again
        ((SETTLED,), ErrorKind.PROTOCOL),
        ((answer("one"), answer("half", "error", errorMessage="500: boom"), SETTLED), ErrorKind.SERVER),
    ],
)
def test_an_incomplete_last_message_is_an_error(lines: tuple[dict[str, Any], ...], kind: ErrorKind) -> None:
    """The exit code is 0 in each of these."""
    result = result_of(Pi(), printing(*lines))
    assert (result.status, result.error and result.error.kind) == (AgentStatus.ERROR, kind)


def test_half_an_answer_is_no_text() -> None:
    """It is shown while the agent runs, but is not the answer."""
    run = printing(answer("half", "error", errorMessage="500: boom"), SETTLED)
    assert result_of(Pi(), run).text == ""
    assert AgentEvent("text", "half") in events_of(Pi(), run)


def test_the_answer_is_all_text_of_the_last_message() -> None:
    """Its blocks are paragraphs; thoughts, earlier messages and those of others are not in it."""
    blocks = [{"type": "text", "text": "One."}, {"type": "toolCall", "name": "x"}, {"type": "text", "text": "Two."}]
    other = {"type": "message_end", "message": {"role": "user", "content": "no", "stopReason": "stop"}}
    run = printing(answer("I look.", "toolUse"), answer(content=blocks), other, SETTLED)
    assert result_of(Pi(), run).text == "One.\nTwo."


def test_usage_is_the_sum_of_the_messages() -> None:
    """Cached tokens are input; what is not reported stays unknown."""
    used = {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 7, "cost": {"total": 0.5}}
    run = printing(answer("x", "toolUse", usage=used), answer("y", usage={"input": 1, "output": 2}), SETTLED)
    assert result_of(Pi(), run).usage == Usage(input_tokens=118, output_tokens=7, cost_usd=0.5)
    unpriced = printing(answer("y", usage={"output": 2, "cost": {"total": None}}), SETTLED)
    assert result_of(Pi(), unpriced).usage == Usage(input_tokens=0, output_tokens=2)


def test_a_retry_is_shown_with_its_cause() -> None:
    """In its order among the other events."""
    events = events_of(Pi(), "pi_429once")
    assert [event.kind for event in events] == ["usage", "retry", "text", "usage"]
    assert events[1].text.startswith("429: ")


def test_a_failed_compaction_is_a_warning() -> None:
    """It continues with the long conversation; the provider may refuse it later."""
    line = {"type": "compaction_end", "errorMessage": "no"}
    assert events_of(Pi(), printing(line, {"type": "compaction_end"})) == [AgentEvent("warning", "no")]


def test_a_tool_that_failed_was_not_refused() -> None:
    """Only a tool that it does not have was."""
    failed = {"type": "tool_execution_end", "toolName": "bash", "isError": True, "result": {"content": []}}
    run = printing(failed, answer("x"), SETTLED)
    assert result_of(Pi(), run).denied == ()
    assert AgentEvent("tool_end", "bash: error") in events_of(Pi(), run)


def test_a_tool_without_a_telling_argument_is_named() -> None:
    """Its name is all there is to show."""
    line = {"type": "tool_execution_start", "toolName": "think", "args": ["x"]}
    assert events_of(Pi(), printing(line)) == [AgentEvent("tool_start", "think")]


@pytest.mark.parametrize(
    ("provider", "model", "named"),
    [
        ("openai", None, ()),
        (None, "m", ("--model", "m")),
        ("openai", "m", ("--provider", "openai", "--model", "m")),
        ("openai", "openai/m", ("--provider", "openai", "--model", "m")),
        ("openrouter", "anthropic/m", ("--provider", "openrouter", "--model", "anthropic/m")),
    ],
)
def test_a_provider_is_named_together_with_a_model(
    provider: str | None, model: str | None, named: tuple[str, ...]
) -> None:
    """Alone it is rejected."""
    arguments = Pi().invocation(request(provider=provider, model=model), ()).arguments
    assert arguments == ("--print", "--mode", "json", "--no-approve", *named)
