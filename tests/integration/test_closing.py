"""What opens and closes findings: failures in words, and complete reports of tools; silence never does."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

LOOP = """
stage "code" kind="llm" prompt="Write it"
stage "check" kind="tool" command="sh check.sh" on_error="route"
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "other" kind="llm" auto_status=true prompt="Review it too"
stage "gate" kind="decision" {
  route when="reports() > 0" to="fix"
  route when="true" to="exit"
}
stage "fix" kind="llm" prompt="Fix it"
stage "exit" kind="exit"
transition from="code" to="check"
transition from="check" to="rev" on="always"
transition from="rev" to="other" on="always"
transition from="other" to="gate" on="always"
transition from="fix" to="check"
"""
FINE = "Fine.\n[STATUS: success]"
CODE = "one = 1\ntwo = compute(one)\nthree = 3\n"


def bad(reason: str) -> str:
    """A review that fails in prose."""
    return f"It will not do: {reason}.\n[STATUS: fail]\n[FAILURE_REASON: {reason}]"


def found(*titles: str, **more: Any) -> str:
    """A review that reports findings with these titles."""
    items = [
        {
            "title": title,
            "severity": "P1",
            "file": "a.py",
            "line": 2,
            "autofix_class": "gated_auto",
            "owner": "downstream-resolver",
            "requires_verification": False,
            "confidence": 100,
            "evidence": ["a.py:2 -- two = compute(one)"],
            "pre_existing": False,
            **more,
        }
        for title in titles
    ]
    return json.dumps(
        {"reviewer": "x", "findings": items, "reviewed": ["a.py: read"], "residual_risks": [], "testing_gaps": []}
    )


def sarif(*messages: str) -> str:
    """The report of a tool with one result per message, each in a file of its own."""
    results = [
        {
            "ruleId": f"R{number}",
            "level": "error",
            "message": {"text": text},
            "locations": [
                {"physicalLocation": {"artifactLocation": {"uri": f"{text}.py"}, "region": {"startLine": number}}}
            ],
        }
        for number, text in enumerate(messages, 1)
    ]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "lint"}}, "results": results}]})


def junit(**tests: str) -> str:
    """A test report: each test with what became of it."""
    inner = {"passed": "", "failed": '<failure message="no"/>', "skipped": "<skipped/>"}
    cases = "".join(f'<testcase classname="t" name="{name}">{inner[what]}</testcase>' for name, what in tests.items())
    return f"<testsuite>{cases}</testsuite>"


class Project:
    """A directory with one file, and the runs there."""

    def __init__(self, awf: Awf, folder: Path) -> None:
        self._awf, self.folder = awf, folder
        (folder / "a.py").write_text(CODE)
        (folder / "check.sh").write_text('test ! -e broken || { echo "1 failed"; exit 1; }\n')

    def awf(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._awf(*arguments, cwd=self.folder)

    def run(self, run_id: str = "r", start: str = "code", **script: Any) -> dict[str, Any]:
        """A run with these answers; what it printed last."""
        head = f'workflow "W" {{\nversion 2\nstart "{start}"\nsettings {{ max_visits 6; }}\n'
        (self.folder / "w.awf.kdl").write_text(f"{head}{LOOP}}}\n")
        (self.folder / "script.json").write_text(json.dumps(script))
        given = ("--backend", "scripted", "--script", "script.json", "--run-id", run_id, "--json")
        done = self.awf("run", "w.awf.kdl", *given)
        assert done.stdout, done.stderr
        ended: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return ended

    def take(self, name: str, text: str, *options: str) -> dict[str, Any]:
        """An import of a file; what it did."""
        (self.folder / name).write_text(text)
        done = self.awf("findings", "import", name, "--json", *options)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    def findings(self, *options: str) -> list[dict[str, Any]]:
        done = self.awf("findings", "list", "--state", "all", "--json", *options)
        listed: list[dict[str, Any]] = json.loads(done.stdout)
        return sorted(listed, key=lambda one: str(one["number"]))

    def states(self) -> dict[str, str]:
        return {one["title"]: one["state"] for one in self.findings()}

    def history(self, number: int) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = json.loads(self.awf("findings", "show", str(number), "--json").stdout)["history"]
        return shown


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    """A project without a repository."""
    (tmp_path / "p").mkdir()
    return Project(awf, tmp_path / "p")


def test_a_review_that_fails_in_prose_is_one_finding_until_it_passes(project: Project) -> None:
    """Failing again updates it, and the visit that passes verifies it."""
    ended = project.run(rev=[bad("no tests"), bad("still no tests"), FINE])
    (one,) = project.findings()
    assert (ended["status"], ended["reports"], ended["findings"]) == ("success", 0, 0)
    assert (one["title"], one["state"], one["severity"], one["gate"]) == (
        "still no tests", "verified_fixed", "high", "must",
    )  # fmt: skip
    assert [(change["what"], change["who"], change["state"]) for change in project.history(1)] == [
        ("raised", "rev", "open"),
        ("seen", "rev", None),
        ("ruling", "rev", "verified_fixed"),
    ]


def test_a_tool_that_fails_in_prose_is_one_finding_in_all_runs(project: Project) -> None:
    """A run leaves it open, and another in which the tool passes closes it."""
    (project.folder / "broken").touch()
    ended = project.run("r1", rev=[FINE])
    assert (ended["status"], ended["findings"]) == ("paused", 1)
    (one,) = project.findings("--run", "r1")
    assert (one["title"], one["state"]) == ("1 failed", "open")
    assert [change["what"] for change in project.history(1)] == ["raised", *["seen"] * 5]
    (project.folder / "broken").unlink()
    assert project.run("r2")["status"] == "success"
    assert project.states() == {"1 failed": "verified_fixed"}
    assert [project.history(1)[-1][name] for name in ("what", "who", "word")] == ["ruling", "check", "fixed"]


def test_a_reviewer_that_does_not_rule_closes_nothing(project: Project) -> None:
    """Neither after a fix in the same run nor in another run: its stage fails until it rules by number."""
    assert project.run("r1", rev=[found("It is never checked"), found()])["findings"] == 1
    assert project.run("r2", rev=found())["status"] == "paused"
    assert project.states() == {"It is never checked": "open"}
    ended = project.run("r3", rev=found() + "\n[FINDING 1: fixed]\n")
    assert (ended["status"], project.states()) == ("success", {"It is never checked": "verified_fixed"})


def test_an_error_is_not_a_finding(project: Project) -> None:
    """An agent that crashed has found nothing."""
    ended = project.run(rev={"error": "quota"})
    assert (ended["status"], ended["findings"], project.findings()) == ("paused", 0, [])


def test_advice_and_what_is_left_to_people_fail_no_review(project: Project) -> None:
    """They are open findings, and no report."""
    advice = json.loads(found("Rename it", severity="P2", autofix_class="advisory"))
    human = json.loads(found("Choose a licence", owner="human", line=3, evidence=["a.py:3 -- three = 3"]))
    old = json.loads(found("It was always so", pre_existing=True, line=1, evidence=["a.py:1 -- one = 1"]))
    whole = {**advice, "findings": advice["findings"] + human["findings"] + old["findings"]}
    ended = project.run(rev=json.dumps(whole))
    assert (ended["status"], ended["reports"], ended["findings"]) == ("success", 0, 3)


def test_a_tool_closes_what_it_no_longer_reports(project: Project) -> None:
    """On import, unless the file is partial; what it names is closed even then."""
    project.take("lint.sarif", sarif("a", "b"))
    assert project.take("lint.sarif", sarif("a"), "--partial")["fixed"] == []
    assert set(project.states().values()) == {"open"}
    (fixed,) = project.take("lint.sarif", sarif("a"))["fixed"]
    assert project.states() == {"a": "open", "b": "verified_fixed"}
    assert [project.history(2)[-1][name] for name in ("what", "who", "word")] == ["ruling", "lint", "fixed"]
    assert project.take("lint.sarif", sarif("a", "b"))["reopened"] == [fixed]


TYPES = "a.py:1: error: Wrong type  [assignment]\nb.py:1: error: No annotation  [var-annotated]\n"


@pytest.mark.parametrize(
    "stopped",
    [
        "a.py:3: error: Invalid syntax  [syntax]\nFound 1 error in 1 file (errors prevented further checking)\n",
        "a.py:3: error: INTERNAL ERROR -- Please try using mypy master on GitHub\n",
        '{"file": "a.py", "line": 3, "message": "Invalid syntax", "code": "syntax", "severity": "error"}\n',
    ],
)
def test_a_tool_that_stopped_early_closes_nothing(project: Project, stopped: str) -> None:
    """What mypy found before it stopped is kept, and the pass is incomplete."""
    project.take("mypy.txt", TYPES)
    taken = project.take("mypy.txt", stopped)
    assert (taken["fixed"], len(taken["new"]), taken["verdicts"]["complete"]) == ([], 1, False)
    assert set(project.states().values()) == {"open"}


def test_a_file_that_eslint_cannot_parse_keeps_its_findings(project: Project) -> None:
    """The files that it could check are closed."""

    def report(first: dict[str, Any], *second: dict[str, Any]) -> str:
        return json.dumps([{"filePath": "a.py", "messages": [first]}, {"filePath": "b.py", "messages": list(second)}])

    project.take("eslint.json", report(*({"message": name, "severity": 2, "line": 1} for name in ("a", "b"))))
    project.take("eslint.json", report({"message": "Parsing error", "fatal": True, "severity": 2, "line": 3}))
    assert project.states() == {"a": "open", "b": "verified_fixed", "Parsing error": "open"}


def test_a_test_that_passes_closes_exactly_its_own_finding(project: Project) -> None:
    """One that was skipped, or not run, stays open."""
    project.take("tests.xml", junit(a="failed", b="failed", c="failed"))
    result = project.take("tests.xml", junit(a="passed", b="skipped"))
    assert len(result["fixed"]) == 1
    assert sorted(project.states().items()) == [("a: no", "verified_fixed"), ("b: no", "open"), ("c: no", "open")]


def test_a_review_closes_nothing_on_import(project: Project) -> None:
    """Nobody knows of a fix between two imports."""
    project.take("rev.json", found("It is never checked"))
    assert project.take("rev.json", found())["fixed"] == []
    assert project.states() == {"It is never checked": "open"}


def test_what_the_gate_filtered_can_be_listed(project: Project) -> None:
    """With residual risks and testing gaps."""
    whole = json.loads(found("Perhaps", confidence=50)) | {
        "residual_risks": ["slow disks"],
        "testing_gaps": ["no load"],
    }
    project.take("rev.json", json.dumps(whole))
    shown = json.loads(project.awf("findings", "list", "--filtered", "--json").stdout)
    assert [one["title"] for one in shown["filtered"]] == ["Perhaps"]
    assert (shown["residual_risks"], shown["testing_gaps"]) == (["slow disks"], ["no load"])
    assert "Perhaps" in project.awf("findings", "list", "--filtered").stdout
