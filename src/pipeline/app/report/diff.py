"""How large the change of a run is, as git counts it. What git cannot tell is not told."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import which

from pipeline.app.report.model import DiffSize
from pipeline.app.workspace_diff import diff_endpoints
from pipeline.backends.git import git_in
from pipeline.engine.context import Key
from pipeline.engine.state import State
from pipeline.findings.repository import GitRefusedError
from pipeline.findings.trees import is_tree


async def diff_of(state: State, environ: Mapping[str, str], head: str, store: Path) -> DiffSize | None:
    """The size of what a run committed in its workspace; without one, of how its checkout differs from `head`."""
    if not which("git", path=environ.get("PATH")):
        return None
    try:
        base, tip = diff_endpoints(state, head, environ, store)
    except GitRefusedError:
        return None
    if not (is_tree(base) and is_tree(tip)):
        return None
    options = ("--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
    reply = await git_in(state.cwd, environ).ask("diff", *options, str(base), str(tip), "--")
    found = counted_in(reply.out)
    return None if reply.code else replace(found, so_far=Key.WORKSPACE_BASE not in state.context)


def counted_in(numstat: str) -> DiffSize:
    """The sum of what `git diff --numstat -z` says; a binary file has no lines."""
    rows = [row.split("\t", 2) for row in numstat.split("\0") if row]
    added, removed = (sum(int(row[side]) for row in rows if row[side] != "-") for side in (0, 1))
    return DiffSize(len(rows), added, removed)
