"""The loops that people run, from the goal to the end: the shipped workflows in real git repositories."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import COMMAND, Awf

GOAL = "Greet people by name"
SELF_CHECK = "#!/bin/sh\n[ -e fixed.txt ] || { echo 'error: fixed.txt is missing' >&2; exit 1; }\n"
FINE = '{"findings": [], "reviewed": ["greet.py, fixed.txt: read"]}\n[STATUS: success]'
PASSED = "Nothing to object to.\n[STATUS: success]"  # of a review that gives only a status
REVIEWERS = {"review_code", "review_security", "review_performance", "review_tests"}


def objection(text: str, reason: str) -> str:
    """A review's answer that asks for a change."""
    return f"{text}\n[STATUS: fail]\n[FAILURE_REASON: {reason}]"


def fixed(number: int) -> str:
    """A review's answer that has nothing to object to any more."""
    return f"{FINE}\n[FINDING {number}: fixed]"


def git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=repository,
        env={"PATH": os.environ["PATH"], "HOME": str(repository.parent), "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a first commit: a readme, and a self-check that fails until fixed.txt is there."""
    repository = tmp_path / "project"
    (repository / ".awf").mkdir(parents=True)
    (repository / "README.md").write_text("# Greeter\n")
    check = repository / ".awf/self-check"
    check.write_text(SELF_CHECK)
    check.chmod(0o755)
    git(repository, "init", "--quiet", "--initial-branch=main")
    git(repository, "add", "--force", ".awf/self-check", "README.md")
    git(repository, "commit", "--quiet", "--message=Begin")
    return repository


class Loop:
    """One run called `r` of a workflow in a project, and what can be read of it."""

    def __init__(self, awf: Awf, project: Path) -> None:
        self._awf = awf
        self.project = project

    def run(self, workflow: str, script: dict[str, Any], *arguments: str) -> dict[str, Any]:
        return self._driven("run", workflow, "--run-id", "r", "--goal", GOAL, *self.replies(script), *arguments)

    def resume(self, script: dict[str, Any], *arguments: str) -> dict[str, Any]:
        return self._driven("resume", "r", *self.replies(script), *arguments)

    def replies(self, script: dict[str, Any]) -> list[str]:
        return ["--backend", "scripted", "--script", self.file("script", script)]

    def file(self, name: str, content: dict[str, Any]) -> str:
        """A JSON file beside the project."""
        path = self.project.parent / f"{name}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def _driven(self, *arguments: str) -> dict[str, Any]:
        done = self._awf(*arguments, "--json", cwd=self.project)
        assert done.stdout, done.stderr
        ended: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return {**ended, "code": done.returncode}

    def context(self, key: str) -> Any:
        return json.loads(self.printed("context", "r", key, "--json"))

    def prompt(self, stage: str, visit: int) -> str:
        return self.printed("prompt", "r", stage, "--visit", str(visit))

    def printed(self, *arguments: str) -> str:
        done = self._awf(*arguments, cwd=self.project)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def findings(self) -> str | None:
        """The findings as they are printed, None while there are none."""
        done = self._awf("context", "r", "review.findings", "--json", cwd=self.project)
        return done.stdout if done.returncode == 0 else None


@pytest.fixture
def loop(awf: Awf, project: Path) -> Loop:
    """A loop in the project."""
    return Loop(awf, project)


SECURITY = objection("The name in greet.py:3 goes into a shell unquoted.", "a name can run commands")
TESTS = objection("No test greets somebody without a name.", "the empty name is untested")


def implemented(loop: Loop) -> dict[str, Any]:
    """The way of a plan from its first check to the merge, with one revision on the way."""
    script = {
        "find_plan": "The plan is in README.md.\n[STATUS: success]",
        "implement": {"write": {"greet.py": "print('hello')\n"}, "reply": "Greeting works."},
        "fix": [
            {"write": {"fixed.txt": "yes\n"}, "reply": "The file is there."},
            {"write": {"greet.py": "print('hello, safely')\n"}, "reply": "Both are done."},
        ],
        "review_security": [SECURITY, fixed(2), FINE],
        "review_tests": [TESTS, fixed(3), FINE],
        "revise": {"write": {"greet.py": "print('good day')\n"}, "reply": "Politer now."},
    }
    answers = {"human_review": [{"option": "revise", "feedback": "Say good day, please."}, "approve"]}
    return loop.run("implement-plan", script, "--answers", loop.file("answers", answers))


def test_a_plan_is_implemented_reviewed_revised_and_merged(loop: Loop) -> None:
    """A failing check, then two failing reviews fixed in one pass, a person's revision, and the merge.

    Each fix is told all that is outstanding, the revision what the person said, and only the plan's files are left.
    """
    ended = implemented(loop)
    assert (ended["status"], ended["code"], ended["outstanding"]) == ("success", 0, 0), ended["reason"]
    assert [stage for stage in ended["path"] if stage not in REVIEWERS] == [
        *("find_plan", "workspace", "implement", "selfci", "fix"),
        *("selfci", "reviews", "gate", "fix"),
        *("selfci", "reviews", "gate", "human_review", "revise"),
        *("selfci", "reviews", "gate", "human_review", "merge", "cleanup", "exit"),
    ]
    assert loop.context("review.findings") == []
    only_the_plan_is_left(loop)
    each_fix_was_told_everything(loop)
    assert "Say good day, please." in loop.prompt("revise", 1).partition("## Human feedback")[2]


def only_the_plan_is_left(loop: Loop) -> None:
    """The last version is in the main checkout; branch, worktree and changes are gone."""
    assert (loop.project / "greet.py").read_text() == "print('good day')\n"
    assert git(loop.project, "show", "HEAD:greet.py") == "print('good day')\n"
    assert git(loop.project, "branch", "--format=%(refname:short)").split() == ["main"]
    assert git(loop.project, "worktree", "list").count("\n") == 1
    assert git(loop.project, "status", "--porcelain", "--untracked-files=no") == ""


def each_fix_was_told_everything(loop: Loop) -> None:
    """The check's error first; then both failing reviews with reason and text, and no longer the check."""
    first, second = loop.prompt("fix", 1), loop.prompt("fix", 2)
    assert "### selfci (fail)\n**Reason:** error: fixed.txt is missing" in first
    for stage, answer in (("review_security", SECURITY), ("review_tests", TESTS)):
        text, _, reason = answer.partition("\n[STATUS: fail]\n[FAILURE_REASON: ")
        assert f"### {stage} (fail)\n**Reason:** {reason.removesuffix(']')}" in second
        assert text in second
    assert not [stage for stage in ("selfci", "review_code", "review_performance") if f"### {stage}" in second]


def test_a_quick_loop_ends_when_check_and_reviews_are_green(loop: Loop) -> None:
    """In the checkout itself: the check fails, then one of three reviews at the same time, then nothing does."""
    script = {
        "implement": {"write": {"greet.py": "print('hello')\n"}, "reply": "Done."},
        "fix": [{"write": {"fixed.txt": "yes\n"}, "reply": "Done."}, {"write": {"greet.py": "1\n"}, "reply": "Done."}],
        "review_security": [SECURITY, fixed(2)],
    }
    ended = loop.run("quick-dev", script)
    assert (ended["status"], ended["code"], ended["outstanding"]) == ("success", 0, 0), ended["reason"]
    reviews = {"review_code", "review_security", "review_tests"}
    assert [stage for stage in ended["path"] if stage not in reviews] == [
        *("plan", "implement", "selfci", "fix"),
        *("selfci", "reviews", "gate", "fix"),
        *("selfci", "reviews", "gate", "exit"),
    ]
    assert "### review_security (fail)\n**Reason:** a name can run commands" in loop.prompt("fix", 2)
    assert all(loop.prompt(review, visit=2) for review in reviews)
    assert (loop.project / "greet.py").read_text() == "1\n"


def test_a_review_that_never_passes_ends_with_a_person(loop: Loop) -> None:
    """The run waits with exit code 3 and every report kept; a person's advice and a better review end it."""
    (loop.project / "fixed.txt").write_text("yes\n")
    stuck = loop.run("quick-dev", {"review_code": objection("No.", "never good enough")})
    assert (stuck["status"], stuck["code"]) == ("waiting", 3)
    assert [report["iteration"] for report in loop.context("review.findings")] == [*range(1, 7)]
    advice = loop.file("answers", {"stuck": [{"option": "fix", "feedback": "Do it another way."}]})
    fix = {"write": {"greet.py": "1\n"}, "reply": "Done."}
    ended = loop.resume({"fix": fix, "review_code": fixed(1)}, "--answers", advice)
    assert (ended["status"], ended["code"], ended["outstanding"]) == ("success", 0, 0), ended["reason"]
    assert "Do it another way." in loop.prompt("fix", 7)
    assert ended["path"].count("reviews") == 7


def test_without_a_plan_nothing_is_implemented(loop: Loop) -> None:
    """The run fails at once, and says what is missing."""
    ended = loop.run("implement-plan", {"find_plan": objection("There is none.", "no plan in plans/")})
    assert (ended["status"], ended["code"], ended["path"]) == ("fail", 1, ["find_plan"])


REVIEW_CHAIN = """workflow "Chain" {
  version 2
  start "code"
  settings { max_visits 6; }
  stage "code" kind="llm" prompt="Write it"
  stage "first" kind="llm" auto_status=true prompt="Review it"
  stage "second" kind="llm" auto_status=true prompt="Review it"
  stage "third" kind="llm" auto_status=true prompt="Review it"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="exit"
  }
  stage "fix" kind="llm" prompt="Fix all outstanding issues listed in the review findings below."
  stage "exit" kind="exit"
  transition from="code" to="first"
  transition from="first" to="second"
  transition from="second" to="third"
  transition from="third" to="gate"
  transition from="fix" to="first"
}
"""


@contextmanager
def running(loop: Loop, workflow: str, script: dict[str, Any]) -> Iterator[subprocess.Popen[bytes]]:
    """A run in the background, which is dead in the end whatever happens."""
    child = subprocess.Popen(
        [COMMAND, "run", workflow, "--run-id", "r", *loop.replies(script)],
        cwd=loop.project,
        env={"PATH": os.environ["PATH"], "HOME": str(loop.project.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def recorded(loop: Loop, reports: int) -> str:
    """The findings once there are so many of them; a minute at most."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = loop.findings()
        if found is not None and len(json.loads(found)) == reports:
            return found
        time.sleep(0.05)
    pytest.fail(f"there never were {reports} reports")


def test_a_chain_of_reviews_goes_on_after_kill_9(loop: Loop) -> None:
    """What was found before survives byte for byte, visits go on counting, and no review is left out or repeated."""
    (loop.project / "chain.awf.kdl").write_text(REVIEW_CHAIN)
    script: dict[str, Any] = {
        "first": [objection("One.", "r1"), objection("Two.", "r2"), PASSED],
        "second": [objection("Three.", "r3"), {"delay": "5m", "reply": PASSED}],
        "third": [PASSED, objection("Four.", "r4"), PASSED],
    }
    with running(loop, "chain.awf.kdl", script) as child:
        before = recorded(loop, 3)
        assert child.poll() is None
        child.kill()
        child.wait()
    assert loop.findings() == before
    script["second"][1] = PASSED
    ended = loop.resume(script)
    assert (ended["status"], ended["code"]) == ("success", 0), ended["reason"]
    reviews = ["first", "second", "third", "gate"]
    assert ended["path"] == ["code", *[*reviews, "fix"] * 2, *reviews, "exit"]
    assert [report["iteration"] for report in json.loads(before)] == [1, 1, 2]
    assert loop.context("review.findings") == []
    prompt = loop.prompt("fix", 2)
    assert "### first (fail)\n**Reason:** r2" in prompt
    assert "visit 1: r1" in prompt
    assert "### third (fail)\n**Reason:** r4" in prompt
    assert "### second" not in prompt


def test_findings_of_an_interrupted_chain_are_the_first_of_the_resumed_one(loop: Loop) -> None:
    """The reports from before the kill open the list of the resumed run unchanged; its own follow."""
    (loop.project / "chain.awf.kdl").write_text(REVIEW_CHAIN)
    no = objection("No.", "not yet")
    script: dict[str, Any] = {"first": no, "second": [no, {"delay": "5m", "reply": no}], "third": PASSED}
    with running(loop, "chain.awf.kdl", script):
        before = json.loads(recorded(loop, 3))
    ended = loop.resume({"first": no, "second": no, "third": PASSED})
    assert (ended["status"], ended["code"]) == ("paused", 3)
    after = loop.context("review.findings")
    assert after[:3] == before
    assert [report["iteration"] for report in after if report["stageId"] == "second"] == [*range(1, 7)]
