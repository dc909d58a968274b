"""Ledger events: everything that can happen to findings. The ledger is a fold over them."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from pipeline.findings.model import (
    CLOSED,
    Decision,
    Finding,
    FindingId,
    FindingState,
    FindingValue,
    FixAttempt,
    GateDecision,
    Link,
    Observed,
    PassId,
    ReportStatus,
    Severity,
    Strength,
    Suppression,
    Vote,
)


class Disposition(StrEnum):
    """What became of a raw item. Every item has exactly one."""

    SURVIVING = "surviving"  # a finding of this pass
    MERGED = "merged"  # into another
    DEMOTED = "demoted"  # to a residual risk or testing gap
    SUPPRESSED = "suppressed"  # known and dismissed
    FILTERED = "filtered"  # below the confidence gate
    REJECTED = "rejected"  # unreadable or outside the repository: an uncertain finding for a person


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class ItemOutcome(FindingValue):
    """What became of one raw item, and why."""

    input_id: str
    disposition: Disposition
    reason: str
    into: str = ""  # the input or finding it became part of
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Coverage(FindingValue):
    """Who answered, what they looked at, and what they could not assess."""

    reviewers: dict[str, ReportStatus] = Field(default_factory=dict)
    problems: dict[str, str] = Field(default_factory=dict)  # by reviewer
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None  # what was reviewed; None: everything
    files: tuple[str, ...] = ()  # names of the imported files that were read whole
    unnamed: tuple[str, ...] = ()  # reviewers named after an unreadable file

    @property
    def complete(self) -> bool:
        """Whether every reviewer gave a readable answer."""
        return not self.silent

    @property
    def silent(self) -> dict[str, ReportStatus]:
        """The reviewers that gave no readable answer."""
        return {name: status for name, status in self.reviewers.items() if not status.answered}


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Pattern(FindingValue):
    """Something done well and worth repeating. Never a finding."""

    id: str
    name: str
    location: str = ""
    rationale: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class ReviewerVerdict(FindingValue):
    """A reviewer's verdict on the whole change."""

    reviewer: str
    verdict: str  # SHIP, SHIP-WITH-TICKETS or BLOCK
    argument: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Pass(FindingValue):
    """One assessment pass. Written once, never changed."""

    id: PassId
    started_at: str
    skill: str = "code-review"  # or full-review
    task: str = ""
    branch: str = ""
    base: str = ""
    head: str = ""  # the commit at the start
    tree: str = ""  # git's tree of the files, where they were not committed
    round: int = 1
    caller: str = ""
    mode: Literal["full", "quick", "verify"] = "full"
    scope: str = "changeset"
    target: str = ""
    run: str = ""
    stage: str = ""
    visit: int = 0
    lens: str = "code-review"
    full_review: tuple[str, ...] = ()  # the stages of the full review that it is part of
    coded: int | None = None  # how many visits of stages that write code came before it in its run; None: unknown
    coverage: Coverage = Coverage()
    entries: tuple[ItemOutcome, ...] = ()
    finding_ids: tuple[str, ...] = ()  # raised or reported again in it, or left open by it
    patterns: tuple[Pattern, ...] = ()
    reviewer_verdicts: tuple[ReviewerVerdict, ...] = ()
    ext: dict[str, Any] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class _Event(FindingValue):
    at: str  # ISO 8601


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class _FindingEvent(_Event):
    id: FindingId


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class PassRecorded(_Event):
    """A pass. It precedes the events of its findings."""

    kind: Literal["assessed"] = "assessed"
    assessment: Pass


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class FindingRaised(_Event):
    """A new finding."""

    kind: Literal["raised"] = "raised"
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class ReportedAgain(_FindingEvent):
    """A known finding was reported again. `changes` holds only the fields that differ."""

    kind: Literal["seen"] = "seen"
    pass_id: str
    observed: Observed
    strength: Strength
    votes: tuple[Vote, ...] = ()
    changes: dict[str, Any] = Field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class NotReported(_FindingEvent):
    """A known finding's code was reviewed, and it was not reported."""

    kind: Literal["missed"] = "missed"
    pass_id: str


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class VotesWithdrawn(_FindingEvent):
    """Some of those who reported a finding no longer do; others still report it."""

    kind: Literal["withdrawn"] = "withdrawn"
    pass_id: str
    reviewers: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class StateChanged(_FindingEvent):
    """A finding's state changed."""

    kind: Literal["turned"] = "turned"
    state: FindingState
    by: str
    note: str = ""
    pass_id: str = ""
    suppression: Suppression | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class FixAttempted(_FindingEvent):
    """Someone tried to fix it."""

    kind: Literal["tried"] = "tried"
    attempt: FixAttempt


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class RulingMade(_FindingEvent):
    """A reviewer ruled on a finding by its number."""

    kind: Literal["ruled"] = "ruled"
    by: str  # the reviewer
    ruling: str  # fixed, not_fixed, upheld, withdrawn or lowered
    why: str = ""
    severity: Severity | None = None  # the new ones of a finding that was lowered
    gate: GateDecision | None = None
    pass_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class DecisionMade(_FindingEvent):
    """Someone decided what to do about it."""

    kind: Literal["decided"] = "decided"
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class LinkAdded(_FindingEvent):
    """It relates to another finding."""

    kind: Literal["linked"] = "linked"
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class LinkRemoved(_FindingEvent):
    """A link is withdrawn, as when a finding is split from its cluster."""

    kind: Literal["unlinked"] = "unlinked"
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class FieldsEdited(_FindingEvent):
    """A person or an agent edited fields. A later pass does not overwrite them."""

    kind: Literal["edited"] = "edited"
    by: str
    changes: dict[str, Any]
    note: str = ""


LedgerEvent = Annotated[
    PassRecorded
    | FindingRaised
    | ReportedAgain
    | NotReported
    | VotesWithdrawn
    | StateChanged
    | FixAttempted
    | RulingMade
    | DecisionMade
    | LinkAdded
    | LinkRemoved
    | FieldsEdited,
    Field(discriminator="kind"),
]
_adapter: TypeAdapter[LedgerEvent] = TypeAdapter(LedgerEvent)


def encode_event(event: LedgerEvent) -> str:
    """An event as one line of JSON, without fields at their default."""
    fields = event.model_dump_json(exclude_defaults=True)  # starts with `at`, which has no default
    return f'{{"kind":"{event.kind}",{fields[1:]}'


def decode_event(line: str) -> LedgerEvent:
    """The event in a line of JSON; raises ValueError if the line is not one."""
    return _adapter.validate_json(line)
