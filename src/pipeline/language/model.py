"""A workflow as frozen models. The models are also the grammar: `reader` derives from them what a file may say."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    GetPydanticSchema,
    PlainSerializer,
    model_validator,
)
from pydantic_core import PydanticCustomError, core_schema

from pipeline.language.expressions import Expression, ExpressionError, parse_expression
from pipeline.language.lens import Lens as Lens  # noqa: PLC0414 - a part of the model
from pipeline.language.source import NO_SPANS, SourceSpans

VERSION = 2

_UNITS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
_PART = re.compile(r"(\d+)(ms|[dhms])", re.ASCII)
_WHOLE = re.compile(r"(?:\d+(?:ms|[dhms]))+", re.ASCII)
MAX_DURATION = timedelta(days=3650)
_MAX_DIGITS = 13  # MAX_DURATION has fewer milliseconds, so longer numbers need not be read to the end


def parse_duration(text: str) -> timedelta:
    """Read a duration such as `250ms`, `30s` or `1h30m`. Raises ValueError with what to write instead."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f'"{text}" is not a duration; write one such as "30s", "10m" or "1h30m"')
    parts = _PART.findall(text)
    units = [unit for _, unit in parts]
    if units != sorted(set(units), key=list(_UNITS).index):
        raise ValueError(f'"{text}" is not a duration; write each unit once, largest first, such as "1h30m"')
    milliseconds = sum(int(digits[:_MAX_DIGITS]) * _UNITS[unit] for digits, unit in parts)
    if milliseconds > MAX_DURATION // timedelta(milliseconds=1):
        raise ValueError(f"a duration is at most {MAX_DURATION.days} days")
    return timedelta(milliseconds=milliseconds)


def write_duration(duration: timedelta) -> str:
    """Write a duration the way `parse_duration` reads it."""
    rest = duration // timedelta(milliseconds=1)
    written = ""
    for unit, size in _UNITS.items():
        count, rest = divmod(rest, size)
        written += f"{count}{unit}" if count else ""
    return written or "0s"


def _validate_duration(value: object) -> object:
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("duration", 'a duration needs a unit and quotes, such as "30s" or "10m"')
    try:
        return parse_duration(value)
    except ValueError as error:
        raise PydanticCustomError("duration", "{why}", {"why": str(error)}) from None


def _validate_time_limit(value: object) -> object:
    duration = _validate_duration(value)
    if not duration:
        raise PydanticCustomError("duration", "a time limit must be longer than zero")
    return duration


def _validate_condition(value: object) -> object:
    if isinstance(value, Expression):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "a condition is text")
    try:
        return parse_expression(value)
    except ExpressionError as error:
        details = {"why": error.message, "start": error.span.start, "end": error.span.end, "help": error.help}
        raise PydanticCustomError("expression", "{why}", details) from None


def _split_names(value: object) -> object:
    if isinstance(value, str):
        return tuple(part for item in value.split(",") if (part := item.strip()))
    return tuple(value) if isinstance(value, list) else value


Duration = Annotated[timedelta, BeforeValidator(_validate_duration), PlainSerializer(write_duration)]
TimeLimit = Annotated[timedelta, BeforeValidator(_validate_time_limit), PlainSerializer(write_duration)]
_CONDITION_SCHEMA = core_schema.no_info_plain_validator_function(
    _validate_condition,
    serialization=core_schema.plain_serializer_function_ser_schema(lambda expression: expression.text),
)
Condition = Annotated[Expression, GetPydanticSchema(lambda _source, _handler: _CONDITION_SCHEMA)]
Names = Annotated[tuple[str, ...], BeforeValidator(_split_names)]  # separated by commas, or one argument each
Flag = Annotated[bool, BeforeValidator(lambda value: {"true": True, "false": False}.get(str(value), value))]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
SummaryBudget = Annotated[int, Field(ge=1000, le=10_000_000)]
InputValue = str | bool | int | float
_NUMBER = re.compile(r"-?\d{1,300}(?:\.\d{1,300})?", re.ASCII)


class StageKind(StrEnum):
    """What runs a stage."""

    LLM = "llm"  # an agent with a prompt
    TOOL = "tool"  # a shell command
    HUMAN = "human"  # a person who chooses an option
    DECISION = "decision"  # conditions alone
    TRIAGE = "triage"  # a person who decides on findings one by one
    PARALLEL = "parallel"  # several stages at once
    WORKSPACE_CREATE = "workspace.create"  # create a git worktree for the run
    WORKSPACE_MERGE = "workspace.merge"  # merge its branch back
    WORKSPACE_CLEANUP = "workspace.cleanup"  # remove worktree and branch
    EXIT = "exit"  # the end


class Access(StrEnum):
    """What an agent may do to files."""

    CODING = "coding"  # read, write and run commands
    READ_ONLY = "read-only"
    NONE = "none"  # it only answers


class Effects(StrEnum):
    """What a tool stage may have changed when it is interrupted."""

    WORKSPACE = "workspace"  # files of the workspace, which are restored before it runs again
    NONE = "none"  # nothing: it simply runs again
    EXTERNAL = "external"  # something outside: it is never repeated without asking


class OnError(StrEnum):
    """What happens to the run when a stage could not do its job."""

    PAUSE = "pause"  # `awf resume` runs the stage again
    ROUTE = "route"  # the error is routed like a failure
    FAIL = "fail"  # the run fails


class OnResult(StrEnum):
    """The results after which a transition is followed."""

    SUCCESS = "success"  # success or partial_success
    FAIL = "fail"  # any other result
    ALWAYS = "always"  # every result

    def holds(self, *, passed: bool) -> bool:
        """Whether a stage that passed, or did not, has this result."""
        return self is OnResult.ALWAYS or (self is OnResult.SUCCESS) is passed


class FindingsFormat(StrEnum):
    """The format in which a tool stage reports findings."""

    TEXT = "text"  # one report of plain text
    SARIF = "sarif"
    JUNIT = "junit"
    RDJSON = "rdjson"
    VERDICT = "verdict"  # `.code-review/review-latest.json`
    REVIEW = "review"  # the JSON of a review agent
    ESLINT = "eslint"
    MYPY = "mypy"


class Backoff(StrEnum):
    """How the wait between attempts grows."""

    NONE = "none"  # no wait
    FIXED = "fixed"  # always `delay`
    EXPONENTIAL = "exponential"  # doubled each time, up to `max_delay`


class Element(BaseModel):
    """One node of a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    positional: ClassVar[tuple[str, ...]] = ()  # fields written as arguments
    blocks: ClassVar[Mapping[str, str]] = {}  # child nodes that are elements themselves, and the fields they fill
    lists: ClassVar[tuple[str, ...]] = ()  # attributes that take several arguments: `stages "review" "fix"`
    repeatable: ClassVar[tuple[str, ...]] = ()  # attributes that may be given more than once

    spans: SourceSpans = Field(default=NO_SPANS, exclude=True, repr=False)

    @classmethod
    def attributes(cls) -> tuple[str, ...]:
        """The names an author may give as `name=value`."""
        hidden = {"spans", "meta", *cls.positional, *cls.blocks.values()}
        return tuple(field.alias or name for name, field in cls.model_fields.items() if name not in hidden)


class Retry(Element):
    """How often a visit is attempted, and the wait between attempts."""

    max_attempts: Annotated[int, Field(ge=1, le=100)] = 1
    backoff: Annotated[Backoff, Field(strict=False)] = Backoff.NONE
    delay: Duration = timedelta(seconds=1)
    max_delay: Duration = timedelta(hours=1)

    @model_validator(mode="before")
    @classmethod
    def _default_backoff(cls, values: Any) -> Any:
        """A delay without a backoff means a fixed one, so that nothing in the file is ignored."""
        if isinstance(values, dict) and "backoff" not in values and {"delay", "max_delay"} & values.keys():
            return {**values, "backoff": Backoff.FIXED}
        return values

    @model_validator(mode="after")
    def _check_delays(self) -> Self:
        defaults = timedelta(seconds=1), timedelta(hours=1)
        if self.backoff is Backoff.NONE and (self.delay, self.max_delay) != defaults:
            raise PydanticCustomError("retry", 'a delay has no effect with backoff "none"')
        if self.delay > self.max_delay:
            raise PydanticCustomError("retry", '"delay" is longer than "max_delay"')
        return self


class HumanOption(Element):
    """A choice that a person has, and the stage it leads to."""

    positional = ("key",)

    key: str
    label: str
    to: str
    approves: bool = False


class DecisionRoute(Element):
    """A transition out of a decision."""

    when: Condition
    to: str
    priority: int = 0


class Branch(Element):
    """A stage that a parallel stage runs."""

    positional = ("stage",)

    stage: str


class TriageTarget(Element):
    """The stage that a triage leads to, with or without fixes to make."""

    to: str


class Transition(Element):
    """A transition from one stage to another."""

    source: str = Field(alias="from")
    to: str
    on: Annotated[OnResult | None, Field(strict=False)] = None
    when: Condition | None = None
    priority: int = 0

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)


class BaseStage(Element):
    """What every stage has."""

    positional = ("id",)
    blocks = MappingProxyType({"retry": "retry"})

    id: str
    retry: Retry = Retry()
    meta: Mapping[str, Any] = Field(default_factory=dict)


class LlmStage(BaseStage):
    """A stage that prompts an agent. With `findings` or `auto_status` it is a review: its answer decides."""

    kind: Literal[StageKind.LLM] = StageKind.LLM
    prompt: str | None = None
    prompt_file: Names = ()
    model: str | None = None
    provider: str | None = None
    model_profile: str | None = None
    reasoning_effort: str | None = None
    backend: str | None = None
    access: Annotated[Access, Field(strict=False)] = Access.CODING
    findings: Literal["review"] | None = None
    auto_status: Flag = False
    reviewer: str | None = None
    lens: Annotated[Lens, Field(strict=False)] = Lens.CODE_REVIEW
    goal_gate: bool = False
    response_key_base: str | None = None
    summary_budget: SummaryBudget | None = None
    timeout: TimeLimit | None = None
    on_error: Annotated[OnError, Field(strict=False)] = OnError.PAUSE
    retry_target: str | None = None


class ToolStage(BaseStage):
    """A stage that runs a shell command; the exit code decides its outcome."""

    kind: Literal[StageKind.TOOL] = StageKind.TOOL
    command: str
    cwd: str | None = None
    timeout: TimeLimit = timedelta(minutes=5)
    findings: Annotated[FindingsFormat, Field(strict=False)] = FindingsFormat.TEXT
    effects: Annotated[Effects, Field(strict=False)] = Effects.WORKSPACE
    goal_gate: bool = False
    on_error: Annotated[OnError, Field(strict=False)] = OnError.PAUSE
    retry_target: str | None = None


class HumanStage(BaseStage):
    """A stage at which a person chooses between options."""

    blocks = MappingProxyType({**BaseStage.blocks, "option": "options"})
    repeatable = ("require_feedback_on",)

    kind: Literal[StageKind.HUMAN] = StageKind.HUMAN
    prompt: str
    options: tuple[HumanOption, ...] = ()
    require_feedback_on: Names = ()
    details_from: Names = ()
    re_review: bool = True
    timeout: TimeLimit | None = None
    default: str | None = None


class DecisionStage(BaseStage):
    """A stage at which conditions choose the next one."""

    blocks = MappingProxyType({**BaseStage.blocks, "route": "routes"})

    kind: Literal[StageKind.DECISION] = StageKind.DECISION
    routes: tuple[DecisionRoute, ...] = ()


class TriageStage(BaseStage):
    """A stage at which a person decides on findings; it leads to `apply` if some are to be fixed, else to `done`."""

    blocks = MappingProxyType({**BaseStage.blocks, "apply": "apply", "done": "done"})

    kind: Literal[StageKind.TRIAGE] = StageKind.TRIAGE
    apply: TriageTarget | None = None
    done: TriageTarget | None = None
    route: Literal["each", "all", "file", "must", "report", "ask"] = "each"
    tracker: str | None = None
    advisory: bool = False
    validation: bool = False
    model_profile: str | None = None

    @property
    def validator(self) -> LlmStage:
        """The read-only agent that checks findings before all are acted on at once."""
        return LlmStage(id=self.id, access=Access.READ_ONLY, model_profile=self.model_profile)


class ParallelStage(BaseStage):
    """A stage that runs several others at once, each on the context as it was before."""

    blocks = MappingProxyType({**BaseStage.blocks, "branch": "branches"})

    kind: Literal[StageKind.PARALLEL] = StageKind.PARALLEL
    branches: tuple[Branch, ...] = ()
    max_parallel: Count | None = None
    join: Literal["all", "any"] | Count = "all"


class WorkspaceStage(BaseStage):
    """A stage that creates, merges or removes the run's git worktree."""

    kind: Literal[StageKind.WORKSPACE_CREATE, StageKind.WORKSPACE_MERGE, StageKind.WORKSPACE_CLEANUP]
    workspace_name: str | None = None
    on_error: Annotated[OnError, Field(strict=False)] = OnError.PAUSE


class ExitStage(BaseStage):
    """The end of a run, if every goal gate is satisfied."""

    kind: Literal[StageKind.EXIT] = StageKind.EXIT


Stage = LlmStage | ToolStage | HumanStage | DecisionStage | TriageStage | ParallelStage | WorkspaceStage | ExitStage

STAGE_MODELS: Mapping[StageKind, type[BaseStage]] = MappingProxyType(
    {
        StageKind.LLM: LlmStage,
        StageKind.TOOL: ToolStage,
        StageKind.HUMAN: HumanStage,
        StageKind.DECISION: DecisionStage,
        StageKind.TRIAGE: TriageStage,
        StageKind.PARALLEL: ParallelStage,
        StageKind.WORKSPACE_CREATE: WorkspaceStage,
        StageKind.WORKSPACE_MERGE: WorkspaceStage,
        StageKind.WORKSPACE_CLEANUP: WorkspaceStage,
        StageKind.EXIT: ExitStage,
    }
)


class WorkflowSettings(Element):
    """The limits of a run; reaching one pauses it."""

    max_visits: Count = 20
    max_stages: Count = 1000
    max_duration: TimeLimit | None = None
    max_cost_usd: Annotated[float, Field(gt=0, strict=False)] | None = None
    summary_budget: SummaryBudget = 24_000


class WorkflowInput(Element):
    """A value that a run is started with. Its default fixes its type; without one it is text."""

    positional = ("name",)

    name: str
    default: str | int | FiniteFloat | bool | None = None
    required: bool = False
    description: str = ""

    @property
    def initial(self) -> InputValue:
        """Its value in a run that is not given one."""
        return "" if self.default is None else self.default

    @property
    def usage(self) -> str:
        """How lists show it: `branch = "main": The branch to start from`."""
        value = "(required)" if self.required else f"= {json.dumps(self.initial, ensure_ascii=False)}"
        return f"{self.name} {value}" + (f": {self.description}" if self.description else "")

    def convert(self, value: InputValue) -> InputValue:
        """A value as one of this input's type. Raises ValueError with what the input takes."""
        text = value if isinstance(value, str) else json.dumps(value)
        match self.initial:
            case str():
                return text
            case bool():
                if text not in ("true", "false"):
                    raise ValueError("true or false")
                return text == "true"
            case _:
                if not _NUMBER.fullmatch(text):
                    raise ValueError("a number")
                return float(text) if "." in text else int(text)


class Profile(Element):
    """A named choice of model; without a model, it is a name for which the settings can choose one."""

    positional = ("name",)

    name: str
    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None


class Models(Element):
    """The models that a workflow chooses from."""

    blocks = MappingProxyType({"profile": "profiles"})

    default: str | None = None
    profiles: tuple[Profile, ...] = ()

    def profile(self, name: str) -> Profile | None:
        """The profile with a name."""
        return next((profile for profile in self.profiles if profile.name == name), None)


class LoopExit(Element):
    """Where a loop leads when another round would not help."""

    positional = ("signal",)

    signal: Literal["stalled", "exhausted"]
    to: str


class Loop(Element):
    """Stages that run round after round until nothing is left to fix; a round begins at the first of them."""

    positional = ("name",)
    blocks = MappingProxyType({"on": "exits"})
    lists = ("stages",)

    name: str
    stages: Names = ()
    max_rounds: Count = 5
    exits: tuple[LoopExit, ...] = ()

    def exit_for(self, signal: str) -> str | None:
        """The stage that a signal leads to; None if the loop has no exit for it."""
        return next((loop_exit.to for loop_exit in self.exits if loop_exit.signal == signal), None)


class Workflow(Element):
    """A whole file."""

    positional = ("name",)
    blocks = MappingProxyType(
        {
            "settings": "settings",
            "models": "models",
            "input": "inputs",
            "stage": "stages",
            "transition": "transitions",
            "loop": "loops",
        }
    )

    name: str
    version: Literal[2]
    description: str = ""
    goal: str = ""
    start: str
    settings: WorkflowSettings = WorkflowSettings()
    models: Models = Models()
    inputs: tuple[WorkflowInput, ...] = ()
    stages: tuple[Annotated[Stage, Field(discriminator="kind")], ...] = ()
    transitions: tuple[Transition, ...] = ()
    loops: tuple[Loop, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[str, Stage]:
        """The stages by id; of two with the same id, the first."""
        return MappingProxyType({stage.id: stage for stage in reversed(self.stages)})

    def stage(self, stage_id: str) -> Stage:
        """The stage with an id."""
        return self.by_id[stage_id]


def prompt_files(workflow: Workflow) -> list[str]:
    """The prompt files of all stages, sorted."""
    return sorted({path for stage in workflow.stages if isinstance(stage, LlmStage) for path in stage.prompt_file})


def agent_stages(workflow: Workflow) -> Iterator[LlmStage]:
    """The stages that ask an agent, the validators of triage stages among them."""
    for stage in workflow.stages:
        if isinstance(stage, LlmStage):
            yield stage
        elif isinstance(stage, TriageStage) and stage.validation:
            yield stage.validator


def reads_only(stage: BaseStage) -> bool:
    """Return whether a stage asks an agent that may not write. It works in a checkout of its own."""
    return isinstance(stage, LlmStage) and stage.access is not Access.CODING


def is_review(stage: BaseStage) -> bool:
    """Whether a stage's answer decides its outcome."""
    return isinstance(stage, LlmStage) and (stage.auto_status or is_structured_review(stage))


def is_structured_review(stage: BaseStage) -> bool:
    """Whether a stage is asked for findings in the review format."""
    return isinstance(stage, LlmStage) and stage.findings is not None


def may_write(stage: BaseStage) -> bool:
    """Whether a stage may change files, as far as the workflow says."""
    if isinstance(stage, ToolStage):
        return stage.effects is not Effects.NONE
    return isinstance(stage, LlmStage) and stage.access is Access.CODING


def waits_for_person(stage: BaseStage) -> bool:
    """Whether a stage waits for a person to decide."""
    return isinstance(stage, HumanStage | TriageStage)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model and its options; None leaves the choice to the backend."""

    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None


UNCHOSEN = ModelChoice()


NO_PROFILES: Mapping[str, ModelChoice] = MappingProxyType({})


def choose_model(
    stage: LlmStage,
    models: Models,
    run_default: ModelChoice = UNCHOSEN,
    profiles: Mapping[str, ModelChoice] = NO_PROFILES,
) -> ModelChoice:
    """Take each option from the first level that sets it: stage, profile, workflow default, run default.

    `profiles` are those of the settings; each replaces the workflow's profile of the same name. A provider belongs to
    a model, so levels below the one that names the model do not set it.
    """

    def declared(name: str) -> Profile | ModelChoice | None:
        profile = models.profile(name)
        return profiles.get(name, profile) if profile else None

    levels: list[LlmStage | Profile | ModelChoice] = [stage]
    if stage.model_profile and (profile := declared(stage.model_profile)):
        levels.append(profile)
    if models.default is not None:
        levels.append(declared(models.default) or ModelChoice(models.default))
    model = provider = effort = None
    for level in (*levels, run_default):
        if not model:
            model, provider = level.model, provider or level.provider
        effort = effort or level.reasoning_effort
    return ModelChoice(model, provider, effort)
