"""A repository on GitHub, a fake `gh`, and findings to file."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.trackers.fake_gh import FakeGh, checkout

from pipeline.findings.events import FindingRaised, StateChanged
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Confidence,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Location,
    PassId,
    Severity,
)
from pipeline.findings.trackers.ticket import TrackerContext

AT = "2026-01-01T00:00:00Z"
Make = Callable[..., Finding]


@pytest.fixture
def make() -> Make:
    """A function that makes findings."""

    def made(id: str = "fnd_0badcafe", **more: Any) -> Finding:
        values: dict[str, Any] = {
            "id": FindingId(id),
            "signature": f"sha256:{id}",
            "title": "Old token stays valid",
            "impact": "A stolen token works for ever.",
            "fix": "Revoke it when a new one is made.",
            "category": Category.SECURITY,
            "severity": Severity.HIGH,
            "confidence": Confidence(value=75),
            "locations": (Location(path="src/session.py", start=3, end=5),),
            "evidence": (Evidence(path="src/session.py", start=3, quote="store.save(token)"),),
            "sources": ("security", "correctness"),
            "pass_id": PassId("one"),
            "created_at": AT,
            "updated_at": AT,
        }
        return Finding(**values | more)

    return made


def with_states(finding: Finding, *states: FindingState, note: str = "it is back") -> Finding:
    """A finding after some changes of its state."""
    ledger = Ledger([FindingRaised(at=AT, finding=finding)])
    for state in states:
        ledger.apply(StateChanged(at=AT, id=finding.id, state=state, by="orchestrator", note=note))
    return ledger.findings[finding.id]


@pytest.fixture
def gh(tmp_path: Path) -> FakeGh:
    """A fake `gh` without issues."""
    return FakeGh(tmp_path / "bin")


@pytest.fixture
def context(tmp_path: Path, gh: FakeGh) -> TrackerContext:
    """A checkout of `acme/shop`, with `gh` on its PATH."""
    root = checkout(tmp_path / "shop", origin="https://github.com/acme/shop.git")
    (tmp_path / "home").mkdir()
    path = f"{gh.directory}{os.pathsep}{os.environ['PATH']}"
    return TrackerContext(root, root / ".awf", {"PATH": path, "HOME": str(tmp_path / "home")})
