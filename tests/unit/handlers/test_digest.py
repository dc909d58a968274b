"""One line that says what went wrong."""

import pytest

from pipeline.handlers.tool import LONGEST_HEADLINE, failure_headline


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
def test_the_most_telling_line_is_taken(stdout: str, stderr: str, line: str) -> None:
    """The first failing test, a count of failures, an error line, or how the command ended."""
    assert failure_headline(stdout, stderr, "exit code 1") == line


def test_a_digest_is_one_short_line() -> None:
    """However long the line it is taken from."""
    assert len(failure_headline("error " + "x" * 5000, "", "")) == LONGEST_HEADLINE
