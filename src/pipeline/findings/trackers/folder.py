"""Tickets as Markdown files in a directory: the tracker that works on every machine."""

import re
from pathlib import Path

from pipeline import files
from pipeline.errors import AwfError
from pipeline.findings.lines import Line
from pipeline.findings.trackers.ticket import (
    Filed,
    TicketFailed,
    TrackerContext,
    owner_of,
    ticket,
)
from pipeline.redaction import redactor_of

_HEAD = 64 * 1024  # bytes of a file in which the mark is looked for
_MARKUP = re.compile(r"[\\`*_\[\]<>#!&|~]")


class TicketFolder:
    """The tickets in a directory of the store. If it cannot be written, that is reported when a ticket is filed."""

    name = "local folder"

    def __init__(self, context: TrackerContext) -> None:
        self._directory = context.store / "tickets"
        self._redact = redactor_of(context.environ).text

    def file(self, line: Line) -> Filed | TicketFailed:
        """Write the ticket of a line of work; one that is there stays as people left it."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with files.lock_directory(self._directory):
                return self._file(line)
        except AwfError as error:
            return TicketFailed(error.message)
        except OSError as error:
            return TicketFailed(f"{error.filename or self._directory} cannot be written: {error.strerror}")

    def _file(self, line: Line) -> Filed | TicketFailed:
        path = self._directory / f"{line.id}.md"
        if files.create_file(path, self._text(line)) or _owner(path) == line.id:
            return Filed(str(path))
        return TicketFailed(f"{path} exists and is not the ticket of {line.id}; move it away")

    def _text(self, line: Line) -> bytes:
        made = ticket(line, self._redact)
        mark, _, rest = made.body.partition("\n\n")
        title = _MARKUP.sub(r"\\\g<0>", made.title)
        return f"{mark}\n\n# {title}\n\n- {made.label}\n\n{rest}".encode(errors="replace")


def _owner(path: Path) -> str:
    """Return the id of the finding whose ticket a file is; empty if it is not a ticket or cannot be read."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with path.open("rb") as file:
            return owner_of(file.read(_HEAD).decode(errors="replace"))
    except OSError:
        return ""
