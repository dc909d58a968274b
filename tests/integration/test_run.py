"""`awf run` and `awf resume` with real shells and the scripted agent."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.integration.conftest import COMMAND, Awf

from pipeline.engine.events import EventKind

GOAL = "make it so"


def write(folder: Path, body: str, start: str = "a", name: str = "w.awf.kdl") -> Path:
    head = f'workflow "W" {{\nversion 2\nstart "{start}"\nsettings {{ max_visits 6; }}\n'
    text = f'{head}{body}\nstage "end" kind="exit"\n}}\n'
    path = folder / name
    path.write_text(text)
    return path


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    last: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return last


def run(awf: Awf, *arguments: str, script: dict[str, Any] | None = None, **environment: str) -> dict[str, Any]:
    """Run w.awf.kdl with a script; return its result and exit code."""
    folder = Path(environment.pop("folder", "."))
    given = ["--backend", "scripted"]
    if script is not None:
        (folder / "script.json").write_text(json.dumps(script))
        given += ["--script", "script.json"]
    done = awf("run", "w.awf.kdl", "--json", "--run-id", "r", *given, *arguments, **environment)
    assert done.stdout, done.stderr
    return {**result(done), "code": done.returncode}


def context(awf: Awf, key: str) -> Any:
    done = awf("context", "r", key, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


REVIEW_LOOP = """
stage "a" kind="llm" prompt="Write it"
stage "rev1" kind="llm" auto_status=true prompt="Review"
stage "rev2" kind="llm" auto_status=true prompt="Review"
stage "gate" kind="decision" {
  route when="findings() > 0" to="fix"
  route when="true" to="end"
}
stage "fix" kind="llm" prompt="Fix all outstanding issues listed in the review findings below."
transition from="a" to="rev1"
transition from="rev1" to="rev2"
transition from="rev2" to="gate"
transition from="fix" to="rev1"
"""


def test_a_review_loop_runs_until_nothing_is_outstanding(awf: Awf, tmp_path: Path) -> None:
    """Every review runs in every round until none fails; the exit code is 0."""
    write(tmp_path, REVIEW_LOOP)
    script = {
        "rev1": ["Bad.\n[STATUS: fail]", "[STATUS: success]"],
        "rev2": ["Bad.\n[STATUS: fail]", "[STATUS: success]"],
    }
    ended = run(awf, "--goal", GOAL, script=script, folder=str(tmp_path))
    assert (ended["status"], ended["code"], ended["outstanding"]) == ("success", 0, 0)
    assert ended["path"] == ["a", "rev1", "rev2", "gate", "fix", "rev1", "rev2", "gate", "end"]
    assert context(awf, "graph.goal") == GOAL


def test_iterations_never_restart(awf: Awf, tmp_path: Path) -> None:
    """The iteration of a report counts all visits of its stage, passed ones too."""
    write(tmp_path, REVIEW_LOOP)
    script = {
        "rev1": ["1\n[STATUS: fail]", "2\n[STATUS: success]", "3\n[STATUS: fail]"],
        "rev2": ["1\n[STATUS: fail]", "2\n[STATUS: fail]", "3\n[STATUS: fail]"],
    }
    ended = run(awf, script=script, folder=str(tmp_path))
    assert (ended["status"], ended["code"]) == ("paused", 3)
    reports = context(awf, "review.findings")
    assert [r["iteration"] for r in reports if r["stageId"] == "rev1"] == [3, 4, 5, 6]
    assert [r["iteration"] for r in reports if r["stageId"] == "rev2"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    "reply",
    [
        {"error": "auth", "message": "401"},
        {"error": "server", "message": "503"},
        "no marker here",
        "```\n[STATUS: success]\n```",
        "",
    ],
)
@pytest.mark.usefixtures("impatient")
def test_a_review_that_never_took_place_pauses_the_run(awf: Awf, tmp_path: Path, reply: Any) -> None:
    """A 401, a 503, a missing or quoted marker and an empty answer are errors: neither a pass nor a finding."""
    write(tmp_path, REVIEW_LOOP)
    ended = run(awf, script={"rev1": [reply, "Fine.\n[STATUS: success]"]}, folder=str(tmp_path))
    assert (ended["status"], ended["code"], ended["outstanding"]) == ("paused", 3, 0)
    assert ended["path"] == ["a"]
    assert '"rev1"' in ended["reason"]
    status = json.loads(awf("status", "r", "--json").stdout)
    assert (status["stage"], status["visit"], status["failed"]) == ("rev1", 1, "rev1")
    why = json.loads(awf("why", "r", "rev1", "--json").stdout)
    assert [(visit["status"], visit["attempts"][-1]["ended"]) for visit in why] == [("error", "error")]
    fails = run(awf, "--on-error", "fail", "--run-id", "f", script={"rev1": [reply]}, folder=str(tmp_path))
    assert (fails["status"], fails["code"], fails["path"]) == ("fail", 1, ["a"])


@pytest.mark.usefixtures("impatient")
def test_a_resume_runs_exactly_the_stage_that_errored(awf: Awf, tmp_path: Path) -> None:
    """Once the agent works again, a resume completes the run; the failed attempt stays on record."""
    write(tmp_path, REVIEW_LOOP)
    assert run(awf, script={"rev1": [{"error": "auth", "message": "401"}]}, folder=str(tmp_path))["code"] == 3
    (tmp_path / "s.json").write_text("{}")
    done = awf("resume", "r", "--json", "--script", "s.json")
    assert (done.returncode, result(done)["path"]) == (0, ["a", "rev1", "rev2", "gate", "end"])
    (visit,) = json.loads(awf("why", "r", "rev1", "--json").stdout)
    assert [attempt["ended"] for attempt in visit["attempts"]] == ["error", "done"]


def test_a_failed_run_is_resumed_at_the_stage_that_failed(awf: Awf, tmp_path: Path) -> None:
    """Once the cause is gone, a resume runs the failed stage again and continues from there."""
    write(tmp_path, 'stage "a" kind="tool" command="test -e there"\ntransition from="a" to="end"\n')
    assert run(awf, folder=str(tmp_path))["code"] == 1
    (tmp_path / "there").touch()
    done = awf("resume", "r", "--json")
    assert (done.returncode, result(done)["path"]) == (0, ["a", "a", "end"])


def test_a_failed_goal_gate_runs_again_when_the_run_is_resumed(awf: Awf, tmp_path: Path) -> None:
    """A run that an unsatisfied goal gate kept from its exit continues at that gate, not at the exit."""
    stages = 'stage "a" kind="tool" command="test -e there" goal_gate=true\nstage "b" kind="tool" command="true"\n'
    write(tmp_path, stages + 'transition from="a" to="b" on="always"\ntransition from="b" to="end"\n')
    assert run(awf, folder=str(tmp_path))["code"] == 1
    (tmp_path / "there").touch()
    done = awf("resume", "r", "--json")
    assert (done.returncode, result(done)["path"]) == (0, ["a", "b", "end", "a", "b", "end"])


@pytest.mark.parametrize("command", ["no-such-command", "./plain-file"])
def test_a_command_that_cannot_be_run_is_an_error(awf: Awf, tmp_path: Path, command: str) -> None:
    """A command that does not exist pauses the run; a transition for failures is not taken."""
    (tmp_path / "plain-file").write_text("x")
    stages = f'stage "a" kind="tool" command="{command}"\nstage "b" kind="tool" command="true"\n'
    write(tmp_path, stages + 'transition from="a" to="b" on="always"\ntransition from="b" to="end"\n')
    ended = run(awf, folder=str(tmp_path))
    assert (ended["code"], ended["path"], ended["outstanding"]) == (3, [], 0)


def test_a_used_up_quota_pauses_until_it_resets(awf: Awf, tmp_path: Path) -> None:
    """The paused run knows when its quota resets; an earlier resume waits, and --now does not."""
    write(tmp_path, REVIEW_LOOP)
    quota = {"error": "quota", "message": "usage limit reached", "retry_after": 3600}
    assert run(awf, script={"rev1": [quota]}, folder=str(tmp_path))["code"] == 3
    status = json.loads(awf("status", "r", "--json").stdout)
    assert 3500 < status["until"] - time.time() < 3600
    early = awf("resume", "r")
    assert (early.returncode, "quota" in early.stdout) == (3, True)
    (tmp_path / "s.json").write_text("{}")
    assert awf("resume", "r", "--now", "--script", "s.json").returncode == 0


def test_a_waiting_process_continues_when_the_quota_resets(awf: Awf, tmp_path: Path) -> None:
    """With --wait the run pauses, waits for the quota and completes; the pause is on record."""
    body = """
stage "p" kind="parallel" max_parallel=1 { branch "rev1"; branch "rev2" }
stage "rev1" kind="llm" auto_status=true prompt="x"
stage "rev2" kind="llm" auto_status=true prompt="x"
transition from="p" to="end"
"""
    write(tmp_path, body, start="p")
    fake = tmp_path / "agent.sh"
    fake.write_text(
        '#!/bin/sh\necho "$AWF_STAGE" >>calls\n[ -e used ] && { echo "[STATUS: success]"; exit; }\n'
        'touch used\necho "usage limit reached, try again in 1 second" >&2\nexit 1\n'
    )
    fake.chmod(0o755)
    agent = ["--backend", "command", "--agent-command", str(fake)]
    done = awf("run", "w.awf.kdl", "--json", "--wait", "--run-id", "r", *agent)
    assert (done.returncode, result(done)["path"]) == (0, ["rev1", "rev2", "p", "end"])
    events = [json.loads(line)["event"] for line in done.stdout.splitlines()]
    assert events.count("stage_errored") == 2, "the second branch waits for the quota with the first"
    assert (events.count("run_paused"), events.count("run_resumed")) == (1, 1)
    assert (tmp_path / "calls").read_text().split() == ["rev1", "rev1", "rev2"]


@pytest.mark.usefixtures("impatient")
def test_a_crashed_review_does_not_report_its_previous_answer(awf: Awf, tmp_path: Path) -> None:
    """A crash adds no report: the first failure stays the only one."""
    write(tmp_path, REVIEW_LOOP)
    script = {"rev1": ["Bad.\n[STATUS: fail]", {"error": "server", "message": "503"}]}
    ended = run(awf, script=script, folder=str(tmp_path))
    assert ended["outstanding"] == 1
    assert [report["response"] for report in context(awf, "review.findings")] == ["Bad.\n[STATUS: fail]"]


def test_a_failure_that_ends_the_run_is_reported(awf: Awf, tmp_path: Path) -> None:
    """A tool that ends the run leaves its report; the result names the stage, the reason and the logs."""
    write(tmp_path, 'stage "a" kind="tool" command="echo boom error >&2; exit 3"\ntransition from="a" to="end"\n')
    ended = run(awf, folder=str(tmp_path))
    assert (ended["status"], ended["code"], ended["outstanding"]) == ("fail", 1, 1)
    (report,) = context(awf, "review.findings")
    assert (report["failureReason"], report["response"].strip()) == ("boom error", "boom error")
    assert all(part in ended["reason"] for part in ("(exit_nonzero)", "boom error", "awf logs r a"))
    assert (tmp_path / ".awf/runs/r/a/1/stderr.log").read_text() == "boom error\n"


def test_an_agent_that_ends_the_run_leaves_its_logs(awf: Awf, tmp_path: Path) -> None:
    """The result quotes what the agent wrote, and `awf logs` prints it when there is no answer."""
    write(tmp_path, 'stage "a" kind="llm" prompt="x"\ntransition from="a" to="end"\n')
    agent = ["--backend", "command", "--agent-command", "sh -c 'echo out of tea >&2; exit 3'"]
    ended = run(awf, *agent, folder=str(tmp_path))
    assert (ended["status"], ended["reason"].endswith("out of tea")) == ("paused", True)
    assert awf("logs", "r", "a").stdout == "out of tea\n"


def test_a_goal_is_data_in_a_command(awf: Awf, tmp_path: Path) -> None:
    """Shell syntax in a goal or an answer is not executed; `$goals` is a variable of the shell."""
    write(
        tmp_path,
        'stage "a" kind="llm" prompt="x"\n'
        'stage "b" kind="tool" command="printf \'%s|%s|%s\' $goal ${context.a.response} \\"$goals\\" > out.txt"\n'
        'transition from="a" to="b"\ntransition from="b" to="end"\n',
    )
    goal = "\"; touch hacked; $(touch hacked) `touch hacked` '\n\\"
    answer = "'; touch hacked; echo ../../x \x1b[2J"
    ended = run(awf, "--goal", goal, script={"a": [answer]}, folder=str(tmp_path))
    assert ended["status"] == "success"
    assert (tmp_path / "out.txt").read_text() == f"{goal}|{answer}|"
    assert not (tmp_path / "hacked").exists()


def test_a_tool_gets_its_variables_and_no_secrets(awf: Awf, tmp_path: Path) -> None:
    """A tool sees its run, stage, visit and findings file, and a secret of the caller only if its command names it."""
    write(
        tmp_path,
        'stage "a" kind="tool" '
        'command="env > env.txt; cat $AWF_FINDINGS > findings.txt; echo $NAMED_TOKEN > named.txt"\n'
        'transition from="a" to="end"\n',
    )
    keys: dict[str, Any] = {"ANTHROPIC_API_KEY": "sk-secret-1", "MY_TOKEN": "sk-secret-2", "NAMED_TOKEN": "sk-named"}
    run(awf, folder=str(tmp_path), **keys)
    env = dict(line.partition("=")[::2] for line in (tmp_path / "env.txt").read_text().splitlines())
    assert (env["AWF_RUN_ID"], env["AWF_STAGE"], env["AWF_VISIT"]) == ("r", "a", "1")
    assert "sk-secret" not in (tmp_path / "env.txt").read_text()
    assert (tmp_path / "named.txt").read_text() == "sk-named\n"
    assert json.loads((tmp_path / "findings.txt").read_text()) == []


def test_a_tool_has_its_directory_and_timeout(awf: Awf, tmp_path: Path) -> None:
    """A tool runs in `cwd` and is stopped after `timeout`."""
    (tmp_path / "sub").mkdir()
    write(
        tmp_path,
        'stage "a" kind="tool" command="pwd > here.txt" cwd="sub"\n'
        'stage "b" kind="tool" command="sleep 60" timeout="500ms"\n'
        'transition from="a" to="b"\ntransition from="b" to="end"\n',
    )
    began = time.monotonic()
    ended = run(awf, folder=str(tmp_path))
    assert time.monotonic() - began < 30
    assert (tmp_path / "sub/here.txt").read_text().strip() == str(tmp_path / "sub")
    assert ended["reason"].startswith("b failed")
    assert "(timeout)" in ended["reason"]


def test_a_tools_output_is_in_its_log_and_not_in_the_journal(awf: Awf, tmp_path: Path) -> None:
    """The log holds all ten megabytes, the journal only the tail."""
    write(
        tmp_path,
        'stage "a" kind="tool" command="yes 0123456789abcdef | head -c 10000000"\ntransition from="a" to="end"\n',
    )
    assert run(awf, folder=str(tmp_path))["status"] == "success"
    assert (tmp_path / ".awf/runs/r/a/1/stdout.log").stat().st_size == 10_000_000
    assert (tmp_path / ".awf/awf.db").stat().st_size < 200_000
    assert len(context(awf, "tool.output")) <= 4096


def test_every_attempt_keeps_its_own_log(awf: Awf, tmp_path: Path) -> None:
    """A retry does not overwrite the log of an earlier attempt."""
    write(
        tmp_path,
        'stage "a" kind="tool" command="echo x >> n; echo attempt $(wc -l < n); test $(wc -l < n) -ge 3" {\n'
        'retry max_attempts=3 backoff="fixed" delay="10ms"\n}\ntransition from="a" to="end"\n',
    )
    assert run(awf, folder=str(tmp_path))["status"] == "success"
    logs = (tmp_path / ".awf/runs/r/a/1").rglob("stdout.log")
    assert sorted(log.read_text() for log in logs) == ["attempt 1\n", "attempt 2\n", "attempt 3\n"]


ASKING = """
stage "a" kind="llm" prompt="x"
stage "ask" kind="human" prompt="Merge $goal?" {
  option "revise" label="No" to="a"
  option "approve" label="Yes" to="end" approves=true
  require_feedback_on "revise"
}
transition from="a" to="ask"
"""


def test_without_a_person_the_run_waits(awf: Awf, tmp_path: Path) -> None:
    """An unanswered question stops the run with status waiting and exit code 3; it never counts as approved."""
    write(tmp_path, ASKING)
    ended = run(awf, folder=str(tmp_path))
    assert (ended["status"], ended["code"], ended["path"]) == ("waiting", 3, ["a"])


def test_what_to_do_next_names_the_store(awf: Awf, tmp_path: Path) -> None:
    """The commands that a stopped run suggests name its store."""
    write(tmp_path, ASKING)
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--backend", "scripted", "--store", "kept")
    *_, answered, gone_on = done.stdout.splitlines()
    assert (answered, gone_on) == ("answer with: awf answer r --store kept", "resume with: awf resume r --store kept")


def test_the_reason_of_a_result_is_sanitized(awf: Awf, tmp_path: Path) -> None:
    """Control characters in an agent's error do not reach the terminal."""
    write(tmp_path, 'stage "a" kind="llm" prompt="x"\ntransition from="a" to="end"\n')
    (tmp_path / "s.json").write_text(json.dumps({"a": [{"error": "auth", "message": "\a\x1b[2Jall gone"}]}))
    done = awf("run", "w.awf.kdl", "--run-id", "r", "--script", "s.json")
    assert "all gone" in done.stdout
    assert not {"\a", "\x1b"} & {*done.stdout, *done.stderr}


def test_answers_from_a_file(awf: Awf, tmp_path: Path) -> None:
    """A file answers by stage and visit, with an option or an object."""
    write(tmp_path, ASKING)
    (tmp_path / "answers.json").write_text(
        json.dumps({"ask": [{"option": "revise", "feedback": "Rename it."}, "approve"]})
    )
    ended = run(awf, "--answers", "answers.json", folder=str(tmp_path))
    assert (ended["status"], ended["path"]) == ("success", ["a", "ask", "a", "ask", "end"])


def test_when_the_answers_run_out_the_run_waits(awf: Awf, tmp_path: Path) -> None:
    """After the last answer in the file the run waits, and keeps the feedback given so far."""
    write(tmp_path, ASKING)
    (tmp_path / "answers.json").write_text(json.dumps({"ask": [{"option": "revise", "feedback": "Rename it."}]}))
    ended = run(awf, "--answers", "answers.json", folder=str(tmp_path))
    assert (ended["status"], ended["code"]) == ("waiting", 3)
    assert context(awf, "human.gate.feedback") == "Rename it."


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ("revise", "feedback"),
        ("aprove", '"aprove"'),
        ({"option": "aprove"}, 'did you mean "approve"?'),
    ],
)
def test_an_invalid_answer_is_refused_before_the_run_starts(
    awf: Awf, tmp_path: Path, answer: object, part: str
) -> None:
    """Missing feedback and unknown options exit with 2, at a start and at a resume."""
    write(tmp_path, ASKING)
    (tmp_path / "answers.json").write_text(json.dumps({"ask": [answer]}))
    started = awf("run", "w.awf.kdl", "--run-id", "r", "--backend", "scripted", "--answers", "answers.json")
    assert (started.returncode, part in started.stderr) == (2, True)
    run(awf, folder=str(tmp_path))
    resumed = awf("resume", "r", "--answers", "answers.json")
    assert (resumed.returncode, part in resumed.stderr) == (2, True)
    assert json.loads(awf("status", "r", "--json").stdout)["status"] == "waiting"


def test_auto_approve_chooses_the_approving_option(awf: Awf, tmp_path: Path) -> None:
    """The approving option is chosen even if it is not the first; the recorded source is `override`."""
    write(tmp_path, ASKING)
    ended = run(awf, "--auto-approve", folder=str(tmp_path))
    assert (ended["status"], ended["path"]) == ("success", ["a", "ask", "end"])
    assert '"override"' in awf("why", "r", "--json").stdout


def typed(tmp_path: Path, keys: bytes) -> tuple[int, str]:
    """Run with a terminal as standard input and type at the first question."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [COMMAND, "run", "w.awf.kdl", "--backend", "scripted", "--run-id", "r"],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb"},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(theirs)
    os.write(ours, keys)
    out, err = child.communicate(timeout=60)
    os.close(ours)
    return child.returncode, out + err


def test_an_unknown_option_is_asked_again(tmp_path: Path) -> None:
    """The question is repeated until the typed text is an option."""
    write(tmp_path, ASKING)
    code, seen = typed(tmp_path, b"no way\napprove\n")
    assert '"no way"' in seen
    assert code == 0


def test_an_end_of_input_is_no_answer(tmp_path: Path) -> None:
    """At the end of the input the run waits; it does not succeed."""
    write(tmp_path, ASKING)
    code, seen = typed(tmp_path, b"\x04")
    assert code == 3
    assert "awf resume r" in seen


def test_a_waiting_run_continues_when_it_is_answered(awf: Awf, tmp_path: Path) -> None:
    """A resume with an answer repeats no completed stage."""
    write(tmp_path, ASKING.replace('kind="llm" prompt="x"', 'kind="tool" command="echo ran >> ran.txt"'))
    assert run(awf, folder=str(tmp_path))["code"] == 3
    (tmp_path / "answers.json").write_text(json.dumps({"ask": ["approve"]}))
    done = awf("resume", "r", "--json", "--answers", "answers.json")
    assert (done.returncode, result(done)["path"]) == (0, ["a", "ask", "end"])
    assert (tmp_path / "ran.txt").read_text() == "ran\n"


def test_a_limit_pauses_and_is_raised(awf: Awf, tmp_path: Path) -> None:
    """A run pauses at a limit with exit code 3; `--raise` continues it."""
    write(tmp_path, REVIEW_LOOP)
    script = {"rev1": [*["No.\n[STATUS: fail]"] * 7, "Yes.\n[STATUS: success]"]}
    ended = run(awf, "--goal", GOAL, script=script, folder=str(tmp_path))
    assert (ended["status"], ended["reason"].partition(" ")[0]) == ("paused", "max_visits")
    advice = awf("resume", "r").stdout.splitlines()[-1]
    assert advice == "resume with: awf resume r --raise max_visits=+10"
    done = awf("resume", "r", "--json", *advice.split()[-2:])
    assert (done.returncode, result(done)["status"]) == (0, "success")
    assert result(done)["path"].count("rev1") == 8
    assert context(awf, "graph.goal") == GOAL


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--raise", "max_visits"], "max_visits"),
        (["--raise", "max_fun=3"], '"max_fun"'),
        (["--raise", "max_visits=lots"], "lots"),
        (["--raise", "max_visits=nan"], "nan"),
        (["--raise", "max_stages=+inf"], "inf"),
        (["--raise", "max_cost_usd=-1"], "-1"),
        (["--raise", "max_duration=10"], "--raise max_duration="),
    ],
)
def test_a_wrong_raise_is_refused(awf: Awf, tmp_path: Path, arguments: list[str], part: str) -> None:
    """A bad `--raise` exits with 2 and records nothing."""
    write(tmp_path, REVIEW_LOOP)
    run(awf, script={"rev1": ["[STATUS: fail]"]}, folder=str(tmp_path))
    done = awf("resume", "r", *arguments)
    assert (done.returncode, part in done.stderr) == (2, True)
    assert awf("status", "r").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_ctrl_c_cancels_and_resume_repeats_the_interrupted_stage(
    tmp_path: Path, awf: Awf, number: signal.Signals
) -> None:
    """A signal kills the stage's processes and exits with 130; the run can be resumed."""
    write(
        tmp_path,
        'stage "a" kind="tool" command="echo $$ > pid; if [ -e go ]; then exit 0; fi; sleep 300 & sleep 300"\n'
        'transition from="a" to="end"\n',
    )
    child = start(tmp_path)
    wait_for(tmp_path / "pid")
    child.send_signal(number)
    assert child.wait(timeout=30) == 130
    assert not alive((tmp_path / "pid").read_text().strip())
    (tmp_path / "go").touch()
    done = awf("resume", "r", "--json")
    assert (done.returncode, result(done)["path"]) == (0, ["a", "end"])


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start a run in the background."""
    return subprocess.Popen(
        [COMMAND, "run", "w.awf.kdl", "--run-id", "r"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def alive(pid: str) -> bool:
    """Whether a process still runs; a zombie does not."""
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(path: Path) -> None:
    """Wait until a file has content, at most a minute."""
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text().strip()):
        if time.monotonic() > deadline:
            pytest.fail(f"{path} was never written")
        time.sleep(0.01)


def test_only_one_process_drives_a_run(tmp_path: Path, awf: Awf) -> None:
    """A resume of a live run is refused; after SIGKILL its tool is stopped before the stage runs again."""
    write(
        tmp_path,
        'stage "a" kind="tool" command="echo $$ > pid; if [ -e go ]; then exit 0; fi; sleep 300"\n'
        'transition from="a" to="end"\n',
    )
    child = start(tmp_path)
    wait_for(tmp_path / "pid")
    tool = (tmp_path / "pid").read_text().strip()
    refused = awf("resume", "r")
    assert refused.returncode == 2
    assert f"process {child.pid}" in refused.stderr
    child.kill()
    child.wait()
    assert alive(tool)  # what the killed run left
    (tmp_path / "go").touch()
    done = awf("resume", "r", "--json")
    assert (done.returncode, result(done)["status"]) == (0, "success")
    assert not alive(tool)


def test_an_interrupted_stage_with_external_effects_needs_repeat(tmp_path: Path, awf: Awf) -> None:
    """A resume pauses at an interrupted stage with external effects; `--repeat` runs it again."""
    write(
        tmp_path,
        'stage "a" kind="tool" effects="external" command="echo $$ > pid; if [ -e go ]; then exit 0; fi; sleep 300"\n'
        'transition from="a" to="end"\n',
    )
    child = start(tmp_path)
    wait_for(tmp_path / "pid")
    child.kill()
    child.wait()
    (tmp_path / "go").touch()
    done = awf("resume", "r", "--json")
    assert (done.returncode, result(done)["status"]) == (3, "paused")
    assert '"a"' in result(done)["reason"]
    assert result(awf("resume", "r", "--json", "--repeat"))["status"] == "success"


def test_resume_uses_the_recorded_workflow(awf: Awf, tmp_path: Path) -> None:
    """A changed file counts only with `--adopt`, which refuses a workflow without the current stage."""
    write(tmp_path, ASKING)
    assert run(awf, folder=str(tmp_path))["code"] == 3
    write(
        tmp_path,
        ASKING.replace('to="end" approves', 'to="b" approves')
        + 'stage "b" kind="tool" command="true"\ntransition from="b" to="end"\n',
    )
    (tmp_path / "answers.json").write_text(json.dumps({"ask": ["approve"]}))
    write(tmp_path, REVIEW_LOOP, name="other.awf.kdl")
    gone = awf("resume", "r", "--adopt", "other.awf.kdl")
    assert (gone.returncode, '"ask"' in gone.stderr) == (2, True)
    done = awf("resume", "r", "--json", "--adopt", "w.awf.kdl", "--answers", "answers.json")
    assert result(done)["path"] == ["a", "ask", "b", "end"]


def test_a_resume_that_is_refused_adopts_nothing(awf: Awf, tmp_path: Path) -> None:
    """A refused resume leaves the run with its own workflow."""
    write(tmp_path, ASKING)
    run(awf, folder=str(tmp_path))
    write(tmp_path, ASKING.replace("Merge", "Ship"))
    before = awf("why", "r").stdout
    assert awf("resume", "r", "--adopt", "w.awf.kdl", "--raise", "max_fun=3").returncode == 2
    assert awf("why", "r").stdout == before


def test_ctrl_c_while_the_workspace_is_restored(awf: Awf, tmp_path: Path) -> None:
    """A resume that is interrupted before the run continues exits with 130 and can be repeated."""
    write(
        tmp_path,
        'stage "a" kind="workspace.create"\nstage "b" kind="tool" command="echo x > b; test -e $HOME/go || sleep 300"\n'
        'transition from="a" to="b"\ntransition from="b" to="end"\n',
    )
    person = ("git", "-c", "user.name=t", "-c", "user.email=t@t")
    for words in (["git", "init", "-q"], ["git", "add", "w.awf.kdl"], [*person, "commit", "-qm", "start"]):
        subprocess.run(words, cwd=tmp_path, check=True)
    child = start(tmp_path)
    wait_for(tmp_path / ".awf/worktrees/r/b")
    child.kill()
    child.wait()
    (tmp_path / "bin").mkdir()
    os.mkfifo(tmp_path / "reached")
    fake = tmp_path / "bin/git"
    real = shutil.which("git")
    fake.write_text(
        f'#!/bin/sh\ncase "$*" in *reset*) echo > "{tmp_path}/reached"; sleep 300;; esac\nexec {real} "$@"\n'
    )
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    with subprocess.Popen(
        [COMMAND, "resume", "r"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as resumed:
        (tmp_path / "reached").read_text()
        resumed.send_signal(signal.SIGINT)
        _, said = resumed.communicate(timeout=30)
    assert (resumed.returncode, "Traceback" in said) == (130, False)
    assert "run r" in said
    (tmp_path / "go").touch()
    assert awf("resume", "r", HOME=str(tmp_path)).returncode == 0


def test_a_finished_run_is_not_resumed(awf: Awf, tmp_path: Path) -> None:
    """A resume of a finished run exits with 2."""
    write(tmp_path, 'stage "a" kind="tool" command="true"\ntransition from="a" to="end"\n')
    run(awf, folder=str(tmp_path))
    done = awf("resume", "r")
    assert (done.returncode, "run r" in done.stderr) == (2, True)


def test_what_validate_refuses_is_not_run(awf: Awf, tmp_path: Path) -> None:
    """A workflow with errors is not run: exit code 2, and no store."""
    write(tmp_path, 'stage "a" kind="tool" comand="true"\ntransition from="a" to="end"\n')
    done = awf("run", "w.awf.kdl", "--run-id", "r")
    assert (done.returncode, "error[AWF007]" in done.stderr) == (2, True)
    assert not (tmp_path / ".awf").exists()


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "x" * 100, "a b", ""])
def test_a_run_id_stays_inside_the_store(awf: Awf, tmp_path: Path, name: str) -> None:
    """A name that could leave the store is refused before anything is written."""
    write(tmp_path, 'stage "a" kind="tool" command="true"\ntransition from="a" to="end"\n')
    done = awf("run", "w.awf.kdl", f"--run-id={name}")
    assert done.returncode == (2 if name else 0)


def test_a_run_id_is_unique(awf: Awf, tmp_path: Path) -> None:
    """A name that is taken or reserved exits with 2; the existing run does not change."""
    write(tmp_path, 'stage "a" kind="tool" command="true"\ntransition from="a" to="end"\n')
    assert awf("run", "w.awf.kdl", "--run-id", "r").returncode == 0
    again, newest = awf("run", "w.awf.kdl", "--run-id", "r"), awf("run", "w.awf.kdl", "--run-id", "latest")
    assert (again.returncode, newest.returncode) == (2, 2)
    assert '"latest"' in newest.stderr
    assert [row["run_id"] for row in json.loads(awf("runs", "--json").stdout)] == ["r"]


def test_replies_and_answers_for_unknown_stages_are_noted(awf: Awf, tmp_path: Path) -> None:
    """A typo in a stage's name is noted on standard error; the run continues, and standard output does not change."""
    write(
        tmp_path, 'stage "review" kind="llm" auto_status=true prompt="x"\ntransition from="review" to="end"\n', "review"
    )
    (tmp_path / "s.json").write_text(json.dumps({"revew": ["[STATUS: fail]"], "end": [""]}))
    (tmp_path / "a.json").write_text(json.dumps({"quite\x1b[1m other": ["yes"]}))
    done = awf("run", "w.awf.kdl", "--json", "--script", "s.json", "--answers", "a.json")
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert [note.split('"')[1] for note in notes] == ["revew", "quite\N{REPLACEMENT CHARACTER}[1m other"]
    assert (result(done)["status"], done.returncode) == ("success", 0)


def test_a_command_can_be_the_agent(awf: Awf, tmp_path: Path) -> None:
    """A command reads its prompt on standard input and answers on standard output."""
    write(tmp_path, 'stage "a" kind="llm" prompt="Say $goal"\ntransition from="a" to="end"\n')
    awf("run", "w.awf.kdl", "--run-id", "r", "--goal", "hello", "--backend", "command", "--agent-command", "tr a-z A-Z")
    assert context(awf, "a.response").endswith("\n\nSAY HELLO\n")
    assert awf("prompt", "r", "a").stdout.endswith("\n\nSay hello\n")


def test_an_agents_command_with_an_open_quote_is_refused(awf: Awf, tmp_path: Path) -> None:
    """A command with an open quote exits with 2 before anything runs."""
    write(tmp_path, 'stage "a" kind="llm" prompt="x"\ntransition from="a" to="end"\n')
    done = awf("run", "w.awf.kdl", "--backend", "command", "--agent-command", "tr 'a-z")
    assert (done.returncode, "--agent-command" in done.stderr) == (2, True)


def test_a_huge_goal_is_refused_at_the_start(awf: Awf, tmp_path: Path) -> None:
    """A goal longer than an environment variable can be exits with 2."""
    write(tmp_path, 'stage "a" kind="tool" command="true"\ntransition from="a" to="end"\n')
    done = awf("run", "w.awf.kdl", "--goal", "x" * 120_000)
    assert (done.returncode, "goal" in done.stderr) == (2, True)


def test_a_huge_answer_is_kept_whole_and_refused_to_a_command(awf: Awf, tmp_path: Path) -> None:
    """The context keeps an answer of ten megabytes; a command that would need it as a variable fails."""
    write(
        tmp_path,
        'stage "a" kind="llm" prompt="x"\n'
        'stage "b" kind="tool" command="echo ${context.a._full_response}"\n'
        'transition from="a" to="b"\ntransition from="b" to="end"\n',
    )
    answer = "x" * 10_000_000
    ended = run(awf, script={"a": [answer]}, folder=str(tmp_path))
    assert '"a._full_response"' in ended["reason"]
    assert len(context(awf, "a._full_response")) == 10_000_000


def test_events_are_one_object_a_line(awf: Awf, tmp_path: Path) -> None:
    """`--json` prints one event per line, and nothing else, to standard output."""
    write(tmp_path, REVIEW_LOOP)
    done = awf("run", "w.awf.kdl", "--json", "--run-id", "r", "--backend", "scripted")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert all({"event", "run_id", "seq", "at", "stage", "visit"} <= set(event) for event in events[:-1])
    assert [event["seq"] for event in events[:-1]] == list(range(1, len(events)))
    assert events[0]["event"] == "run_started"
    assert set(events[-1]) == {"event", "run_id", "status", "path", "reports", "findings", "outstanding", "reason"}
    assert events[-1]["event"] == "run_completed"


EVERY_EVENT = """
stage "work" kind="llm" prompt="Work" { retry max_attempts=2 backoff="none" }
stage "check" kind="tool" command="echo so; test -e there"
stage "gate" kind="decision" {
  route when="findings() > 0" to="ask"
  route when="true" to="end"
}
stage "ask" kind="human" prompt="Well?" {
  option "again" label="Again" to="check"
  option "stop" label="Stop" to="last"
}
stage "last" kind="tool" command="exit 1"
transition from="work" to="check"
transition from="check" to="gate"
transition from="last" to="end"
"""


@pytest.mark.usefixtures("impatient")
def test_every_kind_of_event_is_printed(awf: Awf, tmp_path: Path) -> None:
    """Retries, output, failures, findings, questions, answers, pauses and ends have their events."""
    write(tmp_path, EVERY_EVENT, start="work")
    (tmp_path / "stop.json").write_text('{"ask": ["stop"]}')
    empty_once = "sh -c 'test -e tried && echo done; touch tried'"
    agent = ["--backend", "command", "--agent-command", empty_once]
    waits = awf("run", "w.awf.kdl", "--json", "--run-id", "r", *agent)
    (tmp_path / "there").touch()
    awf("answer", "r", "again")
    passes = awf("resume", "r", "--json")
    (tmp_path / "there").unlink()
    fails = awf("run", "w.awf.kdl", "--json", *agent, "--answers", "stop.json")
    errs = awf("run", "w.awf.kdl", "--json", "--backend", "command", "--agent-command", "false")
    assert [done.returncode for done in (waits, passes, fails, errs)] == [3, 0, 1, 3]
    kinds = {json.loads(line)["event"] for done in (waits, passes, fails, errs) for line in done.stdout.splitlines()}
    assert kinds == {*EventKind, "findings_changed"} - {EventKind.RUN_CANCELLED, EventKind.PLUGIN_FAILED}


def test_a_plugin_that_raises_pauses_the_run_and_a_listener_does_not(awf: Awf, tmp_path: Path) -> None:
    """A hook that a stage depends on pauses the run; a listener that raises is reported once."""
    package = tmp_path / "site"
    (package / "bad_plugin-1.dist-info").mkdir(parents=True)
    (package / "bad_plugin-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: bad-plugin\nVersion: 1\n")
    (package / "bad_plugin-1.dist-info/entry_points.txt").write_text("[awf.plugins]\nbad = bad_plugin\n")
    (package / "bad_plugin.py").write_text(
        "from pipeline.plugins import hookimpl\n\n"
        "@hookimpl\ndef conclude(visits):\n    raise RuntimeError('no')\n\n"
        "@hookimpl\ndef on_event(event):\n    raise RuntimeError('neither')\n"
    )
    write(tmp_path, REVIEW_LOOP)
    done = awf("run", "w.awf.kdl", "--json", "--backend", "scripted", PYTHONPATH=str(package))
    failures = [json.loads(line) for line in done.stdout.splitlines() if '"plugin_failed"' in line]
    assert [(event["plugin"], event["hook"]) for event in failures] == [("bad", "on_event")]
    ended = result(done)
    assert (done.returncode, ended["status"], ended["path"]) == (3, "paused", [])
    assert all(part in ended["reason"] for part in ('"bad"', "conclude", "RuntimeError: no"))


def test_a_plugin_with_a_wrong_hook_is_named(tmp_path: Path) -> None:
    """Registration errors name the plugin, the hook and the argument."""
    code = (
        "import types\nfrom pipeline.plugins import hookimpl\n"
        "from pipeline.plugins.manager import PluginManager\n"
        "plugin = types.SimpleNamespace()\n"
        "@hookimpl\ndef {name}({argument}): ...\n"
        "plugin.{name} = {name}\nPluginManager(lambda: 0.0).register(plugin, 'mine')\n"
    )
    for name, argument, words in (("conclud", "visits", "conclud"), ("conclude", "vsits", "vsits")):
        done = subprocess.run(
            [sys.executable, "-c", code.format(name=name, argument=argument)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "mine" in done.stderr
        assert words in done.stderr


def test_the_workflow_of_a_run_can_be_drawn(awf: Awf, tmp_path: Path) -> None:
    """`awf show RUN` draws the recorded workflow, even if the file is gone."""
    path = write(tmp_path, 'stage "a" kind="tool" command="true"\ntransition from="a" to="end"\n')
    run(awf, folder=str(tmp_path))
    drawn = awf("show", "w.awf.kdl").stdout
    path.unlink()
    assert awf("show", "r").stdout == drawn


def test_the_most_specific_summary_budget_counts(awf: Awf, tmp_path: Path) -> None:
    """A budget on the command line overrides that of the stage, which overrides that of the workflow."""
    write(tmp_path, REVIEW_LOOP.replace('stage "fix" kind="llm"', 'stage "fix" kind="llm" summary_budget=3000'))
    script = {"rev1": ["x" * 20_000 + "\n[STATUS: fail]", "[STATUS: success]"]}
    own = len("Fix all outstanding issues listed in the review findings below.") + 10
    run(awf, script=script, folder=str(tmp_path))
    assert 1500 < len(awf("prompt", "r", "fix").stdout) <= 3000 + own
    assert len(awf("prompt", "r", "rev2", "--visit", "1").stdout) > 5000
    awf("run", "w.awf.kdl", "--run-id", "s", "--script", "script.json", "--summary-budget", "1200")
    assert len(awf("prompt", "s", "fix").stdout) <= 1200 + own


def test_a_merge_over_uncommitted_changes_pauses_and_merges_once_they_are_gone(awf: Awf, tmp_path: Path) -> None:
    """Uncommitted changes are an error, not a conflict: the run pauses and merges nothing."""
    repository = tmp_path / "repository"
    repository.mkdir()

    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
        done = subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout

    git("init", "-q", "-b", "main")
    (repository / "a.txt").write_text("one\n")
    body = """
stage "a" kind="workspace.create"
stage "b" kind="tool" command="echo two > a.txt"
stage "merge" kind="workspace.merge"
stage "lost" kind="tool" command="true"
transition from="a" to="b"
transition from="b" to="merge"
transition from="merge" to="end" on="success"
transition from="merge" to="lost" on="fail"
transition from="lost" to="end"
"""
    write(repository, body)
    git("add", "-A")
    git("commit", "-qm", "start")
    (repository / "a.txt").write_text("not committed\n")
    stopped = awf("run", "w.awf.kdl", "--run-id", "r", "--json", cwd=repository)
    assert (stopped.returncode, result(stopped)["path"]) == (3, ["a", "b"])
    assert git("log", "--oneline").count("\n") == 1
    git("checkout", "-q", "a.txt")
    resumed = awf("resume", "r", "--json", cwd=repository)
    assert (resumed.returncode, result(resumed)["path"]) == (0, ["a", "b", "merge", "end"])
    assert (repository / "a.txt").read_text() == "two\n"


@pytest.mark.parametrize(
    "reply", ["I could not look.\n[STATUS: retry]", {"status": "skipped"}, {"status": "cancelled"}, {"status": "retry"}]
)
def test_a_review_that_did_not_look_is_an_error(awf: Awf, tmp_path: Path, reply: Any) -> None:
    """A review that was skipped or asks for a retry never counts as a pass."""
    write(tmp_path, REVIEW_LOOP)
    ended = run(awf, script={"rev1": [reply]}, folder=str(tmp_path))
    assert (ended["code"], ended["path"]) == (3, ["a"])


def test_a_failed_goal_gate_that_is_a_branch_runs_again_with_its_parallel_stage(awf: Awf, tmp_path: Path) -> None:
    """A branch that is an unsatisfied gate is run again by its parallel stage."""
    body = """
stage "p" kind="parallel" { branch "a"; branch "b" }
stage "a" kind="tool" command="test -e there" goal_gate=true
stage "b" kind="tool" command="true"
transition from="p" to="end" on="always"
"""
    write(tmp_path, body, start="p")
    assert run(awf, folder=str(tmp_path))["code"] == 1
    (tmp_path / "there").touch()
    done = awf("resume", "r", "--json")
    assert (done.returncode, result(done)["path"][-4:]) == (0, ["a", "b", "p", "end"])


def test_external_effects_are_not_repeated_after_a_dead_end(awf: Awf, tmp_path: Path) -> None:
    """A stage with external effects that succeeded and had no transition to take runs again only with --repeat."""
    body = 'stage "a" kind="tool" command="echo x >> sent" effects="external"\nstage "b" kind="tool" command="true"\n'
    write(tmp_path, body + 'transition from="a" to="b" when="visits(\\"a\\") > 5"\ntransition from="b" to="end"\n')
    assert run(awf, folder=str(tmp_path))["code"] == 1
    paused = awf("resume", "r", "--json")
    assert (paused.returncode, (tmp_path / "sent").read_text()) == (3, "x\n")


def test_git_that_refuses_a_checkpoint_pauses_the_run_and_the_run_recovers(awf: Awf, tmp_path: Path) -> None:
    """A broken index of the worktree is an error; a resume restores the worktree and runs the stage again."""
    repository = tmp_path / "repository"
    repository.mkdir()
    for words in (["init", "-q", "-b", "main"], ["commit", "-qm", "start", "--allow-empty"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
        subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)
    command = (
        "echo two > b.txt; test -e ../../../once || { touch ../../../once; echo x > $(git rev-parse --git-dir)/index; }"
    )
    body = f"""
stage "a" kind="workspace.create"
stage "b" kind="tool" command="{command}"
transition from="a" to="b"
transition from="b" to="end"
"""
    write(repository, body)
    stopped = awf("run", "w.awf.kdl", "--run-id", "r", "--json", cwd=repository)
    assert (stopped.returncode, result(stopped)["path"]) == (3, ["a"])
    resumed = awf("resume", "r", "--json", cwd=repository)
    assert (resumed.returncode, result(resumed)["path"]) == (0, ["a", "b", "end"])


def test_a_merge_that_git_refuses_leaves_the_checkout_and_its_locks_alone(awf: Awf, tmp_path: Path) -> None:
    """A merge into a locked checkout leaves the lock and uncommitted files alone."""
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "f").write_text("one\n")
    body = """
stage "a" kind="workspace.create"
stage "b" kind="tool" command="echo two > f"
stage "merge" kind="workspace.merge"
transition from="a" to="b"
transition from="b" to="merge"
transition from="merge" to="end"
"""
    write(repository, body)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t.invalid"]
        subprocess.run(["git", *identity, *words], cwd=repository, check=True, capture_output=True)
    (repository / "f").write_text("mine, not committed\n")
    lock = repository / ".git/index.lock"
    lock.touch()
    assert awf("run", "w.awf.kdl", "--run-id", "r", cwd=repository).returncode == 3
    assert (lock.exists(), (repository / "f").read_text()) == (True, "mine, not committed\n")
