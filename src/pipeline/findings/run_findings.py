"""The findings of a run that code can read: they go into the ledger with their stage, and from there into files.

The files are written after the commit, and again when a run is resumed: whatever was lost with a process comes back
from the ledger. What may not be edited in them is put back and noted; what cannot be put back is raised.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.engine.context import Append, Context, Delete, Hold, Key, Operation, Set
from pipeline.engine.outcome import FailureClass, Outcome, Status
from pipeline.engine.ports import Assessment, Job, LedgerLine
from pipeline.engine.state import State
from pipeline.findings import accumulate, returns
from pipeline.findings.answers import drop_conflicting_fixes, fixer_events, read_answers, reviewer_events
from pipeline.findings.events import FieldsEdited, LedgerEvent, Pass, encode_event
from pipeline.findings.fix_prompt import chosen_section, findings_section
from pipeline.findings.git import GitRefusedError, TreeSnapshots, files_changed
from pipeline.findings.ingest import IngestResult, PassInfo, ingest
from pipeline.findings.keys import ReviewKey
from pipeline.findings.ledger import Ledger, LedgerStore
from pipeline.findings.merge import Policy
from pipeline.findings.model import ReportStatus, ReviewerReport
from pipeline.findings.plugin import finding_ids, found_key
from pipeline.findings.rounds import stall_reason
from pipeline.findings.verdicts import Verdict, file_verdict, ledger_verdicts
from pipeline.findings.views import FILE, Views
from pipeline.findings.views.record_store import Trust
from pipeline.language.model import BaseStage, LlmStage, ToolStage, TriageStage, is_review

_SILENT = (FailureClass.PROTOCOL, FailureClass.AGENT, FailureClass.INTERNAL)
NOTES = "review.notes"  # the key of what was put back in files, and what else is odd about them
_MOST_NOTES = 20  # of one stage
HELD = "a finding endangers the whole system: a person has to look before anything is fixed"


@dataclass(frozen=True, slots=True)
class ReviewStart:
    """What a review was given to look at."""

    at: float
    head: str
    branch: str
    tree: str  # the files as they were; nothing where git cannot tell


class RunFindings:
    """Takes in what the stages of one run found."""

    def __init__(
        self,
        book: LedgerStore,
        root: Path,  # a directory of the checkout that the run was started in
        environ: Mapping[str, str],
        now: Callable[[], float],
        store: Path | None = None,  # where logs are, for what an earlier process ran
        policy: Policy = Policy(),  # noqa: B008 - it is frozen
        trusted: Collection[str] = (),  # the commands that the user lets take records
    ) -> None:
        self._book = book
        self._views_of = partial(Views, root, store, Trust(trusted, environ))
        self._views = self._views_of()
        self._environ = environ
        self._now = now
        self._store = store
        self._policy = policy
        self._held: dict[
            tuple[str, int, int], ReviewerReport
        ] = {}  # by stage, visit and attempt, until the stage is done
        self._answers_read: dict[tuple[str, int], list[str]] = {}  # by stage and visit, as above
        self._trees = TreeSnapshots(environ, store)
        self._seen: dict[tuple[str, int], str] = {}  # the files as they were, by stage and visit, as above
        self._decided: dict[tuple[str, int], Callable[[str], list[LedgerEvent]]] = {}  # by stage and visit, as above
        self._pending: list[LedgerEvent] = []  # handed out, and not yet committed
        self._handed = (0, 0)  # how many of them, and of the passes below, the stages before the last one made
        self._starts: dict[tuple[str, int], ReviewStart] = {}  # by stage and visit, as above
        self._passes: list[Pass] = []  # of this run, not yet shown
        self._last: Pass | None = None  # of this run
        self._notes: list[str] = []  # what was put back in files, not yet told
        self._noted: set[str] = set()  # those of this run
        self._stale = False  # whether the files are to be written
        self._broken = False  # whether something in them is to be put back

    def read_answer(self, job: Job, answers: Sequence[str]) -> Assessment | None:
        """The assessment of a review by the findings in its answers; None when there are none that code can read."""
        found = returns.answered(job.stage, answers, job.directory)
        self._answers_read[job.stage.id, job.visit] = list(answers)
        return None if found is None else self._judged(job, found, final=len(answers) > 1)

    def read_report(self, job: Job, report: Path) -> Assessment:
        """What a tool's report comes to."""
        assert isinstance(job.stage, ToolStage)  # noqa: S101 - only tools have reports
        return self._judged(job, returns.reported(job.stage, report, job.directory), final=True)

    def began(self, stage: BaseStage, visit: int, state: State) -> None:
        """Note what a review or a tool is given to look at, before it does."""
        self._starts[stage.id, visit] = self._start(state, self._now())

    def _start(self, state: State, at: float) -> ReviewStart:
        root = _directory(state)
        taken = self._trees.take(root)  # without a tree findings are recognised by their text
        return ReviewStart(at, taken.head, taken.branch, taken.tree)

    def after_stage(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> Iterator[Operation | LedgerLine]:
        """Reports for the context, events for the ledger, and the verdict when there is a new one.

        What was edited and answered comes before what was found: a pass is matched against all that was said.
        """
        self._handed = len(self._pending), len(self._passes)
        self._restore(stage.id, visit, context.get(found_key(stage.id)))
        yield from self._enter(self._edits(stage, at))
        returned = self._returned(stage, visit, outcome, state)
        yield from self._enter(self._answers(stage, visit, outcome, state, at, returned))
        yield from self._enter(self._decided.pop((stage.id, visit), _nobody)(_iso(at)))
        taken = self._taken(returned, stage, visit, state, at) if returned else None
        yield from self._enter(taken.events if taken else self._unread(stage, visit, outcome, state, at))
        yield from self._reports(stage, visit, outcome, context, at, taken)
        yield from self._verdict(taken) if taken else _doubt(stage, outcome, context)
        yield from self._hope(state, context) if taken and state.workflow.loops else ()
        yield from _served(stage, outcome, context)
        yield from self._told(stage, visit, at)
        for known in (self._starts, self._answers_read):
            known.pop((stage.id, visit), None)
        if found_key(stage.id) in context:
            yield Delete(found_key(stage.id))

    def kept(self, stage: BaseStage, visit: int) -> Iterator[Operation]:
        """What is recorded with a branch: what it was given to look at, and what it answered."""
        key = stage.id, visit
        if start := self._starts.get(key):
            kept = {"start": asdict(start), "tree": self._seen.get(key, ""), "answers": self._answers_read.get(key, [])}
            yield Set(found_key(stage.id), kept)

    def _restore(self, stage: str, visit: int, kept: Any) -> None:
        """Take up what an earlier process recorded with a branch."""
        key = stage, visit
        if kept is not None and key not in self._starts:
            self._starts[key] = ReviewStart(**kept["start"])
            self._seen[key] = kept["tree"]
            self._answers_read[key] = kept["answers"]

    def hold(self, stage: str, visit: int, decisions: Callable[[str], list[LedgerEvent]]) -> None:
        """Keep what was decided at a visit until its stage is done: what gives the events, once the time is known."""
        self._decided[stage, visit] = decisions

    def resumed(self, run_id: str) -> None:
        """Take in what was edited while nobody was here, and put right what a crash left of the run's files."""
        self._book.append(self._taken_back(self._now(), FILE))
        self._passes = [one for one in self._book.ledger().passes.values() if one.run == run_id]
        self._last = self._passes[-1] if self._passes else None
        self._stale = self._stale or bool(self._passes)
        self.committed()

    def committed(self) -> None:
        """Show what was handed out, now that it is there for good."""
        self._pending.clear()
        self._seen.clear()
        if not (self._stale or self._broken):
            return
        ledger, at = self._book.ledger(), _iso(self._now())
        problems = [text for one in self._passes for text in self._views.record_pass(ledger, one)]
        last = self._last or ledger.last
        if self._stale and last:
            problems += self._views.write(ledger, last, last.started_at).problems
        else:
            problems += self._views.restore(ledger, at)
        self._note(problems)
        self._passes, self._stale, self._broken = [], False, False

    def forget(self) -> None:
        """Take back what the last stage handed out, since it will not be committed."""
        pending, passes = self._handed
        del self._pending[pending:], self._passes[passes:]
        self._views = self._views_of()  # what was edited in the files is read again

    def items(self, context: Context, room: int) -> str:
        """Every open finding of the ledger for an agent, in at most so many characters, when reports refer to them.

        After a triage these are the findings that were chosen, whoever reported them.
        """
        wanted, left = (
            set(finding_ids(context)),
            [finding for finding in self.ledger() if finding.state.needs_attention],
        )
        if ReviewKey.CHOSEN in context:
            return chosen_section(left, context, wanted, room)
        return findings_section([finding for finding in left if finding.id in wanted], room)

    def _judged(self, job: Job, returned: ReviewerReport, *, final: bool) -> Assessment:
        """The assessment of a return. A problem is worth asking again about; what is `final` is taken as it is."""
        problem = returns.faults(returned)
        if returned.status is ReportStatus.MALFORMED or (problem and not final):
            return Assessment(problem=problem)
        self._held[job.stage.id, job.visit, job.attempt] = returned
        return returns.judged(self._taken(returned, job.stage, job.visit, job.state, self._now()))

    def _returned(self, stage: BaseStage, visit: int, outcome: Outcome, state: State) -> ReviewerReport | None:
        """What the last attempt returned; an earlier process may have run it."""
        mine = [key for key in self._held if key[:2] == (stage.id, visit)]
        held = {key[2]: self._held.pop(key) for key in mine}
        found = held.get(state.progress.attempt(stage.id))
        answers = self._answers_read.get((stage.id, visit))
        found = found or returns.read_again(stage, outcome, answers, _directory(state), self._store)
        if found and outcome.status is Status.ERROR:  # what it found is kept, and its review is incomplete
            return replace(found, status=ReportStatus.MALFORMED, problem=outcome.reason)
        return returns.with_claim(found, outcome) if found else None

    def _taken(self, returned: ReviewerReport, stage: BaseStage, visit: int, state: State, at: float) -> IngestResult:
        root = _directory(state)
        start = self._starts.get((stage.id, visit))  # unknown where an earlier process ran the stage
        changed = start is not None and self._changed(stage, visit, start, root)
        start = start or self._start(state, at)
        about = PassInfo(
            root=root,
            environment=self._environ,
            at=_iso(at),
            seconds=int(start.at),
            head=start.head,
            tree="" if state.workspace else start.tree,
            branch=start.branch,
            base=str(state.context.get(Key.WORKSPACE_BASE) or ""),
            started=_iso(start.at),
            tree_changed=changed,
            task=state.run_id,
            caller="awf",
            round=visit,
            run=state.run_id,
            stage=stage.id,
            visit=visit,
        )
        return ingest([returned], self.ledger(), about, self._policy)

    def _changed(self, stage: BaseStage, visit: int, start: ReviewStart, root: Path) -> bool:
        """Whether the files changed since a stage began. New files of a tool, such as a report, do not count."""
        try:
            if (stage.id, visit) not in self._seen:
                self._seen[stage.id, visit] = self._trees.tree(root)
            tree = self._seen[stage.id, visit]
            differs = bool(start.tree) and tree != start.tree
            if not differs or isinstance(stage, LlmStage):
                return differs
            return files_changed(root, self._environ, start.tree, tree)
        except GitRefusedError:  # unknown counts as changed
            return bool(start.tree)

    def ledger(self) -> Ledger:
        """The ledger with what was handed out to be committed."""
        ledger = self._book.ledger()
        if not self._pending:
            return ledger
        ahead = ledger.copy()
        for event in self._pending:
            ahead.apply(event)
        return ahead

    def _enter(self, events: Iterable[LedgerEvent]) -> list[LedgerLine]:
        """Lines for the ledger, which count from now on."""
        added = list(events)
        lines = [LedgerLine(encode_event(event)) for event in added]
        self._pending += added
        self._stale = self._stale or any(not _is_note(event) for event in added)
        return lines

    def _edits(self, stage: BaseStage, at: float) -> tuple[LedgerEvent, ...]:
        """What an agent or a tool changed in the files that show findings."""
        return self._taken_back(at, f"stage:{stage.id}") if isinstance(stage, LlmStage | ToolStage) else ()

    def _taken_back(self, at: float, by: str) -> tuple[LedgerEvent, ...]:
        if not self._views.exist:
            return ()
        edits = self._views.read_edits(self.ledger(), _iso(at), by)
        self._note(edits.problems)
        self._broken = self._broken or bool(edits.problems)
        self._stale = self._stale or bool(edits.events)
        return edits.all

    def _note(self, problems: Iterable[str]) -> None:
        """Keep what is to be told, once in a run."""
        new = [text for text in dict.fromkeys(problems) if text not in self._noted]
        self._noted.update(new)
        self._notes += new

    def _told(self, stage: BaseStage, visit: int, at: float) -> Iterator[Operation]:
        """What was put back, for people and for the agents that come."""
        notes, self._notes = self._notes, []
        if more := notes[_MOST_NOTES:]:
            notes = [*notes[:_MOST_NOTES], f"{len(more)} more of the kind"]
        for text in notes:
            yield Append(NOTES, {"stage": stage.id, "visit": visit, "at": _iso(at), "note": text})

    def _answers(
        self, stage: BaseStage, visit: int, outcome: Outcome, state: State, at: float, returned: ReviewerReport | None
    ) -> Iterator[LedgerEvent]:
        """What a stage says of findings by their numbers; a review that reports one does not say that it is fixed."""
        if not isinstance(stage, LlmStage) or outcome.failure is not None:
            return
        answers = read_answers(outcome.response)
        if answers and is_review(stage) and returned and returned.findings:
            reported = self._taken(returned, stage, visit, state, at).upshot.ids
            answers = drop_conflicting_fixes(answers, self.ledger(), set(reported))
        say = reviewer_events if is_review(stage) else fixer_events
        yield from say(answers, self.ledger(), run=state.run_id, round=visit, by=stage.id, at=_iso(at))

    def _reports(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, at: float, taken: IngestResult | None
    ) -> Iterator[Operation]:
        """Reports, with the findings that are listed one by one; those that are dismissed are not."""
        found = [taken.upshot.ids[index] for index in returns.shown(taken)] if taken else []
        ids = [id for id in dict.fromkeys(found) if id]
        for operation in accumulate.after_stage(stage, visit, outcome, context, at):
            if ids and operation.name == "append":
                yield operation._replace(value={**operation.value, "findingIds": ids})
            else:
                yield operation

    def _unread(
        self, stage: BaseStage, visit: int, outcome: Outcome, state: State, at: float
    ) -> tuple[LedgerEvent, ...]:
        """A pass for a reviewer that gave no answer, and for one that then answers in words after all."""
        said = returns.silence(stage, outcome) or returns.in_words(stage, outcome, self.ledger().unanswered)
        if said is None:
            return ()
        taken = self._taken(said, stage, visit, state, at)
        self._last = taken.passed
        self._passes.append(taken.passed)
        return taken.events

    def _verdict(self, taken: IngestResult) -> Iterator[Operation]:
        self._last = taken.passed
        self._passes.append(taken.passed)
        ledger = self.ledger()
        yield Set(ReviewKey.VERDICT, str(ledger_verdicts(ledger, taken.passed).gating))
        seen = set(taken.passed.finding_ids)
        found = [finding for finding in ledger if finding.id in seen and finding.state.needs_attention]
        if file_verdict([finding for finding in found if not finding.pre_existing]) is Verdict.ABORT:
            yield Hold(HELD)

    def _hope(self, state: State, context: Context) -> Iterator[Operation]:
        """Whether one more round would be of any use."""
        if why := stall_reason(self.ledger(), state.run_id):
            yield Set(ReviewKey.STALLED, why)
        elif ReviewKey.STALLED in context:
            yield Delete(ReviewKey.STALLED)


def _is_note(event: LedgerEvent) -> bool:
    """Whether an event only adds a line to a history, which no file shows."""
    return isinstance(event, FieldsEdited) and not event.changes


def _served(stage: BaseStage, outcome: Outcome, context: Context) -> Iterator[Operation]:
    """What was chosen is chosen until a fixer has worked on it, a review has looked afresh, or nothing is chosen."""
    over = isinstance(stage, LlmStage) and (is_review(stage) or outcome.status.passes)
    anew = isinstance(stage, TriageStage) and ReviewKey.CHOSEN not in outcome.updates
    if (over or anew) and ReviewKey.CHOSEN in context:
        yield Delete(ReviewKey.CHOSEN)


def _nobody(at: str) -> list[LedgerEvent]:
    """Nothing was decided."""
    del at
    return []


def _doubt(stage: BaseStage, outcome: Outcome, context: Context) -> Iterator[Operation]:
    """A verdict that was good is none any more when somebody who was asked has said nothing."""
    silent = outcome.failure is not None and outcome.failure.kind in _SILENT
    if silent and accumulate.reports(stage) and context.get(ReviewKey.VERDICT) in (Verdict.PASS, Verdict.WARN):
        yield Delete(ReviewKey.VERDICT)


def _directory(state: State) -> Path:
    return state.workspace.path if state.workspace else state.cwd


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
