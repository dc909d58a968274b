"""What git says of the repository a pass is about; outside of one, nothing."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from pipeline.backends.git import git_in

_GIT = ("git", "--no-optional-locks")
_SECONDS = 10.0


def facts(root: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """The commit that is checked out, and the branch; empty where there is none."""
    return asked(root, environ, "rev-parse", "--verify", "--quiet", "HEAD"), asked(
        root, environ, "symbolic-ref", "--short", "--quiet", "HEAD"
    )


def top(root: Path, environ: Mapping[str, str]) -> Path:
    """The top of the repository around a directory; the directory itself where there is none."""
    found = asked(root, environ, "rev-parse", "--show-toplevel")
    return Path(found) if found else root


def asked(root: Path, environ: Mapping[str, str], *arguments: str) -> str:
    """What git answers to a short question, without the white space around it; nothing where it cannot tell."""
    try:
        done = subprocess.run(
            [*_GIT, *arguments],
            cwd=root,
            env=git_in(root, environ).env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):  # there is no git here, or it does not answer: nothing is known
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
