"""The directory `.code-review/`: the latest verdict, the archive of earlier ones, and the reason for an ABORT.

An archived verdict is never overwritten. The store has a copy of the latest verdict as awf wrote it: whatever differs
from that is an edit, and a file that is not a verdict is moved aside and restored from the copy.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.items import limit_nesting
from pipeline.findings.formats.verdict import (
    COUNTING,
    REJECTED,
    check_document,
    items_of,
    read_verdict_edits,
    render_verdict,
)
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.git import in_repository, run_git
from pipeline.findings.ledger import Ledger
from pipeline.findings.reviews import Review, review_id, review_ids, review_of
from pipeline.findings.verdicts import Verdict
from pipeline.findings.views.stamps import Stamps, explain_errors, has_content, stamp_of

DIRECTORY = ".code-review"
LATEST = "review-latest.json"
ABORT = "abort-reason.md"
_NEXT = "review-next.json"  # in the store: what is about to be written
_LABEL = f"{DIRECTORY}/{LATEST}"
_NO_ENVIRONMENT: Mapping[str, str] = MappingProxyType({})


class VerdictFile:
    """The verdict file of one repository and what belongs to it."""

    def __init__(self, root: Path, stamps: Stamps | None = None, environ: Mapping[str, str] = _NO_ENVIRONMENT) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self._stamps = stamps or Stamps(None, root)
        self._environ = environ
        self.path = self._folder / LATEST

    @property
    def exists(self) -> bool:
        """Whether there is a latest verdict: the file, or the copy of what awf wrote into it."""
        return os.path.lexists(self.path) or self._copy() is not None

    def why_not_verifiable(self) -> str:
        """Why there is no verdict that a verification could be about; empty if there is one."""
        latest = self._copy() or self._present() or "does not exist"
        why = latest if isinstance(latest, str) else "is of a quick review" if latest["mode"] == "quick" else ""
        return f"nothing to verify: {_LABEL} {why}; run a full review first" if why else ""

    def write(self, ledger: Ledger, passed: Pass, at: str) -> list[str]:
        """Write the verdict of a pass's review by the rules of its mode; return problems.

        A verification changes that of the review before, which must be a full one.
        """
        latest, id = self._copy() or self._present(), review_ids(ledger).get(passed.id) or review_id(passed)
        closed = [{"x_finding": str(id), "status": "open"} for id in ledger.closed_since_last_pass]
        before: dict[str, Any] = {"findings": closed, "reviewId": id}
        if passed.mode == "verify":
            if problem := self.why_not_verifiable():
                return [problem]
            assert isinstance(latest, dict)  # noqa: S101 - or it could not be verified
            before = latest
        elif isinstance(latest, dict) and latest["reviewId"] == id:
            before["reportPath"] = latest["reportPath"]
        listed = _ids(before) if passed.mode == "verify" else ()
        document = _render(
            review_of(ledger, passed, listed),
            before,
            timestamp=at,
            scope=passed.scope,
            target=passed.target,
            mode=passed.mode,
        )
        unignored = ensure_git_ignored(self._root, DIRECTORY, self._environ)
        return [*([unignored] if unignored else []), *self._save(document)]

    def set_report(self, id: str, path: str) -> str:
        """Name the report of a review in the latest verdict, if that is of the same review; return a problem."""
        latest = self._copy()
        if latest is None or latest["reviewId"] != id:
            return f"{_LABEL} is of another review; it does not name {path}"
        return "; ".join(self._save({**latest, "reportPath": path}))

    def refresh(self, ledger: Ledger, at: str) -> list[str]:
        """Write the latest verdict again after findings changed; return problems. It stays the same review."""
        latest = self._copy() or self._present()
        if isinstance(latest, str):
            return [f"{_LABEL} {latest}"]
        if latest is None or self._is_foreign(latest, ledger):
            return []
        document = _render_again(ledger, latest)
        return self._save(document if document == latest else {**document, "timestamp": at})

    def restore(self, ledger: Ledger, at: str) -> list[str]:
        """Restore what awf wrote, if it was changed; return problems."""
        copy = self._copy()
        if copy is None:
            return self.refresh(ledger, at)
        return [] if self._present() == copy else self._save(copy)

    def read_edits(self, ledger: Ledger, at: str, by: str) -> ViewEdits:
        """What was changed in the latest verdict since awf wrote it; it is read only if its times or size changed."""
        written, stamp = self._stamps.files.get(LATEST), None
        with suppress(OSError):
            stamp = stamp_of(self.path.lstat())
        if stamp and written and written.stamp == stamp:
            return ViewEdits()
        copy, document = self._copy(), self._present()
        if document is None:
            return ViewEdits(problems=(f"{_LABEL} was removed; awf will write it again",) if copy else ())
        if isinstance(document, str):
            return ViewEdits(problems=(f"{_LABEL} {document}; awf will write it again",))
        if stamp and copy and document in (copy, self._copy(_NEXT)):  # only its times changed
            self._stamps.record(LATEST, stamp, "", "")
            return ViewEdits()
        if copy is None:
            foreign = self._is_foreign(document, ledger)
            copy = {**document, "findings": []} if foreign else _render_again(ledger, document)
        return read_verdict_edits(document, copy, ledger.findings, at=at, by=by)

    def _is_foreign(self, document: Mapping[str, Any], ledger: Ledger) -> bool:
        """Whether another program wrote a verdict: awf has no trace of it."""
        if self._copy() is not None or LATEST in self._stamps.files:
            return False
        if document["reviewId"] in {review_id(passed) for passed in ledger.passes.values()}:
            return False
        return not any(str(item.get("x_finding")) in ledger.findings for item in items_of(document))

    def _copy(self, name: str = LATEST) -> dict[str, Any] | None:
        """The latest verdict as awf wrote it."""
        data = self._stamps.read_copy(name)
        document = _parse(data) if data is not None else None
        return document if isinstance(document, dict) else None

    def _present(self) -> dict[str, Any] | str | None:
        """The verdict in the file, or why it is not one; None if there is no file."""
        data = self._read()
        return _parse(data) if isinstance(data, bytes) else data

    def _read(self) -> bytes | str | None:
        if not files.can_be_directory(self._folder, self._root):
            return "is not in a directory of this repository"
        try:
            with explain_errors(f"{_LABEL} cannot be read"), suppress(NotADirectoryError):
                return files.read_file(self.path)
        except files.NotAFile as error:
            return str(error)
        return None

    def _save(self, document: Mapping[str, Any]) -> list[str]:
        if fault := check_document(document):
            raise AwfError(f"this verdict cannot be written: {fault}")
        with explain_errors(f"{DIRECTORY} cannot be used"):
            moved = files.ensure_directory(self._folder, self._root)
        with files.lock_directory(self._folder):
            problems = [*([moved] if moved else []), *self._make_room(document)]
            self._replace(document)
        return problems

    def _make_room(self, document: Mapping[str, Any]) -> Iterator[str]:
        """Archive the latest verdict under its own id, unless it is a quick one or the same review."""
        data, copy = self._read(), self._stamps.read_copy(LATEST)
        source = copy if copy is not None else data
        latest = _parse(source) if isinstance(source, bytes) else source
        found = latest if data == source else (_parse(data) if isinstance(data, bytes) else data)
        if isinstance(found, str):
            yield f"{_LABEL} was not a verdict; it was moved aside to {files.move_aside(self.path)}"
        if not isinstance(latest, dict) or not isinstance(source, bytes):
            return
        if latest["mode"] == "quick" or latest["reviewId"] == document["reviewId"]:
            return
        name = f"review-{latest['reviewId']}.json"
        archived, number = name, 1
        while not (has_content(self._folder / archived, source) or files.create_file(self._folder / archived, source)):
            number += 1
            archived = f"review-{latest['reviewId']}.{number}.json"
        if archived != name:
            yield f"{DIRECTORY}/{name} exists already; the later verdict was archived as {archived}"

    def _replace(self, document: Mapping[str, Any]) -> None:
        """Write the latest verdict. The reason for an ABORT is written before it and removed after it."""
        aborts = document["verdict"] == Verdict.ABORT
        if aborts:
            files.write_file(self._folder / ABORT, _abort_reason(document).encode())
        data = strict_json.dumps(document)
        self._stamps.save_copy(_NEXT, data)  # if awf is killed here, the file has one of the two known contents
        if not has_content(self.path, data):
            files.write_file(self.path, data)
        self._stamps.save_copy(LATEST, data)
        self._stamps.record(LATEST, stamp_of(self.path.lstat()), "", "")
        if not aborts:
            files.remove_file(self._folder / ABORT)


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


def _render(review: Review, before: Mapping[str, Any], **header: str) -> dict[str, Any]:
    document = render_verdict(
        review.findings,
        verdicts=review.verdicts,
        before=before,
        review_id=before["reviewId"],
        report_path=before.get("reportPath", ""),
        **header,
    )
    rejections = [{"reviewer": one.reviewer, "argument": one.argument} for one in review.rejections]
    return {**document, **({REJECTED: rejections} if rejections else {})}


def _render_again(ledger: Ledger, latest: Mapping[str, Any]) -> dict[str, Any]:
    """A verdict with its findings as they are now. It is of the last pass of its review."""
    ids = review_ids(ledger)
    own = [passed for passed in ledger.passes.values() if ids[passed.id] == latest["reviewId"]]
    named = [passed for passed in ledger.passes.values() if review_id(passed) == latest["reviewId"]]  # by an older awf
    passed = next(reversed(own or named), None) or ledger.last
    if passed is None:
        return dict(latest)
    header = {key: latest[key] for key in ("timestamp", "scope", "target", "mode")}
    return _render(review_of(ledger, passed, _ids(latest)), latest, **header)


def _ids(document: Mapping[str, Any]) -> frozenset[str]:
    """The findings that a verdict lists."""
    return frozenset(str(item.get("x_finding")) for item in items_of(document))


def _parse(data: bytes) -> dict[str, Any] | str:
    """A verdict, or why the file is not one."""
    try:
        document = limit_nesting(strict_json.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    if fault := check_document(document):
        return f"cannot be used: {fault}"
    verdict: dict[str, Any] = document
    return verdict


def _abort_reason(document: Mapping[str, Any]) -> str:
    """What caused an ABORT, and what to do next."""
    blockers = [one for one in document["findings"] if one["severity"] == "Blocker" and one["status"] in COUNTING]
    causes = [one for one in blockers if one.get("x_system_breaking") is True] or blockers
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
    """Text from outside on one line, without what would end a quotation."""
    return " ".join(text.replace("`", "'").split())
