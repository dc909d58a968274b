"""Claims and passes in one line."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipeline.findings.claims import Claim, Return, Returned
from pipeline.findings.intake.assess import IntakeAssessment, assess
from pipeline.findings.intake.files import MemoryFiles
from pipeline.findings.intake.policy import Policy
from pipeline.findings.model import Category, Confidence, Evidence, Location, PassId, Severity
from pipeline.findings.passes import Pass

MakeClaim = Callable[..., Claim]
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
) -> Claim:
    """A claim about a line of a file; a quotation makes it evidence on that line."""
    more.setdefault("category", Category.BUG)
    more.setdefault("confidence", Confidence(value=confidence, scale=scale))
    more.setdefault("locations", (Location(path=path, start=line),) if path else ())
    more.setdefault("evidence", (Evidence(path=path, start=line, quote=quote),) if quote else ())
    more.setdefault("input_id", f"{reviewer}#{n}")
    return Claim(reviewer=reviewer, title=title, severity=severity, **more)


def returns_of(claims: Sequence[Claim]) -> list[Return]:
    """What each reviewer returned, in the order of the claims."""
    reviewers = dict.fromkeys(claim.reviewer for claim in claims)
    return [
        Return(name, Returned.RETURNED, tuple(claim for claim in claims if claim.reviewer == name))
        for name in reviewers
    ]


def run_pass(
    *claims: Claim, files: dict[str, str] | None = None, returns: Sequence[Return] | None = None, **more: Any
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
