"""What a settings file may say, as frozen values: the models are the grammar, as those of a workflow are."""

import re
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from pipeline.language.fields import TimeLimit
from pipeline.language.model import Element

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
