"""What real command-line agents printed, and what an agent's module makes of it.

A transcript is given to the module as if the program ran now: through `ProgramBackend`, line by line.
"""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from pipeline.backends.agents.base import AgentProgram, ProgramBackend
from pipeline.engine.ports import (
    AgentEvent,
    AgentRequest,
    AgentResult,
    ExitReason,
    OnLine,
    ProcessCommand,
    ProcessResult,
)

DIRECTORY = Path(__file__).parents[3] / "transcripts"
NOWHERE = Path("/nowhere")


@dataclass(frozen=True, slots=True)
class Transcript:
    """One run of a real program."""

    cmd: tuple[str, ...]
    rc: int
    timed_out: bool
    stdout: str
    stderr: str


def names(prefix: str) -> list[str]:
    """The names of a program's transcripts: `names("claude_")`."""
    return sorted(path.stem for path in DIRECTORY.glob(f"{prefix}*.json"))


def transcript(name: str) -> Transcript:
    """The transcript of that name."""
    data = json.loads((DIRECTORY / f"{name}.json").read_text("utf-8"))
    return Transcript(tuple(data["cmd"]), data["rc"], data["timed_out"], data["stdout"], data["stderr"])


def printed(*messages: object, rc: int = 0, stderr: str = "", timed_out: bool = False) -> Transcript:
    """A transcript of a program that printed these messages as lines of JSON."""
    return Transcript((), rc, timed_out, "".join(f"{json.dumps(message)}\n" for message in messages), stderr)


def any_message(keys: tuple[str, ...], words: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """What a program might print: its own keys and words, in an order and with values that nobody promised."""
    scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(words) | st.text(max_size=3)
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys), inner, max_size=4),
        max_leaves=6,
    )
    types = st.fixed_dictionaries({"type": st.sampled_from(words) | scalars})
    return st.builds(dict.__or__, st.dictionaries(st.sampled_from(keys), values, max_size=5), types)


def request(**fields: Any) -> AgentRequest:
    """A request in which only what matters is given."""
    defaults = {"stage": "build", "visit": 1, "attempt": 1, "review": False, "prompt": "Do it.\n"}
    return AgentRequest(**{**defaults, "cwd": NOWHERE, "artifacts": NOWHERE, **fields})


def read(agent: AgentProgram, name: str | Transcript, **request_fields: Any) -> AgentResult:
    """What comes of a request when the program prints a transcript."""
    return _run(agent, name, request_fields)[0]


def heard(agent: AgentProgram, name: str | Transcript, **request_fields: Any) -> list[AgentEvent]:
    """What is told while the program prints a transcript, but for the event that says that it started."""
    return _run(agent, name, request_fields)[1][1:]


def _run(agent: AgentProgram, name: str | Transcript, fields: dict[str, Any]) -> tuple[AgentResult, list[AgentEvent]]:
    events: list[AgentEvent] = []
    replay = Replay(transcript(name) if isinstance(name, str) else name)
    result = asyncio.run(ProgramBackend(agent, replay).run(request(**fields), events.append))
    return result, events


@dataclass(frozen=True, slots=True)
class Replay:
    """Processes of which each prints one transcript and ends as it did."""

    transcript: Transcript

    async def run(self, command: ProcessCommand, on_line: OnLine | None = None) -> ProcessResult:
        """Print it all at once."""
        if on_line is not None:
            for line in self.transcript.stdout.encode().split(b"\n"):
                on_line(line)
        return _finished(self.transcript, command)


def _finished(ran: Transcript, command: ProcessCommand) -> ProcessResult:
    ending, message = ExitReason.EXITED, ""
    if ran.timed_out:
        ending = ExitReason.TIMEOUT
    elif ran.rc < 0:
        ending, message = ExitReason.SIGNAL, f"signal {-ran.rc}"
    return ProcessResult(
        ending=ending,
        exit_code=ran.rc if ending is ExitReason.EXITED else None,
        duration=1.0,
        stdout=command.artifacts / "stdout.log",
        stderr=command.artifacts / "stderr.log",
        stdout_tail=_tail(ran.stdout),
        stderr_tail=_tail(ran.stderr),
        message=message,
    )


def _tail(text: str) -> str:
    return "\n".join(text.split("\n")[-30:])[-4096:]
