"""What happens to findings, one event each. The ledger is a fold over them, and nothing else is kept.

`at` is an ISO 8601 time in each.
"""

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
    Strength,
    Suppression,
    Vote,
)
from pipeline.findings.passes import Pass
from pipeline.findings.value import FindingValue

_EVENT = ConfigDict(extra="forbid", ser_json_inf_nan="constants")


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Assessed(FindingValue):
    """A pass is done. It comes before the events of its findings."""

    at: str
    kind: Literal["assessed"] = "assessed"
    assessment: Pass


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Raised(FindingValue):
    """A finding that nobody knew."""

    at: str
    kind: Literal["raised"] = "raised"
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Seen(FindingValue):
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
class Missed(FindingValue):
    """A known finding's place was looked at, and nobody reported it."""

    at: str
    kind: Literal["missed"] = "missed"
    id: FindingId
    pass_id: str


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Turned(FindingValue):
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
class Tried(FindingValue):
    """Somebody tried to fix it."""

    at: str
    kind: Literal["tried"] = "tried"
    id: FindingId
    attempt: FixAttempt


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Decided(FindingValue):
    """Somebody decided what to do about it."""

    at: str
    kind: Literal["decided"] = "decided"
    id: FindingId
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Linked(FindingValue):
    """It has to do with another finding."""

    at: str
    kind: Literal["linked"] = "linked"
    id: FindingId
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Unlinked(FindingValue):
    """It has not: a link is taken back, as when two findings were merged and should not have been."""

    at: str
    kind: Literal["unlinked"] = "unlinked"
    id: FindingId
    link: Link


@dataclass(frozen=True, slots=True, kw_only=True, config=_EVENT)
class Edited(FindingValue):
    """A person or an agent changed what it says. Such a field is not overwritten by a later pass."""

    at: str
    kind: Literal["edited"] = "edited"
    id: FindingId
    by: str
    changes: dict[str, Any]
    note: str = ""


AnyEvent = Annotated[
    Assessed | Raised | Seen | Missed | Turned | Tried | Decided | Linked | Unlinked | Edited,
    Field(discriminator="kind"),
]
_adapter: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def encode(event: AnyEvent) -> str:
    """An event as one line of JSON, without what is at its default."""
    told = event.model_dump_json(exclude_defaults=True)  # it begins with the time, for that has no default
    return f'{{"kind":"{event.kind}",{told[1:]}'


def decode(line: str) -> AnyEvent:
    """The event in a line of JSON; raises ValueError when it is none."""
    return _adapter.validate_json(line)
