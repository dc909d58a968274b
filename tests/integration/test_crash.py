"""`kill -9` at any instant, then `awf resume`: the same path, context and tree; no committed stage runs twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LAB = Path(__file__).parent / "crash" / "lab.py"
MOMENTS = os.environ.get("AWF_CRASH_MOMENTS", "15")  # random ones


@pytest.mark.parametrize("scenario", ["once", "always", f"random:1:{MOMENTS}"])
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path: Path, scenario: str) -> None:
    """At every journal boundary of a run with a loop, a parallel stage, a tool and a workspace, and at random.

    A tool runs once for a visit in each process at most, and in none once the visit is on record.
    """
    done = subprocess.run(
        [sys.executable, str(LAB), scenario, str(tmp_path / "lab")],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["deaths"] >= report["enough"]
