"""What reviewers and tools say before anything is made of it: a claim for each raw item, a return for each source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipeline.findings.model import (
    AutofixClass,
    Category,
    Confidence,
    Evidence,
    FindingState,
    Lens,
    Location,
    Owner,
    Severity,
)


class Returned(StrEnum):
    """How a source answered. Anything but the first two makes a pass incomplete."""

    RETURNED = "returned"
    EMPTY = "empty"  # it looked and found nothing
    PARTIAL = "partial"  # it answered, and some of its items cannot be read
    MALFORMED = "malformed"  # it answered, and it cannot be read, or was cut off
    MISSING = "missing"  # it never answered

    @property
    def answered(self) -> bool:
        """Whether it gave an answer that can be read as a whole."""
        return self in (Returned.RETURNED, Returned.EMPTY)


@dataclass(frozen=True, slots=True)
class Claim:
    """One item as its source states it, in our words. What a source leaves out has its default."""

    input_id: str  # `<reviewer>#<n>`, n from 1
    reviewer: str
    title: str
    severity: Severity
    confidence: Confidence
    category: Category
    impact: str = ""
    fix: str | None = None
    plain_title: str = ""
    reproduction: str | None = None
    min_fix_scope: str | None = None
    regression_tests: tuple[str, ...] = ()
    autofix_class: AutofixClass = AutofixClass.MANUAL
    owner: Owner = Owner.HUMAN
    requires_verification: bool = False
    pre_existing: bool = False
    system_breaking: bool = False
    locations: tuple[Location, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    lens: Lens = Lens.CODE_REVIEW
    scope: str = ""
    action: str = ""
    stage: str = ""
    tool_ids: Mapping[str, str] = field(default_factory=dict)  # a tool's own fingerprints and ids, by name
    state: FindingState | None = None  # that its source gives it, when it comes from a store
    suppressed: str | None = None  # the reason, when its source says that it is not to be shown
    unreadable: str = ""  # why the item cannot be read as a finding; its raw text is the impact then
    ext: Mapping[str, Any] = field(default_factory=dict)  # unknown keys, to be handed back


@dataclass(frozen=True, slots=True)
class Rejected:
    """An item that cannot be read as a finding, why, and what can be told from it nevertheless."""

    input_id: str
    reason: str
    title: str = ""
    raw: str = ""
    severity: Severity = Severity.HIGH
    location: Location | None = None
    system_breaking: bool = False
    harmless: bool = False  # it says that nothing is wrong


@dataclass(frozen=True, slots=True)
class Return:
    """All that one source answered in one pass. Every raw item is a claim or rejected: none is missing."""

    reviewer: str
    status: Returned
    findings: tuple[Claim, ...] = ()
    unreadable: tuple[Rejected, ...] = ()
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()
    problem: str = ""  # what is wrong with it as a whole
    covered: tuple[str, ...] | None = None  # the paths it looked at; None when it does not say
    format: str = ""
    file: str = ""  # the name of the file it was read from, without its ending
    ext: Mapping[str, Any] = field(default_factory=dict)

    @property
    def inputs(self) -> int:
        """How many raw items it had."""
        return len(self.findings) + len(self.unreadable)
