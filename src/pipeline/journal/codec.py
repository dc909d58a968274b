"""Records as bytes. Every version of the format stays readable.

A record is one JSON object with the version of its format. A visit's answer occurs in several context keys, so long
texts of a visit are stored once: the record then has `texts`, `{"$text": n}` refers to the n-th of them, and `places`
lists where these references are. A value that only looks like a reference is left alone.
"""

import json
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from pipeline.engine.context import check_json
from pipeline.engine.errors import JournalError
from pipeline.engine.records import AnyRecord, VisitCompleted
from pipeline.journal.packing import damaged_record

VERSION = 2  # 2: stage_errored, run_failed, operations of branches
LONG = 200  # characters of a text that is worth sharing

_adapter: TypeAdapter[AnyRecord] = TypeAdapter(AnyRecord)


def encode(record: AnyRecord) -> bytes:
    """Return a record as one line of UTF-8 JSON, or raise JournalError if JSON cannot represent it."""
    texts: dict[str, int] = {}
    places: list[tuple[int | str, ...]] = []

    def share_texts(value: Any, path: tuple[int | str, ...]) -> Any:
        match value:
            case str() if len(value) >= LONG:
                number = texts.setdefault(value, len(texts))
                places.append((number, *path))
                return {"$text": number}
            case list() | tuple():
                return [share_texts(item, (*path, index)) for index, item in enumerate(value)]
            case dict():
                return {key: share_texts(item, (*path, key)) for key, item in value.items()}
        return value

    try:
        outcome = getattr(record, "outcome", None)
        # The values that may be anything: pydantic would store some of them as something else.
        check_json([getattr(record, "options", None), getattr(record, "operations", None), outcome and outcome.updates])
        data = record.model_dump()
        if isinstance(record, VisitCompleted):
            data = share_texts(data, ())
        shared = {"texts": [*texts], "places": places} if places else {}
        try:
            return to_json({"v": VERSION, **shared, **data}, inf_nan_mode="constants")
        except PydanticSerializationError:  # half a surrogate pair has no UTF-8, but JSON can escape it
            return json.dumps({"v": VERSION, **shared, **data}, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"a {record.kind} record cannot be stored: {error}") from error


def decode(body: bytes, run_id: str, seq: int) -> AnyRecord:
    """Return the record in some bytes, or raise JournalError that names the run, the record and the problem."""
    owner = f"run {run_id}"
    try:
        data = _parse_json(body)
    except (ValueError, RecursionError) as error:
        raise damaged_record(owner, seq, f"it is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise damaged_record(owner, seq, "it is not a JSON object")
    version = data.pop("v", None)
    if type(version) is not int or version < 1:
        raise damaged_record(owner, seq, "it has no version")
    if version > VERSION:
        message = f"record {seq} of run {run_id} was written by a newer awf (format {version}, supported {VERSION})"
        raise JournalError(message, help="update awf; nothing was changed")
    try:
        if "texts" in data:
            texts = data.pop("texts")
            for number, *above, last in data.pop("places"):
                container = data
                for key in above:
                    container = container[key]
                container[last] = texts[number]
        return _adapter.validate_python(data)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise damaged_record(owner, seq, f"{where}: {problem['msg']}" if where else problem["msg"]) from error
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_record(owner, seq, "it refers to a text that it does not have") from error


def _parse_json(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:  # half a surrogate pair, deep nesting, or damage
        return json.loads(body)
