"""The findings of one run: what its stages report goes into the ledger with them, and from there into files.

While a stage runs, its answer is only read, to know whether it can be. When visits are concluded, all their answers are
taken in once, as one pass. They are read again from what was recorded, so any process can do it, in the same way.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pipeline.engine.context import Append, Context, Delete, Hold, Operation, Set
from pipeline.engine.outcome import Outcome, Status, StatusSource
from pipeline.engine.ports import Assessment, Concluded, Conclusion, Job, LedgerLine
from pipeline.engine.state import State
from pipeline.findings import assessments, reports, rulings
from pipeline.findings.events import AnswerOwed, LedgerEvent, Look, Pass, encode_event, iso
from pipeline.findings.git import GitRefusedError, TreeSnapshots, files_changed, keep_tree, round_moment
from pipeline.findings.keys import (
    KEPT,
    NOTHING_OPEN,
    ReviewKey,
    is_asked_for_findings,
    is_reporting,
    report_operations,
    said_nothing,
)
from pipeline.findings.ledger import Ledger, LedgerStore, open_of_run, passes_of
from pipeline.findings.looks import Start
from pipeline.findings.model import Finding, FindingId, FindingState, Gate, Report, ReportStatus, Said, Severity
from pipeline.findings.prompts import Prompts, named_options, reviewers_present
from pipeline.findings.review_options import review_options
from pipeline.findings.reviews import review, review_id
from pipeline.findings.rounds import stall_reason
from pipeline.findings.taking import new_pass_id, take_in
from pipeline.findings.triage import expire
from pipeline.findings.verdicts import Verdict, counts
from pipeline.findings.views import FILE, Views
from pipeline.findings.views.record_store import Trust
from pipeline.handlers.markers import read_markers
from pipeline.language.model import BaseStage, Lens, LlmStage, ToolStage, TriageStage, is_review, reads_only

HOLD_REASON = "a finding endangers the whole system: a person has to look before anything is fixed"
_WORSE = (Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.RETRY, Status.FAIL)  # from best to worst
_MAX_NOTES = 20  # of one conclusion

Decisions = Callable[[str], list[LedgerEvent]]
"""The events of what was decided at a visit, given the time."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A visit that is concluded, with what it reported."""

    visited: Concluded
    start: Start
    report: Report | None
    said: tuple[Said, ...] = ()  # of findings by their numbers


@dataclass(slots=True)
class _Added:
    """What a conclusion adds to the run."""

    events: list[LedgerEvent] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    operations: list[Operation] = field(default_factory=list)
    passed: Pass | None = None


class RunFindings:
    """Records what the stages of one run found."""

    def __init__(
        self,
        ledgers: LedgerStore,
        root: Path,  # a directory of the checkout that the run was started in
        environ: Mapping[str, str],
        now: Callable[[], float],
        snapshots: TreeSnapshots,
        store: Path,  # where logs are
        trusted: Collection[str] = (),  # the commands that the user allows to take records
    ) -> None:
        self._ledgers = ledgers
        self._new_views = partial(Views, root, store, Trust(trusted, environ))
        self._views = self._new_views()
        self._environ = environ
        self._now = now
        self._store = store
        self._snapshots = snapshots
        self.prompts = Prompts(ledgers, environ, now, snapshots)
        self._decisions: dict[tuple[str, int], Decisions] = {}  # of triage stages, by stage and visit
        self._notes: list[str] = []  # what was put back in files, not yet recorded
        self._passed: Pass | None = None  # concluded, and not yet shown
        self._stale = False  # whether the files are to be written

    def ledger(self) -> Ledger:
        """Return all findings as of now."""
        return self._ledgers.ledger()

    # --- reading, which decides only whether an answer can be read ---------------------------------------------------

    def read_answer(self, job: Job, answers: Sequence[str]) -> Assessment | None:
        """Return whether a review's answers can be read, and what else it is asked; None if they are in words only."""
        report = reports.report_of_review(job.stage, answers, job.directory)
        start, ledger = self.prompts.start_of(job), self.ledger()
        asked = [ledger.findings[FindingId(id)] for id in start.asked if id in ledger.findings]
        paths = self.prompts.target(job.state, start.tree).paths
        given = assessments.Given(ledger, asked, start.tree, paths)
        if report is None:
            words = Report(reports.reviewer_of(job.stage), ReportStatus.EMPTY)
            return assessments.assess_words(words, answers, job.stage.id, given)
        return assessments.assess_review(report, answers, given)

    def read_report(self, job: Job, report: Path) -> Assessment:
        """Return whether the report of a tool can be read."""
        assert isinstance(job.stage, ToolStage)  # noqa: S101 - only tools have reports
        found = reports.report_of_tool(job.stage, report, job.directory)
        problem = found.problem if found.status is ReportStatus.MALFORMED else ""
        return Assessment(problem=problem) if problem else Assessment(Status.SUCCESS, assessments.count_items(found))

    def objection(self, run: str) -> str:
        """Return why nobody but a person may approve what a run has done; empty if nothing is against it."""
        ledger = self.ledger()
        own = passes_of(ledger, run)
        known = review(ledger, own[-1] if own else None)
        return "" if known.passes_by_itself else f"only a person may approve while the verdict is {known.headline}"

    # --- concluding visits -------------------------------------------------------------------------------------------

    def hold(self, stage: str, visit: int, decisions: Decisions) -> None:
        """Keep what was decided at a visit until it is concluded."""
        self._decisions[stage, visit] = decisions

    def conclude(self, visits: Sequence[Concluded], context: Context, state: State, at: float) -> Conclusion:
        """Take in what visits reported, together, and say what that makes of them."""
        heard = [self._hear(one, state, at) for one in visits]
        if len(heard) == 1 and heard[0].visited.outcome.status is Status.ERROR:
            return self._conclude_error(heard[0], state, at)
        added = _Added()
        self._add_edits(added, visits, at)
        self._add_claims(added, heard, state, at)
        self._add_decisions(added, visits, at)
        self._add_pass(added, heard, state, at)
        ledger = self.ledger().extended(added.events)
        self._add_outcomes(added, heard, ledger)
        self._add_reports(added, heard, context, ledger, at)
        self._add_signals(added, heard, state, context, ledger)
        self._add_notes(added, visits[0], context, at)
        self._stale = self._stale or bool(added.events)
        for one in visits:
            self.prompts.forget(one.stage.id, one.visit)
        self._passed = added.passed or self._passed
        return Conclusion(added.outcomes, added.operations, [LedgerLine(encode_event(one)) for one in added.events])

    def _conclude_error(self, heard: Heard, state: State, at: float) -> Conclusion:
        """Record that an answer is owed, after what the visit listed before it failed."""
        added = _Added()
        if heard.report is not None and (heard.report.drafts or heard.report.rulings):
            self._add_pass(added, [heard], state, at)
        added.events += _owed(heard, state, at)
        self._stale = self._stale or bool(added.events)
        self._passed = added.passed or self._passed
        return Conclusion(lines=[LedgerLine(encode_event(one)) for one in added.events])

    def _hear(self, visited: Concluded, state: State, at: float) -> Heard:
        """Return what a visit reported, read from what was recorded with it."""
        stage, _, outcome = visited
        start = Start.of(outcome.kept.get(KEPT), at)
        said: tuple[Said, ...] = ()
        if isinstance(stage, LlmStage):
            said = tuple(rulings.read_said("\n\n".join(outcome.answers) or outcome.response))
        if outcome.failure is not None:
            said = tuple(one for one in said if one.ruling in rulings.STANDING)
        report = self._report_of(stage, outcome, state)
        if report is None:
            return Heard(visited, start, None, said)
        report = replace(
            report,
            stage=stage.id,
            tool=isinstance(stage, ToolStage),
            lens=_lens(stage),
            drafts=tuple(replace(draft, stage=stage.id, lens=_lens(stage)) for draft in report.drafts),
            rulings=(*report.rulings, *said) if is_review(stage) else (),
            since=start.since,
            asked=tuple(map(FindingId, start.asked)),
        )
        return Heard(visited, start, report, said)

    def _report_of(self, stage: BaseStage, outcome: Outcome, state: State) -> Report | None:
        """Return what a review or tool reported; its success or failure if it gave nothing else."""
        if not is_reporting(stage):
            return None
        found: Report | None = None
        failed = reports.report_of_failure(stage, state.workflow.name, outcome)
        if isinstance(stage, LlmStage):
            answers = (*state.progress.said.get(stage.id, ()), *(outcome.answers or (outcome.response,)))
            found = reports.report_of_review(stage, answers, state.directory)
            if outcome.failure is not None and failed:  # what it has said is not lost, whatever came after
                return reports.with_said(failed, found, answers)
        elif isinstance(stage, ToolStage) and is_asked_for_findings(stage):
            file = reports.logged_report(outcome, self._store)
            found = reports.report_of_tool(stage, file, state.directory) if file else None
        if found is None or found.status is ReportStatus.MALFORMED:
            return _unreadable_now(stage) if _was_read(stage, outcome) else failed
        return reports.with_failure(found, outcome)

    def _add_edits(self, added: _Added, visits: Sequence[Concluded], at: float) -> None:
        """What was changed in the files that show findings comes before what was found."""
        works = any(isinstance(one.stage, LlmStage | ToolStage) for one in visits)
        if not works or not self._views.exist:
            return
        edits = self._views.read_edits(self.ledger(), iso(at), f"stage:{visits[0].stage.id}")
        added.events += edits.events
        self._notes += edits.problems
        self._stale = self._stale or bool(edits.problems)

    def _add_claims(self, added: _Added, heard: Sequence[Heard], state: State, at: float) -> None:
        """What a fixer says of findings is a claim."""
        for one in heard:
            stage = one.visited.stage
            if one.said and isinstance(stage, LlmStage) and not is_review(stage):
                ledger = self.ledger().extended(added.events)
                added.events += rulings.claims(one.said, ledger, who=stage.id, run=state.run_id, at=iso(at))

    def _add_decisions(self, added: _Added, visits: Sequence[Concluded], at: float) -> None:
        for one in visits:
            decided = self._decisions.pop((one.stage.id, one.visit), None)
            if decided:
                added.events += decided(iso(at))

    def _add_pass(self, added: _Added, heard: Sequence[Heard], state: State, at: float) -> None:
        """Take in everything that reviews and tools reported, as one pass, after dismissals that have expired."""
        added.events += expire(self.ledger(), iso(at))
        ledger = self.ledger().extended(added.events)
        reported = [one for one in heard if one.report is not None]
        if not any(_is_worth_a_pass(one, ledger) for one in reported):
            return
        start = min((one.start for one in reported), key=lambda start: start.at)
        passed = self._new_pass(ledger, reported, start, state)
        found = [one.report for one in reported if one.report is not None]
        taken = take_in(found, ledger, passed, state.directory, self._environ, iso(at), reviewers_present(state))
        added.events += taken.events
        added.passed = taken.passed
        if passed.tree:
            keep_tree(state.directory, self._environ, passed.id, passed.tree)

    def _new_pass(self, ledger: Ledger, reported: Sequence[Heard], start: Start, state: State) -> Pass:
        options, cursor = named_options(state), state.cursor
        if not start.tree:  # nothing was noted for a tool that reports in words
            taken = self._snapshots.take(state.directory, round_moment(state, 0, "end"))
            start = replace(start, head=taken.head, branch=taken.branch, tree=taken.tree)
        trees = {one.start.tree for one in reported if one.start.tree}
        changed = len(trees) > 1
        if start.tree and not all(reads_only(one.visited.stage) for one in reported):  # others work where people do
            changed = changed or self._have_files_changed(state, start.tree)
        own = passes_of(ledger, state.run_id)
        number = own[-1].round if own else 1
        if own and any(one.stage == cursor.stage and one.visit != cursor.visit for one in own if one.round == number):
            number += 1
        id = new_pass_id(ledger, int(start.at), start.head)
        return Pass(
            id=id,
            started_at=iso(start.at),
            review=review_id(ledger, id, state.run_id, number, options.mode),
            task=options.task,
            branch=start.branch,
            base=options.base,
            head=start.head,
            tree=start.tree,
            changed=changed,
            round=number,
            caller=options.caller,
            mode=options.mode,
            scope=options.scope,
            target=options.target or start.branch or start.head[:12],
            required=options.required,
            paths=self.prompts.target(state, start.tree).paths if start.tree else None,
            unshown=self.prompts.target(state, start.tree).unshown if start.tree else (),
            run=state.run_id,
            stage=cursor.stage,
            visit=cursor.visit,
        )

    def _have_files_changed(self, state: State, tree: str) -> bool:
        """Return whether files changed since a round began. New files, such as a tool's report, do not count."""
        try:
            now = self._snapshots.tree(state.directory, moment=round_moment(state, 0, "end"))
            return now != tree and files_changed(state.directory, self._environ, tree, now)
        except GitRefusedError:  # unknown counts as changed
            return True

    def _add_outcomes(self, added: _Added, heard: Sequence[Heard], ledger: Ledger) -> None:
        """The status of a review or tool is that of its own open findings: nobody's silence makes it pass."""
        if added.passed is None:
            return
        looks = {look.stage: look for look in added.passed.coverage.looks}
        for one in heard:
            if one.report is None:
                continue
            own = _own_open(one.report, added.passed, ledger)
            if one.report.format == reports.PLAIN and all(finding.failing_stage for finding in own):
                continue  # its status is its own
            outcome = _amended(one.visited.outcome, looks.get(one.visited.stage.id), own)
            if isinstance(one.visited.stage, LlmStage):
                outcome = _with_contradiction(outcome, one.visited.outcome)
            added.outcomes[one.visited.stage.id] = outcome

    def _add_reports(self, added: _Added, heard: Sequence[Heard], context: Context, ledger: Ledger, at: float) -> None:
        """Append to the reports of the run what failed, and clear those of a stage that passed."""
        for one in heard:
            stage, visit, outcome = one.visited
            outcome = added.outcomes.get(stage.id, outcome)
            ids: list[FindingId] = []
            in_words = one.report is not None and one.report.format == reports.PLAIN
            if one.report is not None and added.passed:
                own = _own_open(one.report, added.passed, ledger)
                ids = [finding.id for finding in own if not (in_words and finding.failing_stage)]
            added.operations += report_operations(stage, visit, outcome, context, at, ids, in_words=in_words)

    def _add_signals(
        self, added: _Added, heard: Sequence[Heard], state: State, context: Context, ledger: Ledger
    ) -> None:
        """What conditions read: the verdict, how much is open, whether another round would help, what was chosen."""
        if added.passed:
            known = review(ledger, added.passed)
            added.operations.append(Set(ReviewKey.VERDICT, str(known.verdict)))
            reported = [ledger.findings[FindingId(id)] for id in added.passed.finding_ids]
            if any(map(_endangers_the_system, reported)):
                added.operations.append(Hold(HOLD_REASON))
            elif left := [finding for finding in reported if _is_left_to_a_person(finding)]:
                added.operations.append(Hold(f"{_numbers(left)}: a person has to decide before the change can pass"))
            if state.workflow.loops:
                added.operations += _stall_signal(ledger, state, context)
        elif any(said_nothing(one.visited) for one in heard):
            added.operations.append(Set(ReviewKey.VERDICT, str(Verdict.FAIL)))
        for one in heard:
            added.operations += _release_choice(one.visited.stage, one.visited.outcome, context)
        if added.events:
            added.operations += _count(ledger, state, context)

    def _add_notes(self, added: _Added, visited: Concluded, context: Context, at: float) -> None:
        """What was put back in files, for people and for later agents: once in a run, whichever process noted it."""
        recorded = [one.get("note") for one in context.list_at(ReviewKey.NOTES) if isinstance(one, dict)]
        notes, self._notes = [text for text in dict.fromkeys(self._notes) if text not in recorded], []
        more = len(notes) - _MAX_NOTES
        if more > 0:
            notes = [*notes[:_MAX_NOTES], f"and {more} more"]
        about = {"stage": visited.stage.id, "visit": visited.visit, "at": iso(at)}
        added.operations += [Append(ReviewKey.NOTES, {**about, "note": text}) for text in notes]

    # --- files -------------------------------------------------------------------------------------------------------

    def after_commit(self) -> None:
        """Write the files, now that what they show is recorded."""
        if not self._stale:
            return
        self._notes += self._views.write(self.ledger(), self._passed).problems
        self._passed, self._stale = None, False

    def forget(self) -> None:
        """Take back what a conclusion prepared, since it will not be committed."""
        self._decisions.clear()
        self._passed, self._stale = None, False
        self._views = self._new_views()  # what was edited in the files is read again

    def on_resume(self, run_id: str) -> None:
        """Read what was edited while nothing ran, and repair what a crash left of the run's files."""
        self._notes += self._views.look(self._ledgers, iso(self._now()), FILE).problems
        own = passes_of(self.ledger(), run_id)
        self._passed = own[-1] if own else None
        self._stale = self._stale or bool(own)
        self.after_commit()


def _was_read(stage: BaseStage, outcome: Outcome) -> bool:
    """Return whether the answer or the report of a visit could be read when it was given."""
    if outcome.status is Status.ERROR or outcome.failure is not None:
        return False
    by_tool = isinstance(stage, ToolStage) and is_asked_for_findings(stage)
    return by_tool or outcome.source is StatusSource.STRUCTURED


def _unreadable_now(stage: BaseStage) -> Report:
    """Return the report of an answer that could be read when it was given, and cannot be read as it was recorded."""
    problem = "what was read cannot be read again"
    return Report(reports.reviewer_of(stage), ReportStatus.MALFORMED, problem=problem)


def _owed(heard: Heard, state: State, at: float) -> Iterator[AnswerOwed]:
    """Yield that a reviewer or tool owes an answer."""
    stage, _, outcome = heard.visited
    report = reports.report_of_failure(stage, state.workflow.name, outcome)
    if report is None or report.status.answered:
        return
    look = Look(
        reviewer=report.reviewer,
        status=report.status,
        problem=report.problem,
        stage=stage.id,
        lens=_lens(stage),
        tool=isinstance(stage, ToolStage),
    )
    required, branch = review_options(state).required, heard.start.branch
    yield AnswerOwed(at=iso(at), look=look, run=state.run_id, branch=branch, required=required)


def _is_worth_a_pass(heard: Heard, ledger: Ledger) -> bool:
    """Return whether a visit says something: most tools and reviews in words that pass have nothing to say.

    A look at a known tree is remembered, so that the next one costs what changed.
    """
    report = heard.report
    if report is None:
        return False
    if report.format != reports.PLAIN or report.drafts or (heard.start.tree and is_review(heard.visited.stage)):
        return True
    own = report.reviewer
    return own in ledger.owed() or any(one.reviewer == own and one.state.is_open for one in ledger.findings.values())


def _own_open(report: Report, passed: Pass, ledger: Ledger) -> list[Finding]:
    """Return the open findings that a reviewer stands for: its own of this pass, and those that it was asked about."""
    found = {FindingId(id): ledger.findings[FindingId(id)] for id in (*passed.finding_ids, *report.asked)}
    return [
        finding
        for finding in found.values()
        if finding.state.is_open and (finding.reviewer == report.reviewer or finding.id in report.asked)
    ]


def _amended(outcome: Outcome, look: Look | None, own: Sequence[Finding]) -> Outcome:
    """Return the outcome of a review or tool by its open findings; one that its command failed stays failed."""
    counting = [finding for finding in own if finding.fixable]
    unsure = [finding for finding in own if finding.unreadable or finding.state is FindingState.UNCERTAIN]
    status, reasons = Status.SUCCESS, list[str]()
    if counting:
        must = [finding for finding in counting if finding.gate is Gate.MUST]
        status = Status.FAIL if must else Status.PARTIAL_SUCCESS
        first = min(counting, key=lambda finding: (finding.severity.rank, finding.number))
        where = f" ({first.location.path_line})" if first.location and first.location.start else ""
        reasons.append(f"{len(must)} to be fixed, {len(counting) - len(must)} suggested; first: {first.title}{where}")
    if len(own) > len(counting):
        left = len(own) - len(counting)
        reasons.append(f"{left} not to be changed: advice, older than the change, or for a person to decide")
    if unsure or (look and not look.status.answered):
        status = Status.FAIL
        reasons.append(look.problem if look and look.problem else f"{len(unsure)} that nobody can be sure of")
    if look and look.unruled:
        reasons.append(f"did not rule on {', '.join(f'#{number}' for number in look.unruled)}")
    if _WORSE.index(outcome.status) > _WORSE.index(status):  # its own word, or its exit code
        status = outcome.status
        reasons = reasons or [outcome.reason]
    source = outcome.source if status is outcome.status else StatusSource.STRUCTURED
    return outcome.model_copy(update={"status": status, "source": source, "reason": "; ".join(reasons)})


def _with_contradiction(outcome: Outcome, said: Outcome) -> Outcome:
    """Return an outcome with a note if a reviewer stated another status than that of its findings."""
    stated = read_markers("\n\n".join(said.answers) or said.response).status
    if stated is None or stated is outcome.status:
        return outcome
    note = f"the answer claims {stated}; with its findings it is {outcome.status}: the worse one counts"
    return outcome.model_copy(update={"notes": (*outcome.notes, note)})


def _endangers_the_system(finding: Finding) -> bool:
    return counts(finding) and finding.system_breaking and finding.severity is Severity.CRITICAL


def _is_left_to_a_person(finding: Finding) -> bool:
    """Return whether a finding fails the change, and no fixer is to change code for it."""
    grave = finding.severity is Severity.CRITICAL or finding.state is FindingState.UNCERTAIN
    return counts(finding) and grave and not finding.fixable


def _stall_signal(ledger: Ledger, state: State, context: Context) -> Iterator[Operation]:
    """Yield why another round would not help, if that changed."""
    if why := stall_reason(ledger, state.run_id):
        yield Set(ReviewKey.STALLED, why)
    elif ReviewKey.STALLED in context:
        yield Delete(ReviewKey.STALLED)


def _count(ledger: Ledger, state: State, context: Context) -> Iterator[Operation]:
    """Yield how many lines of work of this run are open, and how many each stage wants to be fixed, if that changed."""
    found = open_of_run(ledger, state.run_id)
    wanted = [finding for finding in found if finding.fixable]
    stages = Counter(stage for stage, _ in {(finding.stage, finding.line) for finding in wanted})
    numbers = {
        "open": len({finding.line for finding in found}),
        "to_be_fixed": len({finding.line for finding in wanted}),
        "stages": dict(sorted(stages.items())),
    }
    if numbers != context.get(ReviewKey.OPEN, NOTHING_OPEN):
        yield Set(ReviewKey.OPEN, numbers)


def _release_choice(stage: BaseStage, outcome: Outcome, context: Context) -> Iterator[Operation]:
    """What was chosen in a triage holds until an agent has worked on it, a review has looked, or nothing is chosen."""
    used = isinstance(stage, LlmStage) and (is_review(stage) or outcome.status.passes)
    emptied = isinstance(stage, TriageStage) and ReviewKey.CHOSEN not in outcome.updates
    if (used or emptied) and ReviewKey.CHOSEN in context:
        yield Delete(ReviewKey.CHOSEN)


def _reviewers_present(state: State) -> frozenset[str]:
    """Return the reviewers and tools that take part in the reviews of a run."""
    return frozenset(reports.reviewer_of(stage) for stage in state.workflow.stages if is_reporting(stage))


def _numbers(findings: Iterable[Finding]) -> str:
    return ", ".join(f"#{finding.number}" for finding in findings)


def _lens(stage: BaseStage) -> Lens:
    return stage.lens if isinstance(stage, LlmStage) else Lens.CODE_REVIEW
