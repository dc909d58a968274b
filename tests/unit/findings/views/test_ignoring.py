"""Git does not see working files, wherever a project lies and whoever started us."""

import os
import subprocess
from pathlib import Path

import pytest

from pipeline.findings.views.ignoring import ensure_git_ignored

NAME = ".code-review"


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def hide(root: Path, **environ: str) -> None:
    """Have a directory with a file in it ignored."""
    (root / NAME).mkdir(exist_ok=True)
    (root / NAME / "review-latest.json").touch()
    assert ensure_git_ignored(root, NAME, {**os.environ, **environ}) == ""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    git(root, "init", "-q")
    git(root, "commit", "-q", "--allow-empty", "-m", "one")
    return root


def test_git_does_not_see_it(repository: Path) -> None:
    """001-02, C-30: the rule is in this clone's own list, once, after what was there."""
    exclude = repository / ".git" / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text("*.swp")
    for _ in range(2):
        hide(repository)
    assert git(repository, "status", "--porcelain") == ""
    assert exclude.read_text() == "*.swp\n.code-review/\n"


def test_a_project_that_ignores_it_is_left_alone(repository: Path) -> None:
    """001-02: where a rule is there already no other is added."""
    (repository / ".gitignore").write_text(".code-review\n")
    before = (repository / ".git" / "info" / "exclude").read_text()
    hide(repository)
    assert (repository / ".git" / "info" / "exclude").read_text() == before


def test_git_does_not_see_it_in_a_worktree(repository: Path, tmp_path: Path) -> None:
    """001-02: in a worktree `.git` is a file; the rule goes where git looks for it."""
    tree = tmp_path / "tree"
    git(repository, "worktree", "add", "-q", str(tree))
    hide(tree)
    assert git(tree, "status", "--porcelain") == ""
    assert (tree / ".git").is_file()


def test_git_does_not_see_it_below_the_top(repository: Path) -> None:
    """001-02: the directory of a project within a repository is ignored where it is."""
    (repository / "app").mkdir()
    hide(repository / "app")
    assert git(repository, "status", "--porcelain") == ""


def test_a_hook_s_repository_is_not_asked(repository: Path, tmp_path: Path) -> None:
    """001-02: started from a hook of another repository, the rule still goes into this one."""
    hide(repository, GIT_DIR=str(tmp_path / "elsewhere"))
    assert git(repository, "status", "--porcelain") == ""


def test_without_git_that_is_told(repository: Path, tmp_path: Path) -> None:
    """001-02: with what to do about it, and only where git would see anything."""
    assert ".gitignore" in ensure_git_ignored(repository, NAME, {"PATH": str(tmp_path)})
    assert ensure_git_ignored(tmp_path, NAME, {"PATH": str(tmp_path)}) == ""
