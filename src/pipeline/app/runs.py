"""Runs from outside: start one, take one up again, look at one."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from pipeline import __version__
from pipeline.app.catalog import CatalogEntry
from pipeline.app.check import CheckedWorkflow
from pipeline.app.overview import resume_options
from pipeline.app.responders import cancel_on_request, check_answers
from pipeline.app.wiring import Runtime, build_services, process_label
from pipeline.backends.process_tree import kill_by_label
from pipeline.engine.context import Key
from pipeline.engine.driver import Driver, Plugins
from pipeline.engine.events import EventKind
from pipeline.engine.ports import Journal
from pipeline.engine.records import RunCreated, RunResumed, VisitCompleted, WorkflowAdopted
from pipeline.engine.state import RunStatus, State, apply, begin, replay
from pipeline.errors import AwfError, ExitCode
from pipeline.files import read_text
from pipeline.findings.repository import head
from pipeline.language.model import LlmStage, Workflow, parse_duration
from pipeline.redaction import Redactor

Described = TypeVar("Described", RunCreated, WorkflowAdopted)


def redact_record(redactor: Redactor, record: Described) -> Described:
    """A workflow as it is recorded, with its goal, options and prompts; one that holds a secret itself is refused."""
    _refuse_secret(redactor, f'the workflow "{record.file}"', record.source)
    said: dict[str, Any] = {"prompts": redactor.value(record.prompts)}
    if isinstance(record, RunCreated):
        said |= {"goal": redactor.text(record.goal), "options": redact_options(redactor, record.options)}
    return record.model_copy(update=said)


def redact_options(redactor: Redactor, options: dict[str, Any]) -> dict[str, Any]:
    """How a run was started; an agent's command that holds a secret is refused."""
    _refuse_secret(redactor, "the agent's command", " ".join(options.get("agent_command") or ()))
    clean: dict[str, Any] = redactor.value(options)
    return clean


def _refuse_secret(redactor: Redactor, what: str, text: str) -> None:
    """Redacted it would do something else, and nobody would know why."""
    if redactor.text(text) == text:
        return
    lines = [number for number, line in enumerate(text.split("\n"), 1) if redactor.text(line) != line]
    where = f" in line {lines[0]}" if lines and "\n" in text else ""
    help = 'name the variable that holds it, such as "$MY_TOKEN", and it is given to the command'
    raise AwfError(f"{what} holds a secret{where}, which would be recorded", help=help)


FIX_ERRORS_HELP = "mend what awf validate says of it; awf explain CODE tells more"
LONGEST_GOAL = 100_000  # bytes: a goal is handed to commands in an environment variable
_EXIT_CODES = {
    RunStatus.SUCCESS: ExitCode.SUCCESS,
    RunStatus.FAIL: ExitCode.RUN_FAILED,
    RunStatus.PAUSED: ExitCode.PAUSED,
    RunStatus.WAITING: ExitCode.PAUSED,
    RunStatus.CANCELLED: ExitCode.CANCELLED,
    RunStatus.RUNNING: ExitCode.RUN_FAILED,
}
_ENDINGS = {
    RunStatus.SUCCESS: EventKind.RUN_COMPLETED,
    RunStatus.FAIL: EventKind.RUN_FAILED,
    RunStatus.PAUSED: EventKind.RUN_PAUSED,
    RunStatus.WAITING: EventKind.RUN_PAUSED,
    RunStatus.CANCELLED: EventKind.RUN_CANCELLED,
}


class ResumeCancelled(AwfError):
    """Somebody stopped a resume before the run went on."""

    exit_code = ExitCode.CANCELLED


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run stands when nobody drives it any more."""

    run_id: str
    status: RunStatus
    path: tuple[str, ...]  # the stages in the order they completed
    outstanding: int
    reason: str
    resume: tuple[str, ...] = ()  # what `awf resume` needs so that it goes on
    until: float | None = None  # when a used-up quota resets, of a run that only has to wait

    @property
    def exit_code(self) -> ExitCode:
        """What the shell is told."""
        return _EXIT_CODES[self.status]

    def as_event(self) -> dict[str, Any]:
        """The result as the last line of `--json`."""
        return {
            "event": "run_completed",
            "run_id": self.run_id,
            "status": self.status,
            "path": list(self.path),
            "reports": self.outstanding,
            "outstanding": self.outstanding,
            "reason": self.reason,
            **({"until": self.until} if self.until is not None else {}),
        }


@dataclass(frozen=True, slots=True)
class ResumeRequest:
    """How a run is to be taken up again."""

    raised: Mapping[str, str] = field(default_factory=dict)  # settings, as `12`, `+10` or a duration
    options: Mapping[str, Any] = field(default_factory=dict)  # those of its start that are different from now on
    repeat: bool = False
    now: bool = False  # do not wait for a used-up quota to reset
    adopt: tuple[CatalogEntry, CheckedWorkflow] | None = None

    @property
    def at_once(self) -> bool:
        """Whether to resume before a quota resets: the user asks for it, or gives another agent or workflow."""
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
    """The first record of a run, with the text of everything it will need."""
    if checked.workflow is None:
        raise AwfError(f'"{checked.source.name}" has errors and cannot be run', help=FIX_ERRORS_HELP)
    if (size := len(goal.encode(errors="replace"))) > LONGEST_GOAL:
        words = f"the goal is too long: {size:,} bytes, and at most {LONGEST_GOAL:,} are taken"
        raise AwfError(words, help="put it into a file and name the file in the goal")
    if "\0" in goal:
        raise AwfError("the goal holds a NUL character, which no command can be given", help="take it out")
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


def read_prompts(entry: CatalogEntry, workflow: Workflow) -> dict[str, str]:
    """The texts of a workflow's prompt files."""
    paths = {path for stage in workflow.stages if isinstance(stage, LlmStage) for path in stage.prompt_file}
    return {path: _read_prompt(entry, path) for path in sorted(paths)}


def _read_prompt(entry: CatalogEntry, path: str) -> str:
    found = next(root / path for root in entry.prompt_roots if (root / path).is_file())
    return read_text(found, "a prompt file has to be text in UTF-8 that you may read")


async def start(record: RunCreated, journal: Journal, around: Runtime) -> RunResult:
    """Begin a run and drive it until it stops."""
    record = redact_record(around.redactor, with_head(record, around.environ))
    heard = around.letters.cancellations(record.run_id)
    with journal.own(record.run_id):
        state = begin(record)
        made = build_services(state, journal, around)  # refuses a run without an agent, before it is recorded
        journal.create(record.run_id, record)
        return await _drive(Driver(state, made), EventKind.RUN_STARTED, around, heard)


def with_head(record: RunCreated, environ: Mapping[str, str]) -> RunCreated:
    """The record with the commit that is checked out where the run begins."""
    return record.model_copy(update={"head": head(Path(record.cwd), environ)})


async def resume(run_id: str, how: ResumeRequest, journal: Journal, around: Runtime) -> RunResult:
    """Take a run up where its journal ends and drive it until it stops."""
    heard = around.letters.cancellations(run_id)
    with journal.own(run_id):
        state = load_state(journal, run_id)
        refuse_finished(state)
        options = redact_options(around.redactor, dict(how.options))
        kill_by_label(
            process_label(around.store, run_id)
        )  # whatever a killed process left running would work beside its repetition
        made = build_services(state._replace(options={**state.options, **options}), journal, around)
        adopted = build_adoption(*how.adopt, made.redactor, made.clock.now()) if how.adopt else None
        after = apply(state, adopted) if adopted else state  # refuses a workflow in which the run's place is gone
        check_answers(options.get("answers", {}), after.workflow)
        raised = parse_raised_limits(after, how.raised)
        waiting = Driver(state, made)
        if not (how.at_once or await _quota_has_reset(waiting, around, heard)):
            return result_of(waiting.state, journal)
        torn = await _restored(waiting)
        if adopted:  # recorded only now: whoever is refused has changed nothing
            journal.append(run_id, adopted)
        record = RunResumed(at=made.clock.now(), raised=raised, options=options, repeat=how.repeat, torn=torn)
        journal.append(run_id, record)
        driver = Driver(apply(after, record), made)
        driver.prepare_resumed()
        return await _drive(driver, EventKind.RUN_RESUMED, around, heard)


def refuse_finished(state: State) -> None:
    """Refuse to resume a run that has succeeded; every other run can continue."""
    if state.status is RunStatus.SUCCESS:
        help = f"look at it with: awf why {state.run_id}; start another with: awf run"
        raise AwfError(f"run {state.run_id} has finished ({state.reason})", help=help)


async def _quota_has_reset(driver: Driver, around: Runtime, heard: int) -> bool:
    """Wait until a used-up quota resets, in a process that stays; in any other say whether it has.

    A wait that is cancelled leaves a cancelled run.
    """
    state, made = driver.state, driver.services
    if state.until is None or state.until <= made.clock.now():
        return True
    if not made.waits:
        return False
    stage, visit = state.cursor
    told: dict[str, Any] = {"status": state.status, "reason": state.reason, "until": state.until}
    made.plugins.tell(EventKind.RUN_PAUSED, state, stage, visit, **told)
    try:
        with cancel_on_request(driver, around.letters, heard):
            await made.clock.sleep_until(state.until)
    except asyncio.CancelledError:
        driver.cancel(driver.cancelled_because)
        emit_end(made.plugins, driver.state, result_of(driver.state, made.journal))
        return False
    return True


async def _restored(driver: Driver) -> str:
    """The ref that keeps what was torn in the workspace, which is put back."""
    run_id = driver.state.run_id
    try:
        return await driver.restore_workspace()
    except asyncio.CancelledError:
        words = f"run {run_id} was not taken up: it was stopped while its workspace was put back"
        raise ResumeCancelled(words, help=f"nothing was recorded; resume with: awf resume {run_id}") from None


def build_adoption(entry: CatalogEntry, checked: CheckedWorkflow, redactor: Redactor, at: float) -> WorkflowAdopted:
    """The record of a changed workflow."""
    if checked.workflow is None:
        raise AwfError(f'"{checked.source.name}" has errors and cannot be adopted', help=FIX_ERRORS_HELP)
    found = WorkflowAdopted(
        at=at, file=checked.source.name, source=checked.source.text, prompts=read_prompts(entry, checked.workflow)
    )
    return redact_record(redactor, found)


async def _drive(driver: Driver, beginning: EventKind, around: Runtime, heard: int) -> RunResult:
    made, state = driver.services, driver.state
    cursor = state.cursor
    made.plugins.tell(beginning, state, cursor.stage, cursor.visit, goal=state.goal, workflow=state.workflow.name)
    with cancel_on_request(driver, around.letters, heard):
        await driver.drive()
    result = result_of(driver.state, made.journal)
    emit_end(made.plugins, driver.state, result)
    return result


def emit_end(plugins: Plugins, state: State, result: RunResult) -> None:
    """Let everybody know how a run ended, or where it stopped."""
    told = {"status": result.status, "reason": result.reason, "outstanding": result.outstanding}
    plugins.tell(_ENDINGS[state.status], state, state.cursor.stage, state.cursor.visit, **told)


def load_state(journal: Journal, run_id: str) -> State:
    """Where a run stands, from its records."""
    return replay(entry.record for entry in journal.entries(run_id))


def result_of(state: State, journal: Journal) -> RunResult:
    """A run's result, with the path it took."""
    outstanding = len(state.context.list_at(Key.FINDINGS))
    needed = () if state.status is RunStatus.SUCCESS else tuple(resume_options(state))
    path = path_of(journal, state.run_id)
    return RunResult(state.run_id, state.status, path, outstanding, state.reason, needed, state.until)


def path_of(journal: Journal, run_id: str) -> tuple[str, ...]:
    """The stages of a run in the order they completed; branches in the order of the file, before their stage."""
    path: list[str] = []
    for entry in journal.entries(run_id):
        if isinstance(entry.record, VisitCompleted):
            path += [branch.stage for branch in entry.record.branches]
            path.append(entry.record.stage)
    return tuple(path)


def parse_raised_limits(state: State, raised: Mapping[str, str]) -> dict[str, float]:
    """New values for limits, from `12`, `+10`, `2h` or `+30m`."""
    return {name: _parse_raised_limit(state, name, value) for name, value in raised.items()}


def _parse_raised_limit(state: State, name: str, value: str) -> float:
    limits = ("max_visits", "max_stages", "max_duration", "max_cost_usd")
    if name not in limits:
        raise AwfError(f'"{name}" is no limit', help=f"the limits are {', '.join(limits)}")
    digits = value.removeprefix("+")
    with suppress(ValueError):
        number = parse_duration(digits).total_seconds() if name == "max_duration" else float(digits)
        if 0 < number < inf:
            return number + (_present(state, name) if digits != value else 0)
    example = "+30m" if name == "max_duration" else "+10"
    raise AwfError(f'"{value}" is no value for {name}', help=f"write --raise {name}={example}")


def _present(state: State, name: str) -> float:
    present = getattr(state.settings, name) or 0
    return present.total_seconds() if isinstance(present, timedelta) else float(present)
