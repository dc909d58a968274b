"""The commands with `--on`: the same output as for local runs, and a clear error when there is no cluster."""

import json
import re
import signal
import subprocess
import sys
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
    """A project in which commands are run, on this machine or on the cluster."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.folder = lab.folder / "shell"
        self.folder.mkdir()
        (self.folder / "w.awf.kdl").write_text(WORKFLOW)
        (self.folder / "s.json").write_text(json.dumps(SCRIPT))
        self.run_id = lab.id("c")
        place = dict(zip(("AWF_ON", "AWF_ARTIFACTS", "AWF_QUEUE"), lab.options[1::2], strict=True))
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
    """The output of a command without times."""
    return re.sub(r"\d+(\.\d+)?(ms|s)\b|\d\d:\d\d:\d\d", "TIME", text)


def test_a_run_is_shown_as_on_one_machine(shell: Shell) -> None:
    """Each command prints for the cluster run what it prints for the same local run."""
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
    assert shell.lab.ended("c").status is RunStatus.SUCCESS
    second = shell.awf("answer", run, "no")
    assert second.returncode == 1
    page = json.loads(shell.awf("report", run, "--json").stdout)["markdown"]
    assert "no tests" in (shell.folder / page).read_text()


def test_the_status_of_a_run_in_progress_names_its_worker(shell: Shell) -> None:
    """Also how long its history is; without a worker that responds, both are unknown."""
    shell.start(there=True)
    run = shell.run_id
    told = json.loads(shell.awf("status", run, "--json").stdout)["cluster"]
    assert told["worker"].startswith("awf@")
    assert told["events"] > 10
    assert f"cluster    on {told['worker']}, " in shell.awf("status", run).stdout
    shell.lab.stop_worker("w1")
    assert json.loads(shell.awf("status", run, "--json").stdout)["cluster"] == {"worker": None, "events": None}
    shell.lab.worker("w1")
    assert shell.awf("answer", run, "yes").returncode == 0
    shell.lab.ended("c")
    assert json.loads(shell.awf("status", run, "--json").stdout)["cluster"] is None


def test_findings_are_shown_as_on_one_machine(shell: Shell) -> None:
    """The list, the verdict and an export are those of the same local run."""
    project(shell.folder)
    told = {"reviewer": "rev", "findings": [item(1), item(2)], "residual_risks": [], "testing_gaps": []}
    (shell.folder / "s.json").write_text(json.dumps({"review": [json.dumps(told), "Fine.\n[STATUS: success]"]}))
    for there in (False, True):
        shell.start(there=there)
    for words in (("findings", "list"), ("verdict",), ("findings", "export", "--format", "rdjson")):
        local, remote = shell.awf(*words, there=False), shell.awf(*words)
        assert item(1)["title"] in remote.stdout or words == ("verdict",)
        assert (remote.returncode, remote.stdout) == (local.returncode, local.stdout), words


def test_inputs_travel_with_the_run(shell: Shell) -> None:
    """A worker's commands, prompts and conditions have them, also after an answer."""
    (shell.folder / "w.awf.kdl").write_text(
        WORKFLOW.replace("version 2", 'version 2\ninput "ticket" required=true\ninput "rounds" default=3')
        .replace("echo built", "echo $input.ticket $input.rounds")
        .replace("findings() > 0", r"input(\"rounds\") != 5")
    )
    assert shell.start(there=True).returncode == 2
    given = ("--script", "s.json", "--goal", "speed", "--run-id", shell.run_id)
    done = shell.awf("run", "w.awf.kdl", *given, "--input", "ticket=A 1;", "--input", "rounds=5")
    assert done.returncode == 3, done.stderr
    shell.awf("answer", shell.run_id, "yes")
    shell.lab.ended(shell.run_id)
    values = json.loads(shell.awf("context", shell.run_id, "--json").stdout)
    assert (values["build.response"], values["input.rounds"]) == ("A 1; 5", 5)


def test_a_detached_run_is_not_watched(shell: Shell) -> None:
    """The command returns at once and says how to see the run, which continues."""
    done = shell.awf("run", "w.awf.kdl", "--goal", "g", "--script", "s.json", "--run-id", shell.run_id, "--detach")
    assert done.returncode == 0, done.stderr
    assert f"awf status {shell.run_id}" in done.stdout
    assert shell.lab.stopped("c").status is RunStatus.WAITING
    local = shell.awf("run", "w.awf.kdl", "--detach", there=False)
    assert (local.returncode, "--detach" in local.stderr) == (2, True)


def test_ctrl_c_leaves_the_run_to_the_workers(shell: Shell) -> None:
    """The command exits with 130 and says how to cancel the run, which continues."""
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
    """The output is that of the same local run; paths are those in the object store."""
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
    assert told["files"][0]["path"].startswith(str(shell.lab.shared))


FOLLOWED = """workflow "Long" {
version 2
start "work"
stage "work" kind="tool" command="echo one; for i in $(seq 600); do [ -e go ] && break; sleep 0.1; done; echo two"
stage "end" kind="exit"
transition from="work" to="end"
}
"""


def test_a_log_is_followed_while_it_grows(shell: Shell) -> None:
    """What a stage prints is shown while it runs, without repeated or missing lines."""
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
    assert shell.lab.ended("f").status is RunStatus.SUCCESS


def test_the_last_line_of_json_is_the_result(shell: Shell) -> None:
    """The events of a cluster run are those of a local one."""
    given = ("--goal", "g", "--script", "s.json", "--auto-approve", "--run-id", shell.run_id, "--json")
    lines = [json.loads(line) for line in shell.awf("run", "w.awf.kdl", *given).stdout.splitlines()]
    assert lines[0]["event"] == "run_started"
    assert {"stage_started", "stage_completed", "stage_failed", "findings_changed"} <= {one["event"] for one in lines}
    assert lines[-1]["status"] == "success"
    assert lines[-1]["path"] == ["build", "review", "gate", "fix", "review", "gate", "ok", "end"]


def test_a_run_is_cancelled_and_continued(shell: Shell) -> None:
    """Cancel prints who did it and why; resume or an answer continues the run; one that has ended is refused."""
    shell.start(there=True)
    done = shell.awf("cancel", shell.run_id, "--reason", "not now")
    assert "cancelled (by " in done.stdout
    assert "not now" in done.stdout
    assert shell.awf("resume", shell.run_id).returncode == 3
    shell.awf("cancel", shell.run_id)
    done = shell.awf("answer", shell.run_id, "yes", "--resume")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("the run continues\n")
    assert shell.lab.ended("c").status is RunStatus.SUCCESS
    for words, code in (("resume", 2), ("cancel", 1)):
        refused = shell.awf(words, shell.run_id)
        assert (refused.returncode, "has finished" in refused.stderr) == (code, True)


def test_the_settings_name_the_cluster(shell: Shell, tmp_path: Path) -> None:
    """Those of a trusted project do; a store on the command line still means this machine."""
    (shell.folder / ".awf").mkdir()
    (tmp_path / "config/awf").mkdir(parents=True)
    (tmp_path / "config/awf/config.kdl").write_text(f'trust {{ project "{shell.folder.resolve()}"; }}\n')
    shell.lab.environ |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    names = ("on", "artifacts", "queue")
    lines = [f'{name} "{value}"\n' for name, value in zip(names, shell.lab.options[1::2], strict=True)]
    (shell.folder / ".awf" / "config.kdl").write_text("".join(lines))
    assert shell.start(there=False).returncode == 3
    assert shell.run_id in shell.awf("runs", there=False).stdout
    assert shell.run_id not in shell.awf("runs", "--store", "elsewhere", there=False).stdout


def test_a_worker_has_a_directory_and_the_usual_cluster(shell: Shell) -> None:
    """Its --store is the directory it works in, and does not replace the cluster."""
    with subprocess.Popen(
        [COMMAND, "worker", "--store", "mine"], cwd=shell.folder, env=shell.there, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr
        assert worker.stderr.readline().startswith(
            f"working for {shell.lab.server.url}, queue {shell.lab.queue}, as awf@"
        )
        worker.terminate()
        worker.communicate()


def test_a_cluster_that_cannot_be_used_is_an_error_with_help(shell: Shell, server: Server, tmp_path: Path) -> None:
    """No object store, no server, no namespace, no valid address, no extra."""
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
    assert shell.awf("worker", there=False).returncode == 2


PROGRAM = """
import atexit, sys, threading
import temporalio.client
from pipeline.cli.main import main

atexit.register(print, "interpreter finalized")
threading.Thread(target=threading.Event().wait).start()  # like one of the library's that is still busy
sys.argv = ["awf", *sys.argv[1:]]
main()
"""


def test_threads_of_the_library_do_not_change_the_exit_code() -> None:
    """A command exits without finalizing the interpreter, and loses no output."""
    for words, code, printed in (("--version",), 0, "awf "), (("why", "--store", "nowhere"), 2, "error"):
        command = [sys.executable, "-c", PROGRAM, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, "interpreter finalized" in done.stdout) == (code, False)
        assert printed in done.stdout + done.stderr.lower()


def test_a_review_is_that_of_one_machine(shell: Shell) -> None:
    """The result, the findings and the verdict of `awf review --on` are those of a local review of the same change."""
    project(shell.folder)
    (shell.folder / ".gitignore").write_text(".awf/\nhome/\n*.json\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "all")):
        subprocess.run(["git", *identity, *words], cwd=shell.folder, check=True)
    (shell.folder / "new.py").write_text("fresh = True\n")
    told = {"reviewer": "rev", "findings": [item(1, severity="P0"), item(2)], "residual_risks": [], "testing_gaps": []}
    (shell.folder / "s.json").write_text(json.dumps({"correctness": [json.dumps(told)]}))
    given = ("review", "--script", "s.json", "--json", "--no-report")
    here, there = (shell.awf(*given, there=there) for there in (False, True))
    assert (there.returncode, here.returncode) == (1, 1), there.stderr
    results = [json.loads(one.stdout) for one in (here, there)]
    for result in results:
        assert (result["complete"], len(result["findings"])) == (True, 2)
    same = ("verdict", "summary", "filtered", "base", "target")
    assert [results[1][key] for key in same] == [results[0][key] for key in same]
    titles = [[(row["title"], row["severity"], row["line"]) for row in result["findings"]] for result in results]
    assert titles[0] == titles[1]
