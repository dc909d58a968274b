"""`review.findings`, to the letter: what is appended, what is cleared, what is left alone."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.context import EMPTY, Append, Context, Discard, Set
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, stage_operations
from pipeline.findings.keys import (
    ReviewKey,
    commit_events,
    count_findings,
    count_reports,
    is_reporting,
    last_verdict,
    report_operations,
)
from pipeline.findings.plugin import ReportsFile
from pipeline.language.model import BaseStage, DecisionStage, ExitStage, LlmStage, ToolStage

REVIEW = LlmStage(id="review_code", prompt="x", auto_status=True)
OTHER = LlmStage(id="review_tests", prompt="x", auto_status=True)
TOOL = ToolStage(id="selfci", command="make check")
FAIL, PARTIAL, SUCCESS = Status.FAIL, Status.PARTIAL_SUCCESS, Status.SUCCESS


def visited(context: Context, stage: BaseStage, visit: int, outcome: Outcome, at: float = 0.0) -> Context:
    """The context after a visit: what the stage leaves, and what the plugin makes of the context before it."""
    added = report_operations(stage, visit, outcome, context, at)
    return context.apply([*stage_operations(stage, outcome), *added])


def findings(context: Context) -> list[Any]:
    return list(context.list_at(ReviewKey.REPORTS))


def said(status: Status, response: str = "", reason: str = "") -> Outcome:
    return Outcome(status=status, response=response, reason=reason)


def test_a_report_has_exactly_these_fields() -> None:
    """004-01, 004-02: stage, iteration, status, reason, whole response and an ISO time, under `review.findings`."""
    context = visited(EMPTY, REVIEW, 3, said(FAIL, "Details", "no tests"), at=1_794_800_000.5)
    assert context.get("review.findings") == [
        {
            "stageId": "review_code",
            "iteration": 3,
            "status": "fail",
            "failureReason": "no tests",
            "response": "Details",
            "timestamp": "2026-11-16T03:33:20.500+00:00",
        }
    ]


@pytest.mark.parametrize("value", [True, "true"])
def test_is_review_eligible_returns_true_for_auto_status(value: object) -> None:
    """004-33.3: both the boolean and the string make a review."""
    assert is_reporting(LlmStage.model_validate({"id": "a", "prompt": "x", "auto_status": value}))


@pytest.mark.parametrize("stage", [LlmStage(id="a", prompt="x"), LlmStage(id="a", prompt="x", auto_status=False)])
def test_is_review_eligible_returns_false_for_regular_stages(stage: BaseStage) -> None:
    """004-33.4: an agent that changes code reports nothing about itself."""
    assert not is_reporting(stage)
    assert "review.findings" not in visited(EMPTY, stage, 1, said(FAIL, "x"))


@pytest.mark.parametrize("status", [FAIL, PARTIAL])
def test_both_failures_and_partial_successes_are_reported(status: Status) -> None:
    """004-12: `fail` and `partial_success` append one report."""
    assert [entry["status"] for entry in findings(visited(EMPTY, REVIEW, 1, said(status, "x")))] == [status]


def test_a_tool_failure_carries_its_digest() -> None:
    """004-11, 004-13, C-26: the digest is the reason, the tails are the response."""
    failure = Failure(
        kind=FailureClass.EXIT_NONZERO, digest="3 failed", exit_code=1, stdout_tail="out", stderr_tail="err"
    )
    outcome = Outcome(status=FAIL, reason="something else", response="whole", failure=failure)
    (entry,) = findings(visited(EMPTY, TOOL, 1, outcome))
    assert (entry["failureReason"], entry["response"]) == ("3 failed", "out\nerr")


def test_success_clears_the_reports_of_that_stage_only() -> None:
    """004-14: the others stay, in their order."""
    context = EMPTY
    for stage, visit in ((REVIEW, 1), (OTHER, 1), (TOOL, 1), (REVIEW, 2)):
        context = visited(context, stage, visit, said(FAIL, "x"))
    context = visited(context, REVIEW, 3, said(SUCCESS, "fine"))
    assert [entry["stageId"] for entry in findings(context)] == ["review_tests", "selfci"]


@pytest.mark.parametrize("status", [Status.RETRY, Status.SKIPPED, Status.CANCELLED])
def test_other_outcomes_change_nothing(status: Status) -> None:
    """004-15: nothing is appended and nothing cleared."""
    before = visited(EMPTY, REVIEW, 1, said(FAIL, "x"))
    assert findings(visited(before, REVIEW, 2, said(status))) == findings(before)


def test_the_key_is_never_created_when_nothing_fails() -> None:
    """004-16: absent, not an empty list; after clearing it is an empty list."""
    assert "review.findings" not in visited(EMPTY, REVIEW, 1, said(SUCCESS, "fine"))
    cleared = visited(visited(EMPTY, REVIEW, 1, said(FAIL, "x")), REVIEW, 2, said(SUCCESS))
    assert cleared.get("review.findings") == []


def test_the_stored_response_is_whole() -> None:
    """004-17: however long it is; only what is shown elsewhere is cut."""
    long = "x" * 1_000_000
    context = visited(EMPTY, REVIEW, 1, said(FAIL, long))
    assert findings(context)[0]["response"] == long
    assert len(context.get("review_code.response")) < 10_000


def test_reports_of_a_stage_accumulate_until_it_passes() -> None:
    """004-19, C-25: several iterations, numbered by the stage's visits, which never restart."""
    context = EMPTY
    for visit in (1, 2, 3):
        context = visited(context, REVIEW, visit, said(FAIL, f"round {visit}"))
    assert [entry["iteration"] for entry in findings(context)] == [1, 2, 3]
    context = visited(context, REVIEW, 4, said(SUCCESS))
    context = visited(context, REVIEW, 5, said(FAIL, "again"))
    assert [entry["iteration"] for entry in findings(context)] == [5]


def test_the_response_is_that_of_the_visit_whatever_it_is_called() -> None:
    """004-12: also under `response_key_base`, and never what the stage said at an earlier visit."""
    stage = LlmStage(id="plan_review", prompt="x", auto_status=True, response_key_base="plan")
    context = visited(visited(EMPTY, stage, 1, said(FAIL, "the plan is thin")), stage, 2, said(FAIL))
    assert [entry["response"] for entry in findings(context)] == ["the plan is thin", ""]


@pytest.mark.parametrize("kind", [FailureClass.PROTOCOL, FailureClass.AGENT, FailureClass.INTERNAL])
def test_a_review_that_never_took_place_reports_nothing(kind: FailureClass) -> None:
    """No status, a crash, a 401 or a timeout is a failure of the stage and no finding; nor is an old answer one."""
    before = visited(EMPTY, REVIEW, 1, said(FAIL, "real"))
    after = visited(before, REVIEW, 2, Outcome(status=FAIL, reason="401", failure=Failure(kind=kind)))
    assert findings(after) == findings(before)


@pytest.mark.parametrize("kind", FailureClass)
def test_the_output_of_a_tool_is_reported_with_any_failure(kind: FailureClass) -> None:
    """Also where its report cannot be read; but a tool that no handler ran said nothing."""
    failure = Failure(kind=kind, digest="broken", stdout_tail="out")
    reported = findings(visited(EMPTY, TOOL, 1, Outcome(status=FAIL, failure=failure)))
    assert bool(reported) is (kind not in (FailureClass.AGENT, FailureClass.INTERNAL))


@pytest.mark.parametrize("stage", [TOOL, REVIEW], ids=["tool", "review"])
def test_a_report_without_a_response_is_empty(stage: BaseStage) -> None:
    """It is an empty text, not the word None."""
    (entry,) = findings(visited(EMPTY, stage, 1, Outcome(status=FAIL, reason="why")))
    assert (entry["response"], entry["failureReason"]) == ("", "why")


@pytest.mark.parametrize("tails", [("out", "err", "out\nerr"), ("", "err", "err"), ("out", "", "out"), ("", "", "")])
def test_the_tails_of_a_tool_are_joined(tails: tuple[str, str, str]) -> None:
    """What it said on both streams, and no empty line for one on which it said nothing."""
    failure = Failure(kind=FailureClass.TIMEOUT, stdout_tail=tails[0], stderr_tail=tails[1])
    (entry,) = findings(visited(EMPTY, TOOL, 1, Outcome(status=FAIL, response="whole", failure=failure)))
    assert entry["response"] == tails[2]


def test_foreign_entries_are_left_alone() -> None:
    """Whoever put a word or somebody else's entry into the list: a pass of this stage neither breaks nor clears it."""
    foreign: list[Any] = ["a word", {"stageId": "other"}, {}]
    context = EMPTY.apply([Append(ReviewKey.REPORTS, entry) for entry in foreign])
    assert list(report_operations(stage=REVIEW, visit=1, outcome=said(SUCCESS), context=context, at=0.0)) == []


@pytest.mark.parametrize("stage", [DecisionStage(id="d"), ExitStage(id="e")])
def test_decisions_and_exits_report_nothing(stage: BaseStage) -> None:
    """Only reviews and tools find things."""
    assert "review.findings" not in visited(EMPTY, stage, 1, said(FAIL))


def model(steps: list[tuple[str, Status]]) -> list[tuple[str, int]]:
    """What should be outstanding, in ten lines."""
    visits: dict[str, int] = {}
    outstanding: list[tuple[str, int]] = []
    for stage, status in steps:
        visits[stage] = visits.get(stage, 0) + 1
        if status in (FAIL, PARTIAL):
            outstanding.append((stage, visits[stage]))
        elif status is SUCCESS:
            outstanding = [entry for entry in outstanding if entry[0] != stage]
    return outstanding


STAGES: dict[str, BaseStage] = {
    **{name: LlmStage(id=name, prompt="x", auto_status=True) for name in ("a", "b", "c")},
    **{name: ToolStage(id=name, command="x") for name in ("d", "e")},
}


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(STAGES)), st.sampled_from([FAIL, PARTIAL, SUCCESS, Status.RETRY])),
        max_size=60,
    )
)
@settings(max_examples=40, deadline=None)
def test_reports_match_the_model_in_any_order(steps: list[tuple[str, Status]]) -> None:
    """Passes and failures of five stages, in any order."""
    context = EMPTY
    visits: dict[str, int] = {}
    for index, (name, status) in enumerate(steps):
        visits[name] = visits.get(name, 0) + 1
        context = visited(context, STAGES[name], visits[name], said(status, f"{name}{index}"))
        assert [(entry["stageId"], entry["iteration"]) for entry in findings(context)] == model(steps[: index + 1])


def test_reports_are_counted_for_all_stages_or_for_one() -> None:
    """An entry that is not a report counts as one of no stage."""
    entries = ({"stageId": "a"}, {"stageId": "a"}, {"stageId": "b"}, "odd")
    context = EMPTY.apply([Append(ReviewKey.REPORTS, entry) for entry in entries])
    assert [count_reports(context, stage) for stage in (None, "a", "c")] == [4, 2, 0]


def test_findings_are_counted_only_while_there_is_a_report() -> None:
    """A report in words alone counts as one finding, and what a stage writes under the key as none."""
    counts = {"open": 3, "to_be_fixed": 2, "stages": {"a": 2}}
    assert count_findings(EMPTY.apply([Set(ReviewKey.OPEN, counts)]), None) == 0
    reported = EMPTY.apply([Append(ReviewKey.REPORTS, {"stageId": stage}) for stage in ("a", "b")])
    for value, expected in ((counts, [2, 2, 1, 0]), ("odd", [1, 1, 1, 0]), ({"stages": 7}, [1, 1, 1, 0])):
        context = reported.apply([Set(ReviewKey.OPEN, value)])
        assert [count_findings(context, stage) for stage in (None, "a", "b", "c")] == expected


def test_a_verdict_is_a_string_or_none() -> None:
    """Anything else under its key is not a verdict."""
    contexts = [EMPTY.apply([Set(ReviewKey.VERDICT, value)]) for value in ("FAIL", ["FAIL"])]
    assert [last_verdict(context, None) for context in (*contexts, EMPTY)] == ["FAIL", "none", "none"]


def test_an_event_announces_how_many_reports_are_open() -> None:
    """Only after a commit that changed them."""
    one = EMPTY.apply([Append(ReviewKey.REPORTS, {"stageId": "a"})])
    counts = {"reports": 1, "findings": 0, "outstanding": 1}
    assert list(commit_events(EMPTY, one)) == [("findings_changed", counts)]
    two = one.apply([Set(ReviewKey.OPEN, {"open": 3, "to_be_fixed": 2, "stages": {"a": 2}})])
    assert list(commit_events(one, two)) == [("findings_changed", {**counts, "findings": 3})]
    assert list(commit_events(one, one.apply([Set("x", 1)]))) == []


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.text(max_size=5)), max_size=12))
@settings(max_examples=25, deadline=None)
def test_the_file_follows_the_context(steps: list[tuple[bool, str, str]]) -> None:
    """Reports added and cleared in any order: the file is the same list, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = ReportsFile(Path(folder) / "runs" / "findings.json")
        context = EMPTY
        for adds, stage, text in steps:
            operation = Append("f", {"stageId": stage, "text": text}) if adds else Discard("f", {"stageId": stage})
            context = context.apply([operation])
            assert json.loads(file.current(context.list_at("f")).read_text()) == context.list_at("f")


def test_a_removed_file_is_written_again(tmp_path: Path) -> None:
    """It is a copy of the context."""
    file = ReportsFile(tmp_path / "findings.json")
    reports = [{"stageId": "a"}]
    file.current(reports).unlink()
    assert json.loads(file.current(reports).read_text()) == reports


def test_a_report_that_is_replaced_among_others_is_not_missed(tmp_path: Path) -> None:
    """A plugin may set the whole list, with the same first and last report."""
    file = ReportsFile(tmp_path / "findings.json")
    context = EMPTY.apply([Append("f", {"stageId": stage}) for stage in "abc"])
    file.current(context.list_at("f"))
    first, _, last = context.get("f")
    after = context.apply([Set("f", [first, {"stageId": "other"}, last])])
    assert json.loads(file.current(after.list_at("f")).read_text()) == after.get("f")
