"""Records as bytes, and back."""

import json
import re
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.engine.outcome import Failure, Outcome, Status
from pipeline.engine.ports import JournalError
from pipeline.engine.records import AnyRecord, AttemptFailed, Record, RunResumed, RunWaiting, VisitCompleted
from pipeline.engine.routing import Selection
from pipeline.journal.codec import LONG, VERSION, decode, encode

KINDS: tuple[type[Record], ...] = get_args(get_args(AnyRecord)[0])

LONG_TEXTS = st.sampled_from(["a" * LONG, "é\n" * LONG, '"' * LONG, "b" * (LONG - 1)])
TEXTS = st.text(max_size=20) | LONG_TEXTS
NUMBERS = st.integers() | st.floats(allow_nan=False)
HALVES = st.sampled_from(["\ud800", "a\udfff", "\ud800" * LONG])
LOOKALIKES = st.dictionaries(st.sampled_from(["$text", "$$text", "text", "texts", "places", "v"]), st.integers(0, 2))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | HALVES | LOOKALIKES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OPERATIONS = st.lists(st.tuples(st.sampled_from(["set", "append", "discard", "delete"]), TEXTS, VALUES), max_size=5)

for model in (Failure, Outcome):
    model.model_rebuild()  # its fields are known to a strategy only after it is built
st.register_type_strategy(
    Outcome,
    st.builds(
        Outcome,
        reason=TEXTS,
        response=TEXTS,
        updates=st.dictionaries(TEXTS, VALUES, max_size=3),
        duration=st.floats(0, 1e9),
        failure=st.none() | st.builds(Failure, digest=TEXTS),
    ),
)


def record_of(kind: type[Record]) -> st.SearchStrategy[AnyRecord]:
    kind.model_rebuild()  # its fields are known to a strategy only after it is built
    numbers = {
        name: st.floats(allow_nan=False) for name, field in kind.model_fields.items() if field.annotation is float
    }
    given: dict[str, Any] = {"operations": OPERATIONS.map(tuple)} if kind is VisitCompleted else {}
    given |= {"raised": st.dictionaries(TEXTS, st.floats(allow_nan=False))} if kind is RunResumed else {}
    return st.builds(kind, **numbers, **given)  # type: ignore[arg-type]  # each of KINDS is one of AnyRecord


RECORDS = st.sampled_from(KINDS).flatmap(record_of)


ENDLESS = Outcome(status=Status.FAIL, updates={"n": [float("inf")]}, duration=float("inf"))


def completed(*operations: tuple[str, str, Any], response: str = "") -> VisitCompleted:
    outcome = Outcome(status=Status.FAIL, response=response)
    chosen = Selection(target=None, reason="")
    return VisitCompleted(at=1, stage="s", visit=1, attempt=1, outcome=outcome, operations=operations, chosen=chosen)


@given(RECORDS)
@example(AttemptFailed(at=1, stage="s", visit=1, attempt=1, delay=0, outcome=ENDLESS))
def test_a_record_is_read_as_it_was_written(record: AnyRecord) -> None:
    """Writing and reading again gives the same record, in one line of UTF-8."""
    body = encode(record)
    assert decode(body, "r", 1) == record
    assert b"\n" not in body
    assert json.loads(body.decode())["v"] == VERSION


def test_a_repeated_long_text_is_written_once() -> None:
    """An answer that several context keys hold costs its length once, and is one text again when read."""
    answer = "An answer. " * 100
    record = completed(("set", "a", answer), ("append", "b", {"response": answer}), response=answer)
    body = encode(record)
    assert len(body) < 2 * len(answer)
    again = decode(body, "r", 1)
    assert again == record
    assert isinstance(again, VisitCompleted)
    assert again.outcome.response is again.operations[0][2]


def test_what_looks_like_a_reference_is_left_alone() -> None:
    """A context value of the form of a reference comes back as it was, beside real references."""
    answer = "a" * LONG
    operations: tuple[tuple[str, str, Any], ...] = (
        ("set", "a", {"$text": 0}),
        ("set", "b", {"texts": [], "places": []}),
        ("set", "c", answer),
    )
    record = completed(*operations, response=answer)
    assert decode(encode(record), "r", 1) == record


def test_half_a_surrogate_pair_survives() -> None:
    """What has no UTF-8 is written as an escape."""
    record = completed(("set", "a", "\ud83d"))
    encode(record).decode("utf-8")
    assert decode(encode(record), "r", 1) == record


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", {1: "a"}, {None: 1}, object(), 1j])
def test_what_json_cannot_say_is_refused(value: object) -> None:
    """A value that would come back as another one is an error when it is written."""
    with pytest.raises(JournalError, match="a visit_completed record cannot be stored"):
        encode(completed(("set", "a", value)))


def test_a_value_in_itself_is_refused() -> None:
    """A list that contains itself is an error, not an endless loop."""
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(JournalError, match="cannot be stored"):
        encode(completed(("set", "a", endless)))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "not JSON"),
        (b'{"v":1,"kind":"run_wai', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "version"),
        (b'{"v":"1"}', "version"),
        (b'{"v":0}', "version"),
        (b'{"v":true}', "version"),
        (b'{"v":1}', "kind"),
        (b'{"v":1,"kind":"run_exploded","at":1}', "run_exploded"),
        (b'{"v":1,"kind":"run_waiting","at":1,"stage":"s"}', "visit"),
        (b'{"v":1,"kind":"run_waiting","at":1,"stage":"s","visit":"many"}', "visit"),
        (b'{"v":1,"kind":"run_waiting","at":1,"stage":"s","visit":1,"more":1}', "more"),
        (b'{"v":1,"texts":["a"],"kind":"run_waiting","at":1,"stage":"s","visit":1}', "refers to a text"),
        (b'{"v":1,"texts":["a"],"places":[[1,"stage"]],"kind":"run_waiting","at":1,"stage":{},"visit":1}', "refers to"),
        (b'{"v":1,"texts":["a"],"places":[[]],"kind":"run_waiting","at":1,"stage":{},"visit":1}', "refers to"),
        (b'{"v":1,"texts":["a"],"places":4,"kind":"run_waiting","at":1,"stage":{},"visit":1}', "refers to"),
    ],
)
def test_damage_is_located(body: bytes, problem: str) -> None:
    """The error names the run, the number of the record and what is wrong with it."""
    with pytest.raises(JournalError, match=rf"record 7 of run r1 is damaged: .*{re.escape(problem)}"):
        decode(body, "r1", 7)


def test_a_newer_format_is_refused() -> None:
    """The error says that a newer program wrote the record, whatever else stands in it."""
    with pytest.raises(JournalError, match=r"record 7 of run r1 was written by a newer awf \(format 3"):
        decode(b'{"v":3,"kind":"run_teleported"}', "r1", 7)


@given(st.binary(max_size=60) | st.integers(0, 200))
def test_no_bytes_are_taken_for_another_record(damage: bytes | int) -> None:
    """Bytes that no record was written as, and records cut short, are errors of the journal and nothing else."""
    whole = encode(RunWaiting(at=1, stage="s" * LONG, visit=3))
    body = damage if isinstance(damage, bytes) else whole[:damage]
    with pytest.raises(JournalError):
        decode(body, "r", 1)
