"""Disputes and dismissals, as whole runs: a fixer objects, the reviewer rules, and nobody else's word is lost."""

import json
import sys
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


def ruling(word: str, **more: str) -> dict[str, Any]:
    return {"number": 1, "ruling": word, "reason": "it is closed above", **more}


def ruled(*rulings: dict[str, Any]) -> str:
    """A review that finds nothing new, and rules on what it was given."""
    return f"```json\n{json.dumps({'reviewer': 'rev', 'findings': [], 'rulings': rulings})}\n```"


def test_a_disputed_finding_that_is_upheld_is_worked_on_again(project: Project) -> None:
    """0-51: the reviewer is given the dispute; by upholding the finding it fails, without having to repeat it."""
    fixes = [fix(code(), WRONG), fix(code(l100="# repaired"), "1: fixed")]
    ended = project.run({"rev": [found(LEAK), ruled(ruling("upheld")), ruled(ruling("fixed"))], "fix": fixes})
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 2, "rev", "gate", "end"])
    assert "tried: wrong fix because the caller closes it" in project.prompt("rev", 2)
    assert "ruled: rev upheld: it is closed above" in project.prompt("fix", 2)
    assert "#1 (must, high, open" in project.prompt("fix", 2)
    assert finding(project)["state"] == "verified_fixed"
    assert project.rounds() == [[0, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]]


def test_a_finding_that_its_reviewer_withdraws_is_a_false_positive(project: Project) -> None:
    """0-51: the run continues without a change to the code, and the history says who said what."""
    ended = project.run({"rev": [found(LEAK), ruled(ruling("withdrawn"))], "fix": fix(code(), WRONG)})
    assert (ended["status"], ended["path"]) == ("success", [*ROUND, "rev", "gate", "end"])
    shown = finding(project)
    assert (shown["state"], shown["suppression"]["by"]) == ("false_positive", "revalidate")
    why = project.awf("findings", "why", "1").stdout
    assert "wrong, because the caller closes it" in why
    assert "ruling by rev" in why
    assert "withdrawn: it is closed above" in why
    assert json.loads(project.awf("findings", "list", "--unused", "--json").stdout) == []


def test_a_finding_that_its_reviewer_lowers_no_longer_has_to_be_fixed(project: Project) -> None:
    """0-51: severity and gate follow the ruling, and what is only suggested does not fail the review."""
    lowered = "[FINDING 1: lowered to P2, because it is rare]\n"
    script = {"rev": [found(LEAK), found(answers=lowered), ruled(ruling("fixed"))], "fix": fix(code(), WRONG)}
    assert project.run(script)["status"] == "success"
    events = json.loads(project.awf("why", "r", "--json").stdout)
    assert [one["status"] for one in events if one.get("stage") == "rev"] == ["fail", "partial_success", "success"]
    shown = finding(project)
    assert (shown["severity"], shown["gate"]["value"]) == ("medium", "suggest")


@pytest.mark.parametrize("again", [ruled(ruling("upheld")), found(LEAK)], ids=["ruled", "reported"])
def test_a_dispute_that_is_upheld_twice_is_for_a_person(project: Project, again: str) -> None:
    """0-51: by a ruling or by reporting it again; the stalled transition names the finding."""
    ended = project.run({"rev": [found(LEAK), again], "fix": fix(code(), WRONG)})
    assert ended["path"] == [*ROUND * 2, "rev", "gate", "hopeless", "end"]
    assert project.left_because() == ["stalled", "#1"]


def test_a_reviewer_that_says_not_fixed_by_number_fails(project: Project) -> None:
    """0-52: an empty list of findings is not a pass while a fix is refuted, even if the lines changed."""
    fixes = [fix(code(l100="handle = reopened(path)"), "1: fixed"), fix(code(l100="# repaired"), "1: fixed")]
    script = {"rev": [found(LEAK), ruled(ruling("not fixed")), ruled(ruling("fixed"))], "fix": fixes}
    ended = project.run(script)
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 2, "rev", "gate", "end"])
    assert "not_fixed" in project.prompt("fix", 2)


def test_of_two_who_reported_a_finding_both_must_call_it_fixed(project: Project) -> None:
    """0-03: one says by number that it is fixed and the other that it is not: the second round does not pass."""
    fixes = [fix(code(l100="handle = reopened(path)"), "1: fixed"), fix(code(l100="# repaired"), "1: fixed")]
    says_fixed, refutes = ruled(ruling("fixed")), ruled(ruling("not fixed"))
    script = {"rev": [found(LEAK), says_fixed, says_fixed], "sec": [found(LEAK), refutes, says_fixed], "fix": fixes}
    ended = project.run(script, loop=TWO)
    assert ended["path"] == [*["rev", "sec", "gate", "fix"] * 2, "end"]  # its rounds are used up
    shown = finding(project)
    assert (shown["state"], shown["sources"]) == ("fix_claimed", ["sec"])
    assert [one["outcome"] for one in shown["attempts"]] == ["claimed", "not_fixed", "claimed"]


def test_another_reviewer_closes_nothing(project: Project) -> None:
    """0-03: what one reported stays claimed until that one looks again, whatever another says about its number."""
    hush = found()
    script = {"rev": [found(LEAK), hush], "sec": [hush, ruled(ruling("fixed"))], "fix": fix(code(), "1: fixed")}
    project.run({**script, "rev": [found(LEAK), "I could not look.\n[STATUS: retry]"]}, loop=TWO)
    assert finding(project)["state"] == "fix_claimed"


@pytest.mark.parametrize("answer", [WRONG, "1: not fixed, because it is hard", "1: fixed"])
def test_silence_about_unchanged_code_takes_nothing_back(project: Project, answer: str) -> None:
    """0-05: the fixer changes no file, and the reviewer says nothing about its finding: it is not verified."""
    ended = project.run({"rev": [found(LEAK), found()], "fix": fix(code(), answer)})
    assert finding(project)["state"] != "verified_fixed"
    assert ended["path"] != [*ROUND, "rev", "gate", "end"]


@pytest.mark.parametrize("answer", [WRONG, "1: not fixed, because it is hard"])
def test_silence_does_not_settle_what_the_fixer_did_not_fix(project: Project, answer: str) -> None:
    """0-51: other code has changed; what is disputed or not fixed needs a ruling."""
    project.run({"rev": [found(LEAK), found()], "fix": fix(code(l5="# other"), answer)})
    assert finding(project)["state"] != "verified_fixed"


AGENT = """#!{python}
import json, pathlib, sys
prompt = sys.stdin.read()
count = pathlib.Path("{calls}")
calls = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(calls))
if prompt.rstrip().endswith("Fix it"):
    pathlib.Path("fixes").write_text(str(calls))
    print("Done. [FINDING 1: fixed]")
    sys.exit()
found = [{leak}] if calls == 1 else [{race}] if "Before this review passes" in prompt else []
print(json.dumps({{"findings": found}}))
"""


def test_a_review_passes_only_after_a_look_at_the_whole_change(project: Project, tmp_path: Path) -> None:
    """0-52: what a look at the last fix alone would have missed fails the second visit; the third is a full look."""
    race = item("Two threads may start at once", 20)
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.format(python=sys.executable, calls=tmp_path / "calls", leak=LEAK, race=race))
    agent.chmod(0o755)
    ended = project.run({}, backend=("--backend", "command", "--agent-command", str(agent)))
    assert (ended["status"], ended["path"]) == ("success", [*ROUND * 2, "rev", "gate", "end"])
    assert (tmp_path / "calls").read_text() == "6"
    assert finding(project, 2)["title"] == race["title"]


def test_a_withdrawal_does_not_close_what_another_reviewer_reported(project: Project) -> None:
    """0-51: only its own: the finding stays open, and the history says that one vote is gone."""
    both = {"rev": [found(LEAK), ruled(ruling("withdrawn"))], "sec": [found(LEAK), ruled(ruling("upheld"))]}
    ended = project.run({**both, "fix": [fix(code(), WRONG), fix(code())]}, loop=TWO)
    assert ended["path"][:5] == ["rev", "sec", "gate", "fix", "rev"]
    shown = finding(project)
    assert shown["state"] == "open"
    assert [one["note"].partition(":")[0] for one in shown["history"] if one["what"] == "ruling"] == [
        "withdrawn",
        "upheld",
    ]


def test_a_dismissal_is_given_to_the_reviewer_of_the_file(project: Project) -> None:
    """0-50: with its reason and only for files of the change; raising it again without new evidence changes nothing."""
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
    """0-15: it is listed apart, by number; what must be fixed comes first, safe fixes before all others."""
    others = [
        item("Rename the module", 10, autofix_class="advisory", severity="P2"),
        item("The licence is unclear", 20, owner="human"),
        item("The flag has to be flipped", 30, owner="release"),
        item("It was slow before", 40, pre_existing=True),
    ]
    assert project.run({"rev": found(*others)})["path"] == ["rev", "gate", "end"]
    safe = item("A word is misspelt", 200, autofix_class="safe_auto", severity="P2")
    doubtful = item("It may be slow", 210, confidence=50)
    script = {"rev": [found(*others, LEAK, safe, doubtful), found()], "fix": fix(code(l100="# repaired"), "5: fixed")}
    assert project.run(script, run="again")["path"] == [*ROUND, "rev", "gate", "end"]
    prompt = project.prompt("fix", 1, run="again")
    parts = ["## Findings by file", "misspelt", "leaks", "## Not to be changed", "licence", "## Existed before", "slow"]
    assert [prompt.rindex(part) for part in parts] == sorted(prompt.rindex(part) for part in parts)
    assert "1 reported item below the confidence gate" in prompt
    assert '{"' not in prompt.partition("## Findings by file")[2]
