"""What a tool's report makes of the way it ended: the worse of both, and an unreadable report is never clean."""

import pytest

from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource
from pipeline.engine.ports import Assessment
from pipeline.handlers.tool import apply_report

WELL = Outcome(status=Status.SUCCESS, source=StatusSource.EXIT_CODE, response="out")
FAILED = Outcome(
    status=Status.FAIL,
    source=StatusSource.EXIT_CODE,
    reason="exit code 2",
    response="out",
    failure=Failure(kind=FailureClass.EXIT_NONZERO, digest="exit code 2", exit_code=2),
)


@pytest.mark.parametrize(
    ("ended", "found", "status", "source"),
    [
        (WELL, Status.SUCCESS, Status.SUCCESS, StatusSource.EXIT_CODE),
        (WELL, Status.PARTIAL_SUCCESS, Status.PARTIAL_SUCCESS, StatusSource.STRUCTURED),
        (WELL, Status.FAIL, Status.FAIL, StatusSource.STRUCTURED),
        (FAILED, Status.SUCCESS, Status.FAIL, StatusSource.EXIT_CODE),
        (FAILED, Status.PARTIAL_SUCCESS, Status.FAIL, StatusSource.EXIT_CODE),
        (FAILED, Status.FAIL, Status.FAIL, StatusSource.EXIT_CODE),
    ],
)
def test_the_worse_of_exit_code_and_report_counts(
    ended: Outcome, found: Status, status: Status, source: StatusSource
) -> None:
    """3.2: a linter that ends well and found something grave has failed; one that crashed has, whatever it reported."""
    outcome = apply_report(ended, Assessment(found, "found it" if found is not Status.SUCCESS else ""))
    assert (outcome.status, outcome.source, outcome.failure, outcome.response) == (status, source, ended.failure, "out")


def test_what_was_found_is_the_reason_and_else_how_it_ended() -> None:
    """A person reads what the tool found before how it ended."""
    assert apply_report(FAILED, Assessment(Status.FAIL, "3 to be fixed")).reason == "3 to be fixed"
    assert apply_report(FAILED, Assessment(Status.SUCCESS)).reason == "exit code 2"
    assert apply_report(WELL, Assessment(Status.SUCCESS)) == WELL


@pytest.mark.parametrize("ended", [WELL, FAILED], ids=["well", "badly"])
def test_a_report_that_cannot_be_read_is_an_error_however_the_command_ended(ended: Outcome) -> None:
    """6.6: nobody knows what the tool found."""
    outcome = apply_report(ended, Assessment(problem="it is not XML"))
    assert outcome.status is Status.ERROR
    assert "it is not XML" in outcome.reason
    assert ended.reason in outcome.reason
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureClass.PROTOCOL
