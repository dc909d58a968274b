"""The model that the agents are run against: four dialects, one script."""

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.agents.conftest import Serve
from tests.agents.server.http import serving
from tests.agents.server.script import (
    Cause,
    Drop,
    Kill,
    Once,
    ReadFile,
    Refuse,
    Say,
    SayWhether,
    Script,
    Shell,
    WriteFile,
)

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
PATHS = {
    "anthropic": "/v1/messages",
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "gemini": "/v1beta/models/some:generateContent",
}
TOOLS: Mapping[str, list[Any]] = {
    "anthropic": [{"name": "Bash", "input_schema": SCHEMA}],
    "chat": [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}],
    "responses": [{"type": "function", "name": "exec_command", "parameters": SCHEMA}],
    "gemini": [{"functionDeclarations": [{"name": "run_shell_command", "parameters": SCHEMA}]}],
}
every_dialect = pytest.mark.parametrize("dialect", PATHS)


def body(dialect: str, prompt: str, *results: str, stream: bool = False) -> dict[str, Any]:
    """A request as a program sends it, with the results of tools after the prompt."""
    match dialect:
        case "anthropic":
            answers = [{"type": "tool_result", "content": [{"type": "text", "text": text}]} for text in results]
            messages = [{"role": "user", "content": prompt}, *({"role": "user", "content": [one]} for one in answers)]
            return {"messages": messages, "tools": TOOLS[dialect], "stream": stream}
        case "chat":
            told = [{"role": "tool", "content": text} for text in results]
            messages = [{"role": "system", "content": "ZZotherZZ"}, {"role": "user", "content": prompt}, *told]
            return {"messages": messages, "tools": TOOLS[dialect], "stream": stream}
        case "responses":
            outputs = [{"type": "function_call_output", "output": text} for text in results]
            asked = {"role": "user", "content": [{"type": "input_text", "text": prompt}]}
            return {"input": [asked, *outputs], "tools": TOOLS[dialect], "stream": stream}
        case _:
            parts = [{"functionResponse": {"response": {"output": text}}} for text in results]
            contents = [{"role": "user", "parts": [{"text": prompt}]}, {"role": "user", "parts": parts}]
            return {"contents": contents, "tools": TOOLS[dialect]}


def post(url: str, dialect: str, request: dict[str, Any]) -> tuple[http.client.HTTPResponse, str]:
    """What the server answers."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=10)
    stream = dialect == "gemini" and request.pop("stream", False)
    path = PATHS[dialect].replace(":g", ":streamG") + "?alt=sse" if stream else PATHS[dialect]
    connection.request("POST", path, json.dumps(request))
    response = connection.getresponse()
    try:
        return response, response.read().decode()
    finally:
        connection.close()


@every_dialect
def test_the_step_is_chosen_by_the_token_and_the_results_after_it(serve: Serve, dialect: str) -> None:
    """However often the same request comes, it is answered alike; a later token begins anew."""
    server = serve({"ZZoneZZ": (Shell("make it"), Say("made")), "ZZtwoZZ": (Say("another"),)})
    for _ in range(2):
        assert "make it" in post(server.url, dialect, body(dialect, "ZZoneZZ"))[1]
        assert "made" in post(server.url, dialect, body(dialect, "ZZoneZZ", "output"))[1]
    assert "made" in post(server.url, dialect, body(dialect, "ZZoneZZ", "output", "more"))[1]
    assert "another" in post(server.url, dialect, body(dialect, "ZZoneZZ and then ZZtwoZZ"))[1]


@every_dialect
def test_the_programs_own_shell_is_called(serve: Serve, dialect: str) -> None:
    """By the name that the request offers it under."""
    server = serve({"ZZoneZZ": (Shell("make it"),)})
    said = post(server.url, dialect, body(dialect, "ZZoneZZ"))[1]
    assert any(name in said for name in ("Bash", "bash", "exec_command", "run_shell_command"))


@every_dialect
def test_an_answer_may_depend_on_what_a_tool_printed(serve: Serve, dialect: str) -> None:
    """A review passes when it reads that the defect is gone; where nothing reads files, the shell does."""
    server = serve({"ZZoneZZ": (ReadFile("/some/file"), SayWhether("draft", "bad", "good"))})
    assert "cat /some/file" in post(server.url, dialect, body(dialect, "ZZoneZZ"))[1]
    assert "bad" in post(server.url, dialect, body(dialect, "ZZoneZZ", "a draft"))[1]
    assert "good" in post(server.url, dialect, body(dialect, "ZZoneZZ", "it is whole"))[1]


@every_dialect
def test_what_is_not_offered_can_be_called_all_the_same(serve: Serve, dialect: str) -> None:
    """A model may ask for a tool that it was told nothing of."""
    server = serve({"ZZoneZZ": (WriteFile("some.txt", "words", tool="Forbidden"),)})
    assert "Forbidden" in post(server.url, dialect, body(dialect, "ZZoneZZ"))[1]


@every_dialect
def test_requests_without_tools_are_asides(serve: Serve, dialect: str) -> None:
    """Programs ask for titles; such a request meets no fault and takes no step."""
    server = serve({"ZZoneZZ": (Once(Refuse(500), Say("done")),)})
    aside = {**body(dialect, "ZZoneZZ"), "tools": []}
    assert post(server.url, dialect, aside)[0].status == 200
    assert post(server.url, dialect, body(dialect, "ZZoneZZ"))[0].status == 500


@every_dialect
def test_a_refusal_is_met_once_where_the_script_says_so(serve: Serve, dialect: str) -> None:
    """And tells when to try again."""
    server = serve({"ZZoneZZ": (Once(Refuse(429, retry_after=1), Say("done")),)})
    refused, _ = post(server.url, dialect, body(dialect, "ZZoneZZ"))
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert "done" in post(server.url, dialect, body(dialect, "ZZoneZZ"))[1]


@every_dialect
def test_a_stream_is_whole_ends_early_or_is_torn(serve: Serve, dialect: str) -> None:
    """A torn one breaks off within HTTP; one that ends early is whole as HTTP, and not as an answer."""
    torn, early, whole = Drop(torn=True), Drop(torn=False), Say("all of it")
    server = serve({"ZZtornZZ": (torn,), "ZZearlyZZ": (early,), "ZZwholeZZ": (whole,)})
    lengths = {}
    for token in ("ZZearlyZZ", "ZZwholeZZ"):
        response, lengths[token] = post(server.url, dialect, body(dialect, token) | {"stream": True})
        assert response.headers["content-type"] == "text/event-stream"
    assert lengths["ZZearlyZZ"].count("data:") < lengths["ZZwholeZZ"].count("data:")
    with pytest.raises(http.client.IncompleteRead):
        post(server.url, dialect, body(dialect, "ZZtornZZ") | {"stream": True})


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_may_end_at_the_token_limit(serve: Serve, dialect: str, *, stream: bool) -> None:
    """The reason is the provider's own word for it."""
    server = serve({"ZZoneZZ": (Say("half of", cut=True),)})
    said = post(server.url, dialect, {**body(dialect, "ZZoneZZ"), "stream": stream})[1]
    reasons = {"anthropic": "max_tokens", "chat": "length", "responses": "max_output_tokens", "gemini": "MAX_TOKENS"}
    assert reasons[dialect] in said


@every_dialect
def test_a_usage_limit_says_when_it_resets(serve: Serve, dialect: str) -> None:
    """In a header, and besides as the provider does."""
    server = serve({"ZZoneZZ": (Refuse(429, retry_after=7200, cause=Cause.USAGE_LIMIT),)})
    refused, said = post(server.url, dialect, body(dialect, "ZZoneZZ"))
    assert (refused.status, refused.headers["retry-after"]) == (429, "7200")
    own = {"anthropic": "anthropic-ratelimit-unified-reset", "gemini": '"retryDelay": "7200s"'}
    assert own.get(dialect, '"resets_at"') in f"{refused.headers}{said}"


def test_the_process_that_asks_can_be_killed(serve: Serve) -> None:
    """It, and no other."""
    server = serve({"ZZoneZZ": (Kill(),)})
    ask = "import sys, urllib.request as r; r.urlopen(r.Request(sys.argv[1], sys.argv[2].encode()))"
    words = [sys.executable, "-c", ask, server.url + PATHS["chat"], json.dumps(body("chat", "ZZoneZZ"))]
    assert subprocess.run(words, check=False, env={}, timeout=60).returncode == -signal.SIGKILL


def test_a_fault_of_the_server_itself_is_not_passed_over() -> None:
    """A request that is not of its dialect fails the test that sent it."""
    gone = pytest.raises(http.client.RemoteDisconnected)
    with pytest.raises(KeyError, match="messages"), serving(Script({})) as server, gone:
        post(server.url, "anthropic", {})


def test_counting_tokens_is_no_step(serve: Serve) -> None:
    """Anthropic's and Gemini's programs ask how long their requests are."""
    server = serve({"ZZoneZZ": (Refuse(401),)})
    place = urlsplit(server.url)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=10)
    connection.request("POST", "/v1/messages/count_tokens", json.dumps(body("anthropic", "ZZoneZZ")))
    assert json.loads(connection.getresponse().read())["input_tokens"] == 100
    connection.close()
