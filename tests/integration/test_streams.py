"""Standard streams that are closed, full, or not read: no traceback, and the exit code of the run."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.integration.conftest import COMMAND, Awf

WORKFLOW = """workflow "W" {
  version 2
  start "ask"
  stage "ask" kind="human" prompt="Go?" {
    option "y" label="Yes" to="end"
    option "n" label="No" to="ask"
  }
  stage "end" kind="exit"
}
"""
RUN = "run w.awf.kdl --run-id r --auto-approve"
WAITS = "run w.awf.kdl --run-id r"


@pytest.fixture
def shell(tmp_path: Path, home: Path) -> Awf:
    """Run `awf` in a shell line that redirects its streams."""
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    (tmp_path / "broken.awf.kdl").write_text("workflow")

    def run(line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", f"set -o pipefail; {COMMAND} {line}"],
            cwd=tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run


STREAMS = (">&-", "2>&-", "<&-", "<&- >&- 2>&-", "2>/dev/full", "| true", ">/dev/full")


@pytest.mark.parametrize(
    ("line", "code", "streams"),
    [
        *((RUN, 0, streams) for streams in STREAMS),
        *((f"{WAITS} --json", 3, streams) for streams in STREAMS),
        *((WAITS, 3, streams) for streams in STREAMS[2:4]),  # what asks, with nobody to ask
        *(("validate broken.awf.kdl", 2, streams) for streams in STREAMS[3:]),
    ],
)
def test_the_exit_code_does_not_depend_on_the_streams(shell: Awf, line: str, code: int, streams: str) -> None:
    """It is that of the run, even if nothing can be printed."""
    done = shell(f"{line} {streams}")
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


def test_output_that_cannot_be_written_is_told(shell: Awf) -> None:
    """By a run beside its exit code; by a command that has nothing but output with an exit code of its own."""
    assert "No space left" in shell(f"{RUN} >/dev/full").stderr
    done = shell("status r >/dev/full")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "No space left" in done.stderr


@pytest.mark.parametrize("streams", [">&-", "| true", "2>&-"])
def test_a_look_that_nobody_sees_is_no_failure(shell: Awf, streams: str) -> None:
    """As when `head` has read enough."""
    shell(RUN)
    done = shell(f"why r {streams}")
    assert (done.returncode, done.stderr) == (0, "")


def test_nothing_of_a_run_takes_the_place_of_a_closed_stream(shell: Awf, tmp_path: Path) -> None:
    """What is printed goes nowhere, and into no file."""
    shell(f"{WAITS} --json <&- >&- 2>&-")
    assert json.loads(shell("status r --json").stdout)["status"] == "waiting"
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b'"run_completed"' in file.read_bytes()]


def test_a_directory_that_is_gone(shell: Awf) -> None:
    """It is named, and what to do."""
    for line in ("runs", "validate w.awf.kdl", "run w.awf.kdl"):
        done = shell(f"--version; mkdir gone; cd gone; rmdir ../gone; {COMMAND} {line}")
        assert (done.returncode, "Traceback" in done.stderr) == (1, False)
        assert "the current directory" in done.stderr
