"""Findings in the formats that other programs and people read."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from pipeline import __version__
from pipeline.app.findings.filters import EVERY, OUTSTANDING
from pipeline.app.findings.records import whole
from pipeline.findings.codecs import OUTPUTS, markdown, review
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState
from pipeline.findings.passes import Coverage
from pipeline.findings.showing import standing

Render = Callable[[Sequence[Finding], Ledger], str]


def _sarif(findings: Sequence[Finding], _ledger: Ledger) -> str:
    return OUTPUTS["sarif"](findings, version=__version__)


def _json(findings: Sequence[Finding], _ledger: Ledger) -> str:
    return json.dumps([whole(finding) for finding in findings], indent=2) + "\n"


def _markdown(findings: Sequence[Finding], ledger: Ledger) -> str:
    passed, coverage = ledger.last, ledger.coverage()
    whole = replace(passed, coverage=coverage) if passed and coverage else None
    return markdown.encode(findings, verdicts=standing(ledger), passed=whole)


def _review(findings: Sequence[Finding], ledger: Ledger) -> str:
    told = ledger.last.coverage if ledger.last else Coverage()
    return review.encode(findings, "awf", told.residual_risks, told.testing_gaps, compact=False).decode()


EXPORTS: Mapping[str, Render] = MappingProxyType(
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


def usual_states(format: str) -> frozenset[FindingState]:
    """The states that a format can tell apart; where it cannot, what is settled would come back as open."""
    return EVERY if format in ("sarif", "markdown", "json") else OUTSTANDING
