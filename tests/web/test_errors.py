"""Runs that stopped at an error, in a real browser."""

from pathlib import Path

from tests.web.conftest import Awf, Open
from tests.web.needed import sync_api

expect = sync_api().expect

WORKFLOW = """
workflow "Implement" {
  version 2
  start "build"
  stage "build" kind="llm" prompt="Build it"
  stage "exit" kind="exit"
  transition from="build" to="exit"
}
"""
AGENT = """#!/bin/sh
[ -e used ] && { echo "Built."; exit; }
touch used
echo "usage limit reached, try again in 3600 seconds" >&2
exit 1
"""


def stopped(tmp_path: Path, awf: Awf, *options: str) -> None:
    """A run whose agent has used up its quota once."""
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "agent.sh").chmod(0o755)
    agent = ["--backend", "command", "--agent-command", str(tmp_path / "agent.sh")]
    awf("run", "w.awf.kdl", "--goal", "Build it", "--run-id", "r1", *agent, *options, codes=(1, 3))


def test_a_used_up_quota_counts_down_and_is_resumed(visit: Open, tmp_path: Path, awf: Awf) -> None:
    """The page counts down, and a button resumes the run."""
    stopped(tmp_path, awf)
    visitor = visit("/runs", width=400)
    expect(visitor.find("#rows")).to_contain_text("until ")
    visitor.page.get_by_role("button", name="Resume r1").click()
    expect(visitor.find("#errors")).to_contain_text("quota")
    left = visitor.find("#resets time")
    first = left.inner_text()
    expect(left).not_to_have_text(first)
    assert visitor.overflow() <= 0
    visitor.page.get_by_role("button", name="Resume now").click()
    expect(visitor.find(".status-line .state")).to_have_text("✓success")
    expect(visitor.find("#errors")).to_have_count(0)
    expect(visitor.find(".visits")).to_contain_text("attempt 2")


def test_a_failed_run_is_resumed_from_the_list(visit: Open, tmp_path: Path, awf: Awf) -> None:
    """One press of a button, and its page follows the run to its end."""
    stopped(tmp_path, awf, "--on-error", "fail")
    visitor = visit("/runs")
    expect(visitor.find("#rows .state")).to_have_text("✗fail")
    visitor.page.get_by_role("button", name="Resume r1").click()
    expect(visitor.find(".status-line .state")).to_have_text("✓success")
