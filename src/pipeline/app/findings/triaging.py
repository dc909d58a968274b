"""Decisions about findings, written down and shown in the files. A pass that is on record is never touched."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline.app.findings.books import iso, writing
from pipeline.findings.model import Finding
from pipeline.findings.showing import reshow
from pipeline.findings.triage import triage


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided, and what was refused."""

    findings: tuple[Finding, ...]  # as they are now
    refused: dict[str, str]
    problems: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The decisions for a program."""
        applied = [{"id": finding.id, "state": str(finding.state)} for finding in self.findings]
        return {"applied": applied, "refused": self.refused, "problems": list(self.problems)}


def decide(
    ids: Sequence[str],
    status: str,
    store: Path,
    root: Path,
    now: datetime,
    *,
    note: str = "",
    by: str,
    expires: str = "",
) -> Decided:
    """Apply what may be applied, and rewrite the files of findings and the verdict."""
    at = iso(now)
    with writing(store, root, at) as open_book:
        done = triage(open_book.book.ledger(), ids, status, note=note, by=by, at=at, expires=expires)
        open_book.book.enter(done.events)
        ledger = open_book.book.ledger()
        shown = reshow(root, ledger, at)
    turned = (event.id for event in done.events if event.kind == "turned")
    return Decided(tuple(ledger.findings[id] for id in turned), done.refused, open_book.problems + shown)
