"""The findings of one run: what its stages report goes into the ledger with them, and from there into files.

A report is ingested when it is read, since that decides the status of its stage, and the result is kept for the commit.
It is computed again only if something was recorded in between, or another process ran the stage. The files are written
after the commit, and again when a run is resumed: what was lost with a process comes back from the ledger.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.engine.context import Append, Context, Delete, Hold, Operation, Set
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import Assessment, Job, LedgerLine
from pipeline.engine.state import State
from pipeline.findings.answers import drop_conflicting_rulings, fixer_events, read_answers, reviewer_events
from pipeline.findings.events import Disposition, FieldsEdited, LedgerEvent, Pass, encode_event
from pipeline.findings.fix_prompt import chosen_section, fix_section
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.git import (
    GitRefusedError,
    TreeSnapshots,
    changed_names,
    files_changed,
    is_tree,
    pathspecs,
    read_checkout,
    review_end,
    review_start,
)
from pipeline.findings.ingest import IngestResult, ingest, new_pass_id
from pipeline.findings.known import (
    considered_section,
    findings_to_rule_on,
    is_full_look,
    known_section,
)
from pipeline.findings.ledger import Ledger, LedgerStore, hidden_items, open_findings
from pipeline.findings.model import Answer, Finding, FindingId, Gate, ReportStatus, ReviewerReport
from pipeline.findings.plugin import (
    NOTHING_OPEN,
    NOTHING_SAID,
    ReviewKey,
    count_reports,
    finding_ids,
    found_key,
    is_asked_for_findings,
    is_reporting,
    report_operations,
)
from pipeline.findings.reports import (
    describe_faults,
    plain_report,
    read_report_again,
    report_in_answers,
    report_in_file,
    reviewer_of,
    with_failure,
)
from pipeline.findings.review_options import is_review_command, review_options
from pipeline.findings.reviews import TREE_UNKNOWN, claims_to_verify, review_of
from pipeline.findings.rounds import stall_reason
from pipeline.findings.verdicts import BLOCK, RECORD, TREE_CHANGED, Verdict, file_verdict, stage_status
from pipeline.findings.views import FILE, Views
from pipeline.findings.views.record_store import Trust
from pipeline.language.model import (
    BaseStage,
    Lens,
    LlmStage,
    ToolStage,
    TriageStage,
    is_review,
    is_structured_review,
    may_write,
)

NOTES = "review.notes"  # the context key of what was put back in files, and what else is odd about them
HOLD_REASON = "a finding endangers the whole system: a person has to look before anything is fixed"
_MAX_NOTES = 20  # of one stage


@dataclass(frozen=True, slots=True)
class ReviewStart:
    """What a review was given to look at."""

    at: float
    head: str
    branch: str
    tree: str  # the files as they were; empty if git does not know


@dataclass(slots=True)
class _Visit:
    """What is known of a visit until its stage is committed."""

    start: ReviewStart | None = None  # unknown if an earlier process ran the stage
    changed: bool | None = None  # whether the files changed since the start; None if not checked yet
    paths: list[str] | None = None  # the files that a review looks at; None if unknown, or not asked for yet
    answers: list[str] | None = None  # of a review
    report: ReviewerReport | None = None
    attempt: int = 0  # the one that the report is of
    edits: ViewEdits | None = None  # of files that show findings; None until they are read
    result: IngestResult | None = None  # of ingesting the report
    basis: tuple[object, ...] = ()  # what the result depends on
    decisions: Callable[[str], list[LedgerEvent]] = lambda _: []  # of a triage, once the time is known


class RunFindings:
    """Records what the stages of one run found."""

    def __init__(
        self,
        ledgers: LedgerStore,
        root: Path,  # a directory of the checkout that the run was started in
        environ: Mapping[str, str],
        now: Callable[[], float],
        snapshots: TreeSnapshots,
        store: Path,  # where logs are, for what an earlier process ran
        trusted: Collection[str] = (),  # the commands that the user allows to take records
    ) -> None:
        self._ledgers = ledgers
        self._new_views = partial(Views, root, store, Trust(trusted, environ))
        self._views = self._new_views()
        self._environ = environ
        self._now = now
        self._store = store
        self._snapshots = snapshots
        self._visits = defaultdict[tuple[str, int], _Visit](_Visit)  # by stage and number
        self._pending: list[LedgerEvent] = []  # given to the engine, and not yet committed
        self._passes: list[Pass] = []  # of this run, not yet shown
        self._before_stage = (0, 0)  # how many of both there were before the last stage
        self._last: Pass | None = None  # of this run
        self._notes: list[str] = []  # what was put back in files, not yet recorded
        self._stale = False  # whether the files are to be written
        self._broken = False  # whether something in them is to be put back

    def ledger(self) -> Ledger:
        """The ledger with what was given to the engine to be committed."""
        return self._ledgers.ledger().extended(self._pending)

    def start_attempt(self, stage: BaseStage, visit: int, state: State) -> None:
        """Note what a review or a tool is given to look at, before it does."""
        if self._visits[stage.id, visit].edits is not None:  # by an earlier attempt: the files are read again
            self._views = self._new_views()
        self._visits[stage.id, visit] = _Visit(start=self._start(stage, visit, state, self._now()))

    def read_answer(self, job: Job, answers: Sequence[str]) -> Assessment | None:
        """The assessment of a review by the findings in its answers; None if there are none that code can read."""
        self._visits[job.stage.id, job.visit].answers = list(answers)
        report = report_in_answers(job.stage, answers, job.directory)
        said = read_answers("\n\n".join(answers))
        return None if report is None else self._assess(job, report, said, final=len(answers) > 1)

    def read_report(self, job: Job, report: Path) -> Assessment:
        """The assessment of a tool by its report."""
        assert isinstance(job.stage, ToolStage)  # noqa: S101 - only tools have reports
        return self._assess(job, report_in_file(job.stage, report, job.directory), [], final=True)

    def hold(self, stage: str, visit: int, decisions: Callable[[str], list[LedgerEvent]]) -> None:
        """Keep what was decided at a visit until its stage is done: what gives the events, once the time is known."""
        self._visits[stage, visit].decisions = decisions

    def fix_prompt(self, context: Context, room: int, run: str) -> str:
        """The open findings that reports refer to, for an agent, in at most `room` characters.

        After a triage these are the findings that were chosen, by whichever reviewer.
        """
        ledger = self.ledger()
        known = (FindingId(id) for id in finding_ids(context) if id in ledger.findings)
        wanted = {ledger.leader(id) for id in known}  # a person may have merged what was reported
        left = open_findings(ledger)
        if ReviewKey.CHOSEN in context:
            own = (one for one in open_findings(ledger, run) if one.failing_stage)
            wanted |= {one.id for one in own if count_reports(context, one.failing_stage)}
            return chosen_section(left, context, wanted, room, ledger.members)
        found = [finding for finding in left if finding.id in wanted]
        return fix_section(found, room, ledger.members, filtered=len(hidden_items(ledger, run)))

    def known_section(self, stage: BaseStage, visit: int, state: State, room: int) -> str:
        """The findings that a review rules on by number, in `room` characters if their lines need no more."""
        ledger = self.ledger()
        own, others = self._findings_to_rule_on(ledger, stage, visit, state)
        if verifies := review_options(state).mode == "verify":
            own, others = claims_to_verify(ledger), []
        return known_section(own, others, room, ledger.members, full_look=is_full_look(visit), verifies=verifies)

    def _findings_to_rule_on(
        self, ledger: Ledger, stage: BaseStage, visit: int, state: State
    ) -> tuple[list[Finding], list[Finding]]:
        """Those of the run; `awf review` also gives what earlier reviews found in the change."""
        earlier = is_review_command(state.options) and review_options(state).mode != "verify"
        paths = self._changed_paths(stage, visit, state) if earlier else None
        return findings_to_rule_on(ledger, state.run_id, reviewer_of(stage), paths or ())

    def considered_section(self, stage: BaseStage, visit: int, state: State) -> str:
        """The dismissed findings in the files that a review is about to look at; in all files if those are unknown."""
        return considered_section(self.ledger(), self._changed_paths(stage, visit, state), _iso(self._now()))

    def _changed_paths(self, stage: BaseStage, visit: int, state: State) -> list[str] | None:
        """The files that a review is about to look at; None if git does not know."""
        options, data = review_options(state), self._visits[stage.id, visit]
        new = state.workspace.commit if state.workspace else data.start.tree if data.start else ""
        if data.paths is None and is_tree(options.base) and is_tree(new):
            with suppress(GitRefusedError):
                within = pathspecs(options.paths)
                data.paths = changed_names(_directory(state), self._environ, options.base, new, within)
        return data.paths

    def after_branch(self, stage: BaseStage, visit: int) -> Iterator[Operation]:
        """What is recorded with a branch: what it was given to look at, and what it answered."""
        data = self._visits[stage.id, visit]
        if data.start:
            kept = {"start": asdict(data.start), "changed": data.changed, "answers": data.answers or []}
            yield Set(found_key(stage.id), kept)

    def after_stage(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> Iterator[Operation | LedgerLine]:
        """Reports for the context, events for the ledger, and the verdict if there is a new one.

        What was edited, answered and decided comes before what was found: a pass is matched against all of it.
        """
        self._before_stage = len(self._pending), len(self._passes)
        data = self._visits[stage.id, visit]
        if (kept := context.get(found_key(stage.id))) and data.start is None:  # recorded by an earlier process
            data.start, data.changed, data.answers = ReviewStart(**kept["start"]), kept.get("changed"), kept["answers"]
        said = read_answers(outcome.response) if isinstance(stage, LlmStage) and outcome.failure is None else []
        report = self._final_report(stage, outcome, state, data)
        plain = None if report else plain_report(stage, state.workflow.name, outcome, self.ledger())
        result = data.result if report is data.report and data.basis == self._basis(said) else None
        if data.edits is None and isinstance(stage, LlmStage | ToolStage):
            data.edits = self._read_edits(at, f"stage:{stage.id}")

        yield from self._record_edits(data.edits or ViewEdits())
        if result is None and (found := report or plain):
            result = self._ingest(stage, visit, state, found, said, at)
        elif result is None:
            yield from self._record(self._answer_events(stage, visit, state, said, at, self.ledger(), frozenset()))
        yield from self._record(data.decisions(_iso(at)))
        if result:
            yield from self._record(result.events)
            self._last = result.passed
            self._passes.append(result.passed)

        answered = result if report else None
        ids = tuple(finding.id for finding in answered.findings) if answered else ()
        yield from report_operations(stage, visit, outcome, context, at, ids)
        yield from self._verdict(answered) if answered else _withdraw_verdict(stage, outcome, context)
        yield from self._stall_signal(state, context) if answered and state.workflow.loops else ()
        yield from _release_choice(stage, outcome, context)
        yield from self._count(state, context) if len(self._pending) > self._before_stage[0] else ()
        yield from self._take_notes(stage, visit, context, at)
        del self._visits[stage.id, visit]
        if found_key(stage.id) in context:
            yield Delete(found_key(stage.id))

    def after_commit(self) -> None:
        """Write the files, now that what they show is recorded."""
        self._pending.clear()
        if not (self._stale or self._broken):
            return
        ledger, at = self._ledgers.ledger(), _iso(self._now())
        last = self._last or ledger.last
        earlier = [one for one in self._passes if one is not last]
        problems = [text for one in earlier for text in self._views.record_pass(ledger, one)]
        if self._stale and last:
            problems += self._views.write(ledger, last, last.started_at).problems
        else:
            problems += self._views.restore(ledger, at)
        self._notes += problems
        self._passes, self._stale, self._broken = [], False, False

    def forget(self) -> None:
        """Take back what the last stage gave to the engine, since it will not be committed."""
        pending, passes = self._before_stage
        del self._pending[pending:], self._passes[passes:]
        self._visits.clear()
        self._views = self._new_views()  # what was edited in the files is read again

    def on_resume(self, run_id: str) -> None:
        """Read what was edited while nothing ran, and repair what a crash left of the run's files."""
        edits = self._read_edits(self._now(), FILE)
        self._record_edits(edits)
        self._ledgers.append(edits.all)
        self._passes = [one for one in self._ledgers.ledger().passes.values() if one.run == run_id]
        self._last = self._passes[-1] if self._passes else None
        self._stale = self._stale or bool(self._passes)
        self.after_commit()

    def _assess(self, job: Job, report: ReviewerReport, said: list[Answer], *, final: bool) -> Assessment:
        """The assessment of a report. A problem is worth asking again about; what is `final` is taken as it is."""
        problem = describe_faults(report)
        if report.status is ReportStatus.MALFORMED or (problem and not final):
            return Assessment(problem=problem)
        data = self._visits[job.stage.id, job.visit]
        data.report, data.attempt, data.basis = report, job.attempt, self._basis(said)
        if data.edits is not None:  # with an earlier answer: the files are read again
            self._views = self._new_views()
        data.edits = self._read_edits(self._now(), f"stage:{job.stage.id}")
        data.result = self._ingest(job.stage, job.visit, job.state, report, said, self._now(), data.edits.all)
        return assess(data.result)

    def _basis(self, said: list[Answer]) -> tuple[object, ...]:
        """What the result of a report depends on: the answers beside it, and all that is recorded."""
        self._ledgers.ledger()
        return said, self._ledgers.lines, len(self._pending)

    def _final_report(self, stage: BaseStage, outcome: Outcome, state: State, data: _Visit) -> ReviewerReport | None:
        """What the last attempt reported; an earlier process may have run it."""
        found = data.report if data.attempt == state.progress.attempt(stage.id) else None
        found = found or read_report_again(stage, outcome, data.answers, _directory(state), self._store)
        if found and outcome.status is Status.ERROR:  # what it found is kept, and its review is incomplete
            return replace(found, status=ReportStatus.MALFORMED, problem=outcome.reason)
        return with_failure(found, outcome) if found else None

    def _ingest(
        self,
        stage: BaseStage,
        visit: int,
        state: State,
        report: ReviewerReport,
        said: list[Answer],
        at: float,
        edits: Sequence[LedgerEvent] = (),
    ) -> IngestResult:
        """The pass of a report, with the answers of the same review about known findings."""
        root, data = _directory(state), self._visits[stage.id, visit]
        if data.changed is None:
            data.changed = data.start is not None and self._have_files_changed(stage, visit, state, data.start)
        start = data.start or self._start(stage, visit, state, at)
        ledger, options = self.ledger().extended(edits), review_options(state)
        unknown = not start.tree and not state.workspace  # git could not tell what is not committed
        known = self._findings_to_rule_on(ledger, stage, visit, state)[0] if is_review(stage) else []
        asked = [one.id for one in known if not one.failing_stage]  # it takes its own failure back by passing
        passed = Pass(
            id=new_pass_id(ledger, int(start.at), start.head),
            started_at=_iso(start.at),
            head=start.head,
            tree="" if state.workspace else start.tree,
            branch=start.branch,
            base=options.base,
            task=options.task,
            caller=options.caller,
            mode=options.mode,
            scope=options.scope,
            target=options.target or start.branch or start.head[:12],
            round=visit,
            run=state.run_id,
            stage=stage.id,
            visit=visit,
            lens=str(_lens(stage)),
            full_review=_full_review(state),
            coded=sum(state.visits.get(one.id, 0) for one in state.workflow.stages if _writes_code(one)),
            ext=({RECORD: {TREE_CHANGED: True}} if data.changed else {}) | ({TREE_UNKNOWN: True} if unknown else {}),
        )
        findings = tuple(replace(finding, lens=_lens(stage)) for finding in report.findings)
        report = replace(report, findings=findings)
        if isinstance(stage, LlmStage) and options.paths and report.covered is None:
            report = replace(report, covered=options.paths)  # it was given no more; a tool looks at everything
        respond = partial(self._answer_events, stage, visit, state, [*said, *report.rulings], at, pass_id=passed.id)
        return ingest([report], ledger, passed, root, self._environ, _iso(at), respond, asked)

    def _answer_events(
        self,
        stage: BaseStage,
        visit: int,
        state: State,
        said: list[Answer],
        at: float,
        ledger: Ledger,
        reported: frozenset[str],
        pass_id: str = "",
    ) -> Iterator[LedgerEvent]:
        """What a stage says of findings by their numbers. A review that reports one cannot call it fixed."""
        given: dict[str, Any] = {"run": state.run_id, "round": visit, "at": _iso(at)}
        if not is_review(stage):
            return fixer_events(said, ledger, by=stage.id, **given)
        said = drop_conflicting_rulings(said, ledger, reported)
        verifies = review_options(state).mode == "verify"
        return reviewer_events(said, ledger, by=reviewer_of(stage), pass_id=pass_id, verifies=verifies, **given)

    def _start(self, stage: BaseStage, visit: int, state: State, at: float) -> ReviewStart:
        if not is_asked_for_findings(stage):  # its failure is recognised by its name
            checkout = read_checkout(_directory(state), self._environ)
            return ReviewStart(at, checkout.head, checkout.branch, "")
        # Without a tree findings are recognised by their text.
        taken = self._snapshots.take(_directory(state), review_start(stage.id, visit, state))
        return ReviewStart(at, taken.head, taken.branch, taken.tree)

    def _have_files_changed(self, stage: BaseStage, visit: int, state: State, start: ReviewStart) -> bool:
        """Whether files changed since a stage began. New files of a tool, such as its report, do not count."""
        if not start.tree:
            return False
        try:
            root = _directory(state)
            tree = self._snapshots.tree(root, moment=review_end(stage.id, visit, state))
            added = isinstance(stage, LlmStage)
            return tree != start.tree and (added or files_changed(root, self._environ, start.tree, tree))
        except GitRefusedError:  # unknown counts as changed
            return True

    def _record(self, events: Iterable[LedgerEvent]) -> list[LedgerLine]:
        """Lines for the ledger, which count from now on."""
        added = list(events)
        self._pending += added
        notes = (isinstance(event, FieldsEdited) and not event.changes for event in added)  # which no file shows
        self._stale = self._stale or not all(notes)
        return [LedgerLine(encode_event(event)) for event in added]

    def _read_edits(self, at: float, by: str) -> ViewEdits:
        """What was changed in the files that show findings."""
        return self._views.read_edits(self.ledger(), _iso(at), by) if self._views.exist else ViewEdits()

    def _record_edits(self, edits: ViewEdits) -> list[LedgerLine]:
        self._notes += edits.problems
        self._broken = self._broken or bool(edits.problems)
        return self._record(edits.all)

    def _take_notes(self, stage: BaseStage, visit: int, context: Context, at: float) -> Iterator[Operation]:
        """What was put back in files, for people and for later agents: once in a run, whichever process noted it."""
        recorded = [one.get("note") for one in context.list_at(NOTES) if isinstance(one, dict)]
        notes, self._notes = [text for text in dict.fromkeys(self._notes) if text not in recorded], []
        if more := notes[_MAX_NOTES:]:
            notes = [*notes[:_MAX_NOTES], f"and {len(more)} more"]
        for text in notes:
            yield Append(NOTES, {"stage": stage.id, "visit": visit, "at": _iso(at), "note": text})

    def _verdict(self, result: IngestResult) -> Iterator[Operation]:
        ledger = self.ledger()
        yield Set(ReviewKey.VERDICT, str(review_of(ledger, result.passed).verdicts.after_verification))
        seen = set(result.passed.finding_ids)
        found = [finding for finding in ledger if finding.id in seen and finding.state.needs_attention]
        if file_verdict([finding for finding in found if not finding.pre_existing]) is Verdict.ABORT:
            yield Hold(HOLD_REASON)

    def _count(self, state: State, context: Context) -> Iterator[Operation]:
        """How many findings of this run are open, and how many each stage wants to be fixed, if that changed."""
        found = open_findings(self.ledger(), state.run_id)
        wanted = [finding for finding in found if finding.fixable]
        stages = Counter(
            stage for finding in wanted for stage in {vote.stage for vote in finding.votes if vote.run == state.run_id}
        )
        counts = {"open": len(found), "to_be_fixed": len(wanted), "stages": dict(sorted(stages.items()))}
        if counts != context.get(ReviewKey.OPEN, NOTHING_OPEN):
            yield Set(ReviewKey.OPEN, counts)

    def _stall_signal(self, state: State, context: Context) -> Iterator[Operation]:
        """Why another round would not help, if that changed."""
        if why := stall_reason(self.ledger(), state.run_id):
            yield Set(ReviewKey.STALLED, why)
        elif ReviewKey.STALLED in context:
            yield Delete(ReviewKey.STALLED)


def assess(result: IngestResult) -> Assessment:
    """The status of a stage by what it found. One item that cannot be read fails it, and so does a BLOCK.

    Advice, what is left to people, and what existed before fail no review.
    """
    counting = [finding for finding in result.findings if finding.fixable]
    unread = [item for item in result.passed.entries if item.disposition is Disposition.REJECTED]
    rejections = [said for said in result.passed.reviewer_verdicts if said.verdict == BLOCK]
    failed = unread or rejections or not result.passed.coverage.complete
    reasons = [f"{said.reviewer} rejects the change: {said.argument or 'no reason given'}" for said in rejections]
    if counting:
        must, first = sum(finding.gate.value is Gate.MUST for finding in counting), counting[0]
        where = f" ({first.location.path_line})" if first.location and first.location.start else ""
        reasons.append(f"{must} to be fixed, {len(counting) - must} suggested; first: {first.title}{where}")
    if others := len(result.findings) - len(counting):
        reasons.append(f"{others} not to be changed: advice, older than the change, or for a person to decide")
    if unread:
        one = unread[0]
        reasons.append(f"{len(unread)} could not be used; {one.input_id} {one.title!r}: {one.reason}")
    return Assessment(Status.FAIL if failed else stage_status(counting), "; ".join(reasons))


def _release_choice(stage: BaseStage, outcome: Outcome, context: Context) -> Iterator[Operation]:
    """What was chosen in a triage holds until an agent has worked on it, a review has looked, or nothing is chosen."""
    used = isinstance(stage, LlmStage) and (is_review(stage) or outcome.status.passes)
    emptied = isinstance(stage, TriageStage) and ReviewKey.CHOSEN not in outcome.updates
    if (used or emptied) and ReviewKey.CHOSEN in context:
        yield Delete(ReviewKey.CHOSEN)


def _withdraw_verdict(stage: BaseStage, outcome: Outcome, context: Context) -> Iterator[Operation]:
    """A good verdict no longer holds if a reviewer that was asked has said nothing."""
    silent = outcome.failure is not None and outcome.failure.kind in NOTHING_SAID
    if silent and is_reporting(stage) and context.get(ReviewKey.VERDICT) in (Verdict.PASS, Verdict.WARN):
        yield Delete(ReviewKey.VERDICT)


def _lens(stage: BaseStage) -> Lens:
    return stage.lens if isinstance(stage, LlmStage) else Lens.CODE_REVIEW


def _full_review(state: State) -> tuple[str, ...]:
    """The reviews of a workflow that looks at the change through several lenses; none for any other."""
    stages = [stage for stage in state.workflow.stages if is_structured_review(stage)]
    return tuple(stage.id for stage in stages) if len(set(map(_lens, stages))) > 1 else ()


def _writes_code(stage: BaseStage) -> bool:
    return isinstance(stage, LlmStage) and may_write(stage) and not is_review(stage)


def _directory(state: State) -> Path:
    return state.workspace.path if state.workspace else state.cwd


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
