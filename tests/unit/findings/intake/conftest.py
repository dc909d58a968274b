"""Claims and passes in one line."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline.findings.events import Pass
from pipeline.findings.evidence import MemoryFiles
from pipeline.findings.ingest import IntakeAssessment, assess
from pipeline.findings.merge import Policy
from pipeline.findings.model import (
    Category,
    Confidence,
    Evidence,
    Location,
    PassId,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
)

MakeClaim = Callable[..., RawFinding]
Run = Callable[..., IntakeAssessment]


def make_claim(
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
    **more: Any,
) -> RawFinding:
    """A claim about a line of a file; a quotation makes it evidence on that line."""
    more.setdefault("category", Category.BUG)
    more.setdefault("confidence", Confidence(value=confidence, scale=scale))
    more.setdefault("locations", (Location(path=path, start=line),) if path else ())
    more.setdefault("evidence", (Evidence(path=path, start=line, quote=quote),) if quote else ())
    more.setdefault("input_id", f"{reviewer}#{n}")
    return RawFinding(reviewer=reviewer, title=title, severity=severity, **more)


def returns_of(claims: Sequence[RawFinding]) -> list[ReviewerReport]:
    """What each reviewer returned, in the order of the claims."""
    reviewers = dict.fromkeys(claim.reviewer for claim in claims)
    return [
        ReviewerReport(name, ReportStatus.RETURNED, tuple(claim for claim in claims if claim.reviewer == name))
        for name in reviewers
    ]


def run_pass(
    *claims: RawFinding,
    files: dict[str, str] | None = None,
    returns: Sequence[ReviewerReport] | None = None,
    **more: Any,
) -> IntakeAssessment:
    """A pass over claims; every file that no test gives has a hundred lines."""
    text = "\n".join(f"line {number} of a file" for number in range(1, 101))
    sources = MemoryFiles({"src/a.py": text, "src/b.py": text} if files is None else files)
    policy = more.pop("policy", Policy())
    answers = returns_of(claims) if returns is None else returns
    told = {name: more.pop(name) for name in ("task", "run", "stage") if name in more}
    passed = Pass(id=PassId("REV-1"), started_at="2026-11-16T00:00:00Z", **told)
    return assess(answers, sources, policy, passed, **more)


@pytest.fixture(scope="session")
def claim() -> MakeClaim:
    """Makes a claim."""
    return make_claim


@pytest.fixture(scope="session")
def run() -> Run:
    """Runs a pass."""
    return run_pass
