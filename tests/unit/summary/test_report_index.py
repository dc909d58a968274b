"""Open reports by stage, each read once for all summaries."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.context import EMPTY, Append, Delete, Discard, Operation, Set
from pipeline.summary.report_index import ReportIndex

REPORTS_KEY = "reviews.open"  # whatever it is called

REPORTS = st.fixed_dictionaries(
    {"stageId": st.sampled_from(["a", "b", "c"]), "status": st.sampled_from(["fail", "partial_success"])},
    optional={"iteration": st.integers(-1, 40), "failureReason": st.text(max_size=3)},
)
ODD: st.SearchStrategy[Any] = st.none() | st.text(max_size=3) | st.lists(REPORTS | st.none(), max_size=3)
OPERATIONS = (
    st.builds(Append, st.just(REPORTS_KEY), REPORTS | ODD)
    | st.builds(Discard, st.just(REPORTS_KEY), st.fixed_dictionaries({"stageId": st.sampled_from(["a", "b"])}))
    | st.builds(Set, st.just(REPORTS_KEY), ODD)
    | st.just(Delete(REPORTS_KEY))
)


@given(st.lists(st.lists(OPERATIONS, max_size=14), max_size=6))
def test_an_index_that_follows_a_run_equals_a_new_one(visits: list[list[Operation]]) -> None:
    """After any operations it gives the same groups, as it must after a resume."""
    following, context = ReportIndex(REPORTS_KEY), EMPTY
    for operations in visits:
        context = context.apply(operations)
        assert following.groups(context) == ReportIndex(REPORTS_KEY).groups(context)


def test_a_replaced_report_is_noticed() -> None:
    """A plugin may set the whole list, with the same first and last report."""
    following = ReportIndex(REPORTS_KEY)
    before = EMPTY.apply([Append(REPORTS_KEY, {"stageId": stage}) for stage in "abc"])
    following.groups(before)
    first, _, last = before.get(REPORTS_KEY)
    after = before.apply([Set(REPORTS_KEY, [first, {"stageId": "other"}, last])])
    assert following.groups(after) == ReportIndex(REPORTS_KEY).groups(after)


def test_only_the_latest_reports_of_a_stage_are_read() -> None:
    """Of forty reports it gives the newest, the nine before it, and how many are older."""
    context = EMPTY.apply(Append(REPORTS_KEY, {"stageId": "a", "iteration": number}) for number in range(1, 41))
    (group,) = ReportIndex(REPORTS_KEY).groups(context)
    assert (group.newest.iteration, [one.iteration for one in group.earlier], group.older) == (
        40,
        [*range(31, 40)],
        30,
    )
