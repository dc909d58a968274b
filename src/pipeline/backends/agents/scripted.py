"""An agent that answers from a file: for tests, demos and dry runs of a new workflow."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, NoReturn

from pipeline.backends.provider_errors import LONGEST_WAIT
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
        """Wait, write and answer as the script says."""
        emit(AgentEvent("started"))
        replies = self._script.get(request.stage, (ScriptedReply(),))
        reply = replies[min(max(request.visit, 1), len(replies)) - 1]
        if limit := await _wait(reply.delay, request.limits):
            return AgentResult(limit)
        if error := _write_files(reply.files, request.cwd) or reply.error:
            return AgentResult(AgentStatus.ERROR, error=error)
        default = f"Completed: {request.stage}" + ("\n[STATUS: success]" if request.review else "")
        text = default if reply.text is None else reply.text
        if text:
            emit(AgentEvent("text", text))
        return AgentResult(AgentStatus.OK, text, usage=reply.usage, outcome=reply.outcome)


async def _wait(delay: float, limits: RequestLimits) -> AgentStatus | None:
    """Wait like a slow and silent agent; returns the limit that it reaches."""
    ends = [(limits.timeout, AgentStatus.TIMEOUT), (limits.idle, AgentStatus.IDLE)]
    reached = [(limit, status) for limit, status in ends if limit is not None and delay and limit <= delay]
    seconds, status = min(reached, default=(delay, None))
    await asyncio.sleep(seconds)
    return status


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


def load_script(text: str) -> Script:
    """Read the text of a script; an AwfError says which stage's reply is wrong, and how."""
    try:
        data = json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise AwfError(f"the script is not JSON: {error}") from None
    if not isinstance(data, dict):
        help = 'write {"stage": ["first reply", "second reply"]}'
        raise AwfError(f"the script must be an object, not {_type_name(data)}", help=help)
    script: dict[str, tuple[ScriptedReply, ...]] = {}
    for stage, value in data.items():
        if value == []:
            raise AwfError(f'the script\'s list for "{stage}" is empty; remove the entry')
        if isinstance(value, list):
            replies = [_read_reply(f'"{stage}", visit {visit}', item) for visit, item in enumerate(value, 1)]
        else:
            replies = [_read_reply(f'"{stage}"', value)]
        script[stage] = tuple(replies)
    return MappingProxyType(script)


def _read_reply(where: str, value: object) -> ScriptedReply:
    if isinstance(value, str):
        return ScriptedReply(text=value)
    if not isinstance(value, dict):
        _reject(where, f"a reply must be text or an object, not {_type_name(value)}")
    if "error" in value:
        return ScriptedReply(error=_read_error(where, value))
    if any(key in value for key in _WRAPPER):
        _require_known(where, value, _WRAPPER)
        inner = _read_reply(where, value["reply"]) if "reply" in value else ScriptedReply()
        files = MappingProxyType({**_read_files(where, value.get("write", {})), **inner.files})
        return replace(inner, delay=_read_delay(where, value.get("delay", "0s")) + inner.delay, files=files)
    return _read_outcome(where, value)


def _read_error(where: str, value: Mapping[str, Any]) -> AgentError:
    _require_known(where, value, ("error", "message", "retry_after"))
    if value["error"] not in list(ErrorKind):
        _reject(where, f"unknown error {json.dumps(value['error'])}; use one of {', '.join(ErrorKind)}")
    kind, retry_after = ErrorKind(value["error"]), value.get("retry_after")
    message = _read_text(where, value, "message") or f"the script says: {kind}"
    if retry_after is None:
        return AgentError(kind, message)
    if (
        isinstance(retry_after, bool)
        or not isinstance(retry_after, int | float)
        or not 0 <= retry_after <= LONGEST_WAIT
    ):
        _reject(where, f'"retry_after" must be 0 to {LONGEST_WAIT:.0f} seconds, not {json.dumps(retry_after)}')
    return AgentError(kind, message, float(retry_after))


def _read_delay(where: str, value: object) -> float:
    if not isinstance(value, str):
        _reject(where, f'"delay" must be text with a unit, such as "2s", not {_type_name(value)}')
    try:
        return parse_duration(value).total_seconds()
    except ValueError as error:
        _reject(where, f'"delay": {error}')


def _read_files(where: str, value: object) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        _reject(where, '"write" must be an object of paths and texts')
    for path in value:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts or "\0" in path:
            _reject(where, f'"write" must stay in the stage\'s directory, which {json.dumps(path)} does not')
    return value


def _read_outcome(where: str, value: Mapping[str, Any]) -> ScriptedReply:
    _require_known(where, value, _OUTCOME)
    if value.get("status") not in list(Status):
        _reject(where, f'an outcome needs a "status": one of {", ".join(Status)}')
    for key in _TEXTS:
        _read_text(where, value, key)
    if not isinstance(value.get("context_updates", {}), dict):
        _reject(where, f'"context_updates" must be an object, not {_type_name(value["context_updates"])}')
    usage = _read_usage(where, value["usage"]) if "usage" in value else None
    return ScriptedReply(_read_text(where, value, "response"), MappingProxyType(dict(value)), usage)


def _read_usage(where: str, usage: object) -> Usage:
    if not isinstance(usage, dict):
        _reject(where, f'"usage" must be an object, not {_type_name(usage)}')
    _require_known(where, usage, tuple(Usage.model_fields))
    for key, number in usage.items():
        whole = key != "cost_usd"
        if isinstance(number, bool) or not isinstance(number, int if whole else int | float) or number < 0:
            kind = "a whole number" if whole else "a number"
            _reject(where, f'"{key}" must be {kind} of at least 0, not {json.dumps(number)}')
    return Usage(**usage)


def _read_text(where: str, value: Mapping[str, Any], key: str) -> str:
    text = value.get(key, "")
    if not isinstance(text, str):
        _reject(where, f'"{key}" must be text, not {_type_name(text)}')
    return text


def _require_known(where: str, value: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if unknown := [key for key in value if key not in known]:
        _reject(where, f'unknown key "{unknown[0]}"; use {", ".join(known)}')


def _reject(where: str, problem: str) -> NoReturn:
    raise AwfError(f"the script's reply for {where}: {problem}")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f'duplicate key "{key}" in an object')
        found[key] = value
    return found


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _type_name(value: object) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")
