"""The directory `.wystack/`: a record for each finding and for each review pass.

The record of a pass is written once, and put back from a copy. The record of a finding is computed from the ledger;
it is read for additions to its triage before it is written over. What is not a record is moved aside.
"""

import os
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.events import FindingRaised, LedgerEvent, Pass
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import limit_nesting
from pipeline.findings.formats.record import VERSION, import_record, read_record_edits, render_pass, render_record
from pipeline.findings.formats.view_edits import ViewEdits, join_edits, summed_up
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId
from pipeline.findings.reviews import Review
from pipeline.findings.views.record_store import NO_TRUST, TIMEOUT, RecordStore, Trust, load_record_store
from pipeline.findings.views.stamps import Stamp, Stamps, explain_errors, has_content, stamp_at, stamp_of

DIRECTORY = ".wystack"
SUGGESTION = (
    'No workspace record store — review record skipped. Run "mkdir .wystack" at the root of the repository '
    "to enable per-pass tracking."
)
_LEDGER = "ledger"  # in the stamps: how much of the ledger all records show
_BATCH = 5_000  # findings whose files are in memory at once
_MAX_RECORD = 4 * 1024 * 1024  # bytes
_PASS = "REV-"  # noqa: S105 - how the id of a pass begins
_PASS_ID = re.compile(r"REV-(\d{1,15})-([0-9A-Za-z]{1,64})")
_RECORD_NAME = re.compile(r"fnd_[0-9A-Za-z_-]{1,64}\.json")


class _PassRecord(NamedTuple):
    """The record of a pass that is not as awf wrote it, or is gone."""

    copy: str  # the name of the copy in the store
    path: Path
    data: bytes


class RecordDirectory:
    """The records of one repository. Nothing is written without the directory."""

    def __init__(self, root: Path, stamps: Stamps, trust: Trust = NO_TRUST, *, timeout: float = TIMEOUT) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._findings = self._folder / "findings"
        self._reviews = self._folder / "reviews"
        self._stamps = stamps
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
        """Return the line that says how to keep records, the first time it is asked for where none are kept."""
        if self.loaded or self._suggested:
            return ""
        self._suggested = True
        return SUGGESTION

    def lacks(self, passed: Pass) -> bool:
        """Return whether the record of a pass is to be written."""
        return self.loaded and self._stamps.read_copy(_copy_name(passed, 0)) is None

    def write_pass(self, review: Review, passed: Pass) -> list[str]:
        """Write the records of a pass unless they were written; return problems.

        Its own record has the id of the pass, and those of its lenses the following seconds. If another record has an
        id already, the next second is taken.
        """
        if not self.lacks(passed):
            return []
        match = _PASS_ID.fullmatch(passed.id)
        if match is None:
            raise AwfError(f"{passed.id!a} is not the id of a pass: REV-, seconds, and the commit")
        problems = self._ensure_directory(self._reviews)
        with files.lock_directory(self._folder):
            for number, record in reversed([*enumerate(render_pass(review, passed))]):  # with its own, all are written
                self._create_pass(record, _copy_name(passed, number), int(match[1]) + number, match[2], problems)
        return problems

    def _create_pass(self, record: Mapping[str, Any], copy: str, second: int, commit: str, problems: list[str]) -> None:
        """Write a record that nobody writes again. The copy comes first: what is killed in between is put back."""
        while True:
            path = self._reviews / f"REV-{second}-{commit}.json"
            data = strict_json.dumps({**record, "id": path.stem})
            if not os.path.lexists(path):
                problems += self._hand_over({path: data})
                self._stamps.save_copy(copy, data)
                if files.create_file(path, data, sync=False):
                    self._stamps.record(copy, stamp_of(path.lstat()), path.name)
                    return
            second += 1

    def restore_passes(self) -> None:
        """Write the records of passes again that were changed or removed: nothing in them may be edited."""
        for record in self._edited_passes() if self.loaded else ():
            with explain_errors(f"{_label(record.path)} cannot be written"):
                self._ensure_directory(self._reviews)
                files.write_file(record.path, record.data, sync=False)
                self._stamps.record(record.copy, stamp_of(record.path.lstat()), record.path.name)

    def _edited_passes(self) -> Iterator[_PassRecord]:
        """Return the records of passes that are not as awf wrote them, or are gone."""
        for copy in self._stamps.copies(_PASS):
            known = self._stamps.files.get(copy)
            if known and stamp_at(self._reviews / known.version) == known.stamp:
                continue
            data = self._stamps.read_copy(copy) or b""
            record = _parse(data)
            if isinstance(record, str) or not _PASS_ID.fullmatch(str(record.get("id"))):  # the copy was cut off
                continue
            path = self._reviews / f"{record['id']}.json"
            if has_content(path, data):
                self._stamps.record(copy, stamp_of(path.lstat()), path.name)
            else:
                yield _PassRecord(copy, path, data)

    def read_edits(self, ledger: Ledger, at: str, by: str) -> ViewEdits:
        """Return what was changed in the records since awf wrote them; unknown records of findings are imported.

        Only files whose times or size changed are opened.
        """
        if not all(files.can_be_directory(folder, self._root) for folder in (self._folder, self._findings)):
            return ViewEdits(problems=(f"{DIRECTORY}/findings is not a directory of this repository",))
        parts = []
        for name, stamp in sorted(self._changed_files(ledger).items()):
            self._read[name] = stamp
            finding = ledger.findings.get(FindingId(name[:-5]))
            parts.append(self._edits_in(self._findings / name, stamp, finding, ledger, at, by))
        edits = join_edits(parts)
        changed = (_label(one.path) for one in self._edited_passes() if os.path.lexists(one.path))
        passes = tuple(f"{name} was put back: it is written once and cannot be edited" for name in changed)
        problems = summed_up(edits.problems, f"{DIRECTORY}/findings") + summed_up(passes, f"{DIRECTORY}/reviews")
        return ViewEdits(_with_lines(edits.events, ledger), problems)

    def write_findings(self, ledger: Ledger) -> list[str]:
        """Write the records that do not show their findings as they are; return problems.

        A record that was changed after it was read last is left for the next `read_edits`.
        """
        written, all_of_it = self._stamps.files, str(ledger.length)
        if not self.loaded or (_LEDGER in written and written[_LEDGER].version == all_of_it):
            return []
        problems = self._ensure_directory(self._findings)
        with files.lock_directory(self._folder):
            versions = _versions(ledger)
            stale = (
                finding
                for finding in ledger.findings.values()
                if (entry := written.get(f"{finding.id}.json")) is None or entry.version != versions[finding.id]
            )
            while batch := list(islice(stale, _BATCH)):
                problems += self._write_batch(batch, versions, ledger)
        self._stamps.record(_LEDGER, (0, 0, 0), all_of_it)
        return problems

    def _write_batch(
        self, findings: Iterable[Finding], versions: Mapping[FindingId, str], ledger: Ledger
    ) -> Iterator[str]:
        pages: dict[Path, bytes] = {}
        version_of: dict[Path, str] = {}
        for finding in findings:
            path = self._findings / f"{finding.id}.json"
            if self._is_unread(path):
                continue
            if path.name in self._unreadable:
                self._unreadable.discard(path.name)
                with explain_errors(f"{_label(path)} cannot be moved aside"), suppress(FileNotFoundError):
                    files.move_aside(path)
            pages[path], version_of[path] = render_file(finding, ledger), versions[finding.id]
        changed = {path: data for path, data in pages.items() if not has_content(path, data)}
        yield from self._hand_over(changed)
        files.write_files(changed, sync=False)
        for path, version in version_of.items():
            self._stamps.record(path.name, stamp_of(path.lstat()), version)

    def _is_unread(self, path: Path) -> bool:
        """Return whether a record was changed after it was read last."""
        stamp, written = stamp_at(path), self._stamps.files.get(path.name)
        if stamp is None or self._read.get(path.name) == stamp:
            return False
        return written is None or written.stamp != stamp

    def _edits_in(
        self, path: Path, stamp: Stamp, finding: Finding | None, ledger: Ledger, at: str, by: str
    ) -> ViewEdits:
        """Return the edits in a record. One that cannot be read has none, and is written again."""
        try:
            with explain_errors(f"{_label(path)} cannot be read"):
                data = files.read_file(path, _MAX_RECORD)
        except files.NotAFile as error:
            return self._reject(path, finding, str(error))
        if data is None:
            return ViewEdits()
        if finding and data == render_file(finding, ledger):
            members = ledger.line(finding.id).members
            self._stamps.record(path.name, stamp, _version(finding, [member.reviewer for member in members]))
            return ViewEdits()
        record = _parse_record(data, path.stem)
        if isinstance(record, str):
            return self._reject(path, finding, record)
        if finding:
            self._stamps.forget(path.name, _LEDGER)
            return read_record_edits(finding, ledger.line(finding.id), record, _label(path), by)
        imported = import_record(record, at)
        if isinstance(imported, str):
            return self._reject(path, None, f"cannot be imported: {imported}")
        return ViewEdits((FindingRaised(at=imported.created_at, finding=imported),))

    def _reject(self, path: Path, finding: Finding | None, why: str) -> ViewEdits:
        if finding is None:
            return ViewEdits(problems=(f"{_label(path)} {why}; it is not used",))
        self._stamps.forget(path.name, _LEDGER)
        self._unreadable.add(path.name)
        return ViewEdits(problems=(f"{_label(path)} {why}; it was moved aside and written again",))

    def _changed_files(self, ledger: Ledger) -> dict[str, Stamp]:
        """Return the records that awf neither wrote nor has read since they changed, and forget those that are gone."""
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
        if lost := [*filter(_RECORD_NAME.fullmatch, gone)]:
            self._stamps.forget(*lost, _LEDGER)
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


def render_file(finding: Finding, ledger: Ledger) -> bytes:
    """Return the file of a finding."""
    return strict_json.dumps(render_record(finding, ledger.line(finding.id)))


def _versions(ledger: Ledger) -> dict[FindingId, str]:
    """Return the version of the record of each finding."""
    reviewers: defaultdict[FindingId, list[str]] = defaultdict(list)
    for finding in ledger.findings.values():
        reviewers[finding.line].append(finding.reviewer)
    return {finding.id: _version(finding, reviewers[finding.line]) for finding in ledger.findings.values()}


def _version(finding: Finding, reviewers: Collection[str]) -> str:
    """Return what changes with whatever a record shows: its history, and the reviewers of the members of its line."""
    return f"{VERSION}.{len(finding.history)}.{len(reviewers)}.{','.join(sorted(set(reviewers)))}"


def _with_lines(events: Sequence[LedgerEvent], ledger: Ledger) -> tuple[LedgerEvent, ...]:
    """Return events in which imported findings are part of lines of work that exist."""
    heads = {id for id, finding in ledger.findings.items() if finding.line == id}
    heads.update(event.finding.id for event in events if isinstance(event, FindingRaised))
    done = []
    for event in events:
        if isinstance(event, FindingRaised) and event.finding.line not in heads:
            event = replace(event, finding=replace(event.finding, line=FindingId("")))  # noqa: PLW2901
        done.append(event)
    return tuple(done)


def _copy_name(passed: Pass, number: int) -> str:
    """Return the name of the copy of a pass's record: 0 is its own, the others are those of its lenses."""
    return f"{passed.id}.{number}.json"


def _label(path: Path) -> str:
    return f"{DIRECTORY}/{path.parent.name}/{path.name}"


def _parse(data: bytes) -> dict[str, Any] | str:
    """Return a JSON object, or why there is none."""
    try:
        value = limit_nesting(strict_json.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    return value if isinstance(value, dict) else "is not a JSON object"


def _parse_record(data: bytes, id: str) -> dict[str, Any] | str:
    """Return the record of a finding, or why it cannot be read."""
    record = _parse(data)
    if isinstance(record, str):
        return record
    version: Any = record.get("schemaVersion")
    if strict_json.is_int(version) and version > VERSION:
        return f"has version {str(version)[:20]}, which is newer than this program"
    return record if record.get("findingId") == id else "has a `findingId` that is not its name"
