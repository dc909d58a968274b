"""THE PLUGIN: what a run's stages report accumulates in its context, and what code can read of it goes into the ledger.

The ledger and all that belongs to it is loaded when there is something for it: most stages have nothing. Trouble with
the ledger or its files is raised, so that the run pauses: a finding that cannot be kept is never passed over.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.backends.checkout import VIEWS
from pipeline.engine.ports import RUNS, Journal
from pipeline.findings import accumulate
from pipeline.findings.file import FindingsFile
from pipeline.findings.git import main_checkout
from pipeline.findings.keys import ReviewKey
from pipeline.language.model import FindingsFormat, LlmStage, ToolStage, is_review
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

LOOKS_LIKE_FINDINGS = re.compile(r"""["'](?:findings|severity)["']\s*:""")
_ANSWER = re.compile(r"\[\s*FINDING\s", re.IGNORECASE)


class ReviewFindings:
    """The findings of one run."""

    def __init__(
        self,
        journal: Journal,
        root: Path,
        environ: Mapping[str, str],
        store: Path | None = None,
        now: Callable[[], float] = time.time,
        trackers: Callable[[], Mapping[str, Callable[..., Any]]] = dict,
        deciders: "Sequence[Decider]" = (),
        trusted: Collection[str] = (),
    ) -> None:
        self._journal = journal
        self._root = root  # where the run was started; what shows its findings is in the main checkout of that
        self._home = main_checkout(root)
        self._environ = environ
        self._store = store  # where the logs of its stages are
        self._now = now
        self._trackers = trackers  # that plugins bring
        self._deciders = deciders  # who can be asked about findings here
        self._clerk: RunFindings | None = None  # loaded when it is needed
        self._file: FindingsFile | None = None  # of the run's open reports
        self._trusted = trusted  # the commands that the user lets take records

    def _at_work(self) -> "RunFindings":
        """The clerk. No property: whoever registers plugins looks at all their properties."""
        if self._clerk is None:
            from pipeline.findings.ledger import LedgerStore  # noqa: PLC0415 - see the module's first words
            from pipeline.findings.run_findings import RunFindings  # noqa: PLC0415 - as above

            book = LedgerStore(self._journal)
            self._clerk = RunFindings(book, self._root, self._environ, self._now, self._store, trusted=self._trusted)
        return self._clerk

    @hookimpl
    def read_answer(self, job: Job, answers: Sequence[str]) -> Assessment | None:
        """Assess a review by the findings in its answers; None if there are none that code can read."""
        found = any(LOOKS_LIKE_FINDINGS.search(answer) for answer in answers)
        return self._at_work().read_answer(job, answers) if found else None

    @hookimpl
    def read_report(self, job: Job, report: Path) -> Assessment:
        """Assess a tool by its report."""
        return self._at_work().read_report(job, report)

    @hookimpl
    def stage_variables(self, job: Job) -> Mapping[str, str]:
        """Tell commands where the open reports are."""
        return {"AWF_FINDINGS": str(self._reports_file(job))}

    @hookimpl
    def worklist(self, job: Job) -> Worklist:
        """List the findings that reports refer to one by one; after a triage, only those that were chosen."""
        context = job.context
        path = str(self._reports_file(job)) if context.list_at(ReviewKey.REPORTS) else ""
        chosen = ReviewKey.CHOSEN in context

        def render(room: int) -> str:
            if chosen:
                return self._at_work().items(context, room)
            return self._clerk.items(context, room) if self._clerk and any(finding_ids(context)) else ""

        return Worklist(render, path, replaces_reports=chosen)

    @hookimpl
    def commit_events(self, before: Context, after: Context) -> Iterator[tuple[str, dict[str, Any]]]:
        """Announce how many reports are open after a commit that changed them."""
        return accumulate.commit_events(before, after)

    @hookimpl
    def expression_functions(self) -> Mapping[str, ExpressionFunction]:
        """Answer `findings()`, `verdict()` and the `stalled` signal of loops."""
        return accumulate.expression_functions()

    def _reports_file(self, job: Job) -> Path:
        """Return the file with the open reports, brought up to date."""
        if self._file is None:
            self._file = FindingsFile(job.store.absolute() / RUNS / job.run_id / "findings.json")
        return self._file.current(job.context.list_at(ReviewKey.REPORTS))

    @hookimpl
    def stage_handlers(self) -> Mapping[StageKind, Handler]:
        """What runs triage stages."""
        return {StageKind.TRIAGE: _Triage(self._triage)}

    def _triage(self) -> Handler:
        from pipeline.findings.walk.stage import TriageHandler  # noqa: PLC0415 - see the module's first words

        return TriageHandler(self._at_work(), self._environ, self._trackers, self._deciders)

    @hookimpl
    def before_stage(self, stage: BaseStage, visit: int, state: State) -> None:
        """Note what a review is given to look at."""
        if is_review(stage) or (isinstance(stage, ToolStage) and stage.findings is not FindingsFormat.TEXT):
            self._at_work().began(stage, visit, state)

    @hookimpl
    def after_branch(self, stage: BaseStage, visit: int) -> Iterator[Operation]:
        """What the end of a parallel stage needs to know of a branch, whichever process comes to it."""
        return self._clerk.kept(stage, visit) if self._clerk else iter(())

    @hookimpl
    def after_stage(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> Iterator[Operation | LedgerLine]:
        """Reports for the context, and events for the ledger where there are any. Raises what keeps it from that."""
        if not (self._clerk or found_key(stage.id) in context or self._concerns(stage, outcome)):
            return accumulate.after_stage(stage, visit, outcome, context, at)
        clerk = self._at_work()
        try:
            return iter(list(clerk.after_stage(stage, visit, outcome, context, state, at)))
        except BaseException:
            clerk.forget()
            raise

    @hookimpl
    def after_commit(self) -> None:
        """What is committed is shown. Raises when it cannot be."""
        if self._clerk:
            self._clerk.committed()

    @hookimpl
    def on_resume(self, run_id: str) -> None:
        """What a crash left of the files is put right."""
        if next(self._journal.ledger(), None):
            self._at_work().resumed(run_id)

    def _concerns(self, stage: BaseStage, outcome: Outcome) -> bool:
        """Whether a stage may have said or done something to a finding."""
        if not isinstance(stage, LlmStage | ToolStage):
            return False
        opening = outcome.response.find("[")
        answers = opening >= 0 and _ANSWER.search(outcome.response, opening) is not None
        return answers or viewed(self._home)


class _Triage:
    """Runs triage stages. What that takes is loaded at the first of them."""

    def __init__(self, load: Callable[[], Handler]) -> None:
        self._load = load

    async def run(self, job: Job) -> Outcome | Waiting:
        return await self._load().run(job)


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
