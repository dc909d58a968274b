"""Settings on the command line: `awf config`, errors in a file, and the agent of a run."""

import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.integration.conftest import COMMAND, Awf
from tests.unit.app.stubs import ANSWERED, SETTLED, stub, was_run

WORKFLOW = """workflow "W" {
  version 2
  start "tool"
  stage "tool" kind="tool" command="/usr/bin/env > ran.txt"
  stage "build" kind="llm" prompt="Build it"
  stage "end" kind="exit"
  transition from="tool" to="build"
  transition from="build" to="end"
}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a workflow, and a PATH with nothing on it."""
    (tmp_path / "w.awf.kdl").write_text(WORKFLOW)
    (tmp_path / "bin").mkdir()
    (tmp_path / ".awf").mkdir()
    (tmp_path / "home/.config/awf").mkdir(parents=True)
    return tmp_path


def user(project: Path, text: str) -> None:
    (project / "home/.config/awf/config.kdl").write_text(text)


def own(project: Path, text: str) -> None:
    (project / ".awf/config.kdl").write_text(text)


def run(awf: Awf, project: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return awf("run", "w.awf.kdl", "--run-id", "r", "--json", *arguments, PATH=str(project / "bin"), **environment)


def test_every_setting_is_shown_with_where_it_was_set(awf: Awf, project: Path, snapshot: SnapshotAssertion) -> None:
    """Defaults, the user's file, the project's over it, and an option over both."""
    text = 'backend "claude"\nmodel "m"\nlimits { timeout "1h30m"; }\nagent "pi" { extra "--a b" "" "-c"; }\n'
    user(project, f'{text}environment "CI" "NPM_*"\n')
    own(project, 'backend "codex"\nlimits {\n  max_cost_usd 2.5\n}\n')
    assert awf("config").stdout == snapshot
    shown = json.loads(awf("config", "--json", "--backend", "pi").stdout)
    assert shown["backend"] == {"value": "pi", "from": "option", "name": "--backend", "line": None}
    assert shown["limits.timeout"]["value"] == "1h30m"
    assert shown["limits.max_cost_usd"] == {"value": 2.5, "from": "project", "name": ".awf/config.kdl", "line": 3}
    assert shown["limits.idle"] == {"value": None, "from": "default", "name": None, "line": None}
    assert shown["agent.pi.extra"]["value"] == ["--a b", "", "-c"]


def test_defaults_are_shown(awf: Awf, tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """With the files in which they could be set."""
    done = awf("config", cwd=tmp_path, XDG_CONFIG_HOME="/etc/my-config")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == snapshot


def test_long_values_are_truncated(project: Path) -> None:
    """A value ends where the terminal does, and cannot act on it."""
    user(project, f'agent "pi" {{ extra "\\u{{1b}}[2J" "{"x" * 300}"; }}\n')
    parent, child = pty.openpty()
    environment = {"PATH": "", "HOME": str(project / "home"), "COLUMNS": "80", "NO_COLOR": "1"}
    subprocess.run([COMMAND, "config"], cwd=project, env=environment, stdout=child, check=True, timeout=60)
    os.close(child)
    text = os.read(parent, 65536).decode()
    os.close(parent)
    assert "\x1b" not in text
    assert max(map(len, text.split("\r\n"))) <= 80
    assert "…  user home/.config/awf/config.kdl:1" in text


def test_settings_with_errors_stop_a_command(awf: Awf, project: Path, snapshot: SnapshotAssertion) -> None:
    """All errors of both files are shown, and nothing else happens."""
    user(project, "limits { timeuot 3 }\n")
    own(project, 'backend 1\nagent "cluade" { program "x"; }\n')
    told = set()
    for command in (["config"], ["doctor"], ["run", "w.awf.kdl"], ["resume", "r"]):
        done = awf(*command)
        assert (done.returncode, done.stdout) == (2, "")
        told.add(done.stderr)
    (errors,) = told  # the same for all of them
    assert errors == snapshot
    assert not (project / "ran.txt").exists()


def test_other_commands_do_not_read_them(awf: Awf, project: Path) -> None:
    """Commands that need no settings work without them."""
    own(project, "backend 1\n")
    assert awf("validate", "w.awf.kdl").returncode == 0
    assert awf("runs").returncode == 0


def test_a_run_without_an_agent_does_not_start(awf: Awf, project: Path) -> None:
    """The error comes before the first stage and before anything is recorded: the run's name is still free."""
    done = run(awf, project)
    assert (done.returncode, done.stdout) == (2, "")
    assert 'stage "build" cannot run: no agent found: looked for claude, codex' in done.stderr
    assert '"awf doctor"' in done.stderr
    assert not (project / "ran.txt").exists()
    stub(project / "bin", "pi", prints=(ANSWERED, SETTLED))
    assert run(awf, project).returncode == 0


def last(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_run_uses_the_agent_of_the_settings(awf: Awf, project: Path) -> None:
    """Not the first on PATH; its answer is the stage's response."""
    first = stub(project / "bin", "claude")
    second = stub(project / "bin", "pi", prints=(ANSWERED, SETTLED))
    own(project, 'backend "pi"\n')
    assert last(run(awf, project))["status"] == "success"
    assert (was_run(first), was_run(second)) == (False, True)
    assert awf("context", "r", "build.response").stdout == "OK\n"


PROFILES = """workflow "W" {
  version 2
  start "build"
  models { profile "coder"; profile "reviewer" model="theirs" provider="mistral"; profile "other" }
  stage "build" kind="llm" prompt="Build it" model_profile="coder"
  stage "review" kind="llm" prompt="Look" model_profile="reviewer"
  stage "plain" kind="llm" prompt="More" model_profile="other"
  stage "end" kind="exit"
  transition from="build" to="review"
  transition from="review" to="plain"
  transition from="plain" to="end"
}
"""


def test_a_user_chooses_the_models_of_declared_profiles(awf: Awf, project: Path) -> None:
    """Two lines set two profiles, over the workflow's own; a profile without a model gets the default one."""
    (project / "w.awf.kdl").write_text(PROFILES)
    pi = stub(project / "bin", "pi", prints=(ANSWERED, SETTLED))
    lines = 'profile "coder" model="big"\nprofile "reviewer" model="sharp" provider="groq" reasoning_effort="high"\n'
    user(project, f'model "usual"\n{lines}')
    last(run(awf, project))
    build, review, plain = Path(f"{pi}.ran").read_text().splitlines()
    assert "--model big" in build
    assert "--provider groq --model sharp" in review
    assert "--thinking high" in review
    assert "--model usual" in plain
    shown = json.loads(awf("config", "--json").stdout)
    assert shown["profile.reviewer.model"]["value"] == "sharp"
    assert (shown["profile.coder.model"]["from"], shown["profile.coder.model"]["line"]) == ("user", 2)


def test_preflight_asks_the_model_of_a_profile(awf: Awf, project: Path) -> None:
    """The one of the settings, and once for each model."""
    (project / "w.awf.kdl").write_text(PROFILES)
    pi = stub(project / "bin", "pi", prints=({"type": "nothing"},))
    own(project, 'profile "coder" model="big"\nprofile "reviewer" model="big"\n')
    done = run(awf, project, "--preflight")
    assert done.returncode == 2
    assert [line.count("--model big") for line in Path(f"{pi}.ran").read_text().splitlines()] == [1, 0]
    assert 'stages "build" and "review" cannot run: pi with the model big' in done.stderr


def test_an_option_overrides_the_settings(awf: Awf, project: Path) -> None:
    """The agent of the settings need not exist."""
    own(project, 'backend "codex"\n')
    pi = stub(project / "bin", "pi", prints=(ANSWERED, SETTLED))
    last(run(awf, project, "--backend", "pi"))
    assert was_run(pi)


def test_variables_of_the_settings_reach_tools(awf: Awf, project: Path) -> None:
    """Only named ones; a secret must be named in full, a pattern does not match it."""
    stub(project / "bin", "pi", prints=(ANSWERED, SETTLED))
    user(project, 'environment "MINE" "OUR_*"\n')
    last(run(awf, project, MINE="1", OUR_HOST="2", OUR_API_KEY="3", OTHER="4"))
    given = dict(line.split("=", 1) for line in (project / "ran.txt").read_text().splitlines())
    assert (given["MINE"], given["OUR_HOST"]) == ("1", "2")
    assert not {"OUR_API_KEY", "OTHER"} & given.keys()


def test_a_project_passes_no_variable_and_names_no_program_unless_the_user_trusts_it(awf: Awf, project: Path) -> None:
    """0-39: a note says what is ignored and how to allow it; a project that is trusted by path may set it."""
    pi = stub(project / "bin", "pi", prints=(ANSWERED, SETTLED))
    evil = stub(project / "evil", "pi", prints=(ANSWERED, SETTLED))
    own(project, f'environment "MINE"\nagent "pi" {{ program "{evil}"; pass "SECRET_KEY"; }}\n')
    done = run(awf, project, MINE="1", SECRET_KEY="s3cr3t-s3cr3t")  # noqa: S106 - not a real one
    assert done.stderr.count(f'trust {{ project "{project.resolve()}" }}') == 1
    assert (was_run(pi), was_run(evil)) == (True, False)
    assert "MINE" not in (project / "ran.txt").read_text()
    user(project, f'trust {{ project "{project.resolve()}"; }}\n')
    done = awf("run", "w.awf.kdl", "--run-id", "r2", PATH=str(project / "bin"), MINE="1")
    assert "trust" not in done.stderr
    assert was_run(evil)
    assert "MINE=1" in (project / "ran.txt").read_text()


def test_trust_applies_in_every_directory_of_a_project(awf: Awf, project: Path) -> None:
    """Its directory is the one whose `.awf` is found, not the current one."""
    own(project, 'environment "MINE"\n')
    below = project / "src/deep"
    below.mkdir(parents=True)
    untrusted = awf("config", cwd=below)
    assert f'trust {{ project "{project.resolve()}" }}' in untrusted.stdout + untrusted.stderr
    user(project, f'trust {{ project "{project.resolve()}"; }}\n')
    assert "ignored" not in awf("config", cwd=below).stderr


def test_the_store_option_does_not_move_the_settings(awf: Awf, project: Path) -> None:
    """They belong to the project, wherever its runs are stored."""
    own(project, 'backend "pi"\n')
    pi = stub(project / "bin", "pi", prints=(ANSWERED, SETTLED))
    last(run(awf, project, "--store", "elsewhere"))
    assert was_run(pi)
