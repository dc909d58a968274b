"""Answering a run that waits for a person, and stopping one, from outside the process that drives it.

Nothing here prints or asks: a caller gets a value, or an error that says who was quicker or what is wrong.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pipeline.app.next_step import asked
from pipeline.app.runs import load_state
from pipeline.app.wiring import process_label
from pipeline.backends.sweep import kill_labelled
from pipeline.engine.context import Key
from pipeline.engine.fold import replay
from pipeline.engine.ports import Answer, Cancellation, Journal, Letters, RunIsOwned
from pipeline.engine.records import AnyRecord, RunCancelled, VisitCompleted
from pipeline.engine.state import RunStatus, State
from pipeline.errors import AwfError, ExitCode
from pipeline.handlers.human import Question, question_of
from pipeline.journal.lock import is_driven
from pipeline.language.model import HumanStage
from pipeline.language.names import did_you_mean
from pipeline.redaction import PATTERNS_ONLY, Redactor


class NotWaiting(AwfError):
    """The run does not wait for a person, or not at this stage."""


class WrongAnswer(AwfError):
    """What was given is no answer to the question."""


class AlreadyAnswered(AwfError):
    """Somebody else was quicker; `kept` is their answer."""

    exit_code = ExitCode.RUN_FAILED

    def __init__(self, kept: Answer) -> None:
        when = datetime.fromtimestamp(kept.at).astimezone()
        super().__init__(
            f'{kept.by or "somebody"} has answered "{kept.stage}" #{kept.visit} of run {kept.run_id} already: '
            f'"{kept.option}", at {when:%Y-%m-%d %H:%M:%S}',
            help=f"they said: {kept.feedback}" if kept.feedback else f"look with: awf status {kept.run_id}",
        )
        self.kept = kept


class RunIsOver(AwfError):
    """The run has ended, and cannot be cancelled any more."""

    exit_code = ExitCode.RUN_FAILED


@dataclass(frozen=True, slots=True)
class Desk:
    """What it takes to answer and stop the runs of a store."""

    store: Path
    journal: Journal
    letters: Letters
    now: Callable[[], float]
    redactor: Redactor = PATTERNS_ONLY
    elsewhere: Callable[[str], bool] | None = None  # whether others are at a run, where it is not this machine

    def driven(self, run_id: str) -> bool:
        """Whether somebody is at a run, and takes an answer up without being told to."""
        return self.elsewhere(run_id) if self.elsewhere else is_driven(self.store, run_id)


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was chosen at an earlier visit of the same stage."""

    visit: int
    option: str
    feedback: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a run waits for. At most one stage waits: a human stage cannot be a branch of a parallel one."""

    question: Question
    earlier: tuple[Earlier, ...]
    answered: Answer | None  # one that no process has taken up yet
    driven: bool  # whether a process is at the run, which takes an answer up by itself


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer that counts. Where no process is at the run, it waits until somebody resumes it."""

    answer: Answer
    driven: bool


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A run that is cancelled, or whose process has been told to stop."""

    run_id: str
    recorded: bool  # False: the process at the run will do it
    reason: str


def waiting(desk: Desk, run_id: str) -> Waiting | None:
    """What a run asks a person, or None when it asks nothing."""
    records = _records(desk, run_id)
    return _waiting(desk, records, replay(records))


def answer(
    desk: Desk, run_id: str, option: str, *, by: str, stage: str = "", visit: int = 0, feedback: str = ""
) -> Answered:
    """Answer what a run asks; without a stage or a visit, whichever it waits at."""
    question = _meant(desk, run_id, stage, visit)
    key = _checked(question, option, feedback)
    place = (run_id, question.stage, question.visit)
    given = Answer(*place, key, desk.redactor.text(feedback), by, desk.now())
    kept = desk.letters.put(given)
    if (kept.by, kept.at) != (given.by, given.at):
        raise AlreadyAnswered(kept)
    return Answered(kept, desk.driven(run_id))


def cancel(desk: Desk, run_id: str, *, by: str, reason: str = "") -> Cancelled:
    """Stop a run: its process is told to, and where there is none the run is recorded as cancelled."""
    wish = Cancellation(run_id, desk.redactor.text(reason), by, desk.now())
    if not desk.driven(run_id):
        try:
            return _record_cancelled(desk, wish)
        except RunIsOwned:  # by somebody who has just come
            pass
    desk.letters.cancel(wish)
    return Cancelled(run_id, recorded=False, reason=wish.words())


def _records(desk: Desk, run_id: str) -> list[AnyRecord]:
    return [entry.record for entry in desk.journal.entries(run_id)]


def _waiting(desk: Desk, records: Sequence[AnyRecord], state: State) -> Waiting | None:
    gate = None if state.status.final else asked(state)
    if gate is None:
        return None
    visit = state.cursor.visit
    return Waiting(
        question=question_of(state, gate, visit),
        earlier=tuple(_earlier(records, gate.id)),
        answered=desk.letters.answer(state.run_id, gate.id, visit),
        driven=desk.driven(state.run_id),
    )


def _earlier(records: Sequence[AnyRecord], stage: str) -> Iterator[Earlier]:
    for record in records:
        if isinstance(record, VisitCompleted) and record.stage == stage:
            outcome = record.outcome
            by = str(outcome.updates.get(Key.HUMAN_BY, ""))
            yield Earlier(record.visit, record.option, outcome.response, by, record.at)


def _checked(question: Question, option: str, feedback: str) -> str:
    """The key of the option that is meant; nothing is guessed."""
    keys = {one.key.lower(): one.key for one in question.options}
    key = keys.get(option.lower())
    if key is None:
        listed = ", ".join(keys.values())
        hint = did_you_mean(option, keys.values())
        words = f'"{option}" is none of the options of "{question.stage}": {listed}'
        raise WrongAnswer(words, help=hint or f"see what each does with: awf answer {question.run_id}")
    if not question.fits(key, feedback):
        raise WrongAnswer(f'the option "{key}" needs feedback, and none was given', help="add --feedback TEXT")
    return key


def _meant(desk: Desk, run_id: str, stage: str, visit: int) -> Question:
    """What the run asks, if that is what somebody wants to answer."""
    records = _records(desk, run_id)
    state = replay(records)
    found = _waiting(desk, records, state)
    if found and stage in ("", found.question.stage) and visit in (0, found.question.visit):
        return found.question
    if kept := _latest_answer(desk, state, stage, visit) if found is None or visit else None:
        raise AlreadyAnswered(kept)
    where = f' at "{stage}"' if stage else ""
    raise NotWaiting(f"run {run_id} does not wait for a person{where}", help=_instead(state, found, stage))


def _people(state: State) -> list[str]:
    return [stage.id for stage in state.workflow.stages if isinstance(stage, HumanStage)]


def _latest_answer(desk: Desk, state: State, stage: str, visit: int) -> Answer | None:
    """What was answered last, at a stage or anywhere."""
    places = [(one, visit or state.visits.get(one, 0)) for one in _people(state) if stage in ("", one)]
    answers = [desk.letters.answer(state.run_id, *place) for place in places]
    return max(filter(None, answers), key=lambda one: one.at, default=None)


def _instead(state: State, found: Waiting | None, stage: str) -> str:
    if found:
        place = found.question
        return did_you_mean(stage, _people(state)) or f'it waits at "{place.stage}", visit {place.visit}'
    return f'it is {state.status} at "{state.cursor.stage}"; look with: awf status {state.run_id}'


def _record_cancelled(desk: Desk, wish: Cancellation) -> Cancelled:
    run_id = wish.run_id
    with desk.journal.own(run_id):
        state = load_state(desk.journal, run_id)
        if state.status.final:
            help = f"there is nothing to stop; look at it with: awf why {run_id}"
            raise RunIsOver(f"run {run_id} is over ({state.status}) and cannot be cancelled", help=help)
        if state.status is RunStatus.CANCELLED:
            return Cancelled(run_id, recorded=True, reason=state.reason)
        kill_labelled(process_label(desk.store, run_id))  # what a killed process left running
        cursor = state.cursor
        record = RunCancelled(at=wish.at, stage=cursor.stage, visit=cursor.visit, reason=wish.words())
        desk.journal.append(run_id, record)
    return Cancelled(run_id, recorded=True, reason=record.reason)
