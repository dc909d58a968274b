"""Tells the demo: makes the project, runs quick-dev on it, and shows what was found and what became of it."""

import contextlib
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pipeline.app.history import RunHistory
from pipeline.app.runs import AWF_COMMAND
from pipeline.demo.crash import kill_after
from pipeline.demo.project import GOAL, git, make_project
from pipeline.demo.rounds import Found, findings_of
from pipeline.errors import ExitCode
from pipeline.journal.sqlite import SqliteJournal

RUN_ID = "demo"
AGENT = Path(__file__).with_name("agent.py")
_KILLED_AFTER = 7  # stages: the second fix has begun, and three findings are outstanding


@dataclass(frozen=True, slots=True)
class Story:
    """One telling, in one project directory."""

    directory: Path
    console: Console

    @property
    def store(self) -> Path:
        """Where the run is kept."""
        return self.directory / ".awf"

    def tell(self, *, crash: bool, keep: bool) -> int:
        """Everything, in order, and where to look next if the project is kept; the run's exit code."""
        began = time.monotonic()
        self._introduce()
        code = self._crashed() if crash else self._run()
        if code == ExitCode.SUCCESS:
            self._findings()
            self._changes()
        if keep:
            self._next()
        self._title(f"{time.monotonic() - began:.1f} seconds, no key, no network.", "dim")
        return code

    def _introduce(self) -> None:
        make_project(self.directory)
        self._title("A project with defects")
        self._say(f"{self.directory}: a git repository with unit tests and a checker of its own.")
        self._say("The agent is a small program. It repairs only what the findings in its prompt name.")

    def _run(self) -> int:
        with self._awf(*self._beginning()) as child:
            return child.wait()

    def _crashed(self) -> int:
        with self._awf(*self._beginning()) as child:
            killed = kill_after(child, self.store, RUN_ID, _KILLED_AFTER)
        if not killed:
            return child.returncode
        self._title(f"kill -9 {child.pid}", "bold red")
        self._say("The process is gone in the middle of its work. The journal has every stage before it:")
        self._awf_done("status", RUN_ID)
        return self._awf_done("resume", RUN_ID)

    def _beginning(self) -> tuple[str, ...]:
        agent = shlex.join([sys.executable, "-I", "-B", str(AGENT)])
        who = ("--backend", "command", "--agent-command", agent)
        return ("run", "quick-dev", "--run-id", RUN_ID, "--goal", GOAL, *who)

    def _awf_done(self, *arguments: str) -> int:
        with self._awf(*arguments) as child:
            return child.wait()

    @contextmanager
    def _awf(self, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A command of `awf` in the project, on this terminal; it has ended when the block is left."""
        self._title(f"awf {' '.join(arguments[:2])}")
        child = subprocess.Popen([*AWF_COMMAND, *arguments], cwd=self.directory, stdin=subprocess.DEVNULL)
        try:
            yield child
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(timeout=10)  # an interrupt reaches it as well, and it ends its own processes
            child.kill()
            child.wait()

    def _findings(self) -> None:
        with contextlib.closing(SqliteJournal(self.store)) as journal:
            found = findings_of(RunHistory.read(entry.record for entry in journal.entries(RUN_ID)).visits)
        self._title("What was found, by whom, and when it went away")
        for line in finding_lines(found):
            self.console.print(line)

    def _changes(self) -> None:
        first = git(self.directory, "rev-list", "--reverse", "HEAD").split()[1]
        self._title("What the agent did")
        self._say(git(self.directory, "log", "--reverse", "--format=%h %s").rstrip())
        self._title("What the findings changed")
        for line in git(self.directory, "diff", "--no-color", "--no-ext-diff", "-U1", first).splitlines():
            self.console.print(Text(line, diff_style(line)))

    def _next(self) -> None:
        self._title("Where to look next")
        steps = [(f"cd {shlex.quote(str(self.directory))}", f"or add --store {self.store} to what follows"), *NEXT]
        wide = max(len(command) for command, _ in steps)
        for command, words in steps:
            self.console.print(Text.assemble((f"{command:<{wide}}", "bold"), (f"  # {words}", "dim")))

    def _title(self, text: str, style: str = "bold cyan") -> None:
        self.console.print(Text(f"\n{text}", style))

    def _say(self, text: str) -> None:
        self.console.print(Text(text))


NEXT = (
    (f"awf why {RUN_ID}", "every step, and why the run went there"),
    (f"awf prompt {RUN_ID} fix --visit 2", "what the agent was told before its second repair"),
    (f"awf logs {RUN_ID} selfci --visit 1", "what the tests and the checker printed"),
    (f"awf status {RUN_ID}", "stages, times, limits"),
    (f"awf show {RUN_ID}", "the workflow as a picture"),
)


def finding_lines(found: Sequence[Found]) -> Iterator[Text]:
    """A line for each finding: the round it was found in, the one it was gone in, who reported it, and what it is."""
    wide = max((len(one.by) for one in found), default=0)
    place = max((len(one.place) for one in found), default=0)
    yield Text(f"found    gone     {'by':<{wide}}  what", "dim")
    for one in found:
        gone = (f"round {one.gone}  ", "green") if one.gone else ("never    ", "bold red")
        what = ((f"{one.place:<{place}}  ", "dim"), one.text)
        yield Text.assemble((f"round {one.round}  ", "yellow"), gone, (f"{one.by:<{wide}}  ", "bold"), *what)


def diff_style(line: str) -> str:
    """The colour of a line of a diff."""
    if line.startswith(("diff ", "index ", "--- ", "+++ ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
