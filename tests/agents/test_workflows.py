"""Whole runs of `awf` with a real agent: to their end, and across a crash of `awf`."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.agents.conftest import Serve
from tests.agents.harness import awf, commit_all, endless, eventually, left
from tests.agents.programs import PROGRAMS, Program, variables
from tests.agents.server.script import ReadFile, Say, SayWhether, Shell
from tests.integration.conftest import COMMAND

ONE_OF_EACH = [program for program in PROGRAMS if program.name in ("claude", "codex")]  # a single process, a launcher
pytestmark = pytest.mark.real_agent

QUICK_DEV = Path(__file__).parents[2] / "workflows" / "quick-dev.awf.kdl"
NOTHING_FOUND = (
    'I looked.\n```json\n{"findings": [], "reviewed": ["a.py: read"], "residual_risks": [], "testing_gaps": []}\n```'
)
DRAFT = {
    "title": "The greeting is only a draft",
    "severity": "P1",
    "file": "greeting.txt",
    "line": 1,
    "why_it_matters": "It greets nobody.",
    "evidence": ["greeting.txt:1 -- draft"],
    "suggested_fix": "Write a greeting.",
    "confidence": 100,
    "autofix_class": "gated_auto",
    "owner": "review-fixer",
    "requires_verification": True,
    "pre_existing": False,
}
FOUND = f"```json\n{json.dumps({'reviewer': 'correctness', 'findings': [DRAFT]}, indent=1)}\n```"
GOOD = "Nothing to say against it.\n[STATUS: success]"
BAD = "greeting.txt:1: it is only a draft.\n[STATUS: fail]\n[FAILURE_REASON: it is a draft]"
SMALL = """workflow "Small" {
  version 2
  start "implement"
  settings { max_visits 3; }
  stage "implement" kind="llm" prompt="Do what ZZimplementZZ says."
  stage "review" kind="llm" auto_status=true access="read-only" prompt="Do what ZZreviewZZ says."
  stage "fix" kind="llm" prompt="Do what ZZfixZZ says."
  stage "exit" kind="exit"
  transition from="implement" to="review"
  transition from="review" to="exit" when="outcome(\\"review\\") == \\"success\\""
  transition from="review" to="fix" when="outcome(\\"review\\") != \\"success\\""
  transition from="fix" to="review"
}
"""

TOGETHER = """workflow "Together" {
  version 2
  start "reviews"
  stage "reviews" kind="parallel" { branch "one"; branch "two"; branch "three"; }
  stage "one" kind="llm" auto_status=true access="read-only" prompt="Do what ZZreviewZZ says."
  stage "two" kind="llm" auto_status=true access="read-only" prompt="Do what ZZreviewZZ says."
  stage "three" kind="llm" auto_status=true prompt="Do what ZZreviewZZ says."
  stage "exit" kind="exit"
  transition from="reviews" to="exit"
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with its own check and a small workflow."""
    folder = tmp_path / "project"
    (folder / ".awf").mkdir(parents=True)
    check = folder / ".awf" / "self-check"
    check.write_text("#!/bin/sh\ntest -s greeting.txt\n")
    check.chmod(0o755)
    (folder / "small.awf.kdl").write_text(SMALL)
    return folder


@pytest.mark.parametrize("program", PROGRAMS, indirect=True, ids=lambda program: program.name)
def test_quick_dev_fixes_what_a_review_found(program: Program, project: Path, tmp_path: Path, serve: Serve) -> None:
    """Structured findings are read, fixed and verified; the ledger and the verdict say so."""
    (project / ".awf/config.kdl").write_text(f'model "{program.model}"\nprovider "{program.provider}"\n')
    commit_all(project)
    look = ReadFile(str(project / "greeting.txt"))
    server = serve(
        {
            "Plan the smallest change": (Say("Write greeting.txt."),),
            "Implement the plan above": (Shell("echo draft > greeting.txt"), Say("Written.")),
            "made for this goal, for correctness": (look, SayWhether("draft", FOUND, NOTHING_FOUND)),
            "made for this goal, for security": (Say(NOTHING_FOUND),),
            "Review the tests of the change": (Say(NOTHING_FOUND),),
            "Fix all outstanding issues": (Shell("echo hello > greeting.txt"), Say("[FINDING 1: fixed]")),
        }
    )
    environ = variables(program, tmp_path, server.url, os.environ["PATH"])
    done = awf(project, environ, "run", str(QUICK_DEV), "--backend", program.backend, "--goal", "a greeting", "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    reviews = ["review_code", "review_security", "review_tests", "reviews", "gate"]
    round_one = ["plan", "implement", "selfci", *reviews]
    assert _result(done)["path"] == [*round_one, "fix", "selfci", *reviews, "exit"]
    assert (project / "greeting.txt").read_text() == "hello\n"
    (finding,) = json.loads(awf(project, environ, "findings", "list", "--state", "all", "--format", "json").stdout)
    assert (finding["title"], finding["state"]) == (DRAFT["title"], "verified_fixed")
    verdict = awf(project, environ, "verdict", "--json")
    assert (verdict.returncode, json.loads(verdict.stdout)["verdict"]) == (0, "PASS")
    assert "+draft" in awf(project, environ, "prompt", "review_security", "--visit", "1").stdout


@pytest.mark.parametrize("program", PROGRAMS, indirect=True, ids=lambda program: program.name)
def test_agents_that_start_together_for_the_first_time_succeed(
    program: Program, project: Path, tmp_path: Path, serve: Serve
) -> None:
    """Their home is empty: each would create its settings, its database and its caches there."""
    (project / ".awf/config.kdl").write_text(f'model "{program.model}"\nprovider "{program.provider}"\n')
    (project / "together.awf.kdl").write_text(TOGETHER)
    server = serve({"ZZreviewZZ": (Say(GOOD),)})
    environ = variables(program, tmp_path, server.url, os.environ["PATH"])
    done = awf(
        project, environ, "run", "together.awf.kdl", "--backend", program.backend, "--run-id", "together", "--json"
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    if program.name == "codex-acp":  # two of them may collide at their database: that is retried
        return
    story = json.loads(awf(project, environ, "why", "together", "--json").stdout)
    attempts = {entry["stage"]: len(entry["attempts"]) for entry in story if entry.get("stage")}
    assert attempts == dict.fromkeys(("one", "two", "three", "reviews", "exit"), 1), "none needed a second attempt"


@pytest.mark.parametrize("program", ONE_OF_EACH, indirect=True, ids=lambda program: program.name)
def test_a_killed_run_leaves_no_agent_when_it_is_resumed(
    program: Program, project: Path, tmp_path: Path, serve: Serve, label: str
) -> None:
    """`kill -9` while a tool of the agent runs: the resume kills both, runs the stage again, and succeeds."""
    first_time_endless = f"if [ -e running ]; then echo draft > greeting.txt; else {endless(label)}; fi"
    server = serve(
        {
            "ZZimplementZZ": (Shell(first_time_endless), Say("Written.")),
            "ZZreviewZZ": (ReadFile(str(project / "greeting.txt")), SayWhether("draft", BAD, GOOD)),
            "ZZfixZZ": (Shell("echo hello > greeting.txt"), Say("Fixed.")),
        }
    )
    environ = variables(program, tmp_path, server.url, os.environ["PATH"])
    _killed_at_work(project, environ, "run", "small.awf.kdl", "--backend", program.backend, "--run-id", label)
    assert left(label), "nothing outlived awf, so that finding nothing after the resume would mean nothing"
    done = awf(project, environ, "resume", label, "--json")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert _result(done)["path"] == ["implement", "review", "fix", "review", "exit"]
    assert left(label) == []


def _killed_at_work(project: Path, environ: dict[str, str], *arguments: str) -> None:
    with subprocess.Popen(
        [COMMAND, *arguments], cwd=project, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as run:
        eventually((project / "running").exists, "the endless command")
        run.send_signal(signal.SIGKILL)


def _result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result
