"""One finding, whatever format it came in: what is claimed, by whom, on what evidence, and what became of it.

A finding is never changed: every event gives a new one. Votes, evidence and history only grow.
"""

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NewType

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.findings.value import CLOSED, FindingValue

FindingId = NewType("FindingId", str)
PassId = NewType("PassId", str)
MAY_BE = "may_be"  # a link to a finding that another may be the same as
UNREADABLE = "unreadable"  # the key of `ext` that says why an item could not be read


class Severity(StrEnum):
    """How bad it is, worst first."""

    CRITICAL = "critical"  # breakage, a hole, lost data: must be fixed before merging
    HIGH = "high"  # likely met in normal use
    MEDIUM = "medium"  # an edge case, a slowness, a trap
    LOW = "low"  # narrow and minor
    INFO = "info"  # to be known, not to be fixed

    @property
    def rank(self) -> int:
        """0 for the worst."""
        return _SEVERITIES.index(self)


_SEVERITIES = tuple(Severity)


class Category(StrEnum):
    """What kind of defect it is."""

    BUG = "bug"
    SECURITY = "security"
    PERFORMANCE = "performance"
    CONCURRENCY = "concurrency"
    API_CONTRACT = "api-contract"
    DATA_LOSS = "data-loss"
    TEST_GAP = "test-gap"
    DOCS_GAP = "docs-gap"
    BUILD_RELEASE = "build-release"
    MAINTAINABILITY = "maintainability"
    PRODUCT = "product"
    REQUIREMENT = "requirement"


class FindingState(StrEnum):
    """What became of a finding. A claim that it is fixed is not yet a fix."""

    OPEN = "open"
    REOPENED = "reopened"  # it was gone and came back, or a claimed fix did not hold
    FIX_CLAIMED = "fix_claimed"  # somebody says so; nobody has looked
    VERIFIED_FIXED = "verified_fixed"  # a fresh look, or a person, confirmed it
    FALSE_POSITIVE = "false_positive"
    WONT_FIX = "wont_fix"
    UNCERTAIN = "uncertain"  # it could not be confirmed or refuted

    @property
    def active(self) -> bool:
        """Whether it still counts against the code."""
        return self in _ACTIVE

    @property
    def needs_attention(self) -> bool:
        """Whether somebody has still to look at it: it counts, or is only said to be fixed."""
        return self in _OUTSTANDING

    @property
    def dismissed(self) -> bool:
        """Whether somebody decided that nothing is to be done."""
        return self in _DISMISSED


_ACTIVE = (FindingState.OPEN, FindingState.REOPENED, FindingState.UNCERTAIN)
_OUTSTANDING = (*_ACTIVE, FindingState.FIX_CLAIMED)
_DISMISSED = (FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)


class Observed(StrEnum):
    """How a finding stood in the last pass that covered it."""

    NEW = "new"
    UNCHANGED = "unchanged"
    UPDATED = "updated"  # the same defect, told differently
    MOVED = "moved"  # the same defect on another line or in another file
    ABSENT = "absent"  # its place was reviewed, and nobody reported it: that alone is no proof


class Gate(StrEnum):
    """Whether a finding keeps the change from shipping."""

    MUST = "must"
    SUGGEST = "suggest"


class AutofixClass(StrEnum):
    """How a fix may be made, least careful first."""

    SAFE_AUTO = "safe_auto"  # local and certain
    GATED_AUTO = "gated_auto"  # concrete, but it changes behaviour
    MANUAL = "manual"  # it needs a decision about the design
    ADVISORY = "advisory"  # nothing to fix: for the report


class Owner(StrEnum):
    """Who acts on a finding next."""

    REVIEW_FIXER = "review-fixer"
    DOWNSTREAM_RESOLVER = "downstream-resolver"
    HUMAN = "human"
    RELEASE = "release"


class Lens(StrEnum):
    """Which kind of assessment a finding comes from."""

    CODE_REVIEW = "code-review"
    QA = "qa"
    PM = "pm"


class Strength(StrEnum):
    """How surely a finding of this pass is one that was known, surest first."""

    EXACT = "exact"  # the same signature, alias or tool's own id
    MAPPED = "mapped"  # the same text where git says the line went
    CONTENT = "content"  # the same text, and no other like it
    FUZZY = "fuzzy"  # close by, with much the same surroundings
    JUDGED = "judged"  # somebody was asked


class Actor(StrEnum):
    """Who changed a finding's state."""

    USER = "user"
    FINISH_TASK = "finish-task"
    REVALIDATE = "revalidate"
    ORCHESTRATOR = "orchestrator"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Confidence(FindingValue):
    """How well the evidence supports the claim, from 0 to 100, and as its source said it."""

    value: int = Field(ge=0, le=100)
    scale: str = ""  # anchor, fraction, word, or that of a tool
    native: float | str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Location(FindingValue):
    """Where a defect is. Lines count from 1; `end` is inclusive."""

    path: str
    start: int | None = None
    end: int | None = None
    symbol: str = ""

    def __str__(self) -> str:
        """`src/a.py:42-58`, `src/a.py:42`, or the path of a whole file."""
        return f"{self.path}:{self.lines}" if self.lines else self.path

    @property
    def path_line(self) -> str:
        """The path and the first line."""
        return f"{self.path}:{self.start}" if self.start else self.path

    @property
    def lines(self) -> str:
        """`42-58` or `42`; nothing for a whole file."""
        if self.start is None or self.end in (None, self.start):
            return "" if self.start is None else str(self.start)
        return f"{self.start}-{self.end}"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Evidence(Location):
    """What supports a finding: lines of a file with a quotation of them, or a text that names no file."""

    path: str = ""
    quote: str = ""  # verbatim, at most 240 characters
    raw: str = ""  # as its source wrote it


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Vote(FindingValue):
    """What one reviewer said of a finding. Votes are kept apart: together they would say what nobody said."""

    reviewer: str
    pass_id: str = ""
    stage: str = ""
    run: str = ""
    title: str = ""
    severity: Severity
    confidence: int
    autofix_class: AutofixClass
    owner: Owner
    action: str = ""  # what the reviewer would do: apply, defer, skip or acknowledge
    input_id: str = ""  # `<reviewer>#<n>` of the pass
    tool: bool = False  # a program computed it


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class FixAttempt(FindingValue):
    """A try to fix a finding."""

    run: str = ""
    round: int = 0
    by: str = ""
    what: str = ""
    outcome: str = ""  # claimed, not_fixed, wrong, regressed, verified


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Decision(FindingValue):
    """What somebody decided to do about a finding. To defer or skip leaves it open."""

    at: str
    action: str  # apply, defer, skip, acknowledge
    by: str = ""
    reason: str = ""
    ref: str = ""  # a ticket


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Suppression(FindingValue):
    """Why a finding is not shown, and for how long. It holds for the text that was dismissed, not for another."""

    kind: str = "external"  # or inSource
    reason: str = ""
    by: str = ""
    expires: str = ""  # an ISO date; never when empty
    digest: str = ""  # of the evidence that was dismissed


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Link(FindingValue):
    """How a finding stands to another."""

    kind: str  # duplicate_of, caused_by, split_from, related, may_be
    to: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Change(FindingValue):
    """One line of a finding's history."""

    at: str
    what: str  # raised, seen, absent, state, attempt, decision, edited, merged, split, linked
    state: FindingState | None = None  # what it became, where that changed
    by: str = ""
    note: str = ""
    pass_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class GateDecision(FindingValue):
    """Whether a finding gates, and who said so."""

    value: Gate = Gate.SUGGEST
    by: str = "policy"
    policy: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Finding(FindingValue):
    """One defect with its identity, its provenance and its history."""

    id: FindingId
    number: int = 0  # stable within the store: what people and agents call it by
    signature: str
    fingerprints: dict[str, str] = Field(default_factory=dict)  # `name/vN` to value
    aliases: tuple[str, ...] = ()  # every other name it was ever given
    title: str
    plain_title: str = ""
    impact: str = ""
    fix: str | None = None
    reproduction: str | None = None
    min_fix_scope: str | None = None
    regression_tests: tuple[str, ...] = ()
    category: Category
    severity: Severity
    confidence: Confidence
    gate: GateDecision = GateDecision()
    autofix_class: AutofixClass = AutofixClass.MANUAL
    owner: Owner = Owner.HUMAN
    requires_verification: bool = False
    pre_existing: bool = False
    system_breaking: bool = False
    locations: tuple[Location, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    votes: tuple[Vote, ...] = ()
    sources: tuple[str, ...] = ()
    lens: Lens = Lens.CODE_REVIEW
    scope: str = ""
    task: str = ""
    agreement: int = 1  # independent reviewers that said so
    state: FindingState = FindingState.OPEN
    observed: Observed = Observed.NEW
    strength: Strength | None = None  # of its last match
    late: bool = False  # on lines that an earlier pass had covered unchanged
    pass_id: PassId  # the pass that raised it or saw it last
    absent_passes: int = 0  # in a row
    created_at: str
    updated_at: str
    attempts: tuple[FixAttempt, ...] = ()
    decisions: tuple[Decision, ...] = ()
    suppression: Suppression | None = None
    links: tuple[Link, ...] = ()
    history: tuple[Change, ...] = ()
    ext: dict[str, Any] = Field(default_factory=dict)  # what a format said that has no place here, by format

    @property
    def still_reported_by(self) -> str:
        """A tool that reported it the last time it looked; nothing when there is none."""
        tools = {vote.pass_id: vote.reviewer for vote in self.votes if vote.tool}
        for change in reversed(self.history) if tools else ():
            if change.what == "absent":
                return ""
            if change.what in ("raised", "seen") and change.pass_id in tools:
                return tools[change.pass_id]
        return ""

    @property
    def may_be(self) -> tuple[str, ...]:
        """The ids of findings that it may be the same as, which nobody has confirmed."""
        return tuple(link.to for link in self.links if link.kind == MAY_BE) if self.links else ()

    @property
    def unreadable(self) -> str:
        """Why the item that it was made of cannot be read as a finding; nothing for one that can."""
        return str(self.ext.get(UNREADABLE, ""))

    @property
    def location(self) -> Location | None:
        """Where it is first of all."""
        return self.locations[0] if self.locations else None


class ReportStatus(StrEnum):
    """How a source answered. Anything but the first two makes a pass incomplete."""

    RETURNED = "returned"
    EMPTY = "empty"  # it looked and found nothing
    PARTIAL = "partial"  # it answered, and some of its items cannot be read
    MALFORMED = "malformed"  # it answered, and it cannot be read, or was cut off
    MISSING = "missing"  # it never answered

    @property
    def answered(self) -> bool:
        """Whether it gave an answer that can be read as a whole."""
        return self in (ReportStatus.RETURNED, ReportStatus.EMPTY)


@dataclasses.dataclass(frozen=True, slots=True)
class RawFinding:
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
    tool_ids: Mapping[str, str] = dataclasses.field(default_factory=dict)  # a tool's own fingerprints and ids, by name
    state: FindingState | None = None  # that its source gives it, when it comes from a store
    suppressed: str | None = None  # the reason, when its source says that it is not to be shown
    unreadable: str = ""  # why the item cannot be read as a finding; its raw text is the impact then
    ext: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # unknown keys, to be handed back


@dataclasses.dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An item that cannot be read as a finding, why, and what can be told from it nevertheless."""

    input_id: str
    reason: str
    title: str = ""
    raw: str = ""
    severity: Severity = Severity.HIGH
    location: Location | None = None
    system_breaking: bool = False
    harmless: bool = False  # it says that nothing is wrong


@dataclasses.dataclass(frozen=True, slots=True)
class ReviewerReport:
    """All that one source answered in one pass. Every raw item is a claim or rejected: none is missing."""

    reviewer: str
    status: ReportStatus
    findings: tuple[RawFinding, ...] = ()
    unreadable: tuple[UnreadableItem, ...] = ()
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()
    problem: str = ""  # what is wrong with it as a whole
    covered: tuple[str, ...] | None = None  # the paths it looked at; None when it does not say
    format: str = ""
    file: str = ""  # the name of the file it was read from, without its ending
    ext: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def inputs(self) -> int:
        """How many raw items it had."""
        return len(self.findings) + len(self.unreadable)
