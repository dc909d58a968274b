"""Disputes and rulings, as whole runs: a fixer objects, the reviewer rules, and nobody's silence decides anything."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf
from tests.integration.test_convergence import ROUND, Project, code, fix, found, item

LEAK = item("The handle leaks", 100)
WRONG = "1: wrong, because the caller closes it"
TWO = """
stage "rev" kind="llm" findings="review" prompt="Review it"
stage "sec" kind="llm" findings="review" prompt="Review it too"
stage "gate" kind="decision" {
  route when="outcome(\\"rev\\") == \\"success\\" && outcome(\\"sec\\") == \\"success\\"" to="end"
  route when="true" to="fix"
}
stage "fix" kind="llm" prompt="Fix it"
stage "end" kind="exit"
transition from="rev" to="sec"
transition from="sec" to="gate"
transition from="fix" to="rev"
loop "fixing" {
  stages "rev" "sec" "gate" "fix"
  max_rounds 2
  on "exhausted" to="end"
}
"""


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    """A project of its own."""
    return Project(awf, tmp_path / "project")


def finding(project: Project, number: int = 1) -> dict[str, Any]:
    """The whole record of a finding."""
    shown: dict[str, Any] = json.loads(project.awf("findings", "show", str(number), "--json").stdout)
    return shown


def rules(*said: str) -> str:
    """A review that finds nothing new, and rules on findings by their numbers."""
    return found(answers="\n".join(f"[FINDING {one}]" for one in said))


def test_a_disputed_finding_that_is_upheld_is_worked_on_again(project: Project) -> None:
    """The reviewer is given the dispute; by upholding the finding it fails, without having to repeat it."""
    fixes = [fix(code(), WRONG), fix(code(l100="# repaired"), "1: fixed")]
    upheld = rules("1: upheld, because it is closed above")
    ended = project.run({"rev": [found(LEAK), upheld, rules("1: fixed")], "fix": fixes})
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 2, "rev", "gate", "end"])
    assert "tried: fix: wrong, because the caller closes it" in project.prompt("rev", 2)
    again = project.prompt("fix", 2)
    assert "ruled: rev on #1: upheld, because it is closed above" in again
    assert "#1 (must, high, open" in again
    assert finding(project)["state"] == "verified_fixed"
    assert project.rounds() == [[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]


def test_a_finding_that_its_reviewer_withdraws_is_a_false_positive(project: Project) -> None:
    """The run continues without a change to the code, and the history says who said what."""
    withdrawn = rules("1: withdrawn, because it is closed above")
    ended = project.run({"rev": [found(LEAK), withdrawn], "fix": fix(code(), WRONG)})
    assert (ended["status"], ended["path"]) == ("success", [*ROUND, "rev", "gate", "end"])
    shown = finding(project)
    assert (shown["state"], shown["suppression"]["by"]) == ("false_positive", "rev")
    said = [(one["what"], one["who"], one["word"], one["note"]) for one in shown["history"] if one["word"]]
    assert said == [
        ("claim", "fix", "wrong", "because the caller closes it"),
        ("ruling", "rev", "withdrawn", "because it is closed above"),
    ]


def test_a_finding_that_its_reviewer_lowers_no_longer_has_to_be_fixed(project: Project) -> None:
    """Severity and gate follow the ruling, and what is only suggested does not fail the review."""
    lowered = rules("1: lowered to P2, because it is rare")
    fixes = [fix(code(), WRONG), fix(code(l100="# repaired"), "1: fixed")]
    assert project.run({"rev": [found(LEAK), lowered, rules("1: fixed")], "fix": fixes})["status"] == "success"
    events = json.loads(project.awf("why", "r", "--json").stdout)
    assert [one["status"] for one in events if one.get("stage") == "rev"] == ["fail", "partial_success", "success"]
    shown = finding(project)
    assert (shown["severity"], shown["gate"], shown["state"]) == ("medium", "suggest", "verified_fixed")


def test_a_dispute_that_is_upheld_twice_is_for_a_person(project: Project) -> None:
    """By a ruling, and by reporting it again; the stalled transition names the finding."""
    ended = project.run({"rev": [found(LEAK), rules("1: upheld"), found(LEAK)], "fix": fix(code(), WRONG)})
    assert ended["path"] == [*ROUND * 2, "rev", "gate", "hopeless", "end"]
    assert project.left_because() == ["stalled", "#1"]


def test_of_two_who_reported_a_defect_each_rules_on_its_own_finding(project: Project) -> None:
    """The fixer's claim counts for both. One is verified, and the line of work stays open with the other."""
    fixes = [fix(code(l100="handle = reopened(path)"), "1: fixed"), fix(code(l100="# repaired"), "1: fixed")]
    reviews = {"rev": [found(LEAK), rules("1: fixed")], "sec": [found(LEAK), rules("2: not fixed")]}
    ended = project.run({**reviews, "fix": fixes}, loop=TWO)
    assert ended["path"] == [*["rev", "sec", "gate", "fix"] * 2, "end"]  # its rounds are used up
    ours, theirs = finding(project), finding(project, 2)
    assert [(one["state"], one["line"]) for one in (ours, theirs)] == [
        ("verified_fixed", ours["id"]),
        ("fix_claimed", ours["id"]),
    ]
    states = [one["state"] for one in theirs["history"] if one["state"]]
    assert states == ["open", "fix_claimed", "reopened", "fix_claimed"]


def test_a_withdrawal_does_not_close_what_another_reviewer_reported(project: Project) -> None:
    """Only its own: the line of work stays open, and is worked on again."""
    reviews = {"rev": [found(LEAK), rules("1: withdrawn, because")], "sec": [found(LEAK), rules("2: upheld")]}
    ended = project.run({**reviews, "fix": fix(code(), WRONG)}, loop=TWO)
    assert ended["path"] == [*["rev", "sec", "gate", "fix"] * 2, "end"]
    assert [finding(project, number)["state"] for number in (1, 2)] == ["false_positive", "open"]


def test_neither_silence_nor_another_reviewer_closes_a_finding(project: Project) -> None:
    """The code has changed and a fix is claimed; the reviewer says nothing, and another one that it is fixed."""
    reviews = {"rev": [found(LEAK), found()], "sec": [found(), rules("1: fixed")]}
    ended = project.run({**reviews, "fix": fix(code(l100="# repaired"), "1: fixed")}, loop=TWO)
    assert ended["path"] == [*["rev", "sec", "gate", "fix"] * 2, "end"]
    assert finding(project)["state"] == "fix_claimed"
    story = json.loads(project.awf("why", "r", "--json").stdout)
    assert [one["status"] for one in story if one.get("stage") == "rev"] == ["fail", "fail"]
    told = json.loads(project.awf("verdict", "--json").stdout)
    assert (told["verdict"], told["ship"]) == ("WARN", False)


def test_fixed_is_no_ruling_while_no_file_has_changed(project: Project) -> None:
    """The finding stays claimed and the review fails; once a file has changed, the same ruling closes it."""
    fixes = [fix(code(), "1: fixed"), fix(code(l100="# repaired"), "1: fixed")]
    ended = project.run({"rev": [found(LEAK), rules("1: fixed")], "fix": fixes})
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 2, "rev", "gate", "end"])
    rulings = [one["state"] for one in finding(project)["history"] if one["what"] == "ruling"]
    assert rulings == ["verified_fixed"]


def test_a_dismissal_is_given_to_the_reviewer_of_the_file(project: Project) -> None:
    """With its reason and only for files of the change; raising it again without new evidence changes nothing."""
    script = {"rev": [found(LEAK)], "fix": fix(code(), "1: not fixed, because a person decides")}
    project.run(script)
    note = "closed by the caller"
    assert project.awf("findings", "triage", "1", "--as", "false-positive", "--note", note).returncode == 0
    (project.folder / "app.py").write_text(code(l7="# changed"))
    ended = project.run({"rev": [found(LEAK)]}, run="again")
    assert (ended["status"], ended["path"]) == ("success", ["rev", "gate", "end"])
    prompt = project.prompt("rev", 1, run="again")
    assert "## Already considered" in prompt
    assert f"reason: {note}" in prompt
    assert finding(project)["state"] == "false_positive"
    project.git("commit", "-qam", "a change")
    project.run({"rev": [found()]}, run="elsewhere")
    assert "## Already considered" not in project.prompt("rev", 1, run="elsewhere")


def test_what_is_not_for_the_fixer_does_not_fail_a_review(project: Project) -> None:
    """It is listed apart, by number; what must be fixed comes first, safe fixes before all others."""
    others = [
        item("Rename the module", 10, autofix_class="advisory", severity="P2"),
        item("The licence is unclear", 20, owner="human"),
        item("The flag has to be flipped", 30, owner="release"),
        item("It was slow before", 40, pre_existing=True),
    ]
    assert project.run({"rev": found(*others)})["path"] == ["rev", "gate", "end"]
    safe = item("A word is misspelt", 200, autofix_class="safe_auto", severity="P2")
    doubtful = item("It may be slow", 210, confidence=50)
    reviews = [found(*others, LEAK, safe, doubtful), rules("5: fixed", "6: fixed")]
    script = {"rev": reviews, "fix": fix(code(l100="# repaired"), "5: fixed", "6: fixed")}
    assert project.run(script, run="again")["path"] == [*ROUND, "rev", "gate", "end"]
    prompt = project.prompt("fix", 1, run="again")
    parts = ["## Findings by file", "misspelt", "leaks", "## Not to be changed", "licence", "## Existed before", "slow"]
    assert [prompt.rindex(part) for part in parts] == sorted(prompt.rindex(part) for part in parts)
    assert "1 reported item below the confidence gate" in prompt
    assert '{"' not in prompt.partition("## Findings by file")[2]
