"""Tree snapshots of a checkout: everything git would add, without touching the index or the files."""

import os
import subprocess
from pathlib import Path

import pytest

from pipeline.findings.git import GitRefusedError, TreeSnapshots, is_tree, keep_tree, patch_of, stat_of

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}


def git(root: Path, *words: str) -> str:
    named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
    return subprocess.run(named, cwd=root, env=ENVIRON, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit, and a store in it that nothing ignores."""
    (tmp_path / "a.txt").write_text("one\n")
    (tmp_path / ".gitignore").write_text("*.log\n")
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "start")
    (tmp_path / ".awf").mkdir()
    (tmp_path / ".awf/awf.db").write_text("x")
    return tmp_path


def names(root: Path, tree: str) -> list[str]:
    return git(root, "ls-tree", "-r", "--name-only", tree).split()


def test_a_tree_has_what_git_would_add_and_no_file_of_awf(root: Path) -> None:
    """Changed and new files, in whatever directory; neither ignored ones, nor the store, nor those that awf writes."""
    own = (".code-review/review-latest.json", ".wystack/findings/f.json", "notes/2026-01-31-changeset-0a1b2c3d.md")
    for name in ("a.txt", "new.txt", "noise.log", "sub/.wystack/findings/f.json", "docs/code-reviews/a.py", *own):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("two\n")
    tree = TreeSnapshots(ENVIRON, root / ".awf").tree(root)
    looked_at = ["a.txt", "docs/code-reviews/a.py", "new.txt", "sub/.wystack/findings/f.json"]
    assert names(root, tree) == [".gitignore", *looked_at]
    assert git(root, "show", f"{tree}:a.txt") == "two\n"
    assert TreeSnapshots(ENVIRON, root / ".awf").tree(root / "sub") == tree


def test_the_index_and_the_files_are_left_alone(root: Path) -> None:
    """Staged changes stay staged byte for byte, and no lock is left behind."""
    (root / "a.txt").write_text("staged\n")
    git(root, "add", "a.txt")
    (root / "a.txt").write_text("later\n")
    before = {path: path.read_bytes() for path in (root / "a.txt", root / ".git/index")}
    tree = TreeSnapshots(ENVIRON, root / ".awf").tree(root)
    assert git(root, "show", f"{tree}:a.txt") == "later\n"
    assert {path: path.read_bytes() for path in before} == before
    assert not list((root / ".git").glob("*.lock"))


def test_nested_repositories_and_those_without_a_commit_have_trees(root: Path) -> None:
    """What cannot be added is left out."""
    git(root, "init", "-q", "inner")
    (root / "inner/b.txt").write_text("b\n")
    assert "a.txt" in names(root, TreeSnapshots(ENVIRON, root / ".awf").tree(root))
    assert names(root / "inner", TreeSnapshots(ENVIRON).tree(root / "inner")) == ["b.txt"]


def test_a_tree_that_is_kept_survives_garbage_collection(root: Path) -> None:
    """Otherwise git may delete it."""
    (root / "a.txt").write_text("two\n")
    tree = TreeSnapshots(ENVIRON, root / ".awf").tree(root)
    keep_tree(root, ENVIRON, "REV-1-abc", tree)
    git(root, "gc", "-q", "--prune=now")
    assert git(root, "cat-file", "-t", tree) == "tree\n"


def test_outside_a_repository_there_is_no_tree(tmp_path: Path) -> None:
    """Nor without git."""
    assert TreeSnapshots(ENVIRON).tree(tmp_path) == ""
    assert TreeSnapshots({"PATH": str(tmp_path)}).tree(tmp_path) == ""


def test_a_repository_created_later_is_found(tmp_path: Path) -> None:
    """That a directory was not in a repository is not remembered."""
    (tmp_path / "a.txt").write_text("one\n")
    trees = TreeSnapshots(ENVIRON)
    assert trees.tree(tmp_path) == ""
    git(tmp_path, "init", "-q", "-b", "main")
    assert names(tmp_path, trees.tree(tmp_path)) == ["a.txt"]


def test_a_git_error_is_raised_and_remembered(root: Path) -> None:
    """The next call raises the same error without running git."""
    index = root / ".git/index"
    index.write_bytes(b"nonsense")
    trees = TreeSnapshots(ENVIRON, root / ".awf")
    with pytest.raises(GitRefusedError, match=r"git add .*index"):
        trees.tree(root)
    index.unlink()
    with pytest.raises(GitRefusedError, match="git add"):
        trees.tree(root)
    assert TreeSnapshots(ENVIRON, root / ".awf").tree(root)


def test_the_difference_of_two_trees(root: Path) -> None:
    """Changed lines with context; binary files and odd names in plain characters."""
    old = TreeSnapshots(ENVIRON, root / ".awf").tree(root)
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "b.bin").write_bytes(b"\0\1")
    (root / "odd\n`\N{SNOWMAN}.txt").write_text("x\n")
    new = TreeSnapshots(ENVIRON, root / ".awf").tree(root)
    stat, patch = stat_of(root, ENVIRON, old, new), patch_of(root, ENVIRON, old, new)
    assert stat.endswith("3 files changed, 2 insertions(+)")
    assert "@@ -1 +1,2 @@\n one\n+two\n" in patch
    assert "b/b.bin" in patch
    assert '"b/odd\\n`\\342\\230\\203.txt"' in patch
    assert (stat_of(root, ENVIRON, new, new), patch_of(root, ENVIRON, new, new)) == ("", "")
    with pytest.raises(GitRefusedError, match="git diff"):
        stat_of(root, ENVIRON, "1" * 40, new)


@pytest.mark.parametrize(
    ("name", "expected"), [("1" * 40, True), ("a" * 64, True), ("1" * 39, False), ("--output=x", False), (7, False)]
)
def test_only_a_full_hash_names_a_tree(name: object, expected: bool) -> None:  # noqa: FBT001 - a value of the table
    """A value from the context never becomes an option of git."""
    assert is_tree(name) is expected
