"""The Markdown report of a review, in the repository, for people."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pipeline.app.findings.ledger import Repository, open_ledger
from pipeline.errors import AwfError
from pipeline.findings.ledger import passes_of


@dataclass(frozen=True, slots=True)
class ReportWritten:
    """Where a report is, from the root of the repository; empty if the review has none."""

    path: str
    problems: tuple[str, ...] = ()


def write_review_report(
    store: Path, repository: Repository, now: datetime, directory: str, run: str = ""
) -> ReportWritten:
    """Write the report of the last review, or of the last one of a run, and name it in the verdict file.

    There is one report for each review, by its id: a verification writes it again. A quick review has no report.
    """
    with open_ledger(store, repository, now) as opened:
        ledger = opened.ledger
        passes = passes_of(ledger, run) if run else list(ledger.passes.values())
        if not passes:
            raise AwfError("there is no review to report", help="start one with: awf run, or awf findings import FILE")
        path, problems = opened.views.write_report(ledger, passes[-1], directory)
        return ReportWritten(path, (*opened.problems, *problems))
