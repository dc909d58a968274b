"""Reports by stage, read once and kept from summary to summary."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.context import EMPTY, Append, Delete, Discard, Key, Operation, Set
from pipeline.summary.report_index import ReportIndex

REPORTS = st.fixed_dictionaries(
    {"stageId": st.sampled_from(["a", "b", "c"]), "status": st.sampled_from(["fail", "partial_success"])},
    optional={"iteration": st.integers(-1, 40), "failureReason": st.text(max_size=3)},
)
ODD: st.SearchStrategy[Any] = st.none() | st.text(max_size=3) | st.lists(REPORTS | st.none(), max_size=3)
OPERATIONS = (
    st.builds(Append, st.just(Key.FINDINGS), REPORTS | ODD)
    | st.builds(Discard, st.just(Key.FINDINGS), st.fixed_dictionaries({"stageId": st.sampled_from(["a", "b"])}))
    | st.builds(Set, st.just(Key.FINDINGS), ODD)
    | st.just(Delete(Key.FINDINGS))
)


@given(st.lists(st.lists(OPERATIONS, max_size=14), max_size=6))
def test_what_is_kept_makes_no_difference(visits: list[list[Operation]]) -> None:
    """After any operations, whoever followed the run sees what a newcomer sees, as after a resume."""
    following, context = ReportIndex(), EMPTY
    for operations in visits:
        context = context.apply(operations)
        assert following.groups(context) == ReportIndex().groups(context)


def test_a_report_that_is_replaced_among_others_is_not_missed() -> None:
    """A plugin may set the whole list, with the same first and last report."""
    following = ReportIndex()
    before = EMPTY.apply([Append(Key.FINDINGS, {"stageId": stage}) for stage in "abc"])
    following.groups(before)
    first, _, last = before.get(Key.FINDINGS)
    after = before.apply([Set(Key.FINDINGS, [first, {"stageId": "other"}, last])])
    assert following.groups(after) == ReportIndex().groups(after)


def test_a_stage_that_failed_often_is_counted_and_its_latest_reports_are_read() -> None:
    """Forty reports: the newest, the nine before it, and how many are older."""
    context = EMPTY.apply(Append(Key.FINDINGS, {"stageId": "a", "iteration": number}) for number in range(1, 41))
    (group,) = ReportIndex().groups(context)
    assert (group.newest.iteration, [one.iteration for one in group.earlier], group.older) == (
        40,
        [*range(31, 40)],
        30,
    )
