"""The findings of a run that code can read: they go into the ledger with their stage, and from there into files.

The files are written after the commit, and again when a run is taken up: whatever was lost with a process comes back
from the ledger.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from pipeline.engine.bookkeeping import Line
from pipeline.engine.context import Append, Context, Delete, Key, Operation, Set
from pipeline.engine.handler import Job, Judged
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.findings import accumulate
from pipeline.findings.answers import claims, read_answers, verified
from pipeline.findings.book import Book
from pipeline.findings.claims import Return, Returned
from pipeline.findings.codecs import FORMATS
from pipeline.findings.codecs.review_text import find_return
from pipeline.findings.events import AnyEvent, encode
from pipeline.findings.intake.policy import Policy
from pipeline.findings.ledger import Ledger
from pipeline.findings.listing import listing
from pipeline.findings.model import Finding, Gate
from pipeline.findings.model import State as FindingState
from pipeline.findings.passes import Pass
from pipeline.findings.plugin import VIEWS
from pipeline.findings.repository import facts
from pipeline.findings.rounds import stalled
from pipeline.findings.showing import show, standing, take_back
from pipeline.findings.taking import About, Taken, take
from pipeline.findings.verdicts import stage_status
from pipeline.language.model import BaseStage, FindingsFormat, LlmStage, ToolStage, is_review

LARGEST = 256 * 1024 * 1024  # bytes of a report


class Desk:
    """Takes in what the stages of one run found."""

    def __init__(
        self,
        book: Book,
        root: Path,
        environ: Mapping[str, str],
        policy: Policy = Policy(),  # noqa: B008 - it is frozen
    ) -> None:
        self._book = book
        self._root = root  # where the run works: the worktree once it has one
        self._environ = environ
        self._policy = policy
        self._returned: dict[tuple[str, int], Return] = {}  # by stage and visit, until the stage is done
        self._pending: list[AnyEvent] = []  # handed out, and not yet committed
        self._unshown: list[Pass] = []

    def read_answer(self, job: Job, answer: str) -> Judged | None:
        """What a review's answer comes to by the findings in it; None when it has none that code can read."""
        found = find_return(answer)
        if found is None:
            return None
        stage = job.stage
        reviewer = (stage.lens if isinstance(stage, LlmStage) else None) or stage.id
        return self._judged(job, FORMATS["review"](found.encode(), reviewer=reviewer, root=str(job.directory)))

    def read_report(self, job: Job, report: Path) -> Judged:
        """What a tool's report comes to."""
        stage = job.stage
        assert isinstance(stage, ToolStage)  # noqa: S101 - only tools have reports
        with report.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            return Judged(problem=f"it is larger than {LARGEST >> 20} MB")
        return self._judged(job, _decoder(stage.findings)(data, reviewer=stage.id, root=str(job.directory)))

    def after_stage(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> Iterator[Operation | Line]:
        """Reports for the context, events for the ledger, and the verdict when there is a new one."""
        self._root = _directory(state)
        returned = self._returned.pop((stage.id, visit), None)
        taken = self._taken(returned, stage, visit, state, at) if returned and not _lost(outcome) else None
        events = [*self._edits(stage, at), *self._claims(stage, visit, outcome, state, at)]
        events += taken.events if taken else ()
        self._pending += events
        yield from (Line(encode(event)) for event in events)
        yield from self._reports(stage, visit, outcome, context, at, taken)
        if taken is not None:
            self._unshown.append(taken.passed)
            yield from self._verdict(taken.passed, context)

    def resumed(self, run_id: str) -> None:
        """Put right what a crash left of the files of a run's last pass."""
        self._unshown += [one for one in self._book.ledger().passes.values() if one.run == run_id][-1:]
        self.committed()

    def committed(self) -> None:
        """Show what was handed out, now that it is there for good."""
        self._pending.clear()
        if self._unshown:
            passed = self._unshown[-1]
            self._unshown.clear()
            shown = show(self._root, self._book.ledger(), passed, passed.started_at)
            if shown.problems:
                raise AwfError("; ".join(shown.problems))

    def items(self, context: Context, room: int) -> str:
        """Every open finding of the ledger for an agent, in at most so many characters, when reports refer to them."""
        wanted = {id for report in context.list_at(Key.FINDINGS) for id in _ids(report)}
        ledger = self._ahead()
        return listing([finding for finding in ledger if finding.id in wanted and _outstanding(finding)], room)

    def _judged(self, job: Job, returned: Return) -> Judged:
        if returned.status is Returned.MALFORMED:
            return Judged(problem=returned.problem or "it is not what it should be")
        self._returned[job.stage.id, job.visit] = returned
        taken = self._taken(returned, job.stage, job.visit, job.state, 0.0)
        counting = [
            draft
            for index, draft in enumerate(taken.drafts)
            if index not in taken.outcome.suppressed and not draft.pre_existing
        ]
        return Judged(stage_status(counting), _reason(counting))

    def _taken(self, returned: Return, stage: BaseStage, visit: int, state: State, at: float) -> Taken:
        root = _directory(state)
        head, branch = facts(root, self._environ)
        about = About(
            root=root,
            environment=self._environ,
            at=_iso(at),
            seconds=int(at),
            head=head,
            branch=branch,
            task=state.run_id,
            caller="awf",
            round=visit,
            run=state.run_id,
            stage=stage.id,
            visit=visit,
        )
        return take([returned], self._ahead(), about, self._policy)

    def _ahead(self) -> Ledger:
        """The ledger with what was handed out to be committed."""
        ledger = self._book.ledger()
        if not self._pending:
            return ledger
        ahead = ledger.copy()
        for event in self._pending:
            ahead.apply(event)
        return ahead

    def _edits(self, stage: BaseStage, at: float) -> tuple[AnyEvent, ...]:
        """What an agent or a tool changed in the files that show findings."""
        if not isinstance(stage, LlmStage | ToolStage):
            return ()
        if not any((self._root / name).is_dir() for name in VIEWS):
            return ()
        return take_back(self._root, self._ahead(), _iso(at)).events

    def _claims(self, stage: BaseStage, visit: int, outcome: Outcome, state: State, at: float) -> Iterator[AnyEvent]:
        """What a stage says of findings by their numbers."""
        if not isinstance(stage, LlmStage) or outcome.failure is not None:
            return
        answers = read_answers(outcome.response)
        if answers and is_review(stage):
            yield from verified(answers, self._ahead(), by=stage.id, at=_iso(at))
        elif answers:
            yield from claims(answers, self._ahead(), run=state.run_id, round=visit, by=stage.id, at=_iso(at))

    def _reports(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, at: float, taken: Taken | None
    ) -> Iterator[Operation]:
        for operation in accumulate.after_stage(stage, visit, outcome, context, at):
            if taken is not None and isinstance(operation, Append):
                value = {**operation.value, "findingIds": list(taken.passed.finding_ids)}
                yield replace(operation, value=value)
            else:
                yield operation

    def _verdict(self, passed: Pass, context: Context) -> Iterator[Operation]:
        ledger = self._ahead()
        said = standing(ledger, passed)
        yield Set(Key.VERDICT, str(said.after_verification))
        if why := stalled(ledger, passed.run):
            yield Set(Key.STALLED, why)
        elif Key.STALLED in context:
            yield Delete(Key.STALLED)
        if said.abort:
            yield Set(Key.HOLD, "a finding endangers the whole system: a person has to look before anything is fixed")


def _decoder(wanted: FindingsFormat) -> Callable[..., Return]:
    return FORMATS[str(wanted)]


def _lost(outcome: Outcome) -> bool:
    """Whether a later attempt of the same visit ended without an answer."""
    return outcome.status is Status.RETRY


def _directory(state: State) -> Path:
    return state.workspace.path if state.workspace else state.cwd


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _ids(report: object) -> list[str]:
    ids = report.get("findingIds") if isinstance(report, dict) else None
    return [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []


def _outstanding(finding: Finding) -> bool:
    return finding.state.active or finding.state is FindingState.FIX_CLAIMED


def _reason(counting: list[Finding]) -> str:
    if not counting:
        return ""
    must = sum(finding.gate.value is Gate.MUST for finding in counting)
    first = counting[0]
    where = f" ({first.place.path}:{first.place.start})" if first.place and first.place.start else ""
    return f"{must} to be fixed, {len(counting) - must} suggested; first: {first.title}{where}"
