"""Where to find what a visit left: the record with its answer and prompt, and the files of its programs."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.app.history import RunHistory
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import attempt_directory
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
    store: Path, history: RunHistory, stage: str, visit: int | None = None, attempt: int | None = None
) -> AttemptArtifacts:
    """What one attempt left; by default the last attempt of the stage's last visit."""
    run_id, declared = history.state.run_id, history.state.workflow.by_id
    visits = {one.visit: one for one in history.visits_of(stage)}
    found = visits.get(max(visits) if visit is None else visit)
    if found is None:
        raise AwfError(f'run {run_id} has no visit {visit} of stage "{stage}"', help=f"its last visit is {max(visits)}")
    number = found.attempt if attempt is None else attempt
    recorded = next((one for one in found.attempts if one.number == number), None)
    if recorded is None and found.attempts:
        help = f"it had {', '.join(f'attempt {one.number}' for one in found.attempts)}"
        raise AwfError(f'visit {found.visit} of stage "{stage}" had no attempt {number}', help=help)
    outcome = recorded.outcome if recorded else None
    logs = list(outcome.logs.values()) if outcome else []
    return AttemptArtifacts(
        run_id=run_id,
        stage=stage,
        kind=str(declared[stage].kind) if stage in declared else "",
        visit=found.visit,
        attempt=number,
        directory=(store / logs[0]).parent if logs else attempt_directory(store, run_id, stage, found.visit, number),
        outcome=outcome,
        seq=recorded.seq if recorded else None,
    )
