"""The journal and the mailbox of a cluster, kept in its object store.

Record n of a run is an object that is created once. If two workers believe that a run is theirs, only one of them can
write its next record; the other learns that the run was taken over.
"""

import json
import secrets
import time
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from math import inf

from pipeline.cluster.messages import AttemptRequest
from pipeline.cluster.object_store import ObjectStore
from pipeline.engine.ports import HumanAnswer, JournalEntry, UnknownRun
from pipeline.engine.records import AnyRecord, AttemptFailed, BranchCompleted, StageErrored, VisitStarted
from pipeline.errors import AwfError
from pipeline.journal import check_run_id, run_exists
from pipeline.journal.codec import decode, encode
from pipeline.journal.memory import MemoryMailbox
from pipeline.journal.packing import ATTACHMENT_ERRORS, damaged_record, pack_text, unpack_text

INDEX = "index/"  # the prefix of the keys that list the runs in the order they were created
_BATCH = 100  # objects fetched at once


@dataclass(frozen=True, slots=True)
class JournalObject:
    """One object of a run: a record, or lines for the ledger, or both."""

    seq: int
    record: AnyRecord | None
    lines: tuple[str, ...] = ()
    attached: str = ""


class SharedJournal:
    """The runs of a cluster. Each run has a ledger of its own; this journal's ledger is that of `run_id`."""

    def __init__(self, store: ObjectStore, run_id: str = "", *, now: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now = now
        self._run = run_id
        self._lines: list[str] = []  # of the run's ledger, as far as it was read
        self._read = 0  # objects of the run

    def of(self, run_id: str) -> "SharedJournal":
        """Return the same journal with the ledger of another run."""
        return SharedJournal(self._store, run_id, now=self._now)

    def create(self, run_id: str, record: AnyRecord) -> None:
        check_run_id(run_id)
        body = _encode_object(encode(record), "", ())
        if self._store.find(_record_key(run_id, 1)) is None:
            self._store.create(f"{INDEX}{int(self._now() * 1e9):020d}-{run_id}", b"")
        if not self._store.create(_record_key(run_id, 1), body):
            raise run_exists(run_id)

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        return self._append_object(run_id, _encode_object(encode(record), attached, lines))

    def write(self, run_id: str, seq: int, record: AnyRecord, attached: str = "", lines: Sequence[str] = ()) -> bool:
        """Write the record with this number; return False if there is one already."""
        return self._store.create(_record_key(run_id, seq), _encode_object(encode(record), attached, lines))

    def attached(self, run_id: str, seq: int) -> str:
        found = self._find(run_id, seq)
        if found is None:
            self._require(run_id)
            return ""
        return found.attached

    def entries(self, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        self._require(run_id)
        return (JournalEntry(one.seq, one.record) for one in self.objects(run_id, after) if one.record is not None)

    def last(self, run_id: str) -> JournalEntry:
        self._require(run_id)
        for seq in reversed(self._numbers(run_id)):
            found = self._find(run_id, seq)
            if found is not None and found.record is not None:
                return JournalEntry(seq, found.record)
        raise damaged_record(f"run {run_id}", 1, "it is missing")

    def last_kind(self, run_id: str) -> str:
        return self.last(run_id).record.kind

    def objects(self, run_id: str, after: int = 0) -> Iterator[JournalObject]:
        """Return the objects of a run that follow number `after`: a few one by one, many in batches."""
        while (found := self._find(run_id, after + 1)) is not None:
            yield found
            after = found.seq
            if after % _BATCH == 0 or after == 1:  # the reader starts from the beginning, or has fallen far behind
                for one in self._read_batches(run_id, after):
                    yield one
                    after = one.seq

    def append_ledger(self, lines: Iterable[str]) -> int:
        added = tuple(lines)
        if added:
            self._append_object(self._run, _encode_object(b"null", "", added))
        return sum(1 for _ in self.ledger())

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        if self._run:
            for one in self.objects(self._run, self._read):
                self._lines += one.lines
                self._read = one.seq
        return iter(tuple(enumerate(self._lines, start=1))[after:])

    def runs(self) -> Sequence[str]:
        present = set(self._store.names("runs/"))
        indexed = dict.fromkeys(parse_index_name(name)[1] for name in self._store.names(INDEX))
        return tuple(run for run in indexed if run in present)

    def lock(self, run_id: str) -> AbstractContextManager[None]:
        """Lock nothing: a run belongs to the worker that writes its next record."""
        check_run_id(run_id)
        return nullcontext()

    def close(self) -> None:
        """Do nothing: no object is held open."""

    def _append_object(self, run_id: str, body: bytes) -> int:
        self._require(run_id)
        seq = (self._numbers(run_id) or [1])[-1] + 1
        while not self._store.create(_record_key(run_id, seq), body):
            seq += 1
        return seq

    def _find(self, run_id: str, seq: int) -> JournalObject | None:
        body = self._store.find(_record_key(run_id, seq))
        return None if body is None else _decode_object(body, run_id, seq)

    def _read_batches(self, run_id: str, after: int) -> Iterator[JournalObject]:
        numbers = [seq for seq in self._numbers(run_id) if seq > after]
        for start in range(0, len(numbers), _BATCH):
            batch = numbers[start : start + _BATCH]
            bodies = self._store.get_many([_record_key(run_id, seq) for seq in batch])
            for seq, body in zip(batch, bodies, strict=True):
                if seq != after + 1:
                    raise damaged_record(f"run {run_id}", after + 1, "it is missing")
                after = seq
                yield _decode_object(body, run_id, seq)

    def _numbers(self, run_id: str) -> list[int]:
        return [int(name) for name in self._store.names(f"runs/{run_id}/records/") if name.isdecimal()]

    def _require(self, run_id: str) -> None:
        if not run_id or self._store.find(_record_key(run_id, 1)) is None:
            raise UnknownRun(f"there is no run {run_id} in {self._store.name}")


def parse_index_name(name: str) -> tuple[float, str]:
    """Return the time and the run of a name in the index; the time is 0 for a name that awf has not written."""
    at, _, run_id = name.partition("-")
    return int(at) / 1e9 if at.isdecimal() else 0.0, run_id


def _record_key(run_id: str, seq: int) -> str:
    return f"runs/{run_id}/records/{seq:08d}"


def _encode_object(record: bytes, attached: str, lines: Sequence[str]) -> bytes:
    """Return an object: one line with the checksum, the ledger lines and the attached text, then the record."""
    head: dict[str, object] = {"crc": zlib.crc32(record)}
    if lines:
        head["lines"] = list(lines)
    if attached:
        head["attached"] = b64encode(pack_text(attached)).decode()
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + record


def _decode_object(body: bytes, run_id: str, seq: int) -> JournalObject:
    first_line, _, record = body.partition(b"\n")
    try:
        head = json.loads(first_line)
        if zlib.crc32(record) != head["crc"]:
            raise damaged_record(f"run {run_id}", seq, "its checksum does not match")
        attached = unpack_text(b64decode(head["attached"])) if "attached" in head else ""
    except (ValueError, LookupError, TypeError, *ATTACHMENT_ERRORS) as error:
        raise damaged_record(f"run {run_id}", seq, "its first line cannot be read") from error
    decoded = None if record == b"null" else decode(record, run_id, seq)
    return JournalObject(seq, decoded, tuple(head.get("lines", ())), attached)


class RunTakenOver(AwfError):
    """Another worker has written the next record of this run, so the work done here does not count."""


class FencedJournal(SharedJournal):
    """A journal that writes only directly after the records that its worker knows.

    An attempt at a branch may also follow records of its own earlier attempts and of other branches.
    """

    def __init__(
        self,
        store: ObjectStore,
        run_id: str,
        after: int,
        branch: AttemptRequest | None = None,
        before_write: Callable[[AnyRecord], None] = lambda _: None,
    ) -> None:
        super().__init__(store, run_id)
        self._before_write = before_write
        self._next = after + 1
        self._branch = branch
        self.written: list[JournalObject] = []

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        self._before_write(record)
        while not self.write(run_id, self._next, record, attached, lines):
            found = next(self.objects(run_id, self._next - 1)).record
            if found is not None and not self._may_follow(found):
                raise RunTakenOver(f"another worker wrote record {self._next} of run {run_id}: {found.kind}")
            self._next += 1
        self.written.append(JournalObject(self._next, record))
        self._next += 1
        return self._next - 1

    def _may_follow(self, record: AnyRecord) -> bool:
        stage, attempt = branch_attempt(record)
        own = self._branch
        return own is not None and stage != "" and (stage != own.stage or attempt < own.attempt)


def branch_attempt(record: AnyRecord) -> tuple[str, float]:
    """Return the branch and the attempt that a record is about; after a completed branch there is no other attempt."""
    match record:
        case BranchCompleted():
            return record.branch, inf
        case VisitStarted() | AttemptFailed() | StageErrored():
            return record.stage, record.attempt
        case _:
            return "", inf


class SharedMailbox(MemoryMailbox):
    """Answers for the runs of a cluster. The first answer to a visit stays; cancel requests go to the server."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._store = store

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        key = _answer_key(answer.run_id, answer.stage, answer.visit)
        if self._store.create(key, json.dumps(asdict(answer)).encode()):
            return answer
        return HumanAnswer(**json.loads(self._store.get(key)))

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        body = self._store.find(_answer_key(run_id, stage, visit))
        return HumanAnswer(**json.loads(body)) if body else None


def _answer_key(run_id: str, stage: str, visit: int) -> str:
    return f"runs/{run_id}/answers/{stage}/{visit}"


def save_resume_records(store: ObjectStore, run_id: str, records: Iterable[AnyRecord]) -> str:
    """Store the records by which a run is to continue; return the key for the worker that resumes it."""
    key = f"runs/{run_id}/resumptions/{secrets.token_hex(8)}"
    store.put(key, b"\n".join(encode(record) for record in records))
    return key


def load_resume_records(store: ObjectStore, key: str) -> list[AnyRecord]:
    """Return the records that were stored under a key."""
    run_id = key.split("/")[1]
    return [decode(body, run_id, number) for number, body in enumerate(store.get(key).split(b"\n"), 1)]
