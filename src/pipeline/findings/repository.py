"""What git says of the repository a pass is about; outside of one, nothing."""

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from pipeline.backends.git import git_in
from pipeline.errors import AwfError

_PLAIN_NAMES = ("-c", "core.quotePath=true")  # an odd name is written in plain characters
_SECONDS = 10.0


class GitRefusedError(AwfError):
    """Git did not answer."""


def facts(root: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """The commit that is checked out, and the branch; empty where there is none."""
    return head(root, environ), asked(root, environ, "symbolic-ref", "--short", "--quiet", "HEAD")


def head(root: Path, environ: Mapping[str, str]) -> str:
    """The commit that is checked out; empty where there is none."""
    return asked(root, environ, "rev-parse", "--verify", "--quiet", "HEAD")


def top(root: Path, environ: Mapping[str, str]) -> Path:
    """The top of the repository around a directory; the directory itself where there is none."""
    found = asked(root, environ, "rev-parse", "--show-toplevel")
    return Path(found) if found else root


def asked(root: Path, environ: Mapping[str, str], *arguments: str) -> str:
    """What git answers to a short question, without the white space around it; nothing where it cannot tell."""
    if not in_repository(root):
        return ""
    try:
        return answer(root, environ, *arguments).strip()
    except GitRefusedError:  # there is no git here, or no repository, or no such thing in it: nothing is known
        return ""


def in_repository(root: Path) -> bool:
    """Whether a directory lies in a repository or a worktree. It costs no process, as below."""
    place, above = "", str(root)
    while place != above:
        place, above = above, os.path.dirname(above)  # noqa: PTH120 - asked with every review, and a path costs more
        if is_top(place):
            return True
    return False


def is_top(place: str | Path) -> bool:
    """Whether a repository or a worktree begins at a place. It costs no process: every review of a run asks.

    An empty `.git`, as sandboxes of agents leave behind, is not a repository.
    """
    return os.access(f"{place}/.git/HEAD", os.F_OK) or os.path.isfile(f"{place}/.git")  # noqa: PTH113 - a text


def answer(
    root: Path,
    environ: Mapping[str, str],
    *arguments: str,
    variables: Mapping[str, str] | None = None,  # that git is to see besides
    accepted: Collection[int] = (0,),  # exit codes
) -> str:
    """What git answers; a GitRefusedError in one line where it does not, or takes too long."""
    verb, git = arguments[0], git_in(root, environ).with_variables(**variables or {})
    try:
        done = git.run_sync(*arguments, timeout=_SECONDS, options=_PLAIN_NAMES)
    except TimeoutError:
        raise GitRefusedError(f"git {verb} took longer than {_SECONDS:.0f} seconds") from None
    except OSError as error:
        raise GitRefusedError(f"git {verb} cannot be run: {error.strerror}") from None
    if done.returncode not in accepted:
        said = " ".join(done.stderr.decode(errors="replace").split()).removeprefix("fatal: ")
        raise GitRefusedError(f"git {verb} failed: {said or f'it ended with code {done.returncode}'}")
    return done.stdout.decode(errors="replace")
