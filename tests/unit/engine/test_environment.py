"""What a condition is answered: from the context, the outcomes and the visits, and null for what is not there."""

from pipeline.engine.context import EMPTY, Append, Set
from pipeline.engine.outcome import Status
from pipeline.engine.routing import ConditionScope

CONTEXT = EMPTY.apply(
    [
        Set("build.response", "done"),
        Set("empty", None),
        *(Append("review.findings", entry) for entry in ({"stageId": "a"}, {"stageId": "a"}, {"stageId": "b"}, "odd")),
    ]
)
RUN = ConditionScope(CONTEXT, {"a": Status.FAIL}, {"a": 2})


def test_outcomes_and_visits_of_stages() -> None:
    """One that never ran says so, and has no visits."""
    assert (RUN.outcome("a"), RUN.outcome("b")) == ("fail", "not_run")
    assert (RUN.visits("a"), RUN.visits("b")) == (2, 0)


def test_values_of_the_context() -> None:
    """Null is a value that is there; a key that is not there has none."""
    assert (RUN.output("build.response"), RUN.context("build.response"), RUN.context("no")) == ("done", "done", None)
    assert (RUN.exists("empty"), RUN.exists("no")) == (True, False)


def test_findings_are_counted_for_all_stages_or_for_one() -> None:
    """An entry that is no report of a stage counts as a finding, and as nobody's."""
    assert (RUN.findings(None), RUN.findings("a"), RUN.findings("c")) == (4, 2, 0)


def test_a_verdict_is_a_word_or_none() -> None:
    """Whatever else somebody put under its key is no verdict."""
    said = ConditionScope(EMPTY.apply([Set("review.verdict", "FAIL")]), {}, {})
    odd = ConditionScope(EMPTY.apply([Set("review.verdict", ["FAIL"])]), {}, {})
    assert (said.verdict(), odd.verdict(), RUN.verdict()) == ("FAIL", "none", "none")
