"""The README's commands and workflow work as shown."""

import json
import re
import shlex
from pathlib import Path

from tests.integration.conftest import Awf

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
(WORKFLOW,) = re.findall(r"```kdl\n(.*?)```", README, re.DOTALL)
COMMANDS = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^\$ (awf .*)$", README, re.MULTILINE)]
AGENT = """#!/bin/sh
cat > /dev/null
echo '{"findings": [], "reviewed": ["a.py: read"]}'
"""


def test_every_command_in_the_readme_does_what_it_says(script: Awf, tmp_path: Path) -> None:
    """The commands run the workflow, with a shell script as the agent."""
    (tmp_path / "fix.awf.kdl").write_text(WORKFLOW)
    (tmp_path / "Makefile").write_text("check:\n\t@true\n")
    (tmp_path / "my-agent").write_text(AGENT)
    (tmp_path / "my-agent").chmod(0o755)
    wrong = WORKFLOW.replace("findings=", "finding=")
    (tmp_path / "release.awf.kdl").write_text(wrong)
    seen = []
    for command in COMMANDS:
        words = [str(tmp_path / "my-agent") if word == "my-agent" else word for word in command]
        seen.append((command[0], script(*words)))
    assert [(name, done.returncode) for name, done in seen] == [
        ("validate", 0),
        ("run", 0),
        ("status", 0),
        ("why", 0),
        ("resume", 2),  # nothing to resume
        ("validate", 2),
    ]
    assert 'did you mean "findings"?' in seen[-1][1].stdout


def test_a_script_runs_the_workflow(awf: Awf, tmp_path: Path) -> None:
    """Replies for its stages run the workflow without an agent."""
    (tmp_path / "fix.awf.kdl").write_text(WORKFLOW)
    (tmp_path / "Makefile").write_text("check:\n\t@true\n")
    (tmp_path / "replies.json").write_text(json.dumps({"review": ['{"findings": [], "reviewed": ["a.py: read"]}']}))
    assert awf("run", "fix.awf.kdl", "--goal", "g", "--script", "replies.json").returncode == 0


def test_every_command_is_listed_in_the_readme(awf: Awf) -> None:
    """The table names every command."""
    listed = set(re.findall(r"`awf (\w+)", README))
    offered = set(re.findall(r"^  (\w+)  ", awf("--help").stdout, re.MULTILINE))
    assert offered <= listed
