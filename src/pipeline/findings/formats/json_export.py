"""Findings as a JSON array with everything the ledger knows about each."""

from collections.abc import Iterable
from typing import Any

from pipeline.findings.formats import strict_json
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """The findings in the order given."""
    return strict_json.dumps([finding_record(finding, ledger) for finding in findings]).decode()


def finding_record(finding: Finding, ledger: Ledger) -> dict[str, Any]:
    """Everything known about a finding, with the findings joined to it as `members`."""
    members = [member.model_dump(mode="json") for member in ledger.members(finding.id)]
    return finding.model_dump(mode="json") | ({"members": members} if members else {})
