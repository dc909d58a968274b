"""The directory `.code-review/`: the latest verdict, the archive of earlier ones, and the reason for an ABORT.

An archived verdict is never overwritten. The store has a copy of each verdict as awf wrote it: a status of the latest
that differs from that was edited, and everything else that differs is put back.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import limit_nesting
from pipeline.findings.formats.verdict import COUNTING, check_document, items_of, read_verdict_edits, render_verdict
from pipeline.findings.formats.view_edits import ViewEdits, summed_up
from pipeline.findings.git import in_repository, run_git
from pipeline.findings.ledger import Ledger
from pipeline.findings.reviews import review
from pipeline.findings.verdicts import Verdict
from pipeline.findings.views.stamps import Stamp, Stamps, explain_errors, has_content, stamp_at, stamp_of

DIRECTORY = ".code-review"
LATEST = "review-latest.json"
ABORT = "abort-reason.md"
_LABEL = f"{DIRECTORY}/{LATEST}"
_NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class VerdictFile:
    """The verdict file of one repository and what belongs to it."""

    def __init__(self, root: Path, stamps: Stamps, environ: Mapping[str, str] = _NO_ENVIRONMENT) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._stamps = stamps
        self._environ = environ
        self._read: Stamp | None = None  # of the file when it was read last
        self._ignored = False  # whether git was made to ignore the directory
        self._archives: list[tuple[str, bytes]] = []  # to be put back
        self.path = self._folder / LATEST

    @property
    def exists(self) -> bool:
        """Whether there is a latest verdict: the file, or the copy of what awf wrote into it."""
        return os.path.lexists(self.path) or self._copy() is not None

    def read_edits(self, ledger: Ledger, at: str, by: str) -> ViewEdits:
        """Return what was said in the latest verdict, and a sentence about each file that will be put back."""
        latest = self._edits_of_latest(ledger, at, by)
        others = tuple(f"{DIRECTORY}/{name} was put back: nothing in it can be edited" for name, _ in self._edited())
        return ViewEdits(latest.events, latest.problems + summed_up(others, DIRECTORY))

    def _edits_of_latest(self, ledger: Ledger, at: str, by: str) -> ViewEdits:
        """Return what was changed in the latest verdict.

        It is read only if its times or size changed. One that awf never wrote is left alone.
        """
        written, stamp = self._stamps.files.get(LATEST), stamp_at(self.path)
        if (written and written.stamp == stamp) or not ledger.passes:
            return ViewEdits()
        copy = self._copy()
        if stamp is None:
            return ViewEdits(problems=(f"{_LABEL} was removed; it was written again",) if copy else ())
        self._read, found = stamp, self._present()
        if isinstance(found, str):
            return ViewEdits(problems=(f"{_LABEL} {found}; it was moved aside and written again",))
        if found is None or found == copy:
            return ViewEdits()
        now = _loads(_render(ledger, _report_path(ledger, copy)))
        if found == now or (copy is None and _is_foreign(found, ledger)):
            return ViewEdits()
        if _is_foreign(found, ledger):
            kept = f"it was kept as {_archive_name(found)}; import it if it counts"
            return ViewEdits(problems=(f"{_LABEL} was of review {found['reviewId']}, which awf did not make: {kept}",))
        return read_verdict_edits(found, copy or now, ledger, _LABEL, at=at, by=by)

    def write(self, ledger: Ledger, passed: Pass | None = None) -> list[str]:
        """Bring the latest verdict up to date; return problems. With a pass it replaces one that awf did not write.

        A file that was changed after it was read last is left for the next `read_edits`. The other files are put back.
        """
        problems = self._write_latest(ledger, passed)
        self._restore([*self._edited()])
        self._archives = []
        return problems

    def _write_latest(self, ledger: Ledger, passed: Pass | None) -> list[str]:
        written, stamp = self._stamps.files.get(LATEST), stamp_at(self.path)
        if ledger.last is None or (written and (written.stamp, written.version) == (stamp, str(ledger.length))):
            return []
        copy = self._copy()
        if copy is None and passed is None and self._holds_foreign(ledger):
            return []
        if copy is not None and stamp is not None and stamp != self._read and not (written and written.stamp == stamp):
            return []
        return self._save(_render(ledger, _report_path(ledger, copy)), ledger)

    def set_report(self, ledger: Ledger, path: str) -> list[str]:
        """Name the report of the latest review in its verdict; return problems."""
        return self._save(_render(ledger, path), ledger)

    def report_of(self, passed: Pass) -> str:
        """Return the path of the report of a pass's review, if it has one and is the latest."""
        copy = self._copy()
        return str(copy["reportPath"]) if copy and copy["reviewId"] == passed.review else ""

    def _holds_foreign(self, ledger: Ledger) -> bool:
        """Return whether the file is of another program."""
        found = self._present()
        return isinstance(found, dict) and _is_foreign(found, ledger)

    def _copy(self) -> dict[str, Any] | None:
        """Return the latest verdict as awf wrote it."""
        data = self._stamps.read_copy(LATEST)
        document = _parse(data) if data is not None else None
        return document if isinstance(document, dict) else None

    def _present(self) -> dict[str, Any] | str | None:
        """Return the verdict in the file, or why it is not one; None if there is no file."""
        data = self._bytes()
        return _parse(data) if isinstance(data, bytes) else data

    def _bytes(self) -> bytes | str | None:
        if not files.can_be_directory(self._folder, self._root):
            return "is not in a directory of this repository"
        try:
            with explain_errors(f"{_LABEL} cannot be read"), suppress(NotADirectoryError):
                return files.read_file(self.path)
        except files.NotAFile as error:
            return str(error)
        return None

    def _edited(self) -> Iterator[tuple[str, bytes]]:
        """Yield the other files that are not as awf wrote them, with what they said; nothing if one should not exist.

        The reason for an ABORT is there as long as that is the verdict.
        """
        yield from self._archives
        written, stamp = self._stamps.files.get(ABORT), stamp_at(self._folder / ABORT)
        copy = None if stamp == (written.stamp if written else None) else self._copy()
        if copy is None:
            return
        reason = _abort_reason(copy).encode() if copy["verdict"] == Verdict.ABORT else b""
        if stamp and reason and has_content(self._folder / ABORT, reason):
            self._stamps.record(ABORT, stamp, "")
        elif stamp or reason:
            yield ABORT, reason

    def look_at_archives(self) -> None:
        """Find the archived verdicts that were edited. No stage does: after a thousand rounds there are as many."""
        self._archives = [*self._edited_archives()]

    def _edited_archives(self) -> Iterator[tuple[str, bytes]]:
        """Yield the archived verdicts that are not as awf wrote them. One that was removed is not missed."""
        for name in self._stamps.copies("review-"):
            path, known = self._folder / name, self._stamps.files.get(name)
            stamp = stamp_at(path)
            if name == LATEST or stamp is None or (known and known.stamp == stamp):
                continue
            data = self._stamps.read_copy(name) or b""
            if isinstance(_parse(data), str):  # the copy was cut off
                continue
            if has_content(path, data):
                self._stamps.record(name, stamp, "")
            else:
                yield name, data

    def _restore(self, edited: Sequence[tuple[str, bytes]]) -> None:
        """Write files again as they were, and remove what should not exist."""
        if not edited:
            return
        with explain_errors(f"{DIRECTORY} cannot be used"):
            files.ensure_directory(self._folder, self._root)
        with files.lock_directory(self._folder):
            for name, data in edited:
                if data:
                    self._write(name, data)
                else:
                    self._remove(name)

    def _write(self, name: str, data: bytes) -> None:
        files.write_file(self._folder / name, data, sync=False)
        self._stamps.record(name, stamp_of((self._folder / name).lstat()), "")

    def _remove(self, name: str) -> None:
        files.remove_file(self._folder / name)
        self._stamps.forget(name)

    def _save(self, data: bytes, ledger: Ledger) -> list[str]:
        document, problems = _loads(data), list[str]()
        if not self._ignored:
            problems.append(ensure_git_ignored(self._root, DIRECTORY, self._environ))
            self._ignored = True
        with explain_errors(f"{DIRECTORY} cannot be used"):
            problems.append(files.ensure_directory(self._folder, self._root))
        with files.lock_directory(self._folder):
            problems += self._make_room(document, ledger)
            self._replace(document, data, str(ledger.length))
        return [problem for problem in problems if problem]

    def _make_room(self, document: Mapping[str, Any], ledger: Ledger) -> Iterator[str]:
        """Archive the latest verdict under its own id, unless it is a quick one or the same review.

        Of a file that was edited, what awf wrote is archived. A verdict that awf did not make is kept as it is.
        """
        data, copy = self._bytes(), self._stamps.read_copy(LATEST)
        found = _parse(data) if isinstance(data, bytes) else data
        if isinstance(found, str):
            yield f"{_LABEL} was not a verdict; it was moved aside to {files.move_aside(self.path)}"
        given = [copy] if copy is not None else []
        if isinstance(data, bytes) and isinstance(found, dict) and (copy is None or _is_foreign(found, ledger)):
            given.append(data)
        for content in given:
            latest = _parse(content)
            if isinstance(latest, dict) and latest["reviewId"] != document["reviewId"] and latest["mode"] != "quick":
                yield self._archive(latest, content)

    def _archive(self, latest: Mapping[str, Any], content: bytes) -> str:
        """Keep a verdict for good; return a note if another one has its name."""
        name = archived = _archive_name(latest)
        number = 1
        while not has_content(self._folder / archived, content):
            if files.create_file(self._folder / archived, content, sync=False):
                break
            number += 1
            archived = f"review-{latest['reviewId']}.{number}.json"
        self._stamps.save_copy(archived, content)
        self._stamps.record(archived, stamp_of((self._folder / archived).lstat()), "")
        return "" if archived == name else f"{DIRECTORY}/{name} exists; the later verdict was archived as {archived}"

    def _replace(self, document: Mapping[str, Any], data: bytes, version: str) -> None:
        """Write the latest verdict, then its copy. The reason for an ABORT comes before it, and goes after it."""
        aborts = document["verdict"] == Verdict.ABORT
        if aborts:
            self._write(ABORT, _abort_reason(document).encode())
        if not has_content(self.path, data):
            files.write_file(self.path, data, sync=False)
        if self._stamps.read_copy(LATEST) != data:
            self._stamps.save_copy(LATEST, data)
        self._stamps.record(LATEST, stamp_of(self.path.lstat()), version)
        if not aborts:
            self._remove(ABORT)


def ensure_git_ignored(root: Path, name: str, environ: Mapping[str, str]) -> str:
    """Have git ignore a directory in this clone; return what went wrong, if anything."""
    rule = f"{name}/"
    exclude = root / ".git" / "info" / "exclude"
    try:
        if not in_repository(root) or rule.encode() in (_lines(exclude) if exclude.is_file() else ()):
            return ""
        if run_git(root, environ, "check-ignore", f"{name}/any", accepted=(0, 1)):
            return ""
        exclude = root / run_git(root, environ, "rev-parse", "--git-path", "info/exclude").strip()
        exclude.parent.mkdir(parents=True, exist_ok=True)
        with files.lock_directory(exclude.parent):
            lines = _lines(exclude)
            if rule.encode() not in lines:
                files.write_file(exclude, b"".join(line + b"\n" for line in (*lines, rule.encode())))
    except (OSError, files.NotAFile, AwfError) as error:
        return f"git could not be made to ignore {rule}: {error}; add it to .gitignore"
    return ""


def _lines(path: Path) -> list[bytes]:
    return (files.read_file(path) or b"").splitlines()


def _is_foreign(document: Mapping[str, Any], ledger: Ledger) -> bool:
    """Return whether another program made a verdict: no review of the ledger, and without any of its findings."""
    if any(passed.review == document["reviewId"] for passed in ledger.passes.values()):
        return False
    return not any(str(item.get("x_finding")) in ledger.findings for item in items_of(document))


def _render(ledger: Ledger, report_path: str) -> bytes:
    """Return the verdict file of the last pass's review."""
    assert ledger.last is not None  # noqa: S101 - nobody asks before the first pass
    return strict_json.dumps(render_verdict(review(ledger), ledger.last, report_path))


def _loads(data: bytes) -> dict[str, Any]:
    document: dict[str, Any] = strict_json.loads(data)
    return document


def _report_path(ledger: Ledger, copy: Mapping[str, Any] | None) -> str:
    """Return the path of the report of the latest review, if the copy of its verdict names one."""
    same = copy is not None and ledger.last is not None and copy["reviewId"] == ledger.last.review
    return str(copy["reportPath"]) if copy and same else ""


def _archive_name(document: Mapping[str, Any]) -> str:
    return f"review-{document['reviewId']}.json"


@lru_cache(maxsize=1)  # a pass reads what the pass before has written four times
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


def _abort_reason(document: Mapping[str, Any]) -> str:
    """Return what caused an ABORT, and what to do next."""
    counting = [item for item in items_of(document) if item["status"] in COUNTING]
    causes = [item for item in counting if item.get("x_system_breaking") is True]
    lines = [f"- `{_quote(_place(one))}`: {_quote(one['title'])} ({_quote(one['domain'])})" for one in causes]
    return "\n".join(
        [
            f"# Review {document['reviewId']} was aborted",
            "",
            f"Reviewed: {document['scope']} `{_quote(document['target'])}`, {document['timestamp']}",
            "",
            "These findings endanger the whole system. No agent should fix them on its own:",
            "",
            *lines,
            "",
            "Next: have a person look at the cause and decide what to do, then start a full review.",
            "",
        ]
    )


def _place(item: Mapping[str, Any]) -> str:
    return f"{item['file']}:{item['lineRange']}" if "lineRange" in item else str(item["file"])


def _quote(text: str) -> str:
    """Return text from outside on one line, without what would end a quotation."""
    return " ".join(text.replace("`", "'").split())
