"""Records as bytes: one JSON object each, with the version of the format. Every past version stays readable.

A long text that occurs more than once in a record, as an answer does in several context keys, is written once: the
record then has a pool `texts`, and `{"$text": n}` stands for its n-th text.
"""

import json
from collections.abc import Iterable
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from pipeline.engine.ports import JournalError
from pipeline.engine.records import AnyRecord

VERSION = 1
LONG = 200  # characters of a text that is worth a place in the pool

_REFERENCE = "text"  # behind one `$`; a genuine key of that form gets one `$` more
_CONTAINERS = (dict, list, tuple)
_NUMBERS = (int, float)  # and bool
_adapter: TypeAdapter[AnyRecord] = TypeAdapter(AnyRecord)


def encode(record: AnyRecord) -> bytes:
    """A record as UTF-8 JSON; raises JournalError when it holds what JSON cannot say."""
    try:
        data = record.model_dump(warnings="error")
        texts = _repeated(data)
        if not texts:
            return _dumped({"v": VERSION, **data})
        places = {text: place for place, text in enumerate(texts)}
        return _dumped({"v": VERSION, "texts": texts, **_pooled(data, places)})
    except (TypeError, ValueError, RecursionError, PydanticSerializationError) as error:
        raise JournalError(f"a {record.kind} record cannot be written down: {error}") from error


def decode(body: bytes, run_id: str, seq: int) -> AnyRecord:
    """The record in some bytes; raises JournalError naming the run, the record's number and what is wrong."""
    try:
        data = _loaded(body)
    except (ValueError, RecursionError) as error:
        raise damaged(run_id, seq, f"it is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise damaged(run_id, seq, "it is not a JSON object")
    _check_version(data.pop("v", None), run_id, seq)
    try:
        if (texts := data.pop("texts", None)) is not None:
            data = _restored(data, texts)
        return _adapter.validate_python(data)
    except ValidationError as error:
        raise damaged(run_id, seq, _first_problem(error)) from error
    except (LookupError, TypeError) as error:
        raise damaged(run_id, seq, "it refers to a text that it does not have") from error


def damaged(run_id: str, seq: int, problem: str) -> JournalError:
    """The error for a record that cannot be understood."""
    return JournalError(
        f"record {seq} of run {run_id} is damaged: {problem}",
        help="nothing was changed; restore the store from a copy, or start a new run",
    )


def _check_version(version: object, run_id: str, seq: int) -> None:
    if type(version) is not int or version < 1:
        raise damaged(run_id, seq, "it does not say the version of its format")
    if version > VERSION:
        raise JournalError(
            f"record {seq} of run {run_id} was written by a newer awf (format {version}, and this one reads {VERSION})",
            help="update awf; nothing was changed",
        )


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]


def _dumped(data: dict[str, Any]) -> bytes:
    try:
        return to_json(data, inf_nan_mode="constants")
    except PydanticSerializationError:  # half of a surrogate pair has no UTF-8, but JSON has an escape for it
        return json.dumps(data, separators=(",", ":")).encode()


def _loaded(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:  # half of a surrogate pair, deep nesting, or damage
        return json.loads(body)


def _repeated(data: dict[str, Any]) -> list[str]:
    """The long texts that occur more than once, in order; raises TypeError for what is not JSON."""
    times: dict[str, int] = {}
    remaining: list[Any] = [data]
    while remaining:
        for value in _inner(remaining.pop()):
            if isinstance(value, str):
                if len(value) >= LONG:
                    times[value] = times.get(value, 0) + 1
            elif isinstance(value, _CONTAINERS):
                remaining.append(value)
            elif value is not None and not isinstance(value, _NUMBERS):
                raise TypeError(f"{value!r:.80} is not a JSON value")
    return [text for text, count in times.items() if count > 1]


def _inner(container: Any) -> Iterable[Any]:
    if not isinstance(container, dict):
        return container  # type: ignore[no-any-return]  # a list or a tuple
    for key in container:
        if not isinstance(key, str):
            raise TypeError(f"the key {key!r:.80} is not a text")
    return container.values()


def _pooled(value: Any, places: dict[str, int]) -> Any:
    if isinstance(value, str):
        return {f"${_REFERENCE}": places[value]} if value in places else value
    if isinstance(value, dict):
        return {_escaped(key, value): _pooled(inner, places) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_pooled(inner, places) for inner in value]
    return value


def _escaped(key: str, owner: dict[str, Any]) -> str:
    return f"${key}" if len(owner) == 1 and _is_reference(key) else key


def _is_reference(key: str) -> bool:
    return key.startswith("$") and key.lstrip("$") == _REFERENCE


def _restored(value: Any, texts: list[str]) -> Any:
    if type(value) is list:
        return [_restored(inner, texts) if type(inner) in _CONTAINERS else inner for inner in value]
    if len(value) == 1:
        ((key, inner),) = value.items()
        if key == f"${_REFERENCE}":
            return texts[inner]
        if _is_reference(key):
            return {key[1:]: _restored(inner, texts) if type(inner) in _CONTAINERS else inner}
    return {key: _restored(inner, texts) if type(inner) in _CONTAINERS else inner for key, inner in value.items()}
