"""The `git` command: started without a shell, deaf to hooks and prompts, and ended when its caller is cancelled.

Nothing a person has configured may change what a command does here, save who they are and what they ignore.
"""

import asyncio
import os
import re
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
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
    "core.fsync": "committed",  # a checkpoint that the journal names is on the disk before the journal says so
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

# A hook, an alias or a debugging session that started us may have set these for a repository of its own.
_FOREIGN = frozenset(
    "GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CEILING_DIRECTORIES GIT_COMMON_DIR GIT_DIR GIT_EXTERNAL_DIFF GIT_GLOB_PATHSPECS "
    "GIT_GRAFT_FILE GIT_ICASE_PATHSPECS GIT_IMPLICIT_WORK_TREE GIT_INDEX_FILE GIT_LITERAL_PATHSPECS GIT_NAMESPACE "
    "GIT_NOGLOB_PATHSPECS GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_QUARANTINE_PATH GIT_SHALLOW_FILE GIT_WORK_TREE".split()
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
    """The git command in one directory. Each process inherits the leases in `held`, and so keeps them while it lives."""

    directory: Path
    env: Mapping[str, str]
    held: tuple[int, ...] = ()

    def within(self, worktree: Path) -> "Git":
        """The command in a worktree; it does not go up to the checkout around it when that has lost its `.git`."""
        return replace(self, directory=worktree).using({"GIT_CEILING_DIRECTORIES": str(worktree.parent)})

    def using(self, variables: Mapping[str, str]) -> "Git":
        """The same command with more in its environment."""
        return replace(self, env={**self.env, **variables})

    async def run(self, *arguments: str, stdin: str = "") -> str:
        """What git answered; a WorkspaceError with what it said when it failed."""
        reply = await self.ask(*arguments, stdin=stdin)
        if reply.code:
            raise refused(arguments[0], reply)
        return reply.out

    async def line(self, *arguments: str, stdin: str = "") -> str:
        """An answer of one line."""
        return (await self.run(*arguments, stdin=stdin)).removesuffix("\n")

    async def names(self, *arguments: str) -> list[str]:
        """An answer that is a list of names, each ended by a NUL."""
        return [name for name in (await self.run(*arguments)).split("\0") if name]

    async def succeeds(self, *arguments: str) -> bool:
        """Whether the answer is yes."""
        return (await self.ask(*arguments)).code == 0

    async def commit_at(self, revision: str) -> str | None:
        """The commit that a revision names, if there is one."""
        reply = await self.ask("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        return None if reply.code else reply.out.strip()

    async def ask(self, *arguments: str, stdin: str = "") -> Reply:
        """Run git to its end, whatever that is; cancelled, end it first."""
        process = await self._start(arguments)
        try:
            out, err = await process.communicate(stdin.encode("utf-8", "replace"))
        except asyncio.CancelledError:
            await unbroken(_stop(process))
            raise
        return Reply(process.returncode or 0, os.fsdecode(out), err.decode("utf-8", "replace"))

    async def _start(self, arguments: tuple[str, ...]) -> Process:
        env = {key: value for key, value in self.env.items() if key not in _FOREIGN or self._set_here(key)}
        command = ("git", "-C", str(self.directory), *_OPTIONS, *arguments)
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=env | _QUIET,
                pass_fds=self.held,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise WorkspaceError("the git command is not there", help="install git 2.31 or later") from error
