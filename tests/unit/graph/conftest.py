"""The workflows that the tests draw."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pipeline.language.model import (
    Branch,
    ExitStage,
    HumanOption,
    HumanStage,
    LlmStage,
    ParallelStage,
    Stage,
    Transition,
    TriageStage,
    TriageTarget,
    Workflow,
)
from pipeline.language.reader import parse_workflow
from pipeline.language.source import decode

WORKFLOWS = Path(__file__).parents[3] / "workflows"
HOSTILE = (
    "<script>alert(1)</script>",
    "]]>",
    "end",
    "\"quoted\" 'text'",
    "two\nlines\tand a tab",
    "`code` ${x} #quot; &amp; \\N \\",
    "\N{RIGHT-TO-LEFT OVERRIDE}evil \N{HEBREW LETTER ALEF}",
    "\x00\x1b[31m\ufffe",
    "1. list",
    "%%{init: {}}%%",
    "x" * 10_000,
)


@pytest.fixture(params=["implement-plan", "planning", "quick-dev"])
def shipped(request: pytest.FixtureRequest) -> Workflow:
    """Each workflow that comes with the package."""
    path = WORKFLOWS / f"{request.param}.awf.kdl"
    workflow = parse_workflow(decode(request.param, path.read_bytes())).workflow
    assert workflow is not None
    return workflow


@pytest.fixture(scope="session")
def made_of() -> Callable[[Iterable[str]], Workflow]:
    """Make a workflow whose name, description, ids, labels and conditions are the given texts."""

    def make(texts: Iterable[str]) -> Workflow:
        ids = list(dict.fromkeys(texts))
        options = tuple(HumanOption(key=str(index), label=text, to=text) for index, text in enumerate(ids))
        stages: list[Stage] = [
            *(LlmStage(id=text, prompt="x") for text in ids),
            HumanStage(id="ask", prompt="?", options=options),
        ]
        quoted = ids[-1].replace("\\", "\\\\").replace('"', '\\"')
        when = f'context("{quoted}") == "{quoted}"'
        transitions = [Transition.model_validate({"from": text, "to": "ask", "when": when}) for text in ids]
        return Workflow(
            name=ids[0],
            description=ids[-1],
            version=2,
            start=ids[0],
            stages=tuple(stages),
            transitions=tuple(transitions),
        )

    return make


@pytest.fixture
def hostile(made_of: Callable[[Iterable[str]], Workflow]) -> Workflow:
    """A workflow whose texts try to break out of the drawing."""
    return made_of(HOSTILE)


@pytest.fixture
def triage() -> Workflow:
    """A triage with both of its transitions."""
    sort = TriageStage(id="sort", apply=TriageTarget(to="fix"), done=TriageTarget(to="end"))
    stages = (sort, LlmStage(id="fix", prompt="x"), ExitStage(id="end"))
    return Workflow(name="W", version=2, start="sort", stages=stages)


@pytest.fixture
def chain() -> Workflow:
    """Five thousand stages in a row."""
    stages = tuple(LlmStage(id=f"s{index}", prompt="x") for index in range(5000))
    transitions = tuple(Transition(source=f"s{index}", to=f"s{index + 1}") for index in range(4999))
    return Workflow(name="Chain", version=2, start="s0", stages=stages, transitions=transitions)


@pytest.fixture
def crooked() -> Workflow:
    """A workflow with errors: an unconnected stage, missing ones, branches with transitions, self-loops."""
    branches = tuple(Branch(stage=name) for name in ("a", "b", "fan", "gone"))
    return Workflow(
        name="Crooked",
        version=2,
        start="fan",
        stages=(
            ParallelStage(id="fan", branches=branches),
            ParallelStage(id="second", branches=(branches[0], branches[2]), join="any", max_parallel=1),
            LlmStage(id="a", prompt="x", retry_target="a"),
            LlmStage(id="b", prompt="x", auto_status=True, goal_gate=True),
            LlmStage(id="lonely", prompt="x"),
            ExitStage(id="exit"),
        ),
        transitions=(
            Transition(source="fan", to="fan"),
            Transition(source="fan", to="b"),
            Transition(source="b", to="nowhere", priority=3),
            Transition(source="a", to="exit"),
        ),
    )
