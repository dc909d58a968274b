"""What reviews and tools found, on its way through a run: gathered, handed to the fix, cleared, kept."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

HEADING = "## Outstanding Review Findings"
FIX = "Fix all outstanding issues listed in the review findings below."
FINE = "Fine.\n[STATUS: success]"
BUDGET = 6000

MULTI_REVIEW = r"""workflow "Multi review" {
  version 2
  start "code"
  settings {
    max_visits 100
    max_stages 1000
    summary_budget 6000
  }
  stage "code" kind="llm" prompt="Write it"
  stage "selfci" kind="tool" command="CHECK"
  stage "rev1" kind="llm" auto_status=true prompt="Review the code"
  stage "rev2" kind="llm" auto_status=true prompt="Review the tests"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }
  stage "fix" kind="llm" prompt="Fix all outstanding issues listed in the review findings below."
  stage "ask" kind="human" prompt="Go on?" {
    option "yes" label="Yes" to="selfci" approves=true
    option "no" label="No" to="exit"
  }
  stage "exit" kind="exit"
  transition from="code" to="selfci"
  transition from="selfci" to="rev1" when="outcome(\"selfci\") == \"success\""
  transition from="selfci" to="fix" when="outcome(\"selfci\") != \"success\""
  transition from="rev1" to="rev2"
  transition from="rev2" to="gate"
  transition from="fix" to="ask"
}
"""


def objection(text: str, reason: str, status: str = "fail") -> str:
    """A review's answer that asks for a change."""
    return f"{text}\n[STATUS: {status}]\n[FAILURE_REASON: {reason}]"


class Reviews:
    """One run of the multi-review workflow: a person is asked after each fix, so it can be looked at between rounds."""

    def __init__(self, awf: Awf, folder: Path) -> None:
        self._awf = awf
        self._folder = folder

    def run(self, script: dict[str, Any], *, rounds: int = 0, check: str = "true") -> dict[str, Any]:
        """Run until the person is asked for the last time, or to the end."""
        (self._folder / "w.awf.kdl").write_text(MULTI_REVIEW.replace("CHECK", check))
        (self._folder / "script.json").write_text(json.dumps(script))
        given = ["--backend", "scripted", "--script", "script.json", *self._answers(rounds)]
        return self._ended(self._awf("run", "w.awf.kdl", "--run-id", "r", "--json", *given))

    def resume(self, *, rounds: int) -> dict[str, Any]:
        """Go on for so many rounds in all."""
        return self._ended(self._awf("resume", "r", "--json", *self._answers(rounds)))

    def _answers(self, rounds: int) -> list[str]:
        (self._folder / "answers.json").write_text(json.dumps({"ask": ["yes"] * rounds}))
        return ["--answers", "answers.json"]

    def _ended(self, done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        assert done.stdout, done.stderr
        ended: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {**ended, "code": done.returncode}

    def kept(self) -> subprocess.CompletedProcess[str]:
        return self._awf("context", "r", "review.findings", "--json")

    def findings(self) -> list[dict[str, Any]]:
        done = self.kept()
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    def prompt(self, visit: int = 1, stage: str = "fix") -> str:
        done = self._awf("prompt", "r", stage, "--visit", str(visit))
        assert done.returncode == 0, done.stderr
        return done.stdout.removesuffix("\n")


@pytest.fixture
def reviews(awf: Awf, tmp_path: Path) -> Reviews:
    """The workflow in an empty directory."""
    return Reviews(awf, tmp_path)


ONE = objection("a.py:3 is wrong.", "the loop never ends")
TWO = objection("No test covers b.py.", "b.py is untested", status="partial_success")


def test_findings_accumulate_across_failing_reviews(reviews: Reviews) -> None:
    """004-33.5: findings accumulated across multiple failing reviews."""
    ended = reviews.run({"rev1": ONE, "rev2": TWO})
    assert (ended["status"], ended["outstanding"]) == ("waiting", 2)
    kept = ["stageId", "iteration", "status", "failureReason", "response"]
    assert [[report[key] for key in kept] for report in reviews.findings()] == [
        ["rev1", 1, "fail", "the loop never ends", ONE],
        ["rev2", 1, "partial_success", "b.py is untested", TWO],
    ]


def test_findings_of_a_review_go_when_it_passes(reviews: Reviews) -> None:
    """004-33.6: findings cleared when review passes on re-run."""
    reviews.run({"rev1": [ONE, FINE], "rev2": TWO})
    assert [report["stageId"] for report in reviews.findings()] == ["rev1", "rev2"]
    reviews.resume(rounds=1)
    assert [(report["stageId"], report["iteration"]) for report in reviews.findings()] == [("rev2", 1), ("rev2", 2)]


def test_the_fix_receives_all_findings(reviews: Reviews) -> None:
    """004-33.7: fix node receives aggregated findings in context."""
    reviews.run({"rev1": ONE, "rev2": TWO})
    prompt = reviews.prompt()
    assert "### rev1 (fail)\n**Reason:** the loop never ends" in prompt
    assert "### rev2 (partial_success)\n**Reason:** b.py is untested" in prompt
    assert "a.py:3 is wrong." in prompt
    assert "No test covers b.py." in prompt
    assert prompt.endswith(FIX)


def test_a_failing_tool_contributes_its_digest(reviews: Reviews) -> None:
    """004-33.8: tool stage failure contributes to findings beside a review's, and its success takes that away."""
    check = "test $AWF_VISIT = 2 || exit 0; echo compiling; echo 'error: a.py:3 broken' >&2; exit 2"
    reviews.run({"rev1": [ONE, FINE]}, rounds=1, check=check)
    review, tool = reviews.findings()
    assert (review["stageId"], review["iteration"]) == ("rev1", 1)
    assert (tool["stageId"], tool["iteration"], tool["status"]) == ("selfci", 2, "fail")
    assert tool["failureReason"] == "error: a.py:3 broken"
    assert tool["response"] == "compiling\nerror: a.py:3 broken"
    prompt = reviews.prompt(2)
    assert "### selfci (fail)\n**Reason:** error: a.py:3 broken" in prompt
    assert "### rev1 (fail)" in prompt
    assert reviews.resume(rounds=2)["status"] == "success"
    assert reviews.findings() == []


def test_without_a_failure_there_are_no_findings(reviews: Reviews) -> None:
    """004-33.9: no findings when all reviews pass: the key is absent and the fix never runs."""
    ended = reviews.run({"rev1": FINE, "rev2": FINE})
    assert (ended["status"], ended["code"], ended["outstanding"]) == ("success", 0, 0)
    assert ended["path"] == ["code", "selfci", "rev1", "rev2", "gate", "exit"]
    absent = reviews.kept()
    assert (absent.returncode, absent.stdout) == (2, "")
    assert '"review.findings"' in absent.stderr
    assert HEADING not in reviews.prompt(stage="rev2")


def test_findings_survive_a_resume(reviews: Reviews) -> None:
    """004-33.10: checkpoint preserves findings: a resumed run has them byte for byte and adds its own."""
    reviews.run({"rev1": ONE, "rev2": objection('ä, 漢 and \\ " \t\x07 too.', "odd characters")})
    before = reviews.kept().stdout
    assert reviews.resume(rounds=0)["status"] == "waiting"
    assert reviews.kept().stdout == before
    reviews.resume(rounds=1)
    after = reviews.findings()
    assert after[:2] == json.loads(before)
    assert [(report["stageId"], report["iteration"]) for report in after[2:]] == [("rev1", 2), ("rev2", 2)]


def test_the_summary_has_a_section_of_findings(reviews: Reviews) -> None:
    """004-33.11: the context summary renders a findings section, once, after everything else and before the prompt."""
    reviews.run({"rev1": ONE, "rev2": TWO})
    prompt = reviews.prompt()
    assert prompt.count(HEADING) == 1
    own = prompt.partition(HEADING)[2]
    assert own.index("### rev1 (fail)") < own.index("### rev2 (partial_success)") < own.index(FIX)
    assert "\n## " not in own
    assert HEADING not in reviews.prompt(stage="code")


def test_the_summary_has_no_raw_findings(reviews: Reviews) -> None:
    """004-33.12: the context summary excludes findings from the generic dump."""
    reviews.run({"rev1": ONE, "rev2": TWO})
    prompt = reviews.prompt()
    assert "review.findings" not in prompt
    assert not [key for key in ("stageId", "failureReason", '"iteration"') if key in prompt]
    assert prompt.count("a.py:3 is wrong.") == 1


def test_thirty_failing_rounds_fit_into_the_budget(reviews: Reviews) -> None:
    """Every round's prompt stays within the budget and names the review with its newest reason."""
    rounds = [objection(f"Round {number}: " + "no good. " * 300, f"reason {number}") for number in range(1, 31)]
    ended = reviews.run({"rev1": [*rounds, FINE]}, rounds=30)
    assert (ended["status"], ended["path"].count("fix")) == ("success", 30), ended["reason"]
    for number in (1, 2, 15, 30):
        prompt = reviews.prompt(number)
        assert len(prompt) <= BUDGET + len("\n\n") + len(FIX)
        assert f"### rev1 (fail)\n**Reason:** reason {number}\n" in prompt
        assert f"Round {number}: " in prompt
    assert "visits 21 to 29" in prompt
