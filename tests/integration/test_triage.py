"""The triage stage of a run: a person decides on findings, and the next stage is given exactly what was chosen."""

import json
import os
import re
import signal
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.conftest import COMMAND, Awf
from tests.integration.screen import QUESTION, run_on_screen, shown

from pipeline.findings.ledger import LedgerStore
from pipeline.findings.model import Finding
from pipeline.journal.sqlite import SqliteJournal

WORKFLOW = """workflow "W" {
  version 2
  start "rev"
  settings { max_visits 4; }
  stage "rev" kind="llm" auto_status=true prompt="Review it"
  stage "triage" kind="triage" { apply to="fix"; done to="exit" }
  stage "fix" kind="llm" prompt="Fix the findings"
  stage "exit" kind="exit"
  transition from="rev" to="triage"
  transition from="fix" to="exit"
}
"""
TITLES = ("Path traversal in loadUserFromCache", "Answers are kept forever", "Errors pass for data")


def item(title: str, line: int, **changes: Any) -> dict[str, Any]:
    """One finding as a reviewer returns it."""
    return {
        "title": title,
        "severity": "P1",
        "file": "cache.py",
        "line": line,
        "why_it_matters": f"{title}, and people notice.",
        "autofix_class": "gated_auto",
        "owner": "downstream-resolver",
        "requires_verification": False,
        "suggested_fix": "Check it first.",
        "confidence": 100,
        "evidence": [f"cache.py:{line} -- line {line} of the cache"],
        "pre_existing": False,
        **changes,
    }


def found(*items: dict[str, Any]) -> str:
    """A whole return."""
    return json.dumps(
        {
            "reviewer": "rev",
            "findings": list(items),
            "reviewed": ["a.py: read"],
            "residual_risks": [],
            "testing_gaps": [],
        }
    )


THREE = found(item(TITLES[0], 2), item(TITLES[1], 4), item(TITLES[2], 6))


class Project:
    """A directory with code, a workflow with a triage, and agents that follow a script."""

    def __init__(self, awf: Awf, folder: Path) -> None:
        self._awf = awf
        self.folder = folder
        (folder / "cache.py").write_text("".join(f"line {number} of the cache\n" for number in range(1, 10)))
        (folder / "w.awf.kdl").write_text(WORKFLOW)
        self.script()

    def script(self, *reviews: str, fix: str = "[FINDING 1: fixed]") -> None:
        """What the agents say: each visit of the review its own, the last one clean."""
        said = [*(reviews or (THREE,)), found()]
        (self.folder / "script.json").write_text(json.dumps({"rev": said, "fix": [fix] * 4}))

    def run(self, *more: str, answers: Any = None) -> subprocess.CompletedProcess[str]:
        given = ["--script", "script.json", "--run-id", "r", "--json", *more]
        return self.awf("run", "w.awf.kdl", *given, *self.answers(answers))

    def resume(self, *more: str, answers: Any = None) -> subprocess.CompletedProcess[str]:
        return self.awf("resume", "r", "--json", *more, *self.answers(answers))

    def answers(self, answers: Any) -> list[str]:
        if answers is None:
            return []
        (self.folder / "answers.json").write_text(json.dumps({"triage": answers}))
        return ["--answers", "answers.json"]

    def awf(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._awf(*arguments, cwd=self.folder)

    def path(self) -> list[str]:
        told = json.loads(self.awf("why", "r", "--json").stdout)
        return [part["stage"] for part in told if "stage" in part and part["ended"]]

    def why(self, stage: str) -> dict[str, Any]:
        told: list[dict[str, Any]] = json.loads(self.awf("why", "r", stage, "--json").stdout)
        return told[0]

    def prompt(self) -> str:
        """What the fixer was given at its first visit."""
        return self.awf("prompt", "r", "fix", "--visit", "1").stdout

    def findings(self) -> list[Finding]:
        with closing(SqliteJournal(self.folder / ".awf")) as journal:
            return list(LedgerStore(journal).ledger().findings.values())

    def decided(self) -> dict[int, list[str]]:
        return {one.number: [made.word for made in one.decisions] for one in self.findings() if one.decisions}


def listed(prompt: str) -> list[int]:
    """The numbers of the findings that a prompt lists."""
    return [int(number) for number in re.findall(r"^- #(\d+) \(", prompt, re.MULTILINE)]


@pytest.fixture
def project(awf: Awf, tmp_path: Path) -> Project:
    return Project(awf, tmp_path)


def test_the_next_stage_gets_what_was_chosen(project: Project) -> None:
    """All accepted findings are in its prompt; the others are one line; nothing is left in the context afterwards."""
    done = project.run(answers=[["apply", "skip", "defer"]])
    assert done.returncode == 0, done.stdout
    assert project.path() == ["rev", "triage", "fix", "exit"]
    prompt = project.prompt()
    assert listed(prompt) == [1]
    assert ": #1.\n" in prompt
    assert ": #2 and #3.\n" in prompt
    assert [title in prompt for title in TITLES] == [True, False, False]
    assert project.decided() == {1: ["apply"], 2: ["skip"], 3: ["defer"]}
    assert len(list((project.folder / ".awf/tickets").glob("*.md"))) == 1
    assert project.awf("context", "r", "review.chosen").returncode != 0


def test_the_report_is_recorded(project: Project) -> None:
    """The outcome says who decided; the completion report is its response, for `awf logs` and `awf why`."""
    project.run(answers=[["apply", "skip", "skip"]])
    told = project.why("triage")
    assert (told["status"], told["source"], told["option"]) == ("success", "human", "apply")
    assert told["reason"] == "2 skipped; 1 accepted, not applied yet"
    assert told["chosen"]["target"] == "fix"
    logs = project.awf("logs", "r", "triage", "--visit", "1")
    assert "**Accepted, not applied yet (1)**" in logs.stdout, logs.stderr


def test_the_report_is_repeated_after_the_fix(project: Project) -> None:
    """The result and the report of the run say what became of the fixes, with the verdict on what remains."""
    done = project.run(answers=[["apply", "apply", "skip"]])
    triage = json.loads(done.stdout.splitlines()[-1])["triage"]
    assert (triage["counts"]["applied"], triage["counts"]["accepted"], triage["counts"]["skipped"]) == (1, 1, 1)
    assert triage["verdict"]
    assert project.awf("report", "r").returncode == 0
    text = (project.folder / ".awf" / "reports" / "r.md").read_text()
    section = text[text.index("## Completion report") :]
    assert "applied" in section
    assert "Verdict: " in section
    assert "Completion report" in (project.folder / ".awf" / "reports" / "r.html").read_text()


LOOP = WORKFLOW.replace('from="fix" to="exit"', 'from="fix" to="rev"').replace(
    'kind="triage" {', 'kind="triage" advisory=true tracker="folder" {'
)


def test_what_was_skipped_is_not_asked_about_again_in_the_run(project: Project) -> None:
    """At the second visit only the accepted finding, which is still open, is asked about."""
    (project.folder / "w.awf.kdl").write_text(LOOP)
    project.script(THREE, THREE, fix="[FINDING 1: not fixed, because of reasons]")
    done = project.run(answers=[["apply", "defer", "skip"], ["skip"]])
    assert done.returncode == 0, done.stdout + done.stderr
    assert project.decided() == {1: ["apply", "skip"], 2: ["defer"], 3: ["skip"]}


def test_a_triage_stage_takes_advice_and_a_tracker(project: Project) -> None:
    """Findings with nothing to fix are asked about, and the named tracker gets the tickets; it has to work."""
    (project.folder / "w.awf.kdl").write_text(LOOP.replace('to="rev"', 'to="exit"'))
    project.script(found(item(TITLES[0], 2), item("Short names", 4, autofix_class="advisory", suggested_fix=None)))
    assert project.run(answers=[["defer", "acknowledge"]]).returncode == 0
    assert project.decided() == {1: ["defer"], 2: ["acknowledge"]}


def test_a_named_tracker_that_cannot_be_used_pauses_the_run(project: Project) -> None:
    """Before the first question: nothing is decided."""
    (project.folder / "w.awf.kdl").write_text(LOOP.replace("folder", "github"))
    assert project.run(answers=[["skip", "skip", "skip"]]).returncode == 3
    assert project.decided() == {}


def test_a_triage_stage_asks_for_a_route(project: Project) -> None:
    """With route="ask" the first question is what to do with all of them."""
    (project.folder / "w.awf.kdl").write_text(WORKFLOW.replace('kind="triage" {', 'kind="triage" route="ask" {'))
    assert project.run(answers=[["all", "proceed"]]).returncode == 0
    assert project.decided() == {1: ["apply"], 2: ["apply"], 3: ["apply"]}


def test_a_triage_stage_validates_before_all_are_applied(project: Project) -> None:
    """A read-only agent of the run looks at each finding: one it refuses is not fixed, one it ignores is noted."""
    stage = 'stage "triage" kind="triage" route="all" validation=true'
    (project.folder / "w.awf.kdl").write_text(WORKFLOW.replace('stage "triage" kind="triage"', stage))
    refuses = {"status": "success", "response": '{"validated": false, "reason": "handled by the caller"}'}
    fails = {"error": "server", "message": "overloaded"}
    said = {"rev": [THREE, found()], "fix": ["[FINDING 1: fixed]"], "validate": ['{"validated": true}', refuses, fails]}
    (project.folder / "script.json").write_text(json.dumps(said))
    assert project.run(answers=[["proceed"]]).returncode == 0
    assert project.decided() == {1: ["apply"], 3: ["apply"]}
    assert [title in project.prompt() for title in TITLES] == [True, False, True]
    assert "handled by the caller" in project.awf("logs", "r", "triage").stdout
    assert any("overloaded" in note for note in project.why("triage")["notes"])


def test_what_the_validator_of_a_triage_uses_counts_for_the_budget(project: Project) -> None:
    """Its cost is the stage's, and reaching the budget pauses the run."""
    text = WORKFLOW.replace('kind="triage"', 'kind="triage" route="must" validation=true')
    (project.folder / "w.awf.kdl").write_text(text.replace("max_visits 4;", "max_visits 4; max_cost_usd 1;"))
    looked = {"status": "success", "response": '{"validated": true}', "usage": {"cost_usd": 0.5}}
    said = {"rev": [THREE, found()], "fix": ["[FINDING 1: fixed]"], "validate": [looked]}
    (project.folder / "script.json").write_text(json.dumps(said))
    assert project.run().returncode == 3
    assert json.loads(project.awf("status", "r", "--json").stdout)["cost_usd"] == 1.5
    assert project.path() == ["rev", "triage"]


def test_a_validator_that_writes_changes_nothing_here(project: Project) -> None:
    """What it wrote is in its own checkout; what it said counts."""
    folder = project.folder
    (folder / "w.awf.kdl").write_text(WORKFLOW.replace('kind="triage"', 'kind="triage" route="must" validation=true'))
    (folder / "review.json").write_text(found(item(TITLES[0], 2)))
    (folder / "agent").write_text(
        "#!/bin/sh\ncase $AWF_STAGE in\n  rev) cat review.json ;;\n"
        '  triage) echo x >written.txt; echo \'{"validated": false, "reason": "no"}\' ;;\n'
        "  *) echo '[FINDING 1: fixed]' ;;\nesac\n"
    )
    (folder / "agent").chmod(0o755)
    (folder / ".gitignore").write_text(".awf/\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "1"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    agent = ("--backend", "command", "--agent-command", str(folder / "agent"))
    assert project.awf("run", "w.awf.kdl", "--run-id", "r", *agent).returncode == 0
    assert not (folder / "written.txt").exists()
    assert project.decided() == {}


def test_a_triage_that_validates_needs_an_agent(project: Project) -> None:
    """It is looked for before the run starts."""
    text = WORKFLOW.replace('kind="triage"', 'kind="triage" validation=true').replace(
        'kind="llm"', 'kind="llm" backend="scripted"'
    )
    (project.folder / "w.awf.kdl").write_text(text)
    done = project.awf("run", "w.awf.kdl", "--script", "script.json", "--backend", "nobody")
    assert (done.returncode, '"triage"' in done.stderr) == (2, True)


def test_nothing_accepted_leads_to_done(project: Project) -> None:
    """The fix stage is not run."""
    assert project.run(answers=[["skip", "skip", "skip"]]).returncode == 0
    assert project.path() == ["rev", "triage", "exit"]
    assert project.why("triage")["option"] == "done"
    assert project.decided() == {1: ["skip"], 2: ["skip"], 3: ["skip"]}


def test_nothing_found_asks_nobody(project: Project) -> None:
    """The run continues without a question."""
    project.script(found())
    assert project.run().returncode == 0
    told = project.why("triage")
    assert (told["option"], told["source"]) == ("done", "default")


def test_without_anyone_to_ask_the_run_waits(project: Project) -> None:
    """It exits with code 3, records no decision, and asks again when it is resumed."""
    assert project.run().returncode == 3
    assert project.decided() == {}
    assert json.loads(project.awf("status", "r", "--json").stdout)["status"] == "waiting"
    assert project.resume().returncode == 3
    done = project.resume(answers=[["skip", "apply", "skip"]])
    assert done.returncode == 0, done.stdout
    assert project.path() == ["rev", "triage", "fix", "exit"]
    assert listed(project.prompt()) == [2]


def test_answers_that_end_too_early_decide_nothing(project: Project) -> None:
    """The run waits for the rest."""
    assert project.run(answers=[["apply"]]).returncode == 3
    assert project.decided() == {}
    assert project.path() == ["rev"]


def test_a_wrong_answer_pauses_the_run(project: Project) -> None:
    """No decision is recorded."""
    assert project.run(answers=[["apply", "dance"]]).returncode == 3
    assert '"dance"' in project.why("triage")["reason"]
    assert project.decided() == {}


def test_answers_that_are_left_over_are_noted(project: Project) -> None:
    """There were more answers than questions."""
    project.run(answers=[["skip", "skip", "skip", "skip"]])
    [note] = project.why("triage")["notes"]
    assert note.startswith("1 answer")


def test_each_visit_has_its_own_answers(project: Project) -> None:
    """Findings that are still open after a round are asked about again."""
    (project.folder / "w.awf.kdl").write_text(WORKFLOW.replace('from="fix" to="exit"', 'from="fix" to="rev"'))
    done = project.run(answers=[["apply", "skip", "skip"], ["skip", "skip"]])
    assert done.returncode == 0, done.stdout
    assert project.path() == ["rev", "triage", "fix", "rev", "triage", "exit"]


def test_auto_approve_accepts_what_is_recommended(project: Project) -> None:
    """The outcome and the ledger say that nobody was asked."""
    project.script(found(item(TITLES[0], 2), item(TITLES[1], 4, suggested_fix=None, autofix_class="manual")))
    assert project.run("--auto-approve").returncode == 0
    assert project.why("triage")["source"] == "override"
    assert project.decided()[1][0] == "apply"
    assert project.decided()[2][0] == "defer"
    assert {made.by for one in project.findings() for made in one.decisions} == {"orchestrator"}
    assert listed(project.prompt()) == [1]


def test_a_crash_after_the_triage_loses_nothing(project: Project) -> None:
    """A fix stage that another process starts is given the same findings."""
    slow = {"rev": [THREE, found()], "fix": {"delay": "1h", "reply": "late"}}
    (project.folder / "slow.json").write_text(json.dumps(slow))
    argv = [COMMAND, "run", "w.awf.kdl", "--script", "slow.json", "--run-id", "r", "--json"]
    argv += project.answers([["apply", "skip", "skip"]])
    with subprocess.Popen(argv, cwd=project.folder, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        started = (json.loads(line) for line in run.stdout)
        next(event for event in started if event["event"] == "stage_started" and event["stage"] == "fix")
        run.kill()
    assert project.resume("--script", "script.json").returncode == 0
    assert listed(project.prompt()) == [1]
    assert project.decided() == {1: ["apply"], 2: ["skip"], 3: ["skip"]}


def test_a_person_at_the_terminal(project: Project) -> None:
    """The same walk as `awf findings walk`, in the middle of a run."""
    argv = [COMMAND, "run", "w.awf.kdl", "--script", "script.json", "--run-id", "r"]
    screen = shown(run_on_screen(argv, project.folder, typed=["a", "x", "s", "s"], columns=100, lines=60))
    assert "  cache.py:2" in screen
    assert project.decided() == {1: ["apply"], 2: ["skip"], 3: ["skip"]}
    assert project.why("triage")["source"] == "human"


def test_q_leaves_the_triage_for_later(project: Project) -> None:
    """The run waits with nothing decided, and asks again when it is resumed; `awf answer` says where to decide."""
    argv = [COMMAND, "run", "w.awf.kdl", "--script", "script.json", "--run-id", "r"]
    screen = shown(run_on_screen(argv, project.folder, typed=["", "v", "q"], columns=100, lines=60))
    assert any(line.startswith("Stopped: ") for line in screen)
    assert project.decided() == {}
    answered = project.awf("answer", "r", "apply")
    assert answered.returncode == 2
    assert "awf resume r" in answered.stderr
    again = shown(run_on_screen([COMMAND, "resume", "r"], project.folder, typed=["", "", ""], columns=100, lines=60))
    assert any("Completion report" in line for line in again)
    assert project.decided() == {1: ["apply"], 2: ["apply"], 3: ["apply"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interruption_discards_everything_but_tickets(project: Project, number: signal.Signals) -> None:
    """Ctrl-C at a question cancels the run; nothing is recorded, and a resumed run asks from the beginning.

    Killed there, it is the same, but that nobody could say so.
    """
    ours, theirs = os.openpty()
    argv = [COMMAND, "run", "w.awf.kdl", "--script", "script.json", "--run-id", "r"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(project.folder), "TERM": "dumb", "LANG": "C.UTF-8"}
    with subprocess.Popen(argv, cwd=project.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        for typed in (b"d\n", b"p\n"):
            _until_asked(ours)
            os.write(ours, typed)
        _until_asked(ours)
        run.send_signal(number)
        told = _rest(ours)
        assert run.wait(60) == (130 if number is signal.SIGINT else -9)
    os.close(ours)
    if number is signal.SIGINT:
        assert b".awf/tickets/fnd_" in told
    assert len(list((project.folder / ".awf/tickets").glob("*.md"))) == 1
    assert project.decided() == {}
    assert project.resume(answers=[["skip", "skip", "skip"]]).returncode == 0
    assert project.decided() == {1: ["skip"], 2: ["skip"], 3: ["skip"]}


def _until_asked(descriptor: int) -> None:
    """Read up to the next question."""
    gathered = b""
    while not gathered.endswith(QUESTION):
        gathered += os.read(descriptor, 65536)


def _rest(descriptor: int) -> bytes:
    """All that is still written, until nobody is left on the other end."""
    gathered = b""
    try:
        while more := os.read(descriptor, 65536):
            gathered += more
    except OSError:  # how a terminal says that the other end is closed
        pass
    return gathered


def test_a_failure_in_prose_is_decided_on_like_any_finding(project: Project) -> None:
    """A person is asked about it; accepted, it leads to the fix, which is given its text."""
    body = """workflow "W" {
version 2
start "rev"
settings { max_visits 2; }
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "sort" kind="triage" { apply to="fix"; done to="exit"; }
stage "fix" kind="llm" prompt="Fix it"
stage "exit" kind="exit"
transition from="rev" to="sort"
transition from="fix" to="rev"
}
"""
    (project.folder / "words.awf.kdl").write_text(body)
    (project.folder / "words.json").write_text(json.dumps({"rev": "Bad.\n[STATUS: fail]\n[FAILURE_REASON: no tests]"}))
    done = project.awf("run", "words.awf.kdl", "--script", "words.json", "--run-id", "w", "--json")
    ended = json.loads(done.stdout.splitlines()[-1])
    assert (ended["status"], ended["path"]) == ("waiting", ["rev"])
    (project.folder / "words-answers.json").write_text(json.dumps({"sort": ["apply"]}))
    done = project.awf("resume", "w", "--answers", "words-answers.json", "--json")
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended["path"][:3] == ["rev", "sort", "fix"]
