"""Findings: one defect each, with who reported it, on what evidence, and what became of it.

`RawFinding` and `ReviewerReport` are what reviewers and tools return; a `Finding` is what the ledger keeps. Values are
never changed: every ledger event makes a new one, in which votes, evidence and history only grow.
"""

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, NewType, Self

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic_core import SchemaSerializer, SchemaValidator

from pipeline.language.model import Lens

FindingId = NewType("FindingId", str)
PassId = NewType("PassId", str)
MAY_BE = "may_be"  # the kind of link to a finding that may be the same
STAGE = "stage/v1"  # the fingerprint of a finding that stands for a stage that fails: `workflow/stage`
UNREADABLE = "unreadable"  # the key of `ext` with the reason an item could not be read
CLOSED = ConfigDict(extra="forbid", ser_json_inf_nan="constants")


class FindingValue:
    """The base of frozen values that are checked when they are made; methods are named as in pydantic's models.

    They are dataclasses with slots, not models: a ledger can hold a million of them, and these need less memory.
    """

    __slots__ = ()
    __pydantic_serializer__: ClassVar[SchemaSerializer]
    __pydantic_validator__: ClassVar[SchemaValidator]

    def model_dump(self, **options: Any) -> dict[str, Any]:
        """The fields as plain data."""
        dumped: dict[str, Any] = self.__pydantic_serializer__.to_python(self, **options)
        return dumped

    def model_dump_json(self, **options: Any) -> str:
        """The fields as JSON."""
        return self.__pydantic_serializer__.to_json(self, **options).decode()

    @classmethod
    def model_validate(cls, data: Mapping[str, Any]) -> Self:
        """A value from plain data; raises ValueError when the data do not fit."""
        value: Self = cls.__pydantic_validator__.validate_python(dict(data))
        return value


class Severity(StrEnum):
    """How bad it is, worst first."""

    CRITICAL = "critical"  # breakage, a security hole, lost data: fix before merging
    HIGH = "high"  # likely in normal use
    MEDIUM = "medium"  # an edge case, a slow path, a trap
    LOW = "low"  # narrow and minor
    INFO = "info"  # good to know, nothing to fix

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
    """What became of a finding. A claimed fix is not yet a fix."""

    OPEN = "open"
    REOPENED = "reopened"  # it came back, or a claimed fix did not hold
    FIX_CLAIMED = "fix_claimed"  # not verified yet
    VERIFIED_FIXED = "verified_fixed"  # confirmed by a later review, a tool or a person
    FALSE_POSITIVE = "false_positive"
    WONT_FIX = "wont_fix"
    UNCERTAIN = "uncertain"  # neither confirmed nor refuted

    @property
    def active(self) -> bool:
        """Whether it still counts against the code."""
        return self in _ACTIVE

    @property
    def needs_attention(self) -> bool:
        """Whether it counts against the code or awaits verification of a claimed fix."""
        return self in _OUTSTANDING

    @property
    def dismissed(self) -> bool:
        """Whether someone decided that nothing needs to be done."""
        return self in _DISMISSED


_ACTIVE = (FindingState.OPEN, FindingState.REOPENED, FindingState.UNCERTAIN)
_OUTSTANDING = (*_ACTIVE, FindingState.FIX_CLAIMED)
_DISMISSED = (FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)


class Observed(StrEnum):
    """How a finding appeared in the last pass that covered it."""

    NEW = "new"
    UNCHANGED = "unchanged"
    UPDATED = "updated"  # the same defect, described differently
    MOVED = "moved"  # the same defect on another line or in another file
    ABSENT = "absent"  # its code was reviewed and it was not reported, which does not prove a fix


class Gate(StrEnum):
    """Whether a finding keeps the change from shipping."""

    MUST = "must"
    SUGGEST = "suggest"


class AutofixClass(StrEnum):
    """How a fix may be made, least caution first."""

    SAFE_AUTO = "safe_auto"  # local and deterministic
    GATED_AUTO = "gated_auto"  # concrete, but it changes behaviour
    MANUAL = "manual"  # needs a design decision
    ADVISORY = "advisory"  # for the report only


class Owner(StrEnum):
    """Who acts on a finding next."""

    REVIEW_FIXER = "review-fixer"
    DOWNSTREAM_RESOLVER = "downstream-resolver"
    HUMAN = "human"
    RELEASE = "release"


class Strength(StrEnum):
    """How certain it is that a finding of this pass is a known one, most certain first."""

    EXACT = "exact"  # the same signature, alias or tool's id
    MAPPED = "mapped"  # the same text where git says the line is now
    CONTENT = "content"  # the same code
    FUZZY = "fuzzy"  # similar, not certain
    JUDGED = "judged"  # only in ledgers of earlier versions


class Actor(StrEnum):
    """Who changed a finding's state."""

    USER = "user"
    FINISH_TASK = "finish-task"
    REVALIDATE = "revalidate"
    ORCHESTRATOR = "orchestrator"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Confidence(FindingValue):
    """How well the evidence supports the finding, from 0 to 100, and as its source expressed it."""

    value: int = Field(ge=0, le=100)
    scale: str = ""  # anchor, fraction, word, or a tool's own
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
        if self.start is None:
            return ""
        return str(self.start) if self.end in (None, self.start) else f"{self.start}-{self.end}"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Evidence(Location):
    """What supports a finding: lines of a file with a quotation of them, or a text that names no file."""

    path: str = ""
    quote: str = ""  # verbatim, at most 240 characters
    raw: str = ""  # as its source wrote it


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Vote(FindingValue):
    """What one reviewer said about a finding. Votes are kept apart: combined they would say what no reviewer said."""

    reviewer: str
    pass_id: str = ""
    stage: str = ""
    run: str = ""
    title: str = ""
    severity: Severity
    confidence: int
    autofix_class: AutofixClass
    owner: Owner
    action: str = ""  # the reviewer's recommendation: apply, defer, skip or acknowledge
    input_id: str = ""  # `<reviewer>#<n>` in its pass
    tool: bool = False  # reported by a deterministic program


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class FixAttempt(FindingValue):
    """One attempt to fix a finding."""

    run: str = ""
    round: int = 0
    by: str = ""
    what: str = ""
    outcome: str = ""  # claimed, not_fixed, wrong, regressed, verified


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Decision(FindingValue):
    """What someone decided to do about a finding. Deferring or skipping leaves it open."""

    at: str
    action: str  # apply, defer, skip, acknowledge
    by: str = ""
    reason: str = ""
    ref: str = ""  # a ticket
    run: str = ""  # whose triage it was made in


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Suppression(FindingValue):
    """Why a finding is not shown, and for how long. It covers the code that was dismissed and no other."""

    kind: str = "external"  # or inSource
    reason: str = ""
    by: str = ""
    expires: str = ""  # an ISO date; empty: never
    digest: str = ""  # of the evidence that was dismissed

    def __str__(self) -> str:
        """Who dismissed it, until when and why."""
        until = f" until {self.expires}" if self.expires else ""
        return f"by {self.by or 'unknown'}{until}: {self.reason or 'no reason given'}"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Link(FindingValue):
    """How a finding relates to another."""

    kind: str  # duplicate_of, caused_by, split_from, related, may_be
    to: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Change(FindingValue):
    """One line of a finding's history."""

    at: str
    what: str  # raised, seen, absent, withdrawn, state, attempt, ruling, decision, edited, merged, split, linked
    state: FindingState | None = None  # the new one, if it changed
    by: str = ""
    note: str = ""
    pass_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class GateDecision(FindingValue):
    """Whether a finding blocks, and who decided so."""

    value: Gate = Gate.SUGGEST
    by: str = "policy"
    policy: str = "default"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Finding(FindingValue):
    """One defect with its identity, provenance and history."""

    id: FindingId
    number: int = 0  # stable within the store: how people and agents refer to it
    signature: str
    fingerprints: dict[str, str] = Field(default_factory=dict)  # `name/vN` to value
    aliases: tuple[str, ...] = ()  # every other name it ever had
    title: str
    plain_title: str = ""
    impact: str = ""
    fix: str | None = None
    reproduction: str | None = None
    min_fix_scope: str | None = None
    regression_tests: tuple[str, ...] = ()
    why_it_works: str = ""  # why the fix is right
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
    agreement: int = 1  # independent reviewers that reported it
    state: FindingState = FindingState.OPEN
    observed: Observed = Observed.NEW
    strength: Strength | None = None  # of its last match
    late: bool = False  # on lines that an earlier pass had already reviewed
    pass_id: PassId  # the pass that reported it last
    absent_passes: int = 0  # in a row
    created_at: str
    updated_at: str
    attempts: tuple[FixAttempt, ...] = ()
    decisions: tuple[Decision, ...] = ()
    suppression: Suppression | None = None
    links: tuple[Link, ...] = ()
    history: tuple[Change, ...] = ()
    ext: dict[str, Any] = Field(default_factory=dict)  # fields of other formats, by format

    @property
    def still_reported_by(self) -> str:
        """A tool that reported it the last time it ran; empty when there is none."""
        tools = {vote.pass_id: vote.reviewer for vote in self.votes if vote.tool and vote.reviewer in self.sources}
        for change in reversed(self.history) if tools else ():
            if change.what == "absent":
                return ""
            if change.what in ("raised", "seen") and change.pass_id in tools:
                return tools[change.pass_id]
        return ""

    @property
    def fixable(self) -> bool:
        """Whether a fixer is to change code for it: it is not advice, older than the change, or a person's to decide.

        What cannot be read counts, and so does what endangers the whole system, no matter who decides.
        """
        noted = self.autofix_class is AutofixClass.ADVISORY or self.owner in (Owner.HUMAN, Owner.RELEASE)
        return bool(self.unreadable) or not (self.pre_existing or (noted and not self.system_breaking))

    @property
    def may_be(self) -> tuple[str, ...]:
        """The ids of findings that may be the same, unconfirmed."""
        return tuple(link.to for link in self.links if link.kind == MAY_BE) if self.links else ()

    @property
    def failing_stage(self) -> str:
        """The stage whose failure it stands for; empty for any other finding."""
        return self.fingerprints.get(STAGE, "").rpartition("/")[2]

    @property
    def failures(self) -> str:
        """How often that stage failed, such as `failed in 3 visits`; empty for once."""
        visits = len({vote.pass_id for vote in self.votes})
        return f"failed in {visits} visits" if self.failing_stage and visits > 1 else ""

    @property
    def unreadable(self) -> str:
        """Why the item it was made from cannot be read as a finding; empty when it can."""
        return str(self.ext.get(UNREADABLE, ""))

    @property
    def location(self) -> Location | None:
        """Its primary location."""
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
        """Whether the whole answer was readable."""
        return self in (ReportStatus.RETURNED, ReportStatus.EMPTY)


@dataclasses.dataclass(frozen=True, slots=True)
class RawFinding:
    """One item as a reviewer or tool returned it, in our terms. What the source left out has its default."""

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
    why_it_works: str = ""  # why the fix is right
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
    state: FindingState | None = None  # as recorded, when it comes from another store
    suppressed: str | None = None  # the reason, when its source suppressed it
    unreadable: str = ""  # why the item cannot be read as a finding; `impact` is then its raw text
    uncertain: bool = False  # whether nothing in the code supports it
    notes: tuple[str, ...] = ()  # what was corrected or could not be confirmed
    ext: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # unknown keys, returned on export

    @property
    def by_tool(self) -> bool:
        """Whether a program computed it: its lines are exact, and no file need support it."""
        return self.confidence.scale not in ("", "anchor", "fraction", "word")


@dataclasses.dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An item that cannot be read as a finding: the reason, and what could still be read."""

    input_id: str
    reason: str
    title: str = ""
    raw: str = ""
    severity: Severity = Severity.HIGH
    location: Location | None = None
    system_breaking: bool = False
    harmless: bool = False  # it states that nothing is wrong


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What an agent says about one finding, by its number."""

    number: int
    word: str  # fixed, not_fixed; of a fixer also wrong, of a reviewer upheld, withdrawn or lowered
    why: str = ""
    severity: Severity | None = None  # what a finding is lowered to


@dataclasses.dataclass(frozen=True, slots=True)
class ReviewerReport:
    """Everything one source returned in one pass. Every item is a raw finding or unreadable: none is missing."""

    reviewer: str
    status: ReportStatus
    findings: tuple[RawFinding, ...] = ()
    unreadable: tuple[UnreadableItem, ...] = ()
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()
    verdict: str = ""  # on the whole change: SHIP, SHIP-WITH-TICKETS or BLOCK
    argument: str = ""  # for the verdict
    patterns: tuple[Mapping[str, str], ...] = ()  # what it found worth repeating
    rulings: tuple[Answer, ...] = ()  # on findings that it was given by number
    problem: str = ""  # what is wrong with the whole answer
    covered: tuple[str, ...] | None = None  # the paths it looked at; None: unknown
    checked: frozenset[str] | None = None  # the tool's ids of what it checked, such as tests; None: all it knows
    format: str = ""
    file: str = ""  # the name of the file it was read from, without its suffix
    ext: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def inputs(self) -> int:
        """How many items it returned."""
        return len(self.findings) + len(self.unreadable)
