"""Working files that git is not to see. The rule goes where it is this clone's own affair, not into the project."""

from collections.abc import Mapping
from pathlib import Path

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.git import in_repository, run_git


def ensure_git_ignored(root: Path, name: str, environ: Mapping[str, str]) -> str:
    """See to it that git ignores a directory; what went wrong, or nothing. Outside of a repository all is well."""
    if not in_repository(root):
        return ""
    try:
        if not run_git(root, environ, "check-ignore", f"{name}/any", accepted=(0, 1)):
            _add(root / run_git(root, environ, "rev-parse", "--git-path", "info/exclude").strip(), f"{name}/")
    except (OSError, files.NotAFile, AwfError) as error:
        return f"git could not be told to ignore {name}/: {error}; add it to .gitignore"
    return ""


def _add(exclude: Path, rule: str) -> None:
    exclude.parent.mkdir(parents=True, exist_ok=True)
    with files.lock_directory(exclude.parent):
        old = (files.read_file(exclude) or b"").decode(errors="surrogateescape")
        if rule not in old.splitlines():
            gap = "" if not old or old.endswith("\n") else "\n"
            files.write_file(exclude, f"{old}{gap}{rule}\n".encode(errors="surrogateescape"))
