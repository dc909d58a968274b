"""What our own SARIF says of a finding beyond SARIF's words, so that reading it back loses nothing.

SARIF's words win: a level, kind or suppression that somebody changed in the file is not overruled by what is carried.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pipeline.findings.claims import Claim
from pipeline.findings.codecs.sarif_places import mapping
from pipeline.findings.model import Finding, FindingState, Severity
from pipeline.findings.scales import SARIF_LEVEL

KEY = "x_finding"
UNKNOWN = "x_sarif"
DRIVER = "awf"


_CARRIED = (
    *("title", "severity", "category", "confidence", "plain_title", "impact", "fix", "reproduction", "min_fix_scope"),
    *("regression_tests", "autofix_class", "owner", "requires_verification", "pre_existing", "system_breaking"),
    *("evidence", "lens", "scope", "state", "signature", "fingerprints", "sources"),
)  # the fields of a finding for which SARIF has no place
_BLANK = {"id": "", "signature": "", "pass_id": "", "created_at": "", "updated_at": ""}  # what only a ledger can say


def properties_of(finding: Finding) -> dict[str, Any]:
    """The property bag of a finding's result."""
    bag: dict[str, Any] = {
        "id": finding.id,
        "number": finding.number,
        "state": str(finding.state),
        "observed": str(finding.observed),
        "gate": str(finding.gate.value),
        "confidence": finding.confidence.value,
        "tags": [str(finding.category)],
        KEY: finding.model_dump(mode="json", include=set(_CARRIED), exclude_defaults=True),
    }
    unknown = finding.ext.get("sarif")
    return bag | ({UNKNOWN: unknown} if unknown else {})


@dataclass(frozen=True, slots=True)
class SarifWords:
    """What SARIF itself says of how bad a result is and what became of it."""

    level: str
    kind: str = "fail"
    suppressed: bool = False
    absent: bool = False

    @classmethod
    def of(cls, severity: Severity, state: FindingState) -> "SarifWords":
        """The words for a severity and a state. A result that is not a failure has no level."""
        kind = {FindingState.FIX_CLAIMED: "review", FindingState.UNCERTAIN: "open"}.get(state, "fail")
        level = SARIF_LEVEL[severity] if kind == "fail" else "none"
        return cls(level, kind, state.dismissed, state is FindingState.VERIFIED_FIXED)


def restored(claim: Claim, bag: Mapping[str, Any], said: SarifWords) -> Claim:
    """A claim with what was carried; severity and state only where SARIF still says what was written."""
    written = mapping(bag.get(KEY))
    carried = Finding.model_validate(_BLANK | {name: written[name] for name in _CARRIED if name in written})
    told = {name: getattr(carried, name) for name in _CARRIED if name in Claim.__dataclass_fields__}
    wrote = SarifWords.of(carried.severity, carried.state)
    if said.level != wrote.level:
        told["severity"] = claim.severity
    if replace(said, level=wrote.level) != wrote:
        told["state"] = claim.state
    unknown = bag.get(UNKNOWN)
    ids = {**carried.fingerprints, "awf/id": str(bag.get("id", "")), "awf/v1": carried.signature}
    return replace(claim, tool_ids=ids, ext={"sarif": unknown} if unknown else {}, **told)
