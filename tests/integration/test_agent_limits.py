"""Runs whose agents reach a limit, say too much, or say it in a way that is hard to read."""

import json
import shlex
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

WORKFLOW = """workflow "W" {
  version 2
  start "rev"
  stage "rev" kind="llm" prompt="Review" auto_status=true
  stage "end" kind="exit"
  transition from="rev" to="end"
}
"""


@pytest.fixture
def review(tmp_path: Path) -> Path:
    """A workflow of one review."""
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    return tmp_path


def ended(awf: Awf, *arguments: str) -> tuple[int, dict[str, object]]:
    """How a run ended: its exit code and its last event."""
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--json", *arguments)
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    ("says", "code", "kind"),
    [
        ("Claude AI usage limit reached|4102444800", 1, "quota"),
        ("HTTP 429 Too Many Requests", 1, "rate_limit"),
        ("401 Unauthorized", 1, "auth"),
        ("unknown option --nope", 2, "bad_flag"),
        ("read ECONNRESET", 1, "network"),
        ("bye", 143, "killed"),
    ],
)
@pytest.mark.usefixtures("review", "impatient")
def test_a_failed_agent_never_passes(awf: Awf, says: str, code: int, kind: str) -> None:
    """The kind of its error and its own words are the reason, whatever status it printed."""
    command = shlex.join(["sh", "-c", f'echo "[STATUS: success]"; echo "{says}" >&2; exit {code}'])
    exit_code, last = ended(awf, "--backend", "command", "--agent-command", command)
    assert (exit_code, last["status"]) == (3, "paused")
    assert says in str(last["reason"])
    (visit,) = json.loads(awf("why", "latest", "rev", "--json").stdout)
    assert (visit["status"], visit["error"]) == ("error", kind)


def test_a_script_with_an_unknown_kind_of_error_is_refused(awf: Awf, review: Path) -> None:
    """It is refused before the run starts, with the known kinds."""
    (review / "s.json").write_text(json.dumps({"rev": {"error": "tired"}}))
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--script", "s.json")
    assert done.returncode == 2
    assert all(kind in done.stderr for kind in ("tired", "quota", "rate_limit"))
    assert awf("status", "r").returncode != 0


@pytest.mark.parametrize("unit", ["`", "[", '{"', "[FAILURE_REASON: ", '"findings": {"a', "```\n"])
def test_a_long_answer_of_marks_does_not_hold_up_a_run(awf: Awf, review: Path, unit: str) -> None:
    """It is read like any other text: without a status it never passes."""
    (review / "s.json").write_text(json.dumps({"rev": unit * (100_000 // len(unit))}))
    exit_code, last = ended(awf, "--script", "s.json")
    assert exit_code != 0
    assert last["status"] != "success"
