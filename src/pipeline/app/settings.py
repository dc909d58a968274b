"""Settings: what a user and a project choose once instead of with every command.

The user's file comes first, the project's overrides it, and options of the command line override both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline.app.setting_paths import SettingsPaths
from pipeline.app.setting_reader import read_entries
from pipeline.app.setting_table import BY_NAME, WHOLE_BLOCKS, Setter, declaration_of
from pipeline.app.source_file import read_source
from pipeline.backends.agents.override import AgentOverride
from pipeline.engine.outcome import TokenPrice
from pipeline.language.diagnostics import Diagnostic, RuleHit, to_diagnostics
from pipeline.language.model import FindingsFormat, ModelChoice
from pipeline.language.reader import UNREADABLE_FILE
from pipeline.language.source import START, SourceText


class SettingLevel(StrEnum):
    """Who sets a value; later levels override earlier ones."""

    DEFAULT = "default"  # nobody
    USER = "user"  # the user's file
    PROJECT = "project"  # the project's file
    OPTION = "option"  # the command line


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """Where a value was set."""

    level: SettingLevel
    name: str = ""  # of the file or option
    line: int = 0  # in a file

    def __str__(self) -> str:
        where = f"{self.name}:{self.line}" if self.line else self.name
        return f"{self.level} {where}".rstrip()


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it was set."""

    value: Any
    origin: SettingOrigin


@dataclass(frozen=True, slots=True)
class AgentLimits:
    """The limits of an agent where the workflow sets none; None means no limit."""

    timeout: float | None = None  # seconds in all
    idle: float | None = None  # seconds without output
    max_cost_usd: float | None = None  # of the whole run
    retry_delay: float | None = None  # seconds before the first retry of a transient error


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """A tool that runs beside the reviewers of `awf review`."""

    name: str
    command: str
    findings: FindingsFormat = FindingsFormat.TEXT


@dataclass(frozen=True)
class Settings:
    """Everything that is set, by names such as `backend`, `limits.timeout` and `agent.claude.program`."""

    entries: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))

    def overridden_by(self, other: "Settings") -> "Settings":
        """Both, with the other's value where both set a name."""
        replaced = {_whole_block(name) for name in other.entries} - {""}
        own = {name: setting for name, setting in self.entries.items() if _whole_block(name) not in replaced}
        if "model" in other.entries:
            own.pop("provider", None)  # a provider belongs to its model
        return Settings(MappingProxyType({**own, **other.entries}))

    def with_option(self, name: str, option: str, value: object) -> "Settings":
        """These, overridden by an option of the command line unless that is None."""
        origin = SettingOrigin(SettingLevel.OPTION, option)
        return self.overridden_by(Settings({name: Setting(value, origin)} if value is not None else {}))

    def without_untrusted(self, *, trusted: bool) -> tuple["Settings", tuple[str, ...]]:
        """What a project may set, and the names of what it may not. No project may grant trust."""
        allowed = {Setter.ANYBODY, Setter.TRUSTED} if trusted else {Setter.ANYBODY}
        refused = tuple(name for name in self.entries if declaration_of(name).setter not in allowed)
        kept = {name: setting for name, setting in self.entries.items() if name not in refused}
        return Settings(MappingProxyType(kept)), refused

    @property
    def backend(self) -> str | None:
        """The backend of stages for which nothing else decides."""
        name: str | None = self._value("backend")
        return name

    @property
    def on(self) -> str:
        """The cluster that runs use by default; empty for this machine."""
        return str(self._value("on"))

    @property
    def artifacts(self) -> str:
        """The object store that the machines of that cluster share."""
        return str(self._value("artifacts"))

    @property
    def queue(self) -> str:
        """The queue of that cluster's workers."""
        return str(self._value("queue"))

    @property
    def remote(self) -> str:
        """The git remote through which that cluster's runs exchange files."""
        return str(self._value("remote"))

    @property
    def environment(self) -> tuple[str, ...]:
        """The names of variables that every tool and agent gets."""
        return tuple(self._value("environment"))

    @property
    def acp_command(self) -> tuple[str, ...]:
        """The program that speaks the Agent Client Protocol, with its arguments."""
        return tuple(self._value("acp.command"))

    @property
    def acp_variables(self) -> tuple[str, ...]:
        """The names of additional variables that it gets."""
        return tuple(self._value("acp.pass"))

    @property
    def record_writers(self) -> tuple[str, ...]:
        """The commands that may receive records although a file of the repository names them."""
        return tuple(self._value("trust.record-write"))

    @property
    def review_reports(self) -> str:
        """The directory of the repository that the reports of full reviews are written to."""
        return str(self._value("review.reports"))

    @property
    def trusted_projects(self) -> tuple[str, ...]:
        """The directories whose own settings may name programs, addresses and variables."""
        return tuple(self._value("trust.project"))

    @property
    def model_choice(self) -> ModelChoice:
        """The model of stages for which the workflow chooses none."""
        return ModelChoice(self._value("model"), self._value("provider"), self._value("reasoning_effort"))

    @property
    def profiles(self) -> Mapping[str, ModelChoice]:
        """The models that profiles of workflows stand for."""
        words = ("model", "provider", "reasoning_effort")
        names = self._block_names("profile")
        return {name: ModelChoice(*(self._value(f"profile.*.{word}", name) for word in words)) for name in names}

    @property
    def prices(self) -> Mapping[str, TokenPrice]:
        """The prices of models, or of the model that an agent uses by default."""
        return {
            name: TokenPrice(input=self._value("price.*.input", name), output=self._value("price.*.output", name))
            for name in self._block_names("price")
        }

    @property
    def review_tools(self) -> tuple[ToolSettings, ...]:
        """The tools that run beside the reviewers of `awf review`."""
        return tuple(
            ToolSettings(
                name=name,
                command=self._value("review.tool.*.command", name),
                findings=FindingsFormat(self._value("review.tool.*.findings", name)),
            )
            for name in self._block_names("review.tool")
        )

    @property
    def limits(self) -> AgentLimits:
        """The limits of stages for which the workflow sets none."""

        def seconds(name: str) -> float | None:
            value: timedelta | None = self._value(name)
            return value.total_seconds() if value else None

        max_cost_usd = self._value("limits.max_cost_usd")
        return AgentLimits(
            seconds("limits.timeout"), seconds("limits.idle"), max_cost_usd, seconds("limits.retry_delay")
        )

    def override(self, agent: str) -> AgentOverride:
        """How an agent's program is started differently."""
        return AgentOverride(
            *(self._value(f"agent.*.{word}", agent) for word in ("program", "arguments", "extra", "pass"))
        )

    def _block_names(self, kind: str) -> list[str]:
        """The names of blocks such as `profile "reviewer"`."""
        blocks = dict.fromkeys(map(_whole_block, self.entries))
        return [block.removeprefix(f"{kind}.") for block in blocks if block.startswith(f"{kind}.")]

    def _value(self, declared: str, block: str = "") -> Any:
        """The value of a setting, or its default; `block` is what `*` stands for in the name that is declared."""
        found = self.entries.get(declared.replace("*", block))
        return found.value if found else BY_NAME[declared].default


def _whole_block(name: str) -> str:
    """The block that a setting such as `profile.reviewer.model` belongs to and is replaced with; empty for others."""
    return name.rpartition(".")[0] if name.startswith(WHOLE_BLOCKS) else ""


NOTHING_SET = Settings()


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings of both files, and the problems of each; with any problem they must not be used."""

    settings: Settings
    problems: tuple[tuple[SourceText, tuple[Diagnostic, ...]], ...] = ()
    ignored: str = ""  # what of the project's file is not used, in a sentence


def load_settings(paths: SettingsPaths) -> LoadedSettings:
    """Read both files; a missing one sets nothing. A project names no program unless the user trusts it."""
    loaded = LoadedSettings(NOTHING_SET)
    for level, path in ((SettingLevel.USER, paths.user), (SettingLevel.PROJECT, paths.project)):
        name, ignored = paths.display(path), ""
        try:
            source, hits = read_source(path, name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            message = f'cannot read "{name}": {error.strerror or error}'
            source, hits = SourceText(name, ""), [UNREADABLE_FILE.hit(START, message, "make it readable or remove it")]
        if not hits:
            found, hits = read_settings(source, level)
        if hits:
            loaded = replace(loaded, problems=(*loaded.problems, (source, to_diagnostics(source, hits))))
            continue
        if level is SettingLevel.PROJECT:
            project = path.parent.parent.resolve()
            trusted = any(Path(trusted).resolve() == project for trusted in loaded.settings.trusted_projects)
            found, refused = found.without_untrusted(trusted=trusted)
            if refused:
                trust, user = f'trust {{ project "{project}" }}', paths.display(paths.user)
                ignored = f"{name}: {', '.join(refused)} ignored; to use it, add {trust} to {user}"
        loaded = LoadedSettings(loaded.settings.overridden_by(found), loaded.problems, ignored)
    return loaded


def read_settings(source: SourceText, level: SettingLevel) -> tuple[Settings, list[RuleHit]]:
    """What a file sets, or what is wrong with it."""
    entries, hits = read_entries(source)
    if hits:
        return NOTHING_SET, hits
    read = {
        name: Setting(entry.value, SettingOrigin(level, source.name, entry.line)) for name, entry in entries.items()
    }
    return Settings(MappingProxyType(read)), []
