"""Codex: its arguments, and the events that it prints.

A turn's last event, `turn.completed` or `turn.failed`, alone says how a run went; what it calls an error before that
is a warning or a new try.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pipeline.backends.agents.base import AgentTranscript, Invocation, Message, kind_of, named_or, tool_label
from pipeline.backends.environment import provider_variables
from pipeline.engine.outcome import Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentSession, ErrorKind
from pipeline.language.model import Access

_SANDBOX: Mapping[Access, str] = MappingProxyType(
    {Access.NONE: "read-only", Access.READ_ONLY: "read-only", Access.CODING: "workspace-write"}
)
_REFUSAL = re.compile(r"(?m)^([Ee]rror: |Error loading |Not inside a trusted directory).*")
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")  # "unexpected status 401 …", "last status: 429 …"


class Codex:
    """Runs `codex exec` in its own sandbox.

    It has no way to be without tools: where no access is asked for, it can still read, and write nothing.
    """

    name = "codex"
    flags: tuple[str, ...] = ("--json", "--skip-git-repo-check", "--sandbox", "--config", "--model")
    help: tuple[str, ...] = ("exec", "--help")
    install = "npm install -g @openai/codex"

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """OpenAI's key unless another provider is named, and where it keeps its own files."""
        return (*provider_variables(provider or "openai"), "CODEX_HOME")

    def invocation(self, request: AgentRequest, extra: tuple[str, ...]) -> Invocation:
        """One turn; it goes on with a session where one is given."""
        sandbox = _SANDBOX[request.access]
        common = (
            *("--json", "--skip-git-repo-check"),
            *(("-m", request.model) if request.model else ()),
            # Its commands do not get variables whose names are those of keys, secrets and tokens.
            *("-c", "shell_environment_policy.ignore_default_excludes=false"),
            *_setting("model_reasoning_effort", request.reasoning_effort),
            *_setting("openai_base_url", request.env.get("OPENAI_BASE_URL")),  # it does not look at the variable
        )
        if request.session:  # `resume` has no flag for the sandbox
            going_on = (*_setting("sandbox_mode", sandbox), *extra, request.session.id)
            return Invocation(("exec", "resume", *common, *going_on, "-"))
        return Invocation(("exec", *common, "-s", sandbox, *extra, "-"))

    def reader(self, request: AgentRequest) -> "CodexReader":
        """A reader of the events of one turn."""
        return CodexReader(request.session.used if request.session else Usage(input_tokens=0, output_tokens=0))


def _setting(name: str, value: str | None) -> tuple[str, ...]:
    return ("-c", f"{name}={json.dumps(value)}") if value else ()


class CodexReader:
    """Reads one run of Codex."""

    def __init__(self, before: Usage | None) -> None:
        self._before = before  # what the thread had used; None is unknown
        self._used = before
        self._thread = ""
        self._text = ""
        self._ended = False
        self._error: AgentError | None = None
        self._limit = ""  # the whole error of a turn: its message may leave out when to try again
        self._started: set[str] = set()
        self._denied: dict[str, None] = {}

    def read(self, message: Message) -> Iterator[AgentEvent]:
        """Take the next event; one that is not known is passed over."""
        match message:
            case {"type": "thread.started", "thread_id": str(thread)}:
                self._thread = thread
            case {"type": "turn.started"}:
                self._text, self._ended, self._error = "", False, None
            case {"type": "turn.completed"}:
                yield from self._completes(message.get("usage"))
            case {"type": "turn.failed"}:
                self._ended, self._error = False, _failure(message.get("error"))
                self._limit = json.dumps(message.get("error"))
            case {"type": "error", "message": str(words)}:
                yield AgentEvent("retry" if words.startswith("Reconnecting") else "warning", words)
            case {"type": "item.started", "item": dict(item)}:
                yield from self._starts(item)
            case {"type": "item.completed", "item": dict(item)}:
                yield from self._takes(item)

    def conclude(self, stderr: str) -> AgentTranscript:
        """What its turn came to; before its thread starts only its standard error says what is wrong."""
        return AgentTranscript(
            text=self._text if self._ended else "",
            ended=self._ended,
            error=self._error or self._refusal(stderr),
            limits=(self._limit,),
            usage=self._of_this_turn() if self._ended else None,
            session=AgentSession(self._thread, self._used) if self._thread else None,
            denied=tuple(self._denied),
        )

    def _refusal(self, stderr: str) -> AgentError | None:
        """Why it did not even begin: it found fault with what it was started with."""
        found = None if self._thread or self._ended else _REFUSAL.search(stderr)
        return AgentError(named_or(ErrorKind.CONFIG, found[0]), found[0]) if found else None

    def _completes(self, usage: object) -> Iterator[AgentEvent]:
        self._ended, self._error = True, None
        match usage:
            case {"input_tokens": int(read), "output_tokens": int(written)}:  # the former with those of the cache
                self._used = Usage(input_tokens=read, output_tokens=written)
                yield AgentEvent("usage", usage=self._of_this_turn())
            case _:
                self._used = None

    def _of_this_turn(self) -> Usage | None:
        """It tells what the whole thread used; where part of that is unknown, so is the rest."""
        return self._used.since(self._before) if self._used and self._before else None

    def _takes(self, item: Message) -> Iterator[AgentEvent]:
        match item:
            case {"type": "agent_message", "text": str(text)}:
                self._text = text
                yield AgentEvent("text", text)
            case {"type": "error", "message": str(words)}:
                yield AgentEvent("warning", words)
            case _:
                yield from self._tool_ends(item)

    def _starts(self, item: Message) -> Iterator[AgentEvent]:
        if label := _label(item):
            self._started.add(str(item.get("id")))
            yield AgentEvent("tool_start", label)

    def _tool_ends(self, item: Message) -> Iterator[AgentEvent]:
        if not (label := _label(item)):
            return
        if str(item.get("id")) not in self._started:  # some tools are told of only when they have run
            yield AgentEvent("tool_start", label)
        if item.get("status") == "declined":
            self._denied[label.partition(":")[0]] = None
        failed = item.get("status") in ("failed", "declined")
        yield AgentEvent("tool_end", f"{label}: failed" if failed else label)


def _failure(error: object) -> AgentError:
    match error:
        case {"message": str(words)}:
            return _bad_request(words) or AgentError(_kind(words), words)
    return AgentError(ErrorKind.UNKNOWN, "it failed without a word")


def _bad_request(words: str) -> AgentError | None:
    """What a provider answered, which is printed as it came where the provider called the request bad (400)."""
    try:
        body = json.loads(words)
    except (ValueError, RecursionError):
        return None
    match body:
        case {"error": {"message": str(said), **more}}:
            named = f"{more.get('type')} {more.get('code')}"
            return AgentError(named_or(kind_of(400, f"{named} {said}"), named), said)
        case {"detail": str(said)} | {"error": str(said)}:
            return AgentError(kind_of(400, said), said)
    return AgentError(ErrorKind.INVALID, words) if isinstance(body, dict) else None


def _kind(words: str) -> ErrorKind:
    status = _STATUS.search(words)
    return kind_of(int(status[1]) if status else None, words)


def _label(item: Message) -> str:
    """A tool and what it is used for: `shell: pytest -q`; nothing where an item is no tool."""
    match item:
        case {"type": "command_execution", "command": str(command)}:
            return tool_label("shell", _command(command))
        case {"type": "file_change", "changes": list(changes)}:
            return tool_label("edit", ", ".join(change["path"] for change in changes if _has_path(change)))
        case {"type": "mcp_tool_call", "server": str(server), "tool": str(tool)}:
            return tool_label(server, tool)
        case {"type": "web_search", "query": str(query)}:
            return tool_label("web search", query)
        case {"type": "collab_tool_call", "tool": str(tool)}:
            return tool_label("agents", tool)
    return ""


def _has_path(change: object) -> bool:
    return isinstance(change, dict) and isinstance(change.get("path"), str)


def _command(text: str) -> str:
    """What a shell is told to run."""
    try:
        words = shlex.split(text)
    except ValueError:  # its quotes do not match: it is shown as it is
        return text
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else text
