"""What came of writing a view."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.findings.events import LedgerEvent


@dataclass(frozen=True, slots=True)
class ViewsWritten:
    """The files that were written, what could not be, and what somebody had changed in those that were not."""

    paths: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()
    events: tuple[LedgerEvent, ...] = ()  # to be applied before these findings are written again
    suggestion: str = ""  # one line for the end of a report
