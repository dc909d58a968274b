"""A run at a glance: its status, what it used, what went wrong, and how to resume it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from pipeline.app.history import RunHistory, StageTotals
from pipeline.engine.machine import EFFECTS, HOLD, Ask, Pause, decide
from pipeline.engine.outcome import ErrorKind, Failure, FailureClass
from pipeline.engine.ports import Journal, JournalError
from pipeline.engine.records import (
    AnyRecord,
    RunCancelled,
    RunCreated,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    VisitCompleted,
)
from pipeline.engine.state import RunStatus, State, apply
from pipeline.errors import AwfError
from pipeline.findings.keys import ReviewKey
from pipeline.language.model import HumanStage, LlmStage, ToolStage, write_duration
from pipeline.text import format_cost, format_duration

if TYPE_CHECKING:
    from pipeline.findings.lines import Line
    from pipeline.findings.reviews import Review

INTERRUPTED = "interrupted"  # recorded as running, but no process drives it
UNKNOWN = "unknown"  # recorded as running, and whether a process drives it cannot be determined now
UNPRICED = "unpriced"  # the option of a run that lists the agents whose cost is unknown

IsDriven = Callable[[str], bool | None]  # whether a process drives a run; None when nobody can tell

_ADVICE: dict[str, str] = {
    ErrorKind.AUTH: "Log the agent in, or set its key, then resume.",
    ErrorKind.QUOTA: "Wait until the quota resets, or resume with another agent.",
    ErrorKind.RATE_LIMIT: "Wait a few minutes, then resume.",
    ErrorKind.SERVER: "Resume when the provider works again.",
    ErrorKind.NETWORK: "Check the network, then resume.",
    ErrorKind.TIMEOUT: "Check its logs, raise the timeout if it needs more time, then resume.",  # FailureClass as well
    ErrorKind.SILENT: "Check its logs, raise the idle limit if it works in silence, then resume.",
    ErrorKind.NOT_FOUND: "Choose a model that the provider has, then resume.",
    ErrorKind.INVALID: "Check the model and the length of the prompt, then resume.",
    ErrorKind.BAD_FLAG: "Update the agent or change its arguments in the settings, then resume.",
    ErrorKind.CONFIG: "Check the agent with awf doctor, then resume.",
    ErrorKind.DENIED: "See what the agent was refused, or did without permission, then resume.",
    ErrorKind.EMPTY: "Resume to ask the agent again.",
    ErrorKind.PROTOCOL: "Read the answer in its logs, then resume to ask again.",  # FailureClass.PROTOCOL as well
    ErrorKind.KILLED: "Check its logs, then resume.",
    ErrorKind.SPAWN: "Check that the agent is installed with awf doctor, then resume.",
    FailureClass.SPAWN_ERROR: "Fix what kept it from starting, then resume.",
    FailureClass.INTERNAL: "Fix the plugin or report the problem, then resume.",
}


@dataclass(frozen=True)
class RunSummary:
    """A run in one line."""

    run_id: str
    workflow: str
    goal: str
    began: float
    last: float  # when its last record was written
    status: str
    reason: str
    stage: str = ""
    visit: int = 0
    visits: int = 0
    reports: int = 0  # open ones: entries of `review.findings`
    findings: int = 0  # open lines of work about what it reviews
    cost_usd: float = 0.0
    until: float | None = None  # when a used-up quota resets

    def resolve_status(self, is_driven: IsDriven) -> "RunSummary":
        """The summary with what no record tells: a run that is recorded as running may have been interrupted."""
        if self.status != RunStatus.RUNNING:
            return self
        return replace(self, status=running_status(driven=is_driven(self.run_id)))

    def as_json(self) -> dict[str, Any]:
        """The fields for a program; `outstanding` is an earlier name of `reports`."""
        return {**asdict(self), "outstanding": self.reports}


@dataclass(frozen=True)
class LimitUsage:
    """How much of a limit is used."""

    name: str
    used: float
    allowed: float | None  # None when there is no limit
    stage: str = ""  # the one with the most visits
    not_enforced: tuple[str, ...] = ()  # the agents whose cost is unknown

    def text(self, value: float) -> str:
        """Return a value of this limit in its own unit."""
        match self.name:
            case "max_duration":
                return format_duration(value)
            case "max_cost_usd":
                return format_cost(value)
            case _:
                return f"{value:g}"


@dataclass(frozen=True)
class ErroredStage:
    """A stage that could not do its job, and what to do about it."""

    stage: str
    visit: int
    attempt: int
    within: str  # the parallel stage, for a branch
    kind: str  # such as auth or quota
    reason: str
    advice: str
    until: float | None  # when its quota resets


@dataclass(frozen=True)
class RunOverview(RunSummary):
    """A run on one screen."""

    limits: tuple[LimitUsage, ...] = ()
    stages: tuple[StageTotals, ...] = ()
    errors: tuple[ErroredStage, ...] = ()  # of stages that have not run again since
    open_reports: tuple[dict[str, Any], ...] = ()  # stage, iteration and reason
    verdict: str = ""  # on what it reviews, in one line; empty without a review
    open_findings: tuple[dict[str, Any], ...] = ()  # the open lines of work, as in lists of findings
    filtered: int = 0  # items that the gate filtered or demoted
    notes: tuple[dict[str, Any], ...] = ()  # what was restored in view files, newest last: stage, visit, at and note
    tokens: int = 0
    workspace: str = ""
    resume: tuple[str, ...] | None = None  # the options `awf resume` needs; None when there is nothing to resume
    question: str = ""  # what the run asks a person, or would when resumed
    options: tuple[str, ...] = ()
    failed: str = ""  # the stage whose logs show why the run failed or paused


def summarize(history: RunHistory, findings: int = 0) -> RunSummary:
    """Return a run in one line, as recorded; `findings` is the number of open lines of work."""
    state = history.state
    return RunSummary(
        run_id=state.run_id,
        workflow=state.workflow.name,
        goal=state.goal,
        began=history.created.at,
        last=history.at,
        status=state.status,
        reason=state.reason,
        stage=state.cursor.stage,
        visit=state.cursor.visit,
        visits=state.stages_run,
        reports=len(open_reports(state)),
        findings=findings,
        cost_usd=round(state.cost_usd, 6),
        until=state.until,
    )


def summarize_run(journal: Journal, run_id: str, findings: int = 0) -> RunSummary:
    """A run of a journal in one line, even if this version of awf cannot replay it."""
    try:
        return summarize(RunHistory.read(entry.record for entry in journal.entries(run_id)), findings)
    except JournalError:
        raise
    except AwfError as error:
        return summarize_ends(journal, run_id, error.message)


def summarize_ends(journal: Journal, run_id: str, reason: str) -> RunSummary:
    """What the first and last record say about a run that this version of awf cannot replay."""
    last, first = journal.last(run_id).record, next(journal.entries(run_id)).record
    file, goal = (first.file, first.goal) if isinstance(first, RunCreated) else ("", "")
    return RunSummary(run_id, file, goal, first.at, last.at, status_after(last), reason)


def status_after(record: AnyRecord) -> RunStatus:
    """The status of a run whose last record this is."""
    match record:
        case VisitCompleted(ends=ends) if ends:
            return RunStatus(ends)
        case RunWaiting():
            return RunStatus.WAITING
        case RunPaused():
            return RunStatus.PAUSED
        case RunFailed():
            return RunStatus.FAIL
        case RunCancelled():
            return RunStatus.CANCELLED
        case _:
            return RunStatus.RUNNING


def running_status(*, driven: bool | None) -> str:
    """The status to show for a run that is recorded as running."""
    if driven is None:
        return UNKNOWN
    return str(RunStatus.RUNNING) if driven else INTERRUPTED


def overview_of(
    history: RunHistory, review: "Review | None", *, driven: bool | None, lines: "Sequence[Line] | None" = None
) -> RunOverview:
    """Return a run on one screen with its review; `driven` says whether a process drives it, None that nobody knows.

    `lines` are the open ones of the review with their files as they are called now, if the caller knows that.
    """
    state, shown = history.state, review.open if review and lines is None else lines or ()
    succeeded = state.status is RunStatus.SUCCESS
    gate = None if state.status.final else next_question(state)
    workspace = state.workspace
    return RunOverview(
        **vars(summarize(history, len(review.open) if review else 0).resolve_status(lambda _: driven)),
        limits=tuple(_limits(state)),
        stages=tuple(history.stage_totals()),
        errors=() if succeeded else tuple(_errors(history)),
        open_reports=tuple(_report_fields(report) for report in open_reports(state)),
        verdict=review.headline if review else "",
        open_findings=tuple(map(_line_fields, shown)),
        filtered=review.filtered if review else 0,
        notes=view_notes(state),
        tokens=state.tokens,
        workspace=f"{workspace.path} on {workspace.branch} at {workspace.commit[:12]}" if workspace else "",
        resume=tuple(resume_options(state)) if driven is False and not succeeded else None,
        question=gate.prompt if gate else "",
        options=tuple(option.key for option in gate.options) if gate else (),
        failed=_stage_to_inspect(history),
    )


def _limits(state: State) -> Iterator[LimitUsage]:
    settings = state.settings
    most = max(state.visits, key=lambda name: state.visits[name], default="")
    yield LimitUsage("max_visits", state.visits.get(most, 0), settings.max_visits, most)
    yield LimitUsage("max_stages", state.stages_run, settings.max_stages)
    duration = settings.max_duration.total_seconds() if settings.max_duration else None
    yield LimitUsage("max_duration", round(state.seconds, 3), duration)
    unpriced = tuple(map(str, state.options.get(UNPRICED) or ())) if settings.max_cost_usd is not None else ()
    yield LimitUsage("max_cost_usd", round(state.cost_usd, 6), settings.max_cost_usd, not_enforced=unpriced)


def _errors(history: RunHistory) -> Iterator[ErroredStage]:
    for visit in history.visits:
        if error := visit.error:
            known = history.state.progress.errors.get(visit.stage)
            yield ErroredStage(
                stage=visit.stage,
                visit=visit.visit,
                attempt=visit.attempt,
                within=visit.within,
                kind=error_kind(error.failure),
                reason=error.reason,
                advice=error_advice(error.failure),
                until=known.until if known else None,
            )


def open_reports(state: State) -> Sequence[Any]:
    """Return the open reports of a run."""
    return state.context.list_at(ReviewKey.REPORTS)


def _report_fields(report: Any) -> dict[str, Any]:
    """The fields of a report that are shown; anyone may have written to the list, so nothing is taken for granted."""
    fields = report if isinstance(report, dict) else {}
    reason = str(fields.get("failureReason") or fields.get("response") or "")
    return {"stage": fields.get("stageId", ""), "iteration": fields.get("iteration"), "reason": reason}


def _line_fields(line: "Line") -> dict[str, Any]:
    from pipeline.app.findings.queries import line_row  # noqa: PLC0415 - most runs have no findings

    return line_row(line)


def view_notes(state: State) -> tuple[dict[str, Any], ...]:
    """What was restored in view files, newest last; entries that are not notes are left out."""
    return tuple(
        {
            **{name: str(note.get(name, "")) for name in ("stage", "at", "note")},
            "visit": note["visit"] if isinstance(note.get("visit"), int) else 0,
        }
        for note in state.context.list_at(ReviewKey.NOTES)
        if isinstance(note, dict)
    )


def _stage_to_inspect(history: RunHistory) -> str:
    """The last stage with logs that errored, or, in a failed run, that did not pass."""
    state = history.state
    for visit in reversed(history.visits):
        stage = state.workflow.by_id.get(visit.stage)
        failed = state.status is RunStatus.FAIL and visit.outcome and not visit.outcome.status.passes
        if isinstance(stage, LlmStage | ToolStage) and (failed or visit.error):
            return visit.stage
    return ""


def error_kind(failure: Failure | None) -> str:
    """The kind of an error in one word, such as `auth`."""
    return str(failure.error or failure.kind) if failure else "error"


def error_advice(failure: Failure | None) -> str:
    """What to do about an error."""
    return _ADVICE.get(error_kind(failure), "Check its logs, then resume.")


def next_question(state: State) -> HumanStage | None:
    """The human stage at which a resumed run would ask; None when it would not ask next."""
    command = decide(apply(state, RunResumed(at=0.0)))
    return state.stage if isinstance(command, Ask) and isinstance(state.stage, HumanStage) else None


def resume_options(state: State) -> list[str]:
    """The options `awf resume` needs for a stopped run to continue."""
    options = list[str]()
    state = apply(state, RunResumed(at=0.0))
    # Each turn takes the obstacle away that the machine named, until it would continue.
    while isinstance(command := decide(state), Pause):
        if command.limit == HOLD:
            break  # the user has not seen the pause yet: the resumed run stops here at once and says why
        if command.limit == EFFECTS:
            options.append("--repeat")
            state = state._replace(repeat=True)
        else:
            options.append(f"--raise {command.limit}={_increase(command)}")
            unlimited = None if command.limit in ("max_duration", "max_cost_usd") else 1_000_000_000
            state = state._replace(settings=state.settings.model_copy(update={command.limit: unlimited}))
    return options


def _increase(pause: Pause) -> str:
    """By how much to raise a limit: by some visits or stages, by as much time or money as was used."""
    match pause.limit:
        case "max_visits":
            return "+10"
        case "max_stages":
            return "+100"
        case "max_duration":
            return f"+{write_duration(timedelta(minutes=ceil(pause.count / 60)))}"
        case _:
            return f"+{ceil(pause.count)}"


def resume_commands(run_id: str, options: Sequence[str], until: float | None, now: float) -> list[str]:
    """The commands that resume a run: two if a quota is still used up, to wait for it and to try now."""
    command = " ".join(["awf resume", run_id, *options])
    return [command] if until is None or until <= now else [f"{command} --wait", f"{command} --now"]
