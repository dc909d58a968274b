"""Which transition a run follows after a result, through the real commands."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import Awf

NEXT = 'stage "next" kind="tool" command="true"\ntransition from="next" to="end"\n'
FIX = 'stage "fix" kind="tool" command="true"\ntransition from="fix" to="end"\n'
GATE = 'stage "gate" kind="decision" {\nroute when="findings() > 0" to="fix"\nroute when="true" to="end"\n}\n'
EXIT = 'stage "end" kind="exit"\n'


def write(folder: Path, body: str) -> None:
    """A workflow with the stages that its body leads to."""
    gate = GATE if 'to="gate"' in body else ""
    rest = gate + (NEXT if 'to="next"' in body else "") + (FIX if 'to="fix"' in body + gate else "") + EXIT
    (folder / "w.awf.kdl").write_text(f'workflow "W" {{\nversion 2\nstart "check"\n{body}\n{rest}}}\n')


def run(awf: Awf) -> dict[str, Any]:
    done = awf("run", "w.awf.kdl", "--json", "--run-id", "r")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**result, "code": done.returncode}


@pytest.mark.parametrize(
    ("command", "transitions", "path"),
    [
        ("true", ['to="next" on="success"', 'to="fix" on="fail"'], ["check", "next", "end"]),
        ("false", ['to="next" on="success"', 'to="fix" on="fail"'], ["check", "fix", "end"]),
        ("false", ['to="next" on="success"', 'to="fix"'], ["check", "fix", "end"]),
        ("false", ['to="next" on="always"'], ["check", "next", "end"]),
        ("false", ['to="next" when="true"'], ["check", "next", "end"]),
        ("false", ['to="gate"'], ["check", "gate", "fix", "end"]),
        ("false", ['to="next"'], ["check"]),
        ("false", ['to="next" on="success"'], ["check"]),
        ("true", ['to="fix" on="fail"'], ["check"]),
    ],
)
def test_the_path_after_a_tool(awf: Awf, tmp_path: Path, command: str, transitions: list[str], path: list[str]) -> None:
    """A run that finds no transition to follow fails with exit code 1."""
    leaving = "\n".join(f'transition from="check" {one}' for one in transitions)
    write(tmp_path, f'stage "check" kind="tool" command="{command}"\n{leaving}')
    ended = run(awf)
    assert ended["path"] == path
    assert (ended["status"], ended["code"]) == (("success", 0) if path[-1] == "end" else ("fail", 1))


def test_a_stage_whose_only_transition_needs_success_names_the_cure(awf: Awf, tmp_path: Path) -> None:
    """The reason of the run says what to add, and why the stage failed."""
    write(tmp_path, 'stage "check" kind="tool" command="echo boom; exit 3"\ntransition from="check" to="next"')
    reason = run(awf)["reason"]
    assert all(part in reason for part in ("check", 'on="fail"', 'on="always"', "boom"))


@pytest.mark.parametrize(
    ("command", "condition", "value"),
    [("false", "findings() > 0", "findings() = 1"), ("true", "otherwise", "findings() = 0")],
)
def test_why_shows_the_values_that_a_condition_saw(
    awf: Awf, tmp_path: Path, command: str, condition: str, value: str
) -> None:
    """Those of the condition that was true, and for an otherwise those of the conditions that were false."""
    write(tmp_path, f'stage "check" kind="tool" command="{command}"\ntransition from="check" to="gate"')
    assert run(awf)["code"] == 0
    (visit,) = json.loads(awf("why", "r", "gate", "--json").stdout)
    reason = visit["chosen"]["reason"]
    assert (condition in reason, value in reason) == (True, True)
    assert reason in awf("why", "r", "gate").stdout


@pytest.mark.parametrize(
    ("written", "code", "column"),
    [
        ('to="next" on="sucess"', "AWF012", 38),
        ('to="next" when="success"', "AWF017", 41),
    ],
)
def test_validate_names_the_place_of_a_wrong_condition(
    awf: Awf, tmp_path: Path, written: str, code: str, column: int
) -> None:
    """A misspelt result and a bare word are errors where they are written."""
    write(tmp_path, f'stage "check" kind="tool" command="x"\ntransition from="check" {written}')
    done = awf("validate", "w.awf.kdl", "--format", "json")
    assert done.returncode == 2
    found = [one for one in json.loads(done.stdout) if one["code"] == code]
    assert [(one["severity"], one["line"], one["column"]) for one in found] == [("error", 5, column)]


def test_show_labels_a_transition_with_its_result(awf: Awf, tmp_path: Path) -> None:
    """Text and Mermaid have the same labels; a lone transition has none."""
    transitions = 'transition from="check" to="next" on="success"\ntransition from="check" to="fix" on="fail"'
    write(tmp_path, f'stage "check" kind="tool" command="x"\n{transitions}')
    text = awf("show", "w.awf.kdl").stdout
    mermaid = awf("show", "w.awf.kdl", "--format", "mermaid").stdout
    assert all(f"─ {label} ─" in text and f'|"{label}"|' in mermaid for label in ("success", "fail"))
    write(tmp_path, 'stage "check" kind="tool" command="x"\ntransition from="check" to="gate"')
    assert awf("show", "w.awf.kdl").stdout.count("otherwise") == 1  # the gate's


@pytest.mark.parametrize(
    ("command", "path"), [("true", ["rev", "tool", "check", "next", "end"]), ("false", ["rev", "tool", "check"])]
)
def test_reviews_in_parallel_leave_by_a_transition_without_on(
    awf: Awf, tmp_path: Path, command: str, path: list[str]
) -> None:
    """As one review does: what it reports is a result. A tool that fails beside it is a failure."""
    branches = (
        f'stage "check" kind="parallel" {{ branch "rev"; branch "tool"; }}\n'
        f'stage "rev" kind="llm" auto_status=true prompt="x"\nstage "tool" kind="tool" command="{command}"\n'
    )
    write(tmp_path, f'{branches}transition from="check" to="next"')
    (tmp_path / "s.json").write_text(json.dumps({"rev": ["It is bad.\n[STATUS: fail]"]}))
    done = awf("run", "w.awf.kdl", "--json", "--run-id", "r", "--script", "s.json")
    ended = json.loads(done.stdout.splitlines()[-1])
    assert (ended["path"], ended["status"]) == (path, "success" if path[-1] == "end" else "fail")
