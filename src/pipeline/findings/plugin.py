"""The plugin: reports of reviews and tools accumulate in the context, and findings that code can read in the ledger.

A report is appended to `review.findings` when a stage fails or passes in part, and the reports of a stage are cleared
when it passes. A review that never took place reports nothing.

The ledger is loaded when there is something for it: most stages have nothing. Trouble with the ledger or its files is
raised, so that the run pauses: a finding that cannot be kept is never passed over.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.backends.checkout import VIEWS
from pipeline.engine.context import Append, Discard, full_response_key, is_extension, response_key
from pipeline.engine.outcome import FailureClass, Status, response_base
from pipeline.engine.ports import RUNS, Journal, Mailbox
from pipeline.findings.git import TreeSnapshots, main_checkout
from pipeline.language.model import FindingsFormat, LlmStage, ToolStage, is_review, is_structured_review
from pipeline.plugins import (
    Assessment,
    BaseStage,
    Context,
    ExpressionFunction,
    Handler,
    Job,
    LedgerLine,
    Operation,
    Outcome,
    StageKind,
    State,
    Waiting,
    Worklist,
    hookimpl,
)

if TYPE_CHECKING:
    from pipeline.findings.run_findings import RunFindings
    from pipeline.findings.walk.stage import Decider

FINDINGS_CHANGED = "findings_changed"  # the event after a commit that added or cleared reports
LOOKS_LIKE_FINDINGS = re.compile(r"""\b(?:findings|severity)(?:\\*["']\s*:|\s*:\s*["'\[{])""", re.IGNORECASE)
NOTHING_SAID = frozenset({FailureClass.PROTOCOL, FailureClass.AGENT, FailureClass.INTERNAL})
NOTHING_OPEN = {"open": 0, "to_be_fixed": 0, "stages": dict[str, int]()}  # the value of `ReviewKey.OPEN` at first
_END_OF_LIST = b"\n]\n"
_ANSWER = re.compile(r"\[\s*FINDING\s", re.IGNORECASE)


class ReviewKey:
    """The context keys of findings."""

    REPORTS = "review.findings"  # the open reports
    CHOSEN = "review.chosen"  # the ids of the findings that the next fix stage is given, and no others
    VERDICT = "review.verdict"
    OPEN = "review.open"  # how many findings of the run are open, and how many of them are to be fixed, by stage
    STALLED = "review.stalled"  # why another round of fixing would not help


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
        deciders: "Sequence[Decider]" = (),  # who can be asked about findings here
        trusted: Collection[str] = (),  # the commands that the user allows to take records
        mailbox: Mailbox | None = None,  # with what people decide elsewhere
    ) -> None:
        def load() -> "RunFindings":
            from pipeline.findings.ledger import LedgerStore  # noqa: PLC0415 - see the module's docstring
            from pipeline.findings.run_findings import RunFindings  # noqa: PLC0415 - as above

            return RunFindings(LedgerStore(journal), root, environ, now, snapshots, store, trusted)

        def load_triage() -> Handler:
            from pipeline.findings.walk.stage import TriageHandler  # noqa: PLC0415 - as above

            return TriageHandler(self._findings(), environ, trackers, deciders, mailbox)

        self._journal = journal
        self._home = main_checkout(root)  # where the findings are shown
        self._load = load
        self._loaded: RunFindings | None = None
        self._empty: bool | None = None  # whether the ledger has no line; None: not looked at
        self._triage = _Triage(load_triage)
        self._file: ReportsFile | None = None  # of the run's open reports

    def _findings(self) -> "RunFindings":
        """The findings of this run. Not a property: registering a plugin evaluates all its properties."""
        self._loaded = self._loaded or self._load()
        return self._loaded

    @hookimpl
    def answer_format(self, stage: BaseStage) -> str | None:
        """Give structured reviews the format of their answer."""
        return review_format() if is_structured_review(stage) else None

    @hookimpl
    def read_answer(self, job: Job, answers: Sequence[str]) -> Assessment | None:
        """Assess a review by the findings in its answers; None if there are none that code can read."""
        found = is_structured_review(job.stage) or any(LOOKS_LIKE_FINDINGS.search(answer) for answer in answers)
        return self._findings().read_answer(job, answers) if found else None

    @hookimpl
    def read_report(self, job: Job, report: Path) -> Assessment:
        """Assess a tool by its report."""
        return self._findings().read_report(job, report)

    @hookimpl
    def stage_variables(self, job: Job) -> Mapping[str, str]:
        """Give commands the file of open reports."""
        return {"AWF_FINDINGS": str(self._reports_file(job))}

    @hookimpl
    def worklist(self, job: Job) -> Worklist:
        """List the findings that reports refer to one by one; after a triage, only those that were chosen.

        A review is given those that it is to rule on.
        """
        context = job.context
        path = str(self._reports_file(job)) if context.list_at(ReviewKey.REPORTS) else ""
        review = is_review(job.stage)
        chosen = ReviewKey.CHOSEN in context and not review

        def render(room: int) -> str:
            if review:
                return self._findings().known_section(job.stage, job.visit, job.state, room)
            if chosen:
                return self._findings().fix_prompt(context, room, job.run_id)
            return (
                self._loaded.fix_prompt(context, room, job.run_id) if self._loaded and any(finding_ids(context)) else ""
            )

        return Worklist(render, path, replaces_reports=chosen)

    @hookimpl
    def summary_sections(self, stage: BaseStage, visit: int, state: State) -> Iterator[str]:
        """Tell a review what was already considered and dismissed."""
        if is_review(stage) and (section := self._findings().considered_section(stage, visit, state)):
            yield section

    @hookimpl
    def commit_events(self, before: Context, after: Context) -> Iterator[tuple[str, dict[str, Any]]]:
        """Announce how many reports and findings are open after a commit that changed them."""
        return commit_events(before, after)

    @hookimpl
    def expression_functions(self) -> Mapping[str, ExpressionFunction]:
        """Answer `findings()`, `reports()`, `verdict()` and the `stalled` signal of loops."""
        return {
            "findings": count_findings,
            "reports": count_reports,
            "verdict": last_verdict,
            "stalled": stall_reason,
        }

    def _reports_file(self, job: Job) -> Path:
        """Return the file with the open reports, brought up to date."""
        if self._file is None:
            self._file = ReportsFile(job.store.absolute() / RUNS / job.run_id / "findings.json")
        return self._file.current(job.context.list_at(ReviewKey.REPORTS))

    @hookimpl
    def stage_handlers(self) -> Mapping[StageKind, Handler]:
        """Run triage stages."""
        return {StageKind.TRIAGE: self._triage}

    @hookimpl
    def before_stage(self, stage: BaseStage, visit: int, state: State) -> None:
        """Note what a review is given to look at."""
        if is_reporting(stage):
            self._empty = None
            self._is_empty()
        if is_asked_for_findings(stage):
            self._findings().start_attempt(stage, visit, state)

    @hookimpl
    def after_branch(self, stage: BaseStage, visit: int) -> Iterator[Operation]:
        """What the end of a parallel stage needs to know of a branch, whichever process reaches it."""
        return self._loaded.after_branch(stage, visit) if self._loaded else iter(())

    @hookimpl
    def after_stage(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> Iterator[Operation | LedgerLine]:
        """Reports for the context, and events for the ledger if there are any. Raises if those cannot be made."""
        if not (self._loaded or found_key(stage.id) in context or self._concerns(stage, outcome)):
            return report_operations(stage, visit, outcome, context, at)
        findings = self._findings()
        try:
            return iter(list(findings.after_stage(stage, visit, outcome, context, state, at)))
        except BaseException:
            findings.forget()
            raise

    @hookimpl
    def after_commit(self) -> None:
        """Show what was committed. Raises if it cannot be shown."""
        if self._loaded:
            self._loaded.after_commit()

    @hookimpl
    def on_resume(self, run_id: str) -> None:
        """Repair what a crash left of the files."""
        if next(self._journal.ledger(), None):
            self._findings().on_resume(run_id)

    def _is_empty(self) -> bool:
        """Whether the ledger had no line when it was first looked at, before a stage rather than after it."""
        if self._empty is None:
            self._empty = next(self._journal.ledger(), None) is None
        return self._empty

    def _concerns(self, stage: BaseStage, outcome: Outcome) -> bool:
        """Whether a stage may have changed or reported a finding."""
        if not isinstance(stage, LlmStage | ToolStage):
            return False
        if is_reporting(stage) and not (outcome.status.passes and self._is_empty()):
            return True
        opening = outcome.response.find("[")
        answers = opening >= 0 and _ANSWER.search(outcome.response, opening) is not None
        return answers or viewed(self._home)


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


def found_key(stage: str) -> str:
    """Where what a branch found is kept until its parallel stage is joined."""
    return f"{stage}._found"


def finding_ids(context: Context) -> Iterator[str]:
    """The findings of the ledger that reports refer to."""
    for report in context.list_at(ReviewKey.REPORTS):
        ids = report.get("findingIds") if isinstance(report, dict) else None
        yield from (id for id in ids if isinstance(id, str)) if isinstance(ids, list) else ()


def viewed(root: Path) -> bool:
    """Whether there are files that show findings. Asked after every stage, and so in the way that costs least."""
    return any(os.access(f"{root}/{name}/", os.F_OK) for name in VIEWS)  # with that slash only a directory is found


def report_operations(
    stage: BaseStage, visit: int, outcome: Outcome, context: Context, at: float, ids: Sequence[str] = ()
) -> Iterator[Operation]:
    """Append a report with the ids of its findings, or clear the reports of a stage that passed."""
    if not is_reporting(stage):
        return
    if outcome.status in (Status.FAIL, Status.PARTIAL_SUCCESS):
        kind = outcome.failure.kind if outcome.failure else None
        # What a tool printed was said, even if its report cannot be read.
        if kind not in NOTHING_SAID or (isinstance(stage, ToolStage) and kind is FailureClass.PROTOCOL):
            report = _report(stage, visit, outcome, context, at)
            yield Append(ReviewKey.REPORTS, report | ({"findingIds": list(dict.fromkeys(ids))} if ids else {}))
    elif outcome.status is Status.SUCCESS and count_reports(context, stage.id):
        yield Discard(ReviewKey.REPORTS, {"stageId": stage.id})


def commit_events(before: Context, after: Context) -> Iterator[tuple[str, dict[str, Any]]]:
    """Announce how many reports and findings are open after a commit that changed them."""
    reports, found = after.list_at(ReviewKey.REPORTS), count_open(after)
    if reports != before.list_at(ReviewKey.REPORTS) or found != count_open(before):
        yield FINDINGS_CHANGED, {"reports": len(reports), "findings": found, "outstanding": len(reports)}


def count_reports(context: Context, stage: str | None) -> int:
    """The number of open reports, of all stages or of one."""
    reports = context.list_at(ReviewKey.REPORTS)
    if stage is None:
        return len(reports)
    return sum(1 for report in reports if isinstance(report, dict) and report.get("stageId") == stage)


def count_open(context: Context) -> int:
    """The number of open findings of the run, as of the last stage that changed it."""
    return _counts(context, "open", None)


def count_findings(context: Context, stage: str | None) -> int:
    """The number of open findings of the run that are to be fixed, of all stages or of one; 0 without a report."""
    if not count_reports(context, stage):
        return 0
    return max(1, _counts(context, "to_be_fixed", stage))


def _counts(context: Context, name: str, stage: str | None) -> int:
    """A number of `ReviewKey.OPEN`, to which a stage can write anything."""
    counts = context.get(ReviewKey.OPEN)
    counts = counts if isinstance(counts, dict) else NOTHING_OPEN
    stages = counts.get("stages")
    found = counts.get(name) if stage is None else stages.get(stage, 0) if isinstance(stages, dict) else 0
    return found if isinstance(found, int) else 0


def last_verdict(context: Context, _: str | None) -> str:
    """The verdict of the last structured review, or "none"."""
    verdict = context.get(ReviewKey.VERDICT)
    return verdict if isinstance(verdict, str) else "none"


def stall_reason(context: Context, _: str | None) -> str:
    """Why another round of fixing would not help; empty if it may."""
    return str(context.get(ReviewKey.STALLED) or "")


def is_reporting(stage: BaseStage) -> bool:
    """Whether a stage's failures are reports: those of reviews and tools are."""
    return is_review(stage) or isinstance(stage, ToolStage)


def is_asked_for_findings(stage: BaseStage) -> bool:
    """Whether a stage is asked for findings that code can read."""
    return is_review(stage) or (isinstance(stage, ToolStage) and stage.findings is not FindingsFormat.TEXT)


def _report(stage: BaseStage, visit: int, outcome: Outcome, context: Context, at: float) -> dict[str, Any]:
    """One entry of `review.findings`. `iteration` is the stage's visit, which never restarts."""
    if isinstance(stage, ToolStage) and outcome.failure is not None:
        reason = outcome.failure.digest
        response = "\n".join(filter(None, (outcome.failure.stdout_tail, outcome.failure.stderr_tail)))
    else:
        base = response_base(stage)
        reason = outcome.reason
        response = str(context.get(full_response_key(base)) or context.get(response_key(base)) or "")
    return {
        "stageId": stage.id,
        "iteration": visit,
        "status": str(outcome.status),
        "failureReason": reason,
        "response": response,
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds"),
    }
