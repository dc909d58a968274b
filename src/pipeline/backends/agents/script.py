"""The file that a scripted backend answers from: read once, so that a mistake in it is found before anything runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any, NoReturn

from pipeline.backends.agents.limits import LONGEST_WAIT
from pipeline.engine.agent import ErrorKind
from pipeline.engine.outcome import Status, Usage
from pipeline.errors import AwfError
from pipeline.language.durations import parse_duration

_TEXTS = ("reason", "failure_reason", "response", "preferred_label", "preferred_next", "next")
_OUTCOME = ("status", *_TEXTS, "context_updates", "usage")
_WRAPPER = ("delay", "write", "reply")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Reply:
    """What a stage answers on one visit, and what happens before it does."""

    text: str | None = None  # None is the answer of a stage that has no entry
    outcome: Mapping[str, Any] | None = None
    usage: Usage | None = None
    error: ErrorKind | None = None
    message: str = ""
    retry_after: float | None = None
    delay: float = 0.0
    files: Mapping[str, str] = field(default_factory=lambda: _NOTHING)


_COMPLETES = (Reply(),)


@dataclass(frozen=True, slots=True)
class Script:
    """The replies of each stage, in the order of its visits; the last one repeats."""

    replies: Mapping[str, tuple[Reply, ...]] = field(default_factory=lambda: _NOTHING)

    def reply(self, stage: str, visit: int) -> Reply:
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


def _replies(stage: str, value: object) -> tuple[Reply, ...]:
    if not isinstance(value, list):
        return (_reply(f'"{stage}"', value),)
    if not value:
        raise AwfError(f'the script\'s entry for "{stage}" is an empty list; leave the entry out')
    return tuple(_reply(f'"{stage}", visit {visit}', item) for visit, item in enumerate(value, 1))


def _reply(where: str, value: object) -> Reply:
    if isinstance(value, str):
        return Reply(text=value)
    if not isinstance(value, dict):
        _wrong(where, f"a reply is text or an object, not {_kind(value)}")
    if "error" in value:
        return _refusal(where, value)
    if any(key in value for key in _WRAPPER):
        return _prepared(where, value)
    return _outcome(where, value)


def _refusal(where: str, value: Mapping[str, Any]) -> Reply:
    _only(where, value, ("error", "message", "retry_after"))
    if value["error"] not in list(ErrorKind):
        _wrong(where, f"unknown kind of error {json.dumps(value['error'])}; use one of {', '.join(ErrorKind)}")
    kind = ErrorKind(value["error"])
    message = _text(where, value, "message") or f"the script says: {kind}"
    return Reply(error=kind, message=message, retry_after=_seconds(where, value.get("retry_after")))


def _seconds(where: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_WAIT:
        _wrong(where, f'"retry_after" is seconds from 0 to {LONGEST_WAIT:.0f}, not {json.dumps(value)}')
    return float(value)


def _prepared(where: str, value: Mapping[str, Any]) -> Reply:
    """A reply with something to be done first; the innermost of several in each other is what is answered."""
    _only(where, value, _WRAPPER)
    inner = _reply(where, value["reply"]) if "reply" in value else Reply()
    return Reply(
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


def _outcome(where: str, value: Mapping[str, Any]) -> Reply:
    _only(where, value, _OUTCOME)
    if value.get("status") not in list(Status):
        _wrong(where, f'an outcome has a "status", which is one of {", ".join(Status)}')
    for key in _TEXTS:
        _text(where, value, key)
    if not isinstance(value.get("context_updates", {}), dict):
        _wrong(where, f'"context_updates" is an object, not {_kind(value["context_updates"])}')
    text = _text(where, value, "response")
    return Reply(text=text, outcome=MappingProxyType(dict(value)), usage=_usage(where, value))


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
