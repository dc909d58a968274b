"""Runs that are answered and cancelled by another process than the one that drives them."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import shown

from pipeline.cli.location import user_name
from pipeline.engine.records import RunCancelled, VisitCompleted
from pipeline.journal.mailbox import SqliteMailbox
from pipeline.journal.sqlite import SqliteJournal

WORKFLOW = """
workflow "W" {
  version 2
  start "ask"
  stage "ask" kind="human" prompt="Ship it?" require_feedback_on="no" {
    option "yes" label="Ship it" to="work" approves=true
    option "no" label="Not yet" to="ask"
  }
  stage "work" kind="tool" command="echo ran >> ran.txt"
  stage "end" kind="exit"
  transition from="work" to="end"
}
"""
ME = user_name()


class Driver:
    """A process that drives a run; its progress is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def says(self, words: str) -> str:
        """Wait for a line that contains some words."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if words in line:
                return line
        raise AssertionError(f"it ended without: {words}")

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its exit code and output."""
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out


Start = Callable[..., Driver]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts `awf` in the background without a terminal, and kills what still runs at the end."""
    with ExitStack() as running:

        def begin(*arguments: str) -> Driver:
            streams: dict[str, Any] = {
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
            }
            environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
            process = subprocess.Popen([COMMAND, *arguments], cwd=tmp_path, env=environment, text=True, **streams)
            running.enter_context(process)
            running.callback(process.kill)
            return Driver(process)

        yield begin


@pytest.fixture(autouse=True)
def workflow(tmp_path: Path) -> Path:
    path = tmp_path / "w.awf.kdl"
    path.write_text(WORKFLOW)
    return path


def completed(store: Path, run_id: str = "r", stage: str = "ask") -> list[VisitCompleted]:
    with closing(SqliteJournal(store)) as journal:
        records = [entry.record for entry in journal.entries(run_id)]
    return [record for record in records if isinstance(record, VisitCompleted) and record.stage == stage]


def without_times(record: VisitCompleted) -> VisitCompleted:
    outcome = record.outcome.model_copy(update={"duration": 0.0})
    return record.model_copy(update={"at": 0.0, "outcome": outcome, "attempt": 1})


def test_a_process_that_waits_picks_up_the_answers(awf: Awf, start: Start, tmp_path: Path) -> None:
    """With `--wait` it stays at each visit of the question until that visit is answered; then the run continues."""
    run = start("run", "w.awf.kdl", "--run-id", "r", "--wait")
    run.says("ask #1                asks a person")
    status = json.loads(awf("status", "r", "--json").stdout)
    assert (status["status"], status["question"], status["next"]) == (
        "running",
        "Ship it?",
        ["awf answer r ask OPTION"],
    )
    first = awf("answer", "r", "ask", "no", "--feedback", "Not yet.")
    assert (first.returncode, first.stdout) == (
        0,
        'run r: answered "ask" #1 with no\nthe run continues\n',
    )
    run.says(f"answered: no (by {ME})")
    run.says("ask #2                asks a person")
    assert json.loads(awf("answer", "r", "yes", "--json").stdout)["visit"] == 2
    code, out = run.ended()
    assert (code, "run r: success" in out) == (0, True)
    visits = completed(tmp_path / ".awf")
    assert [(one.visit, one.option, one.outcome.response, one.outcome.source) for one in visits] == [
        (1, "no", "Not yet.", "human"),
        (2, "yes", "", "human"),
    ]
    assert json.loads(awf("context", "r", "--json").stdout)["human.gate.by"] == ME


def test_without_wait_the_run_stops_and_resume_picks_up_the_answer(awf: Awf, tmp_path: Path) -> None:
    """It exits with 3; the answer needs no file and counts for its visit only."""
    assert awf("run", "w.awf.kdl", "--run-id", "r").returncode == 3
    given = awf("answer", "r", "no", "--feedback", "Not yet.")
    assert given.stdout.endswith("resume with: awf resume r\n")
    assert awf("resume", "r").returncode == 3  # it asks for the second time
    assert [(one.visit, one.option) for one in completed(tmp_path / ".awf")] == [(1, "no")]
    asked = json.loads(awf("answer", "r", "--json").stdout)
    assert (asked["visit"], asked["answered"], asked["driven"]) == (2, None, False)
    assert [(one["option"], one["feedback"], one["by"]) for one in asked["earlier"]] == [("no", "Not yet.", ME)]
    shown = awf("answer", "r").stdout
    assert "ask: Ship it?" in shown
    assert "answer with: awf answer r ask OPTION   (no: with --feedback TEXT)" in shown
    assert awf("answer", "r", "yes", "--resume").returncode == 0
    assert (tmp_path / "ran.txt").read_text() == "ran\n"


def test_answer_with_resume_prints_what_resume_prints(awf: Awf) -> None:
    """With `--json` there is one object per line, and the last is the result."""
    awf("run", "w.awf.kdl", "--run-id", "r")
    done = awf("answer", "r", "yes", "--resume", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, events[0]["event"], events[-1]["status"]) == (0, "run_resumed", "success")
    assert next(one for one in events if one["event"] == "human_answered")["by"] == ME


def test_one_of_two_simultaneous_answers_counts(script: Awf, awf: Awf, tmp_path: Path) -> None:
    """The other exits with 1 and says who answered what and when; so does a later one."""
    awf("run", "w.awf.kdl", "--run-id", "r")
    words = [("yes",), ("no", "--feedback", "Wait.")]
    with ThreadPoolExecutor() as pool:
        both = list(pool.map(lambda one: script("answer", "r", "ask", *one), words))
    assert sorted(done.returncode for done in both) == [0, 1]
    kept = SqliteMailbox(tmp_path / ".awf").answer("r", "ask", 1)
    assert kept is not None
    lost = next(done for done in both if done.returncode)
    assert f'{ME} has already answered "ask" #1 of run r: "{kept.option}", at 2' in lost.stderr
    late = awf("answer", "r", "yes")
    assert (late.returncode, f'of run r: "{kept.option}"' in late.stderr) == (1, True)


def test_an_answer_survives_the_process_that_asked(awf: Awf, start: Start, tmp_path: Path) -> None:
    """`kill -9` at the question, then an answer, then a resume: it is applied once."""
    run = start("run", "w.awf.kdl", "--run-id", "r", "--wait")
    run.says("asks a person")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    assert json.loads(awf("answer", "r", "no", "--feedback", "Again.", "--json").stdout)["driven"] is False
    assert awf("resume", "r").returncode == 3
    assert awf("resume", "r").returncode == 3
    assert [(one.visit, one.option) for one in completed(tmp_path / ".awf")] == [(1, "no")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["r", "yse"], 'did you mean "yes"?'),
        (["r", "no"], "needs feedback"),
        (["r", "ask", "yes", "more"], "give a run, a stage and an option"),
        (["nobody", "yes"], 'there is no run "nobody"'),
    ],
)
def test_an_invalid_answer_exits_with_2(awf: Awf, words: list[str], message: str) -> None:
    """It says what to write instead, and the run keeps waiting."""
    awf("run", "w.awf.kdl", "--run-id", "r")
    done = awf("answer", *words)
    assert (done.returncode, message in done.stderr) == (2, True)
    assert json.loads(awf("answer", "r", "--json").stdout)["answered"] is None


def test_a_run_that_asks_nothing_says_so(awf: Awf) -> None:
    """Showing the question of a finished run is refused."""
    assert awf("run", "w.awf.kdl", "--run-id", "r", "--auto-approve").returncode == 0
    done = awf("answer", "r")
    assert (done.returncode, "is not waiting for a person" in done.stderr) == (2, True)


class Terminal:
    """A run on a terminal."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self._ours, theirs = os.openpty()
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        command = [COMMAND, "run", "w.awf.kdl", "--run-id", run_id]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.written = b""

    def until(self, words: bytes) -> None:
        while words not in self.written:
            self.written += os.read(self._ours, 65536)

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def ended(self) -> int:
        try:
            while more := os.read(self._ours, 65536):
                self.written += more
        except OSError:  # the other end of the terminal is closed
            os.close(self._ours)
        return self.process.wait(60)


Open = Callable[[str], Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    """Starts a run on a terminal, and kills it if it still runs at the end."""
    with ExitStack() as running:

        def begin(run_id: str) -> Terminal:
            made = Terminal(tmp_path, run_id)
            running.enter_context(made.process)
            running.callback(made.process.kill)
            return made

        yield begin


def test_a_sent_answer_withdraws_the_prompt_from_the_terminal(awf: Awf, terminal: Open) -> None:
    """A line says who answered; half a typed word answers neither this question nor the next one."""
    screen = terminal("r")
    screen.until(b"Your choice (yes, no): ")
    screen.type(b"ye")
    assert awf("answer", "r", "no", "--feedback", "Not yet.").returncode == 0
    screen.until(f"{ME} answered: no".encode())
    screen.written = screen.written.partition(b" answered: no")[2]
    screen.until(b"Your choice (yes, no): ")
    assert awf("answer", "r", "yes").returncode == 0
    assert screen.ended() == 0
    assert b"Unknown option" not in screen.written
    lines = shown(screen.written.decode())
    assert not [line for line in lines if "Your choice" in line]
    assert f"{ME} answered: yes" in lines


def test_a_typed_answer_and_a_sent_one_leave_the_same_record(awf: Awf, terminal: Open, tmp_path: Path) -> None:
    """The journal does not tell them apart, and a later answer is refused with the typed one."""
    screen = terminal("typed")
    screen.until(b"Your choice (yes, no): ")
    screen.type(b"yes\n")
    assert screen.ended() == 0
    awf("run", "w.awf.kdl", "--run-id", "sent")
    awf("answer", "sent", "yes", "--resume")
    typed, sent = (completed(tmp_path / ".awf", run)[0] for run in ("typed", "sent"))
    assert without_times(typed) == without_times(sent)
    late = awf("answer", "typed", "no", "--feedback", "x")
    assert (late.returncode, f'{ME} has already answered "ask" #1' in late.stderr) == (1, True)


def cancellation(store: Path) -> RunCancelled:
    with closing(SqliteJournal(store)) as journal:
        record = journal.last("r").record
    assert isinstance(record, RunCancelled)
    return record


def alive(pid: str) -> bool:
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_cancel_reaches_a_running_tool(awf: Awf, start: Start, workflow: Path, tmp_path: Path) -> None:
    """The tool's processes are gone, the driver exits with 130, and resume repeats the interrupted stage."""
    os.mkfifo(tmp_path / "up")
    command = "test -e go || { echo $$ > up; sleep 300 & sleep 300; }"
    workflow.write_text(WORKFLOW.replace("echo ran >> ran.txt", command))
    run = start("run", "w.awf.kdl", "--run-id", "r", "--auto-approve")
    run.says("work #1")
    tool = (tmp_path / "up").read_text().strip()
    done = awf("cancel", "r", "--reason", "wrong goal")
    assert (done.returncode, done.stdout) == (
        0,
        f"run r: cancelled (by {ME}: wrong goal)\nresume with: awf resume r\n",
    )
    assert run.ended()[0] == 130
    assert not alive(tool)
    record = cancellation(tmp_path / ".awf")
    assert (record.stage, record.reason) == ("work", f"by {ME}: wrong goal")
    (tmp_path / "go").touch()
    assert awf("resume", "r").returncode == 0  # the old request does not stop it again


def test_cancel_kills_what_a_killed_process_left_running(
    awf: Awf, start: Start, workflow: Path, tmp_path: Path
) -> None:
    """The process of the run is gone but its tool still runs, until the run is cancelled."""
    os.mkfifo(tmp_path / "up")
    workflow.write_text(WORKFLOW.replace("echo ran >> ran.txt", "echo $$ > up; sleep 300"))
    run = start("run", "w.awf.kdl", "--run-id", "r", "--auto-approve")
    tool = (tmp_path / "up").read_text().strip()
    run.process.kill()
    run.process.wait()
    assert alive(tool)
    assert awf("cancel", "r").returncode == 0
    assert not alive(tool)


def test_cancel_interrupts_a_question_and_the_wait_before_a_retry(awf: Awf, start: Start, workflow: Path) -> None:
    """Whatever the process does, it stops at once."""
    run = start("run", "w.awf.kdl", "--run-id", "r", "--wait")
    run.says("asks a person")
    assert awf("cancel", "r").returncode == 0
    assert run.ended()[0] == 130
    failing = 'command="false" {\nretry max_attempts=2 delay="1h"\n}'
    workflow.write_text(WORKFLOW.replace('command="echo ran >> ran.txt"', failing))
    run = start("run", "w.awf.kdl", "--run-id", "q", "--auto-approve")
    run.says("retrying in")
    told = json.loads(awf("cancel", "q", "--json").stdout)
    assert told == {"run_id": "q", "status": "cancelled", "reason": f"by {ME}", "dropped": []}
    assert run.ended()[0] == 130


def test_a_run_without_a_process_is_cancelled_at_once(awf: Awf, tmp_path: Path) -> None:
    """It is recorded and can still be answered and resumed; a finished run is refused."""
    awf("run", "w.awf.kdl", "--run-id", "r")
    assert awf("cancel", "r", "--reason", "later").returncode == 0
    assert cancellation(tmp_path / ".awf").reason == f"by {ME}: later"
    assert json.loads(awf("status", "r", "--json").stdout)["status"] == "cancelled"
    assert awf("answer", "r", "yes", "--resume").returncode == 0
    over = awf("cancel", "r")
    assert (over.returncode, "has finished (success)" in over.stderr) == (1, True)
