"""What can happen to an agent, and what must result: one table for all programs.

The table in docs/agents.md has the same rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from hashlib import sha256

from tests.agents.programs import KEY
from tests.agents.server.script import Cause, Drop, Hang, Kill, Once, Refuse, Say, Shell, Step

from pipeline.engine.ports import ErrorKind

VERDICT = "looks right\n[STATUS: success]"
HUGE = "\n".join(f"{number}: {sha256(str(number).encode()).hexdigest()}" for number in range(1_700))  # no line twice
PROSE = "It looks fine to me, I have read all of it."
CUT_OFF = '{"reviewer": "r", "findings": [{"title": "It le'
RESET = 7200  # seconds until a usage limit resets
NO_RESET = ("opencode", "opencode-acp")  # it waits for the reset by itself, and says neither so nor how long


class Login(Enum):
    """How the user is known to the provider."""

    KEY = auto()
    SUBSCRIPTION = auto()  # with the same variables, except for claude
    NONE = auto()


_SUBSCRIPTION = {"ANTHROPIC_API_KEY": "CLAUDE_CODE_OAUTH_TOKEN"}


@dataclass(frozen=True, slots=True)
class Situation:
    """What happens, and the answer or kind of error that results; `but` names the exceptions."""

    name: str
    about: str  # one row of the documentation
    steps: tuple[Step, ...]  # of the model
    expected: str | ErrorKind
    but: Mapping[str, str | ErrorKind] = field(default_factory=dict)
    older: Mapping[str, str | ErrorKind] = field(default_factory=dict)  # the exceptions in older versions
    endless: bool = False  # the program may retry or wait until it is stopped
    login: Login = Login.KEY
    model: str | None = None  # instead of the program's
    extra: tuple[str, ...] = ()  # arguments from the settings

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The variables of a user in this situation."""
        if self.login is Login.SUBSCRIPTION:
            return subscribed(environ)
        return {name: value for name, value in environ.items() if self.login is Login.KEY or value != KEY}


def subscribed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a user who has logged in with a subscription, which has limits of its own."""
    return {_SUBSCRIPTION.get(name, name): value for name, value in environ.items()}


SITUATIONS = (
    Situation("verdict", "an answer", (Say(VERDICT),), VERDICT),
    Situation("tool", "a command, then an answer", (Shell("echo hello > made.txt"), Say("made it")), "made it"),
    Situation(
        "huge",
        "400 kB from a command, an answer of 120 kB",
        (Shell("head -c 400000 /dev/zero | tr '\\0' x"), Say(HUGE)),
        HUGE,
    ),
    Situation("prose", "a review without a status", (Say(PROSE),), PROSE),
    Situation("truncated-json", "JSON that ends in its middle", (Say(CUT_OFF),), CUT_OFF),
    Situation(
        "token-limit",
        "an answer cut off at the token limit",
        (Say(CUT_OFF, cut=True),),
        ErrorKind.PROTOCOL,
        dict.fromkeys(("gemini", "gemini-acp", "opencode-acp"), CUT_OFF),  # they do not report the reason beside a text
    ),
    Situation("empty", "an empty answer", (Say(""),), ErrorKind.EMPTY),
    Situation("400", "400", (Refuse(400),), ErrorKind.INVALID),
    Situation("too-long", "400: the prompt is too long", (Refuse(400, cause=Cause.TOO_LONG),), ErrorKind.INVALID),
    Situation("401", "401", (Refuse(401),), ErrorKind.AUTH),
    Situation("no-key", "no key", (Refuse(401),), ErrorKind.AUTH, login=Login.NONE),
    Situation("403", "403", (Refuse(403),), ErrorKind.AUTH),
    Situation("404", "404", (Refuse(404),), ErrorKind.NOT_FOUND),
    Situation("404-after-tool", "404 after a command", (Shell("true"), Refuse(404)), ErrorKind.NOT_FOUND),
    Situation(
        "unknown-model",
        "an unknown model",
        (Refuse(404, cause=Cause.UNKNOWN_MODEL),),
        ErrorKind.NOT_FOUND,
        model="no-such-model",
    ),
    Situation("429-once", "429, once", (Once(Refuse(429, retry_after=1), Say("in the end")),), "in the end"),
    Situation("429", "429, again and again", (Refuse(429),), ErrorKind.RATE_LIMIT, endless=True),
    Situation(
        "usage-limit",
        "429: a usage limit that resets in two hours",
        (Refuse(429, retry_after=RESET, cause=Cause.USAGE_LIMIT),),
        ErrorKind.QUOTA,
        endless=True,
        login=Login.SUBSCRIPTION,
    ),
    Situation("500", "500, again and again", (Refuse(500),), ErrorKind.SERVER, endless=True),
    Situation(
        "stream-ends-once",
        "a stream that ends early, once",
        (Once(Drop(torn=False), Say("whole")),),
        "whole",
        older={"opencode": ErrorKind.PROTOCOL},  # 1.17 does not ask again
    ),
    Situation(
        "torn-once",
        "a dropped connection, once",
        (Once(Drop(torn=True), Say("whole")),),
        "whole",
        dict.fromkeys(("gemini", "gemini-acp"), ErrorKind.NETWORK),  # it does not ask again after a part of the answer
    ),
    Situation("torn", "a dropped connection, again and again", (Drop(torn=True),), ErrorKind.NETWORK, endless=True),
    Situation("hang", "a model that never answers", (Hang(),), ErrorKind.TIMEOUT, endless=True),
    Situation(
        "killed",
        "the program is killed",
        (Kill(),),
        ErrorKind.KILLED,
        {
            **dict.fromkeys(("gemini", "gemini-acp"), ErrorKind.UNKNOWN),  # the process that asks is its child
            "pi-acp": ErrorKind.TIMEOUT,  # it waits for pi, which is gone
        },
    ),
    Situation(
        "bad-flag",
        "a flag that the program rejects",
        (Say(VERDICT),),
        ErrorKind.BAD_FLAG,
        dict.fromkeys(("claude-agent-acp", "codex-acp", "pi-acp"), VERDICT),  # they ignore it
        extra=("--no-such-flag",),
    ),
)
