"""The directory `.code-review/`: the latest verdict, the archive of earlier ones, and the reason for an ABORT.

What belongs into the latest verdict can be computed from the ledger at any time: it is compared with what is there, a
status that somebody changed is taken, and the rest is written again. An archived verdict is written once.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline import files
from pipeline.findings.events import LedgerEvent, Pass
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import limit_nesting
from pipeline.findings.formats.verdict import (
    COUNTING,
    check_document,
    is_earlier,
    items_of,
    read_verdict_edits,
    render_verdict,
)
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.reviews import review
from pipeline.findings.verdicts import Verdict
from pipeline.findings.views.stamps import VERDICTS, Copies, Stamp, explain_errors, stamp_at, stamp_of

DIRECTORY = VERDICTS
LATEST = "review-latest.json"
ABORT = "abort-reason.md"
_LABEL = f"{DIRECTORY}/{LATEST}"
_ABORTED = "# Review "  # how the reason for an ABORT begins


class VerdictFile:
    """The verdict file of one repository and what belongs to it."""

    def __init__(self, root: Path, store: Path) -> None:
        self._root = root
        self._copies = Copies(store, root)
        self._folder = root / DIRECTORY
        self.path = self._folder / LATEST
        self._read: Stamp | None = None  # of the file when this process read or wrote it last
        self._shown = -1  # how much of the ledger it showed then; -1 if it is not as awf would write it
        self._fault = ""  # why it cannot be read as a verdict
        self._report = ""  # the path that it named
        self._replaced: tuple[bytes, ...] = ()  # the verdicts that the next review takes the place of
        self._reason: bytes | None = None  # what belongs into the reason for an ABORT; nothing if there is to be none

    def read_edits(self, ledger: Ledger, at: str, by: str, said: Sequence[LedgerEvent] = ()) -> ViewEdits:
        """Return what was said in the latest verdict beside what was `said` elsewhere already.

        There is a sentence about each file that will be put back.
        """
        stamp = stamp_at(self.path)
        latest = ViewEdits()
        if stamp is None or stamp != self._read:
            latest = self._edits_in(self._load(), ledger, said, at, by)
            self._read = stamp
        problems = latest.problems
        if self._is_reason_edited():
            problems += (f"{DIRECTORY}/{ABORT} was put back: nothing in it can be edited",)
        return ViewEdits(latest.events, problems)

    def _edits_in(
        self, found: bytes | str | None, ledger: Ledger, said: Sequence[LedgerEvent], at: str, by: str
    ) -> ViewEdits:
        """Return what was changed in the latest verdict. Before the first pass there is none of awf."""
        document = _parse(found) if isinstance(found, bytes) else found or ""
        self._fault = document if isinstance(document, str) else ""
        if ledger.last is None:
            self._replaced = (found,) if isinstance(found, bytes) else ()
            return ViewEdits()
        if isinstance(document, dict):
            self._report = document["reportPath"]
        now = self._render(ledger)
        written = strict_json.dumps(now)
        self._replaced, self._reason, self._shown = (written,), _abort_reason(now), -1
        if found == written:
            self._shown = ledger.length
            return ViewEdits()
        if self._fault:
            return ViewEdits(problems=(f"{_LABEL} {self._fault}; it was moved aside and written again",))
        if not isinstance(document, dict) or not isinstance(found, bytes):  # it was removed
            return ViewEdits()
        if _is_foreign(document, ledger):
            self._replaced = (found, written)
            kept = f"it was kept as {_archive_name(document)}; import it if it counts"
            sentence = f"{_LABEL} was of review {document['reviewId']}, which awf did not make: {kept}"
            return ViewEdits(problems=(sentence,))
        if is_earlier(document, now, ledger):
            self._replaced, self._reason = (found, written), None
        return read_verdict_edits(document, strict_json.loads(written), ledger.extended(said), _LABEL, at=at, by=by)

    def write(self, ledger: Ledger) -> list[str]:
        """Write the latest verdict and the reason for an ABORT as they should be; return problems.

        A file that was edited since it was read last is left for the next `read_edits`.
        """
        stamp = stamp_at(self.path)
        if ledger.last is None or (stamp != self._read and self._is_edited(ledger)):
            return []
        if stamp and self._shown == ledger.length and self._content(ABORT) == self._reason:
            return []
        document = self._render(ledger)
        data, reason = strict_json.dumps(document), _abort_reason(document)
        with explain_errors(f"{DIRECTORY} cannot be used"):
            problems = [files.ensure_directory(self._folder, self._root)]
        with files.lock_directory(self._folder):
            self._ignore()
            problems += self._make_room(document["reviewId"])
            # The reason for an ABORT comes before it and goes after it: there is none without a reason.
            if reason:
                files.write_file(self._folder / ABORT, reason, sync=False)
            files.write_file(self.path, data, sync=False)
            if not reason and os.path.lexists(self._folder / ABORT):
                files.remove_file(self._folder / ABORT)
            self._read = stamp_of(self.path.lstat())
        self._shown, self._replaced, self._reason, self._fault = ledger.length, (data,), reason, ""
        return [problem for problem in problems if problem]

    def shows(self, ledger: Ledger) -> bool:
        """Return whether the latest verdict is known to show everything in the ledger."""
        return self._shown == ledger.length

    def _is_edited(self, ledger: Ledger) -> bool:
        """Return whether there are edits in a file that was not read since it changed; then it still is not."""
        if self.read_edits(ledger, at="", by="") == ViewEdits():
            return False
        self._read = None
        return True

    def set_report(self, ledger: Ledger, path: str) -> list[str]:
        """Name the report of the latest review in its verdict; return problems."""
        problems = self.write(ledger)
        self._report, self._shown = path, -1
        return problems + self.write(ledger)

    def report_of(self, ledger: Ledger, passed: Pass) -> str:
        """Return the path of the report of a pass's review, if it is the latest and its verdict names one.

        Nothing else says where that report is. The file can be edited, so what it names has to be that very report.
        """
        path = PurePosixPath(self._report)
        if ledger.last is None or ledger.last.review != passed.review or path.name != report_name(ledger, passed):
            return ""
        there = self._root / path
        return self._report if there.is_file() and files.is_inside(self._root, there) else ""

    def _render(self, ledger: Ledger) -> dict[str, Any]:
        """Return the verdict file of the last pass's review."""
        assert ledger.last is not None  # noqa: S101 - nobody asks before the first pass
        return render_verdict(review(ledger), ledger.last, self.report_of(ledger, ledger.last))

    def _load(self) -> bytes | str | None:
        """Return what the file contains, or why it cannot be a verdict; None if there is no file."""
        if not files.can_be_directory(self._folder, self._root):
            return "is not in a directory of this repository"
        try:
            with explain_errors(f"{_LABEL} cannot be read"):
                return files.read_file(self.path)
        except files.NotAFile as error:
            return str(error)

    def _is_reason_edited(self) -> bool:
        """Return whether somebody wrote another reason for an ABORT. That of an earlier ABORT may still be there."""
        found = self._content(ABORT)
        if self._reason is None or found in (b"", self._reason):
            return False
        return bool(self._reason) or not found.startswith(_ABORTED.encode())

    def _content(self, name: str) -> bytes:
        """Return what a file says, or why it cannot; nothing if there is none."""
        path = self._folder / name
        if not os.path.lexists(path):
            return b""
        try:
            return files.read_file(path) or b""
        except files.NotAFile as error:
            return str(error).encode()

    def _ignore(self) -> None:
        """Have git ignore the directory, by a rule in it."""
        if not os.path.lexists(self._folder / ".gitignore"):
            files.write_file(self._folder / ".gitignore", b"*\n", sync=False)

    def _make_room(self, review_id: str) -> Iterator[str]:
        """Archive the verdict of another review, and move aside what cannot be read as a verdict."""
        if self._fault and os.path.lexists(self.path):
            yield f"{_LABEL} was not a verdict; it was moved aside to {files.move_aside(self.path)}"
        for content in self._replaced:
            latest = _parse(content)
            if isinstance(latest, dict) and latest["reviewId"] != review_id and latest["mode"] != "quick":
                yield self._archive(latest, content)

    def _archive(self, latest: Mapping[str, Any], content: bytes) -> str:
        """Keep a verdict for good, under its own id unless another one has that name; then return a note."""
        name, number = _archive_name(latest), 1
        archived = name
        while not self._copies.create(archived, content):
            if self._content(archived) == content:
                break
            number += 1
            archived = f"review-{latest['reviewId']}.{number}.json"
        return "" if archived == name else f"{DIRECTORY}/{name} exists; the later verdict was archived as {archived}"


def report_name(ledger: Ledger, passed: Pass) -> str:
    """Return the name of the report of a pass's review: every pass of a review has the same one, that of the first."""
    first = next(one for one in ledger.passes.values() if one.review == passed.review)
    return f"{first.started_at[:10]}-{first.scope}-{passed.review}.md"


def _is_foreign(document: Mapping[str, Any], ledger: Ledger) -> bool:
    """Return whether another program made a verdict: no review of the ledger, and without any of its findings."""
    if any(passed.review == document["reviewId"] for passed in ledger.passes.values()):
        return False
    return not any(str(item.get("x_finding")) in ledger.findings for item in items_of(document))


def _archive_name(document: Mapping[str, Any]) -> str:
    return f"review-{document['reviewId']}.json"


@lru_cache(maxsize=2)  # the verdict of the pass before is looked at again, to archive it
def _parse(data: bytes) -> dict[str, Any] | str:
    """Return a verdict, or why the file is not one."""
    try:
        document = limit_nesting(strict_json.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    if fault := check_document(document):
        return f"cannot be used: {fault}"
    verdict: dict[str, Any] = document
    return verdict


def _abort_reason(document: Mapping[str, Any]) -> bytes:
    """Return what caused an ABORT, and what to do next; nothing for another verdict."""
    if document["verdict"] != Verdict.ABORT:
        return b""
    counting = [item for item in items_of(document) if item["status"] in COUNTING]
    causes = [item for item in counting if item.get("x_system_breaking") is True]
    lines = [
        f"{_ABORTED}{document['reviewId']} was aborted",
        "",
        f"Reviewed: {document['scope']} `{_quote(document['target'])}`, {document['timestamp']}",
        "",
        "These findings endanger the whole system. No agent should fix them on its own:",
        "",
        *(f"- `{_quote(_place(one))}`: {_quote(one['title'])} ({_quote(one['domain'])})" for one in causes),
        "",
        "Next: have a person look at the cause and decide what to do, then start a full review.",
        "",
    ]
    return "\n".join(lines).encode()


def _place(item: Mapping[str, Any]) -> str:
    return f"{item['file']}:{item['lineRange']}" if "lineRange" in item else str(item["file"])


def _quote(text: str) -> str:
    """Return text from outside on one line, without what would end a quotation."""
    return " ".join(text.replace("`", "'").split())
