"""Worktrees in real repositories, without any configuration of the user's."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pipeline.backends.worktree import GitWorktrees
from pipeline.engine.ports import WorkspaceError, Workspaces
from pipeline.engine.state import Workspace

T = TypeVar("T")
TRAILERS = {"Awf-Run": "r1", "Awf-Stage": "build", "Awf-Visit": "2"}


def now(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


@dataclass(frozen=True)
class World:
    """A repository with a commit, its store, and an empty home."""

    repo: Path
    env: dict[str, str]

    @property
    def trees(self) -> Workspaces:
        return GitWorktrees(self.repo / ".awf/worktrees", self.env)

    def git(self, *arguments: str, at: Path | None = None) -> str:
        person = ("-c", "user.name=Pat", "-c", "user.email=pat@example.org")
        command = ["git", "-C", str(at or self.repo), *person, *arguments]
        return os.fsdecode(subprocess.run(command, env=self.env, check=True, capture_output=True).stdout).strip()

    def head(self, at: Path | None = None) -> str:
        return self.git("rev-parse", "HEAD", at=at)

    def files(self, commit: str) -> list[str]:
        return [name for name in self.git("ls-tree", "-r", "-z", "--name-only", commit).split("\0") if name]

    def status(self, at: Path | None = None) -> str:
        return self.git("status", "--porcelain", at=at)

    def create(self, name: str = "r1") -> Workspace:
        return now(self.trees.create(self.repo, name))

    def commit(self, workspace: Workspace, subject: str = "work") -> Workspace:
        return now(self.trees.commit(workspace, subject, TRAILERS))

    def person_commits(self, name: str, text: str) -> str:
        (self.repo / name).write_text(text)
        self.git("add", "--all")
        self.git("commit", "-qm", f"person writes {name}")
        return self.head()


def repository(tmp_path: Path) -> World:
    """A repository as `awf` finds it; the store ignores itself."""
    (tmp_path / "home").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    world = World(tmp_path / "repo", env)
    subprocess.run(["git", "init", "-q", "-b", "main", world.repo], env=env, check=True)
    (world.repo / ".awf").mkdir()
    (world.repo / ".awf/.gitignore").write_text("*\n")
    (world.repo / ".gitignore").write_text("build/\n")
    world.person_commits("a.txt", "one\n")
    return world


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What every test gets a copy of."""
    return repository(tmp_path_factory.mktemp("template"))


@pytest.fixture
def world(template: World, tmp_path: Path) -> World:
    shutil.copytree(template.repo, tmp_path / "repo")
    (tmp_path / "home").mkdir()
    return World(tmp_path / "repo", template.env | {"HOME": str(tmp_path / "home")})


def without(path: Path, name: str) -> dict[str, bytes]:
    """Every file below a directory, except those in one of its directories."""
    found = (file for file in path.rglob("*") if file.is_file() and name not in file.relative_to(path).parts)
    return {str(file.relative_to(path)): file.read_bytes() for file in found}


class TestCreate:
    def test_a_worktree_is_made_on_its_own_branch(self, world: World) -> None:
        """It has the files of HEAD, and the user's checkout does not show it."""
        made = world.create()
        assert made == Workspace(world.repo / ".awf/worktrees/r1", "awf/r1", world.head(), world.head())
        assert world.git("branch", "--show-current", at=made.path) == "awf/r1"
        assert (made.path / "a.txt").read_text() == "one\n"
        assert world.status() == ""
        assert world.git("branch", "--show-current") == "main"

    def test_it_is_ignored_where_the_store_does_not_ignore_itself(self, world: World) -> None:
        """Worktrees below any directory of the repository stay out of its status."""
        now(GitWorktrees(world.repo / "elsewhere", world.env).create(world.repo, "r1"))
        assert world.status() == ""

    def test_it_can_be_made_from_a_subdirectory(self, world: World) -> None:
        """The top of the repository is found."""
        (world.repo / "deep").mkdir()
        made = now(world.trees.create(world.repo / "deep", "r1"))
        assert (made.path / "a.txt").exists()

    def test_a_second_call_keeps_what_exists(self, world: World) -> None:
        """Commits, uncommitted files and the base stay, even if the user's branch has moved."""
        first = world.create()
        (first.path / "b.txt").write_text("b")
        saved = world.commit(first)
        (first.path / "c.txt").write_text("c")
        world.person_commits("other.txt", "x")
        assert world.create() == saved
        assert (first.path / "c.txt").read_text() == "c"

    @pytest.mark.parametrize("missing", ["directory", "registration", "link", "worktree and base"])
    def test_a_half_made_one_is_completed(self, world: World, missing: str) -> None:
        """Whichever part is missing, the commits of the branch are kept."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        if missing in {"directory", "worktree and base"}:
            shutil.rmtree(made.path)
        if missing == "registration":
            shutil.rmtree(world.repo / ".git/worktrees/r1")
        if missing == "link":
            (made.path / ".git").unlink()
        if missing == "worktree and base":
            world.git("worktree", "prune")
            world.git("update-ref", "-d", "refs/awf/base/r1")
        assert world.create() == saved
        assert world.status(made.path) == ""
        assert (made.path / "b.txt").read_text() == "b"
        assert world.git("for-each-ref", "refs/awf/torn") == ""

    def test_one_in_which_git_was_killed_is_made_again(self, world: World) -> None:
        """Files that were not checked out yet do not count as deleted."""
        made = world.create()
        (made.path / "a.txt").unlink()
        (world.repo / ".git/worktrees/r1/locked").write_text("initializing")
        (world.repo / ".git/refs/heads/awf/r1.lock").touch()
        assert world.create() == made
        assert world.status(made.path) == ""
        assert not (world.repo / ".git/worktrees/r1/locked").exists()

    def test_files_of_a_worktree_that_lost_its_link_are_kept(self, world: World) -> None:
        """They are saved under a ref before it is made again."""
        made = world.create()
        (made.path / ".git").unlink()
        (made.path / "new.txt").write_text("new")
        assert world.create() == made
        assert world.git("show", "refs/awf/torn/r1-remade:new.txt") == "new"

    def test_an_unusable_repository_is_refused(self, world: World, tmp_path: Path) -> None:
        """No repository, no commit, or bare: the error says so and what to do, and nothing is left behind."""
        for name, options in (("none", None), ("empty", ["-q"]), ("bare", ["-q", "--bare"])):
            (tmp_path / name).mkdir()
            if options:
                world.git("init", *options, str(tmp_path / name))
        for name, said, advice in (
            ("none", "not a git repository", "git init"),
            ("empty", "no commit yet", "first commit"),
            ("bare", "bare repository", "clone"),
        ):
            trees = GitWorktrees(tmp_path / name / ".awf/worktrees", world.env)
            with pytest.raises(WorkspaceError, match=said) as caught:
                now(trees.create(tmp_path / name, "r1"))
            assert advice in (caught.value.help or "")
            assert not (tmp_path / name / ".awf").exists()

    def test_a_missing_git_is_an_error(self, world: World) -> None:
        """The error says what to install."""
        with pytest.raises(WorkspaceError, match="git was not found"):
            now(GitWorktrees(world.repo / ".awf/worktrees", {"PATH": "/nowhere"}).create(world.repo, "r1"))

    @pytest.mark.parametrize("name", ["../x", "", ".x", "-x", "a..b", "a/b", "x.lock", "a b", "a."])
    def test_a_name_that_leaves_the_directory_is_refused(self, world: World, name: str) -> None:
        """A worktree stays in its directory, and its branch below `awf/`."""
        with pytest.raises(WorkspaceError, match="cannot name a worktree"):
            world.create(name)

    def test_a_branch_checked_out_elsewhere_is_refused(self, world: World) -> None:
        """Two worktrees on one branch would undo each other."""
        world.git("checkout", "-qb", "awf/r1")
        with pytest.raises(WorkspaceError, match=f"checked out in {world.repo}"):
            world.create()

    def test_one_of_another_repository_is_refused(self, world: World, tmp_path: Path) -> None:
        """A store shared by two repositories keeps their worktrees apart."""
        (tmp_path / "second").mkdir()
        second = repository(tmp_path / "second")
        trees = GitWorktrees(tmp_path / "store", world.env)
        now(trees.create(world.repo, "r1"))
        with pytest.raises(WorkspaceError, match="belongs to the repository"):
            now(trees.create(second.repo, "r1"))

    def test_a_repository_named_in_the_environment_is_ignored(self, world: World, tmp_path: Path) -> None:
        """The variables that a git hook sets change nothing."""
        env = world.env | {"GIT_DIR": str(tmp_path / "other"), "GIT_INDEX_FILE": str(tmp_path / "index")}
        made = now(GitWorktrees(world.repo / ".awf/worktrees", env).create(world.repo, "r1"))
        assert world.status(made.path) == ""


class TestCommit:
    def test_everything_that_changed_is_committed_with_trailers(self, world: World) -> None:
        """New, changed and deleted files, but no ignored ones; the trailers say what made them."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        (made.path / "a.txt").unlink()
        (made.path / "build").mkdir()
        (made.path / "build/out.o").write_text("o")
        saved = now(world.trees.commit(made, "build:\n the thing", TRAILERS | {"Note": "two\nlines", "Odd key": "v"}))
        assert saved == replace(made, commit=world.head(made.path))
        assert world.files(saved.commit) == [".gitignore", "b.txt"]
        assert world.git("log", "-1", "--format=%s|%an <%ae>|%cn <%ce>", saved.commit) == (
            "build: the thing|awf <awf@localhost>|awf <awf@localhost>"
        )
        trailers = world.git("log", "-1", "--format=%(trailers)", saved.commit)
        assert trailers.splitlines() == [
            *(f"{key}: {value}" for key, value in TRAILERS.items()),
            "Note: two lines",
            "Odd-key: v",
        ]

    def test_an_unchanged_tree_is_not_committed(self, world: World) -> None:
        """The workspace stays the same, even if ignored files were added."""
        made = world.create()
        (made.path / "build").mkdir()
        (made.path / "build/out.o").write_text("o")
        assert world.commit(made) == made

    def test_a_user_known_to_git_is_the_committer(self, world: World) -> None:
        """The author is still awf: the user did not write it."""
        world.git("config", "user.name", "Pat")
        world.git("config", "user.email", "pat@example.org")
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        assert world.git("log", "-1", "--format=%an|%cn <%ce>", saved.commit) == "awf|Pat <pat@example.org>"

    def test_hooks_and_signing_are_off(self, world: World) -> None:
        """The user's checks are for their own commits."""
        hook = world.repo / ".git/hooks/pre-commit"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n")
        hook.chmod(0o755)
        world.git("config", "commit.gpgSign", "true")
        world.git("config", "core.safecrlf", "true")
        made = world.create()
        (made.path / "b.txt").write_text("b")
        assert world.commit(made).commit != made.commit

    def test_commits_of_the_agent_count(self, world: World) -> None:
        """HEAD is the checkpoint, with a commit on top if something was uncommitted."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        world.git("add", "--all", at=made.path)
        world.git("commit", "-qm", "agent", at=made.path)
        saved = world.commit(made)
        assert saved.commit == world.head(made.path)
        (made.path / "c.txt").write_text("c")
        assert world.git("rev-parse", f"{world.commit(saved).commit}^") == saved.commit

    def test_another_branch_is_an_error_that_names_it(self, world: World) -> None:
        """What the agent did there is not taken as the run's work."""
        made = world.create()
        world.git("checkout", "-qb", "feature", at=made.path)
        with pytest.raises(WorkspaceError, match='the branch "feature" is checked out') as caught:
            world.commit(made)
        assert "checkout awf/r1" in (caught.value.help or "")

    def test_a_detached_head_that_went_forward_takes_the_branch_along(self, world: World) -> None:
        """Only the name was lost, so it is restored."""
        made = world.create()
        world.git("checkout", "-q", "--detach", at=made.path)
        (made.path / "b.txt").write_text("b")
        world.git("add", "--all", at=made.path)
        world.git("commit", "-qm", "agent", at=made.path)
        (made.path / "c.txt").write_text("c")
        saved = world.commit(made)
        assert world.git("branch", "--show-current", at=made.path) == "awf/r1"
        assert world.git("rev-parse", "awf/r1") == saved.commit
        assert world.files(saved.commit) == [".gitignore", "a.txt", "b.txt", "c.txt"]

    def test_a_detached_head_that_went_back_is_an_error(self, world: World) -> None:
        """It would take commits off the branch."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        world.git("checkout", "-q", "--detach", made.base, at=made.path)
        with pytest.raises(WorkspaceError, match=f"HEAD is detached at {made.base}"):
            world.commit(saved)
        assert world.git("rev-parse", "awf/r1") == saved.commit

    def test_unusual_files_are_saved_unchanged(self, world: World) -> None:
        """Links, executable bits, and names with newlines, dashes, pathspec magic and any letters."""
        made = world.create()
        names = ["-dash", ":(exclude)x", "new\nline", "ünï ☃", "glob*", "sp ace ", 'quo"te']
        for name in names:
            (made.path / name).write_text("x")
        (made.path / os.fsdecode(b"bytes\xff")).write_text("x")
        (made.path / "run").write_text("#!/bin/sh\n")
        (made.path / "run").chmod(0o755)
        (made.path / "link").symlink_to("nowhere/at all")
        os.mkfifo(made.path / "fifo")
        saved = world.commit(made)
        assert set(names) <= set(world.git("ls-tree", "-z", "--name-only", saved.commit).split("\0"))
        assert world.git("ls-tree", saved.commit, "run").startswith("100755")
        assert world.git("ls-tree", saved.commit, "link").startswith("120000")
        assert now(world.trees.restore(saved, "r1/x")) is None

    @pytest.mark.parametrize("commits", [0, 1])
    def test_a_nested_repository_is_named_as_not_captured(self, world: World, commits: int) -> None:
        """The rest is committed, the message names what is not, and restoring leaves it alone."""
        made = world.create()
        world.git("init", "-q", str(made.path / "lib/inner"))
        (made.path / "lib/inner/x.txt").write_text("x")
        for _ in range(commits):
            world.git("add", "--all", at=made.path / "lib/inner")
            world.git("commit", "-qm", "inner", at=made.path / "lib/inner")
        assert world.commit(made) == made
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        assert world.files(saved.commit) == [".gitignore", "a.txt", "b.txt"]
        assert "Not-Captured: lib/inner" in world.git("log", "-1", "--format=%B", saved.commit)
        assert now(world.trees.restore(saved, "r1/x")) is None
        assert (made.path / "lib/inner/x.txt").read_text() == "x"

    def test_git_init_in_a_directory_of_the_project_changes_nothing(self, world: World) -> None:
        """Tracked and new files in it are still committed."""
        (world.repo / "src").mkdir()
        world.person_commits("src/main.py", "1")
        made = world.create()
        world.git("init", "-q", str(made.path / "src"))
        (made.path / "src/main.py").write_text("22")
        (made.path / "src/new.py").write_text("3")
        assert world.files(world.commit(made).commit) == [".gitignore", "a.txt", "src/main.py", "src/new.py"]

    def test_submodules_are_saved_as_commits(self, world: World, tmp_path: Path) -> None:
        """A new commit in one is recorded; its uncommitted changes are named as not captured."""
        (tmp_path / "second").mkdir()
        inner = repository(tmp_path / "second")
        allow = ("-c", "protocol.file.allow=always")
        world.git(*allow, "submodule", "--quiet", "add", str(inner.repo), "sub")
        world.git("commit", "-qm", "submodule")
        made = world.create()
        world.git(*allow, "submodule", "--quiet", "update", "--init", at=made.path)
        (made.path / "sub/a.txt").write_text("changed")
        world.git("commit", "-qam", "inner", at=made.path / "sub")
        saved = world.commit(made)
        assert world.git("ls-tree", saved.commit, "sub").split()[2] == world.head(made.path / "sub")
        (made.path / "sub/a.txt").write_text("dirty")
        assert world.commit(saved) == saved
        (made.path / "b.txt").write_text("b")
        assert "Not-Captured: sub" in world.git("log", "-1", "--format=%B", world.commit(saved).commit)

    def test_locks_of_a_killed_git_are_cleared(self, world: World) -> None:
        """Nothing else writes to this worktree."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        for lock in ("worktrees/r1/index.lock", "worktrees/r1/HEAD.lock", "refs/heads/awf/r1.lock"):
            (world.repo / ".git" / lock).touch()
        assert world.commit(made).commit != made.commit

    def test_a_worktree_without_its_link_is_not_confused_with_the_checkout_around_it(self, world: World) -> None:
        """The user's own files are never staged, reset or cleaned."""
        made = world.create()
        (made.path / ".git").unlink()
        (world.repo / "mine.txt").write_text("mine")
        with pytest.raises(WorkspaceError, match="no longer a git worktree"):
            world.commit(made)
        assert now(world.trees.restore(made, "r1/x")) is None
        assert world.status() == "?? mine.txt"


class TestRestore:
    def test_an_untouched_worktree_needs_no_ref(self, world: World) -> None:
        """Nothing is saved, and nothing is changed."""
        assert now(world.trees.restore(world.create(), "r1/build/1")) is None
        assert world.git("for-each-ref", "refs/awf/torn") == ""

    def test_interrupted_work_is_saved_and_the_files_are_reset(self, world: World) -> None:
        """Changed, staged, deleted and untracked files are under the ref; ignored files stay."""
        made = world.create()
        (made.path / "keep.txt").write_text("keep")
        saved = world.commit(made)
        (made.path / "a.txt").write_text("torn")
        (made.path / "keep.txt").unlink()
        (made.path / "new").mkdir()
        (made.path / "new/file").write_text("new")
        world.git("add", "a.txt", at=made.path)
        (made.path / "build").mkdir()
        (made.path / "build/cache").write_text("cache")
        ref = now(world.trees.restore(saved, "r1/build/1"))
        assert ref == "refs/awf/torn/r1/build/1"
        assert world.files(ref) == [".gitignore", "a.txt", "new/file"]
        assert world.git("show", f"{ref}:a.txt") == "torn"
        assert world.git("rev-parse", f"{ref}^", "awf/r1", "awf/r1").splitlines() == [saved.commit] * 3
        assert without(made.path, "build") | {".git": b""} == {
            ".git": b"",
            ".gitignore": b"build/\n",
            "a.txt": b"one\n",
            "keep.txt": b"keep",
        }
        assert (made.path / "build/cache").read_text() == "cache"

    def test_commits_after_the_checkpoint_are_saved(self, world: World) -> None:
        """A branch that is moved back loses no commit."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        later = world.commit(made)
        ref = now(world.trees.restore(made, "r1"))
        assert ref
        assert world.git("rev-parse", f"{ref}^") == later.commit
        assert world.head(made.path) == made.commit

    def test_the_run_s_branch_is_checked_out_again(self, world: World) -> None:
        """Even if the agent deleted it."""
        made = world.create()
        world.git("checkout", "-qb", "feature", at=made.path)
        world.git("branch", "-qD", "awf/r1")
        world.git("commit", "-q", "--allow-empty", "-m", "agent", at=made.path)
        ref = now(world.trees.restore(made, "r1"))
        assert ref
        assert world.git("rev-parse", f"{ref}^") == world.git("rev-parse", "feature")
        assert world.git("branch", "--show-current", at=made.path) == "awf/r1"

    def test_a_second_restore_keeps_the_first_state(self, world: World) -> None:
        """A restore that was itself interrupted has saved the state that matters."""
        made = world.create()
        (made.path / "a.txt").write_text("torn")
        ref = now(world.trees.restore(made, "r1"))
        assert now(world.trees.restore(made, "r1")) == ref
        (made.path / "a.txt").write_text("half put back")
        assert now(world.trees.restore(made, "r1")) == ref
        assert ref
        assert world.git("show", f"{ref}:a.txt") == "half put back"
        assert world.git("show", f"{ref}^2:a.txt") == "torn"

    def test_an_unfinished_merge_or_rebase_is_cleared(self, world: World) -> None:
        """Locks and unfinished merges of a killed git do not reach the next attempt."""
        made = world.create()
        (made.path / "a.txt").write_text("ours")
        saved = world.commit(made)
        other = world.person_commits("a.txt", "theirs")
        for work in (["merge", other], ["rebase", other], ["cherry-pick", other]):
            with pytest.raises(subprocess.CalledProcessError):
                world.git(*work, at=made.path)
            (world.repo / ".git/worktrees/r1/index.lock").touch()
            assert now(world.trees.restore(saved, f"r1/{work[0]}"))
            assert "nothing to commit" in world.git("status", at=made.path)
            assert "in progress" not in world.git("status", at=made.path)
            assert world.head(made.path) == saved.commit

    @pytest.mark.parametrize("lost", ["directory", "note", "everything"])
    def test_a_worktree_that_vanished_is_made_again(self, world: World, lost: str) -> None:
        """Even if only its branch is left."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        shutil.rmtree(made.path if lost != "everything" else made.path.parent)
        if lost == "note":
            (made.path.parent / ".r1").unlink()
        assert now(world.trees.restore(saved, "r1")) is None
        assert (made.path / "b.txt").read_text() == "b"
        assert world.status(made.path) == ""

    def test_a_worktree_turned_into_a_repository_is_saved_and_replaced(self, world: World) -> None:
        """`rm -rf .git && git init` loses no file and does not escape the run."""
        made = world.create()
        (made.path / ".git").unlink()
        world.git("init", "-q", str(made.path))
        (made.path / "new.txt").write_text("new")
        ref = now(world.trees.restore(made, "r1"))
        assert ref
        assert world.git("show", f"{ref}:new.txt") == "new"
        assert world.git("branch", "--show-current", at=made.path) == "awf/r1"
        assert not (made.path / "new.txt").exists()

    def test_a_store_outside_of_the_repository_knows_it(self, world: World, tmp_path: Path) -> None:
        """The owner file beside the worktree names it."""
        made = now(GitWorktrees(tmp_path / "store", world.env).create(world.repo, "r1"))
        shutil.rmtree(made.path)
        assert now(GitWorktrees(tmp_path / "store", world.env).restore(made, "r1")) is None
        assert (made.path / "a.txt").exists()

    def test_a_stage_with_an_unusual_name_gets_a_plain_ref(self, world: World) -> None:
        """Characters that git does not allow in a ref are replaced."""
        made = world.create()
        (made.path / "a.txt").write_text("torn")
        assert now(world.trees.restore(made, "r1/a b..c~/2")) == "refs/awf/torn/r1/a-b--c-/2"


class TestMerge:
    def test_a_branch_comes_back_as_a_merge_commit(self, world: World) -> None:
        """Even if it could be fast-forwarded, and beside changes that it does not touch."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        (world.repo / "a.txt").write_text("mine")
        (world.repo / "staged.txt").write_text("mine")
        world.git("add", "staged.txt")
        merged = now(world.trees.merge(world.repo, saved, "Merge run r1"))
        assert merged.commit == world.head()
        assert world.git("log", "-1", "--format=%s|%P") == f"Merge run r1|{made.base} {saved.commit}"
        assert (world.repo / "b.txt").read_text() == "b"
        assert world.status() == "M a.txt\nA  staged.txt"

    def test_a_second_merge_changes_nothing(self, world: World) -> None:
        """A crash between the merge and its record does not merge twice, even after the cleanup."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        first = now(world.trees.merge(world.repo, saved, "Merge"))
        assert now(world.trees.merge(world.repo, saved, "Merge")) == first
        now(world.trees.cleanup(world.repo, saved))
        assert now(world.trees.merge(world.repo, saved, "Merge")) == first

    def test_without_changes_the_merge_is_the_head(self, world: World) -> None:
        """A run that changed nothing makes no merge commit."""
        made = world.create()
        assert now(world.trees.merge(world.repo, made, "Merge")).commit == world.head() == made.base

    @pytest.mark.parametrize("version", ["new", "old"])
    def test_conflicts_are_named_and_the_checkout_is_untouched(
        self, world: World, tmp_path: Path, version: str
    ) -> None:
        """Files, index and HEAD do not change, with an old git either."""
        env = old_git(world, tmp_path) if version == "old" else world.env
        trees = GitWorktrees(world.repo / ".awf/worktrees", env)
        made = world.create()
        for name in ("a.txt", "ünï.txt"):
            (made.path / name).write_text("ours\n")
        saved = world.commit(made)
        world.person_commits("ünï.txt", "theirs\n")
        world.person_commits("a.txt", "theirs\n")
        before = world.head(), world.status()
        assert now(trees.merge(world.repo, saved, "Merge")).conflicts == ("a.txt", "ünï.txt")
        assert (world.repo / "a.txt").read_text() == "theirs\n"
        assert (world.head(), world.status()) == before
        assert not (world.repo / ".git/MERGE_HEAD").exists()

    def test_an_old_git_merges_as_well(self, world: World, tmp_path: Path) -> None:
        """Without `merge-tree --write-tree` the result is the same, and no trace is left."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        other = world.person_commits("c.txt", "c")
        trees = GitWorktrees(world.repo / ".awf/worktrees", old_git(world, tmp_path))
        assert now(trees.merge(world.repo, saved, "Merge")).commit == world.head()
        assert world.git("log", "-1", "--format=%P") == f"{other} {saved.commit}"
        assert (world.repo / "b.txt").exists()
        assert len(world.git("worktree", "list").splitlines()) == 2

    @pytest.mark.parametrize("name", ["a.txt", "new.txt", "secret.env"])
    def test_changes_that_would_be_overwritten_stop_it(self, world: World, name: str) -> None:
        """Tracked, untracked or ignored: the files are named and nothing is changed."""
        (world.repo / ".git/info").mkdir(exist_ok=True)
        made = world.create()
        (made.path / name).write_text("run")
        saved = world.commit(made)
        (world.repo / ".git/info/exclude").write_text("*.env\n")
        (world.repo / name).write_text("mine")
        before = world.status()
        with pytest.raises(WorkspaceError, match=f"overwrite uncommitted changes in .*: {name}"):
            now(world.trees.merge(world.repo, saved, "Merge"))
        assert (world.repo / name).read_text() == "mine"
        assert (world.head(), world.status()) == (made.base, before)

    def test_a_detached_head_is_refused(self, world: World) -> None:
        """There is no branch to merge into."""
        made = world.create()
        world.git("checkout", "-q", "--detach")
        with pytest.raises(WorkspaceError, match="HEAD is detached"):
            now(world.trees.merge(world.repo, made, "Merge"))

    def test_two_simultaneous_merges_both_succeed(self, world: World) -> None:
        """One waits for the other."""

        async def both() -> None:
            await asyncio.gather(*(world.trees.merge(world.repo, saved, "Merge") for saved in runs))

        runs = [world.create(name) for name in ("r1", "r2", "r3")]
        for run in runs:
            (run.path / f"{run.path.name}.txt").write_text("x")
        runs = [world.commit(run) for run in runs]
        now(both())
        assert {"r1.txt", "r2.txt", "r3.txt"} <= set(world.files("HEAD"))


class TestCleanup:
    def test_a_merged_worktree_is_removed_completely(self, world: World) -> None:
        """Worktree, branch and owner file are gone; a second cleanup is fine."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        (made.path / "build").mkdir()
        (made.path / "build/cache").write_text("c")
        (made.path / "build").chmod(0o500)
        saved = world.commit(made)
        now(world.trees.merge(world.repo, saved, "Merge"))
        for _ in range(2):
            now(world.trees.cleanup(world.repo, saved))
            assert not saved.path.exists()
            assert sorted(path.name for path in saved.path.parent.iterdir()) == [".gitignore", ".trash"]
            assert list((saved.path.parent / ".trash").iterdir()) == []
            assert world.git("for-each-ref", "--format=%(refname)") == "refs/heads/main"
            assert len(world.git("worktree", "list").splitlines()) == 1

    def test_an_unmerged_branch_stays(self, world: World) -> None:
        """Only force discards commits."""
        made = world.create()
        (made.path / "b.txt").write_text("b")
        saved = world.commit(made)
        with pytest.raises(WorkspaceError, match='"awf/r1" is not merged') as caught:
            now(world.trees.cleanup(world.repo, saved))
        assert "force" in (caught.value.help or "")
        assert (made.path / "b.txt").exists()
        now(world.trees.cleanup(world.repo, saved, force=True))
        now(world.trees.cleanup(world.repo, saved))
        assert world.git("branch", "--list", "awf/*") == ""

    def test_uncommitted_changes_stay(self, world: World) -> None:
        """They are named, and so is a nested repository, which no commit holds."""
        made = world.create()
        world.git("init", "-q", str(made.path / "inner"))
        (made.path / "b.txt").write_text("b")
        with pytest.raises(WorkspaceError, match=r"uncommitted changes: b.txt, inner/"):
            now(world.trees.cleanup(world.repo, made))
        now(world.trees.cleanup(world.repo, made, force=True))
        assert not made.path.exists()

    def test_a_directory_that_is_no_longer_a_worktree_stays(self, world: World) -> None:
        """It may hold work that exists nowhere else."""
        made = world.create()
        (made.path / ".git").unlink()
        with pytest.raises(WorkspaceError, match="no longer a git worktree"):
            now(world.trees.cleanup(world.repo, made))
        now(world.trees.cleanup(world.repo, made, force=True))
        assert not made.path.exists()


def old_git(world: World, tmp_path: Path) -> dict[str, str]:
    """An environment whose git does not know `merge-tree --write-tree`."""
    real = shutil.which("git", path=world.env["PATH"])
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin/git"
    fake.write_text(f'#!/bin/sh\ncase " $* " in *" merge-tree "*) exit 129;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    return world.env | {"PATH": f"{fake.parent}:{world.env['PATH']}"}


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "left"])
@pytest.mark.parametrize("version", ["new", "old"])
def test_the_files_of_plugins_are_not_part_of_the_work(
    world: World, tmp_path: Path, version: str, *, committed: bool
) -> None:
    """0-38: they do not make a checkout dirty, are not merged, and do not prevent a cleanup."""
    env = old_git(world, tmp_path) if version == "old" else world.env
    trees = GitWorktrees(world.repo / ".awf/worktrees", env, [".wystack"])
    (world.repo / ".wystack").mkdir()
    base = world.person_commits(".wystack/a.json", "committed\n")
    made = now(trees.create(world.repo, "r1"))
    (world.repo / ".wystack/a.json").write_text("written by awf\n")
    (world.repo / ".wystack/b.json").write_text("written by awf\n")
    for name in ("a.json", "b.json"):
        (made.path / ".wystack" / name).write_text("edited by an agent\n")
    (made.path / "b.txt").write_text("b")
    if committed:
        world.git("add", "--all", at=made.path)
        world.git("commit", "--quiet", "--message", "by the agent", at=made.path)
    saved = now(trees.commit(made, "work", TRAILERS))
    assert committed or world.files(saved.commit) == [".gitignore", ".wystack/a.json", "a.txt", "b.txt"]
    merged = now(trees.merge(world.repo, saved, "Merge"))
    assert merged.commit == world.head() != base
    assert world.git("show", "HEAD:.wystack/a.json") == "committed"
    assert world.files("HEAD") == [".gitignore", ".wystack/a.json", "a.txt", "b.txt"]
    for name in ("a.json", "b.json"):
        assert (world.repo / ".wystack" / name).read_text() == "written by awf\n"
    now(trees.cleanup(world.repo, saved))
    assert not saved.path.exists()
