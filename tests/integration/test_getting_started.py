"""What a newcomer types is what happens."""

from pathlib import Path

from tests.integration.pages import DOCS, files, follow, steps

PAGE = (DOCS / "getting-started.md").read_text()


def test_every_command_prints_what_the_page_shows(tmp_path: Path, home: Path) -> None:
    """The commands of the page, one after the other, on the files that it says to write."""
    here = tmp_path / "empty"
    here.mkdir()
    follow(PAGE, here, home)


def test_the_page_has_files_and_commands() -> None:
    """A page that is read wrongly would pass by having nothing to run."""
    assert set(files(PAGE)) == {"hello.awf.kdl", "fix.awf.kdl", "check.sh", "agent.sh", "crash.awf.kdl"}
    assert len(steps(PAGE)) == 14
