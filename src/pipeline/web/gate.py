"""What a run asks a person, with all that helps to decide, for its page."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.app.store import PendingQuestion, find_question, load_records
from pipeline.app.workspace_diff import WorkspaceDiff, diff_run
from pipeline.journal.memory import MemoryMailbox
from pipeline.language.model import TriageStage, waits_for_person
from pipeline.redaction import Redactor
from pipeline.web.desk import Store
from pipeline.web.following import RunSnapshot

_SIGNS = {"+": "added", "-": "removed", "@": "place"}  # by how a line of a patch begins


@dataclass(frozen=True, slots=True)
class PatchLine:
    """A line of a patch."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class GateView:
    """A stage at which a run waits for somebody."""

    asks: PendingQuestion | None  # None for a triage, which is a walk through findings
    stage: str
    visit: int
    changes: WorkspaceDiff
    patch: tuple[PatchLine, ...]


def gate_of(here: Store, seen: RunSnapshot, redactor: Redactor) -> GateView | None:
    """What a run asks; None when it asks nothing."""
    state = seen.state
    if state.status.final or not waits_for_person(state.stage):
        return None
    asks = None
    if not isinstance(state.stage, TriageStage):
        with here.place.open() as runs, here.journal() as journal:
            mailbox = MemoryMailbox() if here.place.away() else runs.mailbox  # nothing is known of it while it is away
            asks = find_question(load_records(journal, state.run_id), mailbox)
        if asks is None:  # it stands there, and something else is in the way, such as a limit
            return None
    changes = diff_run(state, seen.history.created.head, os.environ, here.directory)
    patch = tuple(_lines(redactor.text(changes.patch)))
    return GateView(asks, state.cursor.stage, state.cursor.visit, changes, patch)


def _lines(patch: str) -> Iterator[PatchLine]:
    """The lines of a patch, each with what it is; those that only name the file again are left out."""
    header = False
    for text in patch.splitlines():
        header = text.startswith("diff ") or (header and not text.startswith("@@"))
        if text.startswith("diff "):
            yield PatchLine("file", text.rpartition(" b/")[2] or text)
        elif header:
            yield from [PatchLine("about", text)] if not text.startswith(("index ", "--- ", "+++ ")) else ()
        else:
            yield PatchLine(_SIGNS.get(text[:1], "same"), text)
