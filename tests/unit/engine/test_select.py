"""The way on from a stage, with the reason that goes on record, as tables."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.context import EMPTY
from pipeline.engine.environment import RunEnvironment
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.select import Selection, candidates, failed, select
from pipeline.language.edges import Edge, Role
from pipeline.language.expressions import parse_expression
from pipeline.language.model import BaseStage, DecisionStage, HumanStage, LlmStage, ToolStage
from pipeline.language.source import Place

TOOL = ToolStage(id="a", command="x")
REVIEW = LlmStage(id="a", prompt="x", auto_status=True)
HUMAN = HumanStage(id="a", prompt="x")
SUCCESS = Outcome(status=Status.SUCCESS)
FAIL = Outcome(status=Status.FAIL, reason="boom")
HOLDS, FALSE, SENSELESS = 'visits("a") == 1', 'visits("a") == 2', 'outcome("a") < 1'


def way(to: str, when: str = "", role: Role = Role.TRANSITION, priority: int = 0, key: str = "") -> Edge:
    return Edge("a", to, role, Place(), parse_expression(when) if when else None, priority, key=key)


ENVIRONMENT = RunEnvironment(EMPTY, {"a": Status.SUCCESS}, {"a": 1})


@dataclass(frozen=True)
class Case:
    """A stage that ended, the ways from it, and what comes of that."""

    ways: list[Edge]
    target: str | None
    reason: str
    stage: BaseStage = TOOL
    outcome: Outcome = SUCCESS
    role: str = "transition"
    when: str = ""
    option: str = ""
    decisions: frozenset[str] = field(default_factory=frozenset)

    def selected(self) -> Selection:
        return select(self.stage, self.outcome, self.ways, ENVIRONMENT, self.decisions, self.option)


NORMAL = {
    "the only way": Case([way("b")], "b", "it has no condition, and no other way is open"),
    "the only condition": Case(
        [way("b", HOLDS)], "b", 'visits("a") == 1 holds, and no other way is open', when='visits("a") == 1'
    ),
    "a condition before none": Case(
        [way("b"), way("c", HOLDS)],
        "c",
        'visits("a") == 1 holds, and it comes first of 2 open ways',
        when='visits("a") == 1',
    ),
    "a priority before a condition": Case(
        [way("b", HOLDS), way("c", priority=3), way("d", FALSE, priority=9)],
        "c",
        "it has no condition, and it comes first of 2 open ways (priority 3)",
    ),
    "the file's order among equals": Case(
        [way("c"), way("b")], "c", "it has no condition, and it comes first of 2 open ways"
    ),
    "a way that waits behind": Case(
        [way("b", priority=-1), way("c", priority=-2)],
        "b",
        "it has no condition, and it comes first of 2 open ways (priority -1)",
    ),
    "a route of a decision": Case(
        [way("b", HOLDS, Role.ROUTE)],
        "b",
        'visits("a") == 1 holds, and no other way is open',
        stage=DecisionStage(id="a"),
        role="route",
        when='visits("a") == 1',
    ),
    "no way": Case(
        [way("b", FALSE)], None, 'no way leads on from stage "a" after success: no condition holds', role=""
    ),
    "ways that are not for now": Case(
        [way("b", role=Role.RETRY), way("c", role=Role.BRANCH), way("d", role=Role.LOOP)],
        None,
        'no way leads on from stage "a" after success: no condition holds',
        role="",
    ),
}

ASKED = {
    "for the next stage": Case(
        [way("b"), way("c")],
        "c",
        'the answer of "a" asked for "c"',
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
    ),
    "by its label": Case(
        [way("b"), way("c")],
        "c",
        'the answer of "a" asked for "c"',
        outcome=Outcome(status=Status.SUCCESS, preferred_label="c"),
    ),
    "for one that is not there": Case(
        [way("b"), way("c")],
        "b",
        "it has no condition, and it comes first of 2 open ways",
        outcome=Outcome(status=Status.SUCCESS, preferred_next="d", preferred_label="e"),
    ),
    "for one with a condition": Case(
        [way("b", priority=1), way("c", HOLDS)],
        "b",
        "it has no condition, and it comes first of 2 open ways (priority 1)",
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
    ),
    "against a condition that holds": Case(
        [way("b", HOLDS), way("c")],
        "b",
        'visits("a") == 1 holds, and it comes first of 2 open ways',
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
        when='visits("a") == 1',
    ),
    "of a decision, which decides itself": Case(
        [way("b", role=Role.ROUTE), way("c", role=Role.ROUTE)],
        "b",
        "it has no condition, and it comes first of 2 open ways",
        stage=DecisionStage(id="a"),
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
        role="route",
    ),
}

FAILED = {
    "a condition that holds": Case(
        [way("b"), way("d"), way("c", HOLDS), way("a", role=Role.RETRY)],
        "c",
        'visits("a") == 1 holds, and it comes first of 3 open ways',
        outcome=FAIL,
        when='visits("a") == 1',
        decisions=frozenset({"d"}),
    ),
    "a condition behind a way of higher priority": Case(
        [way("b", priority=5), way("c", HOLDS)],
        "c",
        'visits("a") == 1 holds, and it comes first of 2 open ways',
        outcome=FAIL,
        when='visits("a") == 1',
    ),
    "a decision": Case(
        [way("b"), way("d"), way("a", role=Role.RETRY)],
        "d",
        'stage "a" failed, and "d" decides',
        outcome=FAIL,
        decisions=frozenset({"d"}),
    ),
    "its retry target": Case(
        [way("b"), way("fix", role=Role.RETRY)],
        "fix",
        'stage "a" failed, and this is its retry target',
        outcome=FAIL,
        role="retry_target",
    ),
    "nowhere, with logs": Case(
        [way("b")],
        None,
        'stage "a" failed: boom; its logs are in runs/r/a/1',
        outcome=FAIL.model_copy(
            update={"logs": {"stdout": "runs/r/a/1/stdout.log", "stderr": "runs/r/a/1/stderr.log"}}
        ),
        role="",
    ),
    "nowhere": Case([way("b")], None, 'stage "a" failed: boom', outcome=FAIL, role=""),
    "nowhere, for a known reason": Case(
        [way("b", FALSE)],
        None,
        'stage "a" failed (timeout): no reason given',
        outcome=Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.TIMEOUT)),
        role="",
    ),
}

CHOSEN = {
    "what was chosen": Case(
        [way("b", role=Role.OPTION, key="no"), way("c", role=Role.OPTION, key="yes")],
        "c",
        '"yes" was chosen',
        stage=HUMAN,
        role="option",
        option="yes",
    ),
    "what nobody offers": Case(
        [way("b", role=Role.OPTION, key="no")],
        None,
        'stage "a" has no option "yes"',
        stage=HUMAN,
        role="",
        option="yes",
    ),
    "nothing, by nobody": Case(
        [way("b", role=Role.OPTION, key="no")],
        None,
        'stage "a" failed: nobody answered',
        stage=HUMAN,
        outcome=Outcome(status=Status.FAIL),
        role="",
        option="no",
    ),
    "nothing, for a reason": Case(
        [way("b", role=Role.OPTION, key="no")],
        None,
        'stage "a" failed: boom',
        stage=HUMAN,
        outcome=FAIL,
        role="",
        option="no",
    ),
}

CASES = {
    f"{title}: {name}": case
    for title, cases in (("passed", NORMAL), ("asked", ASKED), ("failed", FAILED), ("options", CHOSEN))
    for name, case in cases.items()
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_way_taken_and_its_reason(case: Case) -> None:
    """The target, the line of the file it comes from, its condition, and the reason that `awf why` prints."""
    assert case.selected() == Selection(case.target, case.reason, case.role, case.when)


def test_a_condition_without_a_value_takes_no_way() -> None:
    """Where what it compares cannot be compared, the run stops and says which stage's condition it is."""
    selected = Case([way("b"), way("c", SENSELESS)], None, "").selected()
    assert selected.target is None
    assert (
        selected.reason
        == 'a condition of stage "a" has no value: < cannot compare text with a number: outcome("a") < 1'
    )


def failure(kind: FailureClass) -> Outcome:
    return Outcome(status=Status.FAIL, failure=Failure(kind=kind))


@pytest.mark.parametrize("status", Status)
def test_what_is_routed_as_a_failure(status: Status) -> None:
    """Three ways to end are failures of an ordinary stage; a review that found something has done its work."""
    outcome = Outcome(status=status)
    assert failed(TOOL, outcome) is (status in (Status.FAIL, Status.RETRY, Status.CANCELLED))
    assert not failed(REVIEW, outcome)


@pytest.mark.parametrize("kind", FailureClass)
def test_a_review_that_never_took_place_is_a_failure(kind: FailureClass) -> None:
    """No status, or no agent, is no review; whatever else went wrong, it is one."""
    assert failed(REVIEW, failure(kind)) is (kind in (FailureClass.PROTOCOL, FailureClass.AGENT))
    assert failed(TOOL, failure(kind))


WAYS = st.builds(way, st.sampled_from("bcd"), st.sampled_from(["", HOLDS, FALSE]), priority=st.integers(-2, 2))


@given(st.lists(WAYS, max_size=8))
def test_open_ways_are_ranked_and_none_is_lost(ways: list[Edge]) -> None:
    """Those that hold, each once: never behind one of lower priority, nor one with a condition behind one without."""
    ranked = candidates(ways, ENVIRONMENT)
    order = {id(edge): number for number, edge in enumerate(ways)}
    assert sorted(map(id, ranked)) == sorted(id(edge) for edge in ways if edge.when is None or edge.when.text == HOLDS)
    keys = [(-edge.priority, edge.when is None, order[id(edge)]) for edge in ranked]
    assert keys == sorted(keys)
