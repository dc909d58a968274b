"""The backend that answers from a file."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.backends.agents.scripted import ScriptedBackend, load_script
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentStatus,
    ErrorKind,
    RequestLimits,
)
from pipeline.errors import AwfError


def ask(script: object, tmp_path: Path, **options: Any) -> AgentResult:
    """What a script answers to a request."""
    defaults = {"stage": "build", "visit": 1, "attempt": 1, "prompt": ""}
    request = AgentRequest(**{**defaults, "cwd": tmp_path, "artifacts": tmp_path, **options})
    return asyncio.run(ScriptedBackend(load_script(json.dumps(script))).run(request, lambda _: None))


def test_replies_are_given_by_visit_and_the_last_repeats(tmp_path: Path) -> None:
    """A list is one reply for each visit."""
    answers = [ask({"build": ["one", "two"]}, tmp_path, visit=visit).text for visit in (1, 2, 3, 50)]
    assert answers == ["one", "two", "two", "two"]


def test_one_text_is_for_every_visit(tmp_path: Path) -> None:
    """A plain text needs no list."""
    assert [ask({"build": "always"}, tmp_path, visit=visit).text for visit in (1, 9)] == ["always", "always"]


def test_a_stage_without_an_entry_completes(tmp_path: Path) -> None:
    """It says so, and a review passes."""
    assert ask({}, tmp_path) == AgentResult(AgentStatus.OK, "Completed: build")
    assert ask({}, tmp_path, passing="[STATUS: success]").text == "[STATUS: success]"


def test_an_empty_answer_is_an_answer(tmp_path: Path) -> None:
    """An agent that says nothing can be scripted."""
    assert ask({"build": ""}, tmp_path) == AgentResult(AgentStatus.OK, "")


def test_an_object_is_an_outcome(tmp_path: Path) -> None:
    """It is passed on as it is; its response and usage are in the result, too."""
    outcome = {
        "status": "fail",
        "reason": "no tests",
        "response": "Bad.",
        "context_updates": {"build.risk": "high"},
        "preferred_label": "again",
        "next": "fix",
        "usage": {"input_tokens": 10, "output_tokens": 2, "cost_usd": 0.5},
    }
    result = ask({"build": [outcome]}, tmp_path)
    assert result.outcome == outcome
    assert (result.status, result.text) == (AgentStatus.OK, "Bad.")
    assert result.usage == Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)


def test_a_delay_comes_before_the_reply(tmp_path: Path) -> None:
    """The wait can be cancelled, and a short one ends with the reply."""
    assert ask({"build": {"delay": "1ms", "reply": "late"}}, tmp_path).text == "late"

    async def cancel() -> None:
        backend = ScriptedBackend(load_script('{"build": {"delay": "1h", "reply": "never"}}'))
        started = asyncio.Event()
        request = AgentRequest("build", 1, 1, "", tmp_path, tmp_path)
        task = asyncio.create_task(backend.run(request, lambda _: started.set()))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())


@pytest.mark.parametrize(
    ("limits", "status"),
    [(RequestLimits(timeout=0.01), AgentStatus.TIMEOUT), (RequestLimits(idle=0.01), AgentStatus.IDLE)],
)
def test_a_delay_can_be_too_long(tmp_path: Path, limits: RequestLimits, status: AgentStatus) -> None:
    """The limits of a stage apply to a scripted agent like to any other."""
    assert ask({"build": {"delay": "1h", "reply": "never"}}, tmp_path, limits=limits) == AgentResult(status)


@pytest.mark.parametrize("kind", ErrorKind)
def test_an_error_can_be_scripted(tmp_path: Path, kind: ErrorKind) -> None:
    """It fails like an agent that was refused."""
    result = ask({"build": {"error": kind, "message": "no"}}, tmp_path)
    assert result == AgentResult(AgentStatus.ERROR, error=AgentError(kind, "no"))


@pytest.mark.parametrize("wrapped", [False, True])
def test_an_error_can_say_when_to_retry(tmp_path: Path, *, wrapped: bool) -> None:
    """`retry_after` is what an agent would have said, even after a delay."""
    refusal: dict[str, object] = {"error": "quota", "retry_after": 3}
    result = ask({"build": {"delay": "1ms", "reply": refusal} if wrapped else refusal}, tmp_path)
    assert result.error == AgentError(ErrorKind.QUOTA, "the script says: quota", 3.0)


def test_a_reply_can_write_files(tmp_path: Path) -> None:
    """Files are written before the answer, in directories that are created for them."""
    script = {"build": {"write": {"src/new.py": "x = 1\r\n", "README": "é"}, "delay": "1ms", "reply": "done"}}
    assert ask(script, tmp_path).text == "done"
    assert (tmp_path / "src/new.py").read_bytes() == b"x = 1\r\n"
    assert (tmp_path / "README").read_text(encoding="utf-8") == "é"


def test_writing_needs_no_reply(tmp_path: Path) -> None:
    """The answer is then that of a stage without an entry."""
    assert ask({"build": {"write": {"a": "b"}}}, tmp_path).text == "Completed: build"


def test_a_link_cannot_lead_out(tmp_path: Path) -> None:
    """A file that would be outside is refused, and none of the others is written."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    (cwd / "out").symlink_to(tmp_path)
    result = ask({"build": {"write": {"fine": "x", "out/evil": "x"}}}, tmp_path, cwd=cwd)
    assert result.error is not None
    assert result.error.kind is ErrorKind.DENIED
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["cwd", "out"]


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """A directory in its place, half a character, a loop of links: an error of the script, not an exception."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    for files in ({"taken": "x"}, {"a": "\ud800"}, {"loop/b": "x"}):
        result = ask({"build": {"write": files}}, tmp_path)
        assert result.error is not None
        assert result.error.kind is ErrorKind.CONFIG


def test_events_are_emitted(tmp_path: Path) -> None:
    """The start and the text."""
    events: list[AgentEvent] = []
    request = AgentRequest("build", 1, 1, "", tmp_path, tmp_path)
    asyncio.run(ScriptedBackend(load_script('{"build": "hello"}')).run(request, events.append))
    assert events == [AgentEvent("started"), AgentEvent("text", "hello")]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("{", ["not JSON"]),
        ("[" * 100_000, ["not JSON"]),
        ('{"a": NaN}', ["NaN"]),
        ('{"a": "x", "a": "y"}', ['"a"']),
        ("[]", ["object"]),
        ('{"rev": []}', ['"rev"', "empty"]),
        ('{"rev": 3}', ['"rev"', "3"]),
        ('{"rev": ["fine", null]}', ['"rev", visit 2', "null"]),
        ('{"rev": [["x"]]}', ['"rev", visit 1', '["x"]']),
        ('{"rev": {"delay": 2, "reply": "x"}}', ['"rev"', '"delay"', "2"]),
        ('{"rev": {"delay": "2 sec", "reply": "x"}}', ['"rev"', '"delay"', '"2 sec"']),
        ('{"rev": {"delay": "2s", "reply": true}}', ['"rev"', "true"]),
        ('{"rev": {"delay": "2s", "status": "fail"}}', ['"status"', "delay, write, reply"]),
        ('{"rev": {"error": "tired"}}', ['"tired"', "'auth', 'quota', 'rate_limit'"]),
        ('{"rev": {"error": "auth", "message": 1}}', ['"message"', "1"]),
        ('{"rev": {"error": "quota", "retry_after": "3s"}}', ['"retry_after"', '"3s"']),
        ('{"rev": {"error": "quota", "retry_after": -1}}', ['"retry_after"', "-1"]),
        ('{"rev": {"error": "quota", "retry_after": true}}', ['"retry_after"', "true"]),
        ('{"rev": {"error": "quota", "retry_after": 1e99}}', ['"retry_after"', "1e+99"]),
        ('{"rev": {"write": ["x"]}}', ['"rev"', '"write"']),
        ('{"rev": {"write": {"../x": ""}}}', ['"write"', '"../x"']),
        ('{"rev": {"write": {"/x": ""}}}', ['"write"', '"/x"']),
        ('{"rev": {"write": {".": ""}}}', ['"write"', '"."']),
        ('{"rev": {}}', ['"rev"', '"status"', "missing"]),
        ('{"rev": {"status": "passed"}}', ['"status"', "'success', 'fail'", '"passed"']),
        ('{"rev": {"status": "fail", "resaon": "x"}}', ['"resaon"', "status, reason"]),
        ('{"rev": {"status": "fail", "reason": ["x"]}}', ['"reason"', '["x"]']),
        ('{"rev": {"status": "fail", "context_updates": []}}', ['"context_updates"', "[]"]),
        ('{"rev": {"status": "fail", "usage": 1}}', ['"usage"', "1"]),
        ('{"rev": {"status": "fail", "usage": {"tokens": 1}}}', ['"usage.tokens"', "input_tokens"]),
        ('{"rev": {"status": "fail", "usage": {"input_tokens": 1.5}}}', ['"usage.input_tokens"', "integer", "1.5"]),
        ('{"rev": {"status": "fail", "usage": {"cost_usd": -1}}}', ['"usage.cost_usd"', "-1"]),
        ('{"rev": {"status": "fail", "usage": {"input_tokens": true}}}', ['"usage.input_tokens"', "true"]),
    ],
)
def test_a_wrong_script_is_refused(text: str, named: list[str]) -> None:
    """The stage, the key and the value that are wrong are named before anything runs."""
    with pytest.raises(AwfError) as refused:
        load_script(text)
    assert [words for words in named if words not in refused.value.message] == []
