"""The contract: every hook that a plugin may implement.

A plugin is a module or an object with functions of these names, each marked with `hookimpl` and taking any of the
arguments listed here. Names and arguments are checked when the plugin is registered, and what it returns against the
annotations here; None is nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pluggy

from pipeline.engine.context import Context
from pipeline.engine.events import Event
from pipeline.engine.ports import Assessment, Backend, Briefing, Concluded, Conclusion, Handler, Job, Owned, PlainData
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import State
from pipeline.language.diagnostics import Rule
from pipeline.language.model import BaseStage, StageKind

PROJECT = "awf"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def before_stage(stage: BaseStage, visit: int, state: State) -> Mapping[str, PlainData] | None:
    """Note what is to be kept with an attempt that is about to start.

    It is plain data, recorded with the outcome as `Outcome.kept`, so that `conclude` has it in any process. The first
    call in a process is also the moment to repair what a crash left behind.
    """


@hookspec
def conclude(visits: Sequence[Concluded], context: Context, state: State, at: float) -> Conclusion | None:
    """Amend outcomes, change the context and add to the ledger before visits are recorded.

    Visits are concluded together: one, or all branches of a parallel stage, in file order. `context` and `state` are
    those before the visits. Plugins are asked in the order of registration, and each sees the outcomes as the earlier
    ones amended them. If an outcome is amended to `error`, its visit runs again when the run is resumed, and of the
    conclusion only `lines` count; the other branches of its stage stay done and are concluded again with it. A visit
    that could not do its job is concluded alone, with the status `error`: only `lines` count then, too.
    """


@hookspec
def committed(before: Context, after: Context) -> Mapping[str, Mapping[str, Any]]:
    """Act on a commit, which may have changed the context, and return events to emit: data by kind."""


@hookspec
def on_event(event: Event) -> None:
    """Hear of something that happened in a run."""


@hookspec
def brief(job: Job) -> Briefing | None:
    """Add to what a stage is given: to the summary before an agent's prompt, or to the environment of a command."""


@hookspec
def answer_format(stage: BaseStage) -> str | None:
    """Tell an agent, after its prompt, about the form of its answer."""


@hookspec
def read_answer(job: Job, answers: Sequence[str]) -> Assessment | None:
    """Read all answers of a review, if they are machine-readable. An agent that was asked again gave several.

    A `problem` and a `wish` are each asked about once. After that the answer is taken as it is, and is an error if it
    still has a problem.
    """


@hookspec
def read_report(job: Job, report: Path) -> Assessment | None:
    """Read the report of a tool stage, if this plugin knows its format."""


@hookspec
def expression_functions() -> Mapping[str, ExpressionFunction]:
    """Provide the functions behind `findings()`, `reports()` and `verdict()` in conditions, and the `stalled` signal.

    Each takes the context and the argument of the call. It must depend on nothing else. The value of a signal is its
    reason; an empty one means no signal.
    """


@hookspec
def stage_handlers() -> Mapping[StageKind, Handler]:
    """Provide handlers that replace the built-in ones, or run kinds of stages that have none."""


@hookspec
def agent_backends() -> Sequence[Backend]:
    """Provide more backends, selected by name."""


@hookspec
def objection(state: State) -> str | None:
    """Say why nobody but a person may approve now, as with `--auto-approve`. The run waits for a person then."""


@hookspec
def trackers() -> Mapping[str, Callable[..., Any]]:
    """Provide more issue trackers for deferred findings: by name, the function that opens one."""


@hookspec
def workflow_rules() -> Sequence[Rule]:
    """Provide more rules for workflows. Each is called with the workflow."""


@hookspec
def owned() -> Owned | None:
    """Name the context keys and files that belong to this plugin."""
