"""Raw findings, reports and passes in one line each."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.findings.events import Pass
from pipeline.findings.ingest import IngestResult, Respond, ingest, new_pass_id
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Confidence,
    Evidence,
    Location,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
)

HUNDRED_LINES = "\n".join(f"line {number} of a file" for number in range(1, 101))
AT = "2026-11-16T00:00:00Z"


def raw(
    reviewer: str = "correctness",
    line: int | None = 10,
    *,
    n: int = 1,
    title: str = "Lock is never released",
    severity: Severity = Severity.HIGH,
    confidence: int = 75,
    path: str = "src/a.py",
    quote: str = "",
    scale: str = "anchor",
    symbol: str = "",
    **more: Any,
) -> RawFinding:
    """A raw finding about a line of a file; a quotation makes it evidence on that line."""
    more.setdefault("category", Category.BUG)
    more.setdefault("confidence", Confidence(value=confidence, scale=scale))
    more.setdefault("locations", (Location(path=path, start=line, symbol=symbol),) if path else ())
    more.setdefault("evidence", (Evidence(path=path, start=line, quote=quote),) if quote else ())
    more.setdefault("input_id", f"{reviewer}#{n}")
    return RawFinding(reviewer=reviewer, title=title, severity=severity, **more)


def reports_of(findings: Sequence[RawFinding]) -> list[ReviewerReport]:
    """What each reviewer returned, in the order of the findings."""
    names = dict.fromkeys(finding.reviewer for finding in findings)
    return [
        ReviewerReport(name, ReportStatus.RETURNED, tuple(one for one in findings if one.reviewer == name))
        for name in names
    ]


def run_pass(
    *findings: RawFinding,
    reports: Sequence[ReviewerReport] | None = None,
    ledger: Ledger | None = None,
    files: Mapping[str, str] | None = None,
    respond: Respond = lambda *_: (),
    at: str = AT,
    seconds: int = 100,
    **more: Any,
) -> IngestResult:
    """A pass over raw findings, or over whole reports; two files have a hundred lines unless others are given."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in ({"src/a.py": HUNDRED_LINES, "src/b.py": HUNDRED_LINES} if files is None else files).items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        given, ledger = reports_of(findings) if reports is None else reports, ledger or Ledger()
        passed = Pass(id=new_pass_id(ledger, seconds, more.get("head", "")), started_at=at, **more)
        return ingest(given, ledger, passed, Path(folder), {}, at, respond)


def sharing(ledger: Ledger, *findings: RawFinding, **more: Any) -> IngestResult:
    """A pass whose events are added to the ledger."""
    done = run_pass(*findings, ledger=ledger, **more)
    for event in done.events:
        ledger.apply(event)
    return done
