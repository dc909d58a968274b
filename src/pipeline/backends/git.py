"""The `git` command: started without a shell, deaf to hooks and prompts, and ended when its caller is cancelled.

What a person has configured changes nothing here, save who they are and what they ignore.
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pipeline.engine.workspace import WorkspaceError

NAME, EMAIL = "awf", "awf@localhost"
USAGE = 129  # git's exit code for an option it does not know
_GRACE = 2.0  # seconds for git to take its lock files away before it is killed

_SETTINGS = {
    "color.ui": "false",
    "commit.gpgSign": "false",
    "core.fsmonitor": "false",
    "core.fsync": "committed",  # a checkpoint is on the disk before the journal names it
    "core.fsyncMethod": "batch",
    "core.hooksPath": "/dev/null",
    "core.quotePath": "false",
    "core.safecrlf": "false",  # line endings are no reason to refuse a checkpoint
    "gc.auto": "0",  # a collector in the background would outlive the command and hold the workspace's lease
    "i18n.commitEncoding": "UTF-8",
    "maintenance.auto": "false",
    "merge.autoStash": "false",
    "merge.verifySignatures": "false",
    "submodule.recurse": "false",
}
_OPTIONS = tuple(part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}"))

# A hook or an alias that started us may have set these for a repository of its own.
_FOREIGN = frozenset(
    {
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_IMPLICIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_PREFIX"),
        *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH", "GIT_NAMESPACE"),
        *("GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_CEILING_DIRECTORIES", "GIT_EXTERNAL_DIFF"),
        *("GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"),
    }
)
_QUIET = {"GIT_EDITOR": ":", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Reply:
    """How a git command ended and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Git:
    """The git command in one directory. Its processes inherit the leases in `held`: those end only when git has."""

    directory: Path
    env: Mapping[str, str]
    held: tuple[int, ...] = ()

    def within(self, worktree: Path) -> "Git":
        """The command in a worktree; one without its `.git` is an error, not the checkout that lies around it."""
        return replace(self, directory=worktree).using({"GIT_CEILING_DIRECTORIES": str(worktree.parent)})

    def using(self, variables: Mapping[str, str]) -> "Git":
        """The same command with more in its environment."""
        return replace(self, env={**self.env, **variables})

    async def run(self, *arguments: str, stdin: str = "") -> str:
        """What git answered, without the last newline; a WorkspaceError with what it said when it failed."""
        reply = await self.ask(*arguments, stdin=stdin)
        if reply.code:
            raise refused(arguments[0], reply)
        return reply.out.removesuffix("\n")

    async def names(self, *arguments: str) -> list[str]:
        """An answer that is a list, each item ended by a NUL."""
        return [name for name in (await self.run(*arguments)).split("\0") if name]

    async def agrees(self, *arguments: str) -> bool:
        """Whether a command that is a question succeeds."""
        return (await self.ask(*arguments)).code == 0

    async def commit_at(self, revision: str) -> str | None:
        """The commit that a revision names, if there is one."""
        reply = await self.ask("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        return None if reply.code else reply.out.strip()

    async def ask(self, *arguments: str, stdin: str = "") -> Reply:
        """Run git to its end, whatever that is; when cancelled, end it first."""
        starting = asyncio.ensure_future(self._start(arguments))
        try:
            process = await asyncio.shield(starting)  # asyncio would kill one that is half started, and nothing it runs
            out, err = await process.communicate(stdin.encode("utf-8", "replace"))
        except asyncio.CancelledError:
            await unbroken(_stop(starting))
            raise
        return Reply(process.returncode or 0, os.fsdecode(out), err.decode("utf-8", "replace"))

    async def _start(self, arguments: tuple[str, ...]) -> Process:
        command = ("git", "-C", str(self.directory), *_OPTIONS, *arguments)
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self.env,
                pass_fds=self.held,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise WorkspaceError("there is no git command", help="install git, version 2.31 or later") from error


def git_in(directory: Path, environment: Mapping[str, str]) -> Git:
    """The git command in a directory, with what is safe of an environment."""
    kept = {key: value for key, value in environment.items() if key not in _FOREIGN}
    return Git(directory, {**kept, **_QUIET})


def refused(verb: str, reply: Reply) -> WorkspaceError:
    """The error for a command that failed, in git's own words."""
    if reply.code < 0:
        return WorkspaceError(f"git {verb} was killed by signal {-reply.code}", help="do the same again")
    said = reply.err.strip() or reply.out.strip() or f"it ended with code {reply.code}"
    return WorkspaceError(f"git {verb} failed: {said.removeprefix('fatal: ').removeprefix('error: ')}")


async def unbroken(work: Coroutine[Any, Any, _T]) -> _T:
    """Await something to its end even when cancelled, and only then be cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def signed(git: Git) -> Git:
    """The command with an author, awf, and a committer: the person if git knows them, else awf."""
    known = await git.agrees("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")
    author = {"GIT_AUTHOR_NAME": NAME, "GIT_AUTHOR_EMAIL": EMAIL}
    committer = {} if known else {"GIT_COMMITTER_NAME": NAME, "GIT_COMMITTER_EMAIL": EMAIL}
    return git.using(author | committer)


def message(subject: str, trailers: Iterable[tuple[str, str]] = ()) -> str:
    """A commit message: one line, and below it the trailers."""
    lines = [f"{re.sub('[^A-Za-z0-9-]+', '-', key)}: {_one_line(value)}\n" for key, value in trailers]
    return f"{_one_line(subject) or NAME}\n" + ("\n" if lines else "") + "".join(lines)


def _one_line(text: str) -> str:
    return " ".join(text.replace("\0", " ").split())


async def _stop(starting: "asyncio.Future[Process]") -> None:
    try:
        process = await starting
    except WorkspaceError:  # there is no git to be stopped
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE)
            return
