"""Kills runs and resumes them: each in a forked process of its own, so that a hundred deaths take seconds.

    python lab.py SCENARIO WORKDIR

SCENARIO is `once` (runs that die of SIGKILL once, each between two other journal appends, and are resumed to the end),
`always` (a run whose every process dies at its first append or its second, before or after it) or `random:SEED:COUNT`
(SIGKILL at random moments, also of what resumes, until the run is over, and then the next).
Prints one JSON object: how many deaths there were, and every difference from a run that nobody disturbed.
"""

import gc
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NoReturn

from pipeline.app.runs import path_of
from pipeline.app.store import load_state
from pipeline.backends.process_tree import list_processes, read_marker
from pipeline.cli import run  # noqa: F401 - loaded before the forks, not after each
from pipeline.cli.main import awf, exit_code
from pipeline.engine.records import VisitCompleted
from pipeline.journal.sqlite import SqliteJournal

RUN = f"crashed-{os.getpid()}"  # a name of its own: several labs may work at once
BEGIN = ["run", "crash.awf.kdl", "--run-id", RUN, "--script", "script.json", "--goal", "g"]
MOST_DEATHS = 200  # a run that does not come forward is wrong
MOST_LIVES = 20  # of one run, before it may end undisturbed
PROJECT = Path(__file__).with_name("project")
TOOLS = ("build", "lint")  # the stages that write down that they run
CHANGING = (  # name commits
    "workspace.base", "workspace.commit", "workspace.merged", "ws.response", "merge.response", "review._reviewed",
)  # fmt: skip

Visit = tuple[str, int]
Experiment = Callable[["Trial"], int]  # what is done to a run; how many deaths that were


def project(folder: Path) -> Path:
    """A git repository with the workflow in it."""
    shutil.copytree(PROJECT, folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "start")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """What git answers."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


class Trial:
    """One run in a copy of the project, and the lives it has: processes that work on it one after the other."""

    def __init__(self, template: Path, folder: Path) -> None:
        self.folder = shutil.copytree(template, folder)
        self.ran = folder.with_suffix(".ran")  # each tool's execution, as a line: no restored worktree takes it away
        self.ran.touch()
        self.said = folder.with_suffix(".said")  # beside the checkout: a review is told what changed in it
        self.said.touch()
        self._known: list[set[Visit]] = []  # the visits on record when each life began

    def live(self, *, die_at: int = 0, before: bool = False, kill_after: float | None = None) -> int:
        """Begin or resume the run in a fork, until it ends or is killed; the exit code, negative for a signal."""
        self._known.append(set(self.committed()))
        child = os.fork()
        if not child:
            self._work(["resume", RUN] if self.recorded() else BEGIN, die_at, before=before)
        if kill_after is not None:
            time.sleep(kill_after)  # the moment of death, not a way to wait for something
            os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def _work(self, arguments: list[str], die_at: int, *, before: bool) -> NoReturn:
        os.chdir(self.folder)
        quiet = os.open(self.said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.environ.update(LAB_RAN=str(self.ran), LAB_LIFE=str(len(self._known) - 1))
        if die_at:
            dying(die_at, before=before)
        os._exit(exit_code(lambda: awf.main(arguments, prog_name="awf", standalone_mode=False)))

    def journal(self) -> closing[SqliteJournal]:
        """What is on record."""
        return closing(SqliteJournal(self.folder / ".awf"))

    def recorded(self) -> bool:
        """Whether there is anything to resume."""
        if not (self.folder / ".awf/awf.db").exists():
            return False
        with self.journal() as journal:
            return RUN in journal.runs()

    def over(self) -> bool:
        """Whether the run came to its end."""
        if not self.recorded():
            return False
        with self.journal() as journal:
            return load_state(journal, RUN).status.final

    def committed(self) -> list[Visit]:
        """The visits that are on record as done."""
        if not self.recorded():
            return []
        with self.journal() as journal:
            records = [entry.record for entry in journal.entries(RUN)]
        return [(record.stage, record.visit) for record in records if isinstance(record, VisitCompleted)]

    def appends(self) -> int:
        """How many records followed the first, which makes the run."""
        with self.journal() as journal:
            return sum(1 for _ in journal.entries(RUN)) - 1

    def output(self) -> str:
        """The last that its lives wrote."""
        return self.said.read_text()[-2000:]

    def left_behind(self) -> dict[str, Any]:
        """What the finished run left: path, context and tree, without what differs from run to run."""
        with self.journal() as journal:
            state, path = load_state(journal, RUN), path_of(journal, RUN)
        context = {key: state.context.get(key) for key in state.context if key not in CHANGING}
        for report in context.get("review.findings", []):
            report.pop("timestamp")
        return {
            "status": state.status,
            "path": path,
            "visits": dict(state.visits),
            "context": json.loads(json.dumps(context).replace(str(self.folder), "")),
            "tree": git(self.folder, "rev-parse", "HEAD^{tree}"),
            "branches": git(self.folder, "branch", "--format=%(refname:short)"),
        }

    def wrong(self, expected: dict[str, Any]) -> Iterator[str]:
        """How the run differs from the undisturbed one, and what was done twice, not at all, or never ended."""
        if not self.over():
            yield "the run is not over"
            return
        found = self.left_behind()
        yield from (f"{key} is {found[key]!r}, not {value!r}" for key, value in expected.items() if found[key] != value)
        times = Counter(self.committed())
        yield from (f"{visit} is on record {count} times" for visit, count in times.items() if count > 1)
        yield from self._executions()
        carried = [(process.pid, read_marker(process) or "") for process in list_processes()]
        yield from (f"process {pid} is left" for pid, label in carried if label.startswith(f"{RUN}@"))

    def _executions(self) -> Iterator[str]:
        """A tool runs for each visit, at most once in each life, and never when the visit is already on record."""
        ran = Counter(self._told(*line.split()) for line in self.ran.read_text().splitlines())
        for (life, visit), count in ran.items():
            if count > 1:
                yield f"{visit} ran {count} times in life {life}"
            if visit in self._known[life]:
                yield f"{visit} was on record and ran again in life {life}"
        done = {visit for visit in self.committed() if visit[0] in TOOLS}
        yield from (f"{visit} never ran" for visit in done - {visit for _, visit in ran})

    @staticmethod
    def _told(life: str, stage: str, visit: str) -> tuple[int, Visit]:
        return int(life), (stage, int(visit))

    def remove(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.folder)
        self.ran.unlink()
        self.said.unlink()


def dying(die_at: int, *, before: bool) -> None:
    """Make this process kill itself at its n-th append."""
    append = SqliteJournal.append
    count = 0

    def lethal(self: SqliteJournal, *arguments: Any, **options: Any) -> int:
        nonlocal count
        count += 1
        if before and count == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        number = append(self, *arguments, **options)
        if count == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    SqliteJournal.append = lethal  # type: ignore[method-assign]  # only in this fork


def one_death(trial: Trial, appends: int) -> int:
    """Kill the run after N appends, right after the last or right before the next; return how often it died."""
    before = appends % 2 == 0
    deaths = int(trial.live(die_at=appends + before, before=before) == -signal.SIGKILL)
    if not trial.over():
        trial.live()
    return deaths


def many_deaths(trial: Trial, lives: Iterable[float]) -> int:
    """Kill the run, and each resume, after N seconds until it finishes; return how often it died."""
    deaths = 0
    for seconds in lives:
        deaths += trial.live(kill_after=seconds) == -signal.SIGKILL
        if trial.over():
            return deaths
    trial.live()
    return deaths


def every_death(trial: Trial) -> int:
    """Kill each process at its first append, or its second, until the run is over; the number of deaths."""
    deaths = 0
    turns = cycle([(1, True), (1, False), (2, True), (2, False)])  # the first append of a resume notes the resume
    for die_at, before in islice(turns, MOST_DEATHS):
        deaths += trial.live(die_at=die_at, before=before) == -signal.SIGKILL
        if trial.over():
            break
    return deaths


def moments(seed: int, took: float) -> Iterator[Experiment]:
    """Deaths at moments that a seed gives, a few in each run."""
    chance = random.Random(seed)  # noqa: S311 - a test's moments of death
    while True:
        yield partial(many_deaths, lives=[chance.uniform(0, took / 2) for _ in range(MOST_LIVES)])


def experiments(scenario: str, appends: int, took: float) -> tuple[Iterator[Experiment], int]:
    """What is done to one run after the other, and the deaths that are enough."""
    if scenario == "once":
        return (partial(one_death, appends=done) for done in range(appends)), appends
    if scenario == "always":
        return iter([every_death]), 2 * appends
    _, seed, count = scenario.split(":")
    return moments(int(seed), took), int(count)


def main(scenario: str, workdir: Path) -> None:
    """Run a scenario and print what came of it."""
    template = project(workdir / "template")
    calm = Trial(template, workdir / "calm")
    began = time.monotonic()
    if calm.live():
        sys.exit(calm.output())
    took = time.monotonic() - began
    expected, appends = calm.left_behind(), calm.appends()
    planned, count = experiments(scenario, appends, took)
    deaths, wrong = 0, list(calm.wrong(expected))
    while deaths < count and (experiment := next(planned, None)):
        trial = Trial(template, workdir / "trial")
        deaths += experiment(trial)
        if problems := list(trial.wrong(expected)):
            wrong += [f"after death {deaths}: {problem}" for problem in problems] + [trial.output()]
        trial.remove()
    sys.stdout.write(json.dumps({"enough": count, "deaths": deaths, "wrong": wrong}) + "\n")


if __name__ == "__main__":
    gc.freeze()  # pages that no collection writes to stay shared with the forks
    main(sys.argv[1], Path(sys.argv[2]))
