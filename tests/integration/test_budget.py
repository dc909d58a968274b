"""Budgets with agents that report tokens and no cost."""

import json
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

WORKFLOW = """workflow "W" {
  version 2
  start "one"
  settings { max_cost_usd 3 }
  stage "one" kind="llm" prompt="x"
  stage "two" kind="llm" prompt="x"
  stage "three" kind="llm" prompt="x"
  stage "end" kind="exit"
  transition from="one" to="two"
  transition from="two" to="three"
  transition from="three" to="end"
}
"""
PRINTED = (
    {"type": "thread.started", "thread_id": "t"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": "done"}},
    {"type": "turn.completed", "usage": {"input_tokens": 1_000_000, "output_tokens": 100_000}},
)


@pytest.fixture
def codex(tmp_path: Path, home: Path) -> Path:
    """A program that answers as codex does, each time with a million tokens; returns the settings file."""
    program = tmp_path / "agent"
    lines = "\n".join(json.dumps(message) for message in PRINTED)
    program.write_text(
        f"#!/bin/sh\ncase \"$*\" in *--help*|*--version*) exit 3;; esac\ncat >/dev/null\necho '{lines}'\n"
    )
    program.chmod(0o755)
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    settings = home / ".config/awf/config.kdl"
    settings.parent.mkdir(parents=True)
    settings.write_text(f'agent "codex" {{ program "{program}" }}\n')
    return settings


@pytest.mark.parametrize(("model", "named"), [('model "gpt-5.1"', "gpt-5.1"), ("", "codex")])
def test_tokens_have_the_price_of_the_settings(awf: Awf, codex: Path, model: str, named: str) -> None:
    """By model, or by agent where no model is named; the budget stops the run."""
    price = f'price "{named}" input=1.5 output=10\n'
    codex.write_text(f"{codex.read_text()}{model}\n{price}")
    done = awf("run", "w.awf.kdl", "--backend", "codex", "--run-id", "r", "--json")
    assert (done.returncode, "warning" in done.stderr) == (3, False), done.stderr
    status = json.loads(awf("status", "r", "--json").stdout)
    assert (status["cost_usd"], status["stage"]) == (5.0, "three")
    assert status["limits"][-1]["not_enforced"] == []


@pytest.mark.usefixtures("codex")
def test_without_a_price_the_run_says_that_the_budget_is_not_enforced(awf: Awf) -> None:
    """Before it starts, in its record, and in `awf status`; it is not refused."""
    done = awf("run", "w.awf.kdl", "--backend", "codex", "--run-id", "r", "--json")
    assert (done.returncode, "codex" in done.stderr) == (0, True), done.stderr
    assert json.loads(awf("status", "r", "--json").stdout)["limits"][-1]["not_enforced"] == ["codex"]
    assert "not enforced" in awf("status", "r").stdout


@pytest.mark.usefixtures("codex")
def test_an_agent_that_reports_its_cost_needs_no_price(awf: Awf, tmp_path: Path) -> None:
    """Nor does a workflow without a budget."""
    (tmp_path / "script.json").write_text("{}")
    scripted = awf("run", "w.awf.kdl", "--script", "script.json", "--run-id", "s")
    assert (scripted.returncode, "warning" in scripted.stderr) == (0, False)
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW.replace("settings { max_cost_usd 3 }", ""))
    assert "warning" not in awf("run", "w.awf.kdl", "--backend", "codex", "--run-id", "r").stderr


@pytest.mark.parametrize("price", ['price "m" input=-1 output=1', 'price "m" input=1', "price input=1 output=1"])
def test_a_bad_price_is_an_error_of_the_settings(awf: Awf, codex: Path, price: str) -> None:
    """A price has a model and both figures."""
    codex.write_text(f"{price}\n")
    assert awf("run", "w.awf.kdl", "--run-id", "r").returncode == 2
