"""Every script that measures something still runs: each in its smallest size. No figure is judged here."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
SCRIPTS = sorted(path.name for path in BENCH.glob("*.py"))
PEERS = sorted(path.stem for path in (BENCH / "peers").glob("*.py"))
# Need what `make test` does not install: the server of a cluster, and the other engines.
NEED_A_SERVER = {"cluster.py"}
OTHER_ENGINES = {"on_burr", "on_dbos", "on_langgraph", "on_pydantic_graph"}
# Modules of `bench/peers` without a command line of their own; `run` uses all of them.
PARTS = {"field", "kills", "measure", "protocol", "table"}


def run(*words: str, home: Path) -> str:
    """Run Python in the repository with an empty home; return what it printed."""
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert not done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS)
def test_script_prints_figures_in_its_smallest_size(script: str, tmp_path: Path) -> None:
    """A script of `bench/` runs to its end and prints figures; one that needs a server prints its help."""
    option = "--help" if script in NEED_A_SERVER else "--smallest"
    printed = run(f"bench/{script}", option, home=tmp_path)
    assert option in printed if script in NEED_A_SERVER else re.search(r"\d", printed)


def test_our_side_of_the_peers_is_measured(tmp_path: Path) -> None:
    """The comparison measures awf, from its command line to its table."""
    printed = run("-m", "bench.peers.run", "--smallest", "--json", "--folder", str(tmp_path), home=tmp_path)
    measured = json.loads(printed)["measured"]
    assert all(
        run["done"] or run["stages"] for own in measured.values() for runs in own["runs"].values() for run in runs
    )
    assert measured


def test_the_state_that_our_loop_leaves_can_be_compared(tmp_path: Path) -> None:
    """After a death the comparison asks a loop for a digest of its state."""
    run("-m", "bench.peers.on_awf", "run", str(tmp_path), "1", home=tmp_path)
    reported = json.loads(run("-m", "bench.peers.on_awf", "report", str(tmp_path), "1", home=tmp_path))
    assert re.fullmatch(r"[0-9a-f]{64}", reported["state"])


@pytest.mark.parametrize("module", PEERS)
def test_no_module_of_the_peers_is_forgotten(module: str) -> None:
    """Each module is used by what runs here, or belongs to an engine that is not installed and can only be compiled."""
    assert module in PARTS | OTHER_ENGINES | {"run", "on_awf"}
    compile((BENCH / f"peers/{module}.py").read_text(), module, "exec")
