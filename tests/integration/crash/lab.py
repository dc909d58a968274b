"""Kills runs and resumes them: each in a forked process of its own, so that a hundred deaths take seconds.

    python lab.py SCENARIO WORKDIR

SCENARIO is `boundary` (SIGKILL at every journal append, before it and after it in turn) or `random:SEED:COUNT`.
Prints one JSON object: how many deaths there were, and every difference from a run that nobody disturbed.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pipeline.app.runs import load_state, path_of
from pipeline.backends.sweep import marker, processes
from pipeline.cli import resume, run  # noqa: F401 - loaded before the forks, not after each
from pipeline.cli.main import awf, exit_code
from pipeline.engine.records import VisitCompleted
from pipeline.journal.sqlite import SqliteJournal

RUN = f"crashed-{os.getpid()}"  # a name of its own: several labs may work at once
WORKFLOW = r"""workflow "Crash" {
  version 2
  start "ws"
  settings { max_visits 6; }
  stage "ws" kind="workspace.create"
  stage "build" kind="tool" command="echo build >> built.txt"
  stage "checks" kind="parallel" {
    branch "lint"
    branch "review"
  }
  stage "lint" kind="tool" command="echo \"$AWF_VISIT\" > lint.txt; test \"$AWF_VISIT\" -ge 2"
  stage "review" kind="llm" auto_status=true prompt="Review it"
  stage "gate" kind="decision" {
    route when="findings() > 0" to="fix"
    route when="true" to="merge"
  }
  stage "fix" kind="llm" prompt="Fix it"
  stage "merge" kind="workspace.merge"
  stage "cleanup" kind="workspace.cleanup"
  stage "exit" kind="exit"
  transition from="ws" to="build"
  transition from="build" to="checks"
  transition from="checks" to="gate"
  transition from="fix" to="build"
  transition from="merge" to="cleanup"
  transition from="cleanup" to="exit"
}
"""
SCRIPT = {
    "review": [
        "Bad.\n[STATUS: fail]\n[FAILURE_REASON: no tests]",
        "Still.\n[STATUS: fail]",
        "Fine.\n[STATUS: success]",
    ],
    "fix": [{"write": {"fix1.txt": "one"}, "reply": "done"}, {"write": {"fix2.txt": "two"}, "reply": "done"}],
}


def project(folder: Path) -> Path:
    """A git repository with the workflow in it."""
    folder.mkdir(parents=True)
    (folder / "crash.awf.kdl").write_text(WORKFLOW)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "start")
    return folder


def git(folder: Path, *arguments: str) -> str:
    """What git answers."""
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def forked(folder: Path, arguments: list[str], *, die_at: int = 0, before: bool = False) -> int:
    """Start `awf` in a fork; with `die_at` it kills itself at that append to the journal."""
    child = os.fork()
    if child:
        return child
    os.chdir(folder)
    quiet = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    if die_at:
        dying(die_at, before=before)
    os._exit(exit_code(lambda: awf.main(arguments, prog_name="awf", standalone_mode=False)))


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


def started(folder: Path, **how: Any) -> int:
    """Begin the run."""
    return forked(folder, ["run", "crash.awf.kdl", "--run-id", RUN, "--script", "script.json", "--goal", "g"], **how)


def ended(child: int) -> int:
    """Wait for a fork; its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def left_behind(folder: Path) -> dict[str, Any]:
    """What a finished run left: path, context and tree, without what differs from run to run."""
    journal = SqliteJournal(folder / ".awf")
    state = load_state(journal, RUN)
    context = {
        key: state.context.get(key) for key in state.context if key not in ("workspace.commit", "workspace.merged")
    }
    context["workspace.base"] = None
    for report in context.get("review.findings", []):
        report.pop("timestamp")
    for key in list(context):
        if key.endswith(".response") and key.split(".")[0] in ("ws", "merge"):
            del context[key]
    return {
        "status": state.status,
        "path": path_of(journal, RUN),
        "visits": dict(state.visits),
        "context": json.loads(json.dumps(context).replace(str(folder), "")),
        "tree": git(folder, "rev-parse", "HEAD^{tree}"),
        "branches": git(folder, "branch", "--format=%(refname:short)"),
    }


def repeated(folder: Path) -> list[str]:
    """Stages that were committed twice."""
    seen = [
        (entry.record.stage, entry.record.visit)
        for entry in SqliteJournal(folder / ".awf").entries(RUN)
        if isinstance(entry.record, VisitCompleted)
    ]
    return [f"{stage} #{visit}" for (stage, visit), count in Counter(seen).items() if count > 1]


def differences(folder: Path, expected: dict[str, Any], what: str) -> list[str]:
    """How a resumed run differs from the undisturbed one."""
    child = forked(folder, ["resume", RUN])
    code = ended(child)
    found = left_behind(folder) if (folder / ".awf/awf.db").exists() else {}
    wrong = [
        f"{what}: {key} is {found.get(key)!r}, not {expected[key]!r}"
        for key in expected
        if found.get(key) != expected[key]
    ]
    wrong += [f"{what}: resume exited with {code}"] if code else []
    wrong += [f"{what}: {stage} ran again" for stage in repeated(folder)]
    running = [p.pid for p in processes() if (marker(p.pid) or "").startswith(f"{RUN}@") and p.pid != os.getpid()]
    wrong += [f"{what}: processes {running} are left"] if running else []
    if wrong:
        wrong.append((folder / "output.txt").read_text()[-2000:])
    return wrong


def main(scenario: str, workdir: Path) -> None:
    """Run a scenario and print what came of it."""
    template = project(workdir / "template")
    calm = shutil.copytree(template, workdir / "calm")
    began = time.monotonic()
    code = ended(started(calm))
    took = time.monotonic() - began
    if code:
        sys.exit((calm / "output.txt").read_text())
    expected = left_behind(calm)
    appends = sum(1 for _ in SqliteJournal(calm / ".awf").entries(RUN)) - 1
    deaths, wrong = 0, []
    for number, how in enumerate(plan(scenario, appends, took)):
        folder = shutil.copytree(template, workdir / f"run{number}")
        if isinstance(how, int):
            killed = ended(started(folder, die_at=how, before=how % 2 == 1)) == -signal.SIGKILL
        else:
            child = started(folder)
            time.sleep(how)  # the moment of death, not a way to wait for something
            os.kill(child, signal.SIGKILL)
            killed = ended(child) == -signal.SIGKILL
        deaths += killed
        recorded = (folder / ".awf/awf.db").exists() and RUN in SqliteJournal(folder / ".awf").runs()
        if killed and recorded and not is_over(folder):
            wrong += differences(folder, expected, f"{scenario} {how}")
        shutil.rmtree(folder)
    sys.stdout.write(
        json.dumps({"appends": appends, "deaths": deaths, "wrong": wrong, "expected": expected["path"]}) + "\n"
    )


def is_over(folder: Path) -> bool:
    """Whether the run came to its end before it was killed."""
    return load_state(SqliteJournal(folder / ".awf"), RUN).status.final


def plan(scenario: str, appends: int, took: float) -> list[int] | list[float]:
    """When to kill: at which append, or after how many seconds."""
    if scenario.startswith("random:"):
        _, seed, count = scenario.split(":")
        chance = random.Random(int(seed))  # noqa: S311 - a test's moments of death
        return [chance.uniform(0, took) for _ in range(int(count))]
    return list(range(1, appends + 1))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
