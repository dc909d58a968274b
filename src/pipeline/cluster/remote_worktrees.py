"""Workspaces that travel: each commit of a run is pushed to a shared remote before the record that names it.

Whichever worker has the next stage fetches that very commit and stands on it. A commit has a ref of its own there, so
that a worker which was given up, and does not know it, cannot take it away; the run's branch is for people.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pipeline.backends.git import Git, git_error, git_in
from pipeline.backends.worktree import GitWorktrees
from pipeline.engine.context import Key, Set
from pipeline.engine.ports import MergeResult, WorkspaceError
from pipeline.engine.state import State, Workspace

# The last option of each keeps the repository's configuration from naming another program.
_PUSH = ("--quiet", "--no-verify", "--receive-pack=git-receive-pack")
_FETCH = ("--quiet", "--no-tags", "--no-write-commit-graph", "--upload-pack=git-upload-pack")
MERGED_COMMIT = "workspace.merged"  # the context's word for the commit that a run's branch came to in the checkout


class GitRemote(BaseModel):
    """Where a run's commits are shared, as it is recorded when the run begins."""

    model_config = ConfigDict(frozen=True)

    url: str
    branch: str  # that was checked out, and that the run's work is merged into
    prefix: str = ""  # the directory within the repository in which the run was started


def remote_of(state: State) -> GitRemote | None:
    """The remote of a run; None where its files are in a directory that every worker has."""
    said = state.options.get("remote")
    return GitRemote.model_validate(said) if said else None


def _start(run_id: str) -> str:
    return f"refs/awf/runs/{run_id}/start"


def _ref(run_id: str, commit: str) -> str:
    return f"refs/awf/runs/{run_id}/{commit}"


async def push_start(directory: Path, environ: Mapping[str, str], named: str, run_id: str) -> GitRemote:
    """Push what is checked out in a directory, for a run to begin with; `named` is a remote of it, or a URL."""
    git = git_in(directory, environ)
    url = (await git.run("remote", "get-url", "--", named)).out.strip() or named
    branch = (await git.run("symbolic-ref", "--short", "--quiet", "HEAD")).out.strip()
    if not branch:
        raise WorkspaceError(f"no branch is checked out in {directory}", help="check one out: git switch BRANCH")
    prefix = await git.output("rev-parse", "--show-prefix")
    await _push(git, url, f"HEAD:{_start(run_id)}")
    return GitRemote(url=url, branch=branch, prefix=prefix)


async def _push(git: Git, url: str, *what: str) -> None:
    reply = await git.run("push", *_PUSH, "--", url, *what)
    if reply.code:
        raise git_error("push", reply)


@dataclass(frozen=True, slots=True)
class RemoteWorktrees:
    """The worktrees of one run on one worker, whose commits go to the remote as they are made."""

    run_id: str
    remote: GitRemote
    store: Path
    environ: Mapping[str, str]

    async def create(self, repository: Path, name: str) -> Workspace:
        made = await self._here.create(repository, name)
        await self._send(made)
        return made

    async def commit(self, workspace: Workspace, subject: str, trailers: Mapping[str, str]) -> Workspace:
        saved = await self._here.commit(workspace, subject, trailers)
        if saved.commit != workspace.commit:
            await self._send(saved)
        return saved

    async def restore(self, workspace: Workspace, keep_as: str) -> str | None:
        return await self._here.restore(workspace, keep_as)

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> MergeResult:
        """Merge into what the branch is at the remote now, and put the result there."""
        git, branch = self._git, f"refs/heads/{self.remote.branch}"
        await self._fetch(branch)
        await git.output("reset", "--quiet", "--hard", "FETCH_HEAD")
        merged = await self._here.merge(repository, workspace, subject)
        if merged.commit:
            await _push(
                git, self.remote.url, f"{merged.commit}:{branch}", f"{merged.commit}:{self._kept(merged.commit)}"
            )
        return merged

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        await self._here.cleanup(repository, workspace, force=force)
        await self._git.run("push", *_PUSH, "--", self.remote.url, f":refs/heads/{workspace.branch}")

    async def stand(self, state: State) -> None:
        """Have the run's files here as its records say: the checkout it began with, and its worktree."""
        await self._checkout(str(state.context.get(MERGED_COMMIT) or ""))
        workspace = state.workspace
        if workspace is None:
            return
        if not await self._git.resolve_commit(workspace.commit):
            await self._fetch(self._kept(workspace.commit))
        await self._here.adopt(self.checkout, workspace)
        await self._here.restore(workspace, f"{self.run_id}/{state.cursor.stage}-{state.cursor.visit}")

    def placed(self, state: State) -> State:
        """The state with the paths that its directories have here."""
        state = state._replace(cwd=self.checkout / self.remote.prefix)
        if path := state.context.get(Key.WORKSPACE_PATH):
            here = self.store / "worktrees" / Path(path).name
            return state._replace(context=state.context.apply([Set(Key.WORKSPACE_PATH, str(here))]))
        return state

    @property
    def checkout(self) -> Path:
        """This worker's clone for the run."""
        return self.store / "checkouts" / self.run_id

    @property
    def _here(self) -> GitWorktrees:
        return GitWorktrees(self.store / "worktrees", dict(self.environ))

    @property
    def _git(self) -> Git:
        return git_in(self.checkout, self.environ)

    async def _checkout(self, merged: str) -> None:
        """Make the clone where it is missing; after a merge it stands on what the merge came to."""
        git = self._git
        if not (self.checkout / ".git").exists():
            self.checkout.mkdir(parents=True, exist_ok=True)
            await git.output("init", "--quiet", f"--initial-branch={self.remote.branch}")
        if not await git.resolve_commit("HEAD"):
            await self._fetch(_start(self.run_id))
            await git.output("reset", "--quiet", "--hard", "FETCH_HEAD")
        if merged and await git.resolve_commit("HEAD") != merged:
            await self._fetch(self._kept(merged))
            await git.output("reset", "--quiet", "--hard", merged)

    async def _fetch(self, ref: str) -> None:
        reply = await self._git.run("fetch", *_FETCH, "--", self.remote.url, ref)
        if reply.code:
            said = git_error("fetch", reply).message
            raise WorkspaceError(
                f"{ref} of run {self.run_id} is not to be had from {self.remote.url}: {said}",
                help="see that this worker can reach the remote, and that nothing is removed from it",
            )

    async def _send(self, workspace: Workspace) -> None:
        commit = workspace.commit
        branch = f"+{commit}:refs/heads/{workspace.branch}"
        await _push(self._git, self.remote.url, f"{commit}:{self._kept(commit)}", branch)

    def _kept(self, commit: str) -> str:
        return _ref(self.run_id, commit)
