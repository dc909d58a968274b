"""How large the change of a run is, as git counts it. What git cannot tell is not told."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import which

from pipeline.app.report.model import Diff
from pipeline.backends.git import git_in
from pipeline.engine.context import Key
from pipeline.engine.state import State
from pipeline.findings.repository import GitRefusedError
from pipeline.findings.trees import Trees, is_tree


async def diff_of(
    state: State, environment: Mapping[str, str], head: str = "", store: Path | None = None
) -> Diff | None:
    """The size of what a run committed in its workspace, also when that is merged and removed.

    Without one it is the size of what is different in the checkout from the commit that the run began with, `head`.
    """
    if not which("git", path=environment.get("PATH")):
        return None
    if Key.WORKSPACE_BASE not in state.context:
        found = await _between(state, environment, head, _files_now(state, environment, store) if head else "")
        return replace(found, so_far=True) if found else None
    tip = state.progress.commit or state.context.get(Key.WORKSPACE_COMMIT)
    return await _between(state, environment, state.context.get(Key.WORKSPACE_BASE), tip)


def _files_now(state: State, environment: Mapping[str, str], store: Path | None) -> str:
    try:
        return Trees(environment, store).now(state.cwd)
    except GitRefusedError:
        return ""


async def _between(state: State, environment: Mapping[str, str], base: object, tip: object) -> Diff | None:
    if not (is_tree(base) and is_tree(tip)):
        return None
    options = ("--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
    reply = await git_in(state.cwd, environment).ask("diff", *options, str(base), str(tip), "--")
    return None if reply.code else counted_in(reply.out)


def counted_in(numstat: str) -> Diff:
    """The sum of what `git diff --numstat -z` says; a binary file has no lines."""
    rows = [row.split("\t", 2) for row in numstat.split("\0") if row]
    added, removed = (sum(int(row[side]) for row in rows if row[side] != "-") for side in (0, 1))
    return Diff(len(rows), added, removed)
