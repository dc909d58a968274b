"""The dashboard under load, in small: the measurement of `bench/serve.py` with few records and its own verdict."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench/serve.py"
SMALL = ("--runs", "5", "--pages", "6", "--rate", "100", "--seconds", "1")
RECORDS = 100
MOST = 200  # megabytes


def test_no_record_is_lost_or_told_twice() -> None:
    """Each of several open pages is told each record that other processes write exactly once, as the journal has it."""
    done = subprocess.run([sys.executable, BENCH, *SMALL], capture_output=True, text=True, check=False, timeout=120)
    told = json.loads(done.stdout)
    assert (done.returncode, told["problems"]) == (0, []), done.stderr
    assert told["written"] == RECORDS
    assert told["told"] == 6 * RECORDS
    assert (told["lost"], told["doubled"], told["unknown"], told["reloads"]) == (0, 0, 0, 0)
    assert told["server_mb"] < MOST
