"""Where a command runs: the project and its store, the user and their home, and the workflows that have a name."""

import os
import pwd
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pipeline
from pipeline.app.setting_paths import SettingsPaths
from pipeline.errors import AwfError
from pipeline.files import repository_root

if TYPE_CHECKING:
    from pipeline.app.catalog import Catalog

STORE = ".awf"


def project() -> Path:
    """The root of the git repository or worktree around the current directory; outside of one, that directory."""
    return repository_root(Path.cwd()) or Path.cwd()


def nearest_store() -> Path:
    """The nearest `.awf` at or above the current directory, as a short relative path; without one, where to make it.

    The search ends at the root of the repository. Outside of a repository it ends below the home, and below a
    directory that others can write to: what they put there does not belong to this project.
    """
    here, root = Path.cwd(), repository_root(Path.cwd())
    for folder in (here, *here.parents):
        if folder != here and root is None and (folder == home() or not _is_private(folder)):
            break
        if os.path.isdir(folder / STORE) or folder == root:  # noqa: PTH112 - Path.is_dir raises if it may not look
            return Path(os.path.relpath(folder / STORE))
    return Path(STORE)


def settings_paths() -> SettingsPaths:
    """Return the settings files of this user and of the project around this directory."""
    cwd = Path.cwd()
    store = Path(os.path.normpath(cwd / nearest_store()))
    return SettingsPaths.of(store.parent, home(), os.environ, cwd)


def default_store() -> Path:
    """The nearest store, for a command that uses it; raises AwfError if it is a file."""
    path = nearest_store()
    if os.path.isfile(path):  # noqa: PTH113 - as above
        help = "move it away, or name another directory with --store DIR"
        raise AwfError(f'"{path}" is a file; runs are kept in a directory of that name', help=help)
    return path


def _is_private(folder: Path) -> bool:
    """Whether only this user can write to a directory."""
    try:
        about = folder.stat()
    except OSError:
        return False
    return about.st_uid == os.getuid() and not about.st_mode & stat.S_IWOTH


def catalog() -> "Catalog":
    """The workflows that can be named in the current directory."""
    from pipeline.app.catalog import Catalog  # noqa: PLC0415 - most commands need no workflow

    return Catalog(cwd=Path.cwd(), home=home(), shipped=Path(pipeline.__file__).parent / "workflows")


def home() -> Path:
    """The user's home; raises AwfError if it is unknown."""
    try:
        return Path.home()
    except RuntimeError:  # as in a container
        raise AwfError(f"the home of {user_name()} is unknown", help="set HOME to a directory") from None


def user_name() -> str:
    """The name of the user."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container
        return f"user {os.getuid()}"
