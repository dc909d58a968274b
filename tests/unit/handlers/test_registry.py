"""A workflow is refused if one of its stage kinds has no handler."""

from typing import Any

import pytest

from pipeline.errors import AwfError
from pipeline.handlers.registry import PassThroughHandler, require_handlers
from pipeline.language.model import Branch, ExitStage, ParallelStage, StageKind, ToolStage, TriageStage, Workflow


def workflow(*stages: Any) -> Workflow:
    return Workflow(name="W", version=2, start="a", stages=(*stages, ExitStage(id="end")))


def test_a_kind_without_a_handler_is_refused() -> None:
    """Such as a triage stage without the findings plugin."""
    with pytest.raises(AwfError, match='stage "a" has the kind "triage"'):
        require_handlers(workflow(TriageStage(id="a")), {StageKind.EXIT: PassThroughHandler()})


def test_a_parallel_stage_needs_no_handler() -> None:
    """The engine runs it; its branches have handlers."""
    both = ParallelStage(id="a", branches=(Branch(stage="b"), Branch(stage="c")))
    stages = workflow(both, ToolStage(id="b", command="x"), ToolStage(id="c", command="y"))
    require_handlers(stages, {StageKind.TOOL: PassThroughHandler(), StageKind.EXIT: PassThroughHandler()})
