"""A journal that lasts as long as its process, for tests and dry runs. It keeps what it would write, as bytes."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from pipeline.engine.ports import JournalEntry, RunIsOwned, UnknownRun
from pipeline.engine.records import AnyRecord
from pipeline.journal.codec import decode, encode, pack_text, unpack_text
from pipeline.journal.ids import check_run_id, run_exists


class MemoryJournal:
    """Runs in memory."""

    def __init__(self) -> None:
        self._runs: dict[str, list[bytes]] = {}
        self._attached: dict[tuple[str, int], bytes] = {}
        self._lines: list[str] = []
        self._owned: set[str] = set()

    def create(self, run_id: str, record: AnyRecord) -> None:
        check_run_id(run_id)
        if run_id in self._runs:
            raise run_exists(run_id)
        self._runs[run_id] = [encode(record)]

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        bodies = self._bodies(run_id)
        bodies.append(encode(record))
        self.append_ledger(lines)
        if attached:
            self._attached[run_id, len(bodies)] = pack_text(attached)
        return len(bodies)

    def attached(self, run_id: str, seq: int) -> str:
        self._bodies(run_id)
        body = self._attached.get((run_id, seq))
        return unpack_text(body) if body else ""

    def entries(self, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        numbered = enumerate(self._bodies(run_id), start=1)
        return (JournalEntry(seq, decode(body, run_id, seq)) for seq, body in islice(numbered, after, None))

    def last(self, run_id: str) -> JournalEntry:
        bodies = self._bodies(run_id)
        return JournalEntry(len(bodies), decode(bodies[-1], run_id, len(bodies)))

    def append_ledger(self, lines: Iterable[str]) -> int:
        self._lines += lines
        return len(self._lines)

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        return islice(enumerate(tuple(self._lines), start=1), after, None)

    def runs(self) -> Sequence[str]:
        return tuple(self._runs)

    @contextmanager
    def lock(self, run_id: str) -> Iterator[None]:
        check_run_id(run_id)
        if run_id in self._owned:
            raise RunIsOwned(f"run {run_id} is being run by this process; wait for it or stop it")
        self._owned.add(run_id)
        try:
            yield
        finally:
            self._owned.discard(run_id)

    def close(self) -> None:
        """Nothing is held open."""

    def _bodies(self, run_id: str) -> list[bytes]:
        if run_id not in self._runs:
            raise UnknownRun(f"there is no run {run_id}")
        return self._runs[run_id]
