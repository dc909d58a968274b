"""The options that a run records about its review."""

from typing import Any

from pipeline.engine.records import RunCreated
from pipeline.engine.state import State, begin
from pipeline.findings.review_options import ReviewOptions, review_options

SOURCE = 'workflow "w" {\n  version 2\n  start "end"\n  stage "end" kind="exit"\n}\n'


def started(**options: Any) -> State:
    return begin(
        RunCreated(
            at=0.0, run_id="r", file="w", source=SOURCE, goal="g", cwd="/", version="0", head="a" * 40, options=options
        )
    )


def test_the_options_of_a_run_are_those_it_recorded() -> None:
    """Lists in JSON are read as tuples."""
    given = {"mode": "verify", "base": "b" * 40, "paths": ["src"], "lenses": ["qa", "pm"], "report": True, "task": "7"}
    expected = ReviewOptions(mode="verify", base="b" * 40, paths=("src",), lenses=("qa", "pm"), report=True, task="7")
    assert review_options(started(review=given)) == expected


def test_a_run_that_was_not_started_as_a_review_reviews_its_change_in_full() -> None:
    """It is compared with the commit that was checked out when it started."""
    assert review_options(started()) == ReviewOptions(base="a" * 40, task="r")
