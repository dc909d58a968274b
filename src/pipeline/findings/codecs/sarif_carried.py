"""What our own SARIF says of a finding beyond SARIF's words, so that reading it back loses nothing.

SARIF's words win: a level, kind or suppression that somebody changed in the file is not overruled by what is carried.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from pipeline.findings.claims import Claim
from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Evidence,
    Finding,
    Lens,
    Owner,
    Severity,
    State,
)
from pipeline.findings.scales import SARIF_LEVEL

KEY = "x_finding"
UNKNOWN = "x_sarif"
DRIVER = "awf"


class Carried(BaseModel):
    """The fields of a finding for which SARIF has no place, by the names they have here."""

    model_config = ConfigDict(frozen=True)

    title: str
    severity: Severity
    category: Category
    confidence: Confidence
    plain_title: str = ""
    impact: str = ""
    fix: str | None = None
    reproduction: str | None = None
    min_fix_scope: str | None = None
    regression_tests: tuple[str, ...] = ()
    autofix_class: AutofixClass = AutofixClass.MANUAL
    owner: Owner = Owner.HUMAN
    requires_verification: bool = False
    pre_existing: bool = False
    system_breaking: bool = False
    evidence: tuple[Evidence, ...] = ()
    lens: Lens = Lens.CODE_REVIEW
    scope: str = ""
    state: State = State.OPEN
    signature: str = ""
    fingerprints: dict[str, str] = Field(default_factory=dict)
    sources: tuple[str, ...] = ()


def properties_of(finding: Finding) -> dict[str, Any]:
    """The property bag of a finding's result."""
    carried = Carried(**{name: getattr(finding, name) for name in Carried.model_fields})
    bag: dict[str, Any] = {
        "id": finding.id,
        "number": finding.number,
        "state": str(finding.state),
        "observed": str(finding.observed),
        "gate": str(finding.gate.value),
        "confidence": finding.confidence.value,
        "tags": [str(finding.category)],
        KEY: carried.model_dump(mode="json", exclude_defaults=True),
    }
    unknown = finding.ext.get("sarif")
    return bag | ({UNKNOWN: unknown} if unknown else {})


@dataclass(frozen=True, slots=True)
class Words:
    """What SARIF itself says of how bad a result is and what became of it."""

    level: str
    kind: str = "fail"
    suppressed: bool = False
    absent: bool = False

    @classmethod
    def of(cls, severity: Severity, state: State) -> "Words":
        """The words for a severity and a state. A result that is not a failure has no level."""
        kind = {State.FIX_CLAIMED: "review", State.UNCERTAIN: "open"}.get(state, "fail")
        level = SARIF_LEVEL[severity] if kind == "fail" else "none"
        return cls(level, kind, state.dismissed, state is State.VERIFIED_FIXED)


def restored(claim: Claim, bag: Mapping[str, Any], said: Words) -> Claim:
    """A claim with what was carried; severity and state only where SARIF still says what was written."""
    carried = Carried.model_validate(bag.get(KEY))
    told = {name: getattr(carried, name) for name in Carried.model_fields if name in Claim.__dataclass_fields__}
    wrote = Words.of(carried.severity, carried.state)
    if said.level != wrote.level:
        told["severity"] = claim.severity
    if replace(said, level=wrote.level) != wrote:
        told["state"] = claim.state
    unknown = bag.get(UNKNOWN)
    ids = {**carried.fingerprints, "awf/id": str(bag.get("id", "")), "awf/v1": carried.signature}
    return replace(claim, tool_ids=ids, ext={"sarif": unknown} if unknown else {}, **told)
