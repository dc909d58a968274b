"""Settings: what a user and a project choose once, instead of with every command."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pipeline.app.workflow_files import read_source
from pipeline.backends.agents.base import AgentOverride
from pipeline.language.diagnostics import Diagnostic, RuleHit, to_diagnostics
from pipeline.language.model import Element, ModelChoice, TimeLimit
from pipeline.language.nodes import Node, Value, key_before
from pipeline.language.reader import read_nodes
from pipeline.language.rules import reading, structure, values
from pipeline.language.source import START, SourceSpans, SourceText, Span

_VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")


def _text(value: object) -> object:
    if value == "":
        raise PydanticCustomError("expected", "text that is not empty")
    return value


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise PydanticCustomError("expected", "the name of a variable, such as CI or NPM_CONFIG_*,")
    return name


def _program(words: tuple[str, ...]) -> tuple[str, ...]:
    """A relative path would mean another file in the run's workspace than here."""
    if "/" in words[0] and not words[0].startswith("/"):
        raise PydanticCustomError("expected", "an absolute path, or the name of a program on PATH,")
    return words


def _directory(path: str) -> str:
    if not path.startswith("/"):
        raise PydanticCustomError("expected", "the absolute path of a directory")
    return path


Text = Annotated[str, BeforeValidator(_text)]
Words = tuple[str, ...]
Program = Annotated[tuple[Text, ...], AfterValidator(_program)]
Projects = tuple[Annotated[str, AfterValidator(_directory)], ...]
Variables = tuple[Annotated[str, AfterValidator(_variable)], ...]


class AgentSettings(Element):
    """How the program of one agent is started."""

    positional = ("name",)

    name: Literal["claude", "codex", "gemini", "opencode", "pi", "command"]
    program: Program = ()
    arguments: Words = ()
    extra: Words = ()
    variables: Variables = Field(default=(), alias="pass")


class AcpSettings(Element):
    """The program that speaks the Agent Client Protocol."""

    command: Program = ()
    variables: Variables = Field(default=(), alias="pass")


class LimitSettings(Element):
    """What an agent may take where the workflow does not say."""

    max_cost_usd: Annotated[float, Field(gt=0)] | None = None
    timeout: TimeLimit | None = None
    idle: TimeLimit | None = None
    retry_delay: TimeLimit | None = None


class TrustSettings(Element):
    """What the user allows files of a repository to do. It counts in the user's own file only."""

    projects: Projects = Field(default=(), alias="project")
    record_writers: tuple[Text, ...] = Field(default=(), alias="record-write")


class SettingsFile(Element):
    """A whole file."""

    blocks = MappingProxyType({"agent": "agents", "acp": "acp", "limits": "limits", "trust": "trust"})

    backend: Text | None = None
    model: Text | None = None
    provider: Text | None = None
    reasoning_effort: Text | None = None
    environment: Variables = ()
    on: Text | None = None
    artefacts: Text | None = None
    queue: Text | None = None
    remote: Text | None = None
    agents: tuple[AgentSettings, ...] = ()
    acp: AcpSettings = AcpSettings()
    limits: LimitSettings = LimitSettings()
    trust: TrustSettings = TrustSettings()


BLOCKS: MappingProxyType[str, type[Element]] = MappingProxyType(
    {"agent": AgentSettings, "acp": AcpSettings, "limits": LimitSettings, "trust": TrustSettings}
)


# What names a program or an address, or passes keys and variables on.
_TRUSTED = frozenset({"environment", "on", "artefacts", "remote"})
_TRUSTED_BLOCKS = ("agent.", "acp.", "trust.")


class SettingLevel(StrEnum):
    """Who says a value; a later one has the last word."""

    DEFAULT = "default"  # nobody
    USER = "user"  # the user's file
    PROJECT = "project"  # the project's file
    OPTION = "option"  # the command line


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """Where a value was said."""

    level: SettingLevel
    name: str = ""  # the file's or the option's
    line: int = 0  # of a file

    def __str__(self) -> str:
        where = f"{self.name}:{self.line}" if self.line else self.name
        return f"{self.level} {where}".rstrip()


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that was set, and where."""

    value: Any
    origin: SettingOrigin


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
        said = {name: Setting(value, SettingOrigin(SettingLevel.OPTION, option))} if value is not None else {}
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

    def override(self, agent: str) -> AgentOverride:
        """What is changed of how an agent's program is started."""
        names = ("program", "arguments", "extra", "pass")
        return AgentOverride(*(self._words(f"agent.{agent}.{name}") for name in names))

    def _value(self, name: str) -> Any:
        found = self.entries.get(name)
        return found.value if found else None

    def _words(self, name: str) -> tuple[str, ...]:
        return self._value(name) or ()

    def _seconds(self, name: str) -> float | None:
        value: timedelta | None = self._value(name)
        return value.total_seconds() if value else None


NOTHING_SET = Settings()


def settings_of(file: SettingsFile, source: SourceText, level: SettingLevel) -> Settings:
    """What a file sets, with its lines."""
    blocks = [("", file), ("acp.", file.acp), ("limits.", file.limits), ("trust.", file.trust)]
    blocks += [(f"agent.{agent.name}.", agent) for agent in file.agents]
    return Settings(
        MappingProxyType(
            {
                f"{prefix}{name}": Setting(value, SettingOrigin(level, source.name, source.position(offset).line))
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


_FILE = "the settings file"
_SEVERAL = frozenset(
    {"environment", "program", "arguments", "extra", "pass", "command", "project", "record-write"}
)  # take one value or more
_EXPECTED = {"string_type": "text", "float_type": "a number", "greater_than": "a number above {gt:g}"}


class _Line(NamedTuple):
    """A name with its values, written as a node or as a property."""

    name: str
    span: Span
    values: tuple[Value, ...]
    plain: bool = True  # nothing hangs on it that a name with values cannot have


def read_settings(source: SourceText) -> tuple[SettingsFile | None, list[RuleHit]]:
    """What a file says, and what is wrong with it; None where it cannot be used."""
    nodes, seen = read_nodes(source)
    if seen:
        return None, seen
    built = _Block(SettingsFile, Node("", START, (), {}, nodes), _FILE, source.text, seen).build()
    return (built if isinstance(built, SettingsFile) and not seen else None), seen


class _Block:
    """Reads one node for one model, then lets the model judge the values."""

    __slots__ = ("known", "model", "node", "owner", "seen", "spans", "text", "values")

    def __init__(self, model: type[Element], node: Node, owner: str, text: str, seen: list[RuleHit]) -> None:
        self.model = model
        self.node = node
        self.owner = owner
        self.text = text
        self.seen = seen
        self.known = [*model.blocks, *model.attributes()]
        self.values: dict[str, Any] = {}
        self.spans: dict[str, tuple[Span, ...]] = {}

    def build(self) -> Element | None:
        self.arguments()
        for line in _properties(self.node, self.text):
            if line.name in self.model.attributes():
                self.attribute(line)
            else:
                self.seen += structure.unknown_property(line.span, line.name, self.owner, self.known, None)
        for child in self.node.children:
            self.child(child)
        for repeated in self.node.duplicates:
            self.seen += structure.duplicate(repeated.span, f'"{repeated.name}"', self.owner, None)
        return self.judged()

    def arguments(self) -> None:
        names = self.model.positional
        for name, value in zip(names, self.node.args, strict=False):
            self.values[name], self.spans[name] = value.value, (value.span,)
        for extra in self.node.args[len(names) :]:
            self.seen += structure.stray_value(extra.span, self.owner, extra.value, None)

    def child(self, child: Node) -> None:
        if child.name in self.model.blocks:
            self.block(child)
        elif child.name in self.model.attributes():
            plain = not child.props and not child.children
            self.attribute(_Line(child.name, child.span, child.args, plain))
        else:
            self.seen += structure.unknown_node(child, self.owner, self.known)

    def block(self, child: Node) -> None:
        """A child that is an element of its own: one `agent` for each name, everything else once."""
        field, words = self.model.blocks[child.name], _words(child)
        if words in self.spans:
            self.seen += structure.duplicate(child.span, words, self.owner, None)
            return
        self.spans[words] = (child.span,)
        built = _Block(BLOCKS[child.name], child, words, self.text, self.seen).build()
        if isinstance(built, AgentSettings):
            self.values[field] = (*self.values.get(field, ()), built)
        elif built is not None:
            self.values[field] = built

    def attribute(self, line: _Line) -> None:
        if line.name in self.spans:
            self.seen += structure.duplicate(line.span, f'"{line.name}"', self.owner, None)
            return
        self.spans[line.name] = tuple(value.span for value in line.values) or (line.span,)
        several = line.name in _SEVERAL
        if not line.plain or not line.values or (len(line.values) > 1 and not several):
            amount = "one value or more" if several else "one value"
            self.seen += structure.missing(line.span, f'{amount} for "{line.name}"', self.owner, None)
            return
        given = tuple(value.value for value in line.values)
        if given == (None,):  # a field that may be left out would take it for that
            what = f'{self.owner}: "{line.name}"'
            self.seen += structure.wrong_value(line.values[0].span, what, None, "a value", None)
            return
        self.values[line.name] = given if several else given[0]

    def judged(self) -> Element | None:
        place = SourceSpans(self.node.span, {name: spans[0] for name, spans in self.spans.items()})
        try:
            return self.model(**self.values, at=place)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                self.report(details)
            return None

    def report(self, details: ErrorDetails) -> None:
        field, *rest = details["loc"]
        name, index = str(field), rest[0] if rest and isinstance(rest[0], int) else 0
        kind, value = details["type"], details["input"]
        if kind == "missing":
            self.seen += structure.missing(self.node.span, "a name", f"the {self.owner} block", None)
            return
        span, what = self.spans[name][index], f'{self.owner}: "{name}"'
        value = value[0] if isinstance(value, tuple) else value
        if kind == "duration":
            self.seen += values.bad_duration(span, what, details["msg"], None)
        elif kind == "literal_error":
            choices = get_args(self.model.model_fields[name].annotation)
            self.seen += structure.unknown_choice(span, what, value, choices, None)
        else:
            expected = _EXPECTED.get(kind, details["msg"]).format(**details.get("ctx", {}))
            self.seen += structure.wrong_value(span, what, value, expected, None)


def _properties(node: Node, text: str) -> Iterator[_Line]:
    for name, value in node.props.items():
        key = key_before(text, node.span.start, value)
        yield _Line(name, key[1] if key else value.span, (value,))


def _words(node: Node) -> str:
    """A block in the words of a message: `agent "claude"`, `limits`."""
    name = node.args[0].value if node.args and node.name == "agent" else None
    return f'{node.name} "{name}"' if isinstance(name, str) else node.name


NAME = "config.kdl"


@dataclass(frozen=True, slots=True)
class SettingsPaths:
    """The two files, and how messages call them."""

    user: Path
    project: Path
    home: Path
    cwd: Path

    @classmethod
    def of(cls, cwd: Path, home: Path, environ: Mapping[str, str]) -> "SettingsPaths":
        """The places for a working directory; a relative XDG_CONFIG_HOME means nothing, as its standard says."""
        given = Path(environ.get("XDG_CONFIG_HOME", ""))
        base = given if given.is_absolute() else home / ".config"
        return cls(base / "awf" / NAME, cwd / ".awf" / NAME, home, cwd)

    def shown(self, path: Path) -> str:
        """A path as a person would write it here."""
        if path == self.project or path.is_relative_to(self.cwd):
            return os.path.relpath(path, self.cwd)
        return f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The settings of both files, and what is wrong with them; with anything wrong they are not to be used."""

    settings: Settings
    wrong: tuple[tuple[SourceText, tuple[Diagnostic, ...]], ...] = ()
    ignored: str = ""  # what of the project's file is not used, in a sentence


def load_settings(places: SettingsPaths) -> LoadedSettings:
    """Read both files; one that is not there says nothing. A project names no program unless the user trusts it."""
    loaded = LoadedSettings(NOTHING_SET)
    for level, path in ((SettingLevel.USER, places.user), (SettingLevel.PROJECT, places.project)):
        source, seen = _read(path, places.shown(path))
        file, found = read_settings(source) if not seen else (None, seen)
        if file is None:
            loaded = replace(loaded, wrong=(*loaded.wrong, (source, to_diagnostics(source, found))))
            continue
        said, ignored = settings_of(file, source, level), ""
        if level is SettingLevel.PROJECT:
            project = places.project.parent.parent
            said, refused = said.harmless(trusted=_trusted(project, loaded.settings.trusted_projects))
            ignored = _ignored(source.name, refused, places)
        loaded = LoadedSettings(loaded.settings.under(said), loaded.wrong, ignored)
    return loaded


def _trusted(project: Path, trusted: Iterable[str]) -> bool:
    return any(Path(path).resolve() == project.resolve() for path in trusted)


def _ignored(name: str, refused: tuple[str, ...], places: SettingsPaths) -> str:
    if not refused:
        return ""
    allow = f'trust {{ project "{places.project.parent.parent.resolve()}" }}'
    return f"{name}: {', '.join(refused)} ignored; to use it, write {allow} in {places.shown(places.user)}"


def _read(path: Path, name: str) -> tuple[SourceText, list[RuleHit]]:
    try:
        return read_source(path, name)
    except (FileNotFoundError, NotADirectoryError):
        return SourceText(name, ""), []
    except OSError as error:
        why = f'"{name}" cannot be read: {error.strerror or error}'
        return SourceText(name, ""), reading.unreadable_file(START, why, "make it readable, or move it away")


__all__ = [
    "NOTHING_SET",
    "AgentLimits",
    "LoadedSettings",
    "Setting",
    "SettingOrigin",
    "Settings",
    "SettingsPaths",
    "load_settings",
]
