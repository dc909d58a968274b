"""Where to find what a visit left: the record with its answer and prompt, and the files of its programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.history import VisitRecord, unknown_stage_error, visits_of
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import attempt_directory
from pipeline.engine.records import AnyRecord
from pipeline.engine.state import State, replay
from pipeline.errors import AwfError

STREAMS = ("stdout", "stderr")  # what a program writes to, each kept in a file of its own


@dataclass(frozen=True, slots=True)
class AttemptArtifacts:
    """What one attempt at one visit left."""

    run_id: str
    stage: str
    kind: str  # of the stage; empty when the workflow does not have it any more
    visit: int
    attempt: int
    directory: Path
    outcome: Outcome | None  # of the attempt, when it has one
    seq: int | None  # the record of its end, to which the prompt is attached

    @property
    def done(self) -> bool:
        """Whether the attempt has come to an outcome."""
        return self.outcome is not None

    def file(self, name: str) -> Path | None:
        """A file of the attempt, or None when there is none."""
        path = self.directory / name
        return path if path.is_file() else None


def find_artifacts(
    store: Path, records: Sequence[AnyRecord], stage: str, visit: int | None, attempt: int | None
) -> AttemptArtifacts:
    """What a stage left: on its last visit and attempt, or the given ones."""
    return artifacts_of(store, replay(records), visits_of(records), stage, visit, attempt)


def artifacts_of(
    store: Path, state: State, every: Sequence[VisitRecord], stage: str, visit: int | None, attempt: int | None
) -> AttemptArtifacts:
    """The same, of a run whose records have been read already."""
    run_id, declared = state.run_id, state.workflow.by_id
    visits = [seen for seen in every if seen.stage == stage]
    if not visits:
        raise unknown_stage_error(state, stage, {seen.stage for seen in every})
    seen = max(visits, key=lambda one: one.visit) if visit is None else _numbered(visits, visit, run_id)
    number = seen.attempt if attempt is None else attempt
    numbers = sorted({one.number for one in seen.attempts} or {1})
    if number not in numbers:
        help = f"it had {', '.join(f'attempt {one}' for one in numbers)}"
        raise AwfError(f'visit {seen.visit} of stage "{stage}" had no attempt {number}', help=help)
    outcome = _outcome(seen, number)
    directory = _directory(store, run_id, seen, number, outcome)
    seq = next((one.seq for one in seen.attempts if one.number == number), None)
    kind = str(declared[stage].kind) if stage in declared else ""
    return AttemptArtifacts(run_id, stage, kind, seen.visit, number, directory, outcome, seq)


def _numbered(visits: Sequence[VisitRecord], number: int, run_id: str) -> VisitRecord:
    for seen in visits:
        if seen.visit == number:
            return seen
    help = f"its last visit is {max(seen.visit for seen in visits)}"
    raise AwfError(f'run {run_id} has no visit {number} of stage "{visits[0].stage}"', help=help)


def _outcome(seen: VisitRecord, attempt: int) -> Outcome | None:
    """What an attempt came to: the visit's outcome for the one that ended it, its own for one that failed."""
    if attempt == seen.attempt and seen.outcome:
        return seen.outcome
    return next((one.outcome for one in seen.attempts if one.number == attempt and one.outcome), None)


def _directory(store: Path, run_id: str, seen: VisitRecord, attempt: int, outcome: Outcome | None) -> Path:
    """Where the record says the files are, else where they are put."""
    for path in outcome.logs.values() if outcome else ():
        return (store / path).parent
    return attempt_directory(store, run_id, seen.stage, seen.visit, attempt)
