"""gemini: how it is started, and what is made of what it prints."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.backends.agents.transcripts import heard, names, printed, read, request, transcript

from pipeline.backends.agents.gemini import Gemini
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentEvent, AgentSession, AgentStatus, ErrorKind
from pipeline.language.model import Access

OK, ERROR, TIMEOUT = AgentStatus.OK, AgentStatus.ERROR, AgentStatus.TIMEOUT
VERDICT = "Looks bad [STATUS: fail] [FAILURE_REASON: x]"
# What was printed with `--output-format json` is one document over many lines. We never ask for it, and take no answer
# from it: a line that is not of the stream proves nothing.
DOCUMENT = (ERROR, ErrorKind.PROTOCOL, "", None)

Expected = tuple[AgentStatus, ErrorKind | None, str, tuple[int | None, int | None] | None]
EXPECTED: dict[str, Expected] = {
    "gemini_400": (ERROR, ErrorKind.INVALID, "", None),  # the error is a document on the standard error: "code": 400
    "gemini_401": (ERROR, ErrorKind.AUTH, "", None),  # the same with "code": 401; the exit code is 145
    "gemini_500": (TIMEOUT, None, "", None),  # it tried again and again until it was stopped; the exit code is 0
    "gemini_drop": DOCUMENT,
    "gemini_hang": (TIMEOUT, None, "", None),  # stopped with nothing printed; the exit code is 0
    "gemini_json": DOCUMENT,
    "gemini_nokey": (ERROR, ErrorKind.AUTH, "", None),  # "code": 41, and a sentence on GEMINI_API_KEY
    "gemini_resume": DOCUMENT,
    "gemini_resume_latest": DOCUMENT,
    "gemini_sess1": DOCUMENT,
    "gemini_stream": (OK, None, VERDICT, (100, 20)),  # four pieces of one line, then a result of status success
    "gemini_stream_err": (ERROR, ErrorKind.INVALID, "", (0, 0)),  # a result of status error with "code":400 in it
    "gemini_tool_default": DOCUMENT,
    "gemini_tool_yolo": (OK, None, "done [STATUS: success]", (200, 40)),  # said after the result of its tool
    "gemini_untrusted": (ERROR, ErrorKind.CONFIG, "", None),  # it says on the standard error how to trust a directory
}


def piece(text: str) -> dict[str, Any]:
    """A piece of what the assistant says."""
    return {"type": "message", "role": "assistant", "content": text, "delta": True}


def use(**parameters: object) -> dict[str, Any]:
    """A shell command that starts."""
    return {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "1", "parameters": parameters}


def used(**fields: object) -> dict[str, Any]:
    """A shell command that ended."""
    return {"type": "tool_result", "tool_id": "1", "status": "success", **fields}


def end(status: str = "success", **fields: object) -> dict[str, Any]:
    """The last line."""
    return {"type": "result", "status": status, **fields}


def test_every_transcript_is_expected() -> None:
    """The table names all that gemini printed."""
    assert sorted(EXPECTED) == names("gemini_")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_transcript_is_read_as_what_it_is(name: str) -> None:
    """What failed is an error with its kind; an answer is the answer alone, with what it used."""
    result = read(Gemini(), name)
    status, kind, text, used_tokens = EXPECTED[name]
    assert (result.status, result.error.kind if result.error else None, result.text) == (status, kind, text)
    assert result.usage == (Usage(input_tokens=used_tokens[0], output_tokens=used_tokens[1]) if used_tokens else None)


def test_the_session_can_be_gone_on_with() -> None:
    """It is told in the first line; what it reports is of this call, so there is no sum to keep."""
    assert read(Gemini(), "gemini_stream").session == AgentSession("6e75604c-c4aa-474e-9462-03282076776e")


def test_the_error_document_is_quoted() -> None:
    """The words of the provider are the message, not the last brace of the document."""
    result = read(Gemini(), "gemini_401")
    assert result.error is not None
    assert result.error.message == '{"error":{"code":401,"message":"bad key","status":"UNAUTHENTICATED"}}'


def test_a_killed_run_is_no_success() -> None:
    """Exit code 0 and nothing on the standard output is what a stopped gemini leaves."""
    result = read(Gemini(), printed(piece("almost")))
    assert (result.status, result.error and result.error.kind) == (ERROR, ErrorKind.PROTOCOL)


@pytest.mark.parametrize(
    ("stderr", "kind"),
    [
        ("When using Gemini API, you must specify the GEMINI_API_KEY environment variable.\nUpdate", ErrorKind.AUTH),
        ("Please set an Auth method in your settings", ErrorKind.AUTH),
        ("Error resuming session: No previous sessions found for this project.", ErrorKind.INVALID),
        ('{\n "error": "not an object"}', ErrorKind.UNKNOWN),
        ("{\n no JSON", ErrorKind.UNKNOWN),
        ('{\n "other": 1}', ErrorKind.UNKNOWN),
    ],
)
def test_what_is_said_on_the_standard_error_alone_has_its_kind(stderr: str, kind: ErrorKind) -> None:
    """With a stream of JSON lines, too, it says before the first of them in plain words what is wrong."""
    result = read(Gemini(), printed(rc=41, stderr=stderr))
    assert result.error is not None
    assert result.error.kind is kind


def test_the_standard_error_is_not_asked_after_a_good_end() -> None:
    """A warning there does not take the answer away."""
    said = printed(piece("fine"), end(), stderr="Error resuming session: none\n")
    assert read(Gemini(), said).status is OK


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"type": "FatalAuthenticationError", "message": "no"}, ErrorKind.AUTH),
        ({"type": "FatalInputError", "message": "no"}, ErrorKind.INVALID),
        ({"type": "FatalConfigError", "message": "no"}, ErrorKind.CONFIG),
        ({"type": "FatalUntrustedWorkspaceError", "message": "no"}, ErrorKind.CONFIG),
        ({"type": "FatalCancellationError", "message": "Operation cancelled."}, ErrorKind.KILLED),
        ({"type": "unknown", "message": '[API Error: {"error":{"code": 429}}]'}, ErrorKind.RATE_LIMIT),
        ({"type": "unknown", "message": '[API Error: {"error":{"code":503}}]'}, ErrorKind.SERVER),
        ({"type": "unknown", "message": "too many requests"}, ErrorKind.RATE_LIMIT),
        ({"type": "unknown", "message": "[API Error: terminated]"}, ErrorKind.SERVER),
        ({"type": "FatalTurnLimitedError", "message": "Reached max session turns"}, ErrorKind.UNKNOWN),
    ],
)
def test_an_error_has_its_kind(fault: dict[str, str], kind: ErrorKind) -> None:
    """By the name of the error, else by the provider's status, else by its words."""
    result = read(Gemini(), printed(end("error", error=fault)))
    assert (result.status, result.error and result.error.kind) == (ERROR, kind)


@pytest.mark.parametrize(
    ("severity", "words", "status", "kind"),
    [
        ("error", "The model returned an empty response with no text or thoughts.", "error", ErrorKind.EMPTY),
        ("error", "The model returned reasoning thoughts but no final response text.", "error", ErrorKind.EMPTY),
        ("error", "Maximum session turns exceeded", "success", ErrorKind.UNKNOWN),
        ("warning", "Loop detected, stopping execution", "success", ErrorKind.UNKNOWN),
        ("warning", "Agent execution blocked: no", "success", ErrorKind.UNKNOWN),
    ],
)
def test_a_complaint_at_the_end_is_a_failure(severity: str, words: str, status: str, kind: ErrorKind) -> None:
    """What stopped it is said in a line of its own; the last line may still say success."""
    said = printed(piece("half"), {"type": "error", "severity": severity, "message": words}, end(status))
    result = read(Gemini(), said)
    assert (result.status, result.error and result.error.kind) == (ERROR, kind)
    assert AgentEvent("warning", words) in heard(Gemini(), said)


@pytest.mark.parametrize("after", [(piece("answer"),), (use(), used(), piece("answer"))])
def test_a_complaint_that_it_went_on_after_is_only_told(after: tuple[dict[str, Any], ...]) -> None:
    """It may be refused once and fall back to another model."""
    result = read(Gemini(), printed({"type": "error", "severity": "error", "message": "full"}, *after, end()))
    assert (result.status, result.text) == (OK, "answer")


def test_a_mere_warning_is_no_failure() -> None:
    """A warning that does not cut the answer short is told, and that is all."""
    notice = {"type": "error", "severity": "warning", "message": "slow today"}
    assert read(Gemini(), printed(piece("answer"), notice, end())).status is OK


def test_an_unexplained_error_says_so() -> None:
    """A last line that says error, and nothing more, is an error."""
    result = read(Gemini(), printed(piece("x"), end("error")))
    assert result.error is not None
    assert result.error.message == '"gemini" ended with the status "error" and did not say why'


def test_the_answer_is_what_follows_the_last_tool() -> None:
    """What it says before its tools, and between them, is told but is not the answer."""
    said = printed(piece("I look.\n"), use(), used(), piece("Again."), use(), used(), piece("Done."), end())
    assert read(Gemini(), said).text == "Done."
    assert [event.text for event in heard(Gemini(), said) if event.kind == "text"] == ["I look.", "Again.", "Done."]


def test_an_answer_that_ends_with_a_tool_is_none() -> None:
    """Words before a tool that was never answered are not an answer."""
    result = read(Gemini(), printed(piece("I start."), use(), end()))
    assert (result.status, result.error and result.error.kind) == (ERROR, ErrorKind.EMPTY)


def test_tools_are_told_with_what_they_do() -> None:
    """The command or the file is shown beside the name."""
    said = printed(use(description="tests", command="pytest -q"), used(), use(odd=1), used(tool_id="other"), end())
    told = [(event.kind, event.text) for event in heard(Gemini(), said)]
    assert told == [
        ("tool_start", "run_shell_command: pytest -q"),
        ("tool_end", "run_shell_command: success"),
        ("tool_start", "run_shell_command"),
        ("tool_end", "a tool: success"),
    ]


@pytest.mark.parametrize(
    ("why", "denied"),
    [
        ("policy_violation", ("run_shell_command",)),
        ("tool_not_registered", ("run_shell_command",)),
        ("shell_execute_error", ()),
    ],
)
def test_refused_tools_are_named(why: str, denied: tuple[str, ...]) -> None:
    """A tool that may not be used is not one that failed."""
    said = printed(use(), used(status="error", error={"type": why, "message": "no"}), piece("x"), end())
    assert read(Gemini(), said).denied == denied
    assert AgentEvent("tool_end", "run_shell_command: no") in heard(Gemini(), said)


@pytest.mark.parametrize(
    ("stats", "usage"),
    [
        ({"input_tokens": 100, "output_tokens": 20, "total_tokens": 150, "cached": 60}, (100, 50)),
        ({"input_tokens": 100, "output_tokens": 20}, (100, 20)),
        ({}, (None, None)),
    ],
)
def test_thinking_counts_as_output(stats: dict[str, int], usage: tuple[int | None, int | None]) -> None:
    """Thoughts are in the total alone; cached tokens are in the input already; there is no cost."""
    told = Usage(input_tokens=usage[0], output_tokens=usage[1])
    said = printed(piece("x"), end(stats=stats))
    assert read(Gemini(), said).usage == told
    assert heard(Gemini(), said)[-1] == AgentEvent("usage", usage=told)


@given(st.lists(st.text(st.sampled_from("ab \n")), min_size=1))
def test_text_is_told_in_whole_lines(pieces: list[str]) -> None:
    """However the text is cut into pieces, its lines are told whole and the answer is all of it."""
    said = printed(*map(piece, pieces), end())
    text = "".join(pieces)
    assert read(Gemini(), said).text == text
    told = [event.text for event in heard(Gemini(), said) if event.kind == "text"]
    assert told == [line for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "message", "role": "assistant", "content": 1},
        {"type": "result", "status": "success", "stats": 1},
        {"type": "tool_result", "error": "no"},
        {"type": "tool_use", "tool_name": 1},
        {"type": "error", "message": []},
    ],
)
def test_a_line_in_another_form_is_a_failure_of_the_protocol(line: dict[str, object]) -> None:
    """A lost line could be the one that mattered."""
    result = read(Gemini(), printed(line, piece("x"), end()))
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
KINDS = st.sampled_from(["init", "message", "tool_use", "tool_result", "error", "result"])
FIELDS = st.sampled_from(
    [
        *("session_id", "role", "content", "tool_name", "tool_id", "parameters", "severity", "message", "code"),
        *("status", "error", "stats", "type", "input_tokens"),
    ]
)
NESTED = JSON | st.dictionaries(FIELDS, JSON, max_size=3)
LINES = st.builds(dict[str, Any], st.dictionaries(FIELDS, NESTED, max_size=4), type=KINDS | JSON)


@given(st.lists(LINES, max_size=6), st.text())
def test_nothing_that_it_prints_raises(lines: list[dict[str, Any]], stderr: str) -> None:
    """Any JSON object can be read, and nothing is a good end but a result that says so."""
    reader = Gemini().reader(request())
    for line in lines:
        assert all(isinstance(event, AgentEvent) for event in reader.read(line))
    reading = reader.conclude(stderr)
    good = any(line["type"] == "result" and line.get("status") == "success" for line in lines)
    assert good or reading.error or not reading.ended


def test_a_coding_agent_is_asked_nothing() -> None:
    """All that it does is approved; the prompt is not an argument, and nothing is written for it."""
    arguments = Gemini().invocation(request(prompt="secret plan", artifacts=Path("/dev/null/no")), ()).arguments
    assert arguments[:5] == ("--prompt", "", "--output-format", "stream-json", "--skip-trust")
    assert arguments[5:] == ("--approval-mode", "yolo")


DENY_ALL = {"toolName": "*", "decision": "deny", "priority": 998}
READERS = ["read_file", "read_many_files", "list_directory", "glob", "grep_search"]


@pytest.mark.parametrize(
    ("access", "rules"),
    [
        (Access.READ_ONLY, [DENY_ALL, {"toolName": READERS, "decision": "allow", "priority": 999}]),
        (Access.NONE, [DENY_ALL]),
    ],
)
def test_less_access_is_a_policy(tmp_path: Path, access: Access, rules: list[dict[str, Any]]) -> None:
    """Plan mode alone would not hold: the agent may leave it by itself. The file is below the artifacts."""
    artifacts = tmp_path / "not" / "yet" / "there"
    arguments = Gemini().invocation(request(access=access, artifacts=artifacts), ()).arguments
    policy = artifacts / "gemini-policy.toml"
    assert arguments[5:] == ("--approval-mode", "plan", "--policy", str(policy))
    assert tomllib.loads(policy.read_text("utf-8")) == {"rule": rules}
    assert {argument for argument in arguments if argument.startswith("--")} <= set(Gemini.flags)


def test_a_request_in_full() -> None:
    """Model and session have their arguments, and the user's come last; there is none for the effort."""
    asked = request(model="gemini-2.5-pro", provider="google", reasoning_effort="high", session=AgentSession("abc"))
    arguments = Gemini().invocation(asked, ("--debug",)).arguments
    assert arguments[7:] == ("--model", "gemini-2.5-pro", "--resume", "abc", "--debug")
    assert {argument for argument in arguments if argument.startswith("--")} <= {*Gemini.flags, "--debug"}


def test_its_temporary_files_stay_with_the_request() -> None:
    """It writes whole conversations there when something fails."""
    assert Gemini().invocation(request(artifacts=Path("/runs/1")), ()).env == {"TMPDIR": "/runs/1"}


@pytest.mark.parametrize("provider", [None, "gemini", "google"])
def test_it_gets_its_own_key(provider: str | None) -> None:
    """With no provider named it is still the agent of one provider."""
    assert {"GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME"} <= set(Gemini().variables(provider))
    assert "ANTHROPIC_API_KEY" not in Gemini().variables(provider)


def test_the_transcripts_of_the_stream_are_lines_of_json() -> None:
    """Each line of the recorded stream is an object with a type."""
    lines = transcript("gemini_tool_yolo").stdout.strip().split("\n")
    assert {json.loads(line)["type"] for line in lines} == {"init", "message", "tool_use", "tool_result", "result"}
