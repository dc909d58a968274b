"""Any program as an agent."""

import asyncio
from typing import Any

import pytest
from tests.unit.backends.conftest import PATH, Bench

from pipeline.backends.agents.command import CommandBackend
from pipeline.engine.ports import AgentEvent, AgentRequest, AgentResult, AgentStatus, ErrorKind, RequestLimits


def ask(bench: Bench, *argv: str, events: list[AgentEvent] | None = None, **options: Any) -> AgentResult:
    """What a program answers to a request."""
    defaults = {"stage": "build", "visit": 1, "attempt": 1, "prompt": "Do it.\n"}
    there = {"cwd": bench.cwd, "artifacts": bench.artifacts, "env": {"PATH": PATH}}
    request = AgentRequest(**{**defaults, **there, **options})
    heard: list[AgentEvent] = [] if events is None else events
    return asyncio.run(CommandBackend(argv, bench.processes).run(request, heard.append))


def test_the_answer_is_what_the_program_writes(bench: Bench) -> None:
    """The prompt is on its standard input, the answer on its standard output, and each line is shown."""
    events: list[AgentEvent] = []
    result = ask(bench, "cat", "-", events=events, prompt="one\ntwo\N{LINE SEPARATOR}three\n")
    assert result == AgentResult(AgentStatus.OK, "one\ntwo\N{LINE SEPARATOR}three\n", exit_code=0, argv=("cat", "-"))
    said = ["one", "two\N{LINE SEPARATOR}three"]
    assert events == [AgentEvent("started"), *(AgentEvent("text", line) for line in said)]


def test_a_failure_has_the_program_s_last_words(bench: Bench) -> None:
    """An exit code other than 0 is an error with the last line of the standard error."""
    result = ask(bench, "sh", "-c", "echo half; echo why >&2; echo no key >&2; echo >&2; exit 7")
    assert (result.status, result.exit_code, result.text) == (AgentStatus.ERROR, 7, "half\n")
    assert result.error is not None
    assert result.error.kind is ErrorKind.UNKNOWN
    assert result.error.message == '"sh" exited with code 7: no key'


def test_a_failure_without_error_output_has_a_message(bench: Bench) -> None:
    """The message says that there was none."""
    result = ask(bench, "false")
    assert result.error is not None
    assert result.error.message == '"false" exited with code 1 and printed no error'


@pytest.mark.parametrize(
    ("limits", "status"),
    [(RequestLimits(timeout=0.2), AgentStatus.TIMEOUT), (RequestLimits(idle=0.2), AgentStatus.IDLE)],
)
def test_a_limit_has_its_status(bench: Bench, limits: RequestLimits, status: AgentStatus) -> None:
    """Taking too long and being silent for too long differ."""
    assert ask(bench, "sleep", "1000", limits=limits).status is status


def test_a_missing_program_is_an_error(bench: Bench) -> None:
    """It could not be started."""
    result = ask(bench, "no-such-agent")
    assert result.error is not None
    assert (result.error.kind, result.status) == (ErrorKind.SPAWN, AgentStatus.ERROR)
    assert '"no-such-agent" was not found' in result.error.message


def test_a_program_that_was_killed_is_an_error(bench: Bench) -> None:
    """A signal from elsewhere is named."""
    result = ask(bench, "sh", "-c", "kill -9 $$")
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (ErrorKind.KILLED, '"sh" was killed by SIGKILL')


def test_an_answer_that_is_too_long_is_an_error(bench: Bench) -> None:
    """A truncated answer is never taken for a whole one; the note about the rest is not part of it."""
    result = ask(bench, "cat", prompt="0123456789", limits=RequestLimits(output_bytes=4))
    assert (result.status, result.text) == (AgentStatus.ERROR, "0123")
    assert result.error is not None
    assert result.error.kind is ErrorKind.PROTOCOL
    assert ask(bench, "cat", prompt="0123", limits=RequestLimits(output_bytes=4)).status is AgentStatus.OK


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        ("echo 'Claude AI usage limit reached|4102444800'; exit 1", ErrorKind.QUOTA, "usage limit reached"),
        ("echo 'resets 3pm: hit your limit' >&2; exit 1", ErrorKind.QUOTA, "hit your limit"),
        ("echo 'HTTP 429 Too Many Requests' >&2; echo bye >&2; exit 1", ErrorKind.RATE_LIMIT, "Too Many Requests"),
        ("echo 'Error: 401 Unauthorized' >&2; exit 1", ErrorKind.AUTH, "Unauthorized"),
        ("echo 'ANTHROPIC_API_KEY is missing' >&2; exit 1", ErrorKind.AUTH, "is missing"),
        (
            "echo \"error: unknown option '--nope'\" >&2; echo '(Did you mean --name?)' >&2; exit 1",
            ErrorKind.BAD_FLAG,
            "--nope",
        ),
        ("echo 'model gpt-9 not found (404)' >&2; exit 1", ErrorKind.NOT_FOUND, "gpt-9"),
        ("echo 'read ECONNRESET' >&2; exit 1", ErrorKind.NETWORK, "ECONNRESET"),
        ("echo 'Internal Server Error' >&2; exit 1", ErrorKind.SERVER, "Internal"),
        ("echo 'agent: not found' >&2; exit 127", ErrorKind.SPAWN, "agent: not found"),
        ("exit 126", ErrorKind.SPAWN, "126"),
        ("exit 143", ErrorKind.KILLED, "SIGTERM"),
        ("echo 'out of memory' >&2; exit 137", ErrorKind.KILLED, "out of memory"),
        ("echo 'no key' >&2; exit 3", ErrorKind.UNKNOWN, "no key"),
    ],
)
def test_a_failure_has_the_kind_that_its_words_name(bench: Bench, script: str, kind: ErrorKind, said: str) -> None:
    """On standard error, or in its output if it has no others; the words are kept."""
    error = ask(bench, "sh", "-c", script).error
    assert error is not None
    assert error.kind is kind
    assert said in error.message


def test_an_answer_about_errors_is_an_answer(bench: Bench) -> None:
    """Its words do not matter if the exit code is 0."""
    answer = "It returns 401 Unauthorized and 429 when the usage limit is reached.\n"
    assert ask(bench, "cat", prompt=answer).status is AgentStatus.OK
