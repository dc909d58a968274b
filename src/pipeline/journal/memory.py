"""A journal and a mailbox that last as long as their process, for tests and dry runs."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from pipeline.engine.ports import CancelRequest, HumanAnswer, JournalEntry, RunIsOwned, UnknownRun
from pipeline.engine.records import AnyRecord
from pipeline.journal import check_run_id, run_exists
from pipeline.journal.codec import decode, encode


class MemoryJournal:
    """Runs in memory, stored as the bytes that a file would hold."""

    def __init__(self) -> None:
        self._runs: dict[str, list[bytes]] = {}
        self._attached: dict[tuple[str, int], str] = {}
        self._lines: list[str] = []
        self._locked: set[str] = set()

    def create(self, run_id: str, record: AnyRecord) -> None:
        check_run_id(run_id)
        if run_id in self._runs:
            raise run_exists(run_id)
        self._runs[run_id] = [encode(record)]

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        bodies = self._bodies(run_id)
        bodies.append(encode(record))
        self.append_ledger(lines)
        self._attached[run_id, len(bodies)] = attached
        return len(bodies)

    def attached(self, run_id: str, seq: int) -> str:
        self._bodies(run_id)
        return self._attached.get((run_id, seq), "")

    def entries(self, run_id: str, after: int = 0) -> Iterator[JournalEntry]:
        numbered = enumerate(self._bodies(run_id), start=1)
        return (JournalEntry(seq, decode(body, run_id, seq)) for seq, body in islice(numbered, after, None))

    def last(self, run_id: str) -> JournalEntry:
        bodies = self._bodies(run_id)
        return JournalEntry(len(bodies), decode(bodies[-1], run_id, len(bodies)))

    def last_kind(self, run_id: str) -> str:
        return self.last(run_id).record.kind

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
        if run_id in self._locked:
            raise RunIsOwned(f"run {run_id} is being driven by this process; wait for it or stop it")
        self._locked.add(run_id)
        try:
            yield
        finally:
            self._locked.discard(run_id)

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def _bodies(self, run_id: str) -> list[bytes]:
        if run_id not in self._runs:
            raise UnknownRun(f"there is no run {run_id}")
        return self._runs[run_id]


class MemoryMailbox:
    """Answers and cancel requests in memory."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, int], HumanAnswer] = {}
        self._requests: dict[str, list[CancelRequest]] = {}

    def put_answer(self, answer: HumanAnswer) -> HumanAnswer:
        return self._answers.setdefault((answer.run_id, answer.stage, answer.visit), answer)

    def answer(self, run_id: str, stage: str, visit: int) -> HumanAnswer | None:
        return self._answers.get((run_id, stage, visit))

    def put_cancel_request(self, request: CancelRequest) -> None:
        self._requests.setdefault(request.run_id, []).append(request)

    def cancel_request(self, run_id: str, after: int) -> CancelRequest | None:
        return next(iter(self._requests.get(run_id, [])[after:]), None)

    def cancel_requests(self, run_id: str) -> int:
        return len(self._requests.get(run_id, []))
