"""Runs where they are kept, for those who look at them or have something for them: on this machine or on a cluster."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from pipeline.app.artifacts import AttemptArtifacts
from pipeline.app.overview import next_question
from pipeline.app.runs import load_state
from pipeline.app.wiring import process_label
from pipeline.backends.process_tree import kill_by_label
from pipeline.engine.context import Key
from pipeline.engine.outcome import Status
from pipeline.engine.ports import CancelRequest, HumanAnswer, Journal, JournalError, Mailbox, RunIsOwned, UnknownRun
from pipeline.engine.records import AnyRecord, RunCancelled, VisitCompleted
from pipeline.engine.state import RunStatus, State, replay
from pipeline.errors import AwfError, ExitCode
from pipeline.handlers.human import HumanQuestion, build_question
from pipeline.journal.lock import is_driven
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import HumanStage
from pipeline.redaction import PATTERNS_ONLY, Redactor
from pipeline.text import did_you_mean


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The files of attempts: where they are, or where they are put when somebody wants them."""

    directory: Path
    name: str  # what the place they come from is called in messages
    bring: Callable[[AttemptArtifacts], None]  # has those of an attempt in the directory, as far as they are written

    def shown(self, path: Path) -> str:
        """A file of the directory as it is called where it comes from."""
        inside = path.is_relative_to(self.directory)
        return f"{self.name}/{path.relative_to(self.directory)}" if inside else str(path)


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """Who has a run that is under way elsewhere; nothing is known of it while no worker answers."""

    worker: str | None = None  # the queue of the one that has its files; empty when none had a stage of it yet
    events: int | None = None  # of its workflow's history, which begins anew when it is long


@dataclass(frozen=True, slots=True)
class RunStore:
    """What is known of runs, whoever runs them."""

    store: Path  # the directory of this machine
    name: str  # what the place is called in messages
    journal: Journal
    letters: Mailbox
    driven: Callable[[str], bool]  # whether somebody is at a run
    ledger: Callable[[str], Journal]  # whose ledger has what is known about a run's findings
    files: StoredFiles
    attended: Callable[[str], WorkerInfo | None] = lambda _: None  # of a run that somebody is at; None on this machine


@contextmanager
def open_local_store(store: Path) -> Iterator[RunStore]:
    """The runs of a store."""
    with closing(SqliteJournal(store.resolve())) as journal:
        files = StoredFiles(store, str(store), lambda _: None)
        driven = partial(is_driven, store)
        yield RunStore(store, str(store), journal, SqliteMailbox(store), driven, lambda _: journal, files)


NEWEST = ("latest", "-")
MAX_NAMES = 5  # names that an error tells


def find_run(name: str, runs: Sequence[str]) -> str:
    """The run of a name, of the beginning of one, or the newest for `latest` and `-`; `runs` has the oldest first."""
    if name in runs:
        return name
    if name in NEWEST:
        if not runs:
            raise UnknownRun("there are no runs yet", help="start one with: awf run WORKFLOW")
        return runs[-1]
    meant = [run for run in runs if run.startswith(name)] if name else []
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise AwfError(f'{len(meant)} runs begin with "{name}"', help=f"write more of the id: {_newest(meant)}")
    raise UnknownRun(f'there is no run "{name}"', help=_nearest(name, runs))


def find_unfinished(journal: Journal) -> str:
    """The newest run that has not ended in success."""
    runs = journal.runs()
    for run in reversed(runs):
        last = journal.last(run).record
        if not (isinstance(last, VisitCompleted) and last.ends is Status.SUCCESS):
            return run
    newest = find_run(NEWEST[0], runs)
    help = f"look at the newest with: awf status {newest}; start another with: awf run WORKFLOW"
    raise AwfError("there is nothing to resume: every run has ended in success", help=help)


def split_run(
    words: Sequence[str], runs: Sequence[str], names: Callable[[str], Collection[str]], least: int, most: int
) -> tuple[str, Sequence[str]]:
    """The run that arguments begin with, or the newest when they begin with something else, and the other arguments.

    At least `least` and at most `most` arguments follow the run. Where the first one may be a run or a name of the
    newest run, as `names` lists them, an exact name goes before the beginning of a run's id.
    """
    if len(words) > most:
        return find_run(words[0], runs), words[1:]
    newest = find_run(NEWEST[0], runs)
    if len(words) <= least:
        return newest, words
    word = words[0]
    try:
        known = names(newest)
    except JournalError:  # the newest run is damaged: another one can still be named
        return find_run(word, runs), words[1:]
    if word.lower() not in {name.lower() for name in known}:
        return _found(word, runs, newest, known), words[1:]
    if word in runs:
        help = f'write latest {word} for the one in the newest run, and {word} "" for the run'
        raise AwfError(f'"{word}" is the name of a run, and of something in the newest run', help=help)
    return newest, words


def _found(word: str, runs: Sequence[str], newest: str, known: Collection[str]) -> str:
    try:
        return find_run(word, runs)
    except UnknownRun:
        help = did_you_mean(word, [*runs, *known]) or f"the newest runs are {_newest(runs[-3:])}"
        raise UnknownRun(f'there is no run "{word}", and nothing of that name in run {newest}', help=help) from None


def _nearest(name: str, runs: Sequence[str]) -> str:
    if not runs:
        return "there are no runs yet; start one with: awf run WORKFLOW"
    likely = get_close_matches(name, runs, n=MAX_NAMES, cutoff=0.6)
    near = [run for run in runs if run in likely]
    return f"did you mean {_newest(near)}?" if near else f"the newest are {_newest(runs[-3:])}"


def _newest(runs: Sequence[str]) -> str:
    """Some runs, the newest first; `runs` has the oldest first."""
    return join_names(runs[::-1])


def check_run_name(name: str) -> None:
    """Refuse a name for a run by which it could not be found."""
    if name in NEWEST:
        raise AwfError(f'"{name}" cannot be the name of a run: it stands for the newest', help="choose another")


def join_names(names: Sequence[str]) -> str:
    """The first of some names, as an error tells them."""
    return ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")


class NotWaiting(AwfError):
    """The run does not wait for a person, or not at this stage."""


class InvalidAnswer(AwfError):
    """What was given is no answer to the question."""


class AlreadyAnswered(AwfError):
    """Somebody else was quicker; `kept` is their answer."""

    exit_code = ExitCode.RUN_FAILED

    def __init__(self, kept: HumanAnswer) -> None:
        when = datetime.fromtimestamp(kept.at).astimezone()
        super().__init__(
            f'{kept.by or "somebody"} has answered "{kept.stage}" #{kept.visit} of run {kept.run_id} already: '
            f'"{kept.option}", at {when:%Y-%m-%d %H:%M:%S}',
            help=f"they said: {kept.feedback}" if kept.feedback else f"look with: awf status {kept.run_id}",
        )
        self.kept = kept


class RunFinished(AwfError):
    """The run has ended, and cannot be cancelled any more."""

    exit_code = ExitCode.RUN_FAILED


@dataclass(frozen=True, slots=True)
class Desk:
    """What it takes to answer and stop the runs of a store."""

    store: Path
    journal: Journal
    letters: Mailbox
    now: Callable[[], float]
    redactor: Redactor = PATTERNS_ONLY
    elsewhere: Callable[[str], bool] | None = None  # whether others are at a run, where it is not this machine

    def driven(self, run_id: str) -> bool:
        """Whether somebody is at a run, and takes an answer up without being told to."""
        return self.elsewhere(run_id) if self.elsewhere else is_driven(self.store, run_id)


@dataclass(frozen=True, slots=True)
class EarlierAnswer:
    """What was chosen at an earlier visit of the same stage."""

    visit: int
    option: str
    feedback: str
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """What a run waits for. At most one stage waits: a human stage cannot be a branch of a parallel one."""

    question: HumanQuestion
    earlier: tuple[EarlierAnswer, ...]
    answered: HumanAnswer | None  # one that no process has taken up yet
    driven: bool  # whether a process is at the run, which takes an answer up by itself


@dataclass(frozen=True, slots=True)
class AnswerReceipt:
    """An answer that counts. Where no process is at the run, it waits until somebody resumes it."""

    answer: HumanAnswer
    driven: bool


@dataclass(frozen=True, slots=True)
class CancelReceipt:
    """A run that is cancelled, or whose process has been told to stop."""

    run_id: str
    recorded: bool  # False: the process at the run will do it
    reason: str


def find_question(desk: Desk, run_id: str) -> PendingQuestion | None:
    """What a run asks a person, or None when it asks nothing."""
    records = _records(desk, run_id)
    return _find_question(desk, records, replay(records))


def answer(
    desk: Desk, run_id: str, option: str, *, by: str, stage: str = "", visit: int = 0, feedback: str = ""
) -> AnswerReceipt:
    """Answer what a run asks; without a stage or a visit, whichever it waits at."""
    question = _question_to_answer(desk, run_id, stage, visit)
    key = _checked(question, option, feedback)
    place = (run_id, question.stage, question.visit)
    given = HumanAnswer(*place, key, desk.redactor.text(feedback), by, desk.now())
    kept = desk.letters.put(given)
    if (kept.by, kept.at) != (given.by, given.at):
        raise AlreadyAnswered(kept)
    return AnswerReceipt(kept, desk.driven(run_id))


def cancel(desk: Desk, run_id: str, *, by: str, reason: str = "") -> CancelReceipt:
    """Stop a run: its process is told to, and where there is none the run is recorded as cancelled."""
    wish = CancelRequest(run_id, desk.redactor.text(reason), by, desk.now())
    if not desk.driven(run_id):
        try:
            return _record_cancelled(desk, wish)
        except RunIsOwned:  # by somebody who has just come
            pass
    desk.letters.cancel(wish)
    return CancelReceipt(run_id, recorded=False, reason=wish.words())


def _records(desk: Desk, run_id: str) -> list[AnyRecord]:
    return [entry.record for entry in desk.journal.entries(run_id)]


def _find_question(desk: Desk, records: Sequence[AnyRecord], state: State) -> PendingQuestion | None:
    gate = None if state.status.final else next_question(state)
    if gate is None:
        return None
    visit = state.cursor.visit
    return PendingQuestion(
        question=build_question(state, gate, visit),
        earlier=tuple(_earlier(records, gate.id)),
        answered=desk.letters.answer(state.run_id, gate.id, visit),
        driven=desk.driven(state.run_id),
    )


def _earlier(records: Sequence[AnyRecord], stage: str) -> Iterator[EarlierAnswer]:
    for record in records:
        if isinstance(record, VisitCompleted) and record.stage == stage:
            outcome = record.outcome
            by = str(outcome.updates.get(Key.HUMAN_BY, ""))
            yield EarlierAnswer(record.visit, record.option, outcome.response, by, record.at)


def _checked(question: HumanQuestion, option: str, feedback: str) -> str:
    """The key of the option that is meant; nothing is guessed."""
    keys = {one.key.lower(): one.key for one in question.options}
    key = keys.get(option.lower())
    if key is None:
        listed = ", ".join(keys.values())
        hint = did_you_mean(option, keys.values())
        words = f'"{option}" is none of the options of "{question.stage}": {listed}'
        raise InvalidAnswer(words, help=hint or f"see what each does with: awf answer {question.run_id}")
    if not question.fits(key, feedback):
        raise InvalidAnswer(f'the option "{key}" needs feedback, and none was given', help="add --feedback TEXT")
    return key


def _question_to_answer(desk: Desk, run_id: str, stage: str, visit: int) -> HumanQuestion:
    """What the run asks, if that is what somebody wants to answer."""
    records = _records(desk, run_id)
    state = replay(records)
    found = _find_question(desk, records, state)
    if found and stage in ("", found.question.stage) and visit in (0, found.question.visit):
        return found.question
    if kept := _latest_answer(desk, state, stage, visit) if found is None or visit else None:
        raise AlreadyAnswered(kept)
    where = f' at "{stage}"' if stage else ""
    raise NotWaiting(f"run {run_id} does not wait for a person{where}", help=_instead(state, found, stage))


def _human_stages(state: State) -> list[str]:
    return [stage.id for stage in state.workflow.stages if isinstance(stage, HumanStage)]


def _latest_answer(desk: Desk, state: State, stage: str, visit: int) -> HumanAnswer | None:
    """What was answered last, at a stage or anywhere."""
    places = [(one, visit or state.visits.get(one, 0)) for one in _human_stages(state) if stage in ("", one)]
    answers = [desk.letters.answer(state.run_id, *place) for place in places]
    return max(filter(None, answers), key=lambda one: one.at, default=None)


def _instead(state: State, found: PendingQuestion | None, stage: str) -> str:
    if found:
        place = found.question
        return did_you_mean(stage, _human_stages(state)) or f'it waits at "{place.stage}", visit {place.visit}'
    return f'it is {state.status} at "{state.cursor.stage}"; look with: awf status {state.run_id}'


def _record_cancelled(desk: Desk, wish: CancelRequest) -> CancelReceipt:
    run_id = wish.run_id
    with desk.journal.own(run_id):
        state = load_state(desk.journal, run_id)
        if state.status.final:
            help = f"there is nothing to stop; look at it with: awf why {run_id}"
            raise RunFinished(f"run {run_id} is over ({state.status}) and cannot be cancelled", help=help)
        if state.status is RunStatus.CANCELLED:
            return CancelReceipt(run_id, recorded=True, reason=state.reason)
        kill_by_label(process_label(desk.store, run_id))  # what a killed process left running
        cursor = state.cursor
        record = RunCancelled(at=wish.at, stage=cursor.stage, visit=cursor.visit, reason=wish.words())
        desk.journal.append(run_id, record)
    return CancelReceipt(run_id, recorded=True, reason=record.reason)
