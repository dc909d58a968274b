"""The rounds of reviews of a run, made anew when the ledger has grown, and not when something else has happened."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.app.history import read_rounds
from pipeline.journal.sqlite import LEDGER, SqliteJournal, StoreHeads

if TYPE_CHECKING:
    from pipeline.findings.rounds import Round

_KEPT = 64  # runs


class RoundsSeen:
    """The rounds of the runs of one store."""

    def __init__(self, store: Path, ledger: Callable[[str], SqliteJournal]) -> None:
        self._store = store
        self._ledger = ledger
        self._known: dict[str, tuple[int, tuple[Round, ...]]] = {}  # with the length of the ledger

    def of(self, run: str) -> "tuple[Round, ...]":
        """What each round of a run came to."""
        with closing(StoreHeads(self._store)) as heads:
            length = heads.read().get(LEDGER, 0)
        known = self._known.get(run)
        if known is None or known[0] != length:
            with closing(self._ledger(run)) as journal:
                known = (length, tuple(read_rounds(journal, run)))
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[run] = known
        return known[1]
