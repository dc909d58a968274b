"""What `awf validate` costs beside `kdl.parse` alone, on a generated workflow of 5,000 stages and about 0.9 MB.

Prints medians of several rounds in one run; the ratio is the figure to watch (about 2).
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kdl.parsefuncs import parse as kdl_parse

from pipeline.app.catalog import Catalog
from pipeline.app.check import check

STAGES = 5_000
ROUNDS = 5
SMALLEST_STAGES, SMALLEST_ROUNDS = 20, 1
PERIOD = 10


def generate(stages: int) -> str:
    """A valid workflow: chains of agents with a check and a fix loop every tenth stage."""
    lines = ['workflow "Generated" {', "  version 2", '  start "s0"', "  settings { max_visits 5; }"]
    for index in range(stages - 1):
        name, following = f"s{index}", f"s{index + 1}"
        if index % PERIOD == PERIOD - 1:
            lines.append(f'  stage "{name}" kind="tool" command="make check-{index} TARGET=all" timeout="10m"')
            lines.append(f'  transition from="{name}" to="s{index - 1}" when="outcome(\\"{name}\\") == \\"fail\\""')
        else:
            prompt = f"Do part {index} of the work for $goal and report what you did"
            lines.append(f'  stage "{name}" kind="llm" prompt="{prompt}"')
        lines.append(f'  transition from="{name}" to="{following}" when="outcome(\\"{name}\\") == \\"success\\""')
    lines += [f'  stage "s{stages - 1}" kind="exit"', "}", ""]
    return "\n".join(lines)


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of a call in this process."""
    before = time.process_time()
    work()
    return time.process_time() - before


def cpu_of_command(command: list[str], cwd: Path) -> float:
    """CPU seconds of a program, from start to end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def medians(works: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each measurement, the rounds of all interleaved so that they see the same machine."""
    seen: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            seen[name].append(work())
    return {name: statistics.median(values) for name, values in seen.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smallest", action="store_true", help="a few stages, to see that it works")
    smallest = parser.parse_args().smallest
    stages, rounds = (SMALLEST_STAGES, SMALLEST_ROUNDS) if smallest else (STAGES, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        text = generate(stages)
        path = Path(folder, "generated.awf.kdl")
        path.write_text(text)
        entry = Catalog(Path(folder), Path(folder), Path(folder)).find(path.name)
        if found := check(entry).diagnostics:
            sys.exit(f"the generated workflow is not clean: {found[0]}")
        python = sys.executable
        awf = os.fspath(Path(python).with_name("awf"))
        parse_alone = "import kdl, pathlib, sys; kdl.parse(pathlib.Path(sys.argv[1]).read_text())"
        times = medians(
            {
                "kdl.parse": lambda: cpu_of(lambda: kdl_parse(text)),
                "check": lambda: cpu_of(lambda: check(entry)),
                "python -c kdl.parse": lambda: cpu_of_command([python, "-c", parse_alone, path.name], path.parent),
                "awf validate": lambda: cpu_of_command([awf, "validate", path.name], path.parent),
            },
            rounds,
        )
        shipped = cpu_of_command([awf, "validate", "quick-dev"], Path(folder))
    print(f"{stages:,} stages, {len(text) / 1e6:.2f} MB, median of {rounds}, CPU seconds")
    for name, seconds in times.items():
        print(f"  {name:<22}{seconds:6.2f}")
    print(f"  in one process: {times['check'] / times['kdl.parse']:.2f} times kdl.parse")
    print(f"  as commands:    {times['awf validate'] / times['python -c kdl.parse']:.2f} times kdl.parse")
    print(f"awf validate quick-dev, fresh process: {shipped:.2f} s CPU")


if __name__ == "__main__":
    main()
