"""The contract: every hook that a plugin may implement.

A plugin is a module or an object with functions of these names, each marked with `hookimpl` and taking any of the
arguments named here. Registration checks names and arguments.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pluggy

from pipeline.engine.context import Context, Operation
from pipeline.engine.events import Event
from pipeline.engine.outcome import LedgerLine, Outcome
from pipeline.engine.ports import Backend, Handler
from pipeline.engine.state import State
from pipeline.language.diagnostics import Rule
from pipeline.language.model import BaseStage, StageKind

PROJECT = "awf"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def before_stage(stage: BaseStage, visit: int, state: State) -> None:
    """An attempt at a stage is about to begin."""


@hookspec
def after_stage(
    stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
) -> Iterable[Operation | LedgerLine]:
    """Context operations and ledger lines for a stage that is done; committed with it.

    `context` holds what the stage itself left; `state` is the run as it was before. A stage that could not do its job
    has the status `error`: of what is returned for it only ledger lines count.
    """


@hookspec
def after_branch(stage: BaseStage, visit: int, outcome: Outcome, state: State) -> Iterable[Operation]:
    """Context operations that are recorded with a branch of a parallel stage, so that a crash does not lose them.

    They are applied when the branches are joined. `after_stage` is called for each branch then, in file order.
    """


@hookspec
def after_commit() -> None:
    """What the last stage left is committed, with all that plugins added to it."""


@hookspec
def on_resume(run_id: str) -> None:
    """A run is taken up again, before its next stage."""


@hookspec
def summary_sections(stage: BaseStage, visit: int, context: Context, state: State) -> Iterable[str]:
    """Sections of the text about the run that an agent is given before its prompt."""


@hookspec
def stage_handlers() -> Mapping[StageKind, Handler]:
    """Handlers that take the place of the built-in ones."""


@hookspec
def agent_backends() -> Iterable[Backend]:
    """More backends, chosen by their names."""


@hookspec
def trackers() -> Mapping[str, Callable[..., Any]]:
    """More places where deferred findings become tickets: by name, what opens each."""


@hookspec
def workflow_rules() -> Iterable[Rule]:
    """More rules for workflows. Each is called with the workflow."""


@hookspec
def on_event(event: Event) -> None:
    """Something happened in a run."""
