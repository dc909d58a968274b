"""The records of findings and passes, as a project keeps them: a lens, in which only what was changed is an edit."""

from collections.abc import Iterable
from typing import Any

from pipeline.errors import AwfError
from pipeline.findings.codecs.record_adopted import adopt
from pipeline.findings.codecs.record_edits import put
from pipeline.findings.codecs.record_view import BESIDE, FORMAT, KEYS, VERSION, get, task_name
from pipeline.findings.model import Finding, Gate
from pipeline.findings.passes import Pass
from pipeline.findings.verdicts import Shipping

__all__ = ["BESIDE", "FORMAT", "KEYS", "VERSION", "adopt", "get", "pass_record", "put", "task_name"]


def pass_record(assessment: Pass, findings: Iterable[Finding], verdict: str) -> dict[str, Any]:
    """The record of a pass. The counts are those of its findings' gates; a pass with gaps does not ship."""
    known = {str(finding.id): finding for finding in findings}
    if lost := [id for id in assessment.finding_ids if id not in known]:
        raise AwfError(f"pass {assessment.id} speaks of finding {lost[0]}, which is not known")
    gates = [known[id].gate.value for id in assessment.finding_ids]
    complete = assessment.coverage.complete
    return {
        "schemaVersion": VERSION,
        "id": str(assessment.id),
        "type": "review",
        "task": task_name(assessment.task),
        "skill": assessment.skill,
        "branch": assessment.branch,
        "base": assessment.base,
        "diff_sha": assessment.head,
        "started_at": assessment.started_at,
        "verdict": str(verdict) if complete or verdict != Shipping.SHIP else str(Shipping.BLOCK_ON_REJECTION),
        "must_count": gates.count(Gate.MUST),
        "suggest_count": gates.count(Gate.SUGGEST),
        "caller": assessment.caller,
        "round": assessment.round,
        "finding_ids": list(assessment.finding_ids),
        "patterns": [pattern.model_dump() for pattern in assessment.patterns],
        "reviewer_verdicts": [said.model_dump() for said in assessment.reviewer_verdicts],
        **({} if complete else {"x_incomplete": dict(assessment.coverage.problems)}),
        **assessment.ext.get(FORMAT, {}),
    }
