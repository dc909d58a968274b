"""What a run has changed so far, for somebody who is to decide on it: files with their counts, and the lines.

A change that is too long is left at its files: nobody decides by scrolling through it in a page.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.engine.context import Context, Key, Operation, Set
from pipeline.engine.outcome import Outcome
from pipeline.engine.state import State
from pipeline.findings.repository import GitRefusedError
from pipeline.findings.trees import Trees, forget, is_tree, patch_of, stat_of
from pipeline.language.model import BaseStage, ExitStage, is_review
from pipeline.plugins.hooks import hookimpl
from pipeline.summary.render import changed_line_count, changed_section, is_short, unknown_section

_MOST_LINES = 4_000  # changed, beyond which only the files are told
_LONGEST = 400_000  # characters of what is told


@dataclass(frozen=True, slots=True)
class WorkspaceDiff:
    """What is different; `patch` is empty where that is too long, and `trouble` says why nothing is known."""

    stat: str = ""
    patch: str = ""
    command: str = ""  # that shows all of it
    cut: bool = False
    trouble: str = ""


def diff_run(state: State, head: str, environ: Mapping[str, str], store: Path) -> WorkspaceDiff:
    """What a run committed in its workspace; without one, how its checkout differs from the commit it began with."""
    if not state.cwd.is_dir():
        return WorkspaceDiff(trouble=f"the directory that the run began in, {state.cwd}, is not on this machine")
    try:
        old, new = diff_endpoints(state, head, environ, store)
        if not (is_tree(old) and is_tree(new)):
            return WorkspaceDiff(trouble="the run works in no git repository, or began without a commit")
        return _between(state.cwd, environ, str(old), str(new))
    except GitRefusedError as error:
        return WorkspaceDiff(trouble=error.message)


def diff_endpoints(state: State, head: str, environ: Mapping[str, str], store: Path) -> tuple[object, object]:
    """The trees between which a run's change lies: those of its workspace, also when that is merged and removed.

    Without one it is the commit that it began with, `head`, and the files as they are now.
    """
    if Key.WORKSPACE_BASE in state.context:
        tip = state.progress.commit or state.context.get(Key.WORKSPACE_COMMIT)
        return state.context.get(Key.WORKSPACE_BASE), tip
    return head, Trees(environ, store).now(state.cwd) if head else ""


def _between(root: Path, environ: Mapping[str, str], old: str, new: str) -> WorkspaceDiff:
    stat = stat_of(root, environ, old, new)
    patch = patch_of(root, environ, old, new) if stat and changed_line_count(stat) <= _MOST_LINES else ""
    cut = bool(stat) and (not patch or len(patch) > _LONGEST)
    return WorkspaceDiff(stat, patch[:_LONGEST], f"git diff {old[:12]} {new[:12]}", cut)


_KEY = "._reviewed"


class ReviewDiffs:
    """Remembers what each review of a run looked at, and tells it what is different now."""

    def __init__(self, environ: Mapping[str, str], store: Path) -> None:
        self._environ = environ
        self._trees = Trees(environ, store)

    @hookimpl
    def after_stage(self, stage: BaseStage, visit: int, outcome: Outcome, state: State) -> Iterator[Operation]:
        """Record what a review looked at; one that failed to take place looked at nothing."""
        if is_review(stage) and outcome.failure is None:
            if seen := self._seen(stage.id, state):
                yield Set(f"{stage.id}{_KEY}", {"visit": visit, **seen})
        elif isinstance(stage, ExitStage):
            self._let_go(state)

    @hookimpl
    def summary_sections(self, stage: BaseStage, context: Context, state: State) -> Iterator[str]:
        """What changed, for a review that has looked before."""
        seen = context.get(f"{stage.id}{_KEY}") if is_review(stage) else None
        if isinstance(seen, dict) and isinstance(seen.get("visit"), int):
            yield self._section(seen, state)

    def _seen(self, stage: str, state: State) -> dict[str, str]:
        if state.workspace:
            return {"tree": str(state.context.get(Key.WORKSPACE_COMMIT))}
        try:
            tree = self._trees.now(state.cwd, _ref(state.run_id, stage))
        except GitRefusedError as error:
            return {"why": error.message}
        return {"tree": tree} if tree else {}

    def _section(self, seen: dict[str, Any], state: State) -> str:
        visit, old = seen["visit"], seen.get("tree")
        if not is_tree(old):
            return unknown_section(visit, str(seen.get("why") or "no tree is on record"))
        try:
            return self._changed(visit, str(old), state)
        except GitRefusedError as error:
            return unknown_section(visit, error.message)

    def _changed(self, visit: int, old: str, state: State) -> str:
        workspace = state.workspace
        root, new = (workspace.path, workspace.commit) if workspace else (state.cwd, self._trees.now(state.cwd))
        stat = stat_of(root, self._environ, old, new)
        patch = patch_of(root, self._environ, old, new) if stat and is_short(stat) else ""
        return changed_section(visit, stat, patch, f"git diff {old[:12]} {new[:12]}")

    def _let_go(self, state: State) -> None:
        """The run is at its end: git may throw away what reviews looked at, unless it is a commit's."""
        for key in state.context:
            if key.endswith(_KEY) and not state.workspace:
                forget(state.cwd, self._environ, _ref(state.run_id, key.removesuffix(_KEY)))


@lru_cache(maxsize=1000)  # every review of a run asks for its own
def _ref(run: str, stage: str) -> str:
    return f"refs/awf/reviewed/{_plain(run)}/{_plain(stage)}"


def _plain(name: str) -> str:
    return re.sub("[^A-Za-z0-9_-]", "-", name)
