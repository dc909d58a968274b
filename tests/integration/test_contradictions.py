"""A report that contradicts itself is never clean: through `awf findings import` and `awf verdict`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.test_findings_cli import listed, project, verdict

__all__ = ["project"]


def refused(awf: Awf, file: Path, content: str) -> list[dict[str, Any]]:
    """Import a report that must not count as clean; return the findings it leaves."""
    file.write_text(content)
    done = awf("findings", "import", file.name, "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, set(answer["reviewers"].values()) & {"returned", "empty"}) == (1, set())
    code, said = verdict(awf)
    assert (code, said["complete"], said["ship"], said["verdict"]) == (1, False, False, "FAIL")
    return listed(awf)


def accepted(awf: Awf, file: Path, content: str) -> None:
    file.write_text(content)
    assert awf("findings", "import", file.name, "--json").returncode == 0
    assert verdict(awf)[1]["complete"] is True


def blocking(rows: list[dict[str, Any]]) -> list[str]:
    return [row["title"] for row in rows if (row["state"], row["gate"]) == ("uncertain", "must")]


HIGH = {
    "id": "security-a1b2c3d4-5-5",
    "domain": "security",
    "severity": "High",
    "confidence": 0.9,
    "file": "src/a.py",
    "lineRange": "5",
    "title": "Shell injection in run",
    "recommendation": "Use unlink",
    "status": "open",
}


def verdict_file(stated: str, *findings: dict[str, Any], **counts: Any) -> str:
    return json.dumps(
        {
            "reviewId": "a3f8c12b",
            "timestamp": "2026-02-16T14:30:00Z",
            "scope": "changeset",
            "target": "origin/master..HEAD",
            "mode": "full",
            "verdict": stated,
            "summary": {"blocker": 0, "high": 0, "medium": 0, "low": 0, "info": 0, **counts},
            "reportPath": "",
            "findings": findings,
        }
    )


@pytest.mark.parametrize(
    ("stated", "findings"),
    [
        *(("FAIL", []), ("ABORT", []), ("WARN", [])),
        ("FAIL", [HIGH]),
        ("ABORT", [HIGH]),
        ("WARN", [{**HIGH, "severity": "Low"}]),
        ("FAIL", [{**HIGH, "severity": "Blocker", "status": "verified"}]),
        ("FAIL", [{**HIGH, "severity": "Blocker", "status": "wont_fix"}]),
    ],
)
def test_a_verdict_without_its_reason_blocks(awf: Awf, project: Path, stated: str, findings: list[Any]) -> None:
    """0-12: the word of a verdict file counts where its findings do not account for it."""
    rows = refused(awf, project / "v.json", verdict_file(stated, *findings))
    [title] = blocking(rows)
    assert f" {stated}," in title


@pytest.mark.parametrize(
    "counts", [{"blocker": 1}, {"high": 2}, {"info": 1}, {"high": "1"}, {"high": -1}, {"high": True}, {"low": None}]
)
def test_a_summary_that_counts_more_than_is_listed_blocks(awf: Awf, project: Path, counts: dict[str, Any]) -> None:
    """0-12: a count that is larger than the list, or not a count, means that findings may be missing."""
    rows = refused(awf, project / "v.json", verdict_file("WARN", HIGH, **counts))
    assert (len(rows), len(blocking(rows))) == (2, 1)


def test_a_verdict_that_its_findings_explain_is_imported(awf: Awf, project: Path) -> None:
    """0-12: a sound verdict file is complete, with open or claimed findings, or with none."""
    accepted(awf, project / "v.json", verdict_file("PASS"))
    accepted(awf, project / "v.json", verdict_file("WARN", HIGH, high=1))
    accepted(awf, project / "v.json", verdict_file("ABORT", {**HIGH, "severity": "Blocker", "status": "fixed"}))


PASSED = '<testcase name="a"/>'
FAILED = '<testcase name="b"><failure message="no"/></testcase>'


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (f'<testsuite failures="5">{PASSED}{FAILED}</testsuite>', 1),
        (f'<testsuite failures="1">{PASSED}</testsuite>', 0),
        (f'<testsuite errors="1">{PASSED}</testsuite>', 0),
        (f'<testsuites failures="1"><testsuite>{PASSED}</testsuite></testsuites>', 0),
        (f'<testsuites tests="2"><testsuite tests="1">{PASSED}</testsuite></testsuites>', 0),
        (f'<testsuite tests="3">{PASSED}</testsuite>', 0),
        *((f'<testsuite failures="{count}">{PASSED}</testsuite>', 0) for count in ("-1", "1.0", "", "x", "9" * 5000)),
        (f'<testsuite>{PASSED}<testcase name="b" status="failed"/></testsuite>', 0),
        (f'<testsuite>{PASSED}<testcase name="b" result="error"/></testsuite>', 0),
        (f'<testsuites><failure message="no"/><testsuite>{PASSED}</testsuite></testsuites>', 0),
        (f"<testsuite><properties><error/></properties>{PASSED}</testsuite>", 0),
        (f'<testsuite>{PASSED}<testcase name="b"><system-out><failure/></system-out></testcase></testsuite>', 0),
    ],
)
def test_a_test_report_that_shows_less_than_it_counts_blocks(awf: Awf, project: Path, content: str, shown: int) -> None:
    """0-12: what JUnit XML counts and does not show blocks; a failure that it does show is kept."""
    rows = refused(awf, project / "t.xml", content)
    assert (len(rows), len(blocking(rows))) == (shown + 1, 1)


def test_a_test_report_without_counts_is_imported(awf: Awf, project: Path) -> None:
    """0-12: counts may be left out, and those of a suite may include the suites inside it."""
    accepted(awf, project / "t.xml", f"<testsuite>{PASSED}{FAILED}</testsuite>")
    inner = f'<testsuite tests="2" failures="1">{PASSED}{FAILED}</testsuite>'
    accepted(awf, project / "t.xml", f'<testsuites tests="2" failures="1" errors="0">{inner}</testsuites>')


@pytest.mark.parametrize(
    "counts",
    [
        *({"errorCount": count} for count in (2, "1", 1.5, None, -1)),
        {"errorCount": 1, "fatalErrorCount": 1},
        {"errorCount": 1, "warningCount": 1},
    ],
)
def test_an_eslint_file_that_lists_less_than_it_counts_blocks(awf: Awf, project: Path, counts: dict[str, Any]) -> None:
    """0-12: a file's counts above its messages block; the messages that are listed are kept."""
    file = {"filePath": "src/a.py", "messages": [{"severity": 2, "message": "Bad", "line": 5}]}
    rows = refused(awf, project / "e.json", json.dumps([{**file, **counts}]))
    assert (len(rows), len(blocking(rows))) == (2, 1)
    assert {row["file"] for row in rows} == {"src/a.py"}


def test_an_eslint_file_with_correct_counts_is_imported(awf: Awf, project: Path) -> None:
    """0-12: a clean file whose counts are zero is clean."""
    file = {"filePath": "src/a.py", "messages": [], "errorCount": 0, "fatalErrorCount": 0, "warningCount": 0}
    accepted(awf, project / "e.json", json.dumps([file]))


@pytest.mark.parametrize(
    "content",
    [
        "Found 2 errors in 1 file (checked 1 source file)\n",
        "src/a.py:5: error: Bad  [misc]\nFound 2 errors in 1 file (checked 1 source file)\n",
        "Found 2 errors in 1 file (checked 1 source file)\nSuccess: no issues found in 1 source file\n",
        "Success: no issues found in 1 source file\nFound 2 errors in 1 file (checked 1 source file)\n",
        "Success: no issues found in 1 source file\nmake: Found 2 errors\n",
        "src/a.py:5: error: Bad  [misc]\nSuccess: no issues found in 1 source file\n",
    ],
)
def test_mypy_that_shows_less_than_it_counts_is_incomplete(awf: Awf, project: Path, content: str) -> None:
    """0-12: every count of errors must be shown, and success excludes them."""
    refused(awf, project / "mypy.txt", content)


def test_a_successful_mypy_run_is_imported(awf: Awf, project: Path) -> None:
    """0-12: its word that there are no issues is enough when nothing speaks against it."""
    accepted(awf, project / "mypy.txt", "Success: no issues found in 1 source file\n")


def sarif(invocations: Any, *results: dict[str, Any]) -> str:
    run = {"tool": {"driver": {"name": "lint"}}, "results": results, "invocations": invocations}
    return json.dumps({"version": "2.1.0", "runs": [run]})


@pytest.mark.parametrize(
    "invocations",
    [
        *([{"executionSuccessful": word}] for word in (False, None, 0, 1, "true", "false")),
        *(["failed"], [None], "failed", {"executionSuccessful": False}, None),
        [{"executionSuccessful": True}, {"executionSuccessful": False}],
        *(
            [{"executionSuccessful": True, f"tool{kind}Notifications": notes}]
            for kind in ("Execution", "Configuration")
            for notes in (
                [{"level": "error", "message": {"text": "no"}}],
                [{"level": "fatal"}],
                ["no"],
                {"level": "error"},
            )
        ),
        *([{"exitCode": code}] for code in (1, -9, "2", None)),
        [{"executionSuccessful": True, "exitSignalName": "SIGKILL"}],
    ],
)
def test_a_sarif_run_that_did_not_succeed_is_incomplete(awf: Awf, project: Path, invocations: Any) -> None:
    """0-12: only a run that nothing speaks against may be clean."""
    refused(awf, project / "lint.sarif", sarif(invocations))


@pytest.mark.parametrize(
    "invocations",
    [
        *([], [{}], [{"executionSuccessful": True, "exitCode": 1}], [{"exitCode": 0}]),
        [{"executionSuccessful": True, "toolExecutionNotifications": [{"level": "note"}, {"message": {"text": "x"}}]}],
    ],
)
def test_a_successful_sarif_run_is_imported(awf: Awf, project: Path, invocations: Any) -> None:
    """0-12: warnings and notes about the run, or silence about it, leave it complete."""
    accepted(awf, project / "lint.sarif", sarif(invocations))


def test_a_sarif_exit_code_that_its_results_explain_is_imported(awf: Awf, project: Path) -> None:
    """0-12: a linter that exits with 1 because of what it reports has done its job."""
    accepted(awf, project / "lint.sarif", sarif([{"exitCode": 1}], {"message": {"text": "Line is too long"}}))
