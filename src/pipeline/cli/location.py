"""What a command is told about the machine: the project around it, the home, the shipped workflows, the user."""

import os
import pwd
import stat
from pathlib import Path

import pipeline
from pipeline.app.catalog import Catalog, repository_root
from pipeline.errors import AwfError

STORE = ".awf"


def project() -> Path:
    """The root of the git repository or worktree around the current directory; outside of one, that directory."""
    return repository_root(Path.cwd()) or Path.cwd()


def nearest_store() -> Path:
    """The store that commands use: the nearest `.awf` at or above the current directory, as a short relative path.

    The search ends at the root of the repository. Outside of one it ends below the home, and below a directory that
    others can write to: what somebody else put there is not this project's. Without an `.awf`, where it will be made.
    """
    here, root = Path.cwd(), repository_root(Path.cwd())
    for folder in (here, *here.parents):
        if folder != here and root is None and (folder == home() or not _is_private(folder)):
            break
        if os.path.isdir(folder / STORE) or folder == root:  # noqa: PTH112 - one that may not be looked at is none
            return Path(os.path.relpath(folder / STORE))
    return Path(STORE)


def default_store() -> Path:
    """The same, for a command that uses it; raises AwfError where it is a file."""
    path = nearest_store()
    if os.path.isfile(path):  # noqa: PTH113 - as above
        help = "move it away, or name another directory with --store DIR"
        raise AwfError(f'"{path}" is a file, and runs are kept in a directory of that name', help=help)
    return path


def _is_private(folder: Path) -> bool:
    """Whether nobody but this user can put something there; as root everything else would be."""
    try:
        about = folder.stat()
        return about.st_uid == os.getuid() and not about.st_mode & stat.S_IWOTH
    except OSError:
        return False


def catalog() -> Catalog:
    """The workflows that can be named from here."""
    return Catalog(cwd=Path.cwd(), home=home(), shipped=Path(pipeline.__file__).parent / "workflows")


def home() -> Path:
    """The user's home; raises AwfError where nobody knows it."""
    try:
        return Path.home()
    except RuntimeError:  # as in a container
        raise AwfError(f"the home of {user_name()} is not known", help="set HOME to a directory") from None


def user_name() -> str:
    """Who is at the keyboard, as the system knows them."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # as in a container
        return f"user {os.getuid()}"
