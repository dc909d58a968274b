"""An agent whose answers stand in a file: for tests, demos and dry runs of a new workflow."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NoReturn

from pipeline.backends.agents.provider_errors import LONGEST_WAIT
from pipeline.engine.outcome import Status, Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentRequest,
    AgentResult,
    AgentStatus,
    Emit,
    ErrorKind,
    RequestLimits,
)
from pipeline.errors import AwfError
from pipeline.language.model import parse_duration

_TEXTS = ("reason", "failure_reason", "response", "preferred_label", "preferred_next", "next")
_OUTCOME = ("status", *_TEXTS, "context_updates", "usage")
_WRAPPER = ("delay", "write", "reply")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """What a stage answers on one visit, and what happens before it does."""

    text: str | None = None  # None is the answer of a stage that has no entry
    outcome: Mapping[str, Any] | None = None
    usage: Usage | None = None
    error: ErrorKind | None = None
    message: str = ""
    retry_after: float | None = None
    delay: float = 0.0
    files: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


_COMPLETES = (ScriptedReply(),)


@dataclass(frozen=True, slots=True)
class Script:
    """The replies of each stage, in the order of its visits; the last one repeats."""

    replies: Mapping[str, tuple[ScriptedReply, ...]] = field(default_factory=lambda: _NOTHING)

    def reply(self, stage: str, visit: int) -> ScriptedReply:
        """What a stage answers on a visit; visits count from 1."""
        replies = self.replies.get(stage, _COMPLETES)
        return replies[min(max(visit, 1), len(replies)) - 1]


def load_script(text: str) -> Script:
    """Read a script file's text; an AwfError says which stage's reply is wrong, and how."""
    try:
        data = json.loads(text, object_pairs_hook=_without_doubles, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise AwfError(f"the script is not JSON: {error}") from None
    return parse_script(data)


def parse_script(data: object) -> Script:
    """Read a script that is parsed already."""
    if not isinstance(data, Mapping):
        raise AwfError(
            f"the script is {_kind(data)}, not an object", help='write {"stage": ["first reply", "second reply"]}'
        )
    return Script(MappingProxyType({str(stage): _replies(str(stage), value) for stage, value in data.items()}))


def _replies(stage: str, value: object) -> tuple[ScriptedReply, ...]:
    if not isinstance(value, list):
        return (_reply(f'"{stage}"', value),)
    if not value:
        raise AwfError(f'the script\'s entry for "{stage}" is an empty list; leave the entry out')
    return tuple(_reply(f'"{stage}", visit {visit}', item) for visit, item in enumerate(value, 1))


def _reply(where: str, value: object) -> ScriptedReply:
    if isinstance(value, str):
        return ScriptedReply(text=value)
    if not isinstance(value, dict):
        _wrong(where, f"a reply is text or an object, not {_kind(value)}")
    if "error" in value:
        return _refusal(where, value)
    if any(key in value for key in _WRAPPER):
        return _prepared(where, value)
    return _outcome(where, value)


def _refusal(where: str, value: Mapping[str, Any]) -> ScriptedReply:
    _only(where, value, ("error", "message", "retry_after"))
    if value["error"] not in list(ErrorKind):
        _wrong(where, f"unknown kind of error {json.dumps(value['error'])}; use one of {', '.join(ErrorKind)}")
    kind = ErrorKind(value["error"])
    message = _text(where, value, "message") or f"the script says: {kind}"
    return ScriptedReply(error=kind, message=message, retry_after=_seconds(where, value.get("retry_after")))


def _seconds(where: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_WAIT:
        _wrong(where, f'"retry_after" is seconds from 0 to {LONGEST_WAIT:.0f}, not {json.dumps(value)}')
    return float(value)


def _prepared(where: str, value: Mapping[str, Any]) -> ScriptedReply:
    """A reply with something to be done first; the innermost of several in each other is what is answered."""
    _only(where, value, _WRAPPER)
    inner = _reply(where, value["reply"]) if "reply" in value else ScriptedReply()
    return ScriptedReply(
        text=inner.text,
        outcome=inner.outcome,
        usage=inner.usage,
        error=inner.error,
        message=inner.message,
        retry_after=inner.retry_after,
        delay=_delay(where, value.get("delay", "0s")) + inner.delay,
        files=MappingProxyType({**_files(where, value.get("write", {})), **inner.files}),
    )


def _delay(where: str, value: object) -> float:
    if not isinstance(value, str):
        _wrong(where, f'a delay is text with a unit, such as "2s", not {_kind(value)}')
    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        _wrong(where, f"the delay {error}")


def _files(where: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        _wrong(where, '"write" is an object of paths and their texts')
    for path in value:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\0" in path:
            _wrong(where, f'"write" may not leave the directory of the stage, as {json.dumps(path)} would')
    return value


def _outcome(where: str, value: Mapping[str, Any]) -> ScriptedReply:
    _only(where, value, _OUTCOME)
    if value.get("status") not in list(Status):
        _wrong(where, f'an outcome has a "status", which is one of {", ".join(Status)}')
    for key in _TEXTS:
        _text(where, value, key)
    if not isinstance(value.get("context_updates", {}), dict):
        _wrong(where, f'"context_updates" is an object, not {_kind(value["context_updates"])}')
    text = _text(where, value, "response")
    return ScriptedReply(text=text, outcome=MappingProxyType(dict(value)), usage=_usage(where, value))


def _usage(where: str, value: Mapping[str, Any]) -> Usage | None:
    if "usage" not in value:
        return None
    usage = value["usage"]
    if not isinstance(usage, dict):
        _wrong(where, f'"usage" is an object, not {_kind(usage)}')
    _only(where, usage, tuple(Usage.model_fields))
    for key, number in usage.items():
        whole = key != "cost_usd"
        if isinstance(number, bool) or not isinstance(number, int if whole else int | float) or number < 0:
            _wrong(where, f'"{key}" is a {"whole " if whole else ""}number from 0 up, not {json.dumps(number)}')
    return Usage(**usage)


def _text(where: str, value: Mapping[str, Any], key: str) -> str:
    text = value.get(key, "")
    if not isinstance(text, str):
        _wrong(where, f'"{key}" is text, not {_kind(text)}')
    return text


def _only(where: str, value: Mapping[str, Any], allowed: tuple[str, ...]) -> None:
    if unknown := [key for key in value if key not in allowed]:
        _wrong(where, f'"{unknown[0]}" has no meaning here; there are {", ".join(allowed)}')


def _wrong(where: str, what: str) -> NoReturn:
    raise AwfError(f"the script's reply for {where}: {what}")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'"{key}" is written twice in one object')
        found[key] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a truth value"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"


_NOTICED = 0.01  # seconds that somebody else may wait for a turn


class ScriptedBackend:
    """Answers by stage and visit from a script; a stage with no entry completes, and passes when it is a review."""

    name = "scripted"

    def __init__(self, script: Script | Mapping[str, object]) -> None:
        self._script = script if isinstance(script, Script) else parse_script(script)
        self._gave_way = 0.0

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """None: it starts no program."""
        del provider
        return ()

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Wait, write and answer as the script says."""
        emit(AgentEvent("started"))
        reply = self._script.reply(request.stage, request.visit)
        if reply.delay <= 0:
            await self._give_way()
        elif ended := await _wait(reply.delay, request.limits):
            return AgentResult(ended)
        if reply.files and (refused := _write(reply.files, request.cwd)):
            return AgentResult(AgentStatus.ERROR, error=refused)
        result = _answer(reply, request)
        if result.text:
            emit(AgentEvent("text", result.text))
        return result

    async def _give_way(self) -> None:
        """Let others go on, but not with each answer: to look for others takes longer than to read an answer."""
        now = time.monotonic()
        if now - self._gave_way >= _NOTICED:
            self._gave_way = now
            await asyncio.sleep(0)


async def _wait(delay: float, limits: RequestLimits) -> AgentStatus | None:
    """Wait as a slow and silent agent would: its limits hold."""
    ends = [(limits.timeout, AgentStatus.TIMEOUT), (limits.idle, AgentStatus.IDLE)]
    reached = [(limit, status) for limit, status in ends if limit is not None and limit <= delay]
    seconds, status = min(reached, default=(delay, None))
    await asyncio.sleep(seconds)
    return status


def _write(files: Mapping[str, str], cwd: Path) -> AgentError | None:
    try:
        targets = {(cwd / name).resolve(): text for name, text in files.items()}
        if outside := [target for target in targets if not target.is_relative_to(cwd.resolve())]:  # by a symbolic link
            return AgentError(ErrorKind.DENIED, f'the script may not write "{outside[0]}": it is outside of "{cwd}"')
        for target, text in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
    except (OSError, ValueError, RuntimeError) as error:  # resolve() calls a loop of links a RuntimeError
        return AgentError(ErrorKind.CONFIG, f"the script's files cannot be written: {error}")
    return None


def _answer(reply: ScriptedReply, request: AgentRequest) -> AgentResult:
    if reply.error:
        return AgentResult(AgentStatus.ERROR, error=AgentError(reply.error, reply.message, reply.retry_after))
    text = _default(request) if reply.text is None else reply.text
    return AgentResult(AgentStatus.OK, text, usage=reply.usage, outcome=reply.outcome)


def _default(request: AgentRequest) -> str:
    return f"Completed: {request.stage}" + ("\n[STATUS: success]" if request.review else "")
