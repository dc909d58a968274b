"""Findings: one defect as one reviewer or tool reported it, on what evidence, and what became of it.

A `Report` with its `Draft`s is what a reviewer or tool returns; a `Finding` is what the ledger keeps. Values are never
changed: every ledger event makes a new one, in which evidence and history only grow.
"""

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, NewType, Self

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic_core import SchemaSerializer, SchemaValidator

from pipeline.language.lens import Lens

FindingId = NewType("FindingId", str)
PassId = NewType("PassId", str)
STAGE = "stage/v1"  # the fingerprint of a finding that stands for a stage that fails: `workflow/stage`
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
    VERIFIED_FIXED = "verified_fixed"  # confirmed by the reviewer or tool that reported it, or by a person
    FALSE_POSITIVE = "false_positive"
    WONT_FIX = "wont_fix"
    UNCERTAIN = "uncertain"  # nothing in the code supports it, or it cannot be read; it blocks

    @property
    def active(self) -> bool:
        """Whether nobody has claimed to have fixed it, and nobody has closed it."""
        return self in _ACTIVE

    @property
    def is_open(self) -> bool:
        """Whether it counts: a claimed fix does, until it is verified."""
        return self in _OPEN

    @property
    def dismissed(self) -> bool:
        """Whether someone decided that nothing needs to be done."""
        return self in _DISMISSED


_ACTIVE = (FindingState.OPEN, FindingState.REOPENED, FindingState.UNCERTAIN)
_OPEN = (*_ACTIVE, FindingState.FIX_CLAIMED)
_DISMISSED = (FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)


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


class Actor(StrEnum):
    """In which role somebody said something about a finding, in the words of its record."""

    USER = "user"  # a person
    FINISH_TASK = "finish-task"  # a fixer
    REVALIDATE = "revalidate"  # a reviewer or tool that rules on it
    ORCHESTRATOR = "orchestrator"  # a reviewer or tool that reports it, or an agent that decides


class What(StrEnum):
    """What happened to a finding."""

    RAISED = "raised"
    SEEN = "seen"  # it was reported again
    RULING = "ruling"  # of a reviewer or tool: fixed, not_fixed, upheld, lowered, withdrawn
    CLAIM = "claim"  # of a fixer: fixed, not_fixed, wrong
    DECISION = "decision"  # in a walk: apply, defer, skip, acknowledge
    TRIAGE = "triage"  # a status that somebody gave it
    JOINED = "joined"  # it became part of a line of work, or a line of its own
    MAY_BE = "may_be"  # a doubt: it may be another finding


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
class Suppression(FindingValue):
    """Why a finding is not shown, and for how long. It covers the code that was dismissed and no other."""

    reason: str = ""
    by: str = ""
    expires: str = ""  # an ISO date; empty: never
    digest: str = ""  # of the evidence that was dismissed

    def __str__(self) -> str:
        """Who dismissed it, until when and why."""
        until = f" until {self.expires}" if self.expires else ""
        return f"by {self.by or 'unknown'}{until}: {self.reason or 'no reason given'}"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Change(FindingValue):
    """What somebody said about a finding: a line of its history, and an event of the ledger."""

    at: str  # ISO 8601
    what: What
    who: str  # the reviewer, tool, stage or person
    by: Actor
    word: str = ""  # of a ruling, a claim, a decision or a triage
    note: str = ""
    state: FindingState | None = None  # the new one, if it changed
    pass_id: str = ""
    run: str = ""
    ref: str = ""  # a ticket, or another finding


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Finding(FindingValue):
    """One defect as one reviewer or tool reported it, with its identity and history."""

    id: FindingId
    number: int = 0  # stable within the store: how people and agents refer to it
    line: FindingId = FindingId("")  # the finding whose number is that of its line of work; empty: its own
    signature: str
    fingerprints: dict[str, str] = Field(default_factory=dict)  # `name/vN` to value
    aliases: tuple[str, ...] = ()  # every other name it ever had
    reviewer: str  # the one who reported it
    tool: bool = False  # whether that is a program whose list is complete
    stage: str = ""  # where it was reported last
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
    severity_text: str = ""  # as it was written, if nobody knows what that means
    confidence: Confidence
    gate: Gate = Gate.SUGGEST
    autofix_class: AutofixClass = AutofixClass.MANUAL
    owner: Owner = Owner.HUMAN
    action: str = ""  # the reviewer's recommendation: apply, defer, skip or acknowledge
    requires_verification: bool = False
    pre_existing: bool = False
    system_breaking: bool = False
    locations: tuple[Location, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    lens: Lens = Lens.CODE_REVIEW
    scope: str = ""
    task: str = ""
    input_id: str = ""  # `<reviewer>#<n>` in the pass that reported it last
    state: FindingState = FindingState.OPEN
    unreadable: str = ""  # why the item cannot be read as a finding; `impact` is then its raw text
    pass_id: PassId  # the pass that reported or confirmed it last
    created_at: str
    updated_at: str
    suppression: Suppression | None = None
    may_be: tuple[str, ...] = ()  # the ids of findings that may be the same
    history: tuple[Change, ...] = ()
    ext: dict[str, Any] = Field(default_factory=dict)  # fields of other formats, by format

    @property
    def fixable(self) -> bool:
        """Whether a fixer is to change code for it: it is not advice, older than the change, or a person's to decide.

        What cannot be read counts, and so does what endangers the whole system, no matter who decides.
        """
        noted = self.autofix_class is AutofixClass.ADVISORY or self.owner in (Owner.HUMAN, Owner.RELEASE)
        return bool(self.unreadable) or not (self.pre_existing or (noted and not self.system_breaking))

    @property
    def claims(self) -> tuple[Change, ...]:
        """What fixers said about it, oldest first."""
        return tuple(change for change in self.history if change.what is What.CLAIM)

    @property
    def decisions(self) -> tuple[Change, ...]:
        """What was decided about it in walks, oldest first."""
        return tuple(change for change in self.history if change.what is What.DECISION)

    @property
    def disputed(self) -> bool:
        """Whether the last fixer who worked on it calls it wrong, and no reviewer has ruled since."""
        return self._unanswered_claim == "wrong"

    @property
    def claimed(self) -> bool:
        """Whether the last fixer who worked on it calls it fixed, and no reviewer has ruled since."""
        return self._unanswered_claim == "fixed"

    @property
    def _unanswered_claim(self) -> str:
        answers = (What.CLAIM, What.RULING, What.SEEN, What.TRIAGE)
        last = next((change for change in reversed(self.history) if change.what in answers), None)
        return last.word if last and last.what is What.CLAIM else ""

    @property
    def failing_stage(self) -> str:
        """The stage whose failure it stands for; empty for any other finding."""
        return self.fingerprints.get(STAGE, "").rpartition("/")[2]

    @property
    def failures(self) -> str:
        """How often that stage failed, such as `failed in 3 visits`; empty for once."""
        visits = sum(change.what in (What.RAISED, What.SEEN) for change in self.history)
        return f"failed in {visits} visits" if self.failing_stage and visits > 1 else ""

    @property
    def location(self) -> Location | None:
        """Its primary location."""
        return self.locations[0] if self.locations else None

    @property
    def placed_in(self) -> str:
        """The pass whose files its places are in: the last that reported it. A ruling names no place."""
        reported = (change.pass_id for change in reversed(self.history) if change.what in (What.RAISED, What.SEEN))
        return next(reported, self.pass_id)


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
class Draft:
    """A finding of a pass before it is matched. Readers of formats build it; what a source left out has its default."""

    input_id: str  # `<reviewer>#<n>`, n from 1
    reviewer: str
    title: str
    severity: Severity
    confidence: Confidence
    category: Category
    severity_text: str = ""  # as it was written, if nobody knows what that means
    impact: str = ""
    fix: str | None = None
    plain_title: str = ""
    reproduction: str | None = None
    min_fix_scope: str | None = None
    regression_tests: tuple[str, ...] = ()
    why_it_works: str = ""
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
    harmless: str = ""  # why it is no defect: it reports a success
    uncertain: bool = False  # whether nothing in the code supports it
    notes: tuple[str, ...] = ()  # what was corrected or could not be confirmed
    ext: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # unknown keys, returned on export
    signature: str = ""  # these two are added when it is taken in
    fingerprints: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def by_tool(self) -> bool:
        """Whether a program computed it: its lines are exact, and no file need support it."""
        return self.confidence.scale not in ("", "anchor", "fraction", "word")

    @property
    def location(self) -> Location | None:
        """Its primary location."""
        return self.locations[0] if self.locations else None


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What an agent says about one finding, by its number: a ruling of a reviewer, a claim of a fixer."""

    number: int
    word: str  # fixed, not_fixed; of a fixer also wrong, of a reviewer upheld, withdrawn or lowered
    why: str = ""
    severity: Severity | None = None  # what a finding is lowered to
    vague: bool = False  # it says more than that it is fixed: `fixed in a later commit`

    @property
    def ruling(self) -> str:
        """The word as that of a reviewer: what is not plainly fixed is not fixed."""
        return "not_fixed" if self.vague else self.word


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Everything one reviewer or tool returned in one pass. No item is missing: one that cannot be read says why."""

    reviewer: str
    status: ReportStatus
    drafts: tuple[Draft, ...] = ()
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()
    verdict: str = ""  # on the whole change: SHIP, SHIP-WITH-TICKETS or BLOCK
    argument: str = ""  # for the verdict
    patterns: tuple[Mapping[str, str], ...] = ()  # what it found worth repeating
    rulings: tuple[Said, ...] = ()  # on findings that it was given by number
    reviewed: tuple[str, ...] = ()  # the files that it says it examined, and what it checked
    problem: str = ""  # what is wrong with the whole answer
    doubt: str = ""  # what keeps a list that speaks against nothing from being believed, such as a refusal
    beside: tuple[str, ...] = ()  # what an answer that speaks against nothing says beside its list
    notes: tuple[str, ...] = ()  # what is odd about it and changes nothing
    covered: tuple[str, ...] | None = None  # the paths it looked at; None: unknown
    checked: frozenset[str] | None = None  # the tool's ids of what it checked, such as tests; None: all it knows
    format: str = ""
    tool: bool = False  # whether a program made it, and no reviewer
    file: str = ""  # the name of the file it was read from, without its suffix
    stage: str = ""  # of a run
    lens: Lens = Lens.CODE_REVIEW
    since: str = ""  # the tree of its look before, if it was given only what changed since; empty: the whole change
    asked: tuple[FindingId, ...] = ()  # the open findings that it was given by number
    ext: Mapping[str, Any] = dataclasses.field(default_factory=dict)
