"""What a reviewer returns, in one line."""

from typing import Any


def item(number: int, **more: Any) -> dict[str, Any]:
    """One item, about the line of a.py with this number."""
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
        "evidence": [f"a.py:{number} -- {code(number)}"],
        "pre_existing": False,
        **more,
    }


def code(line: int) -> str:
    """A line of a.py."""
    return f"line_{line} = compute({line})"


def review(*items: dict[str, Any], reviewer: str = "correctness") -> dict[str, Any]:
    """A whole return."""
    return {"reviewer": reviewer, "findings": list(items), "residual_risks": [], "testing_gaps": []}
