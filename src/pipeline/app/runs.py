"""Start and resume runs on this machine, and what every run records when it starts, resumes and stops."""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from pipeline import __version__
from pipeline.app.approval import unapproved_verdict
from pipeline.app.catalog import CatalogEntry
from pipeline.app.check import CheckedWorkflow
from pipeline.app.history import read_ledger, read_review
from pipeline.app.overview import resume_options
from pipeline.app.reading import checkout_of
from pipeline.app.responders import cancel_on_request, check_answers
from pipeline.app.store import load_state, process_label
from pipeline.app.wiring import Runtime, build_services
from pipeline.backends.process_tree import kill_by_label
from pipeline.engine.driver import Driver, Plugins
from pipeline.engine.events import EventKind
from pipeline.engine.ports import Journal
from pipeline.engine.records import RunCreated, RunResumed, VisitCompleted, WorkflowAdopted
from pipeline.engine.state import RunStatus, State, apply, begin
from pipeline.errors import AwfError, ExitCode
from pipeline.files import read_text
from pipeline.findings.git import read_checkout
from pipeline.findings.keys import ReviewKey
from pipeline.language.inputs import resolve_inputs
from pipeline.language.model import (
    InputValue,
    TriageStage,
    Workflow,
    parse_duration,
    prompt_files,
)
from pipeline.redaction import Redactor

AWF_COMMAND = (sys.executable, "-P", "-c", "from pipeline.cli.main import main; main()")  # for a separate process
FIX_ERRORS_HELP = "fix what awf validate reports; awf explain CODE says more about each error"
LONGEST_TEXT = 100_000  # bytes: commands get the goal and each input in an environment variable
_LIMITS = ("max_visits", "max_stages", "max_duration", "max_cost_usd")
_EXIT_CODES = {
    RunStatus.SUCCESS: ExitCode.SUCCESS,
    RunStatus.FAIL: ExitCode.RUN_FAILED,
    RunStatus.PAUSED: ExitCode.PAUSED,
    RunStatus.WAITING: ExitCode.PAUSED,
    RunStatus.CANCELLED: ExitCode.CANCELLED,
    RunStatus.RUNNING: ExitCode.RUN_FAILED,
}
_END_EVENTS = {
    RunStatus.SUCCESS: EventKind.RUN_COMPLETED,
    RunStatus.FAIL: EventKind.RUN_FAILED,
    RunStatus.PAUSED: EventKind.RUN_PAUSED,
    RunStatus.WAITING: EventKind.RUN_PAUSED,
    RunStatus.CANCELLED: EventKind.RUN_CANCELLED,
}
WorkflowRecord = TypeVar("WorkflowRecord", RunCreated, WorkflowAdopted)


class ResumeCancelled(AwfError):
    """The user stopped a resume before the run continued."""

    exit_code = ExitCode.CANCELLED


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended, or why it stopped."""

    run_id: str
    status: RunStatus
    path: tuple[str, ...]  # the stages in the order they completed
    reports: int  # open ones
    findings: int  # open lines of work about what it reviews
    reason: str
    objection: str = ""  # the verdict that fails the change, if the run reached its exit and no person approved that
    resume: tuple[str, ...] = ()  # the options `awf resume` needs to continue it
    until: float | None = None  # when an exhausted quota resets, if that is all the run waits for
    triage: Mapping[str, Any] | None = None  # what was decided on its findings, and what became of the fixes
    triage_text: str = ""  # the same for people, as markdown

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command that ran it. A change that fails is not ready, wherever the workflow leads."""
        return ExitCode.RUN_FAILED if self.objection else _EXIT_CODES[self.status]

    def as_event(self) -> dict[str, Any]:
        """The result as the last line of `--json`."""
        return {
            "event": "run_completed",
            "run_id": self.run_id,
            "status": self.status,
            "path": list(self.path),
            "reports": self.reports,
            "findings": self.findings,
            "outstanding": self.reports,  # an earlier name of `reports`
            "reason": self.reason,
            **({"objection": self.objection} if self.objection else {}),
            **({"until": self.until} if self.until is not None else {}),
            **({"triage": self.triage} if self.triage else {}),
        }


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """How to resume a run: what changes, and whether to wait."""

    raised: Mapping[str, str] = field(default_factory=dict)  # limits, as `12`, `+10` or a duration
    options: Mapping[str, Any] = field(default_factory=dict)  # those that replace the ones it was started with
    repeat: bool = False
    now: bool = False  # do not wait for an exhausted quota to reset
    adopt: tuple[CatalogEntry, CheckedWorkflow] | None = None

    @property
    def ignores_quota(self) -> bool:
        """Whether to resume before a quota resets: the user asks for it, or changes the agent or the workflow."""
        return self.now or self.adopt is not None or bool({"backend", "agent_command", "script"} & self.options.keys())


def build_record(
    entry: CatalogEntry,
    checked: CheckedWorkflow,
    run_id: str,
    goal: str,
    options: Mapping[str, Any],
    cwd: Path,
    at: float,
) -> RunCreated:
    """The first record of a run, with the text of everything it needs."""
    if checked.workflow is None:
        raise AwfError(f'"{checked.source.name}" has errors and cannot be run', help=FIX_ERRORS_HELP)
    check_inputs(checked.workflow, options.get("inputs", {}))
    inputs = {f'the input "{name}"': str(value) for name, value in options.get("inputs", {}).items()}
    for what, text in {"the goal": goal, **inputs}.items():
        if (size := len(text.encode(errors="replace"))) > LONGEST_TEXT:
            words = f"{what} is too long: {size:,} bytes, the limit is {LONGEST_TEXT:,}"
            raise AwfError(words, help="put it into a file and name the file instead")
        if "\0" in text:
            raise AwfError(f"{what} contains a NUL character, which commands cannot receive", help="remove it")
    return RunCreated(
        at=at,
        run_id=run_id,
        file=checked.source.name,
        source=checked.source.text,
        prompts=read_prompts(entry, checked.workflow),
        goal=goal,
        options=dict(options),
        cwd=str(cwd),
        version=__version__,
    )


def check_inputs(workflow: Workflow, given: Mapping[str, InputValue]) -> None:
    """Raise AwfError for the first input that is missing, unknown or unsuitable."""
    _, problems = resolve_inputs(workflow, given)
    if problems:
        raise problems[0]


def build_adoption(entry: CatalogEntry, checked: CheckedWorkflow, redactor: Redactor, at: float) -> WorkflowAdopted:
    """The record of a changed workflow that a run continues with."""
    if checked.workflow is None:
        raise AwfError(f'"{checked.source.name}" has errors and cannot be adopted', help=FIX_ERRORS_HELP)
    prompts = read_prompts(entry, checked.workflow)
    adopted = WorkflowAdopted(at=at, file=checked.source.name, source=checked.source.text, prompts=prompts)
    return redact_record(redactor, adopted)


def read_prompts(entry: CatalogEntry, workflow: Workflow) -> dict[str, str]:
    """The texts of a workflow's prompt files, which must exist."""
    help = "a prompt file must be readable UTF-8 text"
    return {path: read_text(entry.prompt(path) or Path(path), help) for path in prompt_files(workflow)}


def redact_record(redactor: Redactor, record: WorkflowRecord) -> WorkflowRecord:
    """The record without secrets in its goal, options and prompts; a secret in the workflow itself is refused."""
    _refuse_secret(redactor, f'the workflow "{record.file}"', record.source)
    clean: dict[str, Any] = {"prompts": redactor.value(record.prompts)}
    if isinstance(record, RunCreated):
        clean |= {"goal": redactor.text(record.goal), "options": redact_options(redactor, record.options)}
    return record.model_copy(update=clean)


def redact_options(redactor: Redactor, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a run without secrets; a secret in the agent's command is refused."""
    _refuse_secret(redactor, "the agent's command", " ".join(options.get("agent_command") or ()))
    clean: dict[str, Any] = redactor.value(options)
    return clean


def _refuse_secret(redactor: Redactor, what: str, text: str) -> None:
    """Refuse a secret in text that is executed: with the secret redacted it would silently do something else."""
    if redactor.text(text) == text:
        return
    lines = [number for number, line in enumerate(text.split("\n"), 1) if redactor.text(line) != line]
    where = f" in line {lines[0]}" if lines and "\n" in text else ""
    help = 'name the variable that holds it, such as "$MY_TOKEN", and the command gets its value'
    raise AwfError(f"{what} contains a secret{where}, which would be recorded", help=help)


def with_head(record: RunCreated, environ: Mapping[str, str]) -> RunCreated:
    """The record with the commit that is checked out where the run starts."""
    return record.model_copy(update={"head": read_checkout(Path(record.cwd), environ).head})


async def start(record: RunCreated, journal: Journal, runtime: Runtime, workflow: Workflow | None = None) -> RunResult:
    """Start a run and drive it until it stops; `workflow` is that of the record, if it has been read already."""
    record = redact_record(runtime.redactor, with_head(record, runtime.environ))
    cancellations = runtime.mailbox.cancel_requests(record.run_id)
    with journal.lock(record.run_id):
        state = begin(record, workflow)
        services = build_services(state, journal, runtime)  # refuses a run without an agent before it is recorded
        journal.create(record.run_id, record)
        return await _drive(Driver(state, services), EventKind.RUN_STARTED, runtime, cancellations)


async def resume(run_id: str, request: ResumeRequest, journal: Journal, runtime: Runtime) -> RunResult:
    """Continue a run where its journal ends and drive it until it stops."""
    cancellations = runtime.mailbox.cancel_requests(run_id)
    with journal.lock(run_id):
        state = load_state(journal, run_id)
        adopted, resumed = resume_records(state, request, runtime.redactor)
        kill_by_label(process_label(runtime.store, run_id))  # a killed process may have left programs running
        services = build_services(state._replace(options={**state.options, **resumed.options}), journal, runtime)
        driver = Driver(state, services)
        if not (request.ignores_quota or await _quota_has_reset(driver, runtime, cancellations)):
            return result_of(driver.state, journal)
        try:
            torn = await driver.restore_workspace()
        except asyncio.CancelledError:
            words = f"run {run_id} was not resumed: it was stopped while its workspace was being restored"
            raise ResumeCancelled(words, help=f"nothing was recorded; resume with: awf resume {run_id}") from None
        now = services.clock.now()
        if adopted:  # recorded only now, so that a refused resume changes nothing
            adopted = adopted.model_copy(update={"at": now})
            journal.append(run_id, adopted)
            state = apply(state, adopted)
        resumed = resumed.model_copy(update={"at": now, "torn": torn})
        journal.append(run_id, resumed)
        driver = Driver(apply(state, resumed), services)
        return await _drive(driver, EventKind.RUN_RESUMED, runtime, cancellations)


def resume_records(
    state: State, request: ResumeRequest, redactor: Redactor
) -> tuple[WorkflowAdopted | None, RunResumed]:
    """The records by which a run continues as requested, not yet dated; raises AwfError when it cannot."""
    refuse_finished(state)
    options = redact_options(redactor, dict(request.options))
    adopted = build_adoption(*request.adopt, redactor, 0.0) if request.adopt else None
    after = apply(state, adopted) if adopted else state  # refuses a workflow that no longer has the current stage
    check_answers(options.get("answers", {}), after.workflow)
    names = {item.name for item in after.workflow.inputs}  # a changed workflow may have dropped some
    given = after.options.get("inputs", {})
    check_inputs(after.workflow, {name: value for name, value in given.items() if name in names})
    raised = parse_raised_limits(after, request.raised)
    return adopted, RunResumed(at=0.0, raised=raised, options=options, repeat=request.repeat)


def refuse_finished(state: State) -> None:
    """Refuse to resume a run that has succeeded; every other run can continue."""
    if state.status is RunStatus.SUCCESS:
        help = f"see: awf why {state.run_id}; start another with: awf run"
        raise AwfError(f"run {state.run_id} has finished ({state.reason})", help=help)


async def _quota_has_reset(driver: Driver, runtime: Runtime, cancellations: int) -> bool:
    """Whether an exhausted quota has reset; a process that may wait does so first, and records a cancelled wait."""
    state, services = driver.state, driver.services
    if state.until is None or state.until <= services.clock.now():
        return True
    if not services.waits:
        return False
    data: dict[str, Any] = {"status": state.status, "reason": state.reason, "until": state.until}
    services.plugins.emit(EventKind.RUN_PAUSED, state, *state.cursor, **data)
    try:
        with cancel_on_request(driver, runtime.mailbox, cancellations):
            await services.clock.sleep_until(state.until)
    except asyncio.CancelledError:
        driver.cancel(driver.cancelled_because)
        emit_end(services.plugins, driver.state, result_of(driver.state, services.journal))
        return False
    return True


async def _drive(driver: Driver, event: EventKind, runtime: Runtime, cancellations: int) -> RunResult:
    """Drive a run until it stops, or until there are more cancel requests than when it was locked."""
    services, state = driver.services, driver.state
    services.plugins.emit(event, state, *state.cursor, goal=state.goal, workflow=state.workflow.name)
    with cancel_on_request(driver, runtime.mailbox, cancellations):
        await driver.drive()
    if driver.state.status.final or driver.state.status is RunStatus.CANCELLED:
        checkout_of(runtime.store, state.run_id, runtime.environ).remove()
    result = result_of(driver.state, services.journal)
    emit_end(services.plugins, driver.state, result)
    return result


def emit_end(plugins: Plugins, state: State, result: RunResult) -> None:
    """Tell the listeners how a run ended, or where it stopped."""
    counts = {"reports": result.reports, "findings": result.findings, "outstanding": result.reports}
    data: dict[str, Any] = {"status": result.status, "reason": result.reason, **counts}
    plugins.emit(_END_EVENTS[state.status], state, *state.cursor, **data)


def result_of(state: State, journal: Journal, ledger: Journal | None = None) -> RunResult:
    """The result of a run, with the path it took; `ledger` is the journal of its findings where it has its own."""
    reports = len(state.context.list_at(ReviewKey.REPORTS))
    review = read_review(ledger or journal, state.run_id)
    findings = len(review.open) if review else 0
    options = () if state.status is RunStatus.SUCCESS else tuple(resume_options(state))
    path = path_of(journal, state.run_id)
    result = RunResult(state.run_id, state.status, path, reports, findings, state.reason, "", options, state.until)
    if state.status is RunStatus.SUCCESS:
        result = replace(result, objection=unapproved_verdict(state, journal, review))
    if not any(isinstance(stage, TriageStage) and stage.id in state.visits for stage in state.workflow.stages):
        return result
    from pipeline.findings.walk.report import render_report, report_data  # noqa: PLC0415 - few runs have a triage
    from pipeline.findings.walk.session import triage_of_run  # noqa: PLC0415 - as above

    known = read_ledger(ledger or journal)
    walk = triage_of_run(known, state.run_id) if known else None
    return replace(result, triage=report_data(walk), triage_text=render_report(walk)) if walk else result


def path_of(journal: Journal, run_id: str) -> tuple[str, ...]:
    """The stages of a run in the order they completed; branches in the order of the file, before their stage."""
    path: list[str] = []
    for entry in journal.entries(run_id):
        if isinstance(entry.record, VisitCompleted):
            path += [branch.stage for branch in entry.record.branches]
            path.append(entry.record.stage)
    return tuple(path)


def parse_raised_limits(state: State, raised: Mapping[str, str]) -> dict[str, float]:
    """The new values of limits, from `12`, `+10`, `2h` or `+30m`."""
    values = {}
    for name, text in raised.items():
        if name not in _LIMITS:
            raise AwfError(f'unknown limit "{name}"', help=f"the limits are {', '.join(_LIMITS)}")
        timed, digits = name == "max_duration", text.removeprefix("+")
        number = 0.0
        with suppress(ValueError):
            number = parse_duration(digits).total_seconds() if timed else float(digits)
        if not 0 < number < inf:
            example = "+30m" if timed else "+10"
            raise AwfError(f'"{text}" is not a value for {name}', help=f"write --raise {name}={example}")
        current = getattr(state.settings, name) or 0 if text.startswith("+") else 0
        values[name] = number + (current.total_seconds() if isinstance(current, timedelta) else current)
    return values
