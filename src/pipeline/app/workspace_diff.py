"""What changed: in a run so far, for a person who decides on it, and since a review last looked, for its next visit."""

import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.engine.context import Context, Key, Operation, Set
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import RUNS, Job
from pipeline.engine.state import State
from pipeline.findings.git import (
    GitRefusedError,
    TreeSnapshots,
    changed_names,
    delete_ref,
    is_tree,
    patch_of,
    pathspecs,
    review_end,
    review_start,
    stat_of,
)
from pipeline.findings.known import is_full_look
from pipeline.findings.review_options import ReviewOptions, review_options
from pipeline.language.model import BaseStage, ExitStage, is_review
from pipeline.plugins.hooks import hookimpl
from pipeline.summary.markdown import one_line
from pipeline.summary.render import (
    change_section,
    changed_line_count,
    changed_section,
    summary_budget,
    unknown_section,
)
from pipeline.text import plural

_MAX_LINES = 4_000  # changed lines; of a longer diff only the files are shown: nobody decides by scrolling through it
_MAX_PATCH = 400_000  # characters
_MAX_FILE_LINES = 100_000  # changed lines; a longer diff is not written to a file either
_MAX_ABOUT = 1_000  # characters of a line that says what is compared
_DIFF_SHARE = 0.5  # of the summary
FULL_LOOK_REQUEST = """

Before this review passes, look at the whole change once more, not only at what changed since your last visit. Answer
again, in the same form and in full: every defect that you can prove, or that there is none.
"""
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
    """A plugin that gives a review the change: all of it on its first visit, later what changed since its last one.

    What a review looked at is recorded with it, so that the next process knows. What a summary has no room for is in a
    file of the run's store: most reviewers cannot run git. Trouble with git costs a line of the summary, and stages
    that are not reviews cost nothing.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        snapshots: TreeSnapshots,
        store: Path,
        reports: str = "",  # the directory of the repository with reports of reviews, which are not reviewed
    ) -> None:
        self._environ = environ
        self._snapshots = snapshots
        self._store = store
        self._reports = reports

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
        """The change, for a first look and every full one, or what changed since a review last looked."""
        if not is_review(stage):
            return
        seen, moment = context.get(f"{stage.id}{_REVIEWED}"), review_start(stage.id, visit, state)
        options, room = review_options(state), int(summary_budget(stage, state) * _DIFF_SHARE)
        is_known = isinstance(seen, dict) and isinstance(seen.get("visit"), int)
        if is_known and not (options.base and is_full_look(visit)):
            yield self._changed_section(seen["visit"], seen, state, moment, room)
        elif options.base:
            yield self._change_section(options, state, moment, room)

    @hookimpl
    def second_look(self, job: Job, outcome: Outcome) -> str | None:
        """The whole change, for a review that would pass by a look at a part of it."""
        stage, state = job.stage, job.state
        options, seen = review_options(state), f"{stage.id}{_REVIEWED}" in job.context
        if not (seen and options.base and outcome.status.passes) or is_full_look(job.visit):
            return None
        room = int(summary_budget(stage, state) * _DIFF_SHARE)
        change = self._change_section(options, state, review_start(stage.id, job.visit, state), room)
        return f"{FULL_LOOK_REQUEST}\n{change}\n"

    def _current_tree(self, stage: str, visit: int, state: State) -> dict[str, str]:
        if state.workspace:
            return {"tree": str(state.context.get(Key.WORKSPACE_COMMIT))}
        try:
            ref = _ref(state.run_id, stage)
            tree = self._snapshots.tree(state.cwd, ref, review_end(stage, visit, state))
        except GitRefusedError as error:
            return {"why": error.message}
        return {"tree": tree} if tree else {}

    def _change_section(self, options: ReviewOptions, state: State, moment: Hashable, room: int) -> str:
        base = options.base
        if not is_tree(base):
            return unknown_section(0, "no base is on record")
        try:
            root, new = self._files(state, moment)
            stat, patch, path = self._diff(root, state, base, new, room)
            about = [f"Base commit: {base[:12]}{f' ({options.target})' if options.target else ''}."]
            if options.mode == "quick":
                about.append("This is a quick review: report only P0 and P1, and leave out everything else.")
            if options.paths:
                about.append(f"Only this part of it is to be reviewed: {', '.join(options.paths)}.")
            within = pathspecs(options.paths, self._reports)
            loose = [] if state.workspace else changed_names(root, self._environ, "HEAD", new, within)
            if loose:
                about.append(f"Uncommitted changes are included, new files too: {plural(len(loose), 'file')}.")
        except GitRefusedError as error:
            return unknown_section(0, error.message)
        return change_section([one_line(line, _MAX_ABOUT) for line in about], stat, patch, path, room)

    def _changed_section(self, visit: int, seen: dict[str, Any], state: State, moment: Hashable, room: int) -> str:
        old = seen.get("tree")
        if not isinstance(old, str) or not is_tree(old):
            return unknown_section(visit, str(seen.get("why") or "no tree is on record"))
        try:
            root, new = self._files(state, moment)
            return changed_section(visit, *self._diff(root, state, old, new, room), room)
        except GitRefusedError as error:
            return unknown_section(visit, error.message)

    def _files(self, state: State, moment: Hashable) -> tuple[Path, str]:
        """Where the files under review are, and git's name for all of them as they are now."""
        if workspace := state.workspace:
            return workspace.path, workspace.commit
        return state.cwd, self._snapshots.tree(state.cwd, moment=moment)

    def _diff(self, root: Path, state: State, old: str, new: str, room: int) -> tuple[str, str, str]:
        """The statistics, the diff, and the file that holds the diff if it needs more than `room` characters."""
        within = pathspecs(review_options(state).paths, self._reports)
        stat = stat_of(root, self._environ, old, new, within)
        if not stat or changed_line_count(stat) > _MAX_FILE_LINES:
            return stat, "", ""
        patch = patch_of(root, self._environ, old, new, within)
        if len(patch) <= room:
            return stat, patch, ""
        file = self._store.absolute() / RUNS / state.run_id / f"{old[:12]}-{new[:12]}.diff"
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_file(file, f"{patch}\n".encode(errors="replace"))
        return stat, patch, str(file)


def _ref(run: str, stage: str) -> str:
    run, stage = (re.sub("[^A-Za-z0-9_-]", "-", name) for name in (run, stage))
    return f"refs/awf/reviewed/{run}/{stage}"
