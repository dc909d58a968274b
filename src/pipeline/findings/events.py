"""What happens to findings, one event each. The ledger is a fold over them, and nothing else is kept.

`at` is an ISO 8601 time in each.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from pipeline.findings.model import (
    Decision,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Link,
    Observed,
    PassId,
    ReportStatus,
    Strength,
    Suppression,
    Vote,
)
from pipeline.findings.value import CLOSED, FindingValue


class Disposition(StrEnum):
    """What became of a raw item. Every item has exactly one."""

    SURVIVING = "surviving"  # it is a finding of this pass, the first of its group
    MERGED = "merged"  # into another
    DEMOTED = "demoted"  # to a note beside the findings
    SUPPRESSED = "suppressed"  # known and dismissed
    FILTERED = "filtered"  # not confident enough, or a validator refused it
    REJECTED = "rejected"  # it cannot be read, or points outside: it is a finding that somebody has to look at


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class ItemOutcome(FindingValue):
    """The fate of one raw item."""

    input_id: str
    disposition: Disposition
    reason: str
    into: str = ""  # the input or finding it became part of
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Coverage(FindingValue):
    """Who answered, and what they could not say."""

    reviewers: dict[str, ReportStatus] = Field(default_factory=dict)
    problems: dict[str, str] = Field(default_factory=dict)  # by reviewer
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()
    paths: tuple[str, ...] | None = None  # what was looked at; None is everything
    files: tuple[str, ...] = ()  # the names of the files that were read whole
    unnamed: tuple[str, ...] = ()  # those called by the name of a file that could not be read

    @property
    def complete(self) -> bool:
        """Whether everybody who was asked gave an answer that can be read."""
        return not self.silent

    @property
    def silent(self) -> dict[str, ReportStatus]:
        """Those who were asked and gave no answer that can be read."""
        return {name: status for name, status in self.reviewers.items() if not status.answered}


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Pattern(FindingValue):
    """Something done well that is worth spreading. It is never a finding."""

    id: str
    name: str
    location: str = ""
    rationale: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class ReviewerVerdict(FindingValue):
    """What a reviewer says of the whole."""

    reviewer: str
    verdict: str  # SHIP, SHIP-WITH-TICKETS or BLOCK
    argument: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Pass(FindingValue):
    """One assessment pass. It is written once and never changed."""

    id: PassId
    started_at: str
    skill: str = "code-review"  # or full-review
    task: str = ""
    branch: str = ""
    base: str = ""
    head: str = ""  # the commit at the start
    tree: str = ""  # the files as they were, where no commit says so
    round: int = 1
    caller: str = ""
    mode: Literal["full", "quick", "verify"] = "full"
    scope: str = "changeset"
    target: str = ""
    run: str = ""
    stage: str = ""
    visit: int = 0
    coverage: Coverage = Coverage()
    entries: tuple[ItemOutcome, ...] = ()
    finding_ids: tuple[str, ...] = ()  # those raised or seen in it
    patterns: tuple[Pattern, ...] = ()
    reviewer_verdicts: tuple[ReviewerVerdict, ...] = ()
    ext: dict[str, Any] = Field(default_factory=dict)


_EVENT = ConfigDict(extra="forbid", ser_json_inf_nan="constants")


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class PassRecorded(FindingValue):
    """A pass is done. It comes before the events of its findings."""

    at: str
    kind: Literal["assessed"] = "assessed"
    assessment: Pass


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class FindingRaised(FindingValue):
    """A finding that nobody knew."""

    at: str
    kind: Literal["raised"] = "raised"
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class ReportedAgain(FindingValue):
    """A known finding was reported again. `changes` holds only the fields that are told differently."""

    at: str
    kind: Literal["seen"] = "seen"
    id: FindingId
    pass_id: str
    observed: Observed
    strength: Strength
    votes: tuple[Vote, ...] = ()
    changes: dict[str, Any] = Field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class NotReported(FindingValue):
    """A known finding's place was looked at, and nobody reported it."""

    at: str
    kind: Literal["missed"] = "missed"
    id: FindingId
    pass_id: str


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class StateChanged(FindingValue):
    """A finding's state is another."""

    at: str
    kind: Literal["turned"] = "turned"
    id: FindingId
    state: FindingState
    by: str
    note: str = ""
    pass_id: str = ""
    suppression: Suppression | None = None


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class FixAttempted(FindingValue):
    """Somebody tried to fix it."""

    at: str
    kind: Literal["tried"] = "tried"
    id: FindingId
    attempt: FixAttempt


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class DecisionMade(FindingValue):
    """Somebody decided what to do about it."""

    at: str
    kind: Literal["decided"] = "decided"
    id: FindingId
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class LinkAdded(FindingValue):
    """It has to do with another finding."""

    at: str
    kind: Literal["linked"] = "linked"
    id: FindingId
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class LinkRemoved(FindingValue):
    """It has not: a link is taken back, as when two findings were merged and should not have been."""

    at: str
    kind: Literal["unlinked"] = "unlinked"
    id: FindingId
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class FieldsEdited(FindingValue):
    """A person or an agent changed what it says. Such a field is not overwritten by a later pass."""

    at: str
    kind: Literal["edited"] = "edited"
    id: FindingId
    by: str
    changes: dict[str, Any]
    note: str = ""


LedgerEvent = Annotated[
    PassRecorded
    | FindingRaised
    | ReportedAgain
    | NotReported
    | StateChanged
    | FixAttempted
    | DecisionMade
    | LinkAdded
    | LinkRemoved
    | FieldsEdited,
    Field(discriminator="kind"),
]
_adapter: TypeAdapter[LedgerEvent] = TypeAdapter(LedgerEvent)


def encode_event(event: LedgerEvent) -> str:
    """An event as one line of JSON, without what is at its default."""
    told = event.model_dump_json(exclude_defaults=True)  # it begins with the time, for that has no default
    return f'{{"kind":"{event.kind}",{told[1:]}'


def decode_event(line: str) -> LedgerEvent:
    """The event in a line of JSON; raises ValueError when it is none."""
    return _adapter.validate_json(line)
