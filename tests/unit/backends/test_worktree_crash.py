"""Worktrees when something is killed midway: after a second call the tree is right and no commit is lost."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipeline.backends.worktree import GitWorktrees
from pipeline.backends.worktree_paths import hold_lease
from pipeline.engine.ports import WorkspaceError
from pipeline.engine.state import Workspace

STEPS = 3
GOES_ON, NEVER_RAN = "", "exit 1"  # what becomes of the git whose starter was killed
RUN = """
import asyncio, os, sys
from dataclasses import replace
from pathlib import Path
from pipeline.backends.worktree import GitWorktrees

async def main(repo, journal):
    trees = GitWorktrees(repo / ".awf/worktrees", os.environ)
    workspace = await trees.create(repo, "r1")
    done = journal.read_text().split()
    for step in range(len(done), int(sys.argv[3])):
        workspace = replace(workspace, commit=done[-1] if done else workspace.base)
        await trees.restore(workspace, f"r1/{step}")
        (workspace.path / f"{step}.txt").write_text(str(step))
        workspace = await trees.commit(workspace, f"step {step}", {"Awf-Run": "r1"})
        done.append(workspace.commit)
        with journal.open("a") as file:
            file.write(workspace.commit + "\\n")

asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2])))
"""


@dataclass(frozen=True)
class World:
    """A repository, and a git in front of the real one that misbehaves at its n-th call."""

    root: Path
    env: dict[str, str]

    @property
    def repo(self) -> Path:
        return self.root / "repo"

    @property
    def trees(self) -> GitWorktrees:
        return GitWorktrees(self.repo / ".awf/worktrees", self.env)

    def git(self, *arguments: str) -> str:
        person = ("-c", "user.name=Pat", "-c", "user.email=pat@example.org")
        command = ["git", "-C", str(self.repo), *person, *arguments]
        return subprocess.run(command, env=self.env, check=True, capture_output=True, text=True).stdout.strip()

    def intercepting(self, when: str, what: str) -> GitWorktrees:
        """Worktrees whose git does something else, once, when a shell condition is true."""
        return GitWorktrees(self.repo / ".awf/worktrees", self.intercepted(when, what))

    def intercepted(self, when: str, what: str) -> dict[str, str]:
        fake = self.root / "bin/git"
        fake.parent.mkdir(exist_ok=True)
        count = f'read n < "{self.root}/calls"; n=$((n + 1)); echo $n > "{self.root}/calls"'
        real = shutil.which("git", path=self.env["PATH"])
        fake.write_text(f'#!/bin/sh\n{count}\nif {when}; then\n{what}\nfi\nexec {real} "$@"\n')
        fake.chmod(0o755)
        (self.root / "calls").write_text("0\n")
        return self.env | {"PATH": f"{fake.parent}:{self.env['PATH']}"}

    def run(self, env: dict[str, str]) -> int:
        command = [sys.executable, "-c", RUN, str(self.repo), str(self.root / "journal"), str(STEPS)]
        return subprocess.run(command, env=env, check=False, capture_output=True).returncode

    def journal(self) -> list[str]:
        return (self.root / "journal").read_text().split()


@pytest.fixture
def world(template: World, tmp_path: Path) -> World:
    root = tmp_path / "world"
    shutil.copytree(template.root, root)
    return World(root, template.env | {"HOME": str(root / "home")})


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What every test gets a copy of."""
    root = tmp_path_factory.mktemp("template")
    (root / "home").mkdir()
    env = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    world = World(root, env)
    (root / "journal").touch()
    subprocess.run(["git", "init", "-q", "-b", "main", world.repo], env=env, check=True)
    (world.repo / ".gitignore").write_text(".awf/\n")
    for number in range(20):
        (world.repo / f"old-{number}").write_text("old")
    world.git("add", "--all")
    world.git("commit", "-qm", "first")
    return world


@pytest.mark.parametrize("then", [GOES_ON, NEVER_RAN])
@pytest.mark.parametrize("call", range(3, 89, 10))
def test_a_killed_run_ends_like_any_other(world: World, call: int, then: str) -> None:
    """Killed at any git command and started again, it has each step once, and every commit it had recorded."""
    assert world.run(world.intercepted(f"[ $n = {call} ]", f"kill -9 $PPID\n{then}")) == -9
    noted = world.journal()
    assert world.run(world.env) == 0
    assert world.journal()[: len(noted)] == noted
    assert world.git("log", "--reverse", "--format=%H", "main..awf/r1").split() == world.journal()
    assert world.git("log", "--reverse", "--format=%s", "main..awf/r1").splitlines() == [
        f"step {step}" for step in range(STEPS)
    ]
    path = world.repo / ".awf/worktrees/r1"
    assert sorted(file.name for file in path.glob("?.txt")) == [f"{step}.txt" for step in range(STEPS)]
    assert world.git("-C", str(path), "status", "--porcelain") == ""
    assert world.git("status", "--porcelain") == ""


Call = Callable[[GitWorktrees, Path, Workspace], Coroutine[Any, Any, object]]
CALLS: dict[str, Call] = {
    "create": lambda trees, repo, _: trees.create(repo, "r2"),
    "commit": lambda trees, _, workspace: trees.commit(workspace, "work", {}),
    "restore": lambda trees, _, workspace: trees.restore(workspace, "r1/x"),
}


async def prepared(world: World) -> Workspace:
    workspace = await world.trees.create(world.repo, "r1")
    for number in range(20):
        (workspace.path / f"old-{number}").write_text("new")
    return workspace


async def check(world: World, name: str, workspace: Workspace) -> None:
    """Call again, and check that the result is as if the first call had succeeded."""
    await CALLS[name](world.trees, world.repo, workspace)
    branch = "r2" if name == "create" else "r1"
    assert world.git("-C", str(workspace.path.with_name(branch)), "status", "--porcelain") == ""
    expected = "new" if name == "commit" else "old"
    assert world.git("show", f"awf/{branch}:old-7") == expected
    assert (workspace.path.with_name(branch) / "old-7").read_text() == expected
    if name == "restore":
        kept = world.git("rev-list", "refs/awf/torn/r1/x", "--not", "main").split()
        assert any(is_complete(world, commit) for commit in kept)


def is_complete(world: World, commit: str) -> bool:
    """Whether a commit holds every file as it was before the restore."""
    changed = world.git("diff", "--name-only", "--diff-filter=M", "main", commit).split()
    return len(changed) == 20


@pytest.mark.parametrize("name", CALLS)
def test_a_second_call_repairs_what_a_killed_git_left(world: World, name: str) -> None:
    """A git killed with its locks held and half its files written is an error that the next call repairs."""

    async def scenario() -> None:
        workspace = await prepared(world)
        direction = "clean" if name == "commit" else "smudge"
        bomb = world.root / "bomb.sh"
        bomb.write_text(f'if [ "$1" = old-7 ] && rm "{world.root}/armed" 2>/dev/null; then kill -9 0; fi; exec cat\n')
        world.git("config", "--global", f"filter.bomb.{direction}", f"sh {bomb} %f")
        (world.repo / ".git/info").mkdir(exist_ok=True)
        (world.repo / ".git/info/attributes").write_text("* filter=bomb\n")
        (world.root / "armed").touch()
        with pytest.raises(WorkspaceError, match="killed by signal 9"):
            await CALLS[name](world.trees, world.repo, workspace)
        assert not (world.root / "armed").exists()
        await check(world, name, workspace)

    asyncio.run(scenario())


COMMANDS = {
    "create": ("rev-parse", "update-ref", "worktree"),
    "commit": ("symbolic-ref", "add", "commit"),
    "restore": ("status", "add", "commit-tree", "update-ref", "reset", "clean"),
}


@pytest.mark.parametrize(("name", "verb"), [(name, verb) for name, verbs in COMMANDS.items() for verb in verbs])
def test_a_cancelled_call_ends_git_and_can_be_repeated(world: World, name: str, verb: str) -> None:
    """The command it waits for is gone when the cancellation is raised."""

    async def scenario() -> None:
        workspace = await prepared(world)
        os.mkfifo(world.root / "reached")
        os.mkfifo(world.root / "never")
        wait = f'echo $$ > "{world.root}/reached"; read x < "{world.root}/never"'
        trees = world.intercepting(f'case " $* " in *" {verb} "*) ;; *) false;; esac', wait)
        call = asyncio.create_task(CALLS[name](trees, world.repo, workspace))
        process = int(await asyncio.to_thread((world.root / "reached").read_text))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
        await check(world, name, workspace)

    asyncio.run(scenario())


def test_a_git_that_is_still_starting_is_ended_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancellation during the start leaves neither git nor what it runs."""

    async def scenario() -> None:
        os.mkfifo(world.root / "reached")
        handed_over, start = asyncio.Event(), asyncio.create_subprocess_exec

        async def slow(*arguments: Any, **options: Any) -> asyncio.subprocess.Process:
            process = await start(*arguments, **options)
            await handed_over.wait()
            return process

        trees = world.intercepting("true", f'sleep 300 &\necho $$ $! > "{world.root}/reached"; wait')
        monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
        call = asyncio.create_task(trees.create(world.repo, "r2"))
        processes = (await asyncio.to_thread((world.root / "reached").read_text)).split()
        call.cancel()
        await asyncio.sleep(0)  # so that it is cancelled in the middle of that
        handed_over.set()
        await asyncio.wait({call}, timeout=20)
        assert call.cancelled()
        await asyncio.to_thread(wait_for_end, processes)

    asyncio.run(scenario())


def wait_for_end(processes: list[str]) -> None:
    """Wait until killed processes are gone: the system may need a moment."""
    deadline = time.monotonic() + 10
    while alive := [pid for pid in processes if is_alive(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.01)


def is_alive(pid: str) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_merge_that_is_writing_files_finishes_before_its_cancellation(world: World) -> None:
    """The user's checkout is never left with half of the files."""

    async def scenario() -> None:
        workspace = await world.trees.commit(await prepared(world), "work", {})
        os.mkfifo(world.root / "reached")
        os.mkfifo(world.root / "go")
        wait = f'echo > "{world.root}/reached"; read x < "{world.root}/go"'
        trees = world.intercepting('case " $* " in *" --ff-only "*) ;; *) false;; esac', wait)
        call = asyncio.create_task(trees.merge(world.repo, workspace, "Merge"))
        await asyncio.to_thread((world.root / "reached").read_text)
        call.cancel()
        await asyncio.to_thread((world.root / "go").write_text, "\n")
        with pytest.raises(asyncio.CancelledError):
            await call
        assert world.git("log", "-1", "--format=%s") == "Merge"
        assert world.git("status", "--porcelain") == ""
        assert (await world.trees.merge(world.repo, workspace, "Merge")).commit == world.git("rev-parse", "HEAD")

    asyncio.run(scenario())


BOMB = """
case "$(git rev-parse --absolute-git-dir)" in */worktrees/*) exec cat;; esac
if [ "$1" = old-7 ] && rm "{root}/armed" 2>/dev/null; then kill -9 {victims}; fi
exec cat
"""


def armed(world: World, victims: str) -> None:
    """Kill something as soon as the user's checkout is half merged."""
    (world.root / "bomb.sh").write_text(BOMB.format(root=world.root, victims=victims))
    world.git("config", "--global", "filter.bomb.smudge", f"sh {world.root}/bomb.sh %f")
    (world.repo / ".git/info").mkdir(exist_ok=True)
    (world.repo / ".git/info/attributes").write_text("* filter=bomb\n")
    (world.root / "armed").touch()


MERGE = """
import asyncio, os, sys
from pathlib import Path
from pipeline.backends.worktree import GitWorktrees

async def main(repo):
    trees = GitWorktrees(repo / ".awf/worktrees", os.environ)
    await trees.merge(repo, await trees.create(repo, "r1"), "Merge")

(Path(sys.argv[2])).write_text(str(os.getpid()))
asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.mark.parametrize("also", ["", '$(cat "{root}/pid")'])
def test_a_merge_whose_git_is_killed_is_undone_and_repeated(world: World, also: str) -> None:
    """Whether git is killed alone or with its parent, nothing is half merged, and the user's changes are untouched."""
    workspace = asyncio.run(prepared(world))
    (workspace.path / "added").write_text("new")
    workspace = asyncio.run(world.trees.commit(workspace, "work", {}))
    (world.repo / "mine").write_text("unsaved")
    armed(world, also.format(root=world.root) + " 0")
    command = [sys.executable, "-c", MERGE, str(world.repo), str(world.root / "pid")]
    died = subprocess.run(command, env=world.env, check=False, capture_output=True, text=True)
    assert died.returncode == (-9 if also else 1)
    assert not (world.root / "armed").exists()
    if not also:
        assert world.git("status", "--porcelain").split() == ["??", "mine"]
    merged = asyncio.run(world.trees.merge(world.repo, workspace, "Merge"))
    assert merged.commit == world.git("rev-parse", "HEAD")
    assert world.git("status", "--porcelain").split() == ["??", "mine"]
    assert {(world.repo / f"old-{number}").read_text() for number in range(20)} == {"new"}
    assert (world.repo / "mine").read_text() == "unsaved"
    assert world.git("for-each-ref", "refs/awf/merging") == ""
    assert world.git("rev-parse", "refs/awf/torn/r1-merge^") == world.git("rev-parse", "HEAD^1")


def test_a_merge_whose_branch_was_not_moved_is_repeated(world: World) -> None:
    """Git may be killed when all files and the index are written, but the branch is not moved."""
    workspace = asyncio.run(world.trees.commit(asyncio.run(prepared(world)), "work", {}))
    first = asyncio.run(world.trees.merge(world.repo, workspace, "Merge")).commit
    world.git("update-ref", "refs/awf/merging/r1", str(first))
    world.git("update-ref", "refs/heads/main", f"{first}^1")
    again = asyncio.run(world.trees.merge(world.repo, workspace, "Merge")).commit
    assert again == world.git("rev-parse", "HEAD")
    assert world.git("status", "--porcelain") == ""
    assert (world.repo / "old-7").read_text() == "new"


def test_a_refused_merge_touches_no_change_of_the_user(world: World) -> None:
    """The change is neither overwritten nor undone, even if the refused merge is repeated."""
    workspace = asyncio.run(world.trees.commit(asyncio.run(prepared(world)), "work", {}))
    (world.repo / "old-7").write_text("mine")
    for _ in range(2):
        with pytest.raises(WorkspaceError, match="would overwrite"):
            asyncio.run(world.trees.merge(world.repo, workspace, "Merge"))
        assert world.git("status", "--porcelain") == "M old-7"
    assert (world.repo / "old-7").read_text() == "mine"
    assert world.git("for-each-ref", "refs/awf/merging", "refs/awf/torn") == ""


def test_a_cancelled_cleanup_can_be_repeated(world: World) -> None:
    """The rest of the worktree does not look like work that would be lost."""

    async def scenario() -> None:
        workspace = await world.trees.create(world.repo, "r1")
        os.mkfifo(world.root / "reached")
        os.mkfifo(world.root / "never")
        wait = f'echo > "{world.root}/reached"; read x < "{world.root}/never"'
        trees = world.intercepting('case " $* " in *" worktree remove "*) ;; *) false;; esac', wait)
        call = asyncio.create_task(trees.cleanup(world.repo, workspace))
        await asyncio.to_thread((world.root / "reached").read_text)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await world.trees.cleanup(world.repo, workspace)
        assert world.git("branch", "--list", "awf/*") == ""
        assert len(world.git("worktree", "list").splitlines()) == 1

    asyncio.run(scenario())


def test_a_lease_lasts_as_long_as_a_child_that_inherited_it(tmp_path: Path) -> None:
    """The next holder waits for the git of an ended process, and fails if that takes too long."""

    async def scenario() -> None:
        path = tmp_path / "lease"
        async with hold_lease(path) as held:
            child = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, pass_fds=(held,))
        with pytest.raises(WorkspaceError, match="still working"):
            async with hold_lease(path, max_wait=0.0):
                pass
        await child.communicate(b"")
        async with hold_lease(path, max_wait=0.0):
            path.unlink()
        async with hold_lease(path, max_wait=0.0):
            assert path.exists()

    asyncio.run(scenario())
