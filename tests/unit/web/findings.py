"""A project with findings for the pages about them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.unit.findings.reviews import code, item
from tests.unit.findings.reviews import review as answer

from pipeline.app.findings.intake import ReportFile, decode_files, import_reports
from pipeline.app.findings.ledger import find_repository, read_snapshot
from pipeline.app.findings.triage import merge
from pipeline.findings.model import Finding

__all__ = ["AT", "LINES", "findings", "item", "join", "project", "review"]

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


def join(root: Path, member: int, line: int) -> None:
    """Make one finding part of the line of work of another; both by number."""
    merge([str(member)], str(line), root / ".awf", find_repository(root, root, {"PATH": "/usr/bin:/bin"}), AT)


def findings(root: Path) -> list[Finding]:
    """All findings of a project, in the order of their numbers."""
    return list(read_snapshot(root / ".awf", root, "2026-03-01T10:00:00Z").ledger.findings.values())
