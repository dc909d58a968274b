"""Working files that git is not to see. The rule goes where it is this clone's own affair, not into the project."""

import os
import subprocess
from pathlib import Path

from pipeline.errors import AwfError
from pipeline.findings.views import atomic


def ignore(root: Path, name: str) -> str:
    """See to it that git ignores a directory; what went wrong, or nothing. Outside of a repository all is well."""
    try:
        ignored = _git(root, "check-ignore", "--quiet", f"{name}/any")
        if ignored.returncode != 1:  # it is ignored, or this is no repository
            return ""
        _add(root / _git(root, "rev-parse", "--git-path", "info/exclude").stdout.strip(), f"{name}/")
    except (OSError, AwfError) as error:
        return f"git could not be told to ignore {name}/: {error}; add it to .gitignore"
    return ""


def _git(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Ask git about the repository that a directory is in, whatever a hook that started us was about."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, env=mine, capture_output=True, text=True, check=False)


def _add(exclude: Path, rule: str) -> None:
    exclude.parent.mkdir(parents=True, exist_ok=True)
    with atomic.locked(exclude.parent):
        old = exclude.read_text() if exclude.exists() else ""
        if rule not in old.splitlines():
            gap = "" if not old or old.endswith("\n") else "\n"
            atomic.replace(exclude, f"{old}{gap}{rule}\n".encode())
