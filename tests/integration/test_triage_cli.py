"""`awf findings triage` for many findings at once, and dismissals that are of no use any more."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import run_on_screen, shown

LINES = 30
NO = ("--as", "wont-fix", "--note", "not worth it")


def item(number: int, **more: Any) -> dict[str, Any]:
    """One item of a reviewer's return."""
    return {
        "title": f"Line {number} is wrong",
        "severity": ("P1", "P2", "P3")[number % 3],
        "file": "a.py",
        "line": number,
        "why_it_matters": "It breaks.",
        "autofix_class": "manual",
        "owner": "human",
        "requires_verification": False,
        "confidence": 100,
        "evidence": [f"a.py:{number} -- line_{number} = compute({number})"],
        "pre_existing": False,
        **more,
    }


def review(project: Path, *items: dict[str, Any], reviewer: str = "correctness") -> str:
    told = {"reviewer": reviewer, "findings": items, "residual_risks": [], "testing_gaps": []}
    (project / f"{reviewer}.json").write_text(json.dumps(told))
    return f"{reviewer}.json"


@pytest.fixture
def project(tmp_path: Path, awf: Awf) -> Path:
    """A directory with thirty findings, ten of each of three severities."""
    (tmp_path / "a.py").write_text("".join(f"line_{number} = compute({number})\n" for number in range(1, LINES + 1)))
    assert awf("findings", "import", review(tmp_path, *map(item, range(1, LINES + 1)))).returncode == 0
    return tmp_path


def listed(awf: Awf, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(awf("findings", "list", "--json", *arguments).stdout)
    return rows


@pytest.mark.usefixtures("project")
def test_filters_choose_and_yes_decides(awf: Awf) -> None:
    """All that a filter takes is decided by one command, and told by numbers."""
    done = awf("findings", "triage", "--severity", "low", "--file", "a.py", *NO, "--yes")
    assert (done.returncode, done.stdout, done.stderr) == (0, "10 findings are wont_fix now.\n", "")
    assert {row["severity"] for row in listed(awf, "--state", "dismissed")} == {"low"}
    assert len(listed(awf)) == 20


@pytest.mark.usefixtures("project")
def test_without_a_yes_nothing_is_decided(awf: Awf) -> None:
    """Where nobody can be asked it stops with exit code 2, after it has shown what it would do."""
    done = awf("findings", "triage", "--state", "outstanding", *NO)
    assert done.returncode == 2
    lines = done.stdout.splitlines()
    assert lines[0] == "30 findings would become wont_fix:"
    assert lines[1].split() == ["#", "ID", "GATE", "SEVERITY", "STATE", "PLACE", "TITLE"]
    assert (len(lines), lines[-1]) == (23, "and 10 more; --dry-run --json has all of them")
    assert "error: nothing was decided" in done.stderr
    assert "add --yes" in done.stderr
    assert len(listed(awf)) == 30


@pytest.mark.usefixtures("project")
def test_a_dry_run_only_shows(awf: Awf) -> None:
    """Also for what is named, with what would be refused and why, and the exit code is 0."""
    done = awf("findings", "triage", "1", "nope", "--as", "fixed", "--dry-run", "--yes")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 finding would become verified_fixed:")
    assert done.stderr == "refused: nope: there is no such finding\n"
    assert len(listed(awf)) == 30


@pytest.mark.usefixtures("project")
def test_the_preview_and_the_result_for_a_program(awf: Awf) -> None:
    """A program is not asked: it gets the plan and exit code 2, or with --yes the result."""
    low = ("findings", "triage", "--severity", "low", "--json", *NO)
    looked, stopped, done = awf(*low, "--dry-run"), awf(*low), awf(*low, "--yes")
    planned = json.loads(looked.stdout)
    assert tuple(planned) == ("planned", "refused", "problems")
    assert {(one["from"], one["state"]) for one in planned["planned"]} == {("open", "wont_fix")}
    assert (looked.returncode, stopped.returncode, done.returncode) == (0, 2, 0)
    assert json.loads(stopped.stdout) == planned
    assert json.loads(done.stdout)["applied"] == planned["planned"]


@pytest.mark.usefixtures("project")
def test_what_is_refused_is_told_once_for_each_reason(awf: Awf) -> None:
    """000-43: by no filter does an agent make anything fixed; the reason stands once, with some of the names."""
    done = awf("findings", "triage", "--severity", "low", "--as", "fixed", "--by", "orchestrator", "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("refused: fnd_")
    assert " and 5 more: orchestrator may not" in line
    assert awf("findings", "triage", "--severity", "low", "--as", "open").returncode == 1  # nothing to say yes to
    assert len(listed(awf)) == 30


@pytest.mark.usefixtures("project")
def test_filters_narrow_what_is_named(awf: Awf) -> None:
    """What is named and not taken by the filters is left alone, and told."""
    rows = {row["number"]: row["severity"] for row in listed(awf)}
    low, high = (next(str(n) for n, severity in rows.items() if severity == wanted) for wanted in ("low", "high"))
    done = awf("findings", "triage", low, high, "--severity", "low", *NO, "--yes")
    assert (done.returncode, done.stdout) == (0, "1 finding is wont_fix now.\n")
    assert done.stderr == f"note: not among what the filters take: {high}\n"
    again = awf("findings", "triage", low, "--severity", "low", "--as", "open", "--yes")  # named, so in any state
    assert again.stdout == "1 finding is open now.\n"


@pytest.mark.usefixtures("project")
def test_somebody_has_to_say_which(awf: Awf) -> None:
    """Neither names nor filters are no way to say everything; and a filter may take nothing."""
    none = awf("findings", "triage", "--as", "fixed", "--yes")
    assert none.returncode == 2
    assert "it is not said which findings are meant" in none.stderr
    empty = awf("findings", "triage", "--file", "other/", "--as", "fixed", "--yes")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "No findings to decide about.\n")


@pytest.mark.parametrize(("answer", "left", "last"), [("y", 20, "10 findings are wont_fix now."), ("n", 30, "Nothing")])
def test_a_person_is_asked(awf: Awf, project: Path, answer: str, left: int, last: str) -> None:
    """On a terminal the preview ends in a question."""
    command = [str(COMMAND), "findings", "triage", "--severity", "low", *NO]
    screen = shown(run_on_screen(command, project, typed=[answer]))
    assert screen[0] == "10 findings would become wont_fix:"
    assert any(line.startswith("Decide about 10 findings? (y/N): ") for line in screen)
    assert [line for line in screen if line][-1].startswith(last)
    assert len(listed(awf)) == left


def unused(awf: Awf) -> dict[str, list[str]]:
    return {row["title"]: row["unused"] for row in listed(awf, "--unused")}


def test_dismissals_of_no_use_are_told(awf: Awf, project: Path) -> None:
    """By import and verdict with one line, by the list with who, why, until when, and why it is of no use."""
    expires = ("--expires", "2099-12-31")
    assert awf("findings", "triage", "--severity", "low", *NO, *expires, "--yes").returncode == 0
    assert awf("findings", "list", "--unused").stderr == "No findings.\n"
    assert awf("verdict").stderr == ""
    file = project / "a.py"
    file.write_text(file.read_text().replace("line_2 = compute(2)", "line_2 = 2"))
    assert unused(awf) == {"Line 2 is wrong": ["changed"]}
    done = awf("findings", "import", review(project, *map(item, range(5, LINES + 1))))
    note = "note: 1 dismissal is of no use any more: awf findings list --unused\n"
    assert note in done.stdout
    assert awf("verdict").stderr == note
    told = awf("findings", "list", "--unused").stdout.splitlines()
    assert told[2] == "    by user until 2099-12-31: not worth it"
    assert [line.startswith("    unused: ") for line in told[3:5]] == [True, True]
    again = json.loads(awf("findings", "import", "correctness.json", "--json").stdout)
    assert again["unused"] == [row["id"] for row in listed(awf, "--unused")]


def test_dismissals_of_no_use_are_cleared_away_together(awf: Awf, project: Path) -> None:
    """As for any other choice; those that are of use are left alone, and history only grows."""
    assert awf("findings", "triage", "--severity", "low", *NO, "--yes").returncode == 0
    assert awf("findings", "import", review(project, *map(item, range(7, LINES + 1)))).returncode == 0
    assert unused(awf) == {"Line 2 is wrong": ["unmatched"], "Line 5 is wrong": ["unmatched"]}
    done = awf("findings", "triage", "--unused", "--as", "fixed", "--yes")
    assert (done.stdout, unused(awf)) == ("2 findings are verified_fixed now.\n", {})
    assert len(listed(awf, "--state", "dismissed")) == 8
    (row,) = (row for row in listed(awf, "--state", "all") if row["title"] == "Line 2 is wrong")
    history = json.loads(awf("findings", "show", row["id"], "--json").stdout)["history"]
    assert [change["state"] for change in history if change["what"] == "state"] == ["wont_fix", "verified_fixed"]


@pytest.mark.usefixtures("project")
def test_a_list_of_what_is_dismissed_says_who_and_why(awf: Awf) -> None:
    """A program gets the whole dismissal, and nothing of the kind for what is open."""
    awf("findings", "triage", "1", *NO)
    assert "    by user: not worth it\n" in awf("findings", "list", "--state", "wont-fix").stdout
    (row,) = listed(awf, "--state", "dismissed")
    assert (row["suppression"]["by"], row["suppression"]["reason"], row["unused"]) == ("user", "not worth it", [])
    assert row["suppression"]["digest"].startswith("line/v1:")
    assert all("suppression" not in row for row in listed(awf))


def test_reviewers_that_differ_are_heard_in_the_walk(awf: Awf, project: Path) -> None:
    """002-17: one has a fix and one has none, so that one would apply it and the other put it off."""
    fixed = review(project, item(1, suggested_fix="Compute it once."))
    unsure = review(project, item(1, confidence=75), reviewer="testing")
    assert awf("findings", "import", fixed, unsure, "--store", "other").returncode == 0
    (project / "answers.json").write_text('["skip"]')
    done = awf("findings", "walk", "--answers", "answers.json", "--store", "other")
    assert "Correctness recommends Apply; Testing recommends Defer." in done.stdout


@pytest.mark.usefixtures("project")
def test_a_stage_of_a_run_decides_as_an_agent_whoever_it_says_it_is(awf: Awf) -> None:
    """0-37: what must be fixed is not dismissed from inside a stage, nor called fixed; a suggestion may be."""
    (must,) = listed(awf, "--severity", "high")[:1]
    (minor,) = listed(awf, "--severity", "low")[:1]
    inside = {"AWF_STAGE": "fix", "AWF_RUN_ID": "r"}
    assert awf("findings", "triage", must["id"], *NO, "--by", "user", **inside).returncode != 0
    assert awf("findings", "triage", must["id"], "--as", "fixed", "--by", "revalidate", **inside).returncode != 0
    assert awf("findings", "triage", minor["id"], *NO, **inside).returncode == 0
    assert [row["id"] for row in listed(awf, "--state", "dismissed")] == [minor["id"]]
