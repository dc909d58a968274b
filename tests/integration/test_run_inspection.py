"""The commands that show runs, and what a person sees while a run goes on."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.integration.conftest import COMMAND, Awf
from tests.integration.forking import ForkServer
from tests.integration.screen import run_on_screen, run_until, shown

from pipeline.cli.main import COMMANDS

WORKFLOW = r"""
workflow "Look" {
  version 2
  goal "Look at everything"
  start "build"
  settings { max_visits 3; }
  stage "build" kind="llm" prompt="Build: $goal"
  stage "check" kind="tool" command="printf 'one\\ntwo \\033[31mred\\n'; echo oops >&2; test -e passed"
  stage "review" kind="llm" auto_status=true prompt="Review it"
  stage "fix" kind="llm" prompt="Fix it"
  stage "ask" kind="human" prompt="Ship it?" {
    option "yes" label="Yes" to="exit"
    option "no" label="No" to="fix"
  }
  stage "exit" kind="exit"
  transition from="build" to="check"
  transition from="check" to="review" when="outcome(\"check\") == \"success\""
  transition from="check" to="fix" when="outcome(\"check\") != \"success\""
  transition from="review" to="ask" when="outcome(\"review\") == \"success\""
  transition from="review" to="fix" when="outcome(\"review\") != \"success\""
  transition from="fix" to="check"
}
"""
SCRIPT = {
    "build": [{"status": "success", "usage": {"input_tokens": 12000, "output_tokens": 345, "cost_usd": 0.25}}],
    "fix": [{"write": {"passed": "yes"}, "reply": "Made it pass."}],
    "review": ["Fine.\n[STATUS: success]"],
}
REFUSED = {"error": "auth", "message": "401 Unauthorized"}
QUOTA = {"error": "quota", "message": "usage limit reached", "retry_after": 7200}
EXAMPLES = {
    "context": (["r1"], "graph.goal = Look at everything\n"),
    "explain": (["AWF105"], "AWF105"),
    "logs": (["r1", "check"], "oops\n"),
    "prompt": (["r1", "build"], "Build: Look at everything\n"),
    "runs": ([], "r1"),
    "show": (["r1", "--format", "svg"], "</svg>\n"),
    "status": (["r1"], "r1"),
    "validate": (["look.awf.kdl"], "1 workflow checked"),
    "why": (["r1"], "build #1"),
    "workflows": ([], "quick-dev"),
}
SLOW = """
workflow "Slow" {
  version 2
  start "wait"
  stage "wait" kind="tool" command="echo begun; sleep 60" effects="external"
  stage "exit" kind="exit"
  transition from="wait" to="exit"
}
"""


def write_files(folder: Path) -> Path:
    """Write workflows and a script into a directory."""
    (folder / "look.awf.kdl").write_text(WORKFLOW)
    (folder / "slow.awf.kdl").write_text(SLOW)
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    (folder / "answers.json").write_text('{"ask": ["yes"]}')
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory with a workflow and a script for it."""
    return write_files(tmp_path)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, server: ForkServer) -> Path:
    """A directory with a run that failed a check once, then waited for a person, and is done."""
    folder = write_files(tmp_path_factory.mktemp("done"))
    given = ("look.awf.kdl", "--run-id", "r1", "--script", "script.json", "--answers", "answers.json")
    started = server.run("run", *given, cwd=folder, env={"PATH": os.environ["PATH"], "HOME": str(folder)})
    assert started.returncode == 0, started.stderr
    assert (folder / "passed").exists()
    return folder


@pytest.fixture
def run(project: Path, done: Path) -> str:
    """That run, in a directory of its own."""
    shutil.copytree(done, project, dirs_exist_ok=True)
    return "r1"


def timeless(text: str) -> str:
    """Text without times and durations; columns keep their places."""
    text = re.sub(r"\d\d:\d\d:\d\d", "hh:mm:ss", text)
    text = re.sub(r"\b\d+\.\ds\b", "0.0s", text)
    return re.sub(r"(begun |\s)\d+s(?= |$)", r"\g<1>0s", text, flags=re.MULTILINE)


def test_lines_of_a_run_that_is_piped(project: Path, awf: Awf, snapshot: SnapshotAssertion) -> None:
    """Without a terminal, each event that matters is a line on standard error."""
    done = awf("run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json", cwd=project)
    assert done.returncode == 3
    assert timeless(done.stderr) == snapshot


def test_runs(run: str, awf: Awf, snapshot: SnapshotAssertion) -> None:
    """Runs are listed newest first."""
    assert awf("run", "look.awf.kdl", "--run-id", f"{run}-later", "--script", "script.json").returncode == 3
    assert timeless(awf("runs").stdout) == snapshot
    names = [row["run_id"] for row in json.loads(awf("runs", "--json").stdout)]
    assert names == [f"{run}-later", run]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_starts_from_the_console_script(
    request: pytest.FixtureRequest, script: Awf, command: str
) -> None:
    """Each command imports what it needs; one without an example here shows its help."""
    arguments, words = EXAMPLES.get(command, (["--help"], f"Usage: awf {command}"))
    if command in EXAMPLES:
        request.getfixturevalue("run")
    done = script(command, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert words in done.stdout


def test_no_runs(awf: Awf) -> None:
    """A store without runs is not an error."""
    assert awf("runs").returncode == 0
    assert awf("runs", "--json").stdout == "[]\n"


def test_status(run: str, awf: Awf, snapshot: SnapshotAssertion) -> None:
    """One screen shows the limits, the stages and the totals of a run."""
    assert timeless(awf("status", run).stdout) == snapshot
    assert json.loads(awf("status", "latest", "--json").stdout)["status"] == "success"


def test_status_of_a_waiting_run(project: Path, awf: Awf, snapshot: SnapshotAssertion) -> None:
    """A waiting run shows its question, the options, and the commands that continue it."""
    awf("run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json", cwd=project)
    assert timeless(awf("status", "-").stdout) == snapshot


def test_a_run_at_its_limit_continues_with_the_suggested_command(project: Path, awf: Awf) -> None:
    """The command that `awf status` suggests continues a paused run."""
    (project / "script.json").write_text('{"review": ["Fine.\\n[STATUS: success]"]}')
    assert awf("run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json").returncode == 3
    status = json.loads(awf("status", "r1", "--json").stdout)
    assert status["open_reports"][-1]["stage"] == "check"
    (project / "passed").touch()
    words = status["next"][0].split()
    assert words == ["awf", "resume", "r1", "--raise", "max_visits=+10"]
    awf(*words[1:])
    assert json.loads(awf("status", "r1", "--json").stdout)["status"] == "waiting"


def test_why(run: str, awf: Awf, snapshot: SnapshotAssertion) -> None:
    """Each visit is shown with its outcome, its source, and the transition taken."""
    assert timeless(awf("why", run).stdout) == snapshot
    checks = json.loads(awf("why", run, "check", "--json").stdout)
    assert [(visit["visit"], visit["status"], visit["chosen"]["target"]) for visit in checks] == [
        (1, "fail", "fix"),
        (2, "success", "review"),
    ]


def test_context(run: str, awf: Awf) -> None:
    """Keys are printed one per line, a single value in full, and both as JSON."""
    lines = awf("context", run).stdout.splitlines()
    assert "graph.goal = Look at everything" in lines
    assert awf("context", run, "fix.response").stdout == "Made it pass.\n"
    assert json.loads(awf("context", run, "--json").stdout)["human.gate.selected"] == "yes"
    assert json.loads(awf("context", run, "review.findings", "--json").stdout) == []
    missing = awf("context", run, "graph.gaol")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert 'did you mean "graph.goal"?' in missing.stderr


def test_long_values_are_shortened_with_their_length(project: Path, awf: Awf) -> None:
    """A long value is shortened in the list, and printed in full by its key."""
    (project / "script.json").write_text(json.dumps({"build": ["long " * 1000]}))
    awf("run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json")
    (line,) = [one for one in awf("context", "r1").stdout.splitlines() if one.startswith("build._full_response")]
    assert line.endswith("(5000 characters)")
    assert len(line) <= 200
    assert awf("context", "r1", "build._full_response").stdout.strip() == ("long " * 1000).strip()


def test_prompt(run: str, awf: Awf) -> None:
    """The whole prompt of an agent is printed."""
    assert awf("prompt", run, "build").stdout.endswith("Build: Look at everything\n")
    found = json.loads(awf("prompt", run, "build", "--json").stdout)
    assert (found["run_id"], found["stage"], found["visit"], found["attempt"]) == ("r1", "build", 1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prompt", "r1", "check"], "is a tool stage"),
        (["prompt", "r1", "biuld"], 'did you mean "build"?'),
        (["prompt", "r1", "build", "--visit", "7"], "has no visit 7"),
        (["prompt", "r1", "build", "--attempt", "2"], "had no attempt 2"),
        (["logs", "r1", "ask"], "is a human stage"),
        (["logs", "r1", "fix", "--stderr"], "has no stderr"),
        (["why", "r1", "chek"], 'did you mean "check"?'),
        (["status", "r2"], "the newest are r1"),
    ],
)
@pytest.mark.usefixtures("run")
def test_what_a_run_does_not_have(awf: Awf, arguments: list[str], message: str) -> None:
    """An unknown run, stage, visit, attempt or log is an error that says what exists."""
    refused = awf(*arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert message in refused.stderr


def test_logs(run: str, awf: Awf) -> None:
    """A pipe gets a tool's output before its errors, as they were; an agent's answer is printed too."""
    assert awf("logs", run, "check", "--visit", "1").stdout == "one\ntwo \x1b[31mred\noops\n"
    assert awf("logs", run, "check", "--stderr").stdout == "oops\n"
    assert awf("logs", run, "fix").stdout == "Made it pass.\n"


def test_logs_on_a_terminal_are_sanitized(project: Path, run: str) -> None:
    """The output of a tool cannot color a terminal or move its cursor."""
    written = run_on_screen([COMMAND, "logs", run, "check"], project)
    assert "\x1b[31m" not in written
    assert "red" in written


def test_an_error_is_shown_by_every_command(project: Path, awf: Awf) -> None:
    """`status` has the stage, the kind and the command that continues; `why` has the error before the pause."""
    (project / "script.json").write_text(json.dumps({"build": [REFUSED]}))
    for name, option, code in (("r1", "pause", 3), ("r2", "fail", 1)):
        arguments = ["run", "look.awf.kdl", "--run-id", name, "--script", "script.json", "--on-error", option]
        assert awf(*arguments).returncode == code
        status = json.loads(awf("status", name, "--json").stdout)
        assert [(one["stage"], one["visit"], one["kind"]) for one in status["errors"]] == [("build", 1, "auth")]
        assert status["next"][0] == f"awf resume {name}"
        assert "build #1 (auth)" in awf("status", name).stdout
        shown_visits = json.loads(awf("why", name, "--json").stdout)
        assert [(part.get("status"), "note" in part) for part in shown_visits] == [("error", False), (None, True)]
        listed = next(row for row in json.loads(awf("runs", "--json").stdout) if row["run_id"] == name)
        assert (listed["stage"], listed["visit"], listed["until"]) == ("build", 1, None)


def test_a_quota_has_its_time_everywhere(project: Path, awf: Awf) -> None:
    """`runs` and `status` show when it resets, and the command that waits for it."""
    (project / "script.json").write_text(json.dumps({"build": [QUOTA]}))
    done = awf("run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json")
    status, (listed,) = json.loads(awf("status", "--json").stdout), json.loads(awf("runs", "--json").stdout)
    assert status["until"] == listed["until"] > time.time()
    assert status["next"][:2] == ["awf resume r1 --wait", "awf resume r1 --now"]
    assert done.stdout.splitlines()[-1] == "resume with: awf resume r1 --wait"
    assert re.search(r"paused until \S", awf("runs").stdout)
    again = awf("resume", "r1", "--json")
    assert json.loads(again.stdout.splitlines()[-1])["until"] == status["until"]


@pytest.mark.parametrize("again", [False, True])
def test_a_countdown_is_shown_and_cancelled(project: Path, awf: Awf, again: bool) -> None:  # noqa: FBT001 - a column
    """With --wait, `run` and `resume` wait for the quota; Ctrl-C leaves a cancelled run."""
    (project / "script.json").write_text(json.dumps({"build": [QUOTA]}))
    begin = ["run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json"]
    if again:
        assert awf(*begin).returncode == 3
    argv = [COMMAND, *(["resume", "r1"] if again else begin), "--wait"]
    written, code = run_until(argv, project, b"the quota resets")
    lines = shown(written)
    assert code == 130
    assert "Traceback" not in written
    assert again or any(line.startswith("! build #1") for line in lines)
    assert not any("paused; the quota" in line for line in lines)
    assert json.loads(awf("status", "r1", "--json").stdout)["status"] == "cancelled"


def test_notes_are_shown_with_their_visit(project: Path, awf: Awf) -> None:
    """`status` lists the newest twelve, newest last; `why` shows them at the visit they followed."""
    notes = [{"stage": "build", "visit": 1, "at": "", "note": f"\x1b[2Jnote {n}"} for n in range(15)]
    script = {**SCRIPT, "build": [{"status": "success", "context_updates": {"review.notes": notes}}]}
    (project / "script.json").write_text(json.dumps(script))
    awf("run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json")
    status = awf("status", "r1").stdout
    assert re.findall(r"  note (\d+)$", status, re.MULTILINE) == [str(n) for n in range(3, 15)]
    assert "\x1b" not in status
    shown_visits = json.loads(awf("why", "r1", "build", "--json").stdout)
    assert shown_visits[0]["notes"] == [note["note"] for note in notes]
    assert [note["note"] for note in json.loads(awf("status", "r1", "--json").stdout)["notes"]] == shown_visits[0][
        "notes"
    ]


def test_why_fits_a_narrow_terminal(project: Path, run: str) -> None:
    """No line is wider than the terminal."""
    lines = shown(run_on_screen([COMMAND, "why", run], project, columns=40))
    assert max(map(len, lines)) <= 40


def test_the_live_view_leaves_a_clean_screen(project: Path, snapshot: SnapshotAssertion) -> None:
    """In the end, the visits and the totals are on the screen, even around a question, and no moving line."""
    argv = [COMMAND, "run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json"]
    lines = shown(run_on_screen(argv, project, typed=["perhaps", "yes"]))
    assert not any(sign in line for line in lines for sign in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
    assert timeless("\n".join(lines)) == snapshot


def test_the_log_of_a_run(project: Path, awf: Awf) -> None:
    """`--log` writes every event, whatever is shown."""
    awf("run", "look.awf.kdl", "--run-id", "r1", "--script", "script.json", "--log", "events.jsonl")
    events = [json.loads(line) for line in (project / "events.jsonl").read_text().splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["run_started", "run_paused"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))


@pytest.mark.skipif(sys.platform != "linux", reason="a killed process leaves its lock alike everywhere; once is enough")
def test_a_killed_run(project: Path, awf: Awf) -> None:
    """A run is running while its process lives and interrupted afterwards; its logs are followed until then."""
    argv = [COMMAND, "run", "slow.awf.kdl", "--run-id", "r1"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(project)}
    with subprocess.Popen(argv, cwd=project, env=environment, stderr=subprocess.DEVNULL) as process:
        log = project / ".awf/runs/r1/wait/1/stdout.log"
        until = time.monotonic() + 30
        while not (log.exists() and log.read_text()) and time.monotonic() < until:
            time.sleep(0.05)
        assert json.loads(awf("runs", "--json").stdout)[0]["status"] == "running"
        follower = subprocess.Popen(
            [COMMAND, "logs", "r1", "wait", "--follow"], cwd=project, env=environment, stdout=subprocess.PIPE, text=True
        )
        assert follower.stdout is not None
        assert follower.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGKILL)
    with follower:
        assert follower.wait(30) == 0
    assert json.loads(awf("runs", "--json").stdout)[0]["status"] == "interrupted"
    assert "awf resume r1 --repeat" in awf("status", "r1").stdout
    assert awf("why", "r1").stdout == "wait #1  was interrupted\n"
    awf("resume", "r1")  # pauses again, since the stage may have acted outside; what the killed one left is ended


def test_an_error_is_data_on_the_terminal(awf: Awf) -> None:
    """An unknown name in an error can ring no bell, move no cursor and start no line of its own."""
    done = awf("explain", "\a\x1b[2JAWF\nhelp: rm -rf /")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith('AWF help: rm -rf /"')
    assert not {"\a", "\x1b"} & {*done.stderr}
