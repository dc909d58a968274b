"""Runs git without a shell, hooks, prompts or any program that a repository names.

The user's own configuration still says who they are, what they ignore and which filters they use. The repository's
configuration, which an agent can write, cannot name a program that runs here.
"""

import errno
import os
import re
import signal
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import PIPE, CompletedProcess
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.backends.environment import child_environment
from pipeline.backends.program import run_program
from pipeline.engine.errors import WorkspaceError
from pipeline.text import sanitize_line

if TYPE_CHECKING:
    from asyncio import Future
    from asyncio.subprocess import Process

NAME, EMAIL = "awf", "awf@localhost"
UNKNOWN_OPTION = 129  # git's exit code
_GRACE_SECONDS = 2.0  # for git to remove its lock files before it is killed
_CONFIG_SECONDS = 10.0  # for git to list its configuration

_SETTINGS = {
    "color.ui": "false",
    "commit.gpgSign": "false",
    "core.alternateRefsCommand": "true",  # a command that lists no refs
    "core.fsmonitor": "false",
    "core.fsync": "committed",  # a checkpoint is on disk before the journal names it
    "core.fsyncMethod": "batch",
    "core.hooksPath": "/dev/null",
    "core.quotePath": "false",
    "core.safecrlf": "false",  # line endings are no reason to refuse a checkpoint
    "core.pager": "cat",
    "diff.ignoreSubmodules": "dirty",  # git starts no other git in a nested repository
    "gc.auto": "0",  # a background collector would outlive the command and hold the workspace's lease
    "i18n.commitEncoding": "UTF-8",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "merge.autoStash": "false",
    "merge.verifySignatures": "false",
    "protocol.ext.allow": "never",  # a URL of this kind is a command
    "safe.bareRepository": "explicit",  # a bare repository among the project's files configures nothing
    "submodule.recurse": "false",
    "tag.gpgSign": "false",
}
_OPTIONS = tuple(part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}"))

# Commands that write no index, so run no filter or merge driver, and contact no server. Before any other command git
# lists its configuration, each time anew: an agent that is still running could change it between two commands.
_HARMLESS = frozenset(
    {
        *("cat-file", "check-ignore", "commit-tree", "config", "diff-tree", "for-each-ref", "init"),
        *("ls-files", "ls-tree", "merge-base", "remote", "rev-parse", "symbolic-ref", "update-ref", "var"),
    }
)
_PROGRAM_SETTINGS = re.compile(
    r"filter\..+\.(?:clean|smudge|process|required)|merge\..+\.driver|core\.sshcommand|"
    r"core\.gitproxy|credential(?:\..+)?\.helper|remote\..+\.(?:uploadpack|vcs)",
    re.DOTALL,
)
_LFS = re.compile(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?")  # the user's own program
_REPOSITORY_SCOPES = ("local", "worktree")
_REPLACEMENTS = {"driver": "git merge-file --marker-size=%L %A %O %B", "required": "false", "sshcommand": "ssh"}
# Of these settings git uses the first value it reads, which is the repository's: only a variable can disable them.
_DISABLING = {"gitproxy": {"GIT_PROXY_COMMAND": ""}, "uploadpack": {"GIT_NO_LAZY_FETCH": "1"}}

# Variables that say who the user is, how they reach a server, and where their own configuration is.
_USER_VARIABLES = re.compile(
    r"GIT_(?:(?:AUTHOR|COMMITTER)_\w+|CONFIG_(?:GLOBAL|SYSTEM|NOSYSTEM)|SSL_\w+|SSH(?:_COMMAND)?)"
)
_SSH_VARIABLES = ("SSH_AUTH_SOCK", "SSH_AGENT_PID")
_OWN_VARIABLES = {
    "GIT_ASKPASS": "",
    "GIT_EDITOR": ":",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class GitResult:
    """How a git command ended and what it printed."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Git:
    """The git command in one directory. Its processes inherit the leases in `held`, which last until git ends."""

    directory: Path
    env: Mapping[str, str]
    held: tuple[int, ...] = ()
    views: tuple[str, ...] = ()  # directories at the top in which plugins show things; not part of the work

    @property
    def work(self) -> tuple[str, ...]:
        """Pathspecs for everything but the views."""
        return (":(top)", *(f":(exclude,top){name}" for name in self.views))

    def in_worktree(self, worktree: Path) -> "Git":
        """The command in a worktree. If `.git` is missing there, git fails instead of using the checkout around it."""
        return replace(self, directory=worktree).with_variables(GIT_CEILING_DIRECTORIES=worktree.parent)

    def with_variables(self, **variables: str | Path) -> "Git":
        """The command with more environment variables."""
        return replace(self, env={**self.env, **{name: str(value) for name, value in variables.items()}})

    async def run(self, *arguments: str, stdin: str = "") -> GitResult:
        """Run git to its end, whatever its exit code; a cancellation stops it first."""
        import asyncio  # noqa: PLC0415 - commands that only read use `run_sync`, and save 15 ms

        starting = asyncio.ensure_future(self._start(arguments))
        try:
            process = await asyncio.shield(starting)  # asyncio would kill a half-started git, but not what it runs
            out, err = await process.communicate(stdin.encode("utf-8", "replace"))
        except asyncio.CancelledError:
            await await_uninterrupted(_stop(starting))
            raise
        return GitResult(process.returncode or 0, os.fsdecode(out), err.decode("utf-8", "replace"))

    async def output(self, *arguments: str, stdin: str = "") -> str:
        """What git prints, without the last newline. Raises WorkspaceError with git's message if it fails."""
        result = await self.run(*arguments, stdin=stdin)
        if result.code:
            raise git_error(arguments[0], result)
        return result.out.removesuffix("\n")

    async def output_list(self, *arguments: str) -> list[str]:
        """The items git prints with the option `-z`, each ended by a NUL."""
        return [item for item in (await self.output(*arguments)).split("\0") if item]

    async def succeeds(self, *arguments: str) -> bool:
        """Whether git exits with code 0."""
        return (await self.run(*arguments)).code == 0

    async def resolve_commit(self, revision: str) -> str | None:
        """The commit that a revision names, or None."""
        result = await self.run("rev-parse", "--quiet", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        return None if result.code else result.out.strip()

    def run_sync(
        self,
        *arguments: str,
        timeout: float,
        stdin: bytes = b"",
        options: Iterable[str] = (),
        max_output: int | None = None,
    ) -> CompletedProcess[bytes]:
        """Run git to its end without an event loop; raises OSError as `run_program` does."""
        argv, env = self._command(arguments, options)
        return run_program(argv, env=env, stdin=stdin, timeout=timeout, max_output=max_output)

    def _command(self, arguments: Sequence[str], options: Iterable[str] = ()) -> tuple[list[str], dict[str, str]]:
        """A command line and an environment in which the repository's configuration starts no program.

        Raises OSError if git cannot list that configuration.
        """
        git = ["git", "-C", str(self.directory), "--no-pager", *_OPTIONS]
        guards = {"GIT_NO_LAZY_FETCH": "1"} if arguments[0] in _HARMLESS else self._guards(git)
        return [*git, *options, *arguments], {**self.env, **guards}

    def _guards(self, git: list[str]) -> dict[str, str]:
        """Variables that replace each setting of the repository that names a program."""
        listing = run_program(
            [*git, "config", "--list", "--includes", "--show-scope", "--null"], env=self.env, timeout=_CONFIG_SECONDS
        )
        if listing.returncode < 0:  # any other failure the command itself will report
            raise OSError(errno.EINTR, f"git config was killed by signal {-listing.returncode}")
        parts = os.fsdecode(listing.stdout).split("\0")
        guards: dict[str, str] = {}
        replaced = 0
        for scope, setting in zip(parts[::2], parts[1::2], strict=False):
            key, _, value = setting.partition("\n")
            if scope not in _REPOSITORY_SCOPES or not _PROGRAM_SETTINGS.fullmatch(key) or _LFS.fullmatch(value):
                continue
            name = key.rpartition(".")[2]
            if name in _DISABLING:
                guards |= _DISABLING[name]
                continue
            guards[f"GIT_CONFIG_KEY_{replaced}"] = key  # not an option `-c`, whose key cannot contain `=`
            guards[f"GIT_CONFIG_VALUE_{replaced}"] = _REPLACEMENTS.get(name, "")
            replaced += 1
        return {**guards, "GIT_CONFIG_COUNT": str(replaced)} if replaced else guards

    async def _start(self, arguments: tuple[str, ...]) -> "Process":
        import asyncio  # noqa: PLC0415 - as above

        try:
            argv, env = await asyncio.to_thread(self._command, arguments)
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
            raise WorkspaceError("git was not found", help="install git, version 2.31 or later") from error
        except OSError as error:
            raise WorkspaceError(f"git could not be run in {self.directory}: {error.strerror or error}") from error


def git_in(directory: Path, environment: Mapping[str, str]) -> Git:
    """The git command in a directory, with the safe part of an environment."""
    users = [name for name in environment if _USER_VARIABLES.fullmatch(name)]
    return Git(directory, {**child_environment(environment, extra_names=(*users, *_SSH_VARIABLES)), **_OWN_VARIABLES})


def git_error(command: str, result: GitResult) -> WorkspaceError:
    """The error for a command that failed, in git's own words."""
    if result.code < 0:
        return WorkspaceError(f"git {command} was killed by signal {-result.code}", help="try again")
    message = result.err.strip() or result.out.strip() or f"exit code {result.code}"
    return WorkspaceError(f"git {command} failed: {message.removeprefix('fatal: ').removeprefix('error: ')}")


async def with_identity(git: Git) -> Git:
    """The command with awf as the author, and as the committer the user, or awf if git does not know them."""
    strict = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.useConfigOnly", "GIT_CONFIG_VALUE_0": "true"}
    known = await git.with_variables(**strict).succeeds("var", "GIT_COMMITTER_IDENT")
    authored = git.with_variables(GIT_AUTHOR_NAME=NAME, GIT_AUTHOR_EMAIL=EMAIL)
    return authored if known else authored.with_variables(GIT_COMMITTER_NAME=NAME, GIT_COMMITTER_EMAIL=EMAIL)


def commit_message(subject: str, trailers: Iterable[tuple[str, str]] = ()) -> str:
    """A commit message: one line, and below it the trailers."""
    lines = [f"{re.sub('[^A-Za-z0-9-]+', '-', key)}: {sanitize_line(value)}\n" for key, value in trailers]
    return f"{sanitize_line(subject) or NAME}\n" + ("\n" if lines else "") + "".join(lines)


async def await_uninterrupted(work: Coroutine[Any, Any, _T]) -> _T:
    """Await something to its end, and only then let a cancellation through."""
    import asyncio  # noqa: PLC0415 - as above

    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _stop(starting: "Future[Process]") -> None:
    import asyncio  # noqa: PLC0415 - as above

    try:
        process = await starting
    except WorkspaceError:  # git never started
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
            break
    with suppress(ProcessLookupError):  # what git started may outlive it for a moment, or ignore SIGTERM
        os.killpg(process.pid, signal.SIGKILL)
