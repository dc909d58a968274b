"""Worktrees that workers share through a git remote: every commit of a run is pushed before the record that names it.

The worker that runs the next stage fetches that commit. Each commit has a ref of its own, which a worker that has lost
the run cannot move; the run's branch is for people.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pipeline.backends.git import Git, git_error, git_in
from pipeline.backends.worktree import GitWorktrees
from pipeline.engine.context import Key, Set
from pipeline.engine.ports import MergeResult, WorkspaceError
from pipeline.engine.records import RunCreated
from pipeline.engine.state import State, Workspace

# The last option of each keeps the repository's configuration from naming another program.
_PUSH = ("--quiet", "--no-verify", "--receive-pack=git-receive-pack")
_FETCH = ("--quiet", "--no-tags", "--no-write-commit-graph", "--upload-pack=git-upload-pack")
MERGED_COMMIT = "workspace.merged"  # the context key of the commit that merged a run's branch


class GitRemote(BaseModel):
    """Where the commits of a run are shared, as recorded when the run starts."""

    model_config = ConfigDict(frozen=True)

    url: str
    branch: str  # the one that was checked out, into which the run's work is merged
    prefix: str = ""  # the directory in the repository where the run was started


def remote_of(record: RunCreated) -> GitRemote | None:
    """Return the remote of a run; None if all workers have its directory."""
    remote = record.options.get("remote")
    return GitRemote.model_validate(remote) if remote else None


async def push_start(directory: Path, environ: Mapping[str, str], name: str, run_id: str) -> GitRemote:
    """Push the commit that is checked out, for a run to start from; `name` is a remote of the repository or a URL."""
    git = git_in(directory, environ)
    url = (await git.run("remote", "get-url", "--", name)).out.strip() or name
    branch = (await git.run("symbolic-ref", "--short", "--quiet", "HEAD")).out.strip()
    if not branch:
        raise WorkspaceError(f"no branch is checked out in {directory}", help="check one out: git switch BRANCH")
    prefix = await git.output("rev-parse", "--show-prefix")
    await _push(git, url, f"HEAD:{_ref(run_id, 'start')}")
    return GitRemote(url=url, branch=branch, prefix=prefix)


async def _push(git: Git, url: str, *refspecs: str) -> None:
    reply = await git.run("push", *_PUSH, "--", url, *refspecs)
    if reply.code:
        raise git_error("push", reply)


def _ref(run_id: str, commit: str) -> str:
    return f"refs/awf/runs/{run_id}/{commit}"


class RemoteWorktrees(GitWorktrees):
    """The worktrees of one run on one worker, in its `store`. Commits are pushed as they are made."""

    def __init__(
        self, run_id: str, remote: GitRemote, store: Path, environ: Mapping[str, str], views: Iterable[str] = ()
    ) -> None:
        super().__init__(store / "worktrees", dict(environ), views)
        self._run_id = run_id
        self._remote = remote
        self._checkout = store / "checkouts" / run_id  # this worker's clone for the run
        self._git = git_in(self._checkout, environ)

    async def create(self, repository: Path, name: str) -> Workspace:
        workspace = await super().create(repository, name)
        await self._push_commit(workspace)
        return workspace

    async def commit(self, workspace: Workspace, subject: str, trailers: Mapping[str, str]) -> Workspace:
        saved = await super().commit(workspace, subject, trailers)
        if saved.commit != workspace.commit:
            await self._push_commit(saved)
        return saved

    async def merge(self, repository: Path, workspace: Workspace, subject: str) -> MergeResult:
        """Merge into the branch as it is at the remote, and push the result."""
        branch = f"refs/heads/{self._remote.branch}"
        await self._fetch(branch)
        await self._git.output("reset", "--quiet", "--hard", "FETCH_HEAD")
        merged = await super().merge(repository, workspace, subject)
        if commit := merged.commit:
            await _push(self._git, self._remote.url, f"{commit}:{branch}", f"{commit}:{_ref(self._run_id, commit)}")
        return merged

    async def cleanup(self, repository: Path, workspace: Workspace, *, force: bool = False) -> None:
        await super().cleanup(repository, workspace, force=force)
        await self._git.run("push", *_PUSH, "--", self._remote.url, f":refs/heads/{workspace.branch}")

    async def restore_run(self, state: State) -> None:
        """Bring the clone and the worktree of a run to where its records say they are."""
        await self._restore_checkout(str(state.context.get(MERGED_COMMIT) or ""))
        workspace = state.workspace
        if workspace is None:
            return
        if not await self._git.resolve_commit(workspace.commit):
            await self._fetch(_ref(self._run_id, workspace.commit))
        await self.adopt(self._checkout, workspace)
        await self.restore(workspace, f"{self._run_id}/{state.cursor.stage}-{state.cursor.visit}")

    def localize(self, state: State) -> State:
        """Return the state with the paths that the run's directories have on this worker."""
        state = state._replace(cwd=self._checkout / self._remote.prefix)
        if path := state.context.get(Key.WORKSPACE_PATH):
            local = self._directory / Path(path).name
            return state._replace(context=state.context.apply([Set(Key.WORKSPACE_PATH, str(local))]))
        return state

    async def _restore_checkout(self, merged: str) -> None:
        """Make the clone if there is none, at the commit the run started from or, after a merge, at the merged one."""
        git = self._git
        if not (self._checkout / ".git").exists():
            self._checkout.mkdir(parents=True, exist_ok=True)
            await git.output("init", "--quiet", f"--initial-branch={self._remote.branch}")
        if not await git.resolve_commit("HEAD"):
            await self._fetch(_ref(self._run_id, "start"))
            await git.output("reset", "--quiet", "--hard", "FETCH_HEAD")
        if merged and await git.resolve_commit("HEAD") != merged:
            await self._fetch(_ref(self._run_id, merged))
            await git.output("reset", "--quiet", "--hard", merged)

    async def _fetch(self, ref: str) -> None:
        reply = await self._git.run("fetch", *_FETCH, "--", self._remote.url, ref)
        if reply.code:
            problem = git_error("fetch", reply).message
            raise WorkspaceError(
                f"cannot fetch {ref} of run {self._run_id} from {self._remote.url}: {problem}",
                help="check that this worker can reach the remote, and that nothing is deleted from it",
            )

    async def _push_commit(self, workspace: Workspace) -> None:
        commit = workspace.commit
        own_ref, branch = f"{commit}:{_ref(self._run_id, commit)}", f"+{commit}:refs/heads/{workspace.branch}"
        await _push(self._git, self._remote.url, own_ref, branch)
