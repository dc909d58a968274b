"""Findings in the formats that other programs and people read."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pipeline import __version__
from pipeline.app.findings.queries import ALL_STATES, NEEDS_ATTENTION, finding_record
from pipeline.findings.events import Coverage
from pipeline.findings.formats import OUTPUTS, markdown, review
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.verdicts import ledger_verdicts

Renderer = Callable[[Sequence[Finding], Ledger], str]


def _sarif(findings: Sequence[Finding], _ledger: Ledger) -> str:
    return OUTPUTS["sarif"](findings, version=__version__)


def _json(findings: Sequence[Finding], ledger: Ledger) -> str:
    return json.dumps([finding_record(finding, ledger) for finding in findings], indent=2) + "\n"


def _markdown(findings: Sequence[Finding], ledger: Ledger) -> str:
    passed, coverage = ledger.last, ledger.coverage()
    whole = replace(passed, coverage=coverage) if passed and coverage else None
    return markdown.encode(findings, verdicts=ledger_verdicts(ledger), passed=whole)


def _review(findings: Sequence[Finding], ledger: Ledger) -> str:
    told = ledger.last.coverage if ledger.last else Coverage()
    return review.encode(findings, "awf", told.residual_risks, told.testing_gaps, compact=False).decode()


EXPORTS: Mapping[str, Renderer] = MappingProxyType(
    {
        "sarif": _sarif,
        "rdjson": lambda findings, _ledger: OUTPUTS["rdjson"](findings),
        "github": lambda findings, _ledger: OUTPUTS["github"](findings),
        "markdown": _markdown,
        "json": _json,
        "review": _review,
    }
)
"""How to write findings in each format."""


def default_states(format: str) -> frozenset[FindingState]:
    """The states that a format can tell apart; where it cannot, what is settled would come back as open."""
    return ALL_STATES if format in ("sarif", "markdown", "json") else NEEDS_ATTENTION
