"""`awf findings revalidate` on a real repository: what code sees, what a reviewer says, and what is recorded."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import pytest
from tests.unit.findings.builders import Files, draft, known

from pipeline.app.findings.agent import FindingsAgent
from pipeline.app.findings.revalidation import STAGE, ask_reviewer, search_code
from pipeline.app.read_only import ReadOnlyGuard
from pipeline.app.wiring import Runtime
from pipeline.cli.findings import import_ as importing
from pipeline.cli.findings import lists as listing
from pipeline.cli.findings import show as showing
from pipeline.cli.findings import triage as triaging
from pipeline.cli.findings.revalidate import HINT, command
from pipeline.cli.main import exit_code
from pipeline.engine.ports import AgentEvent, AgentRequest, AgentResult, AgentStatus, Emit
from pipeline.findings.git import TreeSnapshots
from pipeline.findings.revalidate import CodeCheck, LineCondition
from pipeline.language.model import UNCHOSEN, Access

CODE = "def rotate(store, old):\n    token = make_token(old.user)\n    store.save(token)\n    return token\n"
FIXED = CODE.replace("    store.save(token)\n", "    store.swap(old, token)\n")
REVIEW: dict[str, Any] = {
    "reviewer": "security",
    "residual_risks": [],
    "testing_gaps": [],
    "findings": [
        {
            "title": "Old token stays valid",
            "severity": "P1",
            "file": "session.py",
            "line": 3,
            "why_it_matters": "A stolen token works for ever.",
            "autofix_class": "manual",
            "owner": "human",
            "requires_verification": True,
            "confidence": 100,
            "evidence": ["store.save(token)"],
            "pre_existing": False,
            "suggested_fix": "Revoke the old one.",
        }
    ],
}


@dataclass
class Here:
    """A repository with one finding in its ledger."""

    root: Path
    capsys: pytest.CaptureFixture[str]

    def run(self, what: click.Command, *arguments: str) -> tuple[int, str, str]:
        """Run a command as the command line does: its exit code, output and complaints."""
        code = exit_code(lambda: what.main(list(arguments), prog_name="awf", standalone_mode=False))
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def json(self, what: click.Command, *arguments: str) -> Any:
        """What a command that succeeds tells a program."""
        code, out, err = self.run(what, *arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    def look(self, *arguments: str) -> dict[str, Any]:
        """What a look at the only finding came to."""
        (one,) = self.json(command, *arguments)
        assert isinstance(one, dict)
        return one

    def script(self, *replies: object) -> Sequence[str]:
        """Options for a reviewer that answers so."""
        (self.root / "script.json").write_text(json.dumps({"revalidate": list(replies)}))
        return ("--script", "script.json")

    def claim(self) -> None:
        """Say in the verdict file that the finding is fixed, as an agent does."""
        path = self.root / ".code-review" / "review-latest.json"
        document = json.loads(path.read_text())
        document["findings"][0]["status"] = "fixed"
        path.write_text(json.dumps(document))

    def finding(self) -> dict[str, Any]:
        """The finding as the ledger has it."""
        (row,) = self.json(listing.list_command, "--state", "all")
        whole: dict[str, Any] = self.json(showing.show_command, row["id"])
        return whole

    def verdict(self) -> dict[str, Any]:
        """The finding in the verdict file."""
        (one,) = json.loads((self.root / ".code-review" / "review-latest.json").read_text())["findings"]
        assert isinstance(one, dict)
        return one


def git(root: Path, *arguments: str) -> None:
    """Run git there."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    """A repository in which a review found one defect."""
    root = tmp_path / "repository"
    root.mkdir()
    (tmp_path / "home").mkdir()
    (root / "session.py").write_text(CODE)
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "commit", "--quiet", "-m", "first")
    (root / ".wystack").mkdir()
    (root / "review.json").write_text(json.dumps(REVIEW))
    for name in [name for name in os.environ if name not in ("PATH", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(root)
    made = Here(root, capsys)
    made.json(importing.command, "review.json")
    return made


def test_a_claimed_fix_that_changed_nothing_is_reopened(here: Here) -> None:
    """Unchanged lines refute a claim without any reviewer; the files say so too."""
    here.claim()
    told = here.look()
    assert told == {
        "id": told["id"],
        "number": 1,
        "before": "fix_claimed",
        "after": "reopened",
        "mechanical": "unchanged",
        "judged": None,
        "reason": told["reason"],
    }
    finding = here.finding()
    assert finding["state"] == "reopened"
    assert [attempt["outcome"] for attempt in finding["attempts"]] == ["not_fixed"]
    assert here.verdict()["status"] == "reopened"
    record = json.loads((here.root / ".wystack" / "findings" / f"{told['id']}.json").read_text())
    assert (record["status"], record["triage_history"][-1]["by"]) == ("open", "revalidate")


def test_without_a_reviewer_nothing_is_verified(here: Here) -> None:
    """Changed code is not yet a fix; a person may confirm it."""
    here.claim()
    (here.root / "session.py").write_text(FIXED)
    told = here.look("--command", "true")
    assert (told["after"], told["mechanical"], told["judged"]) == ("fix_claimed", "changed", None)
    code, out, err = here.run(command)
    assert (code, err) == (0, f"{HINT}\n")
    assert out.startswith("#1 fnd_")
    here.json(triaging.command, "1", "--as", "fixed", "--by", "user", "--note", "I looked")
    assert here.finding()["state"] == "verified_fixed"


def test_a_reviewer_verifies_a_fix(here: Here) -> None:
    """A fix that a reviewer confirms is verified, in the ledger and in both files."""
    here.claim()
    (here.root / "session.py").write_text(FIXED)
    told = here.look(*here.script("It swaps them.\n[FINDING 1: fixed, because it swaps]"), "--command", "true")
    assert (told["before"], told["after"], told["judged"]) == ("fix_claimed", "verified_fixed", "fixed")
    assert "because it swaps" in told["reason"]
    last = here.finding()["history"][-1]
    assert (last["by"], last["state"]) == ("revalidate", "verified_fixed")
    assert here.verdict()["status"] == "verified"
    record = json.loads((here.root / ".wystack" / "findings" / f"{told['id']}.json").read_text())
    assert (record["status"], record["triage_history"][-1]["by"]) == ("fixed", "revalidate")


def test_a_failing_command_overrules_the_reviewer(here: Here) -> None:
    """A fix is not accepted while the command fails, and the reason has its output."""
    here.claim()
    (here.root / "session.py").write_text(FIXED)
    told = here.look(*here.script("[FINDING 1: fixed]"), "--command", "echo 'FAILED test_rotate'; exit 3")
    assert (told["after"], told["judged"]) == ("uncertain", "uncertain")
    assert "FAILED test_rotate" in told["reason"]
    assert here.verdict()["status"] in ("open", "reopened")


def test_a_command_that_is_killed_does_not_pass(here: Here) -> None:
    """Only exit code 0 is a pass."""
    told = here.look("--command", "kill -9 $$")
    assert "SIGKILL" in told["reason"]


def test_a_reviewer_who_finds_it_still_there_reopens_it(here: Here) -> None:
    """The finding is reopened, with an attempt that failed."""
    here.claim()
    (here.root / "session.py").write_text(FIXED)
    told = here.look(*here.script("[FINDING 1: not fixed, because old is still in the cache]"))
    assert (told["after"], told["judged"]) == ("reopened", "open")
    assert here.finding()["attempts"][-1]["what"].endswith("gone from session.py")


def test_a_reviewer_that_fails_changes_nothing(here: Here) -> None:
    """A crashed review is not an answer, and the exit code says so."""
    here.claim()
    (here.root / "session.py").write_text(FIXED)
    code, out, _ = here.run(command, *here.script({"error": "rate_limit", "message": "later"}), "--json")
    (told,) = json.loads(out)
    assert (code, told["after"], told["judged"]) == (1, "fix_claimed", None)
    assert "hit a rate limit: later" in told["reason"]


def test_question_and_answer_are_kept(here: Here) -> None:
    """Every question to a model is recorded with its answer."""
    (here.root / "session.py").write_text(FIXED)
    told = here.look(*here.script("[FINDING 1: fixed]"))
    (folder,) = (here.root / ".awf" / "revalidations").glob(f"*/{told['id']}")
    assert "> title: " in (folder / "question.md").read_text()
    assert (folder / "answer.md").read_text() == "[FINDING 1: fixed]"


def test_an_open_finding_with_unchanged_lines_is_asked_about_only_by_name(here: Here) -> None:
    """A reviewer costs money; a dismissed finding is not asked about at all."""
    options = here.script("[FINDING 1: wrong, because tokens expire]")
    assert here.look(*options)["judged"] is None
    told = here.look("1", *options)
    assert (told["mechanical"], told["judged"], told["after"]) == ("unchanged", "false-positive", "false_positive")
    again = here.look(told["id"], *options)
    assert (again["judged"], again["after"]) == (None, "false_positive")
    assert here.json(command, *options) == []


def test_passes_on_record_are_not_touched(here: Here) -> None:
    """Revalidation never touches `reviews/`, and the verdict file stays the same review."""
    reviews = here.root / ".wystack" / "reviews"
    before = {path.name: path.read_bytes() for path in reviews.iterdir()}
    review = json.loads((here.root / ".code-review" / "review-latest.json").read_text())["reviewId"]
    (here.root / "session.py").write_text(FIXED)
    here.look(*here.script("[FINDING 1: fixed]"))
    assert {path.name: path.read_bytes() for path in reviews.iterdir()} == before
    after = json.loads((here.root / ".code-review" / "review-latest.json").read_text())
    assert (after["reviewId"], after["verdict"]) == (review, "PASS")


def test_suggested_tests_are_looked_for_in_the_repository(here: Here) -> None:
    """Code sees whether a suggested regression test exists, also in untracked files."""
    (here.root / "test_session.py").write_text("def test_rotate(): ...\n")
    path = next((here.root / ".wystack" / "findings").glob("fnd_*.json"))
    record = json.loads(path.read_text())
    record["suggested_regression_tests"] = ["test_rotate", "test_revoke"]
    path.write_text(json.dumps(record))
    told = here.look()["reason"]
    assert "test_rotate exists" in told
    assert "test_revoke does not" in told


def test_without_git_it_is_unknown_which_tests_exist(tmp_path: Path) -> None:
    """What cannot be searched neither exists nor is missing."""
    assert search_code(["test_rotate"], tmp_path, {"PATH": os.environ["PATH"]}) is None
    assert search_code(["test_rotate"], tmp_path, {"PATH": ""}) is None
    assert search_code([], tmp_path, {"PATH": ""}) == frozenset()


@dataclass
class Recording:
    """A backend that keeps what it is asked."""

    requests: list[AgentRequest] = field(default_factory=list)
    name: str = "recording"

    def variables(self, provider: str | None) -> tuple[str, ...]:
        """The key it needs."""
        del provider
        return ("RECORDING_KEY",)

    async def run(self, request: AgentRequest, emit: Emit) -> AgentResult:
        """Answer nothing that decides, but a secret."""
        emit(AgentEvent("started"))
        self.requests.append(request)
        return AgentResult(AgentStatus.OK, "the key is s3cr3t-s3cr3t-s3cr3t")


def test_a_reviewer_looks_afresh_and_only_reads(tmp_path: Path) -> None:
    """It gets a new session, read-only access and its own key; secrets stay out of what is recorded."""
    backend = Recording()
    environ = {"PATH": "/bin", "RECORDING_KEY": "s3cr3t-s3cr3t-s3cr3t", "OTHER_TOKEN": "t0ken-t0ken-t0ken"}
    around = Runtime(tmp_path / ".awf", environ)
    guard = ReadOnlyGuard(environ, TreeSnapshots(environ, tmp_path / ".awf"))
    reviewer = FindingsAgent(STAGE, backend, tmp_path, tmp_path / "kept", around, UNCHOSEN, guard)
    finding = replace(known([draft()], Files())[0], number=4)
    ruling = asyncio.run(ask_reviewer(reviewer, finding, CodeCheck(LineCondition.CHANGED, "changed"), 7))
    (request,) = backend.requests
    assert (request.access, request.session, request.stage, request.visit) == (Access.READ_ONLY, None, STAGE, 7)
    assert request.env == {"PATH": "/bin", "RECORDING_KEY": environ["RECORDING_KEY"]}
    assert (request.cwd, request.limits.timeout is not None) == (tmp_path, True)
    assert (ruling.judged, ruling.unanswered) == ("uncertain", False)
    assert "s3cr3t" not in ruling.reason + (tmp_path / "kept" / finding.id / "answer.md").read_text()


def test_a_reviewer_that_writes_has_given_no_answer(here: Here) -> None:
    """Its ruling does not count, what it wrote is kept as a ref, and a person's own checkout is left as it is."""
    agent = here.root / "agent"
    agent.write_text("#!/bin/sh\ncat >/dev/null\necho x >written.txt\necho '[FINDING 1: fixed]'\n")
    agent.chmod(0o755)
    code, out, _ = here.run(command, "1", "--backend", "command", "--agent-command", str(agent), "--json")
    (looked,) = json.loads(out)
    assert (code, looked["after"]) == (1, "open")
    assert "written.txt" in looked["reason"]
    assert (here.root / "written.txt").exists()
    refs = subprocess.run(["git", "for-each-ref", "refs/awf/breach"], cwd=here.root, capture_output=True, check=True)
    assert refs.stdout


def test_an_unknown_finding_stops_the_command(here: Here) -> None:
    """A mistake in a name is an error before anything is run."""
    code, _, err = here.run(command, "fnd_nothing", "--command", "touch ran")
    assert code == 2
    assert '"fnd_nothing"' in err
    assert not (here.root / "ran").exists()


def test_an_unknown_backend_stops_the_command(here: Here) -> None:
    """A mistake in the reviewer's name changes nothing."""
    here.claim()
    code, _, err = here.run(command, "--backend", "cluade")
    assert code == 2
    assert '"cluade"' in err


def test_nothing_to_look_at(here: Here) -> None:
    """Without open findings the command is not even run."""
    here.json(triaging.command, "1", "--as", "wont-fix", "--note", "by design")
    code, out, _ = here.run(command, "--command", "touch ran")
    assert (code, out) == (0, "")
    assert not (here.root / "ran").exists()


def test_a_decision_made_meanwhile_is_left_alone(here: Here) -> None:
    """A person who decides while a reviewer works is not overruled."""
    (here.root / "session.py").write_text(FIXED)
    id = here.finding()["id"]
    decide = here.root / "decide.py"
    decide.write_text(
        "import sys\nfrom pipeline.cli.findings.triage import command\nsys.stdin.read()\n"
        f"command.main(['{id}', '--as', 'wont-fix', '--note', 'no'], standalone_mode=False)\n"
        "print('[FINDING 1: fixed]')\n"
    )
    told = here.look("--backend", "command", "--agent-command", f"{sys.executable} {decide}")
    assert (told["after"], told["judged"]) == ("wont_fix", None)
    assert here.finding()["state"] == "wont_fix"
