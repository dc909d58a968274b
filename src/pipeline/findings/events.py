"""What happens to findings, one event each. The ledger is a fold over them, and nothing else is kept."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic_core import to_json

from pipeline.findings.model import (
    Attempt,
    Decision,
    Finding,
    FindingId,
    Link,
    Observed,
    State,
    Strength,
    Suppression,
    Vote,
)
from pipeline.findings.passes import Pass


class Event(BaseModel):
    """One entry of the ledger. `at` is an ISO 8601 time."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: str


class Assessed(Event):
    """A pass is done. It comes before the events of its findings."""

    kind: Literal["assessed"] = "assessed"
    assessment: Pass


class Raised(Event):
    """A finding that nobody knew."""

    kind: Literal["raised"] = "raised"
    finding: Finding


class Seen(Event):
    """A known finding was reported again. `changes` holds only the fields that are told differently."""

    kind: Literal["seen"] = "seen"
    id: FindingId
    pass_id: str
    observed: Observed
    strength: Strength
    votes: tuple[Vote, ...] = ()
    changes: dict[str, Any] = Field(default_factory=dict)
    note: str = ""


class Missed(Event):
    """A known finding's place was looked at, and nobody reported it."""

    kind: Literal["missed"] = "missed"
    id: FindingId
    pass_id: str


class Turned(Event):
    """A finding's state is another."""

    kind: Literal["turned"] = "turned"
    id: FindingId
    state: State
    by: str
    note: str = ""
    pass_id: str = ""
    suppression: Suppression | None = None


class Tried(Event):
    """Somebody tried to fix it."""

    kind: Literal["tried"] = "tried"
    id: FindingId
    attempt: Attempt


class Decided(Event):
    """Somebody decided what to do about it."""

    kind: Literal["decided"] = "decided"
    id: FindingId
    decision: Decision


class Linked(Event):
    """It has to do with another finding."""

    kind: Literal["linked"] = "linked"
    id: FindingId
    link: Link


class Unlinked(Event):
    """It has not: a link is taken back, as when two findings were merged and should not have been."""

    kind: Literal["unlinked"] = "unlinked"
    id: FindingId
    link: Link


class Named(Event):
    """It was given another name, under which it may come back."""

    kind: Literal["named"] = "named"
    id: FindingId
    alias: str


class Edited(Event):
    """A person or an agent changed what it says. Such a field is not overwritten by a later pass."""

    kind: Literal["edited"] = "edited"
    id: FindingId
    by: str
    changes: dict[str, Any]
    note: str = ""


AnyEvent = Annotated[
    Assessed | Raised | Seen | Missed | Turned | Tried | Decided | Linked | Unlinked | Named | Edited,
    Field(discriminator="kind"),
]
_adapter: TypeAdapter[AnyEvent] = TypeAdapter(AnyEvent)


def encode(event: AnyEvent) -> str:
    """An event as one line of JSON, without what is at its default."""
    return to_json({"kind": event.kind, **event.model_dump(mode="json", exclude_defaults=True)}).decode()


def decode(line: str) -> AnyEvent:
    """The event in a line of JSON; raises ValueError when it is none."""
    return _adapter.validate_json(line)
