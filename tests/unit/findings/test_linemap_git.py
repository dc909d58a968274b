"""The history of a repository: where lines and files went, read from git and from nowhere else."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.findings.builders import FIRST, assessment

from pipeline.findings.events import PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import FileMap, GitHistory, LineMap, line_maps

ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout.strip()


def commit(root: Path) -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "x")
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one commit."""
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("".join(f"line {number}\n" for number in range(1, 21)))
    git(root, "init", "--quiet")
    commit(root)
    return root


def test_lines_are_followed_into_the_working_tree(root: Path) -> None:
    """An edit and a rename that nobody has committed yet count too."""
    head = git(root, "rev-parse", "HEAD")
    lines = (root / "src" / "a.py").read_text().splitlines()
    (root / "src" / "b.py").write_text("\n".join(["first", *lines]) + "\n")
    git(root, "rm", "--quiet", "src/a.py")
    git(root, "add", "src/b.py")
    found = GitHistory(root, ENVIRONMENT).changes(head)
    assert found is not None
    assert (found.path("src/a.py"), found.line("src/a.py", 7)) == ("src/b.py", 8)


def test_a_rename_is_followed_whatever_a_person_configured_and_whatever_it_is_called(root: Path) -> None:
    """Neither a setting nor a letter beyond ASCII hides where a file went."""
    head = git(root, "rev-parse", "HEAD")
    git(root, "config", "diff.renames", "false")
    git(root, "config", "core.quotePath", "true")
    git(root, "mv", "src/a.py", "src/naïve.py")
    found = GitHistory(root, ENVIRONMENT).changes(head)
    assert found is not None
    assert found.path("src/a.py") == "src/naïve.py"


def test_a_commit_needs_at_least_seven_digits(root: Path) -> None:
    """Fewer may become ambiguous."""
    head, history = git(root, "rev-parse", "HEAD"), GitHistory(root, ENVIRONMENT)
    assert (history.changes(head[:7]), history.changes(head[:6])) == (LineMap(), None)


def test_paths_are_relative_to_a_subdirectory(root: Path) -> None:
    """Below the top, too, paths are relative to where the findings are."""
    head = git(root, "rev-parse", "HEAD")
    (root / "src" / "a.py").write_text("changed\n")
    history = GitHistory(root / "src", ENVIRONMENT)
    found = history.changes(head)
    assert found is not None
    assert found.line("a.py", 7) is None


@pytest.mark.parametrize("commit", ["", "f" * 40, "HEAD", "--output=stolen", "main", "HEAD~1", "0000000;ls"])
def test_an_unreachable_or_invalid_commit_has_no_changes(root: Path, commit: str) -> None:
    """After a rebase the old commit is unreachable; anything that is not a hash never reaches git."""
    assert GitHistory(root, ENVIRONMENT).changes(commit) is None
    assert not (root / "stolen").exists()


def test_two_commits_can_be_compared(root: Path) -> None:
    """A later commit is compared instead of the files as they are, whatever has happened to them since."""
    before, path = git(root, "rev-parse", "HEAD"), root / "src" / "a.py"
    path.write_text(f"first\n{path.read_text()}")
    after = commit(root)
    path.write_text("overwritten\n")
    found = GitHistory(root, ENVIRONMENT).changes(before, after)
    assert found is not None
    assert found.line("src/a.py", 7) == 8


def test_a_file_named_like_a_commit_is_not_a_commit(root: Path) -> None:
    """Revisions and paths are separated on git's command line."""
    head = git(root, "rev-parse", "HEAD")
    (root / head).write_text("x\n")
    (root / "src" / "a.py").write_text("changed\n")
    found = GitHistory(root, ENVIRONMENT).changes(head)
    assert found is not None
    assert found.line("src/a.py", 7) is None


def test_git_variables_do_not_redirect_the_repository(
    root: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A hook's variables are ignored, and git's errors are not printed."""
    head = git(root, "rev-parse", "HEAD")
    history = GitHistory(root, ENVIRONMENT | {"GIT_DIR": str(tmp_path / "elsewhere")})
    assert history.changes(head) == LineMap()
    assert history.changes("f" * 40) is None
    assert capfd.readouterr() == ("", "")


def test_git_gets_no_input_and_a_cleaned_environment(root: Path, tmp_path: Path) -> None:
    """Its standard input is empty."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ncat; echo "diff --git $XDG_A b"; echo "rename from $XDG_A"; echo "rename to b"\n')
    program.chmod(0o755)
    environment = {"PATH": f"{program.parent}:{os.environ['PATH']}", "XDG_A": "a"}
    found = GitHistory(root, environment).changes("f" * 40)
    assert found is not None
    assert dict(found.files) == {"a": FileMap("b")}


def test_a_git_that_hangs_is_killed(root: Path, tmp_path: Path) -> None:
    """With its children; there are no changes then."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    real = shutil.which("git")
    program.write_text(f'#!/bin/sh\ncase "$*" in *" config "*) exec {real} "$@";; esac\ntail -f /dev/null & wait\n')
    program.chmod(0o755)
    environment = ENVIRONMENT | {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    assert GitHistory(root, environment, seconds=0.2).changes("f" * 40) is None


def test_a_diff_that_is_too_long_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit findings are recognised by their text alone."""
    head = git(root, "rev-parse", "HEAD")
    (root / "src" / "a.py").write_text("x\n" * 500)
    monkeypatch.setattr("pipeline.findings.linemap.MAX_DIFF_BYTES", 100)
    assert GitHistory(root, ENVIRONMENT).changes(head) is None


def test_without_git_there_is_no_history(tmp_path: Path) -> None:
    """A folder that does not exist, or that is not in a repository, has no changes."""
    history = GitHistory(tmp_path, ENVIRONMENT | {"GIT_CEILING_DIRECTORIES": str(tmp_path.parent)})
    assert history.changes("f" * 40) is None
    assert GitHistory(tmp_path / "missing", ENVIRONMENT).changes("f" * 40) is None


@dataclass(frozen=True, slots=True)
class Recorded(GitHistory):
    """A history that keeps what it is asked."""

    root: Path = Path()
    environment: Mapping[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def changes(self, old: str, new: str = "") -> LineMap | None:
        self.asked.append(f"{old}..{new}" if new else old)
        return None if old == "gone" else LineMap()


def test_each_commit_is_asked_about_once_and_the_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes of one commit share its map; one that is unreachable, unknown or too old has none."""
    monkeypatch.setattr("pipeline.findings.linemap.MAX_COMMITS", 2)
    heads = {"a": "old", "b": "gone", "c": "", "d": "new", "e": "new"}
    ledger = Ledger(PassRecorded(at=FIRST, assessment=assessment(id, head=head)) for id, head in heads.items())
    history = Recorded()
    assert line_maps(ledger, history).keys() == {"d", "e"}
    assert history.asked == ["new", "gone"]


def test_a_pass_is_compared_by_its_tree_or_else_by_its_commit() -> None:
    """With the tree of the current files; without one only commits are compared."""
    ledger = Ledger(
        PassRecorded(at=FIRST, assessment=assessment(id, head="commit", tree=tree))
        for id, tree in (("a", "t1"), ("b", ""))
    )
    with_tree, without = Recorded(), Recorded()
    assert line_maps(ledger, with_tree, "now").keys() == {"a", "b"}
    assert with_tree.asked == ["commit..now", "t1..now"]
    assert line_maps(ledger, without).keys() == {"a", "b"}
    assert without.asked == ["commit"]
