"""What the driver needs from the outside: a journal, a clock, chance, ears and people."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from pipeline.engine.records import AnyRecord
from pipeline.errors import AwfError, ExitCode


class JournalError(AwfError):
    """The journal cannot be read or written. Nothing that was recorded is changed by it."""

    exit_code = ExitCode.RUN_FAILED


class RunExists(JournalError):
    """There is already a run of the name that a new one was given."""

    exit_code = ExitCode.USAGE


class UnknownRun(AwfError):
    """There is no run of this name."""


class RunIsOwned(AwfError):
    """Another process is at this run."""


class PluginFailed(AwfError):
    """A plugin raised while the run depended on it."""

    def __init__(self, plugin: str, hook: str, error: BaseException) -> None:
        what = error.message if isinstance(error, AwfError) else f"{type(error).__name__}: {error}"
        super().__init__(f'plugin "{plugin}" failed in {hook}: {what}')
        self.plugin, self.hook = plugin, hook


@dataclass(frozen=True, slots=True)
class Entry:
    """A record with its number in its run, from 1."""

    seq: int
    record: AnyRecord


class Journal(Protocol):
    """The durable history of runs. Records are only ever added, each in one commit."""

    def create(self, run_id: str, record: AnyRecord) -> None:
        """Begin a run with its first record. Raises JournalError when there is one of that name."""

    def append(self, run_id: str, record: AnyRecord, *, attached: str = "", lines: Sequence[str] = ()) -> int:
        """Add a record and give its number. A long text that only people ask for is attached, not part of it.

        `lines` are added to the store's ledger in the same commit.
        """

    def attached(self, run_id: str, seq: int) -> str:
        """The text attached to a record; empty when there is none."""

    def entries(self, run_id: str, after: int = 0) -> Iterator[Entry]:
        """The records of a run, in order, from the one after `after`."""

    def last(self, run_id: str) -> Entry:
        """The newest record of a run."""

    def enter(self, lines: Iterable[str]) -> int:
        """Add lines to the store's ledger, all of them or none; the number of the last line."""

    def ledger(self, after: int = 0) -> Iterator[tuple[int, str]]:
        """The lines of the store's ledger with their numbers, from the one after `after`. They belong to no run."""

    def runs(self) -> Sequence[str]:
        """The ids of all runs, the oldest first."""

    def own(self, run_id: str) -> AbstractContextManager[None]:
        """Be the one process at a run while the context lasts; raises RunIsOwned naming the owner."""

    def close(self) -> None:
        """Let go of the store."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody chose at one visit of a human stage, from wherever they are."""

    run_id: str
    stage: str
    visit: int
    option: str
    feedback: str
    by: str  # whose it is
    at: float


@dataclass(frozen=True, slots=True)
class Cancellation:
    """Somebody's wish that a run be stopped."""

    run_id: str
    reason: str
    by: str
    at: float

    def words(self) -> str:
        """Who wished it, and why."""
        return f"by {self.by}: {self.reason}" if self.reason else f"by {self.by}"


class Letters(Protocol):
    """What people elsewhere have for the process at a run. A letter is kept for good, and only ever about one thing."""

    def put(self, answer: Answer) -> Answer:
        """Keep an answer if it is the first to its visit; the one that is kept, which may be somebody else's."""

    def answer(self, run_id: str, stage: str, visit: int) -> Answer | None:
        """The answer to a visit."""

    def cancel(self, wish: Cancellation) -> None:
        """Leave a wish for whoever is at its run now."""

    def cancellation(self, run_id: str, after: int) -> Cancellation | None:
        """The first wish later than the `after` that were there."""

    def cancellations(self, run_id: str) -> int:
        """How many wishes there are. Those that are there before a process takes up a run are not meant for it."""


class Clock(Protocol):
    """The time, and waiting for it."""

    def now(self) -> float:
        """Seconds since 1970."""

    async def sleep_until(self, moment: float) -> None:
        """Wait until then; at once when it is past."""
