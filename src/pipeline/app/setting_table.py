"""Every setting, declared once: its name, its values, what applies without it, its meaning, and who may set it."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from pipeline.language.diagnostics import Rule
from pipeline.language.kdl import Scalar
from pipeline.language.model import FindingsFormat, parse_duration
from pipeline.language.reader import BAD_DURATION, UNKNOWN_CHOICE, WRONG_VALUE

_LARGEST = 1e15  # of a number: no limit or price is larger, and Python cannot make a float of every integer


class Setter(StrEnum):
    """Whose file may set something; what others set is ignored, with a note."""

    ANYBODY = "you, any project"
    TRUSTED = "you, a project that you trust"  # it names a program or an address, or passes variables on
    USER = "only you"


@dataclass(frozen=True, slots=True)
class SettingType:
    """The values that a setting accepts.

    `read` raises ValueError for any other value, with what is wrong where `words` do not say it.
    """

    words: str  # what such a value is called
    read: Callable[[Scalar], object]
    rule: Rule = WRONG_VALUE  # that a wrong value violates
    choices: tuple[str, ...] = ()
    several: bool = False
    first: "SettingType | None" = None  # of the first of several values, if it is a special one

    def at(self, index: int) -> "SettingType":
        """Return the type of one of several values."""
        return self.first if self.first and index == 0 else self


def _text(words: str, pattern: str, *, several: bool = False, first: SettingType | None = None) -> SettingType:
    def read(value: Scalar) -> str:
        if isinstance(value, str) and re.fullmatch(pattern, value, re.DOTALL):
            return value
        raise ValueError

    return SettingType(words, read, several=several, first=first)


def _choice(names: Iterable[str]) -> SettingType:
    known = tuple(names)

    def read(value: Scalar) -> str:
        if isinstance(value, str) and value in known:
            return value
        raise ValueError

    return SettingType(f"one of {', '.join(known)}", read, UNKNOWN_CHOICE, known)


def _number(words: str, accepts: Callable[[float], bool]) -> SettingType:
    def read(value: Scalar) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError  # noqa: TRY004 - as for other wrong values
        if abs(value) >= _LARGEST or not accepts(value):
            raise ValueError
        return float(value)

    return SettingType(words, read)


def _read_time_limit(value: Scalar) -> object:
    if not isinstance(value, str):
        raise ValueError('a duration needs a unit and quotes, such as "30s" or "10m"')  # noqa: TRY004 - as for others
    duration = parse_duration(value)
    if not duration:
        raise ValueError("a time limit must be longer than zero")
    return duration


_TEXT = _text("non-empty text", ".+")
_DIRECTORIES = _text("the absolute path of a directory", "/.*", several=True)
_LINES = _text("non-empty text", ".+", several=True)
_WORDS = _text("text", ".*", several=True)
# A relative path would name another file in the run's workspace than here.
_PROGRAM = _text(
    "non-empty text",
    ".+",
    several=True,
    first=_text("an absolute path or the name of a program on PATH", "/.*|[^/]+"),
)
_VARIABLES = _text("the name of a variable such as CI or NPM_CONFIG_*", "[A-Za-z_*][A-Za-z0-9_*]*", several=True)
_TIME_LIMIT = SettingType("a duration", _read_time_limit, BAD_DURATION)
_PRICE = _number("a number, at least 0", lambda value: value >= 0)
_BUDGET = _number("a number above 0", lambda value: value > 0)


@dataclass(frozen=True, slots=True)
class Declaration:
    """One setting. `*` in its name stands for the name of a block, such as `agent "claude"`."""

    name: str
    type: SettingType
    meaning: str
    default: Any = None
    without: str = ""  # what applies without it, where no default value says so
    setter: Setter = Setter.ANYBODY
    required: bool = False  # then its block is read, and overridden, as a whole

    @property
    def block(self) -> str:
        """The block that it is written in; empty for none."""
        return self.name.rpartition(".")[0]

    @property
    def word(self) -> str:
        """What it is called in its block."""
        return self.name.rpartition(".")[2]

    def matches(self, name: str) -> bool:
        """Whether it declares a setting with this name, such as `agent.claude.program`."""
        begin, star, end = self.name.partition("*")
        return name == begin if not star else name.startswith(begin) and name.endswith(end)


_OWN = "the agent's own"
_TRUSTED, _USER = Setter.TRUSTED, Setter.USER
DECLARATIONS = (
    Declaration("backend", _TEXT, "the agent of stages where nothing else decides", without="the first agent on PATH"),
    Declaration("model", _TEXT, "the model of stages where the workflow chooses none", without=_OWN),
    Declaration("provider", _TEXT, "its provider; a file that sets the model does not get another's", without=_OWN),
    Declaration("reasoning_effort", _TEXT, "how much the model thinks", without=_OWN),
    Declaration(
        "environment",
        _VARIABLES,
        "variables for every tool and agent",
        (),
        "only what every program needs",
        _TRUSTED,
    ),
    Declaration("on", _TEXT, "the [cluster](cluster.md) that runs are started on", "", "this machine", _TRUSTED),
    Declaration("artifacts", _TEXT, "what the machines of the cluster share", "", "none", _TRUSTED),
    Declaration("queue", _TEXT, "the queue of the cluster's workers", "awf"),
    Declaration("remote", _TEXT, "the git remote that carries the files of the cluster's runs", "", "none", _TRUSTED),
    Declaration("limits.max_cost_usd", _BUDGET, "what a run may cost, in US dollars", without="no limit"),
    Declaration("limits.timeout", _TIME_LIMIT, "how long one visit of a stage may take", without="2h for an agent"),
    Declaration("limits.idle", _TIME_LIMIT, "how long it may be without any output", without="30m for an agent"),
    Declaration(
        "limits.retry_delay", _TIME_LIMIT, "the wait before the first retry of a transient error", without="2s"
    ),
    Declaration("profile.*.model", _TEXT, 'the model of stages with `model_profile="*"`', required=True),
    Declaration("profile.*.provider", _TEXT, "its provider", without=_OWN),
    Declaration("profile.*.reasoning_effort", _TEXT, "how much it thinks", without=_OWN),
    Declaration("price.*.input", _PRICE, "what a million tokens cost that the model reads", required=True),
    Declaration("price.*.output", _PRICE, "what a million tokens cost that it writes, in US dollars", required=True),
    Declaration("agent.*.program", _PROGRAM, "instead of the one on PATH, with its first arguments", (), "", _TRUSTED),
    Declaration("agent.*.arguments", _WORDS, "instead of ours: model, access and session", (), "", _TRUSTED),
    Declaration("agent.*.extra", _WORDS, "arguments besides ours", (), "", _TRUSTED),
    Declaration("agent.*.pass", _VARIABLES, "more variables for this agent", (), "", _TRUSTED),
    Declaration("acp.command", _PROGRAM, "the agent that speaks the Agent Client Protocol", (), "none", _TRUSTED),
    Declaration("acp.pass", _VARIABLES, "more variables for it", (), "none", _TRUSTED),
    Declaration("review.reports", _TEXT, "where the repository keeps the reports of reviews", "docs/code-reviews"),
    Declaration(
        "review.tool.*.command",
        _TEXT,
        "a tool that runs beside the reviewers of `awf review`",
        setter=_TRUSTED,
        required=True,
    ),
    Declaration(
        "review.tool.*.findings",
        _choice(FindingsFormat),
        "the format of its findings",
        FindingsFormat.TEXT,
        setter=_TRUSTED,
    ),
    Declaration(
        "trust.project",
        _DIRECTORIES,
        "projects whose own settings may name programs, addresses and variables",
        (),
        "none",
        _USER,
    ),
    Declaration(
        "trust.record-write",
        _LINES,
        "commands that `.wystack/storage.json` may name, word for word",
        (),
        "none",
        _USER,
    ),
)
BY_NAME: Mapping[str, Declaration] = MappingProxyType({one.name: one for one in DECLARATIONS})

# How blocks that may be given several times are named.
BLOCK_NAMES: Mapping[str, SettingType] = MappingProxyType(
    {
        "profile": _TEXT,
        "price": _TEXT,
        "agent": _choice(("claude", "codex", "gemini", "opencode", "pi", "command")),
        "review.tool": _text("a name of letters, digits, - and _", "[A-Za-z_][A-Za-z0-9_-]{0,63}"),
    }
)
# Their settings belong together: a file that has such a block does not get the rest of it from another file.
WHOLE_BLOCKS = tuple(dict.fromkeys(one.block.removesuffix("*") for one in DECLARATIONS if one.required))


def declaration_of(name: str) -> Declaration:
    """Return what declares a setting."""
    return next(one for one in DECLARATIONS if one.matches(name))


def settings_in(block: str) -> Mapping[str, Declaration]:
    """Return the settings that are written in a block, by their words."""
    return {one.word: one for one in DECLARATIONS if one.block == block}


def blocks_in(block: str) -> frozenset[str]:
    """Return the names of the blocks in a block, or of a file's blocks."""
    begin = f"{block}." if block else ""
    inside = (one.name.removeprefix(begin) for one in DECLARATIONS if one.name.startswith(begin))
    return frozenset(name.partition(".")[0] for name in inside if "." in name and not name.startswith("*"))
