"""Where the views of a repository are: in its main checkout, whichever worktree somebody works in."""

from pathlib import Path

from pipeline import files
from pipeline.findings.repository import is_top

_LONGEST = 4096  # bytes of a file that holds one path


def home_of(start: Path) -> Path:
    """The main checkout of the repository around a directory, else the directory itself. Starts no process."""
    top = next((place for place in (start, *start.parents) if is_top(place)), None)
    if top is None:
        return start
    return _main_of(top) or top


def _main_of(worktree: Path) -> Path | None:
    """The checkout that a worktree was made from, if that agrees."""
    named = _path_in(worktree / ".git", "gitdir:", worktree)
    back = _path_in(named / "gitdir", "", named) if named else None
    common = _path_in(named / "commondir", "", named) if named else None
    if back is None or common is None or back != (worktree / ".git").resolve() or common.name != ".git":
        return None
    return common.parent


def _path_in(file: Path, label: str, base: Path) -> Path | None:
    try:
        text = (files.read_file(file, _LONGEST) or b"").decode(errors="surrogateescape").strip()
        return (base / text.removeprefix(label).strip()).resolve() if text.startswith(label) and text else None
    except (files.NotAFile, OSError, RuntimeError, ValueError):
        return None
