"""Texts attached to records, as bytes: compressed where they are long, since they are seldom read."""

import json
import zlib
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from pipeline.engine.context import check_json
from pipeline.engine.ports import JournalError
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunCreated,
    RunResumed,
    StageErrored,
    VisitCompleted,
)

ATTACHMENT_ERRORS = (zlib.error, UnicodeDecodeError, TypeError)  # what `unpacked` raises for damaged bytes

_FAST = 1  # level; more costs a stage longer and saves little of a prose text
_LONG = 500  # bytes that are worth compressing
_PLAIN = b"\0"  # what one begins with that is not, before its checksum; a compressed one has its own


def pack_text(text: str) -> bytes:
    """A text as it is stored."""
    body = text.encode("utf-8", "surrogatepass")
    return zlib.compress(body, _FAST) if len(body) >= _LONG else _PLAIN + _checksum(body) + body


def unpack_text(body: bytes) -> str:
    """The text of some stored bytes."""
    return (_sound(body) if body[:1] == _PLAIN else zlib.decompress(body)).decode("utf-8", "surrogatepass")


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(4)


def _sound(body: bytes) -> bytes:
    if _checksum(body[5:]) != body[1:5]:
        raise zlib.error("its checksum does not match")
    return body[5:]


VERSION = 2  # 2: stage_errored, run_failed, operations of branches

LONG = 200  # characters of a text that is worth a place in the pool

_adapter: TypeAdapter[AnyRecord] = TypeAdapter(AnyRecord)


def encode(record: AnyRecord) -> bytes:
    """A record as UTF-8 JSON; raises JournalError when it holds what JSON cannot say."""
    try:
        data = _of_visit(record) if isinstance(record, VisitCompleted) else _of_other(record)
        return _dumped({"v": VERSION, **data})
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(f"a {record.kind} record cannot be written down: {error}") from error


def decode(body: bytes, run_id: str, seq: int) -> AnyRecord:
    """The record in some bytes; raises JournalError naming the run, the record's number and what is wrong."""
    try:
        data = _loaded(body)
    except (ValueError, RecursionError) as error:
        raise damaged_record(f"run {run_id}", seq, f"it is not JSON ({error})") from error
    if not isinstance(data, dict):
        raise damaged_record(f"run {run_id}", seq, "it is not a JSON object")
    _check_version(data.pop("v", None), run_id, seq)
    try:
        if "texts" in data:
            _restore(data, data.pop("texts"), data.pop("places"))
        return _adapter.validate_python(data)
    except ValidationError as error:
        raise damaged_record(f"run {run_id}", seq, _first_problem(error)) from error
    except (LookupError, TypeError, ValueError) as error:
        raise damaged_record(f"run {run_id}", seq, "it refers to a text that it does not have") from error


def damaged_record(whose: str, seq: int, problem: str) -> JournalError:
    """The error for a record, of a run or of the ledger, that cannot be understood."""
    return JournalError(
        f"record {seq} of {whose} is damaged: {problem}",
        help="nothing was changed; restore the store from a copy, or start a new run",
    )


def _check_version(version: object, run_id: str, seq: int) -> None:
    if type(version) is not int or version < 1:
        raise damaged_record(f"run {run_id}", seq, "it does not say the version of its format")
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
        return json.dumps(data, separators=(",", ":"), default=vars).encode()


def _loaded(body: bytes) -> Any:
    try:
        return from_json(body)
    except ValueError:  # half of a surrogate pair, deep nesting, or damage
        return json.loads(body)


def _of_other(record: AnyRecord) -> dict[str, Any]:
    match record:
        case AttemptFailed() | StageErrored():
            check_json(record.outcome.updates)
        case BranchCompleted():
            check_json(record.outcome.updates)
            check_json([value for _, _, value in record.operations])
        case RunCreated() | RunResumed():
            check_json(record.options)
    return record.__dict__


def _of_visit(record: VisitCompleted) -> dict[str, Any]:
    """A visit with references in the place of long texts. In plain values: models take longer to write."""
    pool = _Pool({}, [])
    said = record.outcome
    outcome = {**said.__dict__, "status": str.__str__(said.status), "source": str.__str__(said.source)}
    if len(said.response) >= LONG:
        pool.take(outcome, "response", ("outcome",))
    operations = [[*operation] for operation in record.operations]
    for number, operation in enumerate(operations):
        value = operation[2]
        if type(value) is str:
            if len(value) >= LONG:
                pool.take(operation, 2, ("operations", number))
            continue
        check_json(value)
        if type(value) is dict:
            operation[2] = {**value}
            for name, part in value.items():
                if type(part) is str and len(part) >= LONG:
                    pool.take(operation[2], name, ("operations", number, 2))
    data = {**record.__dict__, "outcome": outcome, "operations": operations, "chosen": record.chosen.__dict__}
    return {"texts": [*pool.numbers], "places": pool.places, **data} if pool.places else data


class _Pool(NamedTuple):
    """The long texts of a record, by their numbers, and where they were."""

    numbers: dict[str, int]
    places: list[tuple[int | str, ...]]

    def take(self, container: Any, key: str | int, above: tuple[str | int, ...]) -> None:
        """Put a reference in the place of a text."""
        number = self.numbers.setdefault(container[key], len(self.numbers))
        self.places.append((number, *above, key))
        container[key] = {"$text": number}


def _restore(data: Any, texts: list[str], places: list[list[Any]]) -> None:
    for number, *above, last in places:
        at = data
        for key in above:
            at = at[key]
        at[last] = texts[number]
