"""Agents that speak the Agent Client Protocol: real programs, over real pipes."""

import asyncio
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.conftest import PATH, Bench, alive, eventually

from pipeline.backends.agents import acp
from pipeline.backends.agents.acp import AcpBackend
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import (
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentSession,
    AgentStatus,
    ErrorKind,
    RequestLimits,
)
from pipeline.language.model import Access
from pipeline.redaction import Redactor, Secret

AGENT = (sys.executable, str(Path(__file__).with_name("acp_agent.py")))
MODELS = {
    "configOptions": [
        {"id": "m", "category": "model", "type": "select", "options": [{"value": "small"}, {"value": "large"}]},
        {"id": "t", "category": "thought_level", "type": "select", "options": [{"options": [{"value": "high"}]}]},
    ]
}


def request(bench: Bench, steps: Any, **options: Any) -> AgentRequest:
    """A request whose prompt is what the agent shall do."""
    defaults = {"stage": "build", "visit": 1, "attempt": 1, "prompt": json.dumps(steps)}
    there = {"cwd": bench.cwd, "artifacts": bench.artifacts, "env": {"PATH": PATH}}
    return AgentRequest(**{**defaults, **there, **options})


def backend(bench: Bench, *flags: str, **options: Any) -> AcpBackend:
    """The backend with the test's agent."""
    return AcpBackend((*AGENT, *flags), bench.label, **options)


def ask(bench: Bench, *steps: list[Any], flags: tuple[str, ...] = (), **options: Any) -> AgentResult:
    """What the agent answers."""
    return asyncio.run(backend(bench, *flags).run(request(bench, steps, **options), lambda _: None))


def error_of(result: AgentResult) -> tuple[ErrorKind, str]:
    """How and why a request failed."""
    assert result.status is AgentStatus.ERROR
    assert result.error is not None
    return result.error.kind, result.error.message


def test_the_answer_is_what_is_said_after_the_last_tool_call(bench: Bench) -> None:
    """Banners, thoughts and remarks while working are not the answer; every line and tool is shown."""
    steps = [["say", "pi v1\n---\n"], ["think", "hm"], ["tool", "edit", "Write a"], ["say", "do"], ["say", "ne\nall"]]
    events: list[AgentEvent] = []
    result = asyncio.run(backend(bench).run(request(bench, steps), events.append))
    assert (result.status, result.text, result.error) == (AgentStatus.OK, "done\nall", None)
    assert (result.version, result.session, result.exit_code) == ("1.2", None, 0)
    assert [(event.kind, event.text) for event in events] == [
        ("started", ""),
        *(("tool_start", "Write a"), ("tool_end", "Write a")),
        *(("text", line) for line in ("done", "all")),
    ]


# What real adapters sent as their answer, by their name.
CODEX, CLAUDE = "@agentclientprotocol/codex-acp", "@agentclientprotocol/claude-agent-acp"
OTHER = "a fork of pi-acp"
BANNER = "pi v0.87.1\n---\n"
WARNING = "Warning: Model metadata for `gpt-5` not found. Defaulting to fallback metadata; this can cause issues.\n\n"
DEMAND = "We’re currently experiencing high demand, which may cause temporary errors.\n\n"
MISSING = "unexpected status 404 Not Found: no such model, url: http://127.0.0.1:1/v1/responses\n\n"
SPENT = {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120}
UNSPENT = {"inputTokens": 0, "outputTokens": 0, "totalTokens": 0}


@pytest.mark.parametrize(
    ("name", "chunks", "usage", "kind"),
    [
        (OTHER, [BANNER], None, ErrorKind.EMPTY),
        (OTHER, [BANNER, "Retrying (attempt 1/3, waiting 2s)...", "Retry finished, resuming."], None, ErrorKind.EMPTY),
        (OTHER, [BANNER, "API Error: 401 wrong key"], None, ErrorKind.AUTH),
        (CODEX, [WARNING, DEMAND], None, ErrorKind.SERVER),
        (CODEX, [WARNING, MISSING], None, ErrorKind.NOT_FOUND),
        (CODEX, [WARNING], SPENT, ErrorKind.EMPTY),
        (CODEX, [WARNING, "something that no model said"], None, ErrorKind.EMPTY),
        (CLAUDE, ["Failed to authenticate. API Error: 401 wrong key"], UNSPENT, ErrorKind.AUTH),
        ("OpenCode", ["something that no model said"], UNSPENT, ErrorKind.EMPTY),
    ],
)
def test_an_answer_that_no_model_gave_is_an_error(
    bench: Bench, name: str, chunks: list[str], usage: dict[str, int] | None, kind: ErrorKind
) -> None:
    """A banner, a warning or an error text of an adapter that ends its turn as if all were well."""
    steps: list[list[Any]] = [["say", chunk] for chunk in chunks]
    result = ask(bench, *steps, ["usage", usage], flags=("--name", name))
    assert error_of(result)[0] is kind


@pytest.mark.parametrize(("small", "kind"), [("false", ErrorKind.INVALID), ("true", None)])
def test_an_answer_to_a_summary_of_the_prompt_is_an_error(bench: Bench, small: str, kind: ErrorKind | None) -> None:
    """A refused prompt is replaced by a summary, says the log of opencode; a refused request for a title is not."""
    log = f'level=ERROR message="stream error" small={small} error.error="Your input exceeds the context window."'
    result = ask(bench, ["complain", log], ["say", "Fine."], ["usage", SPENT], flags=("--name", "opencode"))
    assert (result.error and result.error.kind) == kind


@pytest.mark.parametrize(("name", "besides"), [(OTHER, BANNER), (CODEX, WARNING)])
def test_what_an_adapter_says_besides_is_not_part_of_the_answer(bench: Bench, name: str, besides: str) -> None:
    """The answer is the model's alone."""
    steps: list[list[Any]] = [["say", besides], ["say", "Error: "], ["say", "fixed"], ["usage", SPENT]]
    result = ask(bench, *steps, flags=("--name", name))
    assert (result.status, result.text) == (AgentStatus.OK, "Error: fixed")


@pytest.mark.parametrize(
    ("status", "kind"), [("systemError", ErrorKind.SERVER), ("idle", None)], ids=["failed", "recovered"]
)
def test_an_error_of_codex_is_not_an_answer_even_if_tokens_were_used(
    bench: Bench, status: str, kind: ErrorKind | None
) -> None:
    """Its adapter ends the turn with the error as the answer, and says in a notice that the thread has failed."""
    notices = [{"_meta": {"codex": {"threadStatus": {"type": name}}}} for name in ("systemError", "active", status)]
    steps = [["update", "session_info_update", notice] for notice in notices]
    result = ask(bench, *steps, ["say", DEMAND], ["usage", SPENT], flags=("--name", CODEX))
    assert (result.error and result.error.kind) is kind


def test_a_repeated_request_answers_anew(bench: Bench) -> None:
    """What was said before the connection broke is not part of the answer."""
    retry = {"_meta": {"codex": {"error": {"willRetry": True, "message": "Reconnecting... 1/5"}}}}
    assert ask(bench, ["say", "ha"], ["update", "session_info_update", retry], ["say", "half"]).text == "half"


class PiRecord:
    """A home directory that says where pi records a session, and requests to its adapter."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.path = bench.cwd / "session.jsonl"
        self.map = bench.cwd / ".pi" / "pi-acp" / "session-map.json"
        self.map.parent.mkdir(parents=True)
        self.map.write_text(json.dumps({"sessions": {"s-1": {"sessionFile": str(self.path)}}}))

    def ask(self, *steps: list[Any], **options: Any) -> AgentResult:
        """What the adapter answers, while it records nothing by itself."""
        env = {"PATH": PATH, "HOME": str(self._bench.cwd)}
        return ask(self._bench, *steps, flags=("--name", "pi-acp"), env=env, **options)

    def recorded(self, *answers: dict[str, Any]) -> list[Any]:
        """The step that records answers of the model."""
        return ["record", str(self.path), *({"role": "assistant", **answer} for answer in answers)]


@pytest.fixture
def pi(bench: Bench) -> PiRecord:
    """Where pi-acp expects the record of its session."""
    return PiRecord(bench)


REFUSED = {"content": [], "stopReason": "error", "errorMessage": "401: wrong key"}
TORN = {"content": [{"type": "text", "text": "ha"}], "stopReason": "error", "errorMessage": "terminated"}
CUT = {"content": [{"type": "text", "text": "ha"}], "stopReason": "length"}
WHOLE = {
    "content": [{"type": "text", "text": "half"}],
    "stopReason": "stop",
    "usage": {"input": 9, "output": 2, "cost": {"total": 0.5}},
}


@pytest.mark.parametrize(
    ("said", "answers", "kind"),
    [
        ([BANNER], [REFUSED], ErrorKind.AUTH),
        (["ha", "ha"], [TORN, TORN], ErrorKind.NETWORK),
        (["ha"], [CUT], ErrorKind.PROTOCOL),
        ([BANNER], [{"content": [], "stopReason": "stop"}], ErrorKind.EMPTY),
        (["half"], [], ErrorKind.PROTOCOL),
    ],
    ids=["refused", "torn", "cut off", "empty", "no record"],
)
def test_pi_is_judged_by_its_record(
    pi: PiRecord, said: list[str], answers: list[dict[str, Any]], kind: ErrorKind
) -> None:
    """Its adapter ends every turn as if all were well."""
    steps: list[list[Any]] = [["say", text] for text in said]
    assert error_of(pi.ask(*steps, *([pi.recorded(*answers)] if answers else [])))[0] is kind


def test_the_answer_and_usage_of_pi_are_those_of_its_record(pi: PiRecord) -> None:
    """Without what was recorded for earlier prompts and repeated requests."""
    pi.path.write_text(json.dumps({"type": "message", "message": {"role": "assistant", **WHOLE}}) + "\n")
    result = pi.ask(["say", "ha"], ["say", "half"], pi.recorded(TORN, WHOLE))
    assert (result.status, result.text) == (AgentStatus.OK, "half")
    assert result.usage == Usage(input_tokens=9, output_tokens=2, cost_usd=0.5)


def test_pi_that_runs_out_of_time_keeps_the_cause_in_its_record(pi: PiRecord) -> None:
    """Its adapter does not say why it retries."""
    retry = "Retrying (attempt 1/3, waiting 2s)..."
    result = pi.ask(pi.recorded(REFUSED), ["say", retry], ["wait"], limits=RequestLimits(timeout=2.0))
    assert error_of(result)[0] is ErrorKind.AUTH


@pytest.mark.parametrize("text", ["", "{}", '{"sessions": {"s-1": {"sessionFile": 1}}}'])
def test_pi_without_a_record_is_not_asked(pi: PiRecord, text: str) -> None:
    """Its answer could not be told from an error."""
    pi.map.write_text(text)
    result = pi.ask(["say", "fine"])
    assert error_of(result)[0] is ErrorKind.CONFIG
    assert result.text == ""


def test_gemini_reports_its_usage_elsewhere_and_does_not_continue_a_session(bench: Bench) -> None:
    """It would empty a session that is loaded in the minute of its start."""
    quota = {"quota": {"token_count": {"input_tokens": 10, "output_tokens": 5}}}
    result = ask(bench, ["say", "done"], ["result", {"_meta": quota}], flags=("--load", "--name", "gemini-cli"))
    assert (result.usage, result.session) == (Usage(input_tokens=10, output_tokens=5), None)


def test_the_tokens_of_opencode_are_unknown_after_a_tool_call(bench: Bench) -> None:
    """It reports those of its last request only, but all that the session cost."""
    steps: list[list[Any]] = [["say", "done"], ["cost", 0.25], ["usage", SPENT]]
    assert ask(bench, *steps, flags=("--name", "OpenCode")).usage == Usage(
        input_tokens=100, output_tokens=20, cost_usd=0.25
    )
    assert ask(bench, ["tool", "read", "Read"], *steps, flags=("--name", "OpenCode")).usage == Usage(cost_usd=0.25)


def test_an_agent_that_has_reported_usage_is_expected_to_do_so_again(bench: Bench) -> None:
    """Whatever its name."""
    agent = backend(bench)
    answers = [[["say", "fine"], ["usage", SPENT]], [["say", "fine"]]]
    results = [asyncio.run(agent.run(request(bench, steps), lambda _: None)) for steps in answers]
    assert [result.status for result in results] == [AgentStatus.OK, AgentStatus.ERROR]
    assert error_of(results[1])[0] is ErrorKind.EMPTY


def test_retries_of_claude_are_bounded(bench: Bench) -> None:
    """Otherwise its adapter is silent for minutes after a refused key; what the user says precedes."""
    name = "CLAUDE_CODE_MAX_RETRIES"
    assert ask(bench, ["env", name]).text == "5"
    assert ask(bench, ["env", name], env={"PATH": PATH, name: "1"}).text == "1"


def test_a_silent_agent_keeps_the_cause_of_its_last_failed_request(bench: Bench) -> None:
    """What it retried is why it was silent."""
    error = {"willRetry": True, "message": "Reconnecting... 1/5", "additionalDetails": "unexpected status 503"}
    steps: list[list[Any]] = [["update", "session_info_update", {"_meta": {"codex": {"error": error}}}], ["wait"]]
    kind, words = error_of(ask(bench, *steps, limits=RequestLimits(idle=0.5)))
    assert (kind, "status 503" in words) == (ErrorKind.SERVER, True)


def test_an_agent_whose_requests_keep_failing_is_stopped(bench: Bench) -> None:
    """It is not waited for until a limit is reached."""
    retries = [["complain", f"Attempt {number} failed with status 429. Retrying"] for number in range(60)]
    kind, words = error_of(ask(bench, *retries, ["wait"]))
    assert (kind, "51 failed requests" in words) == (ErrorKind.RATE_LIMIT, True)


def test_an_agent_that_has_answered_may_exit_by_itself(bench: Bench) -> None:
    """It may have a session to write."""
    ask(bench, ["say", "done"], ["leave_slowly"])
    assert (bench.cwd / "left").exists()


def test_raw_output_is_kept(bench: Bench) -> None:
    """The raw frames and the standard error are in the artifacts."""
    ask(bench, ["say", "hello"], ["complain", "careful"])
    frames = [json.loads(line) for line in (bench.artifacts / "stdout.log").read_text().splitlines()]
    assert frames[-1] == {"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn"}}
    assert (bench.artifacts / "stderr.log").read_text() == "careful\n"


def test_what_is_kept_has_no_secret(bench: Bench) -> None:
    """A key is taken out of the raw frames and the standard error, but not out of a file that the agent writes."""
    key = "planted-value-of-a-key"
    steps = [["complain", key], ["ask", "fs/write_text_file", {"path": "a.txt", "content": key}]]
    redactor = Redactor((Secret("MY_KEY", key),))
    asyncio.run(backend(bench, redactor=redactor).run(request(bench, steps), lambda _: None))
    assert (bench.cwd / "a.txt").read_text() == key
    for name in ("stdout.log", "stderr.log"):
        kept = (bench.artifacts / name).read_text()
        assert ("[redacted MY_KEY]" in kept, key in kept) == (True, False)


@pytest.mark.parametrize(
    ("access", "allowed"),
    [
        (Access.CODING, {"read", "search", "edit", "delete", "execute", "fetch", "other"}),
        (Access.READ_ONLY, {"read", "search"}),
        (Access.NONE, set[str]()),
    ],
)
def test_permission_goes_by_access(bench: Bench, access: Access, allowed: set[str]) -> None:
    """Each kind of tool is allowed once, or rejected and named among the denied."""
    kinds = ["read", "search", "edit", "delete", "execute", "fetch", "other"]
    events: list[AgentEvent] = []
    asked = request(bench, [["permit", kind, f"T {kind}"] for kind in kinds], access=access)
    result = asyncio.run(backend(bench).run(asked, events.append))
    said = [event.text for event in events if event.kind == "text"]
    assert said == ["yes" if kind in allowed else "no" for kind in kinds]
    assert result.denied == tuple(f"T {kind}" for kind in kinds if kind not in allowed)
    assert not [event for event in events if event.kind == "warning"]


def test_a_tool_that_did_not_ask_is_a_warning(bench: Bench) -> None:
    """An agent that writes without asking in a stage that may not write gets a warning."""
    events: list[AgentEvent] = []
    steps = [["tool", "edit", "Write a"], ["tool", "read", "Read a"], ["say", "done"]]
    asyncio.run(backend(bench).run(request(bench, steps, access=Access.READ_ONLY), events.append))
    warnings = [event.text for event in events if event.kind == "warning"]
    assert warnings == ['"Write a" (edit) ran without permission in a stage with read-only access']


def test_without_an_option_to_reject_it_is_cancelled(bench: Bench) -> None:
    """If only yes is offered, the call is cancelled."""
    only = {"toolCall": {"toolCallId": "c"}, "options": [{"optionId": "y", "kind": "allow_once"}]}
    result = ask(bench, ["ask", "session/request_permission", only], access=Access.NONE)
    assert json.loads(result.text) == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.parametrize(
    ("access", "reads", "writes"),
    [(Access.CODING, True, True), (Access.READ_ONLY, True, False), (Access.NONE, False, False)],
)
def test_files_go_by_access(bench: Bench, access: Access, reads: bool, writes: bool) -> None:  # noqa: FBT001 - a table
    """What is offered is granted; what is not offered is refused if it is requested anyway."""
    (bench.cwd / "a.txt").write_text("one\ntwo\nthree\n")
    new = bench.cwd / "deep" / "b.txt"
    offered = ask(bench, ["settings"], access=access).text
    assert json.loads(offered) == [{"fs": {"readTextFile": reads, "writeTextFile": writes}, "terminal": False}]
    part = {"path": str(bench.cwd / "a.txt"), "line": 2, "limit": 1}
    read = ask(bench, ["ask", "fs/read_text_file", part], access=access)
    assert (json.loads(read.text) == {"content": "two\n"}) is reads
    written = ask(bench, ["ask", "fs/write_text_file", {"path": str(new), "content": "neu\r\n"}], access=access)
    assert (json.loads(written.text) == {}) is writes
    assert written.denied == (() if writes else ("fs/write_text_file",))
    assert (new.read_bytes() == b"neu\r\n") if writes else not new.parent.exists()


@pytest.mark.parametrize("name", ["../out.txt", "/etc/passwd", "link/out.txt", "nul\0"])
@pytest.mark.parametrize("method", ["fs/read_text_file", "fs/write_text_file"])
def test_no_file_outside_is_touched(bench: Bench, method: str, name: str) -> None:
    """Neither by name nor by a link does a path lead out of the directory."""
    outside = bench.cwd.parent / "out.txt"
    outside.write_text("secret")
    (bench.cwd / "link").symlink_to(bench.cwd.parent)
    result = ask(bench, ["ask", method, {"path": name, "content": "bad"}])
    answer = json.loads(result.text)
    assert answer["code"] == -32602
    assert ("is outside" in answer["message"]) is ("\0" not in name)
    assert outside.read_text() == "secret"
    assert result.denied == (name,)


def test_an_unreadable_file_is_an_error_for_the_agent(bench: Bench) -> None:
    """The agent gets an error, and continues."""
    (bench.cwd / "binary").write_bytes(b"\xff\xfe")
    (bench.cwd / "directory").mkdir()
    asked = [
        ("fs/read_text_file", {"path": "binary"}, -32603),
        ("fs/read_text_file", {"path": "directory"}, -32602),
        ("fs/read_text_file", {"path": "missing"}, -32602),
        ("fs/write_text_file", {"path": "directory", "content": ""}, -32603),
        ("fs/read_text_file", {}, -32602),
        ("terminal/create", {"command": "sh"}, -32601),
    ]
    events: list[AgentEvent] = []
    steps = [step for method, params, _ in asked for step in (["ask", method, params], ["say", "\n"])]
    assert asyncio.run(backend(bench).run(request(bench, steps), events.append)).status is AgentStatus.OK
    codes = [json.loads(event.text)["code"] for event in events if event.kind == "text"]
    assert codes == [code for _, _, code in asked]


def test_a_large_frame_arrives(bench: Bench) -> None:
    """An update or a prompt may have megabytes."""
    result = ask(bench, ["big", 3_000_000], ["say", "y" * 300_000])
    assert (len(result.text), result.text[-1], result.status) == (3_300_000, "y", AgentStatus.OK)


def test_a_line_separator_is_part_of_a_line(bench: Bench) -> None:
    """Only LF ends a frame."""
    assert ask(bench, ["say", "a\N{LINE SEPARATOR}b\x85c"]).text == "a\N{LINE SEPARATOR}b\x85c"


def test_the_agent_has_the_request_s_variables_only(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What awf itself was started with does not reach it."""
    monkeypatch.setenv("PLANTED", "ours")
    assert ask(bench, ["env", "PLANTED"]).text == "nothing"
    assert ask(bench, ["env", "PLANTED"], env={"PATH": PATH, "PLANTED": "given"}).text == "given"


def test_a_cancelled_request_leaves_no_process(bench: Bench) -> None:
    """The agent is asked to stop, and what left its session is gone when the cancellation is raised."""

    async def cancel() -> None:
        steps = [["grandchild"], ["wait"]]
        task = asyncio.create_task(backend(bench).run(request(bench, steps), lambda _: None))
        await asyncio.to_thread(eventually, (bench.cwd / "pid").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not bench.left()

    asyncio.run(cancel())
    assert (bench.cwd / "cancelled").exists()


def test_an_agent_that_does_not_stop_is_killed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The protocol is tried first, then everything that it started is killed."""
    monkeypatch.setattr(acp, "GRACE", 0.1)
    asked = request(bench, [["grandchild"], ["deaf"]], limits=RequestLimits(idle=2.0))
    result = asyncio.run(backend(bench).run(asked, lambda _: None))
    assert (result.status, (bench.cwd / "deaf").exists()) == (AgentStatus.IDLE, True)
    assert not alive(bench.pid())


@pytest.mark.parametrize(
    ("limits", "status"),
    [(RequestLimits(timeout=2.0), AgentStatus.TIMEOUT), (RequestLimits(idle=2.0), AgentStatus.IDLE)],
)
def test_a_limit_has_its_status(bench: Bench, limits: RequestLimits, status: AgentStatus) -> None:
    """Taking too long and being silent for too long differ; the agent is asked to stop, and its text is kept."""
    result = ask(bench, ["say", "half"], ["permit_when_cancelled"], limits=limits)
    assert (result.status, result.text, result.error) == (status, "half", None)
    assert json.loads((bench.cwd / "late").read_text()) == {"outcome": {"outcome": "cancelled"}}


def test_an_agent_that_exits_early_is_an_error(bench: Bench) -> None:
    """With its exit code and last words, or the signal."""
    kind, words = error_of(ask(bench, ["say", "half"], ["complain", "401 no key"], ["die", 3]))
    assert (kind, words) == (ErrorKind.AUTH, f'"{sys.executable}" exited with code 3: 401 no key')
    kind, words = error_of(ask(bench, ["kill", signal.SIGKILL]))
    assert (kind, words) == (ErrorKind.KILLED, f'"{sys.executable}" was killed by SIGKILL')
    kind, words = error_of(ask(bench, ["die", 0]))
    assert (kind, words) == (ErrorKind.PROTOCOL, f'"{sys.executable}" exited without reporting how it ended')


def test_an_agent_that_prints_its_help_instead_lacks_a_flag(bench: Bench) -> None:
    """Before the prompt, an agent's help on standard error is a rejected flag; later it is just what it says."""
    assert error_of(ask(bench, flags=("--help-instead",)))[0] is ErrorKind.BAD_FLAG
    assert error_of(ask(bench, ["complain", "  --acp  Be an agent [boolean]"], ["die", 1]))[0] is ErrorKind.UNKNOWN


def test_a_program_that_is_not_an_agent_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that prints something else and ends, one that says nothing, and one of another version."""
    kind, _ = error_of(ask(bench, flags=("--garbage",)))
    assert kind is ErrorKind.PROTOCOL
    kind, words = error_of(ask(bench, flags=("--speaks", "2")))
    assert (kind, words) == (ErrorKind.PROTOCOL, "the agent speaks ACP version 2; version 1 is needed")
    monkeypatch.setattr(acp, "START_TIMEOUT", 0.5)
    monkeypatch.setattr(acp, "GRACE", 0.2)
    silent = backend(bench, "--silent")
    kind, words = error_of(asyncio.run(silent.run(request(bench, []), lambda _: None)))
    assert (kind, "0.5 seconds" in words) == (ErrorKind.PROTOCOL, True)


def test_warnings_between_frames_are_ignored(bench: Bench) -> None:
    """A program prints more than its protocol."""
    noise = [["raw", "Warning: old"], ["raw", "42"], ["raw", '{"id": 77, "result": 1}'], ["raw", '{"method": "x/y"}']]
    assert ask(bench, *noise, ["say", "done"]).text == "done"


def test_a_malformed_message_is_an_error(bench: Bench) -> None:
    """A malformed message is never ignored."""
    kind, words = error_of(ask(bench, ["raw", '{"method": "session/update", "params": {}}'], ["wait"]))
    assert (kind, "malformed message" in words) == (ErrorKind.PROTOCOL, True)


@pytest.mark.parametrize(
    ("steps", "offers"),
    [
        ([["usage", {"in": 1}]], {}),
        ([], {"configOptions": [1]}),
        ([], {"sessionId": None}),
        ([], {"modes": 1}),
        ([["fail", {"code": "one", "message": "no"}]], {}),
        ([["fail", {"message": "no"}]], {}),
    ],
)
def test_a_malformed_answer_is_an_error(bench: Bench, steps: Any, offers: dict[str, Any]) -> None:
    """In every phase of the session."""
    flags = ("--offers", json.dumps(offers))
    options = {"model": "m", "access": Access.READ_ONLY} if offers else {}
    kind, words = error_of(ask(bench, ["say", "done"], *steps, flags=flags, **options))
    assert kind is ErrorKind.PROTOCOL
    assert "malformed" in words


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": -32603, "message": "Internal error", "data": {"details": "API 401: no key"}}, ErrorKind.AUTH),
        ({"code": -32000, "message": "please sign in"}, ErrorKind.AUTH),
        ({"code": 429, "message": "slower"}, ErrorKind.RATE_LIMIT),
        ({"code": 503, "message": "busy"}, ErrorKind.SERVER),
        ({"code": 500, "message": "terminated"}, ErrorKind.NETWORK),
        ({"code": 500, "message": "oops"}, ErrorKind.SERVER),
        ({"code": -32602, "message": "no"}, ErrorKind.INVALID),
        ({"code": -32601, "message": "no"}, ErrorKind.PROTOCOL),
        ({"code": -32603, "message": "no"}, ErrorKind.UNKNOWN),
    ],
)
def test_an_error_of_the_agent_has_its_kind(bench: Bench, error: dict[str, Any], kind: ErrorKind) -> None:
    """By an HTTP status as its code, by its words, else by its code."""
    found, words = error_of(ask(bench, ["fail", error]))
    assert found is kind
    assert words.startswith(error["message"])


@pytest.mark.parametrize(
    ("words", "log"),
    [
        ("killed by SIGKILL, which usually means it ran out of memory", ""),
        ("it exited", "terminated by signal SIGKILL"),
    ],
)
def test_a_killed_program_behind_an_adapter_is_named(bench: Bench, words: str, log: str) -> None:
    """The adapter itself lives on, and reports it in its error or on its standard error."""
    assert error_of(ask(bench, ["complain", log], ["fail", {"code": 1001, "message": words}]))[0] is ErrorKind.KILLED


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("refusal", ErrorKind.DENIED),
        ("max_tokens", ErrorKind.PROTOCOL),
        ("max_turn_requests", ErrorKind.PROTOCOL),
        ("cancelled", ErrorKind.KILLED),
        ("bored", ErrorKind.PROTOCOL),
    ],
)
def test_only_the_end_of_a_turn_is_a_good_end(bench: Bench, reason: str, kind: ErrorKind) -> None:
    """Any other stop reason is an error, with the text so far."""
    result = ask(bench, ["say", "half"], ["stop", reason])
    assert error_of(result)[0] is kind
    assert result.text == "half"


def test_an_empty_answer_is_an_error(bench: Bench) -> None:
    """Text before the last tool call is not an answer."""
    kind, words = error_of(ask(bench, ["say", "I will"], ["tool", "read", "Read"]))
    assert (kind, words) == (ErrorKind.EMPTY, f'"{sys.executable}" returned an empty answer')


@pytest.mark.parametrize(
    ("usage", "read"),
    [
        ({"totalTokens": 15, "inputTokens": 10, "outputTokens": 5}, 10),
        ({"totalTokens": 22, "inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 7}, 17),
        ({"totalTokens": 15, "inputTokens": 10, "outputTokens": 5, "cachedReadTokens": 7}, 10),
    ],
)
def test_usage_is_reported(bench: Bench, usage: dict[str, int], read: int) -> None:
    """Cached tokens are input, whether or not the agent counts them as such."""
    events: list[AgentEvent] = []
    steps = [["say", "done"], ["cost", 0.25], ["usage", usage]]
    result = asyncio.run(backend(bench).run(request(bench, steps), events.append))
    expected = Usage(input_tokens=read, output_tokens=5, cost_usd=0.25)
    assert result.usage == expected
    assert [event.usage for event in events if event.kind == "usage"] == [expected]


def test_no_usage_is_unknown(bench: Bench) -> None:
    """If the agent reports none."""
    assert ask(bench, ["say", "done"]).usage is None


def test_a_session_is_continued(bench: Bench) -> None:
    """Its past is not the answer, and only the cost since then is that of this request."""
    first = ask(bench, ["say", "one"], ["cost", 0.25], flags=("--load",))
    assert first.session == AgentSession("s-1", Usage(cost_usd=0.25))
    earlier = AgentSession("s-7", Usage(cost_usd=0.25))
    second = ask(bench, ["say", "two"], ["cost", 0.75], flags=("--load",), session=earlier)
    assert (second.text, second.usage) == ("two", Usage(cost_usd=0.5))
    assert second.session == AgentSession("s-7", Usage(cost_usd=0.75))
    anew = ask(bench, ["say", "three"], ["cost", 0.125], flags=("--load",), session=earlier)
    assert anew.usage == Usage(cost_usd=0.125)


def test_an_agent_that_cannot_continue_a_session_is_an_error(bench: Bench) -> None:
    """A new session is never started silently."""
    kind, words = error_of(ask(bench, ["say", "two"], session=AgentSession("s-7")))
    assert (kind, words[:35]) == (ErrorKind.CONFIG, "the agent cannot continue a session")


def test_the_model_is_chosen_where_it_is_offered(bench: Bench) -> None:
    """By the session's options, or the way older agents offer it; a model that is not offered is an error."""
    offers = ("--offers", json.dumps(MODELS))
    chosen = ask(bench, ["settings"], flags=offers, model="large", reasoning_effort="high").text
    assert json.loads(chosen)[1:] == [["m", "large"], ["t", "high"]]
    older = ("--offers", json.dumps({"models": {"availableModels": [{"modelId": "large"}]}}))
    assert json.loads(ask(bench, ["settings"], flags=older, model="large").text)[1:] == ["large"]
    several = ("--offers", json.dumps({"models": {"availableModels": [{"modelId": "mine/large"}]}}))
    chosen = ask(bench, ["settings"], flags=several, model="large", provider="mine").text
    assert json.loads(chosen)[1:] == ["mine/large"]
    kind, words = error_of(ask(bench, flags=offers, model="huge"))
    assert (kind, words) == (ErrorKind.NOT_FOUND, 'the agent does not offer the model "huge", only small, large')


def test_a_choice_that_is_not_offered_is_a_warning(bench: Bench) -> None:
    """The run continues with the agent's own model."""
    events: list[AgentEvent] = []
    asked = request(bench, [["say", "done"]], model="large")
    assert asyncio.run(backend(bench).run(asked, events.append)).status is AgentStatus.OK
    warnings = [event.text for event in events if event.kind == "warning"]
    assert warnings == ['the agent offers no choice of model: "large" was not set']


@pytest.mark.parametrize(("access", "modes"), [(Access.CODING, []), (Access.READ_ONLY, ["read-only"])])
def test_an_agent_s_own_read_only_mode_is_used(bench: Bench, access: Access, modes: list[str]) -> None:
    """Some agents do not ask for permission, but have a mode."""
    offers = json.dumps({"modes": {"availableModes": [{"id": "auto"}, {"id": "read-only"}]}})
    assert json.loads(ask(bench, ["settings"], flags=("--offers", offers), access=access).text)[1:] == modes


def test_opencode_is_restricted_by_its_configuration(bench: Bench) -> None:
    """It does not ask for permission: the mode with less access is one that its configuration defines."""
    offers = json.dumps({"configOptions": [{"id": "mode", "category": "mode", "options": [{"value": "awf"}]}]})
    opencode = bench.cwd / "opencode"
    opencode.write_text(f'#!/bin/sh\nexec {shlex.join(AGENT)} "$@"\n')
    opencode.chmod(0o755)
    agent = AcpBackend((str(opencode), "--offers", offers), bench.label)

    def answer(access: Access, *step: str) -> str:
        return asyncio.run(agent.run(request(bench, [step], access=access), lambda _: None)).text

    assert json.loads(answer(Access.READ_ONLY, "settings"))[1:] == [["mode", "awf"]]
    assert json.loads(answer(Access.CODING, "settings"))[1:] == []
    config = json.loads(answer(Access.NONE, "env", "OPENCODE_CONFIG_CONTENT"))
    assert config["agent"]["awf"]["permission"] == {"*": "deny"}
    assert "agent" not in json.loads(answer(Access.CODING, "env", "OPENCODE_CONFIG_CONTENT"))


def test_an_agent_that_cannot_be_started_is_an_error(bench: Bench) -> None:
    """A missing program, an empty command, and one that no program can be given."""
    for argv, why in ((("no-such-agent",), "was not found"), ((), "the command is empty"), (("a\0b",), "null byte")):
        result = asyncio.run(AcpBackend(argv, bench.label).run(request(bench, []), lambda _: None))
        kind, words = error_of(result)
        assert kind is ErrorKind.SPAWN
        assert why in words


def test_an_exception_of_an_observer_stops_the_agent(bench: Bench) -> None:
    """It is raised, and nothing is left running."""

    def refuse(event: AgentEvent) -> None:
        if event.kind == "text":
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(backend(bench).run(request(bench, [["say", "a\n"], ["wait"]]), refuse))


def test_the_protocol_s_own_sdk_understands_us(bench: Bench) -> None:
    """An agent built with the SDK gets its permissions and files, and its answer and usage arrive."""
    pytest.importorskip("acp", reason="the protocol's SDK, agent-client-protocol, is not installed")
    result = asyncio.run(backend(bench, "--kit").run(request(bench, ["Hi"]), lambda _: None))
    assert (result.status, result.error) == (AgentStatus.OK, None)
    assert result.text == 'yes ["Hi"]'
    assert (result.version, result.usage) == ("7", Usage(input_tokens=10, output_tokens=5))
    assert result.session == AgentSession("kit-1", Usage())


def test_the_variables_are_the_provider_s_and_the_user_s(bench: Bench) -> None:
    """A key reaches the agent by its name only."""
    names = AcpBackend((), bench.label, ("MY_DIR",)).variables("openai")
    assert {"OPENAI_API_KEY", "MY_DIR"} <= set(names)
