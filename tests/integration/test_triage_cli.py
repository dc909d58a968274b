"""`awf findings triage` for many findings at once, stale dismissals, and findings that are merged and split."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.forking import ForkServer
from tests.integration.screen import run_on_screen, shown
from tests.unit.findings.reviews import code, item
from tests.unit.findings.reviews import review as answer

LINES = 30
NO = ("--as", "wont-fix", "--note", "not worth it")


def review(project: Path, *items: dict[str, Any], reviewer: str = "correctness") -> str:
    (project / f"{reviewer}.json").write_text(json.dumps(answer(*items, reviewer=reviewer)))
    return f"{reviewer}.json"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Path:
    """A directory with thirty findings, ten of each of three severities."""
    folder = tmp_path_factory.mktemp("imported")
    (folder / "a.py").write_text("".join(f"{code(number)}\n" for number in range(1, LINES + 1)))
    file, env = review(folder, *map(item, range(1, LINES + 1))), {"PATH": os.environ["PATH"], "HOME": str(folder)}
    assert server.run("findings", "import", file, cwd=folder, env=env).returncode == 0
    return folder


@pytest.fixture
def project(tmp_path: Path, imported: Path) -> Path:
    """The same in a directory of its own."""
    shutil.copytree(imported, tmp_path, dirs_exist_ok=True)
    return tmp_path


def listed(awf: Awf, *arguments: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(awf("findings", "list", "--json", *arguments).stdout)
    return rows


@pytest.mark.usefixtures("project")
def test_filters_choose_and_yes_decides(awf: Awf) -> None:
    """One command decides everything that a filter selects, and prints counts."""
    done = awf("findings", "triage", "--severity", "low", "--file", "a.py", *NO, "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("10 findings ")
    assert {row["severity"] for row in listed(awf, "--state", "dismissed")} == {"low"}
    assert len(listed(awf)) == 20


@pytest.mark.usefixtures("project")
def test_without_confirmation_nothing_is_decided(awf: Awf) -> None:
    """In a pipe it stops with exit code 2, after the preview."""
    done = awf("findings", "triage", "--state", "outstanding", *NO)
    assert done.returncode == 2
    shown_rows = [line for line in done.stdout.splitlines() if line.startswith("  #")]
    assert len(shown_rows) == 20
    assert all(" correctness (" in row and " a.py:" in row for row in shown_rows)
    assert "--yes" in done.stderr
    assert len(listed(awf)) == 30


@pytest.mark.usefixtures("project")
def test_a_dry_run_decides_nothing(awf: Awf) -> None:
    """It shows what would be decided and refused, with exit code 0."""
    done = awf("findings", "triage", "1", "nope", "--as", "fixed", "--dry-run", "--yes")
    assert done.returncode == 0
    assert "verified_fixed" in done.stdout.splitlines()[0]
    assert done.stderr.startswith("refused: nope: ")
    assert len(listed(awf)) == 30


@pytest.mark.usefixtures("project")
def test_the_preview_and_the_result_for_a_program(awf: Awf) -> None:
    """A program is not asked: it gets the plan and exit code 2, or the result with --yes."""
    low = ("findings", "triage", "--severity", "low", "--json", *NO)
    looked, stopped, done = awf(*low, "--dry-run"), awf(*low), awf(*low, "--yes")
    planned = json.loads(looked.stdout)
    assert tuple(planned) == ("planned", "refused", "problems")
    assert {(one["from"], one["state"]) for one in planned["planned"]} == {("open", "wont_fix")}
    assert (looked.returncode, stopped.returncode, done.returncode) == (0, 2, 0)
    assert json.loads(stopped.stdout) == planned
    assert json.loads(done.stdout)["applied"] == planned["planned"]


@pytest.mark.usefixtures("project")
def test_each_reason_of_a_refusal_is_printed_once(awf: Awf) -> None:
    """An agent cannot confirm a fix, by any filter; the reason is printed once, with some of the names."""
    done = awf("findings", "triage", "--severity", "low", "--as", "fixed", "--by", "orchestrator", "--yes")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("refused: fnd_")
    assert " and 5 more: " in line
    assert awf("findings", "triage", "--severity", "low", "--as", "open").returncode == 1  # nothing to confirm
    assert len(listed(awf)) == 30


@pytest.mark.usefixtures("project")
def test_filters_narrow_what_is_named(awf: Awf) -> None:
    """A named finding that the filters do not select is left alone, with a note."""
    rows = {row["number"]: row["severity"] for row in listed(awf)}
    low, high = (next(str(n) for n, severity in rows.items() if severity == wanted) for wanted in ("low", "high"))
    done = awf("findings", "triage", low, high, "--severity", "low", *NO, "--yes")
    assert done.returncode == 0
    assert done.stderr.endswith(f": {high}\n")
    assert [str(row["number"]) for row in listed(awf, "--state", "dismissed")] == [low]
    assert awf("findings", "triage", low, "--severity", "low", "--as", "open", "--yes").returncode == 0
    assert len(listed(awf)) == 30  # a named finding may be in any state


@pytest.mark.usefixtures("project")
def test_findings_must_be_named_or_selected(awf: Awf) -> None:
    """Neither names nor filters is an error; a filter that selects nothing is not."""
    none = awf("findings", "triage", "--as", "fixed", "--yes")
    assert none.returncode == 2
    empty = awf("findings", "triage", "--file", "other/", "--as", "fixed", "--yes")
    assert (empty.returncode, empty.stdout) == (0, "")


@pytest.mark.parametrize(("answer", "left"), [("y", 20), ("n", 30)])
def test_a_person_is_asked(awf: Awf, project: Path, answer: str, left: int) -> None:
    """On a terminal the preview ends in a question."""
    command = [str(COMMAND), "findings", "triage", "--severity", "low", *NO]
    screen = shown(run_on_screen(command, project, typed=[answer]))
    assert any("10 findings? (y/N): " in line for line in screen)
    assert len(listed(awf)) == left


def unused(awf: Awf) -> dict[str, list[str]]:
    return {row["title"]: row["dismissed"][row["id"]]["unused"] for row in listed(awf, "--unused")}


def test_stale_dismissals_are_reported(awf: Awf, project: Path) -> None:
    """Import and verdict print one line; the list says who dismissed it, why, until when, and why it is stale."""
    expires = ("--expires", "2099-12-31")
    assert awf("findings", "triage", "--severity", "low", *NO, *expires, "--yes").returncode == 0
    assert awf("findings", "list", "--unused").stderr == "No findings.\n"
    assert awf("verdict").stderr == ""
    file = project / "a.py"
    file.write_text(file.read_text().replace("line_2 = compute(2)", "line_2 = 2"))
    assert unused(awf) == {"Line 2 is wrong": ["changed"]}
    done = awf("findings", "import", review(project, *map(item, range(5, LINES + 1))))
    (note,) = awf("verdict").stderr.splitlines()
    assert note.endswith("awf findings list --unused")
    assert note in done.stdout
    told = awf("findings", "list", "--unused").stdout.splitlines()
    assert "2099-12-31" in told[2]
    assert told[3].startswith("    stale: ")
    again = json.loads(awf("findings", "import", "correctness.json", "--json").stdout)
    assert again["unused"] == [row["id"] for row in listed(awf, "--unused")]


def test_stale_dismissals_are_selected_together(awf: Awf, project: Path) -> None:
    """A dismissal whose code is gone is taken back with the others of its kind; what nobody reports again is not."""
    assert awf("findings", "triage", "--severity", "low", *NO, "--yes").returncode == 0
    file = project / "a.py"
    file.write_text(file.read_text().replace("line_2 =", "first =").replace("line_5 =", "second ="))
    assert awf("findings", "import", review(project, *map(item, range(12, LINES + 1)))).returncode == 0
    assert unused(awf) == {"Line 2 is wrong": ["changed"], "Line 5 is wrong": ["changed"]}
    done = awf("findings", "triage", "--unused", "--as", "open", "--yes")
    assert (done.returncode, unused(awf)) == (0, {})
    assert len(listed(awf, "--state", "dismissed")) == 8
    (row,) = (row for row in listed(awf) if row["title"] == "Line 2 is wrong")
    history = json.loads(awf("findings", "show", row["id"], "--json").stdout)["history"]
    assert [change["state"] for change in history if change["what"] == "triage"] == ["wont_fix", "open"]


@pytest.mark.usefixtures("project")
def test_a_list_of_dismissed_findings_says_who_and_why(awf: Awf) -> None:
    """The JSON has the whole suppression; an open finding has none."""
    awf("findings", "triage", "1", *NO)
    assert NO[-1] in awf("findings", "list", "--state", "wont-fix").stdout
    (row,) = listed(awf, "--state", "dismissed")
    dismissed = row["dismissed"][row["id"]]
    assert (dismissed["suppression"]["by"], dismissed["suppression"]["reason"]) == ("user", NO[-1])
    assert dismissed["suppression"]["digest"].startswith("line/v1:")
    assert dismissed["unused"] == []
    assert all(row["dismissed"] == {} for row in listed(awf))


def test_reviewers_that_disagree_are_named_in_the_walk(awf: Awf, project: Path) -> None:
    """One has a fix, which recommends Apply; the other says Skip. One without a fix has not voted at all."""
    fixed = review(project, item(1, suggested_fix="Compute it once.", owner="review-fixer"))
    silent = review(project, item(1, confidence=75, owner="review-fixer"), reviewer="testing")
    against = review(project, item(1, recommendation="skip"), reviewer="security")
    (project / "answers.json").write_text('["skip"]')
    for store, returns in {"agreed": (fixed, silent), "disputed": (fixed, silent, against)}.items():
        assert awf("findings", "import", *returns, "--store", store).returncode == 0
    agreed, disputed = (
        awf("findings", "walk", "--answers", "answers.json", "--store", store).stdout
        for store in ("agreed", "disputed")
    )
    assert "recommends" not in agreed
    assert "Apply the proposed fix (recommended)" in agreed
    assert "Correctness recommends Apply; Security recommends Skip. Agent's recommendation: Skip." in disputed


@pytest.mark.usefixtures("project")
def test_a_stage_of_a_run_decides_as_an_agent(awf: Awf) -> None:
    """Whatever --by says, a stage does not dismiss what must be fixed or confirm a fix; it may dismiss a suggestion."""
    (must,) = listed(awf, "--severity", "high")[:1]
    (minor,) = listed(awf, "--severity", "low")[:1]
    inside = {"AWF_STAGE": "fix", "AWF_RUN_ID": "r"}
    assert awf("findings", "triage", must["id"], *NO, "--by", "user", **inside).returncode != 0
    assert awf("findings", "triage", must["id"], "--as", "fixed", "--by", "revalidate", **inside).returncode != 0
    assert awf("findings", "triage", minor["id"], *NO, **inside).returncode == 0
    assert [row["id"] for row in listed(awf, "--state", "dismissed")] == [minor["id"]]
    for verb in (["merge", "1", "2"], ["split", "1"]):
        assert awf("findings", *verb, **inside).returncode == 2


@pytest.mark.usefixtures("project")
def test_findings_are_merged_and_split(awf: Awf) -> None:
    """A line of work is one row with its members, whose texts `show` and `why` print; a split leaves all as before."""
    before = listed(awf)
    first, second, third = (row["id"] for row in listed(awf, "--severity", "high")[:3])
    done = awf("findings", "merge", second, third, first, "--note", "one cause", "--json")
    assert json.loads(done.stdout) == {"merged": [second, third], "into": first, "problems": []}
    rows = {row["id"]: row for row in listed(awf)}
    assert (len(rows), [member["id"] for member in rows[first]["members"]]) == (28, [first, second, third])
    record = json.loads(awf("findings", "show", first, "--json").stdout)
    assert [member["id"] for member in record["members"]] == [first, second, third]
    for member in record["members"][1:]:
        assert f"#{member['number']} correctness" in awf("findings", "show", first).stdout
        assert f"#{member['number']} correctness" in awf("findings", "why", first).stdout
    assert "(3 findings) " in awf("findings", "list").stdout
    assert json.loads(awf("verdict", "--json").stdout)["summary"]["high"] == 8
    split = awf("findings", "split", second, third, "--json")
    assert json.loads(split.stdout) == {"split": [second, third], "problems": []}
    assert listed(awf) == before


@pytest.mark.usefixtures("project")
def test_a_merge_hides_no_severity_and_a_decision_counts_for_all(awf: Awf) -> None:
    """Part of a minor line of work, a severe finding makes it severe; --only decides about the named finding alone."""
    [low], [high] = (listed(awf, "--severity", severity, "--limit", "1") for severity in ("low", "high"))
    assert awf("findings", "merge", high["id"], low["id"]).returncode == 0
    [line] = (row for row in listed(awf, "--severity", "high") if row["id"] == low["id"])
    assert (line["number"], line["severity"], line["gate"]) == (low["number"], "high", "must")
    assert awf("findings", "triage", low["id"], *NO, "--only").returncode == 0
    states = {member["id"]: member["state"] for row in listed(awf) for member in row["members"]}
    assert (states[low["id"]], states[high["id"]]) == ("wont_fix", "open")
    decided = json.loads(awf("findings", "triage", low["id"], "--as", "fixed", "--json").stdout)
    assert {one["id"] for one in decided["applied"]} == {low["id"], high["id"]}


@pytest.mark.usefixtures("project")
def test_a_merge_or_split_of_something_unknown_changes_nothing(awf: Awf) -> None:
    """All of the named findings are moved, or none."""
    before = listed(awf)
    first, second = (row["id"] for row in before[:2])
    assert awf("findings", "merge", first, "nope", second).returncode == 2
    assert awf("findings", "split", first).returncode == 2
    assert listed(awf) == before
