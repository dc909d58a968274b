"""The dashboard under a small load, as `bench/serve.py` measures it."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench/serve.py"
SMALL = ("--runs", "5", "--pages", "6", "--rate", "100", "--seconds", "1")
RECORDS = 100
MOST = 200  # megabytes


def test_no_record_is_lost_or_sent_twice() -> None:
    """Every open page receives each record that other processes write exactly once."""
    done = subprocess.run([sys.executable, BENCH, *SMALL], capture_output=True, text=True, check=False, timeout=120)
    result = json.loads(done.stdout)
    assert (done.returncode, result["problems"]) == (0, []), done.stderr
    assert result["written"] == RECORDS
    assert result["received"] == 6 * RECORDS
    assert (result["lost"], result["doubled"], result["unknown"], result["reloads"]) == (0, 0, 0, 0)
    assert result["server_mb"] < MOST
