"""`awf doctor`: agents that work, do not work or are missing, for people and for scripts."""

import json
import os
import pty
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.integration.conftest import COMMAND, Awf
from tests.unit.app.stubs import ANSWERED, REFUSED, SETTLED, asked, stub, was_run

KEY = "sk-planted-0123456789abcdef"
Doctor = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def doctor(awf: Awf, tmp_path: Path) -> Doctor:
    """Run `awf doctor` with nothing but git and what the test adds on its PATH."""
    git = shutil.which("git")
    assert git
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").symlink_to(git)
    return lambda *arguments, **environment: awf("doctor", *arguments, PATH=str(tmp_path / "bin"), **environment)


def shown(text: str, tmp_path: Path) -> str:
    """What was printed, with what differs from machine to machine taken out."""
    text = text.replace(str(tmp_path), "TMP")
    text = re.sub(r"^(  (?:git|python|sqlite) +)[\d.]+$", r"\1VERSION", text, flags=re.MULTILINE)
    text = re.sub(r"^(  extra \w+ +).*$", r"\1...", text, flags=re.MULTILINE)
    text = re.sub(r"^  api .*\n( {26}.*\n)*", "  api ...\n", text, flags=re.MULTILINE)
    return re.sub(r"after [\d.]+s", "after 0.0s", text)


def row(done: subprocess.CompletedProcess[str], name: str) -> dict[str, Any]:
    (found,) = [one for one in json.loads(done.stdout)["agents"] if one["name"] == name]
    return dict(found)


def test_what_is_installed_and_what_is_missing(doctor: Doctor, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """One that works, one that is too old, one that cannot run, and how to install the others; no key's value."""
    stub(tmp_path / "bin", "claude", version="2.1.325")
    stub(tmp_path / "bin", "gemini", version="0.1.0", without="--approval-mode")
    broken = tmp_path / "bin/opencode"
    broken.write_text("#!/bin/sh\necho 'node: not found' >&2\nexit 127\n")
    broken.chmod(0o755)
    done = doctor(ANTHROPIC_API_KEY=KEY, OPENAI_API_KEY=KEY)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown(done.stdout, tmp_path) == snapshot
    assert KEY not in done.stdout
    assert not (tmp_path / ".awf").exists()


def test_a_bare_machine_is_not_ready(awf: Awf, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """No agent, no git, no store: exit code 1."""
    (tmp_path / "file").touch()
    done = awf("doctor", "--store", "file/store", PATH=str(tmp_path))
    assert done.returncode == 1
    assert shown(done.stdout, tmp_path) == snapshot


def test_it_fits_a_terminal(tmp_path: Path) -> None:
    """In 80 columns; a problem is shown in full, over several lines."""
    broken = tmp_path / "pi"
    broken.write_text(f"#!/bin/sh\necho '{'many words of woe ' * 9}END' >&2\nexit 1\n")
    broken.chmod(0o755)
    parent, child = pty.openpty()
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path), "COLUMNS": "80", "NO_COLOR": "1"}
    subprocess.run([COMMAND, "doctor"], cwd=tmp_path, env=environment, stdout=child, check=False, timeout=60)
    os.close(child)
    text = os.read(parent, 65536).decode()
    os.close(parent)
    assert max(map(len, text.split("\r\n"))) <= 80
    assert re.search(r"woe\s+END\r\n", text)


def test_a_probe_really_asks(doctor: Doctor, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """The answer with its time and cost, or the error with its kind; the default agent must answer."""
    pi = stub(tmp_path / "bin", "pi", prints=(ANSWERED, SETTLED))
    claude = stub(tmp_path / "bin", "claude", prints=({"type": "nothing"},))
    done = doctor("--probe")
    assert done.returncode == 1
    assert shown(done.stdout, tmp_path) == snapshot
    assert was_run(pi)
    assert was_run(claude)


def test_without_a_probe_no_agent_is_asked(doctor: Doctor, tmp_path: Path) -> None:
    """It costs nothing; what programs say about themselves is asked every time, and cached for runs."""
    pi = stub(tmp_path / "bin", "pi")
    first, second = doctor("--json"), doctor("--json")
    assert row(first, "pi") == row(second, "pi")
    assert row(first, "pi")["works"] is True
    assert row(first, "pi")["call"] is None
    assert (was_run(pi), asked(pi)) == (False, 4)
    assert (tmp_path / "home/.cache/awf/agents.json").exists()


def test_an_agent_that_refuses_does_not_work(doctor: Doctor, tmp_path: Path) -> None:
    """Exit code 1 if it is the only one; its message contains no key."""
    refusal = {**REFUSED, "message": {**REFUSED["message"], "errorMessage": f"401: the key {KEY} is not valid"}}
    stub(tmp_path / "bin", "pi", prints=(refusal, SETTLED))
    done = doctor("--probe", "--json", OPENAI_API_KEY=KEY)
    found = row(done, "pi")
    assert done.returncode == 1
    assert (found["works"], found["call"]["error"]) == (False, "auth")
    assert found["call"]["message"].startswith("401: the key ")
    assert KEY not in done.stdout


def test_profiles_are_checked_like_agents(doctor: Doctor, tmp_path: Path) -> None:
    """Each with its agent and model; with a probe, one that does not answer makes the machine not ready."""
    stub(tmp_path / "bin", "pi", prints=(ANSWERED, SETTLED))
    codex = stub(tmp_path / "bin", "codex", prints=({"type": "nothing"},))
    settings = tmp_path / "home/.config/awf/config.kdl"
    settings.parent.mkdir(parents=True)
    settings.write_text('backend "pi"\nprofile "coder" model="a"\nprofile "reviewer" model="b" provider="openai"\n')
    done = doctor("--json")
    profiles = json.loads(done.stdout)["profiles"]
    assert [(one["name"], one["agent"], one["model"], one["works"]) for one in profiles] == [
        ("coder", "pi", "a", True),
        ("reviewer", "codex", "b", True),
    ]
    assert (done.returncode, was_run(codex)) == (0, False)
    done = doctor("--json", "--probe")
    report = json.loads(done.stdout)
    assert (done.returncode, report["healthy"]) == (1, False)
    assert [one["works"] for one in report["profiles"]] == [True, False]
    text = doctor("--probe").stdout
    assert "model profiles" in text
    assert "Not ready: fix the model profile reviewer." in text


def test_a_profile_without_an_agent_is_a_problem(doctor: Doctor, tmp_path: Path) -> None:
    """The machine is not ready, although another agent works."""
    stub(tmp_path / "bin", "pi")
    (tmp_path / ".awf").mkdir()
    (tmp_path / ".awf/config.kdl").write_text('backend "codex"\nprofile "coder" model="a"\n')
    done = doctor("--json")
    (profile,) = json.loads(done.stdout)["profiles"]
    assert (done.returncode, profile["works"], profile["agent"]) == (1, False, "")
    assert "codex" in profile["problem"]


def test_json_has_everything(doctor: Doctor, tmp_path: Path) -> None:
    """Names of keys and never their values; what is needed and what is not."""
    path = stub(tmp_path / "bin", "codex")
    done = doctor("--json", CODEX_API_KEY=KEY)
    report = json.loads(done.stdout)
    assert (report["healthy"], report["default"]) == (True, "codex")
    assert row(done, "codex") == {
        "name": "codex",
        "path": str(path),
        "version": "1.2.3",
        "missing": [],
        "keys": ["CODEX_API_KEY"],
        "problem": "",
        "advice": "",
        "instructions": ["AGENTS.md"],
        "not_loaded": "",
        "withheld": [],
        "call": None,
        "works": True,
    }
    parts = {part["name"]: (part["ok"], part["needed"]) for part in report["parts"]}
    assert {name: parts[name] for name in ("git", "store", "python", "sqlite")} == dict.fromkeys(
        ("git", "store", "python", "sqlite"), (True, True)
    )
    assert parts["extra api"][1] is False
    assert KEY not in done.stdout


def test_a_library_without_a_key_is_not_said_to_be_logged_in(doctor: Doctor) -> None:
    """It has no login of its own: it is not usable, and the advice is about its key."""
    pytest.importorskip("pydantic_ai")
    found = row(doctor("--json"), "api")
    assert (found["works"], found["keys"], bool(found["advice"])) == (False, [], True)
    assert "logged in" not in re.findall(r"^  api .*\n(?: {26}.*\n)*", doctor().stdout, re.MULTILINE)[0]


def test_a_key_that_the_program_ignores_is_none(doctor: Doctor, tmp_path: Path) -> None:
    """Codex takes another variable for its own provider; the advice names it."""
    stub(tmp_path / "bin", "codex")
    found = row(doctor("--json", OPENAI_API_KEY=KEY), "codex")
    assert (found["keys"], "CODEX_API_KEY" in found["advice"], found["works"]) == ([], True, True)
    both = row(doctor("--json", OPENAI_API_KEY=KEY, CODEX_API_KEY=KEY), "codex")
    assert (both["keys"], both["advice"]) == (["CODEX_API_KEY"], "")


def test_agents_of_the_settings_are_checked(doctor: Doctor, tmp_path: Path) -> None:
    """A program at another path, a command, an ACP agent; one that works is enough."""
    elsewhere = stub(tmp_path / "opt", "pi")
    stub(tmp_path / "bin", "mine")
    (tmp_path / ".awf").mkdir()
    text = f'backend "command"\nagent "pi" {{ program "{elsewhere}"; }}\nacp {{ command "gone"; }}\n'
    (tmp_path / ".awf/config.kdl").write_text(text + 'agent "command" { program "mine" "-x"; }\n')
    (tmp_path / "home/.config/awf").mkdir(parents=True)
    (tmp_path / "home/.config/awf/config.kdl").write_text(f'trust {{ project "{tmp_path.resolve()}"; }}\n')
    done = doctor("--json")
    assert row(done, "pi")["path"] == str(elsewhere)
    assert (row(done, "command")["path"], row(done, "command")["works"]) == (str(tmp_path / "bin/mine"), True)
    assert row(done, "acp")["works"] is False
    assert row(done, "acp")["problem"] == 'the program "gone" of the backend "acp" was not found on PATH'
    assert json.loads(done.stdout)["default"] == "command"


def test_a_damaged_store_is_reported(doctor: Doctor, tmp_path: Path) -> None:
    """Its runs could not be resumed."""
    stub(tmp_path / "bin", "pi")
    (tmp_path / ".awf").mkdir()
    (tmp_path / ".awf/awf.db").write_text("no database")
    done = doctor()
    assert done.returncode == 1
    assert done.stdout.endswith("\nNot ready: fix store.\n")
