"""An agent that answers from a file: for tests, demos and dry runs of a new workflow."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, ValidationError, field_validator

from pipeline.backends.provider_errors import LONGEST_WAIT
from pipeline.engine.outcome import Status, Usage
from pipeline.engine.ports import AgentError, AgentEvent, AgentRequest, AgentResult, AgentStatus, Emit, ErrorKind
from pipeline.errors import AwfError
from pipeline.language.model import parse_duration


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """What a stage answers on one visit, and what happens before."""

    text: str | None = None  # None is the answer of a stage without an entry
    outcome: Mapping[str, Any] | None = None
    usage: Usage | None = None
    error: AgentError | None = None
    delay: float = 0.0
    files: Mapping[str, str] = field(default_factory=dict)


Script = Mapping[str, tuple[ScriptedReply, ...]]  # by stage, one for each visit; the last one repeats


class ScriptedBackend:
    """Answers by stage and visit from a script. A stage without an entry completes, and passes if it is a review."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """None: it starts no program."""
        del provider
        return ()

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Wait like a slow and silent agent, then write and answer as the script says."""
        emit(AgentEvent("started"))
        replies = self._script.get(request.stage, (ScriptedReply(),))
        reply = replies[min(max(request.visit, 1), len(replies)) - 1]
        limits = [(request.limits.timeout, AgentStatus.TIMEOUT), (request.limits.idle, AgentStatus.IDLE)]
        reached = [(limit, status) for limit, status in limits if limit is not None and limit <= reply.delay]
        seconds, stopped = min(reached if reply.delay else [], default=(reply.delay, None))
        await asyncio.sleep(seconds)
        if stopped:
            return AgentResult(stopped)
        if error := _write_files(reply.files, request.cwd) or reply.error:
            return AgentResult(AgentStatus.ERROR, error=error)
        default = request.passing or f"Completed: {request.stage}"
        text = default if reply.text is None else reply.text
        if text:
            emit(AgentEvent("text", text))
        return AgentResult(AgentStatus.OK, text, usage=reply.usage, outcome=reply.outcome)


def _write_files(files: Mapping[str, str], cwd: Path) -> AgentError | None:
    """Write all files, or none if one of them is outside of `cwd`."""
    try:
        targets = {(cwd / name).resolve(): text for name, text in files.items()}
        if outside := [target for target in targets if not target.is_relative_to(cwd.resolve())]:  # through a link
            return AgentError(ErrorKind.DENIED, f'the script may not write "{outside[0]}": it is outside "{cwd}"')
        for target, text in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
    except (OSError, ValueError, RuntimeError) as error:  # resolve() raises RuntimeError for a loop of links
        return AgentError(ErrorKind.CONFIG, f"cannot write the script's files: {error}")
    return None


class _Reply(BaseModel):
    """A reply that is an object, of one of the kinds below."""

    model_config = ConfigDict(extra="forbid", strict=True)


class _ErrorReply(_Reply):
    error: Annotated[ErrorKind, Field(strict=False)]
    message: str = ""
    retry_after: float | None = Field(None, ge=0, le=LONGEST_WAIT)


class _OutcomeUsage(_Reply):
    input_tokens: NonNegativeInt | None = None
    output_tokens: NonNegativeInt | None = None
    cost_usd: NonNegativeFloat | None = None


class _OutcomeReply(_Reply):
    status: Annotated[Status, Field(strict=False)]
    reason: str = ""
    failure_reason: str = ""
    response: str = ""
    preferred_label: str = ""
    preferred_next: str = ""
    next: str = ""
    context_updates: dict[str, Any] = Field(default_factory=dict)
    usage: _OutcomeUsage | None = None


class _PreparedReply(_Reply):
    """What to do before a reply, which may be another of these."""

    delay: str = "0s"
    write: dict[str, str] = Field(default_factory=dict)
    reply: Any = None

    @field_validator("delay")
    @classmethod
    def check_delay(cls, delay: str) -> str:
        parse_duration(delay)
        return delay

    @field_validator("write")
    @classmethod
    def check_paths(cls, files: dict[str, str]) -> dict[str, str]:
        for path in files:
            parts = PurePosixPath(path).parts
            if not parts or path.startswith("/") or ".." in parts or "\0" in path:
                raise ValueError(f"{json.dumps(path)} is not below the stage's directory")
        return files


def load_script(text: str) -> Script:
    """Read the text of a script; an AwfError says which stage's reply is wrong, and how."""
    try:
        data = json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise AwfError(f"the script is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise AwfError("the script must be a JSON object", help='write {"stage": ["first reply", "second reply"]}')
    script: dict[str, tuple[ScriptedReply, ...]] = {}
    for stage, value in data.items():
        if value == []:
            raise AwfError(f'the script\'s list for "{stage}" is empty; remove the entry')
        if isinstance(value, list):
            script[stage] = tuple(_read_reply(f'"{stage}", visit {n}', item) for n, item in enumerate(value, 1))
        else:
            script[stage] = (_read_reply(f'"{stage}"', value),)
    return MappingProxyType(script)


def _read_reply(where: str, value: object) -> ScriptedReply:
    if isinstance(value, str):
        return ScriptedReply(text=value)
    if not isinstance(value, dict):
        raise AwfError(f"the script's reply for {where} should be text or an object, not {json.dumps(value)}")
    if "error" in value:
        failure = _validate(_ErrorReply, where, value)
        message = failure.message or f"the script says: {failure.error}"
        return ScriptedReply(error=AgentError(failure.error, message, failure.retry_after))
    if value.keys() & _PreparedReply.model_fields.keys():
        prepared = _validate(_PreparedReply, where, value)
        inner = _read_reply(where, prepared.reply) if "reply" in value else ScriptedReply()
        delay = parse_duration(prepared.delay).total_seconds() + inner.delay
        return replace(inner, delay=delay, files={**prepared.write, **inner.files})
    outcome = _validate(_OutcomeReply, where, value)
    usage = Usage(**outcome.usage.model_dump()) if outcome.usage else None
    return ScriptedReply(outcome.response, MappingProxyType(value), usage)


_R = TypeVar("_R", bound=_Reply)


def _validate(model: type[_R], where: str, value: dict[str, Any]) -> _R:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        key = f'"{".".join(map(str, first["loc"]))}"'
        match first["type"]:
            case "extra_forbidden":
                known = model.model_fields if len(first["loc"]) == 1 else _OutcomeUsage.model_fields
                problem = f"unknown key {key}; use {', '.join(known)}"
            case "missing":
                problem = f"{key} is missing"
            case "value_error":
                problem = f"{key}: {first['ctx']['error']}"
            case _:
                should_be = first["msg"].removeprefix("Input ")
                problem = f"{key} {should_be}, not {json.dumps(first['input'])}"
        raise AwfError(f"the script's reply for {where}: {problem}") from None


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f'duplicate key "{next(key for key in keys if keys.count(key) > 1)}"')
    return found


def _reject_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
