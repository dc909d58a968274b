"""How large the change of a run is, as git counts it. What git cannot tell is not told."""

import re
from collections.abc import Mapping
from shutil import which

from pipeline.app.report.model import Diff
from pipeline.backends.git import git_in
from pipeline.engine.context import Key
from pipeline.engine.state import State

# A context can be written by stages: only what cannot be an option or a name goes to git.
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


async def diff_of(state: State, environment: Mapping[str, str]) -> Diff | None:
    """The size of what a run committed in its workspace, also when that is merged and removed."""
    base = state.context.get(Key.WORKSPACE_BASE)
    tip = state.progress.commit or state.context.get(Key.WORKSPACE_COMMIT)
    if not (_is_commit(base) and _is_commit(tip) and which("git", path=environment.get("PATH"))):
        return None
    options = ("--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")
    reply = await git_in(state.cwd, environment).ask("diff", *options, str(base), str(tip), "--")
    return None if reply.code else counted_in(reply.out)


def _is_commit(name: object) -> bool:
    return isinstance(name, str) and _COMMIT.fullmatch(name) is not None


def counted_in(numstat: str) -> Diff:
    """The sum of what `git diff --numstat -z` says; a binary file has no lines."""
    rows = [row.split("\t", 2) for row in numstat.split("\0") if row]
    added, removed = (sum(int(row[side]) for row in rows if row[side] != "-") for side in (0, 1))
    return Diff(len(rows), added, removed)
