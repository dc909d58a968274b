"""What the summary's tests share: a report, a summary with all else left plain, and a reader of fences."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from pipeline.engine.context import Context
from pipeline.summary.render import render
from pipeline.summary.report_index import ReportIndex

Report = Callable[..., dict[str, Any]]
Summary = Callable[..., str]
Outside = Callable[[str], list[str]]

_OPENING = re.compile(r"(`{3,}|~{3,})")


@pytest.fixture(scope="session")
def report() -> Report:
    """An entry of `review.findings`."""

    def make(stage: str = "review", iteration: int = 1, **fields: Any) -> dict[str, Any]:
        return {
            "stageId": stage,
            "iteration": iteration,
            "status": "fail",
            "failureReason": "it is wrong",
            "response": "src/a.py:1: wrong",
            "timestamp": f"2026-01-01T00:{iteration // 60 % 60:02}:{iteration % 60:02}.000+00:00",
            **fields,
        }

    return make


@pytest.fixture(scope="session")
def summary() -> Summary:
    """A summary of a context, or of reports."""

    def make(given: Any = (), **options: Any) -> str:
        context = Context(given) if isinstance(given, dict) else Context({"review.findings": list(given)})
        defaults = {"goal": "", "workflow": "w", "past": (), "budget": 24_000, "findings_path": "/run/findings.json"}
        defaults["owned"] = ("review.findings",)
        return render(context, ReportIndex("review.findings").groups(context), **{**defaults, **options})

    return make


@pytest.fixture(scope="session")
def outside() -> Outside:
    """The lines of a text that are in no fence. Every fence must be closed."""

    def read(text: str) -> list[str]:
        lines: list[str] = []
        marks = ""
        for line in text.splitlines():
            found = _OPENING.match(line.lstrip(" "))
            if not marks and found:
                marks = found[1]
            elif marks and found and found[1].startswith(marks) and line.strip() == found[1]:
                marks = ""
            elif not marks:
                lines.append(line)
        assert not marks, "a fence is open at the end"
        return lines

    return read
