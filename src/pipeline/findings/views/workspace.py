"""The project's own record of reviews, in `.wystack/`: a file for each finding, and one for each pass.

A pass is written once. A finding's file that somebody changed is read before it is written over.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline.errors import AwfError
from pipeline.findings.codecs import record, strict
from pipeline.findings.codecs.lens import Edits, sealed
from pipeline.findings.codecs.reading import shallow
from pipeline.findings.events import AnyEvent, Raised
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Finding, FindingId
from pipeline.findings.views import atomic
from pipeline.findings.views.binding import Binding, bound
from pipeline.findings.views.written import Written

DIRECTORY = ".wystack"
SUGGESTION = (
    'No workspace record store — review record skipped. Run "mkdir .wystack" at the root of the repository '
    "to enable per-pass tracking."
)
_PART = 5_000  # findings whose files are in memory at once
_PASS = re.compile(r"REV-(\d{1,15})-([0-9A-Za-z]{1,64})")


class Workspace:
    """The records of one repository. Without the directory nothing is written, and that is said once."""

    def __init__(self, root: Path, *, timeout: float = 30.0) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._timeout = timeout  # seconds for the project's own store to take one record
        self._suggested = False

    @property
    def loaded(self) -> bool:
        """Whether the project keeps records."""
        return self._folder.is_dir()

    def suggestion(self) -> str:
        """The line that says how to keep records; once, and only where none are kept."""
        if self.loaded or self._suggested:
            return ""
        self._suggested = True
        return SUGGESTION

    def write_pass(self, passed: Mapping[str, Any]) -> Written:
        """Write the record of a pass, once. Where its id is another's, the next second is taken."""
        if not self.loaded:
            return Written(suggestion=self.suggestion())
        if problem := self._astray("reviews"):
            return Written(problems=(problem,))
        with atomic.locked(self._folder):
            path, data = self._free(passed)
            if path.exists():
                return Written((path,))
            problems = tuple(self._hand_over({path: data}))
            path.parent.mkdir(exist_ok=True)
            if not atomic.create(path, data):
                raise AwfError(f"{path} was written by another process, which did not wait for its turn")
            return Written((path,), problems)

    def write_findings(self, findings: Iterable[Finding], *, at: str, by: str = Actor.ORCHESTRATOR) -> Written:
        """Write the files of findings that are not as they should be, but for those with edits to be applied first."""
        if not self.loaded:
            return Written(suggestion=self.suggestion())
        if problem := self._astray("findings"):
            return Written(problems=(problem,))
        with atomic.locked(self._folder):
            (self._folder / "findings").mkdir(exist_ok=True)
            rest = iter(findings)
            parts = [self._write(part, at, by) for part in iter(lambda: list(islice(rest, _PART)), [])]
        return Written(
            tuple(path for part in parts for path in part.paths),
            tuple(problem for part in parts for problem in part.problems),
            tuple(event for part in parts for event in part.events),
        )

    def read_edits(self, ledger: Ledger, *, at: str, by: str = Actor.ORCHESTRATOR) -> Edits:
        """What somebody changed in the files of findings. A file that the ledger does not know is taken in."""
        if problem := self._astray("findings"):
            return Edits(problems=(problem,))
        found = [self._edits(path, ledger, at, by) for path in sorted((self._folder / "findings").glob("fnd_*.json"))]
        return Edits(
            tuple(event for edits in found for event in edits.events),
            tuple(problem for edits in found for problem in edits.problems),
        )

    def _write(self, findings: Iterable[Finding], at: str, by: str) -> Written:
        files: dict[Path, bytes] = {}
        events, problems = list[AnyEvent](), list[str]()
        for finding in findings:
            path, data = self._path(finding), render(finding)
            edits, mine = self._look(path, data, finding, at, by)
            events += edits.events
            problems += edits.problems
            if mine and not edits.events:
                files[path] = data
        problems += self._hand_over(files)
        atomic.replace_all(files)
        return Written(tuple(files), tuple(problems), tuple(events))

    def _astray(self, name: str) -> str:
        """Why a directory of the records may not be used, if so."""
        if atomic.inside(self._root, self._folder / name):
            return ""
        return f"{DIRECTORY}/{name} is a link that leads out of the repository; it is not used"

    def _path(self, finding: Finding) -> Path:
        return self._folder / "findings" / f"{finding.id}.json"

    def _free(self, passed: Mapping[str, Any]) -> tuple[Path, bytes]:
        """Where to write a pass, and what: under its own id, or where it was written before."""
        found = _PASS.fullmatch(str(passed["id"]))
        if found is None:
            raise AwfError(f"{passed['id']!a} is no id of a pass: it is REV-, the seconds, and the commit")
        second = int(found[1])
        while True:
            id = f"REV-{second}-{found[2]}"
            path, data = self._folder / "reviews" / f"{id}.json", strict.dumps({**passed, "id": id})
            if not path.exists() or path.read_bytes() == data:
                return path, data
            second += 1

    def _edits(self, path: Path, ledger: Ledger, at: str, by: str) -> Edits:
        finding = ledger.findings.get(FindingId(path.stem))
        return self._look(path, render(finding) if finding else b"", finding, at, by)[0]

    def _look(self, path: Path, ours: bytes, finding: Finding | None, at: str, by: str) -> tuple[Edits, bool]:
        """What somebody changed in a file, and whether it is to be written."""
        try:
            data = atomic.read(path)
        except atomic.NotAFile:
            return Edits(problems=(f"{_named(path)} is a link or no file; it is not used",)), False
        if data is None or data == ours:
            return Edits(), data is None
        read = _read(data, path)
        if isinstance(read, str):
            return Edits(problems=(f"{_named(path)} {read}; it was left as it is",)), False
        return (_adopted(read, path, at) if finding is None else record.put(finding, read, at, by)), True

    def _hand_over(self, files: Mapping[Path, bytes]) -> Iterator[str]:
        """Give the records to the project's own store first; once that fails, the rest is kept here alone."""
        if not files:
            return
        store = bound(self._folder, self._timeout)
        if isinstance(store, str):
            yield f"fallback.used: {store}; records are kept in {DIRECTORY} alone"
        elif isinstance(store, Binding):
            for done, (path, data) in enumerate(files.items()):
                if problem := store.write(data):
                    yield f"fallback.used: {problem}; {_named(path)} and {len(files) - done - 1} more are kept here"
                    return


def render(finding: Finding) -> bytes:
    """The file of a finding."""
    return strict.dumps(sealed(record.get(finding), record.SEALED))


def _named(path: Path) -> str:
    return f"{DIRECTORY}/{path.parent.name}/{path.name}"


def _read(data: bytes, path: Path) -> dict[str, Any] | str:
    """A record, or why it cannot be read."""
    try:
        read = shallow(strict.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    if not isinstance(read, dict):
        return "is no JSON object"
    version: Any = read.get("schemaVersion")
    if strict.is_int(version) and version > record.VERSION:
        return f"has version {version}, which is newer than this program"
    return read if read.get("findingId") == path.stem else "has a `findingId` that is not its name"


def _adopted(read: Mapping[str, Any], path: Path, at: str) -> Edits:
    finding = record.adopt(read)
    if isinstance(finding, str):
        return Edits(problems=(f"{_named(path)} cannot be taken in: {finding}",))
    return Edits((Raised(at=finding.created_at or at, finding=finding),))
