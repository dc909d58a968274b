"""The transition that follows a stage, with the recorded reason, as tables."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.context import EMPTY, Set
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.routing import ConditionScope, Selection, is_failure, require_functions, select_transition
from pipeline.errors import AwfError
from pipeline.language.edges import Edge, EdgeRole, edges
from pipeline.language.expressions import evaluate, parse_expression
from pipeline.language.model import (
    BaseStage,
    DecisionRoute,
    DecisionStage,
    ExitStage,
    HumanStage,
    LlmStage,
    OnResult,
    ParallelStage,
    Stage,
    StageKind,
    ToolStage,
    Transition,
    Workflow,
    WorkspaceStage,
)
from pipeline.language.source import SourceSpans

TOOL = ToolStage(id="a", command="x")
REVIEW = LlmStage(id="a", prompt="x", auto_status=True)
HUMAN = HumanStage(id="a", prompt="x")
SUCCESS = Outcome(status=Status.SUCCESS)
FAIL = Outcome(status=Status.FAIL, reason="boom")
HOLDS, FALSE, SENSELESS = 'visits("a") == 1', 'visits("a") == 2', 'outcome("a") < 1'


SAW = '(visits("a") = 1)'
CURE = 'a failed and its only transition needs success; add on="fail" or on="always". Cause'


def way(
    to: str,
    when: str = "",
    role: EdgeRole = EdgeRole.TRANSITION,
    priority: int = 0,
    key: str = "",
    on: OnResult | None = None,
) -> Edge:
    return Edge("a", to, role, SourceSpans(), parse_expression(when) if when else None, priority, key=key, on=on)


ENVIRONMENT = ConditionScope(EMPTY, {"a": Status.SUCCESS}, {"a": 1})


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
        return select_transition(self.stage, self.outcome, self.ways, ENVIRONMENT, self.decisions, self.option)


NORMAL = {
    "the only transition": Case([way("b")], "b", "only transition"),
    "the only condition": Case([way("b", HOLDS)], "b", f'visits("a") == 1 is true {SAW}', when=HOLDS),
    "a condition before none": Case(
        [way("b"), way("c", HOLDS)],
        "c",
        'visits("a") == 1 is true (visits("a") = 1; first of 2 matches)',
        when=HOLDS,
    ),
    "a priority before a condition": Case(
        [way("b", HOLDS), way("c", priority=3), way("d", FALSE, priority=9)],
        "c",
        "no condition (first of 2 matches, priority 3)",
    ),
    "the file's order among equals": Case([way("c"), way("b")], "c", "no condition (first of 2 matches)"),
    "lower priorities": Case(
        [way("b", priority=-1), way("c", priority=-2)], "b", "no condition (first of 2 matches, priority -1)"
    ),
    "the otherwise of a false condition": Case([way("c", FALSE), way("b")], "b", f"otherwise {SAW}"),
    "two otherwise": Case(
        [way("c", FALSE), way("b"), way("d")], "b", 'otherwise (visits("a") = 1; first of 2 matches)'
    ),
    "a result": Case(
        [way("b", on=OnResult.FAIL), way("c", on=OnResult.SUCCESS)], "c", 'on="success" is true (status = success)'
    ),
    "the otherwise of a result": Case([way("b", on=OnResult.FAIL), way("c")], "c", "otherwise (status = success)"),
    "every result, in the file's order": Case(
        [way("b", on=OnResult.ALWAYS), way("c", on=OnResult.SUCCESS), way("d")],
        "b",
        'on="always" is true (status = success; first of 3 matches)',
    ),
    "part of a success": Case(
        [way("b", on=OnResult.FAIL), way("c", on=OnResult.SUCCESS)],
        "c",
        'on="success" is true (status = partial_success)',
        outcome=Outcome(status=Status.PARTIAL_SUCCESS),
    ),
    "a route of a decision": Case(
        [way("b", HOLDS, EdgeRole.ROUTE)],
        "b",
        f'visits("a") == 1 is true {SAW}',
        stage=DecisionStage(id="a"),
        role="route",
        when=HOLDS,
    ),
    "the last route of a decision": Case(
        [way("c", FALSE, EdgeRole.ROUTE), way("b", role=EdgeRole.ROUTE)],
        "b",
        f"otherwise {SAW}",
        stage=DecisionStage(id="a"),
        role="route",
    ),
    "a dead end": Case(
        [way("b", FALSE), way("c", on=OnResult.FAIL)],
        None,
        'stage "a" ended with success and no transition matches: '
        'visits("a") == 2 is false (visits("a") = 1), on="fail" is false (status = success)',
        role="",
    ),
    "edges of other kinds": Case(
        [way("b", role=EdgeRole.RETRY), way("c", role=EdgeRole.BRANCH), way("d", role=EdgeRole.LOOP)],
        None,
        'stage "a" ended with success and has no transition',
        role="",
    ),
    "what a review found": Case(
        [way("b")], "b", "only transition", stage=REVIEW, outcome=Outcome(status=Status.FAIL, reason="boom")
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
    "for a stage without a transition": Case(
        [way("b"), way("c")],
        "b",
        "no condition (first of 2 matches)",
        outcome=Outcome(status=Status.SUCCESS, preferred_next="d", preferred_label="e"),
    ),
    "for one with a condition": Case(
        [way("b", priority=1), way("c", HOLDS)],
        "b",
        "no condition (first of 2 matches, priority 1)",
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
    ),
    "for one that is always open": Case(
        [way("b", priority=1), way("c", on=OnResult.ALWAYS)],
        "b",
        "no condition (first of 2 matches, priority 1)",
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
    ),
    "against a condition that holds": Case(
        [way("b", HOLDS), way("c")],
        "b",
        'visits("a") == 1 is true (visits("a") = 1; first of 2 matches)',
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
        when=HOLDS,
    ),
    "of a decision, which decides itself": Case(
        [way("b", role=EdgeRole.ROUTE), way("c", role=EdgeRole.ROUTE)],
        "b",
        "no condition (first of 2 matches)",
        stage=DecisionStage(id="a"),
        outcome=Outcome(status=Status.SUCCESS, preferred_next="c"),
        role="route",
    ),
}

FAILED = {
    "a condition that holds": Case(
        [way("b"), way("d"), way("c", HOLDS), way("a", role=EdgeRole.RETRY)],
        "c",
        'visits("a") == 1 is true (visits("a") = 1; first of 3 matches)',
        outcome=FAIL,
        when=HOLDS,
        decisions=frozenset({"d"}),
    ),
    "a condition of lower priority": Case(
        [way("b", priority=5), way("c", HOLDS)],
        "c",
        'visits("a") == 1 is true (visits("a") = 1; first of 2 matches)',
        outcome=FAIL,
        when=HOLDS,
    ),
    "its result": Case(
        [way("b", on=OnResult.SUCCESS), way("c", on=OnResult.FAIL)],
        "c",
        'on="fail" is true (status = fail)',
        outcome=FAIL,
    ),
    "every result": Case([way("b", on=OnResult.ALWAYS)], "b", 'on="always" is true (status = fail)', outcome=FAIL),
    "the otherwise": Case(
        [way("b", on=OnResult.SUCCESS), way("c"), way("d", role=EdgeRole.RETRY)],
        "c",
        "otherwise (status = fail)",
        outcome=FAIL,
    ),
    "a decision": Case(
        [way("b"), way("d"), way("a", role=EdgeRole.RETRY)],
        "d",
        "leads to a decision",
        outcome=FAIL,
        decisions=frozenset({"d"}),
    ),
    "a decision behind its only transition": Case(
        [way("d")], "d", "only transition", outcome=FAIL, decisions=frozenset({"d"})
    ),
    "its retry target": Case(
        [way("b"), way("fix", role=EdgeRole.RETRY)],
        "fix",
        'stage "a" failed, and this is its retry target',
        outcome=FAIL,
        role="retry_target",
    ),
    "nowhere, with logs": Case(
        [way("b")],
        None,
        f"{CURE}: boom; see awf logs r a",
        outcome=FAIL.model_copy(
            update={"logs": {"stdout": "runs/r/a/1/stdout.log", "stderr": "runs/r/a/1/stderr.log"}}
        ),
        role="",
    ),
    "nowhere": Case([way("b")], None, f"{CURE}: boom", outcome=FAIL, role=""),
    "nowhere, past several": Case(
        [way("b"), way("c")],
        None,
        CURE.replace("only transition needs", "transitions need") + ": boom",
        outcome=FAIL,
        role="",
    ),
    "nowhere, without a transition": Case([], None, 'stage "a" failed: boom', outcome=FAIL, role=""),
    "nowhere, for a known reason": Case(
        [way("b", FALSE)],
        None,
        'stage "a" failed (timeout): no reason given; no transition matches: '
        'visits("a") == 2 is false (visits("a") = 1)',
        outcome=Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.TIMEOUT)),
        role="",
    ),
    "a review that could not run": Case(
        [way("b", on=OnResult.SUCCESS), way("c", on=OnResult.FAIL)],
        "c",
        'on="fail" is true (status = fail)',
        stage=REVIEW,
        outcome=Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.AGENT)),
    ),
    "a review that could not run, past its only transition": Case(
        [way("b")],
        None,
        f"{CURE} (protocol): no reason given",
        stage=REVIEW,
        outcome=Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.PROTOCOL)),
        role="",
    ),
}

CHOSEN = {
    "what was chosen": Case(
        [way("b", role=EdgeRole.OPTION, key="no"), way("c", role=EdgeRole.OPTION, key="yes")],
        "c",
        '"yes" was chosen',
        stage=HUMAN,
        role="option",
        option="yes",
    ),
    "what nobody offers": Case(
        [way("b", role=EdgeRole.OPTION, key="no")],
        None,
        'stage "a" has no option "yes"',
        stage=HUMAN,
        role="",
        option="yes",
    ),
    "nothing, by nobody": Case(
        [way("b", role=EdgeRole.OPTION, key="no")],
        None,
        'stage "a" failed: nobody answered',
        stage=HUMAN,
        outcome=Outcome(status=Status.FAIL),
        role="",
        option="no",
    ),
    "nothing, for a reason": Case(
        [way("b", role=EdgeRole.OPTION, key="no")],
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
    """Whatever is not a success or skipped, unless it is what a review found."""
    outcome = Outcome(status=status)
    assert is_failure(TOOL, outcome) is (status not in (Status.SUCCESS, Status.PARTIAL_SUCCESS, Status.SKIPPED))
    assert not is_failure(REVIEW, outcome)


@pytest.mark.parametrize("kind", FailureClass)
def test_a_review_that_never_took_place_is_a_failure(kind: FailureClass) -> None:
    """An error of a review that is routed is never taken for what the review found."""
    assert is_failure(REVIEW, failure(kind))
    assert is_failure(TOOL, failure(kind))


EDGES = st.builds(
    way,
    st.sampled_from("bcd"),
    st.sampled_from(["", HOLDS, FALSE]),
    st.sampled_from([EdgeRole.TRANSITION, EdgeRole.ROUTE, EdgeRole.RETRY, EdgeRole.LOOP, EdgeRole.BRANCH]),
    priority=st.integers(-2, 2),
    on=st.sampled_from([None, *OnResult]),
)
OUTCOMES = st.builds(
    Outcome,
    status=st.sampled_from(Status),
    preferred_next=st.sampled_from(["", "b", "c", "z"]),
    failure=st.sampled_from([None, *(Failure(kind=kind) for kind in FailureClass)]),
)
CONDITIONS = st.sampled_from(["true", HOLDS, FALSE, 'outcome("a") == "fail"']).map(parse_expression)
TRANSITIONS = st.builds(
    Transition,
    source=st.just("a"),
    to=st.sampled_from("bcd"),
    on=st.sampled_from([None, *OnResult]),
    when=st.none() | CONDITIONS,
    priority=st.integers(-2, 2),
)
ROUTES = st.builds(DecisionRoute, when=CONDITIONS, to=st.sampled_from("bcd"), priority=st.integers(-2, 2))
STAGES: st.SearchStrategy[Stage] = st.one_of(
    st.sampled_from([TOOL, REVIEW, LlmStage(id="a", prompt="x", retry_target="c")]),
    st.sampled_from([WorkspaceStage(id="a", kind=StageKind.WORKSPACE_MERGE), ParallelStage(id="a")]),
    st.lists(ROUTES, max_size=4).map(lambda routes: DecisionStage(id="a", routes=tuple(routes))),
)


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    stage = draw(STAGES)
    others = (ToolStage(id="b", command="x"), ToolStage(id="c", command="x"), DecisionStage(id="d"), ExitStage(id="e"))
    transitions = () if isinstance(stage, DecisionStage) else tuple(draw(st.lists(TRANSITIONS, max_size=6)))
    return Workflow(name="W", version=2, start="a", stages=(stage, *others), transitions=transitions)


@given(workflows(), OUTCOMES)
def test_a_false_condition_is_never_followed(workflow: Workflow, outcome: Outcome) -> None:
    """The target is that of an edge of the workflow; if it is a transition or a route, of one whose condition holds."""
    leaving = [edge for edge in edges(workflow) if edge.source == "a"]
    environment = ConditionScope(EMPTY, {"a": outcome.status}, {"a": 1})
    selected = select_transition(workflow.stage("a"), outcome, leaving, environment, frozenset({"d"}))
    if selected.target is None:
        assert selected.role == ""
        return
    assert selected.role in ("transition", "route", "retry_target")
    assert any(
        (edge.on is None or edge.on.holds(passed=outcome.status.passes))
        and (edge.when is None or evaluate(edge.when, environment))
        for edge in leaving
        if (edge.target, edge.role) == (selected.target, selected.role)
    )


@given(OUTCOMES, st.lists(EDGES, max_size=8))
def test_nothing_better_is_passed_over(outcome: Outcome, ways: list[Edge]) -> None:
    """A review follows an edge that no other match beats in priority or, at the same priority, by its condition."""
    result = outcome.model_copy(update={"failure": None, "preferred_next": ""})
    selected = select_transition(REVIEW, result, ways, ENVIRONMENT, frozenset())
    matches = [
        (-edge.priority, not edge.conditional, number, edge.target)
        for number, edge in enumerate(ways)
        if edge.role in (EdgeRole.TRANSITION, EdgeRole.ROUTE)
        and (edge.on is None or edge.on.holds(passed=outcome.status.passes))
        and (edge.when is None or evaluate(edge.when, ENVIRONMENT))
    ]
    assert selected.target == (min(matches)[3] if matches else None)


def test_the_values_in_a_reason_are_short_and_on_one_line() -> None:
    """A long answer with line breaks and escape sequences does not flood the record."""
    context = EMPTY.apply([Set("a.response", "line\n\x1b[31m" + "x" * 100_000), Set("long", ["y"] * 3)])
    environment = ConditionScope(context, {}, {})
    when = 'context("a.response") != "ok" && context("long") != "ok" && context("none") != "x"'
    reason = select_transition(TOOL, SUCCESS, [way("b", when)], environment, frozenset()).reason
    assert len(reason) < 500
    assert reason.isprintable()
    assert 'context("long") = a list of 3; context("none") = null' in reason


SCOPE = ConditionScope(EMPTY.apply([Set("build.response", "done"), Set("empty", None)]), {"a": Status.FAIL}, {"a": 2})


def test_a_condition_asks_about_outcomes_and_visits() -> None:
    """A stage that never ran says so, and has no visits."""
    assert (SCOPE.outcome("a"), SCOPE.outcome("b")) == ("fail", "not_run")
    assert (SCOPE.visits("a"), SCOPE.visits("b")) == (2, 0)


def test_a_condition_asks_for_values_of_the_context() -> None:
    """Null is a value that exists; an absent key has none."""
    assert (SCOPE.output("build.response"), SCOPE.context("build.response"), SCOPE.context("no")) == (
        "done",
        "done",
        None,
    )
    assert (SCOPE.exists("empty"), SCOPE.exists("no")) == (True, False)


COUNTING = Workflow(
    name="W",
    version=2,
    start="a",
    stages=(TOOL, ExitStage(id="b")),
    transitions=(Transition(source="a", to="b", when=parse_expression("findings() == 2")),),
)


def test_a_function_of_a_plugin_answers_a_condition() -> None:
    """It is given the context and the argument of the call."""
    functions = {"findings": lambda context, stage: len(context.get("found")) if stage is None else 0}
    scope = ConditionScope(EMPTY.apply([Set("found", [1, 2])]), {}, {}, functions)
    chosen = select_transition(TOOL, SUCCESS, list(edges(COUNTING)), scope, frozenset())
    assert (chosen.target, chosen.reason) == ("b", "findings() == 2 is true (findings() = 2)")


def test_a_function_that_no_plugin_provides_is_never_taken_for_a_value() -> None:
    """The workflow is rejected before it runs, and a run that gets that far ends."""
    require_functions(COUNTING, {"findings": lambda *_: 0})
    with pytest.raises(AwfError, match=r'stage "a" uses findings\(\)'):
        require_functions(COUNTING, {})
    chosen = select_transition(TOOL, SUCCESS, list(edges(COUNTING)), SCOPE, frozenset())
    assert chosen.target is None
    assert "no loaded plugin provides findings()" in chosen.reason
