"""The journal of a cluster: record n of a run is an object that is created once, whoever creates it.

Two who believe to be at the same run cannot both write its next record: the second one finds that he was replaced.
"""

import json
import secrets
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.cluster.messages import AttemptRequest
from pipeline.cluster.object_store import ObjectStore, StoreUnavailable
from pipeline.engine.ports import CancelRequest, HumanAnswer, JournalEntry, UnknownRun
from pipeline.engine.records import AnyRecord, AttemptFailed, BranchCompleted, StageErrored, VisitStarted
from pipeline.errors import AwfError
from pipeline.journal import check_run_id, run_exists
from pipeline.journal.codec import ATTACHMENT_ERRORS, damaged_record, decode, encode, pack_text, unpack_text

INDEX = "index/"  # what the keys begin with that name the runs in the order of their times
_BATCH = 100  # objects asked for at once


@dataclass(frozen=True, slots=True)
class JournalObject:
    """One object of a run: a record, or lines for the ledger, or both."""

    seq: int
    record: AnyRecord | None
    lines: tuple[str, ...] = ()
    attached: str = ""


class SharedJournal:
    """The runs of a cluster. Its ledger is that of one run, `run_id`: the lines of its records, in their order."""

    def __init__(self, store: ObjectStore, run_id: str = "", *, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self._run = run_id
        self._lines: list[str] = []  # of that run, as far as they were read
        self._read = 0  # pages of it

    def of(self, run_id: str) -> "SharedJournal":
        """The same journal with the ledger of another run."""
        return SharedJournal(self._store, run_id, now=self._now)

    def create(self, run_id: str, record: AnyRecord) -> None:
        check_run_id(run_id)
        body = _written(encode(record), "", ())
        if self._store.find(_record_key(run_id, 1)) is None:
            self._store.create(f"{INDEX}{int(self._now() * 1e9):020d}-{run_id}", b"")
        if not self._store.create(_record_key(run_id, 1), body):
            raise run_exists(run_id)

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        return self._add(run_id, _written(encode(record), attached, lines))

    def write(self, run_id: str, seq: int, record: AnyRecord, attached: str = "", lines: Sequence[str] = ()) -> bool:
        """Write exactly this record; False when there is one of that number."""
        return self._store.create(_record_key(run_id, seq), _written(encode(record), attached, lines))

    def attached(self, run_id: str, seq: int) -> str:
        body = self._store.find(_record_key(run_id, seq))
        if body is None:
            self._check(run_id)
            return ""
        return _page(body, run_id, seq).attached

    def entries(self, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        self._check(run_id)
        return (JournalEntry(page.seq, page.record) for page in self.pages(run_id, after) if page.record is not None)

    def last(self, run_id: str) -> JournalEntry:
        self._check(run_id)
        for seq in reversed(self._numbers(run_id)):
            page = self._at(run_id, seq)
            if page is not None and page.record is not None:
                return JournalEntry(seq, page.record)
        raise damaged_record(f"run {run_id}", 1, "it is missing")

    def pages(self, run_id: str, after: int = 0) -> Iterator[JournalObject]:
        """The objects of a run from the one after `after`: the next ones one by one, many in batches."""
        while (page := self._at(run_id, after + 1)) is not None:
            yield page
            after = page.seq
            if after % _BATCH == 0 or after == 1:  # somebody who reads from the beginning, or has fallen far behind
                for behind in self._batches(run_id, after):
                    yield behind
                    after = behind.seq

    def append_ledger(self, lines: Iterable[str]) -> int:
        kept = tuple(lines)
        if kept:
            self._check(self._run)
            self._add(self._run, _written(b"null", "", kept))
        return sum(1 for _ in self.ledger())

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        if self._run:
            for page in self.pages(self._run, self._read):
                self._lines += page.lines
                self._read = page.seq
        return iter(tuple(enumerate(self._lines, start=1))[after:])

    def runs(self) -> Sequence[str]:
        there = set(self._store.names("runs/"))
        named = dict.fromkeys(parse_index_name(name)[1] for name in self._store.names(INDEX))
        return tuple(run for run in named if run in there)

    def is_there(self, run_id: str) -> bool:
        """Whether a run can be read that is known to be in the store; else the store is away."""
        try:
            return self._store.find(_record_key(run_id, 1)) is not None
        except StoreUnavailable:
            return False

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        """Nobody owns a run of a cluster: who writes its next record is at it."""
        check_run_id(run_id)
        return nullcontext()

    def close(self) -> None:
        """Nothing is held open."""

    def _add(self, run_id: str, body: bytes) -> int:
        self._check(run_id)
        seq = (self._numbers(run_id) or [1])[-1] + 1
        while not self._store.create(_record_key(run_id, seq), body):
            seq += 1
        return seq

    def _at(self, run_id: str, seq: int) -> JournalObject | None:
        body = self._store.find(_record_key(run_id, seq))
        return None if body is None else _page(body, run_id, seq)

    def _batches(self, run_id: str, after: int) -> Iterator[JournalObject]:
        numbers = [seq for seq in self._numbers(run_id) if seq > after]
        for start in range(0, len(numbers), _BATCH):
            batch = numbers[start : start + _BATCH]
            for seq, body in zip(batch, self._store.many([_record_key(run_id, seq) for seq in batch]), strict=True):
                if seq != after + 1:
                    raise damaged_record(f"run {run_id}", after + 1, "it is missing")
                after = seq
                yield _page(body, run_id, seq)

    def _numbers(self, run_id: str) -> list[int]:
        return [int(name) for name in self._store.names(f"runs/{run_id}/records/") if name.isdecimal()]

    def _check(self, run_id: str) -> None:
        if not run_id or self._store.find(_record_key(run_id, 1)) is None:
            raise UnknownRun(f"there is no run {run_id} in {self._store.name}")


def parse_index_name(name: str) -> tuple[float, str]:
    """When a run was entered into the index, and which, by a name in it."""
    at, _, run_id = name.partition("-")
    return int(at) / 1e9 if at.isdecimal() else 0.0, run_id


def _record_key(run_id: str, seq: int) -> str:
    return f"runs/{run_id}/records/{seq:08d}"


def _written(record: bytes, attached: str, lines: Sequence[str]) -> bytes:
    """An object: a line about the record, with what goes with it, and the record below."""
    more = {"attached": b64encode(pack_text(attached)).decode()} if attached else {}
    head = {"crc": zlib.crc32(record), **({"lines": list(lines)} if lines else {}), **more}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + record


def _page(body: bytes, run_id: str, seq: int) -> JournalObject:
    head, _, record = body.partition(b"\n")
    try:
        said = json.loads(head)
        if zlib.crc32(record) != said["crc"]:
            raise damaged_record(f"run {run_id}", seq, "its checksum does not match")
        attached = unpack_text(b64decode(said["attached"])) if "attached" in said else ""
    except (ValueError, LookupError, TypeError, *ATTACHMENT_ERRORS) as error:
        raise damaged_record(f"run {run_id}", seq, "its first line cannot be read") from error
    kept = None if record == b"null" else decode(record, run_id, seq)
    return JournalObject(seq, kept, tuple(said.get("lines", ())), attached)


class RunTakenOver(AwfError):
    """Somebody else has written the next record of this run: what was done here does not count."""


class FencedJournal(SharedJournal):
    """A journal that adds only after the records that are known.

    At an attempt of a branch, those of its earlier attempts and of other branches may come in between.
    """

    def __init__(
        self,
        store: ObjectStore,
        run_id: str,
        after: int,
        branch: AttemptRequest | None = None,
        first: Callable[[AnyRecord], None] = lambda _: None,  # what has to be done before a record is written
    ) -> None:
        super().__init__(store, run_id)
        self._first = first
        self._next = after + 1
        self._branch = branch
        self.written: list[JournalObject] = []

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        self._first(record)
        while not self.write(run_id, self._next, record, attached, lines):
            self._pass_over(run_id, self._next)
            self._next += 1
        self.written.append(JournalObject(self._next, record))
        self._next += 1
        return self._next - 1

    def _pass_over(self, run_id: str, seq: int) -> None:
        page = next(self.pages(run_id, seq - 1))
        if page.record is not None and not (self._branch and _is_beside(page.record, self._branch)):
            raise RunTakenOver(f"record {seq} of run {run_id} was written by somebody else: {page.record.kind}")


def _is_beside(record: AnyRecord, mine: AttemptRequest) -> bool:
    """Whether a record may come before that of an attempt at a branch."""
    match record:
        case BranchCompleted():
            return record.branch != mine.stage
        case VisitStarted() | AttemptFailed() | StageErrored():
            return record.stage != mine.stage or record.attempt < mine.attempt
        case _:
            return False


class SharedMailbox:
    """The letters of one cluster."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        key = _answer_key(answer.run_id, answer.stage, answer.visit)
        if self._store.create(key, _body(asdict(answer))):
            return answer
        return HumanAnswer(**json.loads(self._store.get(key)))

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        body = self._store.find(_answer_key(run_id, stage, visit))
        return HumanAnswer(**json.loads(body)) if body else None

    def put_cancel_request(self, wish: CancelRequest) -> None:
        number = self.cancel_requests(wish.run_id) + 1
        while not self._store.create(_cancel_key(wish.run_id, number), _body(asdict(wish))):
            number += 1

    def cancel_request(self, run_id: str, after: int) -> CancelRequest | None:
        body = self._store.find(_cancel_key(run_id, after + 1))
        return CancelRequest(**json.loads(body)) if body else None

    def cancel_requests(self, run_id: str) -> int:
        return len(self._store.names(f"runs/{run_id}/cancellations/"))


def _answer_key(run_id: str, stage: str, visit: int) -> str:
    return f"runs/{run_id}/answers/{stage}/{visit}"


def _cancel_key(run_id: str, number: int) -> str:
    return f"runs/{run_id}/cancellations/{number:04d}"


def _body(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def save_resume_records(store: ObjectStore, run_id: str, records: list[AnyRecord]) -> str:
    """Leave the records for a run's next resumption; the key by which a worker finds them."""
    key = f"runs/{run_id}/resumptions/{secrets.token_hex(8)}"
    store.put(key, b"\n".join(encode(record) for record in records))
    return key


def load_resume_records(store: ObjectStore, key: str) -> list[AnyRecord]:
    """The records that somebody left."""
    run_id = key.split("/")[1]
    return [decode(body, run_id, number) for number, body in enumerate(store.get(key).split(b"\n"), 1)]
