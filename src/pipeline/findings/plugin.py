"""The plugin: reports of reviews and tools accumulate in the context, and findings that code can read in the ledger.

A report is appended to `review.findings` when a stage fails or passes in part, and the reports of a stage are cleared
when it passes. A review that never took place reports nothing.

The ledger is loaded when there is something for it: most stages have nothing. Trouble with the ledger or its files is
raised, so that the run pauses: a finding that cannot be kept is never passed over.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.engine.context import Context, is_extension
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import RUNS, Journal, Mailbox
from pipeline.findings import VIEWS
from pipeline.findings.git import TreeSnapshots, main_checkout
from pipeline.findings.keys import (
    KEPT,
    OWNED,
    ReviewKey,
    commit_events,
    count_findings,
    count_reports,
    finding_ids,
    is_asked_for_findings,
    is_reporting,
    last_verdict,
    report_operations,
    stall_reason,
)
from pipeline.language.model import LlmStage, ToolStage, TriageStage, is_review, is_structured_review
from pipeline.plugins import (
    Assessment,
    BaseStage,
    Briefing,
    Concluded,
    Conclusion,
    ExpressionFunction,
    Handler,
    Job,
    Owned,
    StageKind,
    State,
    Waiting,
    Worklist,
    hookimpl,
)

if TYPE_CHECKING:
    from pipeline.findings.run_findings import RunFindings
    from pipeline.handlers.questions import Responder

_LOOKS_LIKE_FINDINGS = re.compile(r"""\b(?:findings|severity)(?:\\*["']\s*:|\s*:\s*["'\[{])""", re.IGNORECASE)
_SAYS_SOMETHING = re.compile(r"\[\s*FINDING\s", re.IGNORECASE)
_END_OF_LIST = b"\n]\n"


class ReviewFindings:
    """The findings of one run."""

    def __init__(
        self,
        journal: Journal,
        root: Path,  # where the run was started
        environ: Mapping[str, str],
        snapshots: TreeSnapshots,  # of the files that a review is given
        store: Path,  # where the logs of its stages are
        now: Callable[[], float],
        trackers: Callable[[], Mapping[str, Callable[..., Any]]] = dict,  # from other plugins
        people: "Sequence[Responder]" = (),  # who can be asked about findings here
        trusted: Collection[str] = (),  # the commands that the user allows to take records
        mailbox: Mailbox | None = None,  # with what people decide elsewhere
    ) -> None:
        def load() -> "RunFindings":
            from pipeline.findings.ledger import LedgerStore  # noqa: PLC0415 - see the module's docstring
            from pipeline.findings.run_findings import RunFindings  # noqa: PLC0415 - as above

            return RunFindings(LedgerStore(journal), root, environ, now, snapshots, store, trusted)

        def load_triage() -> Handler:
            from pipeline.findings.walk.stage import TriageHandler  # noqa: PLC0415 - as above

            return TriageHandler(self._findings(), environ, trackers, people, mailbox)

        self._journal = journal
        self._home = main_checkout(root)  # where the findings are shown
        self._load = load
        self._loaded: RunFindings | None = None
        self._triage = _Triage(load_triage)
        self._file: ReportsFile | None = None  # of the run's open reports
        self._looked = False  # whether this process has read what was said in the files before its first stage

    def _findings(self) -> "RunFindings":
        """The findings of this run. Not a property: registering a plugin evaluates all its properties."""
        self._loaded = self._loaded or self._load()
        return self._loaded

    @hookimpl
    def owned(self) -> Owned:
        """Name the keys and files of findings."""
        return OWNED

    @hookimpl
    def answer_format(self, stage: BaseStage) -> str | None:
        """Give structured reviews the format of their answer."""
        return review_format() if is_structured_review(stage) else None

    @hookimpl
    def before_stage(self, stage: BaseStage, visit: int, state: State) -> Mapping[str, Any]:
        """Note what a review is given to look at, for whichever process concludes it.

        Before the first stage, what was said in the files since the last command is read: it is no stage's word.
        """
        self._catch_up(state)
        if not is_asked_for_findings(stage):
            return {}
        return {KEPT: self._findings().prompts.start(stage, visit, state)}

    def _catch_up(self, state: State) -> None:
        """Read what was said in the files before this process, and repair what a crash left of them."""
        if self._looked:
            return
        if _is_shown(self._home) or (state.stages_run and next(self._journal.ledger(), None)):
            self._findings().on_resume(state.run_id)
        self._looked = True

    @hookimpl
    def brief(self, job: Job) -> Briefing:
        """Give commands the file of open reports, and agents what was found and dismissed."""
        if isinstance(job.stage, ToolStage):
            return Briefing(variables={"AWF_FINDINGS": str(self._reports_file(job))})
        considered = self._findings().prompts.considered_section(job) if is_review(job.stage) else ""
        return Briefing((considered,) if considered else (), self._worklist(job))

    def _worklist(self, job: Job) -> Worklist:
        """List the findings that reports refer to one by one; after a triage, only those that were chosen.

        A review is given those that it is to rule on.
        """
        context = job.context
        path = str(self._reports_file(job)) if context.list_at(ReviewKey.REPORTS) else ""
        if is_review(job.stage):
            return Worklist(lambda room: self._findings().prompts.known_section(job, room), path)
        chosen = ReviewKey.CHOSEN in context
        if not chosen and not any(finding_ids(context)):
            return Worklist(lambda _: "", path)
        return Worklist(lambda room: self._findings().prompts.fix_section(job, room), path, replaces_reports=chosen)

    def since(self, job: Job) -> str:
        """Return the tree that a review has seen before, if it is to be given only what changed since.

        `before_stage` has found that out; while this plugin is not registered, nobody has, and the review is whole.
        """
        return self._loaded.prompts.start_of(job).since if self._loaded else ""

    @hookimpl
    def read_answer(self, job: Job, answers: Sequence[str]) -> Assessment | None:
        """Tell whether the answers of a review can be read; None if there is nothing in them that code can read."""
        if is_review(job.stage) or any(_LOOKS_LIKE_FINDINGS.search(answer) for answer in answers):
            return self._findings().read_answer(job, answers)
        return None

    @hookimpl
    def read_report(self, job: Job, report: Path) -> Assessment:
        """Tell whether the report of a tool can be read."""
        return self._findings().read_report(job, report)

    @hookimpl
    def conclude(self, visits: Sequence[Concluded], context: Context, state: State, at: float) -> Conclusion:
        """Take in what visits reported. Raises if that cannot be kept."""
        self._catch_up(state)  # the branches of a resumed run may all be done
        if not any(self._concerns(one, context) for one in visits):
            found = (report_operations(*one, context, at) for one in visits)
            return Conclusion(operations=[operation for operations in found for operation in operations])
        findings = self._findings()
        try:
            return findings.conclude(visits, context, state, at)
        except BaseException:
            findings.forget()
            raise

    def _concerns(self, visited: Concluded, context: Context) -> bool:
        """Whether a visit may have changed or reported a finding."""
        stage, _, outcome = visited
        if isinstance(stage, TriageStage) or KEPT in outcome.kept:
            return True
        if not isinstance(stage, LlmStage | ToolStage):
            return False
        if is_reporting(stage) and (outcome.status is not Status.SUCCESS or count_reports(context, stage.id)):
            return True
        if ReviewKey.CHOSEN in context or _SAYS_SOMETHING.search(outcome.response):
            return True
        return _is_shown(self._home)

    @hookimpl
    def committed(self, before: Context, after: Context) -> Mapping[str, Mapping[str, Any]]:
        """Show what was committed, and announce how many reports and findings are open."""
        if self._loaded:
            self._loaded.after_commit()
        return dict(commit_events(before, after))

    @hookimpl
    def expression_functions(self) -> Mapping[str, ExpressionFunction]:
        """Answer `findings()`, `reports()`, `verdict()` and the `stalled` signal of loops."""
        return {
            "findings": count_findings,
            "reports": count_reports,
            "verdict": last_verdict,
            "stalled": stall_reason,
        }

    @hookimpl
    def stage_handlers(self) -> Mapping[StageKind, Handler]:
        """Run triage stages."""
        return {StageKind.TRIAGE: self._triage}

    @hookimpl
    def objection(self, state: State) -> str | None:
        """Say why nobody but a person may approve the change now."""
        if ReviewKey.VERDICT not in state.context and not state.context.list_at(ReviewKey.REPORTS):
            return None
        return self._findings().objection(state.run_id) or None

    def _reports_file(self, job: Job) -> Path:
        """Return the file with the open reports, brought up to date."""
        if self._file is None:
            self._file = ReportsFile(job.store.absolute() / RUNS / job.run_id / "findings.json")
        return self._file.current(job.context.list_at(ReviewKey.REPORTS))


class ReportsFile:
    """`findings.json`: a run's open reports for agents and commands. New ones are appended: the cost stays flat."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: Sequence[Any] | None = None

    def current(self, reports: Sequence[Any]) -> Path:
        """The file, holding exactly these reports."""
        if self._written is None or not self._path.exists() or not is_extension(self._written, reports):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(b"[" + _END_OF_LIST)
            self._written = ()
        if added := reports[len(self._written) :]:
            separator = b",\n" if self._written else b"\n"
            with self._path.open("r+b") as file:
                file.seek(-len(_END_OF_LIST), os.SEEK_END)
                file.write(separator + b",\n".join(json.dumps(report).encode() for report in added) + _END_OF_LIST)
        self._written = reports
        return self._path


class _Triage:
    """Runs triage stages. The handler is loaded with the first of them."""

    def __init__(self, load: Callable[[], Handler]) -> None:
        self._load = load

    async def run(self, job: Job) -> Outcome | Waiting:
        return await self._load().run(job)


def review_format() -> str:
    """The page that tells a review agent how to answer."""
    return resources.files("pipeline.findings").joinpath("review-format.md").read_text(encoding="utf-8")


def _is_shown(root: Path) -> bool:
    """Whether files show findings, in which somebody may have edited a status. Asked after every stage."""
    return any(os.access(f"{root}/{name}/", os.F_OK) for name in VIEWS)  # with that slash only a directory is found
