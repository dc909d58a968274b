"""Agents that may not write work in a checkout of their own, not in yours.

It has exactly the files under review, and the commits, branches and tags of the repository whose objects it borrows. It
shares nothing else with that repository: what an agent writes, commits or deletes in it stays there, and is noticed.
It belongs to a run, so that sessions can be continued in it. It is brought to the files under review when a round
begins, and removed when the run ends.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.backends.checkout import remove_path
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import AgentQuestion, AskAgent, Handler, Job, Waiting
from pipeline.findings.git import GitRefusedError, TreeSnapshots, query_git, round_moment, run_git
from pipeline.language.model import reads_only
from pipeline.text import listing

CHECKOUTS = "checkouts"  # the directory of the store
PRIVATE = ".awf"  # the directory of a checkout for what agents are given beside the files
_SECONDS = 600.0  # for git to write all files of a large repository
_MAX_NAMED = 10  # files that a note names
_COPIED_SETTINGS = (
    *("core.autocrlf", "core.eol", "core.symlinks", "core.fileMode", "core.ignoreCase"),
    *("core.sparseCheckout", "core.sparseCheckoutCone"),  # a partial clone has no other files
)
_REFS = ("refs/heads", "refs/remotes", "refs/tags")


class BorrowedCheckout:
    """A repository with the files of one tree, which borrows the objects of another repository.

    Awf's own git works with a git directory beside it. That of the checkout is a copy, made anew each time: an agent
    may have put a program into its configuration, which must not run here.
    """

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        self._git = path.with_name(f".{path.name}")
        self._environ = environ

    def show(self, top: Path, head: str, tree: str) -> None:
        """Bring files and refs to those of the repository at `top`, whatever was done here before."""
        self._make_directory()
        if not (self._git / "HEAD").is_file():
            self._create(top)
        self._borrow(top, head)
        (self._git / "index.lock").unlink(missing_ok=True)
        self._run("read-tree", "--reset", "-u", tree)
        self._run("clean", "-ffdxq")
        remove_path(self.path / ".git")
        shutil.copytree(self._git, self.path / ".git")
        if head:  # what is not committed shows as changed
            run_git(self.path, self._environ, "read-tree", "-m", "HEAD", seconds=_SECONDS)

    def written(self) -> list[str]:
        """Return the files that differ from those that were shown, except ignored ones."""
        self._make_directory()
        listed = self._run("ls-files", "-z", "--modified", "--others", "--exclude-standard")
        return sorted({*listed.split("\0")[:-1]})

    def remove(self) -> None:
        """Remove it with all that was written in it."""
        remove_path(self.path)
        remove_path(self._git)

    def _make_directory(self) -> None:
        """Make the directory of the files, unless it is there: an agent may have removed or replaced it."""
        if self.path.is_symlink() or not self.path.is_dir():
            remove_path(self.path)
            self.path.mkdir(parents=True)

    def _create(self, top: Path) -> None:
        remove_path(self._git)
        format = query_git(top, self._environ, "rev-parse", "--show-object-format") or "sha1"
        create = ("init", "--quiet", "--bare", "--template=", f"--object-format={format}", str(self._git))
        run_git(self.path, self._environ, *create)
        settings = {name: query_git(top, self._environ, "config", "--get", name) for name in _COPIED_SETTINGS}
        for name, value in {**settings, "core.bare": "false", "gc.auto": "0"}.items():
            if value:
                run_git(self.path, self._environ, "config", "--file", str(self._git / "config"), name, value)

    def _borrow(self, top: Path, head: str) -> None:
        """Name the objects and refs of the other repository."""
        places = ("objects", "shallow", "info/exclude", "info/sparse-checkout")
        asked = [part for place in places for part in ("--git-path", place)]
        objects, shallow, exclude, sparse = map(
            Path, run_git(top, self._environ, "rev-parse", "--path-format=absolute", *asked).splitlines()
        )
        _write(self._git / "objects/info/alternates", f"{objects}\n")
        _write(self._git / "shallow", shallow.read_text() if shallow.is_file() else None)
        _write(self._git / "info/sparse-checkout", sparse.read_text() if sparse.is_file() else None)
        ignored = exclude.read_text(errors="replace") if exclude.is_file() else ""
        _write(self._git / "info/exclude", f"{ignored}\n/{PRIVATE}/\n")
        refs = run_git(top, self._environ, "for-each-ref", "--format=%(objectname) %(refname)", *_REFS)
        _write(self._git / "packed-refs", refs)
        _write(self._git / "HEAD", f"{head}\n" if head else "ref: refs/heads/main\n")

    def _run(self, *arguments: str) -> str:
        here = {"GIT_DIR": str(self._git), "GIT_WORK_TREE": str(self.path), "GIT_LFS_SKIP_SMUDGE": "1"}
        return run_git(self.path, self._environ, *arguments, variables=here, seconds=_SECONDS)


def _write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


@dataclass(eq=False)
class _Room:
    """A checkout, and how many work in it now."""

    checkout: BorrowedCheckout
    readers: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(eq=False)
class Place:
    """Where an agent works that may not write."""

    top: Path  # of the repository that it is shown
    root: Path  # of its checkout
    directory: Path
    written: list[str] = field(default_factory=list)

    def judge(self, outcome: Outcome) -> Outcome:
        """Return the outcome of what it did, with the paths of your files, and a note if it wrote."""
        texts = {
            "response": self._translate(outcome.response),
            "reason": self._translate(outcome.reason),
            "answers": tuple(map(self._translate, outcome.answers)),
        }
        if self.written:
            note = f"it may not write, and wrote in its own checkout, where nothing counts: {self._names}"
            texts["notes"] = (*outcome.notes, note)
        return outcome.model_copy(update=texts)

    @property
    def _names(self) -> str:
        return listing(self.written, _MAX_NAMED)

    def _translate(self, text: str) -> str:
        return text.replace(str(self.root), str(self.top))


class Readers:
    """Gives agents that may not write their place. Outside of git they work where the run does."""

    def __init__(self, store: Path, environ: Mapping[str, str], snapshots: TreeSnapshots) -> None:
        self._store = store
        self._environ = environ
        self._snapshots = snapshots
        self._rooms: dict[str, _Room] = {}

    def reading(self, handler: Handler) -> "ReadingHandler":
        """Return the same handler, with every stage that may not write in its own place."""
        return ReadingHandler(handler, self)

    def asking(self, ask: AskAgent) -> AskAgent:
        """Return the same function, with every agent that may not write in its own place."""

        async def ask_in_place(job: Job, question: AgentQuestion) -> Outcome:
            if not reads_only(question.agent):
                return await ask(job, question)
            async with self.place(job.run_id, job.directory, _moment(job)) as place:
                if place is None:
                    return await ask(job, question)
                outcome = await ask(job._replace(place=place.directory), question)
            return place.judge(outcome)

        return ask_in_place

    @asynccontextmanager
    async def place(self, name: str, directory: Path, moment: Hashable = None) -> AsyncIterator[Place | None]:
        """Give an agent a place in the checkout with a name; None outside of git.

        Who comes first brings it to the files at a moment. Who comes while others work in it sees what they see.
        """
        taken = self._snapshots.take(directory, moment)
        if not taken.tree:
            if taken.problem:
                raise GitRefusedError(f"the reviewers' checkout cannot be made: {taken.problem}")
            yield None
            return
        top = Path(self._snapshots.checkout(directory).root)
        below = _below(directory, top)
        room = self._rooms.setdefault(name, _Room(checkout_of(self._store, name, self._environ)))
        async with room.lock:
            if not room.readers:
                await asyncio.to_thread(room.checkout.show, top, taken.head, taken.tree)
                await asyncio.to_thread((room.checkout.path / below).mkdir, parents=True, exist_ok=True)
            room.readers += 1
        place = Place(top, room.checkout.path, room.checkout.path / below)
        try:
            yield place
        finally:
            async with room.lock:
                room.readers -= 1
                place.written = await asyncio.to_thread(room.checkout.written)


def _below(directory: Path, top: Path) -> Path:
    """Return where a directory is in its repository."""
    return directory.resolve().relative_to(top.resolve())


def checkout_of(store: Path, name: str, environ: Mapping[str, str]) -> BorrowedCheckout:
    """Return the checkout with a name, such as that of a run, whether it exists or not."""
    return BorrowedCheckout(store.resolve() / CHECKOUTS / name, environ)


def _moment(job: Job) -> Hashable:
    """Return the moment whose files a round is about."""
    return round_moment(job.state, job.state.progress.attempt(job.stage.id), "start")


@dataclass(frozen=True, slots=True)
class ReadingHandler:
    """Runs stages, those that may not write in their own place."""

    handler: Handler
    readers: Readers

    async def run(self, job: Job) -> Outcome | Waiting:
        """Run a stage."""
        if not reads_only(job.stage):
            return await self.handler.run(job)
        async with self.readers.place(job.run_id, job.directory, _moment(job)) as place:
            if place is None:
                return await self.handler.run(job)
            outcome = await self.handler.run(job._replace(place=place.directory))
        return outcome if isinstance(outcome, Waiting) else place.judge(outcome)
