"""Tickets as files in a directory."""

from pathlib import Path

import pytest
from tests.unit.findings.trackers.conftest import Make, with_states

from pipeline.findings.model import FindingState
from pipeline.findings.trackers.folder import TicketFolder
from pipeline.findings.trackers.ticket import Filed, TicketFailed, TrackerContext


@pytest.fixture
def tickets(tmp_path: Path) -> Path:
    """A directory that does not exist yet."""
    return tmp_path / ".awf" / "tickets"


def folder_at(directory: Path) -> TicketFolder:
    """The tracker as a new session opens it."""
    return TicketFolder(TrackerContext(directory.parent, directory.parent, {}))


def test_a_finding_becomes_a_file(tickets: Path, make: Make) -> None:
    """The file has the mark, the title, the label and the body, and its path is the reference."""
    assert folder_at(tickets).file(make()) == Filed(str(tickets / "fnd_0badcafe.md"))
    text = (tickets / "fnd_0badcafe.md").read_text()
    assert text.startswith(
        "<!-- awf:fnd_0badcafe -->\n\n# Old token stays valid\n\n- severity: high\n\n## Why it matters\n"
    )
    assert "Finding ID: fnd_0badcafe" in text


def test_filing_twice_makes_one_file_and_keeps_what_people_wrote(tickets: Path, make: Make) -> None:
    """An existing ticket is left alone, in the same session and in another."""
    folder = folder_at(tickets)
    folder.file(make())
    path = tickets / "fnd_0badcafe.md"
    path.write_text(path.read_text() + "\nAnn: I look at it.\n")
    before = path.read_text()
    assert folder.file(make()) == folder_at(tickets).file(make()) == Filed(str(path))
    assert path.read_text() == before
    assert list(tickets.iterdir()) == [path]


def test_a_deleted_ticket_is_written_again(tickets: Path, make: Make) -> None:
    """Also within the session that wrote it."""
    folder = folder_at(tickets)
    folder.file(make())
    (tickets / "fnd_0badcafe.md").unlink()
    assert folder.file(make()) == Filed(str(tickets / "fnd_0badcafe.md"))
    assert (tickets / "fnd_0badcafe.md").exists()


def test_a_file_that_is_not_a_ticket_is_not_overwritten(tickets: Path, make: Make) -> None:
    """Nothing that a person wrote is lost."""
    tickets.mkdir(parents=True)
    path = tickets / "fnd_0badcafe.md"
    path.write_text("my notes")
    done = folder_at(tickets).file(make())
    assert isinstance(done, TicketFailed)
    assert path.read_text() == "my notes"


def test_a_link_is_not_followed(tickets: Path, tmp_path: Path, make: Make) -> None:
    """What it points to is never added to."""
    tickets.mkdir(parents=True)
    target = tmp_path / "target.md"
    target.write_text("<!-- awf:fnd_0badcafe -->\n")
    (tickets / "fnd_0badcafe.md").symlink_to(target)
    back = with_states(make(), FindingState.FIX_CLAIMED, FindingState.REOPENED)
    assert isinstance(folder_at(tickets).file(back), TicketFailed)
    assert target.read_text() == "<!-- awf:fnd_0badcafe -->\n"


def test_what_cannot_be_written_is_a_failure(tmp_path: Path, make: Make) -> None:
    """The reason names the path, and nothing is raised."""
    (tmp_path / "file").write_text("")
    done = folder_at(tmp_path / "file" / "tickets").file(make())
    assert isinstance(done, TicketFailed)
    assert str(tmp_path / "file") in done.reason


def test_a_directory_where_a_ticket_should_be_is_a_failure(tickets: Path, make: Make) -> None:
    """Nothing is raised."""
    (tickets / "fnd_0badcafe.md").mkdir(parents=True)
    assert isinstance(folder_at(tickets).file(make()), TicketFailed)


def test_a_title_is_not_markup(tickets: Path, make: Make) -> None:
    """It is neither an image nor a tag."""
    folder_at(tickets).file(make(title="![x](http://x) <b>*y*</b> [z]"))
    text = (tickets / "fnd_0badcafe.md").read_text()
    assert r"# \!\[x\](http://x) \<b\>\*y\*\</b\> \[z\]" in text
