"""The verdict file in `.code-review/`: the latest, the archive of those before, and the reason of an abort.

An archived file is never written over. What cannot be read is kept, never mended.
"""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.errors import AwfError
from pipeline.findings.codecs import strict, verdict
from pipeline.findings.codecs.lens import Edits
from pipeline.findings.codecs.reading import shallow
from pipeline.findings.codecs.verdict_view import COUNTING
from pipeline.findings.model import Actor, Finding
from pipeline.findings.verdicts import Verdict
from pipeline.findings.views import atomic
from pipeline.findings.views.written import Written

DIRECTORY = ".code-review"
LATEST = "review-latest.json"
ABORT = "abort-reason.md"
MARK = ".written"  # of the latest verdict as it was written its digest, mode and id: reading many findings takes long
_MARKED = ("mode", "reviewId")


class VerdictFile:
    """The verdict file of one repository and what belongs to it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = root / DIRECTORY
        self.path = self._folder / LATEST

    def write(self, document: Mapping[str, Any]) -> Written:
        """Write a verdict by the rules of its mode. A verification goes on from a sound latest file, or is refused."""
        if fault := verdict.document_fault(document):
            raise AwfError(f"this verdict cannot be written: {fault}")
        if problem := self._closed():
            return Written(problems=(problem,))
        self._folder.mkdir(exist_ok=True)
        with atomic.locked(self._folder):
            if document["mode"] == "verify" and (refusal := self._refusal(document)):
                return Written(problems=(refusal,))
            problems = tuple(self._set_aside(document))
            self._put(document)
        return Written((self.path,), problems)

    def sound(self) -> dict[str, Any] | str:
        """The latest verdict, or why there is none to go on from."""
        if problem := self._closed():
            return problem
        if not self.path.is_file():
            return f"there is no {DIRECTORY}/{LATEST}; run a full review first"
        read = _read(self.path.read_bytes())
        return f"{DIRECTORY}/{LATEST} {read}; it was left as it is" if isinstance(read, str) else read

    def read_edits(self, findings: Iterable[Finding], *, at: str, by: str = Actor.ORCHESTRATOR) -> Edits:
        """What somebody changed in the latest verdict; nothing, at little cost, where it is as it was written."""
        if not self.path.exists() or self._untouched():
            return Edits()
        latest = self.sound()
        if isinstance(latest, str):
            return Edits(problems=(latest,))
        return verdict.put(latest, findings, at=at, by=by)

    def _untouched(self) -> bool:
        """Whether the file is byte for byte the one that was written last."""
        return not self._closed() and self._marked(self.path.read_bytes()) is not None

    def _marked(self, data: bytes) -> dict[str, str] | None:
        """What is known of a verdict that was written last without reading it; None of any other."""
        mark = self._folder / MARK
        if not mark.is_file() or mark.is_symlink():
            return None
        digest, *known = mark.read_text(errors="replace").split() or [""]
        return dict(zip(_MARKED, known, strict=False)) if digest == _digest(data) else None

    def _closed(self) -> str:
        for path in (self._folder, self.path):
            if not atomic.inside(self._root, path):
                return f"{path.relative_to(self._root)} is a link that leads out of the repository; it is not used"
        return ""

    def _refusal(self, document: Mapping[str, Any]) -> str:
        latest = self.sound()
        if isinstance(latest, str):
            return f"nothing to verify: {latest}"
        if latest["mode"] == "quick":
            return "nothing to verify: the latest review is a quick one; run a full review first"
        if latest["reviewId"] != document["reviewId"]:
            return f"nothing to verify: the latest review is {latest['reviewId']}, not {document['reviewId']}"
        return ""

    def _set_aside(self, document: Mapping[str, Any]) -> Iterator[str]:
        """Archive the latest verdict under its own id, unless it was a quick one or is the one being written."""
        if document["mode"] == "verify" or not self.path.exists():
            return
        data = self.path.read_bytes()
        known = self._marked(data) or {}
        latest = known if len(known) == len(_MARKED) else _read(data)
        if isinstance(latest, str):
            name = f"review-unreadable-{_digest(data)[:8]}.json"
            self._archive(name, data)
            yield f"{DIRECTORY}/{LATEST} {latest}; it was kept as {name}"
        elif latest["mode"] != "quick" and latest["reviewId"] != document["reviewId"]:
            name = f"review-{latest['reviewId']}.json"
            kept = self._archive(name, data)
            if kept != name:
                yield f"{DIRECTORY}/{name} was there already; the verdict after it was kept as {kept}"

    def _archive(self, name: str, data: bytes) -> str:
        """Keep a verdict under a name, or under the next one where another has it."""
        stem = name.removesuffix(".json")
        number = 1
        while True:
            path = self._folder / (name if number == 1 else f"{stem}.{number}.json")
            if (path.is_file() and path.read_bytes() == data) or atomic.create(path, data):
                return path.name
            number += 1

    def _put(self, document: Mapping[str, Any]) -> None:
        """Write the latest verdict. The reason of an abort is there before it, and goes after it."""
        aborted = document["verdict"] == Verdict.ABORT
        if aborted:
            atomic.replace(self._folder / ABORT, reason(document).encode())
        data = strict.dumps(document)
        atomic.replace(self.path, data)
        mark = " ".join([_digest(data), *(document[key] for key in _MARKED)])
        atomic.replace(self._folder / MARK, f"{mark}\n".encode())
        if not aborted:
            atomic.remove(self._folder / ABORT)


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()


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
        document = shallow(strict.loads(data), "it")
    except ValueError as error:
        return f"cannot be read: {error}"
    if fault := verdict.document_fault(document):
        return f"cannot be used: {fault}"
    read: dict[str, Any] = document
    return read
