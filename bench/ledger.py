"""What it costs to take findings in: a SARIF file of so many results, imported twice, the second time with lines moved.

Prints for each size and each import: seconds, CPU, memory, and what became of the findings. Both imports are commands.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SIZES = (1_000, 10_000, 100_000)
SMALLEST = (20,)
OF_ONE_FILE = 100  # results
MOVED = 3  # lines, before the second import


def line(file: int, number: int) -> str:
    """A line of code that no other is like."""
    return f"    value_{file}_{number} = compute(alpha_{number * 7 % 97}, beta_{number * 13 % 89}, {number})"


def path(file: int) -> str:
    """Where a file is."""
    return f"src/m{file // 50}/f{file}.py"


def write_files(root: Path, size: int, moved: int) -> None:
    """The code that the results are about."""
    for file in range(max(1, size // OF_ONE_FILE)):
        place = root / path(file)
        place.parent.mkdir(parents=True, exist_ok=True)
        lines = ["# moved"] * moved + [line(file, number) for number in range(2 * OF_ONE_FILE)]
        place.write_text("\n".join(lines) + "\n")


def sarif(size: int, moved: int) -> str:
    """The results, one for every other line."""
    results = [_result(number, moved) for number in range(size)]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": _TOOL, "results": results}]})


_TOOL = {"driver": {"name": "lint", "rules": [{"id": f"R{number}"} for number in range(37)]}}


def _result(number: int, moved: int) -> dict[str, object]:
    file, at = number // OF_ONE_FILE, number % OF_ONE_FILE * 2
    region = {"startLine": at + 1 + moved, "snippet": {"text": line(file, at)}}
    return {
        "ruleId": f"R{number % 37}",
        "level": "warning",
        "message": {"text": f"Value {at} of file {file} is suspicious"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": path(file)}, "region": region}}],
    }


def git(root: Path, *arguments: str) -> None:
    """Ask git for something, as nobody in particular."""
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


def imported(root: Path) -> str:
    """Import once, in a process of its own; what it took, in words."""
    began = time.perf_counter()
    command = [str(Path(sys.executable).with_name("awf")), "findings", "import", "x.sarif", "--json"]
    with (root / "told.json").open("wb") as file:
        process = subprocess.Popen(command, cwd=root, stdout=file)
        _, _, used = os.wait4(process.pid, 0)
    told = json.loads((root / "told.json").read_bytes())
    counts = {name: len(told[name]) for name in ("new", "known", "reopened", "fixed") if told[name]}
    seconds, cpu = time.perf_counter() - began, used.ru_utime + used.ru_stime
    return f"{seconds:7.1f} s {cpu:7.1f} s CPU {used.ru_maxrss / 1024:7.0f} MB  {counts}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", type=int, metavar="RESULTS", help="results in the file")
    parser.add_argument("--smallest", action="store_true", help="a few results, to see that it works")
    given = parser.parse_args()
    for size in given.sizes or (SMALLEST if given.smallest else SIZES):
        root = Path(tempfile.mkdtemp(prefix="awf-bench-"))
        try:
            git(root, "init", "--quiet")
            for moved in (0, MOVED):
                write_files(root, size, moved)
                git(root, "add", "src")
                git(root, "commit", "--quiet", "--message=x")
                (root / "x.sarif").write_text(sarif(size, moved))
                print(f"{size:>7} {'again' if moved else 'first'} {imported(root)}", flush=True)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
