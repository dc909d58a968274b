"""The settings in force. Each value knows where it was said; a later word on the same name replaces an earlier one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any

from pipeline.app.settings.grammar import SettingsFile
from pipeline.backends.agents.program import Override
from pipeline.language.choice import ModelChoice
from pipeline.language.model import Element
from pipeline.language.source import Source

# What names a program or an address, or passes keys and variables on.
_TRUSTED = frozenset({"environment", "on", "artefacts", "remote"})
_TRUSTED_BLOCKS = ("agent.", "acp.", "trust.")


class Level(StrEnum):
    """Who says a value; a later one has the last word."""

    DEFAULT = "default"  # nobody
    USER = "user"  # the user's file
    PROJECT = "project"  # the project's file
    OPTION = "option"  # the command line


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value was said."""

    level: Level
    name: str = ""  # the file's or the option's
    line: int = 0  # of a file

    def __str__(self) -> str:
        where = f"{self.name}:{self.line}" if self.line else self.name
        return f"{self.level} {where}".rstrip()


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that was set, and where."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """What an agent may take where the workflow does not say; None is no limit."""

    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without any output
    max_cost_usd: float | None = None  # of the whole run
    retry_delay: float | None = None  # seconds before a transient error is retried for the first time


@dataclass(frozen=True)
class Settings:
    """Everything that was set, by names such as `backend`, `limits.timeout` and `agent.claude.program`."""

    entries: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))

    def under(self, other: "Settings") -> "Settings":
        """Both, with the other's word where the two speak of the same name."""
        own = dict(self.entries)
        if "model" in other.entries:
            own.pop("provider", None)  # a provider belongs to its model
        return Settings(MappingProxyType({**own, **other.entries}))

    def with_option(self, name: str, option: str, value: object) -> "Settings":
        """These, with a word of the command line; None says nothing."""
        said = {name: Setting(value, Origin(Level.OPTION, option))} if value is not None else {}
        return self.under(Settings(said))

    @property
    def backend(self) -> str | None:
        """The backend of stages for which nothing else decides."""
        name: str | None = self._value("backend")
        return name

    @property
    def on(self) -> str:
        """The cluster that runs are on where nothing else is said; none for this machine."""
        return self._value("on") or ""

    @property
    def artefacts(self) -> str:
        """What the machines of that cluster share."""
        return self._value("artefacts") or ""

    @property
    def queue(self) -> str:
        """The queue of that cluster's workers."""
        return self._value("queue") or ""

    @property
    def remote(self) -> str:
        """The git remote by which the files of that cluster's runs travel."""
        return self._value("remote") or ""

    @property
    def environment(self) -> tuple[str, ...]:
        """The names of variables that every tool and agent gets."""
        return self._words("environment")

    @property
    def acp_command(self) -> tuple[str, ...]:
        """The program that speaks the Agent Client Protocol, with its arguments."""
        return self._words("acp.command")

    @property
    def acp_variables(self) -> tuple[str, ...]:
        """The names of more variables that it gets."""
        return self._words("acp.pass")

    @property
    def record_writers(self) -> tuple[str, ...]:
        """The commands that may take records though a file of the repository names them."""
        return self._words("trust.record-write")

    @property
    def trusted_projects(self) -> tuple[str, ...]:
        """The directories whose own settings may name programs, addresses and variables."""
        return self._words("trust.project")

    def harmless(self, *, trusted: bool) -> tuple["Settings", tuple[str, ...]]:
        """What a project may set, and the names of what it may not. None gives trust, whether it is trusted or not."""
        blocks = ("trust.",) if trusted else _TRUSTED_BLOCKS
        names = frozenset[str]() if trusted else _TRUSTED
        refused = tuple(name for name in self.entries if name in names or name.startswith(blocks))
        kept = {name: setting for name, setting in self.entries.items() if name not in refused}
        return Settings(MappingProxyType(kept)), refused

    @cached_property
    def model_choice(self) -> ModelChoice:
        """The model of stages for which the workflow chooses none."""
        return ModelChoice(self._value("model"), self._value("provider"), self._value("reasoning_effort"))

    @cached_property
    def limits(self) -> AgentLimits:
        """The limits of stages for which the workflow sets none."""
        return AgentLimits(
            self._seconds("limits.timeout"),
            self._seconds("limits.idle"),
            self._value("limits.max_cost_usd"),
            self._seconds("limits.retry_delay"),
        )

    def override(self, agent: str) -> Override:
        """What is changed of how an agent's program is started."""
        names = ("program", "arguments", "extra", "pass")
        return Override(*(self._words(f"agent.{agent}.{name}") for name in names))

    def _value(self, name: str) -> Any:
        found = self.entries.get(name)
        return found.value if found else None

    def _words(self, name: str) -> tuple[str, ...]:
        return self._value(name) or ()

    def _seconds(self, name: str) -> float | None:
        value: timedelta | None = self._value(name)
        return value.total_seconds() if value else None


NOTHING_SET = Settings()


def settings_of(file: SettingsFile, source: Source, level: Level) -> Settings:
    """What a file sets, with its lines."""
    blocks = [("", file), ("acp.", file.acp), ("limits.", file.limits), ("trust.", file.trust)]
    blocks += [(f"agent.{agent.name}.", agent) for agent in file.agents]
    return Settings(
        MappingProxyType(
            {
                f"{prefix}{name}": Setting(value, Origin(level, source.name, source.position(offset).line))
                for prefix, element in blocks
                for name, value, offset in _written(element)
            }
        )
    )


def _written(element: Element) -> Iterator[tuple[str, Any, int]]:
    """The attributes that are written down, with their offsets."""
    for field_name, info in type(element).model_fields.items():
        name = info.alias or field_name
        if name in element.at.attributes and name in element.attributes():
            yield name, getattr(element, field_name), element.at.of(name).start
