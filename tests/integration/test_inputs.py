"""Inputs of a workflow through the command: given, converted, listed when wrong, kept by the run."""

import json
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

WORKFLOW = """workflow "W" {
  version 2
  start "show"
  input "ticket" required=true description="What to work on"
  input "rounds" default=3
  input "draft" default=false
  stage "show" kind="tool" command="printf '%s|' $input.ticket \\"$AWF_INPUT_ROUNDS\\" '${input.draft}'"
  stage "gate" kind="decision" {
    route when=r#"input("draft") && input("rounds") > 3"# to="ask"
    route when="true" to="end"
  }
  stage "ask" kind="human" prompt="Ship $input.ticket?" {
    option "yes" label="Yes" to="work"
    option "no" label="No" to="end"
  }
  stage "work" kind="llm" prompt="Work on $input.ticket, ${input.rounds} rounds"
  stage "again" kind="tool" command="echo again $input.ticket"
  stage "end" kind="exit"
  transition from="show" to="gate"
  transition from="work" to="again"
  transition from="again" to="end"
}
"""
HOSTILE = "\"; touch hacked; $(touch hacked) `touch hacked` '"


@pytest.fixture(autouse=True)
def workflow(tmp_path: Path) -> Path:
    path = tmp_path / "w.awf.kdl"
    path.write_text(WORKFLOW)
    return path


def run(awf: Awf, *options: str) -> int:
    return awf("run", "w.awf.kdl", "--run-id", "r", "--backend", "scripted", *options).returncode


def context(awf: Awf, key: str) -> object:
    return json.loads(awf("context", "r", "--json").stdout)[key]


def test_a_command_gets_inputs_as_data(awf: Awf, tmp_path: Path) -> None:
    """Whatever an input contains, the shell runs none of it; what is not given has its default."""
    assert run(awf, "--input", f"ticket={HOSTILE}") == 0
    assert context(awf, "show.response") == f"{HOSTILE}|3|false|"
    assert not (tmp_path / "hacked").exists()


def test_what_is_wrong_is_listed_before_the_run_starts(awf: Awf, tmp_path: Path) -> None:
    """Missing, unknown and unsuitable inputs at once; exit code 2, and nothing is recorded."""
    done = awf("run", "w.awf.kdl", "--backend", "scripted", "--input", "tiket=x", "--input", "rounds=many")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, len(errors)) == (2, 3)
    assert 'did you mean "ticket"' in done.stderr
    assert not (tmp_path / ".awf/awf.db").exists()


@pytest.mark.parametrize("given", [["ticket"], ["ticket=a", "ticket=b"], ["ticket=" + "x" * 100_001]])
def test_an_input_that_cannot_be_read_is_refused(awf: Awf, tmp_path: Path, given: list[str]) -> None:
    """One without a value, one that is given twice, one too long for a command."""
    assert run(awf, *(f"--input={text}" for text in given)) == 2
    assert not (tmp_path / ".awf/awf.db").exists()


def test_a_resumed_run_has_the_same_inputs(awf: Awf) -> None:
    """They are recorded with the run: questions, prompts and commands after the resume use them."""
    assert run(awf, "--input=ticket=A-1", "--input=rounds=5", "--input=draft=true") == 3
    assert "Ship A-1?" in awf("answer", "r").stdout + awf("status", "r").stdout
    assert awf("answer", "r", "yes").returncode == 0
    assert awf("resume", "r").returncode == 0
    assert "Work on A-1, 5 rounds" in awf("prompt", "r", "work").stdout
    assert context(awf, "again.response") == "again A-1"
    assert (context(awf, "input.rounds"), context(awf, "input.draft")) == (5, True)


def test_an_adopted_workflow_keeps_what_was_given(awf: Awf, workflow: Path) -> None:
    """New inputs have their defaults; one that is required and was not given is refused, and nothing is adopted."""
    assert run(awf, "--input=ticket=A-1", "--input=rounds=5", "--input=draft=true") == 3
    assert awf("answer", "r", "yes").returncode == 0
    workflow.write_text(WORKFLOW.replace("version 2", 'version 2\ninput "tone" required=true'))
    refused = awf("resume", "r", "--adopt", "w.awf.kdl")
    assert refused.returncode == 2
    assert '"tone"' in refused.stderr
    changed = WORKFLOW.replace("version 2", 'version 2\ninput "tone" default="calm"').replace(
        'rounds" default=3', 'rounds" default=4'
    )
    workflow.write_text(changed.replace("echo again $input.ticket", "echo $input.tone $input.ticket $input.rounds"))
    assert awf("resume", "r", "--adopt", "w.awf.kdl").returncode == 0
    assert context(awf, "again.response") == "calm A-1 5"


def test_inputs_are_listed(awf: Awf, tmp_path: Path) -> None:
    """By `awf workflows` and `awf show`."""
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows/w.awf.kdl").write_text(WORKFLOW)
    row = json.loads(awf("workflows", "--json").stdout)[0]
    assert [one["name"] for one in row["inputs"]] == ["ticket", "rounds", "draft"]
    for text in (awf("workflows").stdout, awf("show", "w").stdout):
        assert "input ticket (required): What to work on" in text
        assert "input rounds = 3" in text
