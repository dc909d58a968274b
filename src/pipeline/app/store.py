"""Where runs are kept, on this machine or on a cluster: find, read, start, resume, answer and cancel them."""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.app.history import AttemptArtifacts, read_ledger, read_review
from pipeline.app.overview import next_question
from pipeline.app.run_names import NEWEST, find_run
from pipeline.engine.context import Key
from pipeline.engine.outcome import Status
from pipeline.engine.ports import CancelRequest, HumanAnswer, Journal, Mailbox, RunIsOwned
from pipeline.engine.records import AnyRecord, RunCancelled, RunCreated, VisitCompleted
from pipeline.engine.state import INTERRUPTED, RunStatus, State, replay
from pipeline.errors import AwfError, ExitCode
from pipeline.journal.lock import is_driven
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal
from pipeline.language.model import HumanStage, TriageStage, Workflow
from pipeline.redaction import PATTERNS_ONLY, Redactor
from pipeline.text import did_you_mean

if TYPE_CHECKING:
    from pipeline.app.runs import ResumeRequest, RunResult
    from pipeline.app.wiring import Runtime
    from pipeline.handlers.questions import Question

_CANCEL_TIMEOUT = 30.0  # seconds; the programs of a stage are given five to exit by themselves
_CANCEL_POLL = 0.1


class NotWaiting(AwfError):
    """The run does not wait for a person, or not at this stage."""


class InvalidAnswer(AwfError):
    """The answer is not one that the question accepts."""


class AlreadyAnswered(AwfError):
    """Someone else answered first; `kept` is their answer."""

    exit_code = ExitCode.RUN_FAILED

    def __init__(self, kept: HumanAnswer) -> None:
        when = datetime.fromtimestamp(kept.at).astimezone()
        super().__init__(
            f'{kept.by or "someone"} has already answered "{kept.stage}" #{kept.visit} of run {kept.run_id}: '
            f'"{kept.option}", at {when:%Y-%m-%d %H:%M:%S}',
            help=f"their feedback: {kept.feedback}" if kept.feedback else f"see: awf status {kept.run_id}",
        )
        self.kept = kept


class RunFinished(AwfError):
    """The run has finished and can no longer be cancelled."""

    exit_code = ExitCode.RUN_FAILED


class NotStopped(AwfError):
    """The process that drives a run did not stop when asked to."""

    exit_code = ExitCode.RUN_FAILED


class StoppedWatching(AwfError):
    """The user stopped watching a run that continues on a cluster."""

    exit_code = ExitCode.CANCELLED

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} continues without you")
        self.run_id = run_id


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """The worker that owns a cluster run; both fields are None while no worker responds."""

    worker: str | None = None  # the queue of the worker that has its files; empty before its first stage
    events: int | None = None  # in the history of its workflow, which starts over when it gets long


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """What a run waits for. At most one stage waits: a human stage cannot be a branch of a parallel one."""

    question: "Question"
    earlier: tuple[HumanAnswer, ...]  # at earlier visits of the stage
    answered: HumanAnswer | None  # one that no process has picked up yet


@dataclass(frozen=True, slots=True)
class AnswerReceipt:
    """The answer that counts, and whether the run continues with it by itself or has to be resumed."""

    answer: HumanAnswer
    driven: bool


class RunStore(ABC):
    """Where runs are kept. Reading a run, and each action on it, is the same for this machine and for a cluster."""

    on_cluster = False  # whether workers drive the runs; each run has a ledger of its own then

    def __init__(
        self,
        name: str,
        directory: Path,
        journal: Journal,
        mailbox: Mailbox,
        redactor: Redactor = PATTERNS_ONLY,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.name = name  # what messages call it
        self.directory = directory  # where the files of attempts are read
        self.journal = journal
        self.mailbox = mailbox
        self.redactor = redactor
        self.now = now
        self.title = str(directory)  # where it is, in full
        self.project = directory.parent if directory.name == ".awf" else Path.cwd()  # where runs are started
        self.command_options: tuple[str, ...] = (f"--store={directory}",)  # that name this store

    @abstractmethod
    def is_driven(self, run_id: str) -> bool:
        """Whether a process or worker is running a run, and picks up an answer by itself."""

    @abstractmethod
    def fetch_files(self, found: AttemptArtifacts) -> None:
        """Bring the files of an attempt into `directory`, as far as they are written."""

    @abstractmethod
    def start(self, record: RunCreated, runtime: "Runtime", workflow: Workflow | None = None) -> "RunResult":
        """Start a run and follow it until it stops; with `runtime.detach`, leave it to a cluster.

        `workflow` is that of the record, if it has been read already.
        """

    @abstractmethod
    def resume(self, run_id: str, request: "ResumeRequest", runtime: "Runtime") -> "RunResult":
        """Continue a run where its journal ends, and follow it as `start` does."""

    @abstractmethod
    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        """Stop a run and return the recorded reason; None when its process was told to stop and `wait` is not set."""

    @abstractmethod
    def wake(self, answer: HumanAnswer) -> bool:
        """Tell a run that it has an answer, and return whether it continues by itself."""

    def ledger(self, run_id: str) -> Journal:  # noqa: ARG002 - runs on this machine share one
        """The journal whose ledger holds the findings of a run."""
        return self.journal

    def count_open_findings(self, run_ids: Sequence[str]) -> Mapping[str, int]:
        """Return how many open lines of work these runs have, by run; runs without any may be left out."""
        if self.on_cluster:  # each run has a ledger of its own
            reviews = {run_id: read_review(self.ledger(run_id), run_id) for run_id in run_ids}
            return {run_id: len(review.open) for run_id, review in reviews.items() if review}
        ledger = read_ledger(self.journal)
        if ledger is None:
            return {}
        from pipeline.findings.reviews import review_of_run  # noqa: PLC0415 - as `read_ledger` does

        found = {run_id: review_of_run(ledger, run_id) for run_id in run_ids}
        return {run_id: len(review.open) for run_id, review in found.items() if review}

    def worker_info(self, run_id: str) -> WorkerInfo | None:  # noqa: ARG002 - a run on this machine has none
        """The worker that has a run."""
        return None

    def driven_status(self, run_id: str) -> bool | None:
        """Whether a process or worker is running a run, as far as that is known without waiting; None if it is not."""
        return self.is_driven(run_id)

    def connection_problem(self) -> str:
        """Which part of a cluster does not answer; empty when all of it does."""
        return ""

    def run_problems(self) -> Sequence[str]:
        """What is wrong with the records of some runs."""
        return ()

    def runs_with_findings(self) -> Sequence[str]:
        """The runs that have a ledger of their own, newest first."""
        return ()

    def refresh(self, run_id: str) -> None:  # noqa: B027 - a store on this machine is always up to date
        """Make `directory` show a run as it is now."""

    def display_path(self, path: Path) -> str:
        """A file in `directory`, as messages call it."""
        return str(path)

    def question(self, run_id: str) -> PendingQuestion | None:
        """What a run asks a person; None when it asks nothing."""
        return find_question(load_records(self.journal, run_id), self.mailbox)

    def answer(
        self, run_id: str, option: str, *, by: str, stage: str = "", visit: int = 0, feedback: str = ""
    ) -> AnswerReceipt:
        """Answer what a run asks; without a stage or a visit, whatever it asks now.

        The first answer to a visit counts: a later one raises AlreadyAnswered.
        """
        try:
            kept = self._leave_answer(self._question_to_answer(run_id, stage, visit), option, feedback, by)
        except AlreadyAnswered as error:
            self.wake(error.kept)  # who answered first may have died before it did
            raise
        return AnswerReceipt(kept, self.wake(kept))

    def record_cancelled(self, request: CancelRequest) -> str:
        """Record that somebody cancelled a run that nobody drives, unless it is known; return the recorded reason."""
        state = load_state(self.journal, request.run_id)
        if state.status.final:
            help = f"see: awf why {state.run_id}"
            raise RunFinished(f"run {state.run_id} has finished ({state.status}) and cannot be cancelled", help=help)
        if state.status is RunStatus.CANCELLED and state.reason != INTERRUPTED:
            return state.reason
        cancelled = RunCancelled(at=request.at, stage=state.cursor.stage, visit=state.cursor.visit, reason=str(request))
        self.journal.append(request.run_id, cancelled)
        return str(request)

    def _leave_answer(self, question: "Question", option: str, feedback: str, by: str) -> HumanAnswer:
        keys = {one.key.lower(): one.key for one in question.options}
        key = keys.get(option.lower())
        if key is None:
            words = f'unknown option "{option}" for "{question.stage}"; choose one of {", ".join(keys.values())}'
            help = did_you_mean(option, keys.values()) or f"see what each option does: awf answer {question.run_id}"
            raise InvalidAnswer(words, help=help)
        if not question.accepts(key, feedback):
            raise InvalidAnswer(f'option "{key}" needs feedback', help="add --feedback TEXT")
        visit = (question.run_id, question.stage, question.visit)
        given = HumanAnswer(*visit, key, self.redactor.text(feedback), by, self.now())
        kept = self.mailbox.put_answer(given)
        if (kept.by, kept.at) != (given.by, given.at):
            raise AlreadyAnswered(kept)
        return kept

    def _question_to_answer(self, run_id: str, stage: str, visit: int) -> "Question":
        records = load_records(self.journal, run_id)
        state, found = replay(records), find_question(records, self.mailbox)
        if found and stage in ("", found.question.stage) and visit in (0, found.question.visit):
            return found.question
        people = [one.id for one in state.workflow.stages if isinstance(one, HumanStage)]
        if found is None or visit:
            visits = [(one, visit or state.visits.get(one, 0)) for one in people if stage in ("", one)]
            answers = filter(None, (self.mailbox.answer(run_id, *one) for one in visits))
            if latest := max(answers, key=lambda one: one.at, default=None):
                raise AlreadyAnswered(latest)
        if found:
            help = did_you_mean(stage, people) or f'it waits at "{found.question.stage}", visit {found.question.visit}'
        else:
            help = f'it is {state.status} at "{state.cursor.stage}"; see: awf status {run_id}'
            if isinstance(state.stage, TriageStage):
                help = f"decide on its findings with awf resume {run_id}, or in the browser: awf serve"
        where = f' at "{stage}"' if stage else ""
        raise NotWaiting(f"run {run_id} is not waiting for a person{where}", help=help)


class LocalRunStore(RunStore):
    """The runs of a store on this machine. Its journal belongs to the thread that opened it."""

    def is_driven(self, run_id: str) -> bool:
        return is_driven(self.directory, run_id)

    def fetch_files(self, found: AttemptArtifacts) -> None:
        """Do nothing: attempts write their files into the directory."""

    def start(self, record: RunCreated, runtime: "Runtime", workflow: Workflow | None = None) -> "RunResult":
        import asyncio  # noqa: PLC0415 - commands that only read save 40 ms, and 100 ms with what drives a run

        from pipeline.app import runs  # noqa: PLC0415 - as above

        return asyncio.run(_until_stopped(runs.start(record, self.journal, runtime, workflow)))

    def resume(self, run_id: str, request: "ResumeRequest", runtime: "Runtime") -> "RunResult":
        import asyncio  # noqa: PLC0415 - as above

        from pipeline.app import runs  # noqa: PLC0415 - as above

        return asyncio.run(_until_stopped(runs.resume(run_id, request, self.journal, runtime)))

    def wake(self, answer: HumanAnswer) -> bool:
        return self.is_driven(answer.run_id)  # its process polls the mailbox

    def cancel(self, run_id: str, *, by: str, reason: str = "", wait: bool = False) -> str | None:
        from pipeline.app.reading import checkout_of  # noqa: PLC0415 - only here
        from pipeline.backends.process_tree import kill_by_label  # noqa: PLC0415 - only here

        self.journal.last(run_id)  # raises UnknownRun before a lock is made for it
        request = CancelRequest(run_id, self.redactor.text(reason), by, self.now())
        if not self.is_driven(run_id):
            with suppress(RunIsOwned), self.journal.lock(run_id):  # unless a process has taken the run meanwhile
                kill_by_label(process_label(self.directory, run_id))  # what a killed process left running
                checkout_of(self.directory, run_id, {}).remove()
                return self.record_cancelled(request)
        self.mailbox.put_cancel_request(request)
        if not wait:
            return None
        deadline = time.monotonic() + _CANCEL_TIMEOUT
        while self.is_driven(run_id):
            if time.monotonic() > deadline:
                raise NotStopped(
                    f"the process of run {run_id} was told to stop and still runs after {_CANCEL_TIMEOUT:g} seconds",
                    help=f"it may still stop; see: awf status {run_id}",
                )
            time.sleep(_CANCEL_POLL)
        return self.cancel(run_id, by=by, reason=reason, wait=True)  # the process may have died without recording it


@contextmanager
def open_local_store(directory: Path, redactor: Redactor = PATTERNS_ONLY) -> Iterator[LocalRunStore]:
    """The store in a directory, for the calling thread."""
    with closing(SqliteJournal(directory.resolve())) as journal:
        yield LocalRunStore(str(directory), directory, journal, SqliteMailbox(directory), redactor)


async def _until_stopped(run: "Coroutine[Any, Any, RunResult]") -> "RunResult":
    """Let a signal cancel a run, which then records that it was cancelled; a second signal changes nothing."""
    import asyncio  # noqa: PLC0415 - as where it is called

    task = asyncio.ensure_future(run)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # set by nohup
            loop.add_signal_handler(number, task.cancel)
    return await task


def load_records(journal: Journal, run_id: str) -> list[AnyRecord]:
    """The records of a run."""
    return [entry.record for entry in journal.entries(run_id)]


def load_state(journal: Journal, run_id: str) -> State:
    """The state of a run, from its records."""
    return replay(load_records(journal, run_id))


def store_label(store: Path) -> str:
    """What the labels of all processes of a store's runs have in common."""
    return sha256(os.fsencode(store.resolve())).hexdigest()[:16]


def process_label(store: Path, run_id: str) -> str:
    """The label of a run's processes; a run of the same name in another store has a different one."""
    return f"{run_id}@{store_label(store)}"


def find_question(records: Sequence[AnyRecord], mailbox: Mailbox) -> PendingQuestion | None:
    """What a run with these records asks a person; None when it asks nothing."""
    state = replay(records)
    gate = None if state.status.final else next_question(state)
    if gate is None:
        return None
    from pipeline.handlers.human import build_question  # noqa: PLC0415 - few runs wait for a person

    visit = state.cursor.visit
    earlier = []
    for record in records:
        if isinstance(record, VisitCompleted) and record.stage == gate.id:
            given = (state.run_id, gate.id, record.visit, record.option, record.outcome.response)
            earlier.append(HumanAnswer(*given, str(record.outcome.updates.get(Key.HUMAN_BY, "")), record.at))
    answered = mailbox.answer(state.run_id, gate.id, visit)
    return PendingQuestion(build_question(state, gate, visit), tuple(earlier), answered)


def find_unfinished(journal: Journal) -> str:
    """The newest run that has not succeeded."""
    runs = journal.runs()
    for run in reversed(runs):
        last = journal.last(run).record
        if not (isinstance(last, VisitCompleted) and last.ends is Status.SUCCESS):
            return run
    newest = find_run(NEWEST[0], runs)
    help = f"see the newest with: awf status {newest}; start another with: awf run WORKFLOW"
    raise AwfError("nothing to resume: every run has succeeded", help=help)
