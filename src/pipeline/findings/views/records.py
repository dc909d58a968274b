"""The directory `.wystack/`: a record for each finding and for each review pass.

The record of a pass is written once. The record of a finding is computed from the ledger; it is read for additions to
its triage before it is written over. What is not a record is moved aside.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

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
from pipeline.findings.views.stamps import Copies, Stamp, Stamps, explain_errors, stamp_at, stamp_of

DIRECTORY = ".wystack"
SUGGESTION = (
    'No workspace record store — review record skipped. Run "mkdir .wystack" at the root of the repository '
    "to enable per-pass tracking."
)
_BATCH = 5_000  # findings whose files are in memory at once
_MAX_RECORD = 4 * 1024 * 1024  # bytes
PASS = "REV-"  # noqa: S105 - how the id of a pass begins
_PASS_ID = re.compile(r"REV-(\d{1,15})-([0-9A-Za-z]{1,64})")
_RECORD_NAME = re.compile(r"fnd_[0-9A-Za-z_-]{1,64}\.json")


class RecordDirectory:
    """The records of one repository. Nothing is written without the directory."""

    def __init__(self, root: Path, store: Path, trust: Trust = NO_TRUST, *, timeout: float = TIMEOUT) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._findings = self._folder / "findings"
        self._reviews = self._folder / "reviews"
        self._stamps = Stamps(store, root)
        self._copies = Copies(store, root)
        self._trust = trust
        self._timeout = timeout  # seconds for the project's own store to take one record
        self._suggested = False
        self._store_refused = False  # whether it was reported that the project's own store is not used
        self._unreadable: set[str] = set()  # the files that are not records

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
        return not self._copies.has(_label_of(passed, 0))

    def write_pass(self, review: Review, passed: Pass) -> list[str]:
        """Write the records of a pass; return problems.

        Its own record has the id of the pass, and those of its lenses the following seconds. If another record has an
        id already, the next second is taken.
        """
        match = _PASS_ID.fullmatch(passed.id)
        if match is None:
            raise AwfError(f"{passed.id!a} is not the id of a pass: REV-, seconds, and the commit")
        problems = self._ensure_directory(self._reviews)
        with files.lock_directory(self._folder):
            for number, record in reversed([*enumerate(render_pass(review, passed))]):  # with its own, all are written
                problems += self._create_pass(record, _label_of(passed, number), int(match[1]) + number, match[2])
        return problems

    def _create_pass(self, record: Mapping[str, Any], label: str, second: int, commit: str) -> Iterator[str]:
        """Write a record that nobody writes again. Another store may have used its name."""
        while True:
            path = self._reviews / f"{PASS}{second}-{commit}.json"
            data = strict_json.dumps({**record, "id": path.stem})
            if not os.path.lexists(path):
                yield from self._hand_over({path: data})
            if self._copies.create(path.name, data, label):
                return
            second += 1

    def read_edits(self, ledger: Ledger, at: str, by: str) -> ViewEdits:
        """Return what was changed in the records since awf wrote them; unknown records of findings are imported.

        Only files whose times or size changed are opened.
        """
        if not all(files.can_be_directory(folder, self._root) for folder in (self._folder, self._findings)):
            return ViewEdits(problems=(f"{DIRECTORY}/findings is not a directory of this repository",))
        edits = join_edits([self._edits_in(name, stamp, ledger, at, by) for name, stamp in self._changed_files(ledger)])
        problems = summed_up(edits.problems, f"{DIRECTORY}/findings")
        return ViewEdits(_with_lines(edits.events, ledger), problems)

    def write_findings(self, ledger: Ledger) -> list[str]:
        """Write the records that do not show their findings as they are; return problems.

        A record that was changed after it was read last is left for the next `read_edits`.
        """
        written = self._stamps.files
        versions = {finding.id: _version(finding, ledger) for finding in ledger.findings.values()}
        stale = (
            finding
            for finding in ledger.findings.values()
            if (entry := written.get(f"{finding.id}.json")) is None or entry.version != versions[finding.id]
        )
        problems: list[str] = []
        while batch := list(islice(stale, _BATCH)):
            problems += self._ensure_directory(self._findings)
            with files.lock_directory(self._folder):
                problems += self._write_batch(batch, versions, ledger)
        self._stamps.save()
        return problems

    def _write_batch(
        self, findings: Iterable[Finding], versions: Mapping[FindingId, str], ledger: Ledger
    ) -> Iterator[str]:
        pages: dict[Path, bytes] = {}
        for finding in findings:
            path = self._findings / f"{finding.id}.json"
            if not self._stamps.is_known(path.name, stamp_at(path)):
                continue
            if path.name in self._unreadable:
                self._unreadable.discard(path.name)
                with explain_errors(f"{_label(path)} cannot be moved aside"), suppress(FileNotFoundError):
                    files.move_aside(path)
            pages[path] = render_file(finding, ledger)
        yield from self._hand_over(pages)
        files.write_files(pages, sync=False)
        for path in pages:
            self._stamps.record(path.name, stamp_of(path.lstat()), versions[FindingId(path.stem)])

    def _edits_in(self, name: str, stamp: Stamp, ledger: Ledger, at: str, by: str) -> ViewEdits:
        """Return the edits in a record. One that cannot be read has none, and is written again."""
        path, finding = self._findings / name, ledger.findings.get(FindingId(name[:-5]))
        self._stamps.record(name, stamp)
        data = _content(path)
        if finding and data == render_file(finding, ledger):
            self._stamps.record(name, stamp, _version(finding, ledger))
            return ViewEdits()
        record = _parse_record(data, path.stem)
        if isinstance(record, dict) and finding:
            return read_record_edits(finding, ledger.line(finding.id), record, _label(path), by)
        if isinstance(record, dict):
            imported = import_record(record, at)
            if not isinstance(imported, str):
                return ViewEdits((FindingRaised(at=imported.created_at, finding=imported),))
            record = f"cannot be imported: {imported}"
        if finding is None:
            return ViewEdits(problems=(f"{_label(path)} {record}; it is not used",))
        self._unreadable.add(name)
        return ViewEdits(problems=(f"{_label(path)} {record}; it was moved aside and written again",))

    def _changed_files(self, ledger: Ledger) -> list[tuple[str, Stamp]]:
        """Return the records that awf neither wrote nor has read since they changed, and forget those that are gone."""
        written, changed = self._stamps.files, list[tuple[str, Stamp]]()
        gone = set(written)
        unreadable = explain_errors(f"{DIRECTORY}/findings cannot be read")
        with unreadable, suppress(FileNotFoundError), files.open_directory(self._findings) as directory:
            for entry in os.scandir(directory):  # a path to each of 10,000 files would take 3 ms more
                name, stamp = entry.name, stamp_of(entry.stat(follow_symlinks=False))
                gone.discard(name)
                if name[:-5] in ledger.findings and self._stamps.is_known(name, stamp):
                    continue
                if _RECORD_NAME.fullmatch(name):
                    changed.append((name, stamp))
        for name in gone:
            self._stamps.forget(name)
        return sorted(changed)

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


def _version(finding: Finding, ledger: Ledger) -> str:
    """Return what changes with whatever a record shows: its history, and the reviewers of the members of its line."""
    reviewers = ",".join(member.reviewer for member in ledger.line(finding.id).members)
    return f"{VERSION}.{len(finding.history)}.{reviewers}"


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


def _label_of(passed: Pass, number: int) -> str:
    """Return the label of the copy of a pass's record: 0 is its own, the others are those of its lenses."""
    return f"{passed.id}.{number}"


def _label(path: Path) -> str:
    return f"{DIRECTORY}/{path.parent.name}/{path.name}"


def _content(path: Path) -> bytes | str:
    """Return what is in the file of a record, or why it is none."""
    try:
        with explain_errors(f"{_label(path)} cannot be read"):
            return files.read_file(path, _MAX_RECORD) or b""
    except files.NotAFile as error:
        return str(error)


def _parse(data: bytes | str) -> dict[str, Any] | str:
    """Return a JSON object, or why there is none."""
    if isinstance(data, str):
        return data
    try:
        value = limit_nesting(strict_json.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    return value if isinstance(value, dict) else "is not a JSON object"


def _parse_record(data: bytes | str, id: str) -> dict[str, Any] | str:
    """Return the record of a finding, or why it cannot be read."""
    record = _parse(data)
    if isinstance(record, str):
        return record
    version: Any = record.get("schemaVersion")
    if strict_json.is_int(version) and version > VERSION:
        return f"has version {str(version)[:20]}, which is newer than this program"
    return record if record.get("findingId") == id else "has a `findingId` that is not its name"
