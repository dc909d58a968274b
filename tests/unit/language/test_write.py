"""What is written reads as the same workflow."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.language.test_fuzz import SEED, mutated

import pipeline
from pipeline.language.model import (
    Access,
    Backoff,
    Branch,
    ExitStage,
    Lens,
    LlmStage,
    Loop,
    LoopExit,
    ParallelStage,
    Retry,
    ToolStage,
    Transition,
    Workflow,
    WorkflowInput,
)
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText, decode
from pipeline.language.write import write_workflow

SHIPPED = sorted((Path(pipeline.__file__).parent / "workflows").glob("*.awf.kdl"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)


def several(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """One value, or a list of two or more: a `meta` block has no shorter lists."""
    return values | st.lists(values, min_size=2, max_size=3)


META = st.dictionaries(
    TEXTS,
    several(st.recursive(SCALARS, lambda inner: st.dictionaries(TEXTS, several(inner), min_size=1, max_size=3))),
    max_size=3,
)


def reread(workflow: Workflow) -> Workflow:
    draft = parse_workflow(SourceText("written", write_workflow(workflow)))
    assert draft.hits == ()
    assert draft.workflow is not None
    return draft.workflow


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_workflows_survive(path: Path) -> None:
    """Every workflow of the package is the same after being written and read."""
    workflow = parse_workflow(decode(path.name, path.read_bytes())).workflow
    assert workflow is not None
    assert reread(workflow) == workflow


@given(st.just(SEED) | mutated())
def test_whatever_can_be_read_survives(text: str) -> None:
    """A file without problems reads the same after being written."""
    draft = parse_workflow(SourceText("generated", text))
    if draft.workflow is not None and not draft.hits:
        assert reread(draft.workflow) == draft.workflow


@given(TEXTS, TEXTS, META, st.floats(0, 1e30, exclude_min=True))
def test_every_text_and_value_survives(text: str, other: str, meta: dict[str, Any], number: float) -> None:
    """Quotes, line breaks, control characters, exact numbers and nested data are kept."""
    workflow = Workflow(
        name=text,
        version=2,
        description=other,
        goal=text,
        start="both",
        inputs=(WorkflowInput(name="a", default=text), WorkflowInput(name="b", default=number, description=other)),
        stages=(
            ParallelStage(id="both", branches=(Branch(stage="ask"), Branch(stage="lint")), join=2),
            LlmStage(id="ask", prompt=text, access=Access.READ_ONLY, findings="review", lens=Lens.QA, meta=meta),
            ToolStage(
                id="lint",
                command=other,
                timeout=timedelta(hours=1, milliseconds=5),
                retry=Retry(max_attempts=3, backoff=Backoff.FIXED),
            ),
            ExitStage(id="exit"),
        ),
        transitions=(Transition(source="both", to="exit", priority=-3),),
        loops=(Loop(name=other, stages=("both",), exits=(LoopExit(signal="stalled", to="exit"),)),),
    )
    assert reread(workflow) == workflow
