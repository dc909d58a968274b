"""The verdict file in `.code-review/`: the latest, the archive of those before, and the reason of an abort.

An archived file is never written over. A copy of the latest, as awf wrote it, is in the store: what somebody else makes
of the file is read as an edit, and what is not a verdict is moved aside and put back from that copy.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats import verdict
from pipeline.findings.formats.items import limit_nesting
from pipeline.findings.formats.verdict_view import COUNTING
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.model import Finding
from pipeline.findings.verdicts import Verdict
from pipeline.findings.views.records import FILE
from pipeline.findings.views.stamps import Stamps
from pipeline.findings.views.written import ViewsWritten

DIRECTORY = ".code-review"
LATEST = "review-latest.json"
ABORT = "abort-reason.md"
_NEXT = "review-next.json"  # in the store: what is about to be written
_VERSION = "latest"
_EDITABLE = ("status", "note")
_WRITABLE = "make it readable and writable, and resume"


class VerdictFile:
    """The verdict file of one repository and what belongs to it."""

    def __init__(self, root: Path, stamps: Stamps | None = None) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._stamps = stamps or Stamps(None, root)
        self.path = self._folder / LATEST

    def write(self, document: Mapping[str, Any]) -> ViewsWritten:
        """Write a verdict by the rules of its mode. A verification goes on from a sound latest file, or is refused."""
        if fault := verdict.document_fault(document):
            raise AwfError(f"this verdict cannot be written: {fault}")
        try:
            moved = files.ensure_directory(self._folder, self._root)
        except OSError as error:
            raise AwfError(f"{DIRECTORY} cannot be used: {error.strerror}", help=_WRITABLE) from error
        with files.lock_directory(self._folder):
            if document["mode"] == "verify" and (refusal := self._refusal(document)):
                return ViewsWritten(problems=(refusal,))
            problems = [moved] if moved else []
            problems += self._set_aside(document)
            self._put(document)
        self._stamps.save()
        return ViewsWritten((self.path,), tuple(problems))

    @property
    def there(self) -> bool:
        """Whether there is a latest verdict: the file, or what awf wrote into it."""
        return os.path.lexists(self.path) or self._stamps.kept(LATEST) is not None

    def sound(self) -> dict[str, Any] | str:
        """The latest verdict as awf wrote it, else as it is; or why there is none to go on from."""
        kept = self._stamps.kept(LATEST)
        if kept is not None and isinstance(read := _read(kept), dict):
            return read
        return self._present()

    def read_edits(self, findings: Iterable[Finding], *, at: str, by: str = FILE) -> ViewEdits:
        """What somebody changed in the latest verdict; nothing, at little cost, where it is as it was written."""
        try:
            untouched = self._stamps.untouched(LATEST, self.path.lstat())
        except (FileNotFoundError, NotADirectoryError):
            return self._missing()
        except OSError:  # reading it says what is wrong
            untouched = False
        if untouched:
            return ViewEdits()
        latest = self._present()
        if isinstance(latest, str):
            return ViewEdits(problems=(latest,))
        kept = self._stamps.kept(LATEST)
        if kept is not None and self._data() in (kept, self._stamps.kept(_NEXT)):
            self._stamps.wrote(self.path, LATEST, _VERSION)  # it was only touched
            return ViewEdits()
        edits = verdict.put(latest, findings, at=at, by=by)
        if edits.events or edits.problems or kept is None:
            return edits
        if _without_edits(latest) == _without_edits(_read(kept)):
            return ViewEdits()  # they are in the ledger, and the process died before the file was written again
        return ViewEdits(problems=(f"{DIRECTORY}/{LATEST} was changed in what is not for editing; it was put back",))

    def _missing(self) -> ViewEdits:
        """Nothing is said of a verdict that was never written; one that was is missed."""
        if self._stamps.kept(LATEST) is None:
            return ViewEdits()
        return ViewEdits(problems=(f"{DIRECTORY}/{LATEST} was removed; it is put back",))

    def _present(self) -> dict[str, Any] | str:
        """The latest verdict as it is, or why it is none."""
        data = self._data()
        if data is None:
            return f"there is no {DIRECTORY}/{LATEST}; run a full review first"
        read = _read(data) if isinstance(data, bytes) else data
        return f"{DIRECTORY}/{LATEST} {read}; it was moved aside and put back" if isinstance(read, str) else read

    def _data(self) -> bytes | str | None:
        """The content of the latest verdict, or why it has none."""
        if os.path.lexists(self._folder) and not (self._folder.is_dir() and files.is_inside(self._root, self._folder)):
            return "is not in a directory of this repository"
        try:
            return files.read_file(self.path)
        except files.NotAFile as error:
            return str(error)
        except NotADirectoryError:
            return None
        except OSError as error:
            raise AwfError(f"{DIRECTORY}/{LATEST} cannot be read: {error.strerror}", help=_WRITABLE) from error

    def _refusal(self, document: Mapping[str, Any]) -> str:
        latest = self.sound()
        if isinstance(latest, str):
            return f"nothing to verify: {latest}"
        if latest["mode"] == "quick":
            return "nothing to verify: the latest review is a quick one; run a full review first"
        if latest["reviewId"] != document["reviewId"]:
            return f"nothing to verify: the latest review is {latest['reviewId']}, not {document['reviewId']}"
        return ""

    def put_back(self) -> None:
        """Give the latest verdict the content that awf gave it, if somebody changed it."""
        kept = self._stamps.kept(LATEST)
        if kept is None or self._data() == kept:
            return
        document = _read(kept)
        if isinstance(document, dict):
            self.write(document)

    def _set_aside(self, document: Mapping[str, Any]) -> Iterator[str]:
        """Archive the latest verdict under its own id, unless it was a quick one or is the one being written."""
        data, kept = self._data(), self._stamps.kept(LATEST)
        latest = _read(data) if isinstance(data, bytes) else data
        if isinstance(latest, str):
            name = files.move_aside(self.path)
            yield f"{DIRECTORY}/{LATEST} {latest}; it was moved aside to {name}"
        source = kept if kept is not None else data
        latest = _read(source) if isinstance(source, bytes) else None
        if not isinstance(latest, dict) or document["mode"] == "verify":
            return
        if latest["mode"] != "quick" and latest["reviewId"] != document["reviewId"] and isinstance(source, bytes):
            name = f"review-{latest['reviewId']}.json"
            archived = self._archive(name, source)
            if archived != name:
                yield f"{DIRECTORY}/{name} was there already; the verdict after it was kept as {archived}"

    def _archive(self, name: str, data: bytes) -> str:
        """Keep a verdict under a name, or under the next one where another has it."""
        stem = name.removesuffix(".json")
        number = 1
        while True:
            path = self._folder / (name if number == 1 else f"{stem}.{number}.json")
            if _has(path, data) or files.create_file(path, data):
                return path.name
            number += 1

    def _put(self, document: Mapping[str, Any]) -> None:
        """Write the latest verdict. The reason of an abort is there before it, and goes after it."""
        aborted = document["verdict"] == Verdict.ABORT
        if aborted:
            files.write_file(self._folder / ABORT, reason(document).encode())
        data = strict.dumps(document)
        self._stamps.keep(_NEXT, data)  # whatever is killed in between: the file is one of the two that awf wrote
        if not _has(self.path, data):
            files.write_file(self.path, data)
        self._stamps.keep(LATEST, data)
        self._stamps.wrote(self.path, LATEST, _VERSION)
        if not aborted:
            files.remove_file(self._folder / ABORT)


def _without_edits(document: dict[str, Any] | str) -> Any:
    """A verdict without what may be edited in it."""
    if isinstance(document, str):
        return document
    rows = [{name: value for name, value in row.items() if name not in _EDITABLE} for row in document["findings"]]
    return {**document, "findings": rows}


def _has(path: Path, data: bytes) -> bool:
    try:
        return files.read_file(path, len(data)) == data
    except (files.NotAFile, FileNotFoundError):
        return False


def reason(document: Mapping[str, Any]) -> str:
    """What made a verdict an abort, and what is to be done now."""
    blockers = [one for one in document["findings"] if one["severity"] == "Blocker" and one["status"] in COUNTING]
    breaking = [one for one in blockers if one.get("x_system_breaking") is True] or blockers
    lines = [f"- `{_place(one)}`: {_line(one['title'])} ({_line(one['domain'])})" for one in breaking]
    return "\n".join(
        [
            f"# Review {document['reviewId']} was aborted",
            "",
            f"Reviewed: {document['scope']} `{_line(document['target'])}`, {document['timestamp']}",
            "",
            "What follows endangers the whole system, so that no agent is to fix it by itself:",
            "",
            *lines,
            "",
            "Next: a person looks at the cause, decides what to do, and starts a full review afterwards.",
            "",
        ]
    )


def _place(one: Mapping[str, Any]) -> str:
    return _line(f"{one['file']}:{one['lineRange']}" if "lineRange" in one else one["file"])


def _line(text: str) -> str:
    """A text from outside on one line, without what would end a quotation."""
    return " ".join(text.replace("`", "'").split())


def _read(data: bytes) -> dict[str, Any] | str:
    """A verdict file, or why it cannot be used."""
    try:
        document = limit_nesting(strict.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    if fault := verdict.document_fault(document):
        return f"cannot be used: {fault}"
    read: dict[str, Any] = document
    return read
