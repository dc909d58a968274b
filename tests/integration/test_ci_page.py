"""What the page about CI gives to copy is valid, names what exists, and gates as it says."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.integration.conftest import COMMAND, Awf
from tests.integration.pages import DOCS, ROOT, blocks

PAGE = (DOCS / "ci.md").read_text()
JOB, STEP, CONFIG = (yaml.safe_load(block.text) for block in blocks(PAGE) if block.language == "yaml")
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
FINE = "def mean(xs):\n    return sum(xs) / len(xs)\n"
WRONG = "import os\n\n\ndef mean(xs):\n    return sum(xs)\n"
TEST = "from mean import mean\n\n\ndef test_mean():\n    assert mean([1, 3]) == 2\n"
WORKFLOW = 'workflow "W" {\n  version 2\n  start "end"\n  stage "end" kind="exit"\n}\n'


def steps() -> list[dict[str, Any]]:
    """The steps of the job, but for those that a runner or a network has to do."""
    job: list[dict[str, Any]] = JOB["jobs"]["findings"]["steps"]
    return [step for step in job if "run" in step and step["name"] != "Install"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a module, its test and a workflow."""
    here = tmp_path / "project"
    (here / "workflows").mkdir(parents=True)
    (here / "workflows/w.awf.kdl").write_text(WORKFLOW)
    (here / "test_mean.py").write_text(TEST)
    subprocess.run(["git", "init", "-q"], cwd=here, check=True)
    return here


def build(project: Path, home: Path) -> dict[str, int]:
    """The exit code of each step, as a runner would run it."""
    environment = {"PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}", "HOME": str(home)}
    return {
        step["name"]: subprocess.run(
            ["bash", "-e", "-c", step["run"]], cwd=project, env=environment, capture_output=True, check=False
        ).returncode
        for step in steps()
    }


def test_a_clean_build_passes(project: Path, home: Path) -> None:
    """Every step succeeds where there is nothing to be found."""
    (project / "mean.py").write_text(FINE)
    assert set(build(project, home).values()) == {0}


def test_only_the_gate_stops_a_build_with_findings(project: Path, home: Path) -> None:
    """What linter and tests found is taken in, shown and written before the verdict fails the job."""
    (project / "mean.py").write_text(WRONG)
    codes = build(project, home)
    assert codes.pop("Gate") == 1
    assert set(codes.values()) == {0}
    assert "F401" in (project / ".awf/findings.sarif").read_text()


@pytest.mark.parametrize(
    ("report", "imported"), [(None, 2), ("no report at all", 1)], ids=["not there", "cannot be read"]
)
def test_silence_passes_no_gate(awf: Awf, project: Path, report: str | None, imported: int) -> None:
    """A report that is not there or cannot be read stops the build, and the verdict with it."""
    if report:
        (project / "ruff.sarif").write_text(report)
    assert awf("findings", "import", "ruff.sarif", cwd=project).returncode == imported
    assert awf("verdict", "--fail-on", "warn", cwd=project).returncode == 1


def test_every_command_on_the_page_exists(awf: Awf) -> None:
    """Each `awf` command, in a block or in the text, and each of its options."""
    (running,) = [step["run"] for step in STEP]
    runs = [line for step in [*steps(), {"run": running}] for line in step["run"].splitlines()]
    told = [*runs, *re.findall(r"`((?:exec )?awf [^`]+)`", PAGE)]
    commands = [shlex.split(line.removeprefix("exec ")) for line in told if line.removeprefix("exec ")[:4] == "awf "]
    assert len(commands) > 10
    for words in commands:
        group = 3 if words[1] == "findings" else 2
        help = awf(*words[1:group], "--help")
        assert help.returncode == 0, words
        options = [word.partition("=")[0] for word in words if word.startswith("-")]
        assert [option for option in options if option not in help.stdout] == []


def test_the_hook_checks_the_files_it_is_given(awf: Awf, tmp_path: Path) -> None:
    """Its entry is a command that says what is wrong with files whose names the pattern takes."""
    (hook,) = HOOKS
    (asked,) = CONFIG["repos"][0]["hooks"]
    assert asked["id"] == hook["id"]
    (tmp_path / "good.awf.kdl").write_text(WORKFLOW)
    (tmp_path / "bad.awf.kdl").write_text(WORKFLOW.replace('"end"\n', '"nowhere"\n', 1))
    named = [name for name in ("good.awf.kdl", "bad.awf.kdl", "notes.kdl") if re.search(hook["files"], name)]
    assert named == ["good.awf.kdl", "bad.awf.kdl"]
    program, *words = shlex.split(hook["entry"])
    assert program == Path(COMMAND).name
    assert awf(*words, "good.awf.kdl").returncode == 0
    wrong = awf(*words, *named)
    assert wrong.returncode == 2
    assert "bad.awf.kdl:3" in wrong.stdout


def test_the_page_is_read_as_it_is_meant() -> None:
    """The steps that are run are those between the installation and the gate."""
    assert [step["name"] for step in steps()][-1] == "Gate"
