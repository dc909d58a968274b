"""What records in `.wystack/` cost a stage: the same runs and commands in a project with 10,000 records and without.

Prints CPU milliseconds, which other programs on the machine disturb less than the clock: of a stage that reports
nothing, of one that reports a finding, of `git status` with the records committed, and of `awf findings list`.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

QUIET = 'stage "s{0}" kind="tool" command="true"'
REPORTING = 'stage "s{0}" kind="tool" findings="sarif" command="cat one.sarif"'
AWF = str(Path(sys.executable).with_name("awf"))


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is measured."""

    size: int  # findings in the project
    repeats: int
    stages: tuple[int, int]  # of two runs: the difference is the cost of those that one has more
    lines: Mapping[str, str]  # the stages that are measured, by title


SMALLEST = Effort(10, 1, (1, 2), {"reporting stage": REPORTING})
USUAL = Effort(10_000, 3, (2, 12), {"quiet stage": QUIET, "reporting stage": REPORTING})


def sarif(tool: str, size: int) -> str:
    """A report with this many results, a hundred in each file."""
    results = [
        {
            "ruleId": f"R{number % 37}",
            "message": {"text": f"Value {number} is suspicious"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": f"src/f{number // 100}.py"},
                        "region": {"startLine": number % 100 + 1},
                    }
                }
            ],
        }
        for number in range(size)
    ]
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": tool}}, "results": results}]})


def project(root: Path, size: int, *, records: bool) -> Path:
    """A repository with this many imported findings; their records are committed if it keeps any."""
    (root / "src").mkdir(parents=True)
    for file in range(max(1, size // 100)):
        lines = (f"value_{file}_{line} = compute({line})\n" for line in range(100))
        (root / f"src/f{file}.py").write_text("".join(lines))
    (root / ".gitignore").write_text(".awf/\nall.sarif\n")
    (root / "all.sarif").write_text(sarif("lint", size))
    (root / "one.sarif").write_text(sarif("other", 1))
    if records:
        (root / ".wystack").mkdir()
    who = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    commit = ("git", *who, "commit", "--quiet", "--allow-empty", "--message=x")
    for command in (
        ("git", "init", "--quiet"),
        *(("git", "add", "."), commit),
        (AWF, "findings", "import", "all.sarif", "--json"),
        *(("git", "add", "."), commit),
    ):
        subprocess.run(command, cwd=root, check=True, capture_output=True)
    return root


def cpu(root: Path, repeats: int, *command: str) -> float:
    """The least CPU milliseconds that a command and its children take."""
    used = []
    for _ in range(repeats):
        process = subprocess.Popen(command, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, usage = os.wait4(process.pid, 0)
        used.append((usage.ru_utime + usage.ru_stime) * 1000)
    return min(used)


def stage(root: Path, effort: Effort, line: str) -> float:
    """CPU milliseconds of one more stage."""
    totals = []
    for count in effort.stages:
        stages = [line.format(number) for number in range(count)]
        transitions = [f'transition from="s{number}" to="s{number + 1}"' for number in range(count - 1)]
        end = ['stage "end" kind="exit"', f'transition from="s{count - 1}" to="end"']
        lines = ['workflow "W" {', "version 2", 'start "s0"', *stages, *transitions, *end, "}"]
        (root / "w.awf.kdl").write_text("\n".join(lines) + "\n")
        totals.append(cpu(root, effort.repeats, AWF, "run", "w.awf.kdl"))
    return (totals[1] - totals[0]) / (effort.stages[1] - effort.stages[0])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=USUAL.size, help="findings in the project")
    parser.add_argument("--smallest", action="store_true", help="a few findings, to see that it works")
    given = parser.parse_args()
    effort = SMALLEST if given.smallest else replace(USUAL, size=given.size)
    folder = Path(tempfile.mkdtemp(prefix="awf-bench-"))
    try:
        roots = [project(folder / name, effort.size, records=name == "with") for name in ("without", "with")]
        for name, line in effort.lines.items():
            show(name, *(stage(root, effort, line) for root in roots))
        for command in (("git", "status"), (AWF, "findings", "list")):
            taken = (cpu(root, effort.repeats, *command) for root in roots)
            show(f"{Path(command[0]).name} {' '.join(command[1:])}", *taken)
    finally:
        shutil.rmtree(folder)


def show(name: str, without: float, kept: float) -> None:
    """Print one line."""
    print(f"{name:18} {without:8.1f} ms without, {kept:8.1f} ms with records: {kept - without:+8.1f} ms", flush=True)


if __name__ == "__main__":
    main()
