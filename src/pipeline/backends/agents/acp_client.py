"""What an ACP agent may ask of its client, and what it tells: permissions and files by access, and its answer.

Nothing is allowed that the stage's access does not allow, whatever the agent calls it.
"""

from pathlib import Path

from pipeline.backends.agents.acp_peer import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError
from pipeline.backends.agents.bounds import OutOfBounds, inside
from pipeline.backends.agents.program import Message
from pipeline.engine.agent import AgentEvent, Emit
from pipeline.language.model import Access

_LARGEST_FILE = 8 * 1024 * 1024
_READING = frozenset({"read", "search", "think"})  # kinds of tools that change nothing and reach nobody
_ALLOW, _REJECT = ("allow_once", "allow_always"), ("reject_once", "reject_always")


class Transcript:
    """What an agent tells of its work. Its answer is what it says after its last tool call.

    What comes before is what it thinks aloud while it works, and banners and warnings that adapters put in; a status
    read from there would be one that the agent gave before it had looked.
    """

    def __init__(self, emit: Emit, access: Access) -> None:
        self.cost_usd: float | None = None  # of the whole session
        self._emit = emit
        self._access = access
        self._said: list[str] = []
        self._line: list[str] = []
        self._tools: dict[str, tuple[str, str]] = {}  # kind and title by id
        self._allowed: set[str] = set()
        self._listening = False

    @property
    def text(self) -> str:
        """The answer so far."""
        return "".join(self._said)

    def begin(self) -> None:
        """Listen from here: a session that is loaded first tells its past."""
        self._listening = True

    def end(self) -> None:
        """Hand on what was said last."""
        if line := "".join(self._line):
            self._emit(AgentEvent("text", line))
        self._line.clear()

    def take(self, update: Message) -> None:
        """Read one update; kinds that say nothing of the answer are passed over."""
        kind = update["sessionUpdate"]
        if kind == "usage_update":
            self._cost(update.get("cost") or {})
        elif not self._listening:
            return
        elif kind == "agent_message_chunk":
            self._say(update["content"])
        elif kind == "tool_call":
            self._start(update)
        elif kind == "tool_call_update":
            self._go_on(update)

    def tool(self, call: Message) -> tuple[str, str]:
        """The kind and the title of a tool call, from what was told of it last."""
        kind, title = self._tools.get(call["toolCallId"], ("other", "a tool"))
        return str(call.get("kind") or kind), str(call.get("title") or title)

    def allow(self, call: Message) -> None:
        """Remember that it asked."""
        self._allowed.add(call["toolCallId"])

    def _cost(self, cost: Message) -> None:
        if cost.get("currency") == "USD":
            self.cost_usd = float(cost["amount"])

    def _say(self, content: Message) -> None:
        if content["type"] != "text":
            return
        self._said.append(str(content["text"]))
        *lines, rest = self._said[-1].split("\n")
        for line in lines:
            self._emit(AgentEvent("text", "".join((*self._line, line))))
            self._line.clear()
        self._line.append(rest)

    def _start(self, call: Message) -> None:
        self.end()
        self._said.clear()
        _, title = self._tools[call["toolCallId"]] = self.tool(call)
        self._emit(AgentEvent("tool_start", title))
        self._ended(call)

    def _go_on(self, call: Message) -> None:
        self._tools[call["toolCallId"]] = self.tool(call)
        self._ended(call)

    def _ended(self, call: Message) -> None:
        if call.get("status") not in ("completed", "failed"):
            return
        kind, title = self.tool(call)
        self._emit(AgentEvent("tool_end", title))
        asked = call["toolCallId"] in self._allowed
        if call["status"] == "completed" and not asked and not may_use(self._access, kind):
            warning = f'it used "{title}" ({kind}) without asking, though its access is {self._access}'
            self._emit(AgentEvent("warning", warning))


class Client:
    """The client's side of the protocol."""

    def __init__(self, cwd: Path, access: Access, emit: Emit) -> None:
        self.transcript = Transcript(emit, access)
        self.denied: list[str] = []
        self.cancelled = False
        self._cwd = cwd
        self._access = access

    def capabilities(self) -> Message:
        """What an agent may ask for. It has no terminal here: its own commands run as its own children."""
        reads, writes = self._access is not Access.NONE, self._access is Access.CODING
        return {"fs": {"readTextFile": reads, "writeTextFile": writes}, "terminal": False}

    def hear(self, method: str, params: Message) -> None:
        """Take an update of the session."""
        if method == "session/update":
            self.transcript.take(params["update"])

    def answer(self, method: str, params: Message) -> Message:
        """Give permission, or a file."""
        match method:
            case "session/request_permission":
                return {"outcome": self._decide(params)}
            case "fs/read_text_file" if self._access is not Access.NONE:
                return {"content": self._read(params)}
            case "fs/write_text_file" if self._access is Access.CODING:
                return self._write(params)
            case "fs/read_text_file" | "fs/write_text_file":
                self.denied.append(method)
                raise RpcError(INVALID_PARAMS, f'"{method}" is not allowed: the access is {self._access}')
            case _:
                raise RpcError(METHOD_NOT_FOUND, f'there is no "{method}" here')

    def _decide(self, params: Message) -> Message:
        """One of the options offered; once rather than for ever, which some agents write into the workspace."""
        if self.cancelled:
            return {"outcome": "cancelled"}
        call, options = params["toolCall"], {option["kind"]: option["optionId"] for option in params["options"]}
        kind, title = self.transcript.tool(call)
        allowed = may_use(self._access, kind)
        if allowed:
            self.transcript.allow(call)
        else:
            self.denied.append(title)
        chosen = next((options[want] for want in (_ALLOW if allowed else _REJECT) if want in options), None)
        return {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen}

    def _read(self, params: Message) -> str:
        path = self._inside(params["path"])
        try:
            if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
                raise RpcError(INVALID_PARAMS, f'"{path}" is not a file of at most {_LARGEST_FILE} bytes')
            with path.open(encoding="utf-8", newline="") as file:
                lines = file.readlines()
        except (OSError, UnicodeDecodeError) as error:
            raise RpcError(INTERNAL_ERROR, f'"{path}" cannot be read as text: {error}') from error
        first = max((params.get("line") or 1) - 1, 0)
        limit = params.get("limit")
        return "".join(lines[first:] if limit is None else lines[first : first + limit])

    def _write(self, params: Message) -> Message:
        path = self._inside(params["path"])
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(params["content"], encoding="utf-8", newline="")
        except OSError as error:
            raise RpcError(INTERNAL_ERROR, f'"{path}" cannot be written: {error}') from error
        return {}

    def _inside(self, name: str) -> Path:
        try:
            return inside(self._cwd, name)
        except OutOfBounds as error:
            self.denied.append(name)
            raise RpcError(INVALID_PARAMS, str(error)) from error


def may_use(access: Access, kind: str) -> bool:
    """Whether an agent may use a tool of this kind."""
    match access:
        case Access.CODING:
            return True
        case Access.READ_ONLY:
            return kind in _READING
        case Access.NONE:
            return False
