"""A report that contradicts itself is never clean: through `awf findings import` and `awf verdict`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.test_findings_cli import listed, project, verdict

__all__ = ["project"]

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
BLOCKER = {**HIGH, "severity": "Blocker"}
PASSED = '<testcase name="a"/>'
FAILED = '<testcase name="b"><failure message="no"/></testcase>'
MESSAGES = [{"severity": 2, "message": "Bad", "line": 5}]


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


def eslint(**counts: int) -> str:
    return json.dumps([{"filePath": "src/a.py", "messages": MESSAGES, **counts}])


def sarif(invocation: dict[str, Any], *results: dict[str, Any]) -> str:
    run = {"tool": {"driver": {"name": "lint"}}, "results": results, "invocations": [invocation]}
    return json.dumps({"version": "2.1.0", "runs": [run]})


@pytest.mark.parametrize(
    ("stated", "findings"),
    [("FAIL", []), ("ABORT", [HIGH]), ("FAIL", [{**BLOCKER, "status": "verified"}])],
)
def test_a_verdict_file_that_fails_without_saying_why_rejects_the_change(
    awf: Awf, project: Path, stated: str, findings: list[Any]
) -> None:
    """Its findings are taken as they are, and its word blocks although none of them does."""
    (project / "v.json").write_text(verdict_file(stated, *findings))
    awf("findings", "import", "v.json")
    code, said = verdict(awf)
    assert (code, said["ship"], said["verdict"]) == (1, False, "FAIL")
    assert len(listed(awf, "--state", "all")) == len(findings) + 1
    assert [one["state"] for one in listed(awf, "--state", "uncertain")] == ["uncertain"]


@pytest.mark.parametrize("counts", [{"high": 2}, {"blocker": 1}, {"high": "1"}, {"low": None}])
def test_a_summary_that_differs_from_the_list_changes_nothing(awf: Awf, project: Path, counts: dict[str, Any]) -> None:
    """The findings are counted, not what a file says about their number, and a note says so."""
    (project / "v.json").write_text(verdict_file("WARN", HIGH, **counts))
    done = awf("findings", "import", "v.json", "--json")
    assert (done.returncode, len(json.loads(done.stdout)["problems"])) == (0, 1)
    said = verdict(awf)[1]
    assert (said["verdict"], said["summary"]["high"], len(said["open"])) == ("WARN", 1, 1)


@pytest.mark.parametrize(
    ("name", "content", "listed_too"),
    [
        ("t.xml", f'<testsuite failures="5">{PASSED}{FAILED}</testsuite>', 1),
        ("t.xml", f'<testsuites><failure message="no"/><testsuite>{PASSED}</testsuite></testsuites>', 0),
        ("e.json", eslint(errorCount=2), 1),
    ],
)
def test_a_report_that_counts_more_than_it_shows_blocks(
    awf: Awf, project: Path, name: str, content: str, listed_too: int
) -> None:
    """0-12: what it shows is kept, and what it does not show is one finding that blocks."""
    rows = incomplete(awf, project / name, content)
    blocking = [row["title"] for row in rows if (row["state"], row["gate"]) == ("uncertain", "must")]
    assert (len(rows), len(blocking)) == (listed_too + 1, 1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("mypy.txt", "Found 2 errors in 1 file (checked 1 source file)\nSuccess: no issues found in 1 source file\n"),
        ("mypy.txt", "src/a.py:5: error: Bad  [misc]\nSuccess: no issues found in 1 source file\n"),
        ("lint.sarif", sarif({"executionSuccessful": False})),
        ("lint.sarif", sarif({"executionSuccessful": True, "exitSignalName": "SIGKILL"})),
    ],
)
def test_a_tool_that_may_have_found_more_leaves_the_review_incomplete(
    awf: Awf, project: Path, name: str, content: str
) -> None:
    """0-12: only a run that nothing speaks against may be clean."""
    incomplete(awf, project / name, content)


def incomplete(awf: Awf, file: Path, content: str) -> list[dict[str, Any]]:
    """Import a report that must not count as clean; return the findings it leaves."""
    file.write_text(content)
    done = awf("findings", "import", file.name, "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, set(answer["reviewers"].values()) & {"returned", "empty"}) == (1, set())
    code, said = verdict(awf)
    assert (code, said["complete"], said["ship"], said["verdict"]) == (1, False, False, "FAIL")
    return listed(awf)


def test_a_report_that_nothing_speaks_against_is_complete(awf: Awf, project: Path) -> None:
    """0-12: counts may be left out or include those of inner suites; a linter may exit with 1 for what it lists."""
    inner = f'<testsuite tests="2" failures="1">{PASSED}{FAILED}</testsuite>'
    for name, content in {
        "pass.json": verdict_file("PASS"),
        "abort.json": verdict_file("ABORT", {**BLOCKER, "status": "fixed"}),
        "plain.xml": f"<testsuite>{PASSED}{FAILED}</testsuite>",
        "inner.xml": f'<testsuites tests="2" failures="1" errors="0">{inner}</testsuites>',
        "eslint.json": eslint(errorCount=1, fatalErrorCount=0),
        "mypy.txt": "Success: no issues found in 1 source file\n",
        "none.sarif": sarif({}),
        "one.sarif": sarif({"exitCode": 1}, {"message": {"text": "Line is too long"}}),
    }.items():
        (project / name).write_text(content)
        assert (name, awf("findings", "import", name).returncode) == (name, 0)
        assert (name, verdict(awf)[1]["complete"]) == (name, True)
