"""The directory `.wystack/`: a record for each finding and for each review pass.

The record of a pass is written once. The record of a finding is read for edits before it is written over;
what is not a record is moved aside.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.events import FindingRaised, Pass
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import limit_nesting
from pipeline.findings.formats.record import VERSION, import_record, read_record_edits, render_record
from pipeline.findings.formats.view_edits import ViewEdits, join_edits, refuse
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.views.record_store import NO_TRUST, TIMEOUT, RecordStore, Trust, load_record_store
from pipeline.findings.views.stamps import (
    Stamp,
    Stamps,
    WrittenFile,
    digest,
    explain_errors,
    has_content,
    stamp_of,
)
from pipeline.text import plural

DIRECTORY = ".wystack"
SUGGESTION = (
    'No workspace record store — review record skipped. Run "mkdir .wystack" at the root of the repository '
    "to enable per-pass tracking."
)
_BATCH = 5_000  # findings whose files are in memory at once
_MAX_RECORD = 4 * 1024 * 1024  # bytes
_PASS_ID = re.compile(r"REV-(\d{1,15})-([0-9A-Za-z]{1,64})")
_RECORD_NAME = re.compile(r"fnd_[0-9A-Za-z_-]{1,64}\.json")


class RecordDirectory:
    """The records of one repository. Nothing is written without the directory."""

    def __init__(
        self, root: Path, stamps: Stamps | None = None, trust: Trust = NO_TRUST, *, timeout: float = TIMEOUT
    ) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._findings = self._folder / "findings"
        self._reviews = self._folder / "reviews"
        self._stamps = stamps or Stamps(None, root)
        self._trust = trust
        self._timeout = timeout  # seconds for the project's own store to take one record
        self._suggested = False
        self._store_refused = False  # whether it was reported that the project's own store is not used
        self._read: dict[str, Stamp] = {}  # the files that were read since awf wrote them
        self._unreadable: set[str] = set()  # those of them that are not records

    @property
    def loaded(self) -> bool:
        """Whether the project keeps records."""
        return self._folder.is_dir()

    def suggestion(self) -> str:
        """The line that says how to keep records, the first time it is asked for where none are kept."""
        if self.loaded or self._suggested:
            return ""
        self._suggested = True
        return SUGGESTION

    def has_pass(self, passed: Pass) -> bool:
        """Whether the record of a pass is written, under its id or, where another pass has that, a later second's."""
        own = {"started_at": passed.started_at, "skill": passed.skill, "finding_ids": list(passed.finding_ids)}
        match = _PASS_ID.fullmatch(passed.id)
        second = int(match[1]) if match else 0
        while match and os.path.lexists(path := self._reviews / f"REV-{second}-{match[2]}.json"):
            with suppress(files.NotAFile, NotADirectoryError, ValueError):
                record = strict_json.loads(files.read_file(path) or b"null")
                if isinstance(record, dict) and all(record.get(key) == value for key, value in own.items()):
                    return True
            second += 1
        return False

    def write_pass(self, record: Mapping[str, Any]) -> list[str]:
        """Write the record of a pass once; return problems. If another pass has its id, it gets the next second."""
        if not self.loaded:
            return []
        match = _PASS_ID.fullmatch(str(record["id"]))
        if match is None:
            raise AwfError(f"{record['id']!a} is not the id of a pass: REV-, seconds, and the commit")
        problems = self._ensure_directory(self._reviews)
        with files.lock_directory(self._folder):
            second = int(match[1])
            while True:
                id = f"REV-{second}-{match[2]}"
                path, data = self._reviews / f"{id}.json", strict_json.dumps({**record, "id": id})
                if has_content(path, data):
                    return problems
                if not os.path.lexists(path):
                    break
                second += 1
            problems += self._hand_over({path: data})
            if not files.create_file(path, data):
                raise AwfError(f"{path} was written by a process that did not wait for the lock")
            self._stamps.save_copy(path.name, data)
            self._stamps.record(path.name, stamp_of(path.lstat()), "", digest(data))
        return problems

    def restore_passes(self) -> None:
        """Write the records of passes again that were changed or removed: nothing in them may be edited."""
        for name in self._edited_passes():
            if data := self._stamps.read_copy(name):
                path = self._reviews / name
                with explain_errors(f"{_label(path)} cannot be written"):
                    self._ensure_directory(self._reviews)
                    files.write_file(path, data)
                    self._stamps.record(name, stamp_of(path.lstat()), "", digest(data))

    def _edited_passes(self) -> list[str]:
        """The records of passes that are not as awf wrote them, or are gone."""
        passes = ((name, written) for name, written in self._stamps.files.items() if name.startswith("REV-"))
        return [name for name, written in passes if not _is_as_written(self._reviews / name, written)]

    def read_edits(self, ledger: Ledger, at: str, by: str) -> ViewEdits:
        """What was changed in the records of findings since awf wrote them; unknown records are imported.

        Only files whose times or size changed are opened.
        """
        if not all(files.can_be_directory(folder, self._root) for folder in (self._folder, self._findings)):
            return ViewEdits(problems=(f"{DIRECTORY}/findings is not a directory of this repository",))
        parts = []
        for name, stamp in sorted(self._changed_files(ledger).items()):
            self._read[name] = stamp
            finding = ledger.findings.get(FindingId(name[:-5]))
            parts.append(self._edits_in(self._findings / name, stamp, finding, at, by))
        changed = (path for name in self._edited_passes() if os.path.lexists(path := self._reviews / name))
        parts.append(
            ViewEdits(problems=tuple(f"{_label(path)} cannot be edited; awf will restore it" for path in changed))
        )
        if outdated := sum(part.outdated for part in parts):
            older = f"{plural(outdated, 'record')} older than the ledger"
            parts.append(ViewEdits(problems=(f"{DIRECTORY}/findings: {older}; only triage was read",)))
        return join_edits(parts)

    def write_findings(self, ledger: Ledger, at: str, by: str) -> list[str]:
        """Write the records that do not show their findings as they are; return problems.

        A record with edits that were not read yet is left for the next `read_edits`.
        """
        if not self.loaded:
            return []
        problems = self._ensure_directory(self._findings)
        with files.lock_directory(self._folder):
            written = self._stamps.files
            stale = (
                finding
                for finding in ledger.findings.values()
                if (entry := written.get(f"{finding.id}.json")) is None or entry.version != _version(finding)
            )
            while batch := list(islice(stale, _BATCH)):
                problems += self._write_batch(batch, at, by)
        return problems

    def _write_batch(self, findings: Iterable[Finding], at: str, by: str) -> list[str]:
        problems: list[str] = []
        pages: dict[Path, bytes] = {}
        versions: dict[Path, str] = {}
        for finding in findings:
            path = self._findings / f"{finding.id}.json"
            unread = self._read_unread(path, finding, at, by)
            problems += unread.problems
            if unread.events:
                continue
            if path.name in self._unreadable:
                self._unreadable.discard(path.name)
                with explain_errors(f"{_label(path)} cannot be moved aside"), suppress(FileNotFoundError):
                    files.move_aside(path)
            pages[path], versions[path] = render_file(finding), _version(finding)
        changed = {path: data for path, data in pages.items() if not has_content(path, data)}
        problems += self._hand_over(changed)
        files.write_files(changed)
        for path, data in pages.items():
            self._stamps.record(path.name, stamp_of(path.lstat()), versions[path], digest(data))
        return problems

    def _read_unread(self, path: Path, finding: Finding, at: str, by: str) -> ViewEdits:
        """The edits in a record that was changed after the last `read_edits`."""
        try:
            stamp = stamp_of(path.lstat())
        except FileNotFoundError:
            return ViewEdits()
        written = self._stamps.files.get(path.name)
        if self._read.get(path.name) == stamp or (written and written.stamp == stamp):
            return ViewEdits()
        return self._edits_in(path, stamp, finding, at, by)

    def _edits_in(self, path: Path, stamp: Stamp, finding: Finding | None, at: str, by: str) -> ViewEdits:
        """The edits in a record. One that cannot be read has none, and is written again."""
        try:
            with explain_errors(f"{_label(path)} cannot be read"):
                data = files.read_file(path, _MAX_RECORD)
        except files.NotAFile as error:
            return self._reject(path, finding, str(error), at, by)
        if data is None:
            return ViewEdits()
        written = self._stamps.files.get(path.name)
        if finding and written and written.digest == digest(data):  # only its times changed
            self._stamps.record(path.name, stamp, written.version, written.digest)
            return ViewEdits()
        if finding and data == render_file(finding):
            self._stamps.record(path.name, stamp, _version(finding), digest(data))
            return ViewEdits()
        self._stamps.forget(path.name)
        record = _parse_record(data, path.stem)
        if isinstance(record, str):
            return self._reject(path, finding, record, at, by)
        if finding:
            return read_record_edits(finding, record, at, by)
        imported = import_record(record, at)
        if isinstance(imported, str):
            return self._reject(path, None, f"cannot be imported: {imported}", at, by)
        return ViewEdits((FindingRaised(at=imported.created_at, finding=imported),))

    def _reject(self, path: Path, finding: Finding | None, why: str, at: str, by: str) -> ViewEdits:
        if finding is None:
            return ViewEdits(problems=(f"{_label(path)} {why}; it is not used",))
        self._stamps.forget(path.name)
        self._unreadable.add(path.name)
        noted = refuse(finding, [f"its record {why}"], _label(path), at, by)
        return ViewEdits(problems=(f"{_label(path)} {why}; it was moved aside and written again",), notes=noted.notes)

    def _changed_files(self, ledger: Ledger) -> dict[str, Stamp]:
        """The records that awf neither wrote nor has read since they changed; those that are gone are forgotten."""
        written, findings, changed = self._stamps.files, ledger.findings, dict[str, Stamp]()
        gone = set(written)
        unreadable = explain_errors(f"{DIRECTORY}/findings cannot be read")
        with unreadable, suppress(FileNotFoundError), files.open_directory(self._findings) as directory:
            for entry in os.scandir(directory):  # a path to each of 10,000 files would take 3 ms more
                name, stamp = entry.name, stamp_of(entry.stat(follow_symlinks=False))
                gone.discard(name)
                known = written.get(name)
                if known and known.stamp == stamp and name[:-5] in findings:
                    continue
                if _RECORD_NAME.fullmatch(name) and self._read.get(name) != stamp:
                    changed[name] = stamp
        self._stamps.forget(*filter(_RECORD_NAME.fullmatch, gone))
        return changed

    def _ensure_directory(self, folder: Path) -> list[str]:
        """Make sure that a directory is one; return notes about what was moved aside for that."""
        with explain_errors(f"{DIRECTORY}/{folder.name} cannot be used"):
            notes = [files.ensure_directory(path, self._root) for path in (self._folder, folder)]
        return [note for note in notes if note]

    def _hand_over(self, records: Mapping[Path, bytes]) -> Iterator[str]:
        """Give records to the project's own store first. After a failure the rest is kept in the directory only."""
        if not records or self._store_refused:
            return
        store = load_record_store(self._folder, self._trust, self._timeout)
        if isinstance(store, str):
            self._store_refused = True
            yield f"fallback.used: {store}; records are kept in {DIRECTORY} only"
        elif isinstance(store, RecordStore):
            for done, (path, data) in enumerate(records.items()):
                if problem := store.write(data):
                    rest = len(records) - done - 1
                    yield f"fallback.used: {problem}; {_label(path)} and {rest} more are kept in {DIRECTORY} only"
                    return


def _is_as_written(path: Path, written: WrittenFile) -> bool:
    with explain_errors(f"{_label(path)} cannot be read"):
        try:
            same = stamp_of(path.lstat()) == written.stamp
            return same or digest(files.read_file(path, _MAX_RECORD) or b"") == written.digest
        except (files.NotAFile, FileNotFoundError, NotADirectoryError):
            return False


def render_file(finding: Finding) -> bytes:
    """The file of a finding."""
    return strict_json.dumps(render_record(finding))


def _version(finding: Finding) -> str:
    """What changes with whatever a record shows: an event adds to a history, or to the votes of a cluster's leader."""
    return f"{VERSION}.{len(finding.history)}.{len(finding.votes)}.{len(finding.sources)}.{finding.agreement}"


def _label(path: Path) -> str:
    return f"{DIRECTORY}/{path.parent.name}/{path.name}"


def _parse_record(data: bytes, id: str) -> dict[str, Any] | str:
    """A record, or why it cannot be read."""
    try:
        record = limit_nesting(strict_json.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    if not isinstance(record, dict):
        return "is not a JSON object"
    version: Any = record.get("schemaVersion")
    if strict_json.is_int(version) and version > VERSION:
        return f"has version {str(version)[:20]}, which is newer than this program"
    return record if record.get("findingId") == id else "has a `findingId` that is not its name"
