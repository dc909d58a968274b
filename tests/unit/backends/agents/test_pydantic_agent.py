"""Models called directly: scripted ones, and the providers' SDKs against a server on loopback."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.unit.backends.conftest import PATH, Bench, alive

from pipeline.backends.agents.api import ApiBackend
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentEvent, AgentRequest, AgentResult, AgentStatus, ErrorKind, RequestLimits
from pipeline.language.model import Access

pytest.importorskip("pydantic_ai", reason="the extra [api], pydantic-ai-slim, is not installed")

from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.test import TestModel as FixedModel

from pipeline.backends.agents import pydantic_agent
from pipeline.backends.agents.pydantic_agent import PydanticAgent

Step = str | tuple[str, dict[str, Any]]
KEYS = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY", "google": "GEMINI_API_KEY"}
ADDRESSES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "google": "GOOGLE_GEMINI_BASE_URL"}


def request(bench: Bench, **options: Any) -> AgentRequest:
    """A request."""
    defaults = {"stage": "build", "visit": 1, "attempt": 1, "prompt": "Do it."}
    there = {"cwd": bench.cwd, "artifacts": bench.artifacts, "env": {"PATH": PATH}}
    return AgentRequest(**{**defaults, **there, **options})


def scripted(*steps: Step, seen: list[Any] | None = None) -> Model:
    """A model that says a text or calls a tool at each turn; what its tools gave back is put into `seen`."""

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if seen is not None:
            seen.extend([tool.name for tool in info.function_tools] if not returned else [returned[0].content])
        step = steps[sum(isinstance(message, ModelResponse) for message in messages)]
        if isinstance(step, str):
            yield step
        else:
            yield {0: DeltaToolCall(step[0], json.dumps(step[1]), tool_call_id="c")}

    return FunctionModel(stream_function=answer)


def ask(bench: Bench, model: Model, events: list[AgentEvent] | None = None, **options: Any) -> AgentResult:
    """What a model answers."""
    heard: list[AgentEvent] = [] if events is None else events
    agent = PydanticAgent(model, request(bench, **options), heard.append, bench.processes)
    return asyncio.run(agent.run())


def error_of(result: AgentResult) -> tuple[ErrorKind, str]:
    """How and why a request failed."""
    assert result.status is AgentStatus.ERROR
    assert result.error is not None
    return result.error.kind, result.error.message


def test_the_answer_is_the_model_s_last_text(bench: Bench) -> None:
    """Texts, tools and usage are shown, and the answer is what follows the last tool."""
    (bench.cwd / "a.txt").write_text("content")
    events: list[AgentEvent] = []
    seen: list[Any] = []
    result = ask(bench, scripted(("read_file", {"path": "a.txt"}), "It says: content", seen=seen), events)
    assert (result.status, result.text, result.error) == (AgentStatus.OK, "It says: content", None)
    assert seen[-1] == "content"
    shown = [(event.kind, event.text) for event in events]
    assert shown[:-1] == [
        *(("tool_start", "read_file"), ("tool_end", "read_file")),
        ("text", "It says: content"),
    ]
    assert events[-1] == AgentEvent("usage", usage=result.usage)
    assert result.usage is not None
    assert result.usage.input_tokens
    assert result.usage.cost_usd is None


@pytest.mark.parametrize(
    ("access", "names"),
    [
        (Access.NONE, []),
        (Access.READ_ONLY, ["read_file", "list_files", "search"]),
        (Access.CODING, ["read_file", "list_files", "search", "write_file", "edit_file", "run_command"]),
    ],
)
def test_the_model_is_offered_what_its_access_gives(bench: Bench, access: Access, names: list[str]) -> None:
    """It knows of no other tool."""
    seen: list[Any] = []
    assert ask(bench, scripted("done", seen=seen), access=access).text == "done"
    assert seen == names


def test_a_write_in_a_stage_that_may_only_read_is_refused(bench: Bench) -> None:
    """A model that calls the tool all the same writes nothing."""
    call = ("write_file", {"path": "a.txt", "content": "bad"})
    ask(bench, scripted(call, "I tried"), access=Access.READ_ONLY)
    assert list(bench.cwd.iterdir()) == []


def test_a_coding_model_writes_edits_and_runs(bench: Bench) -> None:
    """All of it happens in the request's directory, and the shell has no key."""
    seen: list[Any] = []
    model = scripted(
        ("write_file", {"path": "a.sh", "content": "echo key=$OPENAI_API_KEY."}),
        ("edit_file", {"path": "a.sh", "old": "key", "new": "the key"}),
        ("run_command", {"command": "sh a.sh"}),
        "done",
        seen=seen,
    )
    env = {"PATH": PATH, "OPENAI_API_KEY": "planted"}
    assert ask(bench, model, provider="openai", env=env).status is AgentStatus.OK
    assert seen[-1] == "exit code 0\nthe key=.\n"


def test_a_path_that_leads_out_is_refused(bench: Bench) -> None:
    """The model learns why and continues; the result names what was refused."""
    (bench.cwd.parent / "out.txt").write_text("secret")
    seen: list[Any] = []
    result = ask(bench, scripted(("read_file", {"path": "../out.txt"}), "sorry", seen=seen))
    assert (result.text, result.denied) == ("sorry", ("../out.txt",))
    assert "is outside" in str(seen[-1])
    assert "secret" not in str(seen)


def test_every_tool_can_be_called(bench: Bench) -> None:
    """With what pydantic-ai's own test model makes up from the tools' descriptions."""
    result = ask(bench, FixedModel(call_tools=["list_files", "search", "read_file"], custom_output_text="done"))
    assert (result.status, result.text) == (AgentStatus.OK, "done")


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_answer_is_an_error(bench: Bench, text: str) -> None:
    """The model is not called again here."""
    assert error_of(ask(bench, scripted(text)))[0] is ErrorKind.EMPTY


@pytest.mark.parametrize("reason", ["length", None])
def test_an_answer_that_was_cut_short_is_an_error(bench: Bench, reason: str | None) -> None:
    """At the token limit, or because the stream broke; the text is kept."""
    with loopback(200, cut_short(reason)) as address:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address}
        backend = ApiBackend(bench.processes)
        asked = request(bench, provider="openai", model="m", access=Access.NONE, env=env)
        result = asyncio.run(backend.run(asked, lambda _: None))
    kind, words = error_of(result)
    assert kind is ErrorKind.PROTOCOL
    assert "cut off" in words
    assert (result.text, result.usage) == ("half", Usage(input_tokens=3, output_tokens=2))


def test_a_whole_answer_is_one(bench: Bench) -> None:
    """The provider says that the model stopped by itself."""
    with loopback(200, cut_short("stop")) as address:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address}
        result = ask_provider(bench, "openai", env, access=Access.NONE)
    assert (result.status, result.text) == (AgentStatus.OK, "half")


def test_an_endless_model_is_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """After as many turns as one request may take."""
    monkeypatch.setattr(pydantic_agent, "MAX_TURNS", 3)
    assert error_of(ask(bench, scripted(*[("list_files", {})] * 9)))[0] is ErrorKind.INVALID


def test_calling_a_tool_wrongly_again_and_again_is_an_error(bench: Bench) -> None:
    """A model that does not follow the protocol differs from one that fails."""
    kind, _ = error_of(ask(bench, scripted(*[("read_file", {"wrong": 1})] * 9)))
    assert kind is ErrorKind.PROTOCOL


def test_too_long_in_all_is_a_timeout(bench: Bench) -> None:
    """However much it says; and what its command started is gone."""
    command = "setsid sleep 1000 & echo $! >pid; while true; do echo on; sleep 0.1; done"
    events: list[AgentEvent] = []
    result = ask(
        bench, scripted(("run_command", {"command": command})), events, limits=RequestLimits(timeout=2.0, idle=60)
    )
    assert result == AgentResult(AgentStatus.TIMEOUT, usage=result.usage)
    assert not alive(bench.pid())


def test_silence_for_too_long_is_idle(bench: Bench) -> None:
    """What a command prints counts as a sign of life, silence does not."""
    talk = ("run_command", {"command": "for i in 1 2 3 4 5 6 7 8; do echo on; sleep 0.3; done"})
    assert ask(bench, scripted(talk, "done"), limits=RequestLimits(idle=2.0)).text == "done"
    hang = ("run_command", {"command": "sleep 1000"})
    assert ask(bench, scripted(hang), limits=RequestLimits(idle=0.5, timeout=60)).status is AgentStatus.IDLE


def test_a_cancelled_request_is_raised(bench: Bench) -> None:
    """Nothing of it is left running."""

    async def cancel() -> None:
        started = asyncio.Event()

        def observe(event: AgentEvent) -> None:
            if event.kind == "tool_start":
                started.set()

        model = scripted(("run_command", {"command": "setsid sleep 1000 & wait"}))
        task = asyncio.create_task(PydanticAgent(model, request(bench), observe, bench.processes).run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not bench.left()

    asyncio.run(cancel())


def cut_short(reason: str | None = "length") -> bytes:
    """A stream of OpenAI's chat interface that stops for a reason, or just ends."""
    base = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    pieces: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "half"}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        {"choices": [], "usage": usage},
    ]
    return b"".join(f"data: {json.dumps({**base, **piece})}\n\n".encode() for piece in pieces) + b"data: [DONE]\n\n"


@contextmanager
def loopback(status: int, body: bytes, asked: list[dict[str, str]] | None = None) -> Iterator[str]:
    """A server on loopback with one answer to everything; the headers and body of a request go to `asked`."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body_asked = self.rfile.read(int(self.headers["content-length"])).decode()
            if asked is not None:
                asked.append({**{name.lower(): value for name, value in self.headers.items()}, "body": body_asked})
            self.send_response(status)
            self.send_header("content-type", "text/event-stream" if status == 200 else "application/json")
            self.send_header("retry-after", "7")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask_provider(bench: Bench, provider: str, env: dict[str, str], **options: Any) -> AgentResult:
    """What a provider's own kit makes of an answer."""
    asked = request(bench, **{"provider": provider, "model": "m-1", "access": Access.NONE, "env": env, **options})
    return asyncio.run(ApiBackend(bench.processes).run(asked, lambda _: None))


@pytest.mark.parametrize("provider", ["anthropic", "openai", "google"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, ErrorKind.AUTH),
        (403, ErrorKind.AUTH),
        (404, ErrorKind.NOT_FOUND),
        (429, ErrorKind.RATE_LIMIT),
        (500, ErrorKind.SERVER),
        (400, ErrorKind.INVALID),
    ],
)
def test_an_http_status_has_its_kind(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, provider: str, status: int, kind: ErrorKind
) -> None:
    """It is asked once, with the request's key and never with ours."""
    for name in (*KEYS.values(), "GOOGLE_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "ours")
    asked: list[dict[str, str]] = []
    body = json.dumps({"error": {"message": "no", "code": status, "type": "x"}}).encode()
    with loopback(status, body, asked) as address:
        env = {KEYS[provider]: "theirs", ADDRESSES[provider]: address}
        result = ask_provider(bench, provider, env)
    assert error_of(result)[0] is kind
    assert len(asked) == 1
    assert "theirs" in str(asked)
    assert "ours" not in str(asked)
    if provider != "google":
        assert result.error is not None
        assert result.error.retry_after == 7.0


def test_a_quota_that_is_used_up_is_no_rate_limit(bench: Bench) -> None:
    """Both have the status 429; the provider's words tell them apart."""
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota", "type": "x"}}
    with loopback(429, json.dumps(body).encode()) as address:
        result = ask_provider(bench, "openai", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address})
    kind, words = error_of(result)
    assert kind is ErrorKind.QUOTA
    assert "You exceeded your current quota" in words


def test_an_unreachable_provider_is_a_network_error(bench: Bench) -> None:
    """Nothing listens."""
    with loopback(200, b"") as address:
        pass
    result = ask_provider(bench, "openai", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address})
    assert error_of(result)[0] is ErrorKind.NETWORK


def test_a_malformed_answer_is_an_error(bench: Bench) -> None:
    """A server that speaks something else gives no answer."""
    with loopback(200, b"data: {}\n\n") as address:
        result = ask_provider(bench, "openai", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address})
    assert result.status is AgentStatus.ERROR


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no model is named"),
        ({"provider": "openai"}, "no model is named"),
        ({"model": "m"}, "no model is named"),
        ({"provider": "acme", "model": "m"}, 'the provider "acme" is not supported; use anthropic, openai, google'),
        ({"provider": "openai", "model": "m"}, 'the key of "openai" is missing: set OPENAI_API_KEY'),
        ({"model": "Gemini:m"}, 'the key of "Gemini" is missing: set GEMINI_API_KEY or GOOGLE_API_KEY'),
    ],
)
def test_a_request_without_a_usable_model_is_an_error(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], words: str
) -> None:
    """What is missing is named, and our own key is not used instead."""
    for name in KEYS.values():
        monkeypatch.setenv(name, "ours")
    asked = request(bench, **options)
    kind, message = error_of(asyncio.run(ApiBackend(bench.processes).run(asked, lambda _: None)))
    assert kind is (ErrorKind.AUTH if "key" in words else ErrorKind.CONFIG)
    assert message.startswith(words)


def test_an_unknown_effort_is_an_error(bench: Bench) -> None:
    """A known one reaches the model."""
    kind, words = error_of(ask_provider(bench, "openai", {"OPENAI_API_KEY": "k"}, reasoning_effort="extreme"))
    assert (kind, '"extreme"' in words) == (ErrorKind.CONFIG, True)
    asked: list[dict[str, str]] = []
    with loopback(401, b"{}", asked) as address:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address}
        ask_provider(bench, "openai", env, model="gpt-5", reasoning_effort="high")
    assert json.loads(asked[0]["body"])["reasoning_effort"] == "high"


def test_the_model_may_name_its_provider(bench: Bench) -> None:
    """With or without a provider in the request."""
    with loopback(401, b"{}") as address:
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": address}
        for provider in ("openai", ""):
            result = ask_provider(bench, provider, env, model="openai:m-1")
            kind, words = error_of(result)
            assert (kind, "m-1" in words, "openai:m-1" in words) == (ErrorKind.AUTH, True, False)


def test_a_missing_library_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says how to install it."""
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.openai", None)
    kind, words = error_of(ask_provider(bench, "openai", {"OPENAI_API_KEY": "k"}))
    assert kind is ErrorKind.CONFIG
    assert "pip install 'awf-pipeline[api]'" in words


def test_the_variables_are_the_provider_s(bench: Bench) -> None:
    """Its key and its address."""
    names: Callable[[str | None], Any] = ApiBackend(bench.processes).variables
    assert {"OPENAI_API_KEY", "OPENAI_BASE_URL"} <= set(names("openai"))
    assert names(None) == ()
