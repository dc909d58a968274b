"""What a run has changed so far, for somebody who is to decide on it: files with their counts, and the lines.

A change that is too long is left at its files: nobody decides by scrolling through it in a page.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.engine.context import Key
from pipeline.engine.state import State
from pipeline.findings.repository import GitRefusedError
from pipeline.findings.trees import Trees, is_tree, patch_of, stat_of
from pipeline.summary.since import lines_in

_MOST_LINES = 4_000  # changed, beyond which only the files are told
_LONGEST = 400_000  # characters of what is told


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different; `patch` is empty where that is too long, and `trouble` says why nothing is known."""

    stat: str = ""
    patch: str = ""
    command: str = ""  # that shows all of it
    cut: bool = False
    trouble: str = ""


def changes_of(state: State, head: str, environ: Mapping[str, str], store: Path) -> Changes:
    """What a run committed in its workspace; without one, how its checkout differs from the commit it began with."""
    if not state.cwd.is_dir():
        return Changes(trouble=f"the directory that the run began in, {state.cwd}, is not on this machine")
    try:
        old, new = ends_of(state, head, environ, store)
        if not (is_tree(old) and is_tree(new)):
            return Changes(trouble="the run works in no git repository, or began without a commit")
        return _between(state.cwd, environ, str(old), str(new))
    except GitRefusedError as error:
        return Changes(trouble=error.message)


def ends_of(state: State, head: str, environ: Mapping[str, str], store: Path) -> tuple[object, object]:
    """The trees between which a run's change lies: those of its workspace, also when that is merged and removed.

    Without one it is the commit that it began with, `head`, and the files as they are now.
    """
    if Key.WORKSPACE_BASE in state.context:
        tip = state.progress.commit or state.context.get(Key.WORKSPACE_COMMIT)
        return state.context.get(Key.WORKSPACE_BASE), tip
    return head, Trees(environ, store).now(state.cwd) if head else ""


def _between(root: Path, environ: Mapping[str, str], old: str, new: str) -> Changes:
    stat = stat_of(root, environ, old, new)
    patch = patch_of(root, environ, old, new) if stat and lines_in(stat) <= _MOST_LINES else ""
    cut = bool(stat) and (not patch or len(patch) > _LONGEST)
    return Changes(stat, patch[:_LONGEST], f"git diff {old[:12]} {new[:12]}", cut)
