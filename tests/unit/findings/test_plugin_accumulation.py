"""The edge cases of accumulated reports, and a property over whole runs with a resume at any point."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.conftest import Answer, Machine

from pipeline.engine.context import Context, Operation
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.records import RunCreated
from pipeline.engine.state import replay
from pipeline.findings.keys import ReviewKey, count_reports, last_verdict, report_operations, stall_reason
from pipeline.summary.render import render
from pipeline.summary.report_index import ReportIndex

FAIL, PARTIAL, SUCCESS = Status.FAIL, Status.PARTIAL_SUCCESS, Status.SUCCESS
WORKFLOW = """workflow "W" {
  version 2
  start "selfci"
  settings { max_visits 1000; max_stages 100000 }
  stage "selfci" kind="tool" command="x"
  stage "a" kind="llm" auto_status=true prompt="x"
  stage "b" kind="llm" auto_status=true prompt="x"
  stage "c" kind="llm" auto_status=true prompt="x" response_key_base="plan"
  stage "lint" kind="tool" command="x"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="end"
  }
  stage "fix" kind="llm" prompt="Fix it"
  stage "end" kind="exit"
  transition from="selfci" to="a" when="true"
  transition from="selfci" to="a" when="outcome(\\"selfci\\") != \\"success\\""
  transition from="a" to="b"
  transition from="b" to="c"
  transition from="c" to="lint"
  transition from="lint" to="gate"
  transition from="fix" to="selfci"
}
"""
FINDERS = ("selfci", "a", "b", "c", "lint")


def machine(**script: list[Answer]) -> Machine:
    record = RunCreated(at=0.0, run_id="r", file="w", source=WORKFLOW, cwd="/", version="0")
    run = Machine(replay([record]), [record], script, replayed=False)

    def contribute(stage: str, outcome: Outcome) -> list[Operation]:
        found = run.state.workflow.stage(stage)
        visit = run.state.visits.get(stage, 0) + 1
        return list(report_operations(found, visit, outcome, run.state.context, at=0.0))

    run.contribute = contribute
    run.functions = {"findings": count_reports, "verdict": last_verdict, "stalled": stall_reason}
    return run


def outstanding(run: Machine) -> list[tuple[str, int]]:
    return [(entry["stageId"], entry["iteration"]) for entry in run.state.context.list_at(ReviewKey.REPORTS)]


def said(status: Status, text: str = "text") -> Outcome:
    return Outcome(status=status, response=text, reason="why")


def broken(text: str) -> Outcome:
    failure = Failure(kind=FailureClass.EXIT_NONZERO, digest="1 failed", stdout_tail=text)
    return Outcome(status=FAIL, response=text, failure=failure)


def summary_of(context: Context, findings_path: str) -> str:
    """What an agent is told, in nine thousand characters."""
    groups = ReportIndex("review.findings").groups(context)
    return render(context, groups, goal="g", workflow="W", past=(), budget=9000, findings_path=findings_path)


def test_edge_1_and_2_nothing_fails() -> None:
    """Edge cases 1 and 2: with no failing review the key is absent, the section is not there, fix never runs."""
    run = machine().run()
    assert ReviewKey.REPORTS not in run.state.context
    assert "fix" not in run.path
    summary = summary_of(run.state.context, "")
    assert "Review Findings" not in summary


def test_edge_3_a_review_passes_on_re_run() -> None:
    """Edge case 3, 004-32: the fix leads back to the reviews, and what is resolved is not handed to it again."""
    run = machine(a=[FAIL, SUCCESS], b=[FAIL, FAIL, SUCCESS]).run()
    assert run.path.count("fix") == 2
    assert outstanding(run) == []


def test_edge_4_and_5_iterations_grow_and_all_reviews_run() -> None:
    """Edge cases 4 and 5: every review runs in every round, and iterations count up until it passes."""
    run = machine(a=[FAIL, FAIL, SUCCESS], b=[FAIL, SUCCESS]).run(steps=12)
    rounds = [run.path[at : at + 5] for at in (0, 7)]
    assert rounds == [list(FINDERS)] * 2
    assert ("a", 2) in outstanding(run)


def test_edge_6_resumed_in_the_middle_of_the_chain() -> None:
    """Edge case 6, 004-18: what was found before survives, and accumulation continues with the next iteration."""
    run = machine(a=[FAIL, SUCCESS], b=[FAIL, SUCCESS]).run(steps=2)
    assert outstanding(run) == [("a", 1)]
    again = machine(a=[FAIL, SUCCESS], b=[FAIL, SUCCESS])
    again.records, again.state, again.path = list(run.records), replay(run.records), list(run.path)
    assert outstanding(again.run(steps=1)) == [("a", 1), ("b", 1)]
    assert outstanding(again.run()) == []


def test_edge_7_tools_and_reviews_share_one_list() -> None:
    """Edge case 7: both contribute, in the order they ran."""
    run = machine(selfci=[SUCCESS], a=[FAIL, SUCCESS], lint=[broken("E501"), SUCCESS]).run(steps=5)
    assert outstanding(run) == [("a", 1), ("lint", 1)]


def test_edge_8_a_very_large_response_is_kept_whole_and_shown_cut() -> None:
    """Edge case 8: the data is whole, the text an agent gets stays within its budget and says so."""
    run = machine(a=[said(FAIL, "x" * 500_000), SUCCESS]).run(steps=2)
    (entry,) = run.state.context.list_at(ReviewKey.REPORTS)
    assert len(entry["response"]) == 500_000
    summary = summary_of(run.state.context, "f.json")
    assert len(summary) <= 9000
    assert "f.json" in summary


def test_edge_9_the_response_comes_from_the_overridden_key() -> None:
    """Edge case 9: `response_key_base` is honoured."""
    run = machine(c=[said(FAIL, "thin plan"), SUCCESS]).run(steps=4)
    (entry,) = run.state.context.list_at(ReviewKey.REPORTS)
    assert (entry["stageId"], entry["response"]) == ("c", "thin plan")


def expected(path: list[str], statuses: dict[str, list[Status]]) -> list[tuple[str, int]]:
    """What should be outstanding after a path, in ten lines."""
    visits: dict[str, int] = {}
    left: list[tuple[str, int]] = []
    for stage in path:
        visits[stage] = visits.get(stage, 0) + 1
        given = statuses.get(stage, [])
        status = given[min(visits[stage], len(given)) - 1] if given else SUCCESS
        if stage in FINDERS and status is not SUCCESS:
            left.append((stage, visits[stage]))
        elif stage in FINDERS:
            left = [entry for entry in left if entry[0] != stage]
    return left


histories = st.lists(st.sampled_from([FAIL, PARTIAL, SUCCESS]), min_size=1, max_size=14)


@given(st.fixed_dictionaries(dict.fromkeys(FINDERS, histories)), st.integers(0, 50))
@settings(max_examples=15, deadline=None)
def test_the_findings_are_right_before_and_after_a_resume_at_any_point(
    statuses: dict[str, list[Status]], cut: int
) -> None:
    """Whatever passes and fails, fifty steps of the loop leave what the model says, resumed or not."""
    script: dict[str, list[Answer]] = {name: list(given) for name, given in statuses.items()}
    whole = machine(**script).run(steps=50)
    first = machine(**script).run(steps=cut)
    assert outstanding(first) == expected(first.path, statuses)
    resumed = machine(**script)
    resumed.records, resumed.state, resumed.path = list(first.records), replay(first.records), list(first.path)
    resumed.run(steps=50 - cut)
    assert (resumed.path, outstanding(resumed)) == (whole.path, outstanding(whole))
    assert outstanding(whole) == expected(whole.path, statuses)
