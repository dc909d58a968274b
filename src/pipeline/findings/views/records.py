"""The project's own record of reviews, in `.wystack/`: a file for each finding, and one for each pass.

A pass is written once. A finding's file that somebody changed is read before it is written over; what is not a record
is moved aside, and the record is put back from the ledger.
"""

import os
import re
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline import __version__, files
from pipeline.errors import AwfError
from pipeline.findings.events import FindingRaised, LedgerEvent
from pipeline.findings.formats import record
from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats.items import limit_nesting
from pipeline.findings.formats.view_edits import ViewEdits, refused, sealed
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.views.record_store import NO_TRUST, SECONDS, RecordStore, Trust, load_record_store
from pipeline.findings.views.stamps import Stamp, Stamps, stamp_of
from pipeline.findings.views.written import ViewsWritten

DIRECTORY = ".wystack"
FILE = "file"  # who edited a file outside of any stage
SUGGESTION = (
    'No workspace record store — review record skipped. Run "mkdir .wystack" at the root of the repository '
    "to enable per-pass tracking."
)
_PART = 5_000  # findings whose files are in memory at once
_LARGEST = 4 * 1024 * 1024  # bytes of one record
_PASS = re.compile(r"REV-(\d{1,15})-([0-9A-Za-z]{1,64})")
_RECORD = re.compile(r"(fnd_[0-9A-Za-z_-]{1,64})\.json")


class RecordDirectory:
    """The records of one repository. Without the directory nothing is written, and that is said once."""

    def __init__(
        self, root: Path, stamps: Stamps | None = None, trust: Trust = NO_TRUST, *, timeout: float = SECONDS
    ) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._findings = self._folder / "findings"
        self._stamps = stamps or Stamps(None, root)
        self._trust = trust
        self._timeout = timeout  # seconds for the project's own store to take one record
        self._suggested = False
        self._refused = False  # whether it was said that the project's own store is not used
        self._taken: dict[str, Stamp] = {}  # the files that were read, as they were: what they say is taken
        self._unread: set[str] = set()  # those of them that are not records

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

    def write_pass(self, passed: Mapping[str, Any]) -> ViewsWritten:
        """Write the record of a pass, once. Where its id is another's, the next second is taken."""
        if not self.loaded:
            return ViewsWritten(suggestion=self.suggestion())
        problems = self._settle("reviews")
        with files.lock_directory(self._folder):
            path, data = self._free(passed)
            if os.path.lexists(path):
                return ViewsWritten((path,), tuple(problems))
            problems += self._hand_over({path: data})
            if not files.create_file(path, data):
                raise AwfError(f"{path} was written by another process, which did not wait for its turn")
            return ViewsWritten((path,), tuple(problems))

    def write_findings(self, findings: Iterable[Finding], *, at: str, by: str = FILE) -> ViewsWritten:
        """Write the files of findings that are not as they should be, but for those with edits to be applied first."""
        if not self.loaded:
            return ViewsWritten(suggestion=self.suggestion())
        problems = self._settle("findings")
        with files.lock_directory(self._folder):
            there = self._there()
            rest = iter(findings)
            parts = [self._write(part, there, at, by) for part in iter(lambda: list(islice(rest, _PART)), [])]
        self._stamps.save()
        return ViewsWritten(
            tuple(path for part in parts for path in part.paths),
            (*problems, *(problem for part in parts for problem in part.problems)),
            tuple(event for part in parts for event in part.events),
        )

    def read_edits(self, ledger: Ledger, *, at: str, by: str = FILE) -> ViewEdits:
        """What somebody changed in the files of findings. A file that the ledger does not know is taken in."""
        if not self._usable(self._folder) or not self._usable(self._findings):
            return ViewEdits(problems=(f"{DIRECTORY}/findings is not a directory of this repository",))
        found = ViewEdits()
        for name, about in sorted(self._there().items()):
            id = FindingId(name.removesuffix(".json"))
            if not (id in ledger.findings and self._stamps.untouched(name, about)):
                found += self._edits(name, about, ledger.findings.get(id), at, by)
        return found

    def _edits(self, name: str, about: os.stat_result, finding: Finding | None, at: str, by: str) -> ViewEdits:
        if self._taken.get(name) == stamp_of(about):
            return ViewEdits()  # it was read before, and what it says is taken or refused
        self._taken[name] = stamp_of(about)
        return self._look(self._findings / name, finding, at, by)

    def _write(
        self, findings: Iterable[Finding], there: Mapping[str, os.stat_result], at: str, by: str
    ) -> ViewsWritten:
        pages: dict[Path, bytes] = {}
        events, problems, versions = list[LedgerEvent](), list[str](), dict[Path, str]()
        for finding in findings:
            name, version = f"{finding.id}.json", _version(finding)
            if name in there and self._stamps.shows(name, version) and self._stamps.untouched(name, there[name]):
                continue
            path = self._findings / name
            edits = ViewEdits() if self._is_read(name, there.get(name)) else self._look(path, finding, at, by)
            events += edits.events
            problems += edits.problems
            if not edits.events:
                pages[path], versions[path] = render(finding), version
            if name in self._unread:
                self._move_aside(path)
        changed = {path: data for path, data in pages.items() if not self._is(path, data, versions[path])}
        problems += self._hand_over(changed)
        files.write_files(changed)
        for path in changed:
            self._stamps.wrote(path, path.name, versions[path])
        return ViewsWritten(tuple(changed), tuple(problems), tuple(events))

    def _is_read(self, name: str, about: os.stat_result | None) -> bool:
        """Whether nothing in a file is news: it is not there, awf wrote it, or it was read since somebody else did."""
        return about is None or self._stamps.untouched(name, about) or self._taken.get(name) == stamp_of(about)

    def _is(self, path: Path, data: bytes, version: str) -> bool:
        """Whether a file has this content already."""
        try:
            if files.read_file(path, len(data)) != data:
                return False
        except files.NotAFile:
            return False
        self._stamps.wrote(path, path.name, version)
        return True

    def _there(self) -> dict[str, os.stat_result]:
        """The files that have the name of a record, with what the system says of them."""
        try:
            with os.scandir(self._findings) as entries:
                return {one.name: one.stat(follow_symlinks=False) for one in entries if _RECORD.fullmatch(one.name)}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise AwfError(
                f"{DIRECTORY}/findings cannot be read: {error.strerror}", help="make it readable, and resume"
            ) from error

    def _settle(self, name: str) -> list[str]:
        """See that a directory of the records is one; what was moved aside for that."""
        try:
            moved = (
                files.ensure_directory(self._folder, self._root),
                files.ensure_directory(self._folder / name, self._root),
            )
        except OSError as error:
            raise AwfError(
                f"{DIRECTORY}/{name} cannot be used: {error.strerror}", help="make it readable and writable, and resume"
            ) from error
        return [problem for problem in moved if problem]

    def _usable(self, folder: Path) -> bool:
        return not os.path.lexists(folder) or (folder.is_dir() and files.is_inside(self._root, folder))

    def _free(self, passed: Mapping[str, Any]) -> tuple[Path, bytes]:
        """Where to write a pass, and what: under its own id, or where it was written before."""
        found = _PASS.fullmatch(str(passed["id"]))
        if found is None:
            raise AwfError(f"{passed['id']!a} is no id of a pass: it is REV-, the seconds, and the commit")
        second = int(found[1])
        while True:
            id = f"REV-{second}-{found[2]}"
            path, data = self._folder / "reviews" / f"{id}.json", strict.dumps({**passed, "id": id})
            if not os.path.lexists(path) or _has(path, data):
                return path, data
            second += 1

    def _look(self, path: Path, finding: Finding | None, at: str, by: str) -> ViewEdits:
        """What somebody changed in a file; one that is not a record says nothing, and is to be put back."""
        try:
            data = files.read_file(path, _LARGEST)
        except files.NotAFile as error:
            return self._unusable(path, finding, str(error), at, by)
        except OSError as error:
            raise AwfError(
                f"{_named(path)} cannot be read: {error.strerror}", help="make it readable, and resume"
            ) from error
        if data is None or (finding is not None and data == render(finding)):
            return ViewEdits()
        read = _read(data, path)
        if isinstance(read, str):
            return self._unusable(path, finding, read, at, by)
        if finding is not None:
            return record.put(finding, read, at, by)
        adopted = record.adopt(read, at)
        if isinstance(adopted, str):
            return self._unusable(path, None, f"cannot be taken in: {adopted}", at, by)
        return ViewEdits((FindingRaised(at=adopted.created_at, finding=adopted),))

    def _unusable(self, path: Path, finding: Finding | None, why: str, at: str, by: str) -> ViewEdits:
        if finding is None:
            return ViewEdits(problems=(f"{_named(path)} {why}; it is not used",))
        self._unread.add(path.name)
        problem = f"{_named(path)} {why}; it was moved aside and put back"
        return ViewEdits(problems=(problem,), told=refused(finding, (f"its record {why}",), at, by))

    def _move_aside(self, path: Path) -> None:
        self._unread.discard(path.name)
        try:
            files.move_aside(path)
        except FileNotFoundError:
            pass  # it is gone already
        except OSError as error:
            raise AwfError(
                f"{_named(path)} is not a record, and cannot be moved aside: {error.strerror}",
                help="make the directory writable, and resume",
            ) from error

    def _hand_over(self, files: Mapping[Path, bytes]) -> list[str]:
        """Give the records to the project's own store first; once that fails, the rest is kept here alone."""
        if not files or self._refused:
            return []
        store = load_record_store(self._folder, self._trust, self._timeout)
        if isinstance(store, str):
            self._refused = True
            return [f"fallback.used: {store}; records are kept in {DIRECTORY} alone"]
        if isinstance(store, RecordStore):
            for done, (path, data) in enumerate(files.items()):
                if problem := store.write(data):
                    rest = len(files) - done - 1
                    return [f"fallback.used: {problem}; {_named(path)} and {rest} more are kept here"]
        return []


def render(finding: Finding) -> bytes:
    """The file of a finding."""
    return strict.dumps(sealed(record.get(finding), record.SEALED))


def _version(finding: Finding) -> str:
    """What changes with whatever a file shows: every event leaves a line of history."""
    return f"{__version__}:{len(finding.history)}"


def _has(path: Path, data: bytes) -> bool:
    try:
        return files.read_file(path, len(data)) == data
    except files.NotAFile:
        return False


def _named(path: Path) -> str:
    return f"{DIRECTORY}/{path.parent.name}/{path.name}"


def _read(data: bytes, path: Path) -> dict[str, Any] | str:
    """A record, or why it cannot be read."""
    try:
        read = limit_nesting(strict.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    if not isinstance(read, dict):
        return "is not a JSON object"
    version: Any = read.get("schemaVersion")
    if strict.is_int(version) and version > record.VERSION:
        return f"has version {str(version)[:20]}, which is newer than this program"
    return read if read.get("findingId") == path.stem else "has a `findingId` that is not its name"
