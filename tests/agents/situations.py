"""What a model or a user can do to an agent, and what must result: one table for all programs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from tests.agents.server.script import Drop, Once, Refuse, Say, Shell, Step

from pipeline.engine.ports import ErrorKind

VERDICT = "looks right\n[STATUS: success]"
HUGE = "\n".join(f"{number}: {sha256(str(number).encode()).hexdigest()}" for number in range(1_700))  # no line twice


@dataclass(frozen=True, slots=True)
class Situation:
    """What the model does, and the answer or kind of error that results; `but` names the exceptions."""

    name: str
    steps: tuple[Step, ...]
    expected: str | ErrorKind
    but: Mapping[str, str | ErrorKind] = field(default_factory=dict)


SITUATIONS = (
    Situation("verdict", (Say(VERDICT),), VERDICT),
    Situation("tool", (Shell("echo hello > made.txt"), Say("made it")), "made it"),
    Situation("401", (Refuse(401),), ErrorKind.AUTH),
    Situation("400", (Refuse(400),), ErrorKind.INVALID),
    Situation("404", (Refuse(404),), ErrorKind.NOT_FOUND),
    Situation("429-once", (Once(Refuse(429, retry_after=1), Say("in the end")),), "in the end"),
    Situation("stream-ends-once", (Once(Drop(torn=False), Say("whole")),), "whole"),
    Situation("torn-once", (Once(Drop(torn=True), Say("whole")),), "whole", {"gemini": ErrorKind.NETWORK}),
    Situation("empty", (Say(""),), ErrorKind.EMPTY),
    Situation("huge", (Shell("head -c 400000 /dev/zero | tr '\\0' x"), Say(HUGE)), HUGE),
)
