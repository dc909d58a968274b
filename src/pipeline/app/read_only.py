"""Read-only is checked, not assumed: what an agent changed that may not write is undone, and its stage is an error."""

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from pipeline import files
from pipeline.backends.checkout import UNFINISHED, remove_path
from pipeline.backends.git import EMAIL, NAME
from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome, Status
from pipeline.engine.ports import AgentQuestion, AskAgent, Handler, Job, Waiting
from pipeline.findings.git import (
    GitRefusedError,
    Snapshot,
    TreeSnapshots,
    changed_names,
    in_repository,
    query_git,
    review_end,
    review_start,
    run_git,
)
from pipeline.findings.review_options import COMMAND, review_options
from pipeline.language.model import Access, BaseStage, LlmStage

_MAX_NAMED = 10  # files and refs that an error names
_ROUNDS = 3  # restoring a .gitignore can reveal more files
_IDENTITY = {
    "GIT_AUTHOR_NAME": NAME,
    "GIT_AUTHOR_EMAIL": EMAIL,
    "GIT_COMMITTER_NAME": NAME,
    "GIT_COMMITTER_EMAIL": EMAIL,
}
_STASH = "refs/stash"
# awf writes its own refs, and a fetch in the background those of other repositories.
_UNCHECKED_REFS = ("refs/awf/", "refs/remotes/", "refs/prefetch/")


@dataclass(frozen=True, slots=True)
class Baseline:
    """A checkout as a read-only agent found it, with what restores it exactly."""

    snapshot: Snapshot
    refs: Mapping[str, str]  # objects by name
    index: bytes | None
    stashes: bytes | None  # the log that lists them
    unfinished: frozenset[str] = frozenset()  # a merge or a rebase of the user


class _Change(NamedTuple):
    """How a checkout differs from its baseline."""

    snapshot: Snapshot
    refs: Mapping[str, str]  # what the changed ones point to now; empty if they are gone
    names: tuple[str, ...]  # of the changed files and refs


@dataclass(frozen=True, slots=True)
class Breach:
    """What was changed during a stage that may change nothing."""

    names: tuple[str, ...]  # of files and refs
    ref: str = ""  # that keeps it; empty if nothing could be kept
    problem: str = ""  # why it could not be undone, or not even checked
    suspects: tuple[str, ...] = ()  # the read-only stages that were running

    def apply(self, outcome: Outcome) -> Outcome:
        """The outcome of a stage that ran meanwhile: an error, whatever its agent answered."""
        who = outcome.backend or "the agent"
        if len(self.suspects) > 1:
            who = f"one of the agents of {', '.join(self.suspects)}"
        named = ", ".join(self.names[:_MAX_NAMED])
        if more := self.names[_MAX_NAMED:]:
            named += f" and {len(more)} more"
        reason = f"{who} may not write, but changed {named}" if named else f"whether {who} wrote is unknown"
        reason += f"; {self.problem}" if self.problem else "; it was put back"
        notes = (f"what was written is kept: git show --stat {self.ref}",) if self.ref else ()
        if outcome.failure:
            notes = (f"it also failed: {outcome.reason}", *notes)
        failure = Failure(
            kind=FailureClass.AGENT,
            digest=reason,
            exit_code=outcome.failure.exit_code if outcome.failure else None,
            error=ErrorKind.DENIED,
        )
        changes = {"status": Status.ERROR, "reason": reason, "failure": failure, "notes": (*outcome.notes, *notes)}
        return outcome.model_copy(update=changes)


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """A stage that is running, or an agent outside of a run."""

    directory: Path
    run: str
    stage: str
    visit: int
    writes: bool = False
    branch: str = ""  # the only ref to compare: a run with a worktree leaves the others to people
    undoes: bool = True  # not in a person's own checkout, who may have edited meanwhile
    start: Hashable = None  # the moments under which its trees are taken as well
    end: Hashable = None
    warn: Callable[[str], None] = lambda _text: None


def watched_job(job: Job, stage: BaseStage) -> Watched:
    """What is watched of a stage, or of the agent that it asks: without write access it may change nothing."""
    # The trees of a review are taken anyway; a retried branch does not see its own attempts.
    is_review = isinstance(job.stage, LlmStage) and job.attempt == job.state.progress.attempt(job.stage.id)
    moments = [at(job.stage.id, job.visit, job.state) if is_review else None for at in (review_start, review_end)]
    return Watched(
        directory=job.directory,
        run=job.run_id,
        stage=stage.id,
        visit=job.visit,
        writes=not isinstance(stage, LlmStage) or stage.access is Access.CODING,
        branch=job.workspace.branch if job.workspace else "",
        undoes=bool(job.workspace) or review_options(job.state).caller != COMMAND,
        start=moments[0],
        end=moments[1],
        warn=lambda text: job.emit({"agent": "warning", "text": text, "usage": {}}),
    )


@dataclass(eq=False)
class Reader:
    """A stage or an agent under guard, with what was found when it has ended."""

    who: Watched
    breaches: list[Breach] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def judge(self, outcome: Outcome) -> Outcome:
        """Return its outcome: an error if something was written that may not be."""
        for breach in self.breaches:
            outcome = breach.apply(outcome)
        return outcome.model_copy(update={"notes": (*outcome.notes, *self.notes)}) if self.notes else outcome


@dataclass
class _Directory:
    """Who is running in a directory. While a stage runs there that may write, nothing can be told apart."""

    readers: list[Reader] = field(default_factory=list)
    writers: list[str] = field(default_factory=list)
    baseline: Baseline | None = None  # None while there is a writer, or git cannot say


class ReadOnlyGuard:
    """Checks the files and refs around every agent stage without write access, for all handlers of a run.

    Stages that run beside it and may write make the check wait until they end: what changes meanwhile may be theirs.
    Without git nothing is checked.
    """

    def __init__(self, environ: Mapping[str, str], snapshots: TreeSnapshots) -> None:
        self._environ = environ
        self._snapshots = snapshots
        self._directories: dict[Path, _Directory] = {}

    def guarded(self, handler: Handler) -> "GuardedHandler":
        """The same handler, with every stage it runs under guard."""
        return GuardedHandler(handler, self)

    def guarded_questions(self, ask: AskAgent) -> AskAgent:
        """The same function, with every agent it asks under guard."""

        async def ask_under_guard(job: Job, question: AgentQuestion) -> Outcome:
            with self.watch(watched_job(job, question.agent)) as reader:
                outcome = await ask(job, question)
            return reader.judge(outcome)

        return ask_under_guard

    @contextmanager
    def watch(self, who: Watched) -> Iterator[Reader]:
        """Check while the context lasts; afterwards the reader knows what was found."""
        reader = Reader(who)
        if not in_repository(who.directory):
            yield reader
            return
        here = self._directories.setdefault(who.directory, _Directory())
        if not who.writes:
            if not here.readers and not here.writers:
                here.baseline = self._take_baseline(who, who.start, reader)
            here.readers.append(reader)
            try:
                yield reader
            finally:
                self._check(here, who.end)
                if here.writers:
                    reader.notes.append(f"its writes cannot be told from those of {', '.join(here.writers)}")
                here.readers.remove(reader)
        else:
            self._check(here)  # what changed so far is not its work
            here.baseline = None
            here.writers.append(who.stage)
            try:
                yield reader
            finally:
                here.writers.remove(who.stage)
                if here.readers and not here.writers:
                    here.baseline = self._take_baseline(who)

    def _take_baseline(self, who: Watched, moment: Hashable = None, reader: Reader | None = None) -> Baseline | None:
        directory, environ = who.directory, self._environ
        snapshot = self._snapshots.take(directory, moment)
        if not snapshot.tree:
            if reader and snapshot.problem:
                reader.notes.append(f"whether it wrote cannot be checked: {snapshot.problem}")
            return None
        index = Path(self._snapshots.checkout(directory).index)
        log = query_git(directory, environ, "rev-parse", "--path-format=absolute", "--git-path", f"logs/{_STASH}")
        unfinished = frozenset(name for name in UNFINISHED if (index.parent / name).exists())
        try:
            refs = self._refs(who)
            return Baseline(snapshot, refs, _read(index), _read(Path(log)), unfinished)
        except (GitRefusedError, OSError) as error:
            if reader:
                reader.notes.append(f"whether it wrote cannot be checked: {error}")
            return None

    def _refs(self, who: Watched) -> dict[str, str]:
        """The refs that nobody but the stage should change.

        A run with a worktree of its own leaves all refs but its branch to the people who work in the other checkouts.
        """
        directory = who.directory
        form = "--format=%(objectname)%00%(refname)%00%(symref)%00%(worktreepath)"
        only = (f"refs/heads/{who.branch}",) if who.branch else ()
        listed = run_git(directory, self._environ, "for-each-ref", form, *only)
        top, refs = self._snapshots.checkout(directory).root, {}
        for line in listed.splitlines():
            target, name, symref, worktree = line.split("\0")
            if not symref and worktree in ("", top) and not name.startswith(_UNCHECKED_REFS):
                refs[name] = target
        return refs

    def _check(self, here: _Directory, moment: Hashable = None) -> None:
        """Compare with the baseline; undo any difference and hold it against all readers."""
        if here.baseline is None or not here.readers:
            return
        who = here.readers[0].who
        breach = self._undo(who, here.baseline, moment)
        if breach is None:
            return
        suspects = tuple(reader.who.stage for reader in here.readers)
        breach = replace(breach, suspects=suspects)
        for reader in here.readers:
            reader.breaches.append(breach)
            text = breach.apply(Outcome(status=Status.ERROR)).reason
            reader.who.warn(text)
        here.baseline = self._take_baseline(who)

    def _undo(self, who: Watched, old: Baseline, moment: Hashable) -> Breach | None:
        """Keep what was changed under a ref and put everything back; None if nothing was changed."""
        names, ref = dict[str, None](), ""
        try:
            for _ in range(_ROUNDS):
                change = self._change(who, old, moment)
                if not change.names:
                    return Breach(tuple(names), ref) if names else None
                names.update(dict.fromkeys(change.names))
                ref = self._keep(who, change)
                if not who.undoes:
                    return Breach(tuple(names), ref, "it was left as it is: you may have changed it yourself")
                self._restore_refs(who.directory, old, change.refs)
                self._snapshots.restore(who.directory, old.snapshot.tree, change.snapshot.tree, moment)
                self._restore_index(who.directory, old)
        except GitRefusedError as error:
            return Breach(tuple(names), ref, error.message)
        except OSError as error:
            return Breach(tuple(names), ref, f"it could not be put back: {error.strerror or error}")
        return Breach(tuple(names), ref, "some of it could not be put back")

    def _change(self, who: Watched, old: Baseline, moment: Hashable) -> _Change:
        """How the checkout differs from the baseline; raises GitRefusedError if git cannot tell."""
        directory, before = who.directory, old.snapshot
        now, refs = self._snapshots.take(directory, moment), self._refs(who)
        if not now.tree:
            raise GitRefusedError(now.problem or f"{directory} is not a git checkout any more")
        names = changed_names(directory, self._environ, before.tree, now.tree) if now.tree != before.tree else []
        moved = {name: refs.get(name, "") for name in (*old.refs, *refs) if old.refs.get(name) != refs.get(name)}
        if before.branch != now.branch or (before.head != now.head and not moved):
            names.append("HEAD")
        return _Change(now, moved, (*names, *sorted(moved)))

    def _keep(self, who: Watched, change: _Change) -> str:
        """Commit the changed files with all changed refs as parents, and name the commit by a ref."""
        run, stage = (re.sub("[^A-Za-z0-9_-]", "-", name) for name in (who.run, who.stage))
        ref, directory = f"refs/awf/breach/{run}/{stage}-{who.visit}", who.directory
        revisions = [f"{tip}^{{commit}}" for tip in (change.snapshot.head, *change.refs.values(), ref) if tip]
        found = [query_git(directory, self._environ, "rev-parse", "--quiet", "--verify", one) for one in revisions]
        parents = [part for commit in dict.fromkeys(filter(None, found)) for part in ("-p", commit)]
        message = ("-m", f"What was written during {who.stage}, which may not write")
        command = ("commit-tree", change.snapshot.tree, *parents, *message)
        commit = run_git(directory, self._environ, *command, variables=_IDENTITY).strip()
        run_git(directory, self._environ, "update-ref", ref, commit)
        return ref

    def _restore_refs(self, directory: Path, old: Baseline, moved: Collection[str]) -> None:
        environ, (head, branch) = self._environ, (old.snapshot.head, old.snapshot.branch)
        if branch:
            run_git(directory, environ, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
        else:
            run_git(directory, environ, "update-ref", "--no-deref", "HEAD", head)
        for name in sorted(moved, key=lambda name: name in old.refs):  # a new ref can be in the way of an old one
            change = (name, old.refs[name]) if name in old.refs else ("-d", name)
            run_git(directory, environ, "update-ref", "--no-deref", *change)
        if _STASH in moved:
            path = ("rev-parse", "--path-format=absolute", "--git-path", f"logs/{_STASH}")
            _write(Path(query_git(directory, environ, *path)), old.stashes)

    def _restore_index(self, directory: Path, old: Baseline) -> None:
        index = Path(self._snapshots.checkout(directory).index)
        _write(index, old.index)
        for name in UNFINISHED:
            if name not in old.unfinished:
                remove_path(index.parent / name)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        files.write_file(path, content)


@dataclass(frozen=True, slots=True)
class GuardedHandler:
    """Runs stages under guard."""

    handler: Handler
    guard: ReadOnlyGuard

    async def run(self, job: Job) -> Outcome | Waiting:
        """Run the stage; if something was written that may not be, the outcome is an error."""
        with self.guard.watch(watched_job(job, job.stage)) as reader:
            outcome = await self.handler.run(job)
        return outcome if isinstance(outcome, Waiting) else reader.judge(outcome)
