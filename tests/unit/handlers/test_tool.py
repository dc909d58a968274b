"""What a tool's report makes of the way it ended: the worse of both, and an unreadable report is never clean."""

import pytest

from pipeline.engine.handler import Judged
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Source, Status
from pipeline.handlers.tool import with_report

WELL = Outcome(status=Status.SUCCESS, source=Source.EXIT_CODE, response="out")
FAILED = Outcome(
    status=Status.FAIL,
    source=Source.EXIT_CODE,
    reason="exit code 2",
    response="out",
    failure=Failure(kind=FailureClass.EXIT_NONZERO, digest="exit code 2", exit_code=2),
)


@pytest.mark.parametrize(
    ("ended", "found", "status", "source"),
    [
        (WELL, Status.SUCCESS, Status.SUCCESS, Source.EXIT_CODE),
        (WELL, Status.PARTIAL_SUCCESS, Status.PARTIAL_SUCCESS, Source.STRUCTURED),
        (WELL, Status.FAIL, Status.FAIL, Source.STRUCTURED),
        (FAILED, Status.SUCCESS, Status.FAIL, Source.EXIT_CODE),
        (FAILED, Status.PARTIAL_SUCCESS, Status.FAIL, Source.EXIT_CODE),
        (FAILED, Status.FAIL, Status.FAIL, Source.EXIT_CODE),
    ],
)
def test_the_worse_of_exit_code_and_report_counts(
    ended: Outcome, found: Status, status: Status, source: Source
) -> None:
    """3.2: a linter that ends well and found something grave has failed; one that crashed has, whatever it reported."""
    outcome = with_report(ended, Judged(found, "found it" if found is not Status.SUCCESS else ""))
    assert (outcome.status, outcome.source, outcome.failure, outcome.response) == (status, source, ended.failure, "out")


def test_what_was_found_is_the_reason_and_else_how_it_ended() -> None:
    """A person reads what the tool found before how it ended."""
    assert with_report(FAILED, Judged(Status.FAIL, "3 to be fixed")).reason == "3 to be fixed"
    assert with_report(FAILED, Judged(Status.SUCCESS)).reason == "exit code 2"
    assert with_report(WELL, Judged(Status.SUCCESS)) == WELL


def test_a_report_that_cannot_be_read_fails_a_command_that_ended_well() -> None:
    """6.6: no report is not a clean report."""
    outcome = with_report(WELL, Judged(problem="it is no XML"))
    reason = "its report cannot be read: it is no XML"
    assert (outcome.status, outcome.reason, outcome.notes) == (Status.FAIL, reason, (reason,))
    assert outcome.failure == Failure(kind=FailureClass.PROTOCOL, digest=reason)


def test_a_report_that_cannot_be_read_is_noted_beside_a_failure() -> None:
    """How a command failed says more than that its report is missing; both are told."""
    outcome = with_report(FAILED, Judged(problem="it is no XML"))
    assert (outcome.reason, outcome.failure) == ("exit code 2", FAILED.failure)
    assert outcome.notes == ("its report cannot be read: it is no XML",)
