"""Which stage follows which result, for each kind of stage; and the drawing shows the same."""

from dataclasses import dataclass

import pytest
from tests.unit.engine.conftest import Make

from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.graph.chart import Arrow, build_chart
from pipeline.graph.export import draw_dot, draw_mermaid
from pipeline.graph.svg import draw_svg
from pipeline.graph.text import draw_text
from pipeline.language.edges import EdgeRole
from pipeline.language.model import DecisionStage, Workflow, is_review

KINDS = {
    "llm": 'stage "a" kind="llm" prompt="x"',
    "review": 'stage "a" kind="llm" prompt="x" auto_status=true',
    "tool": 'stage "a" kind="tool" command="x"',
    "parallel": 'stage "a" kind="parallel" {\nbranch "one"\nbranch "two"\n}\n'
    'stage "one" kind="tool" command="x"\nstage "two" kind="tool" command="x"',
    "workspace.merge": 'stage "a" kind="workspace.merge"',
}
RETRYING = ("llm", "review", "tool")  # the kinds that take a retry target
AROUND = """
stage "b" kind="tool" command="x"
stage "c" kind="tool" command="x"
stage "d" kind="decision" {
  route when="true" to="end"
}
transition from="b" to="end"
transition from="c" to="end"
"""
TRUE, FALSE = 'visits("a") == 1', 'visits("a") == 2'
HELD = {"visits = 1": True, "visits = 2": False}  # the labels of the two


def when(condition: str) -> str:
    escaped = condition.replace('"', '\\"')
    return f'when="{escaped}"'


@dataclass(frozen=True)
class Row:
    """The transitions of a stage, and what follows its success and its failure; None ends the run."""

    transitions: tuple[str, ...]
    success: str | None
    failure: str | None
    review: str | None  # after the failure of a review
    retry: bool = False  # whether the stage has a retry target, "c"


ROWS = {
    "only one": Row(('to="b"',), "b", None, "b"),
    "only one, always": Row(('to="b" on="always"',), "b", "b", "b"),
    "only one, when true": Row(('to="b" when="true"',), "b", "b", "b"),
    "only success": Row(('to="b" on="success"',), "b", None, None),
    "only fail": Row(('to="b" on="fail"',), None, "b", "b"),
    "success and fail": Row(('to="b" on="success"', 'to="c" on="fail"'), "b", "c", "c"),
    "success and otherwise": Row(('to="b" on="success"', 'to="c"'), "b", "c", "c"),
    "fail and otherwise": Row(('to="c"', 'to="b" on="fail"'), "c", "b", "b"),
    "a true condition and otherwise": Row((f'to="b" {when(TRUE)}', 'to="c"'), "b", "b", "b"),
    "a false condition and otherwise": Row((f'to="b" {when(FALSE)}', 'to="c"'), "c", "c", "c"),
    "a false condition alone": Row((f'to="b" {when(FALSE)}',), None, None, None),
    "a decision": Row(('to="d"',), "d", "d", "d"),
    "a decision behind another": Row(('to="b"', 'to="d"'), "b", "d", "b"),
    "fail of low priority": Row(('to="b" priority=5', 'to="c" on="fail"'), "b", "c", "b"),
    "success of low priority": Row(('to="b" priority=5', 'to="c" on="success"'), "b", "b", "b"),
    "always before fail": Row(('to="b" on="always"', 'to="c" on="fail"'), "b", "b", "b"),
    "always behind fail": Row(('to="c" on="fail"', 'to="b" on="always"'), "b", "c", "c"),
    "fail of high priority": Row(('to="b" on="always"', 'to="c" on="fail" priority=1'), "b", "c", "c"),
    "only one and a retry target": Row(('to="b"',), "b", "c", "b", retry=True),
    "success and a retry target": Row(('to="b" on="success"',), "b", "c", None, retry=True),
    "otherwise and a retry target": Row(('to="b" on="success"', 'to="d"'), "b", "d", "d", retry=True),
}
CRASH = Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.AGENT), reason="401")
RESULTS = {
    "success": Outcome(status=Status.SUCCESS),
    "partial success": Outcome(status=Status.PARTIAL_SUCCESS),
    "failure": Outcome(status=Status.FAIL, reason="boom"),
    "retry": Outcome(status=Status.RETRY, reason="again"),
    "error routed as a failure": CRASH,
}


@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for name, row in ROWS.items() for kind in (RETRYING if row.retry else KINDS)]
)
def test_what_follows_a_result(machine: Make, name: str, kind: str, result: str) -> None:
    """The run follows the transition of the table, and the picture has it with a label that says so."""
    row, outcome = ROWS[name], RESULTS[result]
    stage = KINDS[kind] + (' retry_target="c"' if row.retry else "")
    body = "\n".join([stage, *(f'transition from="a" {way}' for way in row.transitions), AROUND])
    run = machine(body, a=[outcome], one=[outcome]).run()
    if outcome.status.passes:
        wanted = row.success
    else:
        wanted = row.review if kind == "review" and outcome is not CRASH else row.failure
    after = run.path[run.path.index("a") + 1 :]
    assert (after[0] if after else None) == wanted
    workflow = run.state.workflow
    lines = followed_in_picture(
        workflow, passed=outcome.status.passes, review=kind == "review" and outcome is not CRASH
    )
    assert wanted in {line.target for line in lines} if wanted else not lines
    labels = {label.partition("(")[0].strip() for line in lines if line.target == wanted for label in line.labels}
    for draw in (draw_text, draw_mermaid, draw_dot, draw_svg):
        assert all(label in draw(workflow) for label in labels)


def followed_in_picture(workflow: Workflow, *, passed: bool, review: bool) -> list[Arrow]:
    """The lines out of "a" that hold for a result, judged by nothing but what is drawn."""
    assert is_review(workflow.stage("a")) or not review
    lines = [line for line in build_chart(workflow).arrows if line.source == "a"]
    said = {line: [label.partition(" (priority")[0] for label in line.labels] or [""] for line in lines}
    held = {**HELD, "success": passed, "fail": not passed, "always": True}
    true = any(held.get(label) for labels in said.values() for label in labels)

    def holds(line: Arrow, label: str) -> bool:
        if line.role is EdgeRole.RETRY:
            return False
        if label == "otherwise":
            return not true
        if label in held:
            return held[label]
        conditional = any(other in held for labels in said.values() for other in labels)
        assert label.startswith("(priority") or not label
        decides = isinstance(workflow.stage(line.target), DecisionStage)
        return passed or review or decides or conditional

    open_ = [line for line, labels in said.items() if any(holds(line, label) for label in labels)]
    return open_ or [line for line in lines if line.role is EdgeRole.RETRY and not passed and not review]


def test_a_decision_follows_its_first_true_route(machine: Make) -> None:
    """Its routes are labelled with their conditions, and the last with otherwise."""
    body = f"""
    stage "a" kind="decision" {{
      route {when(FALSE)} to="b"
      route {when(TRUE)} to="c"
      route when="true" to="d"
    }}
    {AROUND}
    """
    run = machine(body).run()
    assert run.path == ["a", "c", "end"]
    labels = {line.target: line.labels for line in build_chart(run.state.workflow).arrows if line.source == "a"}
    assert labels == {"b": ("visits = 2",), "c": ("visits = 1",), "d": ("otherwise",)}


def test_a_lone_transition_is_drawn_plainly(machine: Make) -> None:
    """No label promises that a failure follows it; on="always" does."""
    plain = build_chart(machine(f'{KINDS["tool"]}\ntransition from="a" to="b"\n{AROUND}').state.workflow)
    always = build_chart(machine(f'{KINDS["tool"]}\ntransition from="a" to="b" on="always"\n{AROUND}').state.workflow)
    assert [line.labels for line in plain.arrows if line.source == "a"] == [()]
    assert [line.labels for line in always.arrows if line.source == "a"] == [("always",)]
