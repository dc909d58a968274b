"""The contract: every hook that a plugin may implement.

A plugin is a module or an object with functions of these names, each marked with `hookimpl` and taking any of the
arguments listed here. Names and arguments are checked when the plugin is registered.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pluggy

from pipeline.engine.context import Context, Operation
from pipeline.engine.events import Event
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Assessment, Backend, Handler, Job, LedgerLine, Worklist
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import State
from pipeline.language.diagnostics import Rule
from pipeline.language.model import BaseStage, StageKind

PROJECT = "awf"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def before_stage(stage: BaseStage, visit: int, state: State) -> None:
    """An attempt at a stage is about to start."""


@hookspec
def after_stage(
    stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
) -> Iterable[Operation | LedgerLine]:
    """Context operations and ledger lines to commit with a completed stage. `Hold(reason)` pauses the run after it.

    `context` includes what the stage itself changed; `state` is the run before that. A stage that could not do its job
    has the status `error`: only ledger lines count then.
    """


@hookspec
def after_branch(stage: BaseStage, visit: int, outcome: Outcome, state: State) -> Iterable[Operation]:
    """Context operations to record with a branch of a parallel stage, so that a crash does not lose them.

    They are applied when the branches are joined; `after_stage` is called for each branch then, in file order.
    """


@hookspec
def after_commit() -> None:
    """A stage was committed, with all that plugins added to it."""


@hookspec
def commit_events(before: Context, after: Context) -> Iterable[tuple[str, Mapping[str, Any]]]:
    """Events, as kind and data, to emit after a commit that changed the context."""


@hookspec
def on_resume(run_id: str) -> None:
    """A run is resumed, before its next stage."""


@hookspec
def on_event(event: Event) -> None:
    """Something happened in a run."""


@hookspec
def answer_format(stage: BaseStage) -> str | None:
    """What an agent is told about the form of its answer, after its prompt."""


@hookspec
def read_answer(job: Job, answers: Sequence[str]) -> Assessment | None:
    """What the answers of a review say, if they are machine-readable; two answers if it was asked again."""


@hookspec
def second_look(job: Job, outcome: Outcome) -> str | None:
    """What to ask a review once more before its outcome counts. Both answers are read together."""


@hookspec
def read_report(job: Job, report: Path) -> Assessment | None:
    """What the report of a tool stage says, if this plugin reads its format."""


@hookspec
def stage_variables(job: Job) -> Mapping[str, str]:
    """More environment variables for the command of a tool stage."""


@hookspec
def summary_sections(stage: BaseStage, visit: int, context: Context, state: State) -> Iterable[str]:
    """Sections for the summary that an agent is given before its prompt."""


@hookspec
def worklist(job: Job) -> Worklist | None:
    """What is left to do, which an agent's summary ends with."""


@hookspec
def expression_functions() -> Mapping[str, ExpressionFunction]:
    """The functions behind `findings()`, `reports()` and `verdict()` in conditions, and the `stalled` signal of loops.

    Each takes the context and the argument of the call. It must depend on nothing else. The value of a signal is its
    reason; an empty one means no signal.
    """


@hookspec
def stage_handlers() -> Mapping[StageKind, Handler]:
    """Handlers that replace the built-in ones, or run kinds of stages that have none."""


@hookspec
def agent_backends() -> Iterable[Backend]:
    """More backends, selected by name."""


@hookspec
def trackers() -> Mapping[str, Callable[..., Any]]:
    """More issue trackers for deferred findings: by name, the function that opens one."""


@hookspec
def workflow_rules() -> Iterable[Rule]:
    """More rules for workflows. Each is called with the workflow."""
