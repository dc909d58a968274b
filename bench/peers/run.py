"""The review loop on this engine and on its peers, measured and killed: `python -m bench.peers.run`.

Prints one table; `--json` prints the raw figures instead, `--write` puts the table into `docs/benchmarks.md`.
"""

import argparse
import json
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.peers import table
from bench.peers.field import FIELD, ROOT, Contestant
from bench.peers.kills import Trial, trials
from bench.peers.measure import Effort, Measured, measure

PAGE = ROOT / "docs/benchmarks.md"
DISK = "/var/tmp"  # noqa: S108 - files are made safely in it, and unlike /tmp it is seldom in memory
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", default="10,100,1000", help="the lengths of the loop")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each length, at most")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds after which a run is stopped")
    parser.add_argument("--budget", type=float, default=20.0, help="seconds after which a length is not run again")
    parser.add_argument("--kills", type=int, default=20, help="SIGKILLs of each engine")
    parser.add_argument("--folder", default=DISK, help="where the engines write; on a disk, outside of any repository")
    parser.add_argument("--only", default="", help="a part of the titles that take part")
    parser.add_argument("--json", action="store_true", help="print the raw figures")
    parser.add_argument("--smallest", action="store_true", help="awf only, a few stages, to see that it works")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


def chosen_effort(given: argparse.Namespace) -> Effort:
    """Return how much is measured."""
    if given.smallest:
        return Effort(rounds=[1, 2], repeat=1, cap=given.cap, budget=given.budget, fresh=1, synced=())
    return Effort([int(n) for n in given.rounds.split(",")], given.repeat, given.cap, given.budget)


def present(wanted: str, *, smallest: bool) -> list[Contestant]:
    """Return the engines that take part; the smallest size needs no environment but this one."""
    chosen = [one for one in FIELD if wanted in one.title]
    if smallest:
        chosen = [one for one in chosen if not one.environment][:1]
    missing = sorted({one.environment for one in chosen if not Path(one.python).exists()})
    if missing:
        sys.exit(f"no environment for {', '.join(missing)}: run `make bench-peers`, which makes them")
    return chosen


def say(message: str) -> None:
    """Tell how far it is, beside the table."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def kill_all(field: Sequence[Contestant], deaths: int, base: Path) -> dict[str, list[Trial]]:
    """Kill all engines that tell something by it."""
    found = {}
    for one in field:
        if deaths and one.kill_rounds:
            say(f"{one.title}: {deaths} SIGKILLs")
            found[one.title] = trials(one, deaths, base)
    return found


def told(field: Sequence[Contestant], effort: Effort, took: float) -> str:
    """When, where, with what and how much was measured."""
    packages = {name: version for one in field for name, version in one.versions().items()}
    named = ", ".join(f"{name} {version}" for name, version in packages.items())
    machine = f"{platform.system()} {platform.release()} on {os.cpu_count()} cores"
    return (
        f"{time.strftime('%Y-%m-%d')}, {machine}; {named}. Stages: {table.stages_of(effort.rounds)}. At most"
        f" {effort.repeat} runs a figure, none after {effort.budget:.0f} s of them, each stopped at {effort.cap:.0f} s;"
        f" all of it took {took / 60:.0f} minutes."
    )


def write(heading: str, made: Sequence[table.Row], titles: Sequence[str]) -> None:
    """Put the table between the two marks of the page."""
    behind = table.lost(made, titles)
    tail = f"Rows where this engine is not the best: {'; '.join(behind) or 'none'}."
    section = f"{BEGIN}\n{heading}\n\n{table.markdown(made, titles)}\n\n{tail}\n{END}"
    page, count = re.subn(f"{BEGIN}.*{END}", lambda _: section, PAGE.read_text(), flags=re.DOTALL)
    if count != 1:
        sys.exit(f"{PAGE} holds the marks {BEGIN} and {END} {count} times, not once")
    PAGE.write_text(page)


def as_json(heading: str, measured: dict[str, Measured], killed: dict[str, list[Trial]]) -> str:
    """All figures."""
    return json.dumps(
        {
            "about": heading,
            "measured": {title: asdict(known) for title, known in measured.items()},
            "killed": {title: [asdict(trial) for trial in found] for title, found in killed.items()},
        }
    )


def main() -> None:
    """Measure and print."""
    given, began = arguments(), time.monotonic()
    field, effort = present(given.only, smallest=given.smallest), chosen_effort(given)
    with tempfile.TemporaryDirectory(prefix="awf-bench-", dir=given.folder) as made_here:
        measured = measure(field, effort, Path(made_here), say)
        killed = kill_all(field, 0 if given.smallest else given.kills, Path(made_here))
    made, titles = table.rows(effort.rounds, measured, killed), list(measured)
    heading = told(field, effort, time.monotonic() - began)
    print(as_json(heading, measured, killed) if given.json else f"{heading}\n{table.text(made, titles)}")
    if given.write:
        write(heading, made, titles)


if __name__ == "__main__":
    main()
