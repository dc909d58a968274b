"""The outcome of a command: the worse of its exit code and its report, and one line that says what failed."""

import pytest

from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, StatusSource
from pipeline.engine.ports import Assessment
from pipeline.handlers.tool import LONGEST_HEADLINE, apply_report, failure_headline

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
    """3.2: a linter that exits with 0 but reports a defect has failed; one that crashed has failed in any case."""
    outcome = apply_report(ended, Assessment(found, "found it" if found is not Status.SUCCESS else ""))
    assert (outcome.status, outcome.source, outcome.failure, outcome.response) == (status, source, ended.failure, "out")


def test_the_reason_is_what_was_found() -> None:
    """Without findings it is how the command ended."""
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


@pytest.mark.parametrize(
    ("stdout", "stderr", "line"),
    [
        (
            "..F\nFAILED tests/test_a.py::test_x - assert 1 == 2\n1 failed, 2 passed",
            "",
            "FAILED tests/test_a.py::test_x - assert 1 == 2",
        ),
        ("=== 3 failed, 10 passed in 2s ===", "", "=== 3 failed, 10 passed in 2s ==="),
        ("FAIL: test_pages (test_report.Pages)\n\nFAILED (failures=1)", "", "FAIL: test_pages (test_report.Pages)"),
        ("--- FAIL: TestThing (0.00s)", "", "--- FAIL: TestThing (0.00s)"),
        ("compiling\n", "src/a.c:3: error: missing semicolon\n", "src/a.c:3: error: missing semicolon"),
        ("ok\n", "make: *** [check] Error 1\n", "make: *** [check] Error 1"),
        ("0 errors\nall quiet\n", "", "exit code 1: all quiet"),
        ("", "", "exit code 1"),
        ("\x1b[31mboom error\x1b[0m", "", "boom error"),
        (
            "\x1b[31mFAILED\x1b[0m t.py::\x1b[1mtest_x\x1b[0m - assert 0\n\x1b[31m\x1b[1m1 failed\x1b[0m in 0.1s",
            "",
            "FAILED t.py::test_x - assert 0",
        ),
        ("", "\x1b]8;;https://e.org/E1\x1b\\error[E1]\x1b]8;;\x07: no\n", "error[E1]: no"),
    ],
)
def test_the_headline_is_the_most_telling_line(stdout: str, stderr: str, line: str) -> None:
    """The first failing test, a count of failures, an error line, or how the command ended."""
    assert failure_headline(stdout, stderr, "exit code 1") == line


def test_a_headline_is_short() -> None:
    """However long the line is that it comes from."""
    assert len(failure_headline("error " + "x" * 5000, "", "")) == LONGEST_HEADLINE
