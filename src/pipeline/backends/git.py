"""The one place that starts git: without a shell, hooks, prompts or any program that a repository names.

The user's own configuration still says who they are, what they ignore and which filters they use. A repository's
configuration, which an agent can write, names no program that runs here.
"""

import asyncio
import os
import re
import signal
import subprocess
from asyncio.subprocess import PIPE, Process
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pipeline.backends.environment import child_environment
from pipeline.engine.ports import WorkspaceError

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
    "core.pager": "cat",
    "diff.ignoreSubmodules": "dirty",  # git does not start another one in a repository within
    "gc.auto": "0",  # a collector in the background would outlive the command and hold the workspace's lease
    "i18n.commitEncoding": "UTF-8",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "merge.autoStash": "false",
    "merge.verifySignatures": "false",
    "protocol.ext.allow": "never",  # a URL of this kind is a command
    "safe.bareRepository": "explicit",  # a bare repository among the files of a project configures nothing
    "submodule.recurse": "false",
    "tag.gpgSign": "false",
}
_OPTIONS = tuple(part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}"))

# The commands that write no index, and so run no filter, nor a merge driver, and talk to nobody.
_PLAIN = frozenset(
    {
        *("cat-file", "check-ignore", "commit-tree", "diff-tree", "init", "ls-files", "merge-base", "remote"),
        *("rev-parse", "symbolic-ref", "update-ref", "var"),
    }
)
_PROGRAMS = re.compile(
    r"filter\..+\.(?:clean|smudge|process|required)|merge\..+\.driver|core\.sshcommand|"
    r"core\.gitproxy|credential(?:\..+)?\.helper|remote\..+\.(?:uploadpack|receivepack|vcs)",
    re.DOTALL,
)
_LFS = re.compile(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?")  # a program of the user's
_OWN = ("local", "worktree")  # the scopes that a repository has
_NEUTRAL = {"driver": "git merge-file --marker-size=%L %A %O %B", "required": "false", "sshcommand": "ssh"}

# Variables that say who the user is, how they reach a server, and where their own configuration is.
_USERS = re.compile(r"GIT_(?:(?:AUTHOR|COMMITTER)_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)|SSL_\w+|SSH(?:_COMMAND)?)")
_AGENTS = ("SSH_AUTH_SOCK", "SSH_AGENT_PID")  # what git's own ssh needs; no key is passed to any program of git's
_QUIET = {
    "GIT_ASKPASS": "",
    "GIT_EDITOR": ":",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_SECONDS = 10.0  # for git to list a configuration

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class GitResult:
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
            raise git_error(arguments[0], reply)
        return reply.out.removesuffix("\n")

    async def names(self, *arguments: str) -> list[str]:
        """An answer that is a list, each item ended by a NUL."""
        return [name for name in (await self.run(*arguments)).split("\0") if name]

    async def agrees(self, *arguments: str) -> bool:
        """Whether a command that is a question succeeds."""
        return (await self.ask(*arguments)).code == 0

    async def resolve_commit(self, revision: str) -> str | None:
        """The commit that a revision names, if there is one."""
        reply = await self.ask("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        return None if reply.code else reply.out.strip()

    async def ask(self, *arguments: str, stdin: str = "") -> GitResult:
        """Run git to its end, whatever that is; when cancelled, end it first."""
        starting = asyncio.ensure_future(self._start(arguments))
        try:
            process = await asyncio.shield(starting)  # asyncio would kill one that is half started, and nothing it runs
            out, err = await process.communicate(stdin.encode("utf-8", "replace"))
        except asyncio.CancelledError:
            await await_uninterrupted(_stop(starting))
            raise
        return GitResult(process.returncode or 0, os.fsdecode(out), err.decode("utf-8", "replace"))

    def command(self, *arguments: str, options: Iterable[str] = ()) -> tuple[list[str], dict[str, str]]:
        """The command line and the environment in which no program runs that the repository's configuration names.

        Raises OSError or subprocess.SubprocessError when git cannot list that configuration.
        """
        start = ["git", "-C", str(self.directory), "--no-pager", *_OPTIONS]
        overridden = [] if arguments[0] in _PLAIN else list(self._overridden(start))
        variables = {"GIT_CONFIG_COUNT": str(len(overridden))} if overridden else {}
        for number, (key, value) in enumerate(overridden):  # an option could not name a key that has a `=` in it
            variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
        return [*start, *options, *arguments], {**self.env, **variables}

    def call(
        self, *arguments: str, stdin: bytes = b"", seconds: float, options: Iterable[str] = ()
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run git to its end. Raises OSError when there is none, subprocess.TimeoutExpired when it takes too long."""
        argv, env = self.command(*arguments, options=options)
        return subprocess.run(argv, env=env, input=stdin, capture_output=True, timeout=seconds, check=False)

    def _overridden(self, start: list[str]) -> Iterator[tuple[str, str]]:
        """What to say instead of every setting of the repository that names a program."""
        command = [*start, "config", "--list", "--includes", "--show-scope", "--null"]
        told = subprocess.run(
            command, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
        if told.returncode < 0:  # what is wrong with a configuration the command itself will say
            raise subprocess.CalledProcessError(told.returncode, command)
        parts = os.fsdecode(told.stdout).split("\0")
        for scope, setting in zip(parts[::2], parts[1::2], strict=False):
            key, _, value = setting.partition("\n")
            if scope in _OWN and _PROGRAMS.fullmatch(key) and not _LFS.fullmatch(value):
                yield key, _NEUTRAL.get(key.rpartition(".")[2], "")

    async def _start(self, arguments: tuple[str, ...]) -> Process:
        try:
            plain = arguments[0] in _PLAIN  # then nothing is asked, and no thread is needed
            argv, env = self.command(*arguments) if plain else await asyncio.to_thread(self.command, *arguments)
            return await asyncio.create_subprocess_exec(
                *argv,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=env,
                pass_fds=self.held,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise WorkspaceError("there is no git command", help="install git, version 2.31 or later") from error
        except subprocess.SubprocessError as error:
            raise WorkspaceError(f"git could not list the configuration of {self.directory}: {error}") from error


def git_in(directory: Path, environment: Mapping[str, str]) -> Git:
    """The git command in a directory, with what is safe of an environment."""
    own = [name for name in environment if _USERS.fullmatch(name)]
    return Git(directory, {**child_environment(environment, extra_names=(*own, *_AGENTS)), **_QUIET})


def git_error(verb: str, reply: GitResult) -> WorkspaceError:
    """The error for a command that failed, in git's own words."""
    if reply.code < 0:
        return WorkspaceError(f"git {verb} was killed by signal {-reply.code}", help="do the same again")
    said = reply.err.strip() or reply.out.strip() or f"it ended with code {reply.code}"
    return WorkspaceError(f"git {verb} failed: {said.removeprefix('fatal: ').removeprefix('error: ')}")


async def await_uninterrupted(work: Coroutine[Any, Any, _T]) -> _T:
    """Await something to its end even when cancelled, and only then be cancelled."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def with_identity(git: Git) -> Git:
    """The command with an author, awf, and a committer: the person if git knows them, else awf."""
    known = await git.agrees("-c", "user.useConfigOnly=true", "var", "GIT_COMMITTER_IDENT")
    author = {"GIT_AUTHOR_NAME": NAME, "GIT_AUTHOR_EMAIL": EMAIL}
    committer = {} if known else {"GIT_COMMITTER_NAME": NAME, "GIT_COMMITTER_EMAIL": EMAIL}
    return git.using(author | committer)


def commit_message(subject: str, trailers: Iterable[tuple[str, str]] = ()) -> str:
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
            break
    with suppress(ProcessLookupError):  # what git started may outlive it by a moment, or ignore SIGTERM
        os.killpg(process.pid, signal.SIGKILL)
