"""A project with findings for the pages about them."""

import json
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.app.findings.intake import ReportFile, decode_files, import_reports
from pipeline.app.findings.ledger import find_repository, timestamp
from pipeline.findings.events import LinkAdded
from pipeline.findings.ledger import DUPLICATE_OF, LedgerStore
from pipeline.findings.model import Link
from pipeline.journal.sqlite import SqliteJournal

AT = datetime(2026, 3, 1, 10, tzinfo=UTC)
LINES = [f"line_{number} = compute({number})" for number in range(1, 31)]


def item(number: int, **more: Any) -> dict[str, Any]:
    """One item of a reviewer's answer, about a line of a.py."""
    return {
        "title": f"Line {number} is wrong",
        "severity": ("P1", "P2", "P3")[number % 3],
        "file": "a.py",
        "line": number,
        "why_it_matters": "It breaks.",
        "autofix_class": "manual",
        "owner": "human",
        "requires_verification": False,
        "confidence": 100,
        "evidence": [f"a.py:{number} -- {LINES[number - 1]}"],
        "pre_existing": False,
        **more,
    }


def project(root: Path) -> None:
    """The files that the findings are about."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "a.py").write_text("\n".join(LINES) + "\n")


def review(root: Path, *items: dict[str, Any], reviewer: str = "correctness") -> None:
    """Take in what a reviewer answered."""
    answer = {"reviewer": reviewer, "findings": items, "residual_risks": [], "testing_gaps": []}
    source = ReportFile(reviewer, reviewer, json.dumps(answer).encode())
    returns = decode_files([source], root, format="review", reviewer="", lens=None)
    import_reports(returns, root / ".awf", find_repository(root, root, {"PATH": "/usr/bin:/bin"}), AT)


def join(root: Path, member: int, leader: int) -> None:
    """Make one finding part of the cluster of another; both by number."""
    with closing(SqliteJournal(root / ".awf")) as journal:
        store = LedgerStore(journal)
        ids = {finding.number: finding.id for finding in store.ledger().findings.values()}
        link = Link(kind=DUPLICATE_OF, to=ids[leader], note="clustered")
        store.append([LinkAdded(at=timestamp(AT), id=ids[member], link=link)])
