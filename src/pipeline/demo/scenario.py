"""Runs the demo: creates a project, runs quick-dev on it, and shows what was found and how it was fixed."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipeline.app.runs import AWF_COMMAND
from pipeline.backends.git import git_in
from pipeline.engine.records import VisitCompleted
from pipeline.errors import AwfError, ExitCode
from pipeline.journal.sqlite import SqliteJournal

GOAL = "Add report.py: the stock in pages, the average price, and the items that match a condition"
RUN_ID = "demo"
AGENT = Path(__file__).with_name("agent.py")
PROJECT = Path(__file__).with_name("project")
RENAMED = {"gitignore": ".gitignore", "self-check": ".awf/self-check"}  # files this repository would ignore
FALSE_POSITIVE = "pages() accepts a size of zero"
NEXT_COMMANDS = (
    (f"awf why {RUN_ID}", "every stage, and why the run went there"),
    ("awf findings why 3", "one finding from the first report to the last ruling"),
    (f"awf prompt {RUN_ID} fix --visit 2", "the agent's prompt for the second fix"),
    (f"awf report {RUN_ID}", "the run as one page"),
    (f"awf show {RUN_ID}", "a picture of the workflow"),
)

_GIT_OPTIONS = (
    *("-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "init.defaultBranch=main"),
    *("-c", "core.autocrlf=false"),
)
_DISMISSAL = ("--as", "false-positive", "--note", "range() refuses it with a clear error, as it should")
_GIT_TIMEOUT = 60.0  # seconds
_KILL_AFTER = 7  # stages: the second fix has begun, and three reports are outstanding
_KILL_TIMEOUT = 45.0  # seconds until the run is killed wherever it is
_SHOW_CURSOR = "\x1b[?25h"


@dataclass(frozen=True, slots=True)
class Demo:
    """One demonstration in one project directory."""

    directory: Path
    console: Console

    def run(self, *, crash: bool, keep: bool) -> int:
        """Run the whole demo and return the exit code of its run; `keep` adds commands to try in the project."""
        started = time.monotonic()
        create_project(self.directory)
        self._title("A project with defects")
        self._print(f"{self.directory}: a git repository with unit tests and its own checker.")
        self._print("The agents are a small program. It fixes only what the findings in its prompt name.")
        agent = shlex.join([sys.executable, "-I", "-B", str(AGENT)])
        options = ("--run-id", RUN_ID, "--goal", GOAL, "--backend", "command", "--agent-command", agent)
        with self._awf("run", "quick-dev", *options) as child:
            killed = crash and self._kill(child)
            code = child.wait()
        if killed:
            self._title(f"kill -9 {child.pid}", "bold red")
            self._print("The process is gone in the middle of a stage. The journal has every stage before it:")
            self._run("status", RUN_ID)
            code = self._run("resume", RUN_ID)
        if code == ExitCode.PAUSED:
            self._print("\nA reviewer is out of quota. Its silence does not count as a pass: the run waits for it.")
            self._print(
                "Meanwhile a person dismisses a false positive. From the next round on reviewers know the reason."
            )
            self._run("findings", "triage", self._number_of(FALSE_POSITIVE), *_DISMISSAL)
            code = self._run("resume", RUN_ID)
        if code == ExitCode.SUCCESS:
            self._print_changes()
            self._run("findings", "list", "--state", "all")
            self._run("verdict")
        if keep:
            self._print_next_commands()
        self._title(f"{time.monotonic() - started:.1f} seconds, no API key, no network.", "dim")
        return code

    def _run(self, *arguments: str) -> int:
        """Run an awf command to its end and return its exit code."""
        with self._awf(*arguments) as child:
            return child.wait()

    def _number_of(self, title: str) -> str:
        """Return the number of the finding with a title."""
        listed = [*AWF_COMMAND, "findings", "list", "--format", "json"]
        found = json.loads(subprocess.run(listed, cwd=self.directory, check=True, capture_output=True).stdout)
        return str(next(finding["number"] for finding in found if finding["title"] == title))

    @contextlib.contextmanager
    def _awf(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run an awf command in the project, on this terminal; it has ended when the block is left."""
        self._title(f"awf {shlex.join(arguments[:2] if arguments[0] == 'run' else arguments)}")
        child = subprocess.Popen([*AWF_COMMAND, *arguments], cwd=self.directory, stdin=subprocess.DEVNULL)
        try:
            yield child
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=10)  # Ctrl-C reaches it too, and it stops its own processes
            child.kill()
            child.wait()

    def _kill(self, child: "subprocess.Popen[bytes]") -> bool:
        """Kill the run in the middle of its second fix, as a power cut would; False if it ended before."""
        deadline = time.monotonic() + _KILL_TIMEOUT
        completed = 0
        while child.poll() is None and completed < _KILL_AFTER and time.monotonic() < deadline:
            time.sleep(0.02)
            with contextlib.closing(SqliteJournal(self.directory / ".awf")) as journal, contextlib.suppress(AwfError):
                completed = sum(isinstance(entry.record, VisitCompleted) for entry in journal.entries(RUN_ID))
        time.sleep(0.2)  # let the fix leave something half done
        alive = child.poll() is None
        child.kill()
        child.wait()
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\n{_SHOW_CURSOR}")  # the live view had no time to restore it
            sys.stderr.flush()
        return alive

    def _print_changes(self) -> None:
        first = git(self.directory, "rev-list", "--reverse", "HEAD").split()[1]
        self._title("What the agent committed")
        self._print(git(self.directory, "log", "--reverse", "--format=%h %s").rstrip())
        self._title("What the findings changed")
        styles = {"+": "green", "-": "red", "@": "cyan"}
        for line in git(self.directory, "diff", "--no-color", "--no-ext-diff", "-U1", first).splitlines():
            header = line.startswith(("diff ", "index ", "--- ", "+++ "))
            self.console.print(Text(line, "bold" if header else styles.get(line[:1], "")))

    def _print_next_commands(self) -> None:
        self._title("Where to look next")
        change = (f"cd {shlex.quote(str(self.directory))}", f"or add --store {self.directory / '.awf'} to each command")
        width = max(len(command) for command, _ in (change, *NEXT_COMMANDS))
        for command, purpose in (change, *NEXT_COMMANDS):
            self.console.print(Text.assemble((f"{command:<{width}}", "bold"), (f"  # {purpose}", "dim")))

    def _title(self, text: str, style: str = "bold cyan") -> None:
        self.console.print(Text(f"\n{text}", style))

    def _print(self, text: str) -> None:
        self.console.print(Text(text))


def create_project(directory: Path) -> None:
    """Copy the sample project into an empty directory and commit it."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise AwfError(f'"{directory}" is not an empty directory', help="name a new directory")
    for source in PROJECT.iterdir():
        if source.is_file():
            path = directory / RENAMED.get(source.name, source.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            text = source.read_text(encoding="utf-8").replace("@PYTHON@", shlex.quote(sys.executable))
            path.write_text(text, encoding="utf-8")
    (directory / ".awf/self-check").chmod(0o755)
    git(directory, "init", "--quiet")
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "Read the stock")


def git(directory: Path, *arguments: str) -> str:
    """Run git in the project and return its output."""
    try:
        done = git_in(directory, os.environ).run_sync(*arguments, timeout=_GIT_TIMEOUT, options=_GIT_OPTIONS)
    except FileNotFoundError:
        raise AwfError("git not found", help="install git; the demo needs nothing else") from None
    except TimeoutError:
        raise AwfError(f"git {arguments[0]} took longer than {_GIT_TIMEOUT:.0f} seconds") from None
    if done.returncode:
        raise AwfError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")
