"""What the model does when it is asked: by the token in the request and the number of tool results that follow it.

A script never counts requests: programs send more of them than one thinks, and in any order. The only memory is that of
`Once`, whose fault is met a single time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from threading import Lock

from tests.agents.server.conversation import Conversation, Turn


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with a text; none at all is an answer too. `cut` ends it at the model's token limit."""

    text: str
    cut: bool = False


@dataclass(frozen=True, slots=True)
class SayWhether:
    """Answer by what the last tool printed: `then` when it holds `needle`, else `otherwise`."""

    needle: str
    then: str
    otherwise: str


@dataclass(frozen=True, slots=True)
class Shell:
    """Run a command with the program's own shell tool; `tool` is the name to use where none is offered."""

    command: str
    tool: str = "Bash"


@dataclass(frozen=True, slots=True)
class ReadFile:
    """Read a file with the program's own tool, or with its shell."""

    path: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write a file with the program's own tool; `tool` is the name to use where none is offered."""

    path: str
    text: str
    tool: str = "Write"


class Cause(Enum):
    """Why a request is refused, where the provider has words of its own for that."""

    UNSTATED = auto()
    USAGE_LIMIT = auto()  # which resets after `retry_after` seconds
    TOO_LONG = auto()
    UNKNOWN_MODEL = auto()


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an HTTP error, in the words of the provider."""

    status: int
    retry_after: int | None = None
    cause: Cause = Cause.UNSTATED


@dataclass(frozen=True, slots=True)
class Drop:
    """Begin to answer and stop in the midst of it: the connection is torn, or the stream ends as if it were whole."""

    torn: bool
    text: str = "partial"


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the process that asks, as a system does that runs out of memory."""


Fault = Refuse | Drop | Hang | Kill


@dataclass(frozen=True, slots=True)
class Once:
    """A fault the first time, then something else."""

    fault: Fault
    then: "Plain"


Plain = Say | SayWhether | Shell | ReadFile | WriteFile | Fault
Step = Plain | Once
ASIDE = Say("a title")  # programs ask for titles and summaries besides; those requests offer no tools


class Script:
    """The steps of each token. After the last of them the last is repeated."""

    def __init__(self, steps: Mapping[str, tuple[Step, ...]]) -> None:
        self._steps = steps
        self._met: set[str] = set()
        self._lock = Lock()

    def next(self, conversation: Conversation) -> Plain:
        """What the model does now."""
        if not conversation.tools:
            return ASIDE
        token, results = self._place(conversation.turns)
        if not token:
            return Say("no step matches this prompt")
        steps = self._steps[token]
        step = steps[min(results, len(steps) - 1)]
        return self._fault_or_then(token, step) if isinstance(step, Once) else step

    def _place(self, turns: Iterable[Turn]) -> tuple[str, int]:
        """The last token in the conversation, and how many tools have answered since."""
        token, results = "", 0
        for turn in turns:
            if turn.by == "user" and (said := self._last_token(turn.text)):
                token, results = said, 0
            results += turn.by == "tool"
        return token, results

    def _last_token(self, text: str) -> str:
        found = max(((text.rfind(token), token) for token in self._steps), default=(-1, ""))
        return found[1] if found[0] >= 0 else ""

    def _fault_or_then(self, token: str, step: Once) -> Plain:
        with self._lock:
            first = token not in self._met
            self._met.add(token)
        return step.fault if first else step.then
