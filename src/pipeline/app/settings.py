"""Settings: what a user and a project choose once instead of with every command.

The user's file comes first, the project's overrides it, and options of the command line override both.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from pipeline.app.catalog import read_source
from pipeline.backends.agents.base import AgentOverride
from pipeline.engine.outcome import TokenPrice
from pipeline.language.diagnostics import Diagnostic, RuleHit, to_diagnostics
from pipeline.language.kdl import KdlNode
from pipeline.language.model import Element, FindingsFormat, ModelChoice, TimeLimit
from pipeline.language.reader import DUPLICATE, UNREADABLE_FILE, parse_nodes, read_element
from pipeline.language.source import START, SourceText

FILE_NAME = "config.kdl"
# A project that is not trusted may not set what names a program or an address, or passes variables on.
_NEEDS_TRUST = frozenset({"environment", "on", "artifacts", "remote"})
_BLOCKS_NEED_TRUST = ("agent.", "acp.", "trust.", "review.tool.")
_REPLACED_AS_A_WHOLE = ("profile.", "price.", "review.tool.")  # blocks with a name, whose settings belong together
_RENAMED = {"artefacts": "artifacts"}  # earlier spellings, which files may still use


def _matching(pattern: str, expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not re.fullmatch(pattern, text, re.DOTALL):
            raise PydanticCustomError("expected", "{expected}", {"expected": expected})
        return text

    return AfterValidator(check)


def _check_program(words: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a relative path: it would name another file in the run's workspace than here."""
    if "/" in words[0] and not words[0].startswith("/"):
        raise PydanticCustomError("expected", "an absolute path or the name of a program on PATH")
    return words


_ONE_OR_MORE = BeforeValidator(lambda value: value if isinstance(value, tuple) else (value,))
Text = Annotated[str, _matching(".+", "non-empty text")]
Variable = Annotated[str, _matching("[A-Za-z_*][A-Za-z0-9_*]*", "the name of a variable such as CI or NPM_CONFIG_*")]
Directory = Annotated[str, _matching("/.*", "the absolute path of a directory")]
Words = Annotated[tuple[str, ...], _ONE_OR_MORE]
Texts = Annotated[tuple[Text, ...], _ONE_OR_MORE]
Program = Annotated[tuple[Text, ...], AfterValidator(_check_program), _ONE_OR_MORE]
Directories = Annotated[tuple[Directory, ...], _ONE_OR_MORE]
Variables = Annotated[tuple[Variable, ...], _ONE_OR_MORE]


# Only what a file sets is read from these models: their defaults stand for "not set".
class AgentSettings(Element):
    """How the program of one agent is started."""

    positional = ("name",)
    lists = ("program", "arguments", "extra", "pass")

    name: Literal["claude", "codex", "gemini", "opencode", "pi", "command"]
    program: Program = ()
    arguments: Words = ()
    extra: Words = ()
    variables: Variables = Field(default=(), alias="pass")


class AcpSettings(Element):
    """The program that speaks the Agent Client Protocol."""

    lists = ("command", "pass")

    command: Program = ()
    variables: Variables = Field(default=(), alias="pass")


class LimitSettings(Element):
    """The limits of agents where the workflow sets none."""

    max_cost_usd: Annotated[float, Field(gt=0)] = 0
    timeout: TimeLimit = timedelta()
    idle: TimeLimit = timedelta()
    retry_delay: TimeLimit = timedelta()


class TrustSettings(Element):
    """What the user allows files of a repository to do; ignored in a project's file."""

    lists = ("project", "record-write")

    projects: Directories = Field(default=(), alias="project")
    record_writers: Texts = Field(default=(), alias="record-write")


class ProfileSettings(Element):
    """The model that a profile of workflows stands for."""

    positional = ("name",)

    name: Text
    model: Text
    provider: Text = ""
    reasoning_effort: Text = ""


class PriceSettings(Element):
    """What a model costs whose agent reports no cost, in US dollars per million tokens."""

    positional = ("model",)

    model: Text
    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]

    @property
    def name(self) -> str:
        """The model, which names the block."""
        return self.model


class ToolSettings(Element):
    """A tool that runs beside the reviewers of `awf review`."""

    positional = ("name",)

    name: Annotated[str, _matching("[A-Za-z_][A-Za-z0-9_-]{0,63}", "a name of letters, digits, - and _")]
    command: Text
    findings: Annotated[FindingsFormat, Field(strict=False)] = FindingsFormat.TEXT


class ReviewSettings(Element):
    """What `awf review` runs besides its reviewers, and where reports of reviews are written."""

    blocks = MappingProxyType({"tool": "tools"})

    reports: Text = ""
    tools: tuple[ToolSettings, ...] = ()


class SettingsFile(Element):
    """A whole file."""

    blocks = MappingProxyType(
        {
            "profile": "profiles",
            "price": "prices",
            "agent": "agents",
            "acp": "acp",
            "limits": "limits",
            "review": "review",
            "trust": "trust",
        }
    )
    lists = ("environment",)

    backend: Text = ""
    model: Text = ""
    provider: Text = ""
    reasoning_effort: Text = ""
    environment: Variables = ()
    on: Text = ""
    artefacts: Text = ""
    artifacts: Text = ""
    queue: Text = ""
    remote: Text = ""
    profiles: tuple[ProfileSettings, ...] = ()
    prices: tuple[PriceSettings, ...] = ()
    agents: tuple[AgentSettings, ...] = ()
    acp: AcpSettings = AcpSettings()
    limits: LimitSettings = LimitSettings()
    review: ReviewSettings = ReviewSettings()
    trust: TrustSettings = TrustSettings()


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


@dataclass(frozen=True)
class Settings:
    """Everything that is set, by names such as `backend`, `limits.timeout` and `agent.claude.program`."""

    entries: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))

    def overridden_by(self, other: "Settings") -> "Settings":
        """Both, with the other's value where both set a name."""
        replaced = {_named_block(name) for name in other.entries} - {""}
        own = {name: setting for name, setting in self.entries.items() if _named_block(name) not in replaced}
        if "model" in other.entries:
            own.pop("provider", None)  # a provider belongs to its model
        return Settings(MappingProxyType({**own, **other.entries}))

    def with_option(self, name: str, option: str, value: object) -> "Settings":
        """These, overridden by an option of the command line unless that is None."""
        origin = SettingOrigin(SettingLevel.OPTION, option)
        return self.overridden_by(Settings({name: Setting(value, origin)} if value is not None else {}))

    def without_untrusted(self, *, trusted: bool) -> tuple["Settings", tuple[str, ...]]:
        """What a project may set, and the names of what it may not. No project may grant trust."""
        blocks = ("trust.",) if trusted else _BLOCKS_NEED_TRUST
        names = frozenset[str]() if trusted else _NEEDS_TRUST
        refused = tuple(name for name in self.entries if name in names or name.startswith(blocks))
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
        return self._value("on") or ""

    @property
    def artifacts(self) -> str:
        """The object store that the machines of that cluster share."""
        return self._value("artifacts") or ""

    @property
    def queue(self) -> str:
        """The queue of that cluster's workers."""
        return self._value("queue") or ""

    @property
    def remote(self) -> str:
        """The git remote through which that cluster's runs exchange files."""
        return self._value("remote") or ""

    @property
    def environment(self) -> tuple[str, ...]:
        """The names of variables that every tool and agent gets."""
        return self._value("environment") or ()

    @property
    def acp_command(self) -> tuple[str, ...]:
        """The program that speaks the Agent Client Protocol, with its arguments."""
        return self._value("acp.command") or ()

    @property
    def acp_variables(self) -> tuple[str, ...]:
        """The names of additional variables that it gets."""
        return self._value("acp.pass") or ()

    @property
    def record_writers(self) -> tuple[str, ...]:
        """The commands that may receive records although a file of the repository names them."""
        return self._value("trust.record-write") or ()

    @property
    def review_reports(self) -> str:
        """The directory of the repository that the reports of full reviews are written to."""
        return self._value("review.reports") or "docs/code-reviews"

    @property
    def trusted_projects(self) -> tuple[str, ...]:
        """The directories whose own settings may name programs, addresses and variables."""
        return self._value("trust.project") or ()

    @property
    def model_choice(self) -> ModelChoice:
        """The model of stages for which the workflow chooses none."""
        return ModelChoice(self._value("model"), self._value("provider"), self._value("reasoning_effort"))

    @property
    def profiles(self) -> Mapping[str, ModelChoice]:
        """The models that profiles of workflows stand for."""
        options = ("model", "provider", "reasoning_effort")
        names = self._names("profile.")
        return {name: ModelChoice(*(self._value(f"profile.{name}.{option}") for option in options)) for name in names}

    @property
    def prices(self) -> Mapping[str, TokenPrice]:
        """The prices of models, or of the model that an agent uses by default."""
        return {
            name: TokenPrice(input=self._value(f"price.{name}.input"), output=self._value(f"price.{name}.output"))
            for name in self._names("price.")
        }

    @property
    def review_tools(self) -> tuple[ToolSettings, ...]:
        """The tools that run beside the reviewers of `awf review`."""
        return tuple(
            ToolSettings(
                name=name,
                command=self._value(f"review.tool.{name}.command"),
                findings=self._value(f"review.tool.{name}.findings") or FindingsFormat.TEXT,
            )
            for name in self._names("review.tool.")
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
        names = ("program", "arguments", "extra", "pass")
        return AgentOverride(*(self._value(f"agent.{agent}.{name}") or () for name in names))

    def _names(self, prefix: str) -> list[str]:
        """The names of blocks such as `profile "reviewer"`."""
        blocks = dict.fromkeys(map(_named_block, self.entries))
        return [block.removeprefix(prefix) for block in blocks if block.startswith(prefix)]

    def _value(self, name: str) -> Any:
        found = self.entries.get(name)
        return found.value if found else None


def _named_block(name: str) -> str:
    """The block that a setting such as `profile.reviewer.model` belongs to and is replaced with; empty for others."""
    return name.rpartition(".")[0] if name.startswith(_REPLACED_AS_A_WHOLE) else ""


NOTHING_SET = Settings()


@dataclass(frozen=True, slots=True)
class SettingsPaths:
    """The two settings files, and how messages name them."""

    user: Path
    project: Path
    home: Path
    cwd: Path

    @classmethod
    def of(cls, cwd: Path, home: Path, environ: Mapping[str, str]) -> "SettingsPaths":
        """The files for a working directory; a relative XDG_CONFIG_HOME is ignored, as its standard says."""
        given = Path(environ.get("XDG_CONFIG_HOME", ""))
        base = given if given.is_absolute() else home / ".config"
        return cls(base / "awf" / FILE_NAME, cwd / ".awf" / FILE_NAME, home, cwd)

    def display(self, path: Path) -> str:
        """A path as a person would write it here."""
        if path == self.project or path.is_relative_to(self.cwd):
            return os.path.relpath(path, self.cwd)
        return f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)


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
    nodes, hits = parse_nodes(source)
    if hits:
        return NOTHING_SET, hits
    root = KdlNode("", START, (), {}, nodes, {})
    file = read_element(SettingsFile, root, "the settings file", source.text, hits)
    blocks: dict[str, Element] = {"": file, "acp.": file.acp, "limits.": file.limits, "trust.": file.trust}
    blocks["review."] = file.review
    named_blocks = (
        ("agent", file.agents),
        ("profile", file.profiles),
        ("price", file.prices),
        ("review.tool", file.review.tools),
    )
    for kind, elements in named_blocks:
        for named in elements:
            if named.name and f"{kind}.{named.name}." in blocks:
                message = f'the settings file has {kind.removeprefix("review.")} "{named.name}" twice'
                hits.append(DUPLICATE.hit(named.spans.node, message, "merge them"))
            blocks[f"{kind}.{named.name}."] = named
    if hits:
        return NOTHING_SET, hits
    entries = {}
    for prefix, element in blocks.items():
        for field_name, info in type(element).model_fields.items():
            name = info.alias or field_name
            if name in element.spans.attributes and name in element.attributes():
                line = source.position(element.spans.of(name).start).line
                origin = SettingOrigin(level, source.name, line)
                entries[f"{prefix}{_RENAMED.get(name, name)}"] = Setting(getattr(element, field_name), origin)
    return Settings(MappingProxyType(entries)), []
