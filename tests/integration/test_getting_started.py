"""What a newcomer types is what happens."""

import os
import subprocess
from pathlib import Path

from tests.integration.conftest import COMMAND
from tests.integration.pages import DOCS, alike, files, steps

PAGE = (DOCS / "getting-started.md").read_text()


def test_every_command_prints_what_the_page_shows(tmp_path: Path, home: Path) -> None:
    """The commands of the page, one after the other, on the files that it says to write."""
    here = tmp_path / "empty"
    here.mkdir()
    for name, text in files(PAGE).items():
        (here / name).write_text(text)
    environment = {"PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}", "HOME": str(home)}
    for step in steps(PAGE):
        done = subprocess.run(
            ["bash", "-c", step.command],
            cwd=here,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=60,
        )
        assert alike(step.output, done.stdout.splitlines()), f"$ {step.command}\n{done.stdout}"


def test_the_page_has_files_and_commands() -> None:
    """A page that is read wrongly would pass by having nothing to run."""
    assert set(files(PAGE)) == {"hello.awf.kdl", "fix.awf.kdl", "check.sh", "agent.sh", "crash.awf.kdl"}
    assert len(steps(PAGE)) == 14
