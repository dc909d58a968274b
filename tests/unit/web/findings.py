"""A project with findings for the pages about them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.app.findings.importing import import_returns
from pipeline.app.findings.repository import repository
from pipeline.app.findings.sources import Source, decoded

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
    told = {"reviewer": reviewer, "findings": items, "residual_risks": [], "testing_gaps": []}
    source = Source(reviewer, reviewer, json.dumps(told).encode())
    returns = decoded([source], root, format="review", reviewer="", lens=None)
    import_returns(returns, root / ".awf", repository(root, root, {"PATH": "/usr/bin:/bin"}), AT)
