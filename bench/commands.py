"""How long commands that only read take to answer: their CPU time, each in a fresh process.

The unit is what no command can do without in the same run: `python -c "import pydantic, click, rich.console"`. Each
command answers in an empty directory and in one with a finished run. A command should take at most three units.
Beside it, how many modules it loads, how many of them are ours, and how many pydantic models it builds.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

COMMANDS: tuple[tuple[str, ...], ...] = (("verdict",), ("status",), ("runs",), ("findings", "list"))
FLOOR = ("-c", "import pydantic, click, rich.console")
REPEATS = 9
GOAL = 3.0
AWF = str(Path(sys.executable).with_name("awf"))
CODE = "def half(a, b):\n    return a / b\n"
WORKFLOW = """workflow "Reviewed" {
  version 2
  start "review"
  stage "review" kind="llm" findings="review" prompt="Review it"
  stage "exit" kind="exit"
  transition from="review" to="exit" on="always"
}
"""
FINDING = {
    "title": "Division by zero",
    "severity": "P1",
    "file": "half.py",
    "line": 2,
    "why_it_matters": "the program ends with a traceback",
    "autofix_class": "gated_auto",
    "owner": "review-fixer",
    "requires_verification": True,
    "suggested_fix": "refuse a divisor of zero",
    "confidence": 100,
    "evidence": ["return a / b"],
    "pre_existing": False,
}
LOADED = """
import json, os, sys
from pipeline.cli.main import main
try:
    main()
except SystemExit:
    pass
base = sys.modules.get("pydantic.main")
kinds, models = ([base.BaseModel] if base else []), set()
while kinds:
    kind = kinds.pop()
    kinds += kind.__subclasses__()
    if kind.__module__.startswith("pipeline."):
        models.add(kind)
own = sum(name.startswith("pipeline.") for name in sys.modules)
with open(os.environ["LOADED"], "w") as file:
    json.dump([len(sys.modules), own, len(models)], file)
"""


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with an empty home."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "LOADED": str(folder.parent / "loaded.json")}


def finished_run(folder: Path) -> Path:
    """Make a repository with a run that left one finding."""
    folder.mkdir()
    answer = json.dumps({"findings": [FINDING], "residual_risks": [], "testing_gaps": []})
    (folder / "half.py").write_text(CODE)
    (folder / "reviewed.awf.kdl").write_text(WORKFLOW)
    (folder / "script.json").write_text(json.dumps({"review": [answer]}))
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    run = (AWF, "run", "reviewed.awf.kdl", "--script", "script.json")
    subprocess.run(run, cwd=folder, env=environment(folder), check=True, capture_output=True)
    return folder


def cpu(folder: Path, *command: str) -> float:
    """Return the CPU seconds of a program from start to end, whatever its exit code is."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment(folder), capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def loaded(folder: Path, *command: str) -> tuple[int, int, int]:
    """Return how many modules a command loads, how many of them are ours, and how many models of ours it builds."""
    words = (sys.executable, "-c", LOADED, *command)
    done = subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"awf {' '.join(command)}: {done.stderr[-2000:]}")
    modules, own, models = json.loads((folder.parent / "loaded.json").read_text())
    return modules, own, models


def measure(folders: dict[str, Path], repeats: int, commands: Sequence[tuple[str, ...]] = COMMANDS) -> None:
    """Measure commands in turn, so that they see the same machine; print them."""
    floors, taken = list[float](), dict[tuple[str, tuple[str, ...]], list[float]]()
    for _ in range(repeats):
        floors.append(cpu(folders["run"], sys.executable, *FLOOR))
        for title, folder in folders.items():
            for command in commands:
                taken.setdefault((title, command), []).append(cpu(folder, AWF, *command))
    floor = statistics.median(floors)
    print(f"the unit: {floor * 1000:.0f} ms CPU, median of {repeats}; the goal is at most {GOAL:g} units")
    print(f"{'':28}{'ms CPU':>8}{'units':>8}{'modules':>9}{'ours':>6}{'models':>8}")
    for (title, command), seconds in taken.items():
        middle, (modules, own, models) = statistics.median(seconds), loaded(folders[title], *command)
        name = f"{title}: awf {' '.join(command)}"
        print(f"{name:28}{middle * 1000:8.0f}{middle / floor:8.2f}{modules:9}{own:6}{models:8}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smallest", action="store_true", help="one command once, with a run, to see that it works")
    smallest = parser.parse_args().smallest
    with tempfile.TemporaryDirectory(prefix="awf-bench-") as name:
        folders = {"run": finished_run(Path(name, "run"))}
        if smallest:
            measure(folders, repeats=1, commands=COMMANDS[:1])
            return
        folders["empty"] = Path(name, "empty")
        folders["empty"].mkdir()
        measure(folders, REPEATS)


if __name__ == "__main__":
    main()
