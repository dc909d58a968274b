"""What changed: in a run so far, for a person who decides on it, and since a review last looked, for its next visit."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline import files
from pipeline.app.intent import commit_messages, rules_for
from pipeline.app.reading import PRIVATE
from pipeline.engine.context import Key
from pipeline.engine.ports import RUNS, Briefing, Job
from pipeline.engine.state import State
from pipeline.findings.git import (
    GitRefusedError,
    TreeSnapshots,
    changed_names,
    is_tree,
    patch_of,
    pathspecs,
    round_moment,
    stat_of,
)
from pipeline.findings.review_options import ReviewOptions, review_options
from pipeline.language.model import is_review
from pipeline.plugins.hooks import hookimpl
from pipeline.summary.render import (
    change_section,
    changed_line_count,
    changed_section,
    intent_section,
    rules_section,
    summary_budget,
    unknown_section,
)
from pipeline.text import plural, prompt_line

_MAX_LINES = 4_000  # changed lines; of a longer diff only the files are shown: nobody decides by scrolling through it
_MAX_PATCH = 400_000  # characters
_MAX_FILE_LINES = 100_000  # changed lines; a longer diff is not written to a file either
_MAX_ABOUT = 1_000  # characters of a line that says what is compared
_DIFF_SHARE = 0.5  # of the summary
_INTENT_SHARE = 0.2  # of that, for each of commit messages and rules


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
    """A plugin that gives a review the change: all of it, or what changed since that reviewer looked last.

    What a summary has no room for is in a file beside those that are reviewed: most reviewers cannot run git. Trouble
    with git costs a line of the summary, and stages that are not reviews cost nothing.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        snapshots: TreeSnapshots,
        store: Path,
        since: Callable[[Job], str],  # the tree that a review has seen before; empty: give it the whole change
    ) -> None:
        self._environ = environ
        self._snapshots = snapshots
        self._store = store
        self._since = since

    @hookimpl
    def brief(self, job: Job) -> Briefing | None:
        """Give a review the change."""
        if not is_review(job.stage):
            return None
        stage, state, options = job.stage, job.state, review_options(job.state)
        moment = round_moment(state, state.progress.attempt(stage.id), "start")
        room = int(summary_budget(stage, state) * _DIFF_SHARE)
        folder = job.place / PRIVATE if job.place else self._store.absolute() / RUNS / state.run_id
        since = self._since(job)
        if since:
            return Briefing((self._changed_section(since, state, moment, room, folder),))
        if not options.base:
            return Briefing()
        change = self._change_section(options, state, moment, room, folder)
        return Briefing((*self._intent_sections(job, options, moment, room), change))

    def _intent_sections(self, job: Job, options: ReviewOptions, moment: Hashable, room: int) -> Iterator[str]:
        """Yield what the change is for, and the project's rules, those that there are."""
        root, share = job.state.directory, int(room * _INTENT_SHARE)
        if not is_tree(options.base):
            return
        try:
            tree = self._snapshots.tree(root, moment=moment)
            changed = changed_names(root, self._environ, options.base, tree, pathspecs(options.paths))
        except GitRefusedError:  # the section on the change says so
            return
        top = Path(self._snapshots.checkout(root).root)
        sections = (
            rules_section(rules_for(top, changed), share),
            intent_section(commit_messages(root, self._environ, options.base), share),
        )
        yield from filter(None, sections)

    def _change_section(self, options: ReviewOptions, state: State, moment: Hashable, room: int, folder: Path) -> str:
        base = options.base
        if not is_tree(base):
            return unknown_section("no base is on record")
        try:
            root, new = state.directory, self._snapshots.tree(state.directory, moment=moment)
            stat, patch, path = self._diff(root, state, base, new, room, folder)
            about = [f"Base commit: {base[:12]}{f' ({options.target})' if options.target else ''}."]
            if options.mode == "quick":
                about.append("This is a quick review: report only P0 and P1, and leave out everything else.")
            if options.paths:
                about.append(f"Only this part of it is to be reviewed: {', '.join(options.paths)}.")
            within = pathspecs(options.paths)
            loose = [] if state.workspace else changed_names(root, self._environ, "HEAD", new, within)
            if loose:
                about.append(f"Uncommitted changes are included, new files too: {plural(len(loose), 'file')}.")
        except GitRefusedError as error:
            return unknown_section(error.message)
        return change_section([prompt_line(line, _MAX_ABOUT) for line in about], stat, patch, path, room)

    def _changed_section(self, since: str, state: State, moment: Hashable, room: int, folder: Path) -> str:
        try:
            new = self._snapshots.tree(state.directory, moment=moment)
            return changed_section(*self._diff(state.directory, state, since, new, room, folder), room)
        except GitRefusedError as error:
            return unknown_section(error.message)

    def _diff(self, root: Path, state: State, old: str, new: str, room: int, folder: Path) -> tuple[str, str, str]:
        """The statistics, the diff, and the file in a folder that holds it if it needs more than `room` characters."""
        within = pathspecs(review_options(state).paths)
        stat = stat_of(root, self._environ, old, new, within)
        if not stat or changed_line_count(stat) > _MAX_FILE_LINES:
            return stat, "", ""
        patch = patch_of(root, self._environ, old, new, within)
        if len(patch) <= room:
            return stat, patch, ""
        file = folder / f"{old[:12]}-{new[:12]}.diff"
        file.parent.mkdir(parents=True, exist_ok=True)
        files.write_file(file, f"{patch}\n".encode(errors="replace"))
        return stat, patch, str(file)
