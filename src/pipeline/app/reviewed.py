"""A plugin: from its second visit on, a review is told what changed since the files it last looked at.

What it looked at is recorded with it, so that the next process knows. Only reviews cost anything, and trouble with git
costs a line of the summary.
"""

import re
from collections.abc import Iterator, Mapping
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
from pipeline.summary.since import changed_section, is_short, unknown_section

_KEY = "._reviewed"


class ReviewedTrees:
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
