"""A project with findings for the pages about them."""

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.unit.findings.reviews import code, item
from tests.unit.findings.reviews import review as answer

from pipeline.app.findings.intake import ReportFile, decode_files, import_reports
from pipeline.app.findings.ledger import find_repository, timestamp
from pipeline.findings.events import LinkAdded
from pipeline.findings.ledger import DUPLICATE_OF, LedgerStore
from pipeline.findings.model import Link
from pipeline.journal.sqlite import SqliteJournal

__all__ = ["AT", "LINES", "item", "join", "project", "review"]

AT = datetime(2026, 3, 1, 10, tzinfo=UTC)
LINES = [code(number) for number in range(1, 31)]


def project(root: Path) -> None:
    """The files that the findings are about."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "a.py").write_text("\n".join(LINES) + "\n")


def review(root: Path, *items: dict[str, Any], reviewer: str = "correctness") -> None:
    """Take in what a reviewer answered."""
    source = ReportFile(reviewer, reviewer, json.dumps(answer(*items, reviewer=reviewer)).encode())
    returns = decode_files([source], root, format="review", reviewer="", lens=None)
    import_reports(returns, root / ".awf", find_repository(root, root, {"PATH": "/usr/bin:/bin"}), AT)


def join(root: Path, member: int, leader: int) -> None:
    """Make one finding part of the cluster of another; both by number."""
    with closing(SqliteJournal(root / ".awf")) as journal:
        store = LedgerStore(journal)
        ids = {finding.number: finding.id for finding in store.ledger().findings.values()}
        link = Link(kind=DUPLICATE_OF, to=ids[leader], note="clustered")
        store.append([LinkAdded(at=timestamp(AT), id=ids[member], link=link)])
