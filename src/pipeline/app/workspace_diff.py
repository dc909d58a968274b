"""What changed: in a run so far, for a person who decides on it, and since a review last looked, for its next visit."""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.engine.context import Context, Key, Operation, Set
from pipeline.engine.outcome import Outcome
from pipeline.engine.state import State
from pipeline.findings.git import (
    GitRefusedError,
    TreeSnapshots,
    delete_ref,
    is_tree,
    patch_of,
    review_end,
    review_start,
    stat_of,
)
from pipeline.language.model import BaseStage, ExitStage, is_review
from pipeline.plugins.hooks import hookimpl
from pipeline.summary.render import changed_line_count, changed_section, is_short, unknown_section

_MAX_LINES = 4_000  # changed lines; of a longer diff only the files are shown: nobody decides by scrolling through it
_MAX_PATCH = 400_000  # characters
_REVIEWED = "._reviewed"  # the context key of a review ends in it


@dataclass(frozen=True, slots=True)
class WorkspaceDiff:
    """The changes of a run; `patch` is empty if it is too long, and `trouble` says why nothing is known."""

    stat: str = ""
    patch: str = ""
    command: str = ""  # shows all of it
    truncated: bool = False
    trouble: str = ""


def diff_run(state: State, head: str, environ: Mapping[str, str], store: Path) -> WorkspaceDiff:
    """What a run committed in its workspace; without one, how its checkout differs from the commit it started at."""
    root = state.cwd
    if not root.is_dir():
        return WorkspaceDiff(trouble=f"the directory in which the run started, {root}, is not on this machine")
    try:
        old, new = diff_endpoints(state, head, environ, store)
        if not (is_tree(old) and is_tree(new)):
            return WorkspaceDiff(trouble="the run does not work in a git repository, or started without a commit")
        stat = stat_of(root, environ, str(old), str(new))
        patch = ""
        if stat and changed_line_count(stat) <= _MAX_LINES:
            patch = patch_of(root, environ, str(old), str(new))
    except GitRefusedError as error:
        return WorkspaceDiff(trouble=error.message)
    truncated = bool(stat) and (not patch or len(patch) > _MAX_PATCH)
    return WorkspaceDiff(stat, patch[:_MAX_PATCH], f"git diff {str(old)[:12]} {str(new)[:12]}", truncated)


def diff_endpoints(state: State, head: str, environ: Mapping[str, str], store: Path) -> tuple[object, object]:
    """The two trees whose difference is the change of a run: those of its workspace, even after it was removed.

    Without a workspace they are the commit the run started at, `head`, and the files as they are now.
    """
    if Key.WORKSPACE_BASE in state.context:
        tip = state.progress.commit or state.context.get(Key.WORKSPACE_COMMIT)
        return state.context.get(Key.WORKSPACE_BASE), tip
    return head, TreeSnapshots(environ, store).tree(state.cwd) if head else ""


class ReviewDiffs:
    """A plugin that tells a review, from its second visit on, what changed since the files it last looked at.

    What a review looked at is recorded with it, so that the next process knows. Trouble with git costs a line of the
    summary, and stages that are not reviews cost nothing.
    """

    def __init__(self, environ: Mapping[str, str], snapshots: TreeSnapshots) -> None:
        self._environ = environ
        self._snapshots = snapshots

    @hookimpl
    def after_stage(self, stage: BaseStage, visit: int, outcome: Outcome, state: State) -> Iterator[Operation]:
        """Record what a review looked at; a review that could not run looked at nothing."""
        if is_review(stage) and outcome.failure is None:
            if tree := self._current_tree(stage.id, visit, state):
                yield Set(f"{stage.id}{_REVIEWED}", {"visit": visit, **tree})
        elif isinstance(stage, ExitStage) and not state.workspace:  # git may drop the trees, which no commit holds
            for key in state.context:
                if key.endswith(_REVIEWED):
                    delete_ref(state.cwd, self._environ, _ref(state.run_id, key.removesuffix(_REVIEWED)))

    @hookimpl
    def summary_sections(self, stage: BaseStage, visit: int, context: Context, state: State) -> Iterator[str]:
        """What changed, for a review that has looked before."""
        seen = context.get(f"{stage.id}{_REVIEWED}") if is_review(stage) else None
        if isinstance(seen, dict) and isinstance(seen.get("visit"), int):
            yield self._section(seen["visit"], seen, state, review_start(stage.id, visit, state))

    def _current_tree(self, stage: str, visit: int, state: State) -> dict[str, str]:
        if state.workspace:
            return {"tree": str(state.context.get(Key.WORKSPACE_COMMIT))}
        try:
            ref = _ref(state.run_id, stage)
            tree = self._snapshots.tree(state.cwd, ref, review_end(stage, visit, state))
        except GitRefusedError as error:
            return {"why": error.message}
        return {"tree": tree} if tree else {}

    def _section(self, visit: int, seen: dict[str, Any], state: State, moment: Hashable) -> str:
        old, workspace = seen.get("tree"), state.workspace
        if not isinstance(old, str) or not is_tree(old):
            return unknown_section(visit, str(seen.get("why") or "no tree is on record"))
        try:
            root = workspace.path if workspace else state.cwd
            new = workspace.commit if workspace else self._snapshots.tree(root, moment=moment)
            stat = stat_of(root, self._environ, old, new)
            patch = patch_of(root, self._environ, old, new) if stat and is_short(stat) else ""
        except GitRefusedError as error:
            return unknown_section(visit, error.message)
        return changed_section(visit, stat, patch, f"git diff {old[:12]} {new[:12]}")


def _ref(run: str, stage: str) -> str:
    run, stage = (re.sub("[^A-Za-z0-9_-]", "-", name) for name in (run, stage))
    return f"refs/awf/reviewed/{run}/{stage}"
