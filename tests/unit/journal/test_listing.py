"""A directory's entries, watched by one look at the directory."""

import os
from pathlib import Path

from pipeline.journal.sqlite import Listing


def settled(directory: Path) -> Listing:
    """A listing of a directory that nobody has touched for long."""
    os.utime(directory, (0, 0))
    listing = Listing(str(directory))
    listing.checked()
    return listing


def test_what_was_left_alone_is_unchanged(tmp_path: Path) -> None:
    """Writing to a file in it is no change of the listing."""
    file = tmp_path / "a"
    file.write_text("1")
    listing = settled(tmp_path)
    file.write_text("2")
    assert listing.unchanged()


def test_an_entry_removed_added_or_replaced_is_a_change(tmp_path: Path) -> None:
    """Whoever asks then has to look at the entries themselves."""
    file = tmp_path / "a"
    file.write_text("1")
    for change in (lambda: file.rename(tmp_path / "b"), file.touch, file.unlink):
        listing = settled(tmp_path)
        change()
        assert not listing.unchanged()


def test_a_directory_that_has_just_changed_is_not_trusted(tmp_path: Path) -> None:
    """Its time of change may be that of a later change as well."""
    listing = Listing(str(tmp_path))
    assert not listing.unchanged()
    (tmp_path / "a").touch()
    listing.checked()
    assert not listing.unchanged()


def test_a_directory_that_is_gone_has_changed(tmp_path: Path) -> None:
    """A look that fails is a change, and no error."""
    directory = tmp_path / "gone"
    directory.mkdir()
    listing = settled(directory)
    directory.rmdir()
    assert not listing.unchanged()
    listing.checked()
    assert not listing.unchanged()
