"""The Markdown report of a review, in the repository, for people."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pipeline.app.findings.ledger import Repository, open_ledger
from pipeline.errors import AwfError


@dataclass(frozen=True, slots=True)
class ReportWritten:
    """Where a report is, from the root of the repository; empty if the review has none."""

    path: str
    problems: tuple[str, ...] = ()


def write_review_report(
    store: Path, repository: Repository, now: datetime, directory: str, run: str = ""
) -> ReportWritten:
    """Write the report of the last review, or of the last one of a run, and name it in the verdict file.

    Its name has the id of the review, as the verdict file has it. A quick review has no report.
    """
    with open_ledger(store, repository, now) as opened:
        ledger = opened.ledger
        passes = [passed for passed in ledger.passes.values() if not run or passed.run == run]
        if not passes:
            raise AwfError("there is no review to report", help="start one with: awf run, or awf findings import FILE")
        path, problems = opened.views.write_report(ledger, passes[-1], directory)
        return ReportWritten(path, (*opened.problems, *problems))
