"""The commands with `--on`: the same output as for runs of this machine, and clear words where there is no cluster."""

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cluster.conftest import Server, free_port
from tests.cluster.lab import COMMAND, Lab
from tests.unit.web.findings import item, project

from pipeline.engine.state import RunStatus

WORKFLOW = """workflow "Commands" {
version 2
start "build"
settings { max_visits 4; }
stage "build" kind="tool" command="echo built"
stage "review" kind="llm" auto_status=true prompt="Review $goal"
stage "gate" kind="decision" { route when="findings() > 0" to="fix"; route when="true" to="ok"; }
stage "fix" kind="llm" prompt="Fix it"
stage "ok" kind="human" prompt="Good?" {
  option "yes" label="Yes" to="end" approves=true; option "no" label="No" to="fix"; }
stage "end" kind="exit"
transition from="build" to="review"
transition from="review" to="gate"
transition from="fix" to="review"
}
"""
SCRIPT = {"review": ["Bad.\n[STATUS: fail]\n[FAILURE_REASON: no tests]", "Fine.\n[STATUS: success]"]}


class Shell:
    """A project in which commands are given."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.folder = lab.folder / "shell"
        self.folder.mkdir()
        (self.folder / "w.awf.kdl").write_text(WORKFLOW)
        (self.folder / "s.json").write_text(json.dumps(SCRIPT))
        self.run_id = lab.id("c")
        place = dict(zip(("AWF_ON", "AWF_ARTIFACTS", "AWF_QUEUE"), lab.place[1::2], strict=True))
        self.there = {**lab.environ, **place}

    def awf(self, *words: str, there: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        env = (self.there if there else self.lab.environ) | more
        return subprocess.run(
            [COMMAND, *words], cwd=self.folder, env=env, capture_output=True, text=True, check=False, timeout=120
        )

    def start(self, *, there: bool) -> subprocess.CompletedProcess[str]:
        given = ("--script", "s.json", "--goal", "speed", "--run-id", self.run_id)
        return self.awf("run", "w.awf.kdl", *given, there=there)


@pytest.fixture
def shell(lab: Lab) -> Shell:
    """A project of its own."""
    return Shell(lab)


def calm(text: str) -> str:
    """What a command says, without what a clock said."""
    return re.sub(r"\d+(\.\d+)?(ms|s)\b|\d\d:\d\d:\d\d", "TIME", text)


def test_a_run_is_shown_as_on_one_machine(shell: Shell) -> None:
    """Started, looked at and answered: each command says of the cluster's run what it says of the local one."""
    here, there = shell.start(there=False), shell.start(there=True)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout) == (3, here.stdout)
    told = [[line for line in one.stderr.splitlines() if "started" not in line] for one in (here, there)]
    assert calm("\n".join(told[1])) == calm("\n".join(told[0]))
    run = shell.run_id
    for words in (
        ("logs", run, "build"),
        ("why", run),
        ("context", run, "review.findings"),
        ("prompt", run, "fix"),
        ("answer", run),
    ):
        local, remote = shell.awf(*words, there=False), shell.awf(*words)
        assert (remote.returncode, calm(remote.stdout)) == (0, calm(local.stdout)), words
    assert json.loads(shell.awf("status", run, "--json").stdout)["status"] == "waiting"
    assert run in shell.awf("runs").stdout
    assert shell.awf("answer", run, "yes").returncode == 0
    assert shell.lab.over("c").status is RunStatus.SUCCESS
    second = shell.awf("answer", run, "no")
    assert (second.returncode, "has already answered" in second.stderr) == (1, True)
    page = json.loads(shell.awf("report", run, "--json").stdout)["markdown"]
    assert "no tests" in (shell.folder / page).read_text()


def test_the_status_of_a_live_run_says_who_has_it(shell: Shell) -> None:
    """The workflow itself is asked: which worker had its last stage, and how long its history is; or nobody answers."""
    shell.start(there=True)
    run = shell.run_id
    told = json.loads(shell.awf("status", run, "--json").stdout)["cluster"]
    assert told["worker"].startswith("awf@")
    assert told["events"] > 10
    assert f"cluster    on {told['worker']}, " in shell.awf("status", run).stdout
    shell.lab.leave("w1")
    assert json.loads(shell.awf("status", run, "--json").stdout)["cluster"] == {"worker": None, "events": None}
    assert "no worker answers" in shell.awf("status", run).stdout
    shell.lab.worker("w1")
    assert shell.awf("answer", run, "yes").returncode == 0
    shell.lab.over("c")
    assert json.loads(shell.awf("status", run, "--json").stdout)["cluster"] is None


def test_findings_are_told_as_on_one_machine(shell: Shell) -> None:
    """The list, the verdict and an export of a cluster's run are those of the same run here."""
    project(shell.folder)
    told = {"reviewer": "rev", "findings": [item(1), item(2)], "residual_risks": [], "testing_gaps": []}
    (shell.folder / "s.json").write_text(json.dumps({"review": [json.dumps(told), "Fine.\n[STATUS: success]"]}))
    for there in (False, True):
        shell.start(there=there)
    for words in (("findings", "list"), ("verdict",), ("findings", "export", "--format", "rdjson")):
        local, remote = shell.awf(*words, there=False), shell.awf(*words)
        assert "Line 1 is wrong" in remote.stdout or words == ("verdict",)
        assert (remote.returncode, remote.stdout) == (local.returncode, local.stdout), words


def test_a_run_is_handed_over(shell: Shell) -> None:
    """With --detach nobody watches: the command says how to look, and the run goes on."""
    done = shell.awf("run", "w.awf.kdl", "--goal", "g", "--script", "s.json", "--run-id", shell.run_id, "--detach")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [f"run {shell.run_id} is with the workers", f"see: awf status {shell.run_id}"],
    )
    assert shell.lab.stopped("c").status is RunStatus.WAITING
    assert "--detach needs a cluster" in shell.awf("run", "w.awf.kdl", "--detach", there=False).stderr


def test_ctrl_c_leaves_the_run_to_the_workers(shell: Shell) -> None:
    """The command exits with 130 and says how to cancel the run, which still waits on the cluster."""
    given = ("--goal", "g", "--script", "s.json", "--run-id", shell.run_id, "--wait")
    with subprocess.Popen(
        [COMMAND, "run", "w.awf.kdl", *given], cwd=shell.folder, env=shell.there, stderr=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stderr
        assert any("asks a person" in line for line in watching.stderr)
        watching.send_signal(signal.SIGINT)
        assert f"awf cancel {shell.run_id}" in watching.stderr.read()
    assert watching.returncode == 130
    assert json.loads(shell.awf("status", shell.run_id, "--json").stdout)["status"] == "waiting"


def test_the_logs_of_an_attempt_come_from_the_store(shell: Shell) -> None:
    """Streams, the answer of an agent and JSON are as on one machine; a path is the place in the shared store."""
    shell.start(there=False)
    shell.start(there=True)
    run = shell.run_id
    for words in (("build", "--stdout"), ("build", "--stderr"), ("review", "--visit", "1"), ("gate",), ("nothing",)):
        local, remote = shell.awf("logs", run, *words, there=False), shell.awf("logs", run, *words)
        assert (remote.returncode, remote.stdout) == (local.returncode, local.stdout), words
        assert remote.stderr == local.stderr
    told = json.loads(shell.awf("logs", run, "build", "--json").stdout)
    assert [part["text"] for part in told["files"]] == ["built\n", ""]
    assert Path(told["files"][0]["path"]).read_text() == "built\n"
    assert told["files"][0]["path"].startswith(shell.lab.shared)


FOLLOWED = """workflow "Long" {
version 2
start "work"
stage "work" kind="tool" command="echo one; for i in $(seq 600); do [ -e go ] && break; sleep 0.1; done; echo two"
stage "end" kind="exit"
transition from="work" to="end"
}
"""


def test_a_log_is_followed_while_it_grows(shell: Shell) -> None:
    """What a worker's stage prints is seen while it runs, and to its end: no line twice, and none is missing."""
    shell.lab.start("f", FOLLOWED, cwd=shell.folder)
    run = shell.lab.id("f")
    with subprocess.Popen(
        [COMMAND, "logs", run, "work", "--follow"],
        cwd=shell.folder,
        env=shell.there,
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout
        assert following.stdout.readline() == "one\n"
        assert shell.awf("logs", run, "work").stdout == "one\n"
        (shell.folder / "go").touch()
        assert following.stdout.read() == "two\n"
    assert following.returncode == 0
    assert shell.lab.over("f").status is RunStatus.SUCCESS


def test_the_last_line_of_json_is_the_result(shell: Shell) -> None:
    """A program that reads the events of a run reads those of a cluster's run."""
    given = ("--goal", "g", "--script", "s.json", "--auto-approve", "--run-id", shell.run_id, "--json")
    lines = [json.loads(line) for line in shell.awf("run", "w.awf.kdl", *given).stdout.splitlines()]
    assert lines[0]["event"] == "run_started"
    assert {"stage_started", "stage_completed", "stage_failed", "findings_changed"} <= {one["event"] for one in lines}
    assert lines[-1]["status"] == "success"
    assert lines[-1]["path"] == ["build", "review", "gate", "fix", "review", "gate", "ok", "end"]


def test_a_run_is_cancelled_and_resumed(shell: Shell) -> None:
    """Cancel says who did it and why; resume goes on to the end, and a run that is over is refused."""
    shell.start(there=True)
    done = shell.awf("cancel", shell.run_id, "--reason", "not now")
    assert "cancelled (by " in done.stdout
    assert "not now" in done.stdout
    assert shell.awf("resume", shell.run_id, "--auto-approve").returncode == 0
    again = shell.awf("resume", shell.run_id)
    assert (again.returncode, "has finished" in again.stderr) == (2, True)


def test_a_cancelled_run_is_answered_and_goes_on_there(shell: Shell) -> None:
    """The cluster takes it up again by itself, and says so; `--resume` does not look for the run on this machine."""
    shell.start(there=True)
    shell.awf("cancel", shell.run_id)
    done = shell.awf("answer", shell.run_id, "yes", "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("the run continues\n")


def test_the_settings_name_the_cluster(shell: Shell, tmp_path: Path) -> None:
    """A project that the user trusts says it once; a store on the command line means this machine all the same."""
    names = ("on", "artifacts", "queue")
    (shell.folder / ".awf").mkdir()
    said = "".join(f'{name} "{value}"\n' for name, value in zip(names, shell.lab.place[1::2], strict=True))
    (shell.folder / ".awf" / "config.kdl").write_text(said)
    (tmp_path / "config/awf").mkdir(parents=True)
    (tmp_path / "config/awf/config.kdl").write_text(f'trust {{ project "{shell.folder.resolve()}"; }}\n')
    shell.lab.environ |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert shell.start(there=False).returncode == 3
    assert shell.run_id in shell.awf("runs", there=False).stdout
    assert shell.run_id not in shell.awf("runs", "--store", "elsewhere", there=False).stdout


def test_a_worker_has_a_directory_and_the_usual_cluster(shell: Shell) -> None:
    """Its --store is where it works, and names no place of runs instead of the cluster."""
    with subprocess.Popen(
        [COMMAND, "worker", "--store", "mine"], cwd=shell.folder, env=shell.there, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr
        assert worker.stderr.readline().startswith(
            f"working for {shell.lab.server.url}, queue {shell.lab.queue}, as awf@"
        )
        worker.terminate()
        worker.communicate()


def test_what_is_missing_is_said(shell: Shell, server: Server, tmp_path: Path) -> None:
    """No store, no server, no namespace, no address, no extra: each has its own words and something to do about it."""
    nobody = f"temporal://127.0.0.1:{free_port()}/default"
    for words, code in (
        (("--on", server.url, "--artifacts", ""), 2),
        (("--on", nobody), 1),
        (("--on", server.url.replace("default", "nowhere")), 2),
        (("--on", "https://example.invalid"), 2),
    ):
        done = shell.awf("runs", *words)
        assert (done.returncode, "help:" in done.stderr) == (code, True), words
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "temporalio.py").write_text('raise ModuleNotFoundError("gone", name="temporalio")\n')
    without = shell.awf("runs", PYTHONPATH=str(shadow))
    assert (without.returncode, "pip install 'awf-pipeline[cluster]'" in without.stderr) == (2, True)
    assert "needs a cluster" in shell.awf("worker", there=False).stderr
