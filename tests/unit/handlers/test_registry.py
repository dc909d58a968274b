"""A workflow is refused when nothing runs one of its kinds."""

from typing import Any

import pytest

from pipeline.errors import AwfError
from pipeline.handlers.registry import PassThroughHandler, require_handlers
from pipeline.language.model import Branch, ExitStage, ParallelStage, StageKind, ToolStage, TriageStage, Workflow


def workflow(*stages: Any) -> Workflow:
    return Workflow(name="W", version=2, start="a", stages=(*stages, ExitStage(id="end")))


def test_a_kind_that_nothing_runs_is_refused_by_name() -> None:
    """As a triage without the plugin that knows findings."""
    with pytest.raises(AwfError, match='stage "a" has the kind "triage"'):
        require_handlers(workflow(TriageStage(id="a")), {StageKind.EXIT: PassThroughHandler()})


def test_what_the_engine_runs_itself_needs_no_handler() -> None:
    """A parallel stage is run by the engine, its branches by their handlers."""
    both = ParallelStage(id="a", branches=(Branch(stage="b"), Branch(stage="c")))
    stages = workflow(both, ToolStage(id="b", command="x"), ToolStage(id="c", command="y"))
    require_handlers(stages, {StageKind.TOOL: PassThroughHandler(), StageKind.EXIT: PassThroughHandler()})
