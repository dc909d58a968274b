"""Drafts, reports and passes in one line each."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.findings.events import Pass
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Confidence,
    Draft,
    Evidence,
    Location,
    Report,
    ReportStatus,
    Said,
    Severity,
)
from pipeline.findings.taking import Taken, new_pass_id, take_in

HUNDRED_LINES = "\n".join(f"line {number} of a file" for number in range(1, 101))
AT = "2026-11-16T00:00:00Z"


def draft(
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
) -> Draft:
    """A draft about a line of a file; a quotation makes it evidence on that line."""
    more.setdefault("category", Category.BUG)
    more.setdefault("confidence", Confidence(value=confidence, scale=scale))
    more.setdefault("locations", (Location(path=path, start=line, symbol=symbol),) if path else ())
    more.setdefault("evidence", (Evidence(path=path, start=line, quote=quote),) if quote else ())
    more.setdefault("input_id", f"{reviewer}#{n}")
    return Draft(reviewer=reviewer, title=title, severity=severity, **more)


def report(reviewer: str = "correctness", *drafts: Draft, **more: Any) -> Report:
    """What a reviewer returned; without drafts, that it found nothing."""
    more.setdefault("status", ReportStatus.RETURNED if drafts else ReportStatus.EMPTY)
    return Report(reviewer, drafts=drafts, **more)


def ruling(number: int, word: str, why: str = "", severity: Severity | None = None) -> Said:
    """What a reviewer says of a finding by its number."""
    return Said(number, word, why, severity)


def reports_of(drafts: Sequence[Draft]) -> list[Report]:
    """What each reviewer returned, in the order of the drafts."""
    names = dict.fromkeys(one.reviewer for one in drafts)
    return [report(name, *(one for one in drafts if one.reviewer == name)) for name in names]


def run_pass(
    *drafts: Draft,
    reports: Sequence[Report] | None = None,
    ledger: Ledger | None = None,
    files: Mapping[str, str] | None = None,
    at: str = AT,
    seconds: int = 100,
    **more: Any,
) -> Taken:
    """A pass over drafts, or over whole reports; two files have a hundred lines unless others are given."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in ({"src/a.py": HUNDRED_LINES, "src/b.py": HUNDRED_LINES} if files is None else files).items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        given, ledger = reports_of(drafts) if reports is None else reports, ledger or Ledger()
        more.setdefault("review", "0badcafe")
        passed = Pass(id=new_pass_id(ledger, seconds, more.get("head", "")), started_at=at, **more)
        return take_in(given, ledger, passed, Path(folder), {}, at)


def add_pass(ledger: Ledger, *drafts: Draft, **more: Any) -> Taken:
    """A pass whose events are added to the ledger."""
    done = run_pass(*drafts, ledger=ledger, **more)
    for event in done.events:
        ledger.apply(event)
    return done
