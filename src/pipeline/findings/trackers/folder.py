"""Tickets as Markdown files in a directory: the tracker that every machine has.

A ticket is found by its name, or by the comment in it wherever in the directory it was moved to.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.trackers.ticket import Filed, Redact, TicketFailed, comment, comment_mark, marked, ticket, unfit

NAME = "local folder"
_HEAD = 64 * 1024  # bytes of a file in which the comment is looked for
_SPECIAL = re.compile(r"[\\`*_\[\]<>#!&|~]")
_LARGEST = 4 * 1024 * 1024  # bytes of a ticket that is added to


class TicketFolder:
    """The tickets in one directory, made when there is the first."""

    name = NAME

    def __init__(self, directory: Path, redact: Redact) -> None:
        self._directory = directory
        self._redact = redact
        self._paths: dict[str, Path] | None = None  # by finding, as they were when first looked

    def file(self, finding: Finding) -> Filed | TicketFailed:
        """The finding's ticket: written, or found and added to when the finding came back."""
        if reason := unfit(finding):
            return TicketFailed(reason)
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with files.lock_directory(self._directory):
                return self._filed(finding)
        except AwfError as error:
            return TicketFailed(error.message)
        except OSError as error:
            return TicketFailed(f"{error.filename or self._directory} cannot be written: {error.strerror}")

    def _filed(self, finding: Finding) -> Filed | TicketFailed:
        path = self._path(finding)
        if path is None:
            path = self._directory / f"{finding.id}.md"
            if not files.create_file(path, _text(finding, self._redact)):
                return TicketFailed(f"{path} is there and is not the ticket of {finding.id}; move it away")
        elif finding.state is FindingState.REOPENED and (failed := self._add(path, finding)):
            return failed
        self._known[finding.id] = path
        return Filed(str(path))

    def _add(self, path: Path, finding: Finding) -> TicketFailed | None:
        """Say once that the finding is back."""
        if path.stat().st_size > _LARGEST:
            return TicketFailed(f"{path} is too large to be added to")
        said = path.read_bytes()
        if comment_mark(finding).encode() not in said:
            files.write_file(path, said.rstrip() + f"\n\n---\n\n{comment(finding, self._redact)}".encode())
        return None

    def _path(self, finding: Finding) -> Path | None:
        usual = self._directory / f"{finding.id}.md"
        if _whose(usual) == finding.id:
            return usual
        known = self._known.get(finding.id)
        return known if known and _whose(known) == finding.id else None

    @property
    def _known(self) -> dict[str, Path]:
        if self._paths is None:
            self._paths = {id: path for path in _files(self._directory) if (id := _whose(path))}
        return self._paths


def _text(finding: Finding, redact: Redact) -> bytes:
    made = ticket(finding, redact)
    head, _, rest = made.body.partition("\n\n")
    labels = "".join(f"- {name}\n" for name in made.labels)
    title = _SPECIAL.sub(r"\\\g<0>", made.title)
    return f"{head}\n\n# {title}\n\n{labels}\n{rest}".encode(errors="replace")


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*.md"), reverse=True) if not path.is_symlink())


def _whose(path: Path) -> str:
    """The id of the finding whose ticket a file is; nothing when it is none's, or no file."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return marked(file.read(_HEAD).decode(errors="replace"))
    except OSError:  # a file that nobody may read is nobody's ticket
        return ""
