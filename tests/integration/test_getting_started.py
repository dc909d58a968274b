"""The commands of the getting-started page print what it shows."""

from pathlib import Path

from tests.integration.pages import DOCS, files, follow, steps

PAGE = (DOCS / "getting-started.md").read_text()


def test_every_command_prints_what_the_page_shows(tmp_path: Path, home: Path) -> None:
    """Run in order, on the files of the page, each command prints what is shown."""
    here = tmp_path / "empty"
    here.mkdir()
    follow(PAGE, here, home)


def test_the_page_has_files_and_commands() -> None:
    """A misread page would pass because there would be nothing to run."""
    assert set(files(PAGE)) == {"hello.awf.kdl", "fix.awf.kdl", "check.sh", "agent.sh", "crash.awf.kdl"}
    assert len(steps(PAGE)) == 14
