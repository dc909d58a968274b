"""`awf report`: the pages the real command writes."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

WORKFLOW = """
workflow "Paged" {
  version 2
  goal "Write a page"
  start "make"
  settings { max_visits 4; }
  stage "make" kind="workspace.create"
  stage "write" kind="llm" prompt="Write"
  stage "review" kind="llm" auto_status=true prompt="Review"
  stage "merge" kind="workspace.merge"
  stage "clean" kind="workspace.cleanup"
  stage "exit" kind="exit"
  transition from="make" to="write"
  transition from="write" to="review"
  transition from="review" to="merge" when="outcome(\\"review\\") == \\"success\\""
  transition from="review" to="write" when="outcome(\\"review\\") != \\"success\\""
  transition from="merge" to="clean"
  transition from="clean" to="exit"
}
"""
FLAKY = """
workflow "Flaky" {
  version 2
  start "build"
  stage "build" kind="tool" command="test -e ready || exit 127"
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""
NOTED = """
workflow "Noted" {
  version 2
  start "build"
  stage "build" kind="llm" prompt="Build"
  stage "test" kind="llm" prompt="Test"
  stage "exit" kind="exit"
  transition from="build" to="test"
  transition from="test" to="exit"
}
"""
FINDING = {
    "title": "The page is empty",
    "severity": "P1",
    "file": "page.txt",
    "line": 1,
    "why_it_matters": "nobody can read it",
    "autofix_class": "gated_auto",
    "owner": "downstream-resolver",
    "requires_verification": False,
    "suggested_fix": "write something",
    "confidence": 100,
    "evidence": ["page.txt:1 -- nothing"],
    "pre_existing": False,
}


def returned(*findings: dict[str, object]) -> str:
    whole = {"findings": list(findings), "reviewed": ["page.txt: read"], "residual_risks": [], "testing_gaps": []}
    return json.dumps(whole)


SCRIPT = {
    "write": [{"write": {"page.txt": "nothing\n"}}, {"write": {"page.txt": "one\ntwo\n"}}],
    "review": [returned(FINDING), f"{returned()}\n[FINDING 1: fixed]"],
}


@pytest.fixture
def project(tmp_path: Path, awf: Awf) -> Path:
    """A repository with a run that found something, fixed it, and merged."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "old.txt").write_text("old\n")
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        subprocess.run(named, cwd=folder, check=True, capture_output=True)
    (folder / "paged.awf.kdl").write_text(WORKFLOW)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    done = awf("run", "paged.awf.kdl", "--run-id", "r1", "--script", "script.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_two_pages_are_written_and_named(project: Path, awf: Awf) -> None:
    """The Markdown and the HTML are in the store; both show the path, the finding and the changes."""
    done = awf("report", "latest", cwd=project)
    assert (done.returncode, done.stdout) == (0, ".awf/reports/r1.md\n.awf/reports/r1.html\n"), done.stderr
    for name in ("r1.md", "r1.html"):
        page = (project / ".awf/reports" / name).read_text()
        assert "make → (write → review) × 2 → merge → clean → exit" in page
        assert "The page is empty" in page
        assert "page.txt:1" in page
        assert "1 file changed, 2 insertions(+)" in page
    assert sorted(path.name for path in (project / ".awf/reports").iterdir()) == ["r1.html", "r1.md"]


def test_a_report_written_again_is_the_same(project: Path, awf: Awf) -> None:
    """The same journal gives the same bytes, wherever they are written; `--json` names the files."""
    first = json.loads(awf("report", "r1", "--json", cwd=project).stdout)
    second = json.loads(awf("report", "r1", "--json", "-o", "out/pages", cwd=project).stdout)
    pages = {"markdown": "out/pages/r1.md", "html": "out/pages/r1.html"}
    assert second == {**pages, "reports": 0, "findings": 0}
    for form in ("markdown", "html"):
        assert (project / first[form]).read_bytes() == (project / second[form]).read_bytes()


def test_a_directory_that_cannot_be_written_is_an_error(project: Path, awf: Awf) -> None:
    """The error names the directory and says what to do."""
    done = awf("report", "r1", "-o", "old.txt/below", cwd=project)
    assert done.returncode == 2
    assert "old.txt/below" in done.stderr
    assert "-o DIR" in done.stderr


def test_errors_and_pauses_are_shown_in_order(tmp_path: Path, awf: Awf) -> None:
    """Each attempt that errored has a row before the pause that followed; while paused the path ends at the error."""
    (tmp_path / "w.awf.kdl").write_text(FLAKY)
    assert awf("run", "w.awf.kdl", "--run-id", "r1").returncode == 3
    awf("report", "r1")
    page = (tmp_path / ".awf/reports/r1.md").read_text()
    assert "\nbuild (error)\n" in page
    assert "awf resume r1" in page
    assert "interrupted" not in page
    (tmp_path / "ready").touch()
    assert awf("resume", "r1").returncode == 0
    awf("report", "r1")
    page = (tmp_path / ".awf/reports/r1.md").read_text()
    assert "\nbuild → exit\n" in page
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in page.splitlines() if row.startswith("| ")]
    steps = [(row[0], row[2], row[6].split(":")[0]) for row in rows if len(row) == 7][1:]
    assert steps == [
        ("build", "error", "attempt 1"),
        ("", "", "paused"),
        ("", "", "resumed"),
        ("build", "success", "2 attempts."),
        ("exit", "success", ""),
    ]
    assert "resume with" not in page


def test_a_quota_and_notes_are_shown(tmp_path: Path, awf: Awf) -> None:
    """The page shows when a quota resets, and what was restored in view files, as text."""
    (tmp_path / "w.awf.kdl").write_text(NOTED)
    notes = [{"stage": "build", "visit": 1, "at": "", "note": "put back <b>severity</b>"}]
    quota = {"error": "quota", "message": "used up", "retry_after": 7200}
    script = {"build": [{"status": "success", "context_updates": {"review.notes": notes}}], "test": [quota]}
    (tmp_path / "s.json").write_text(json.dumps(script))
    assert awf("run", "w.awf.kdl", "--run-id", "r1", "--script", "s.json").returncode == 3
    awf("report", "r1")
    page, html = ((tmp_path / f".awf/reports/r1.{form}").read_text() for form in ("md", "html"))
    assert "| quota resets | " in page
    assert "| test | 1 | error | quota |" in page
    assert "put back &lt;b&gt;severity" in html
    assert '<span class="bad">error</span>' in html


def test_an_unknown_run(awf: Awf) -> None:
    """It is an error, as in every command that shows runs."""
    done = awf("report", "latest")
    assert (done.returncode, done.stdout) == (2, "")
