"""Records as bytes: one JSON object each, with the version of the format. Every past version stays readable.

A long text that occurs more than once in a record, as an answer does in several context keys, is written once: the
record then has `texts`, and `{"$text": n}` stands for the n-th of them. `places` lists where these references are, so
that reading need not search for them, and a value that only looks like one is left alone.
"""

import json
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from pipeline.engine.ports import JournalError
from pipeline.engine.records import AnyRecord

VERSION = 1
Path = tuple[str | int, ...]  # the way to a value, through keys and indices
Places = dict[str, list[tuple[Any, Path]]]  # of texts: the container of each, and the way to it

LONG = 200  # characters of a text that is worth a place in the pool

_SHORT = frozenset({int, float, bool, type(None)})
_adapter: TypeAdapter[AnyRecord] = TypeAdapter(AnyRecord)


def encode(record: AnyRecord) -> bytes:
    """A record as UTF-8 JSON; raises JournalError when it holds what JSON cannot say."""
    texts: Places = {}
    try:
        data = _plain(record, (), texts)
        return _dumped({"v": VERSION, **_pooled(texts), **data})
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"a {record.kind} record cannot be written down: {error}") from error


def decode(body: bytes, run_id: str, seq: int) -> AnyRecord:
    """The record in some bytes; raises JournalError naming the run, the record's number and what is wrong."""
    try:
        data = _loaded(body)
    except (ValueError, RecursionError) as error:
        raise damaged(f"run {run_id}", seq, f"it is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise damaged(f"run {run_id}", seq, "it is not a JSON object")
    _check_version(data.pop("v", None), run_id, seq)
    try:
        if "texts" in data:
            _restore(data, data.pop("texts"), data.pop("places"))
        return _adapter.validate_python(data)
    except ValidationError as error:
        raise damaged(f"run {run_id}", seq, _first_problem(error)) from error
    except (LookupError, TypeError, ValueError) as error:
        raise damaged(f"run {run_id}", seq, "it refers to a text that it does not have") from error


def damaged(whose: str, seq: int, problem: str) -> JournalError:
    """The error for a record, of a run or of the ledger, that cannot be understood."""
    return JournalError(
        f"record {seq} of {whose} is damaged: {problem}",
        help="nothing was changed; restore the store from a copy, or start a new run",
    )


def _check_version(version: object, run_id: str, seq: int) -> None:
    if type(version) is not int or version < 1:
        raise damaged(f"run {run_id}", seq, "it does not say the version of its format")
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


def _plain(item: Any, path: Path, texts: Places) -> Any:
    """A value as JSON has it, in containers of its own, noting where long texts are; TypeError for what is not JSON."""
    copy: Any
    if isinstance(item, dict):
        _check_keys(item)
        copy = dict(item)
    elif isinstance(item, (list, tuple)):
        copy = list(item)
    elif isinstance(item, BaseModel):
        copy = dict(item.__dict__)
    elif item is None or isinstance(item, (int, float)):
        return item
    else:
        raise TypeError(f"{item!r:.80} is not a JSON value")
    for key, part in enumerate(copy) if type(copy) is list else copy.items():
        if type(part) in _SHORT:
            continue
        if not isinstance(part, str):
            copy[key] = _plain(part, (*path, key), texts)
        elif len(part) >= LONG:
            texts.setdefault(part, []).append((copy, (*path, key)))
        elif type(part) is not str:
            copy[key] = str.__str__(part)  # that of an enumeration: to write it as it is takes long
    return copy


def _check_keys(value: dict[Any, Any]) -> None:
    for key in value:
        if type(key) is not str and not isinstance(key, str):  # JSON would quietly make a text of it
            raise TypeError(f"the key {key!r:.80} is not a text")


def _pooled(texts: Places) -> dict[str, Any]:
    """Put references in the place of repeated texts, and give these with their places."""
    repeated = [(text, found) for text, found in texts.items() if len(found) > 1]
    if not repeated:
        return {}
    for number, (_, found) in enumerate(repeated):
        for container, path in found:
            container[path[-1]] = {"$text": number}
    places = [(number, *path) for number, (_, found) in enumerate(repeated) for _, path in found]
    return {"texts": [text for text, _ in repeated], "places": places}


def _restore(data: Any, texts: list[str], places: list[list[Any]]) -> None:
    for number, *path in places:
        *above, last = path
        at = data
        for key in above:
            at = at[key]
        at[last] = texts[number]
