"""Ledger events: everything that can happen to findings. The ledger is a fold over them."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter
from pydantic.dataclasses import dataclass

from pipeline.findings.model import CLOSED, Change, Finding, FindingId, FindingValue, PassId, ReportStatus
from pipeline.language.lens import Lens


class Disposition(StrEnum):
    """What became of an item. Every item has exactly one."""

    SURVIVING = "surviving"  # a finding of this pass
    MERGED = "merged"  # it repeats another item, or is part of its line of work
    DEMOTED = "demoted"  # to a residual risk or testing gap
    SUPPRESSED = "suppressed"  # known and dismissed
    FILTERED = "filtered"  # below the confidence gate
    REJECTED = "rejected"  # unreadable or outside the repository: an uncertain finding for a person


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class ItemOutcome(FindingValue):
    """What became of one item, and why."""

    input_id: str
    disposition: Disposition
    reason: str
    into: str = ""  # the item or finding it became part of
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Look(FindingValue):
    """How one reviewer or tool looked at the tree of a pass."""

    reviewer: str
    status: ReportStatus
    problem: str = ""  # why its answer cannot be used, or only in part
    stage: str = ""  # of a run
    lens: Lens = Lens.CODE_REVIEW
    tool: bool = False
    status_only: bool = False  # a tool that gives no list: what it says is a finding of its own, and no look at lines
    file: str = ""  # the name of the imported file
    since: str = ""  # the tree of its look before, if it was given only what changed since; empty: the whole change
    paths: tuple[str, ...] | None = None  # what it looked at; None: everything that it was given
    reviewed: tuple[str, ...] = ()  # what it says it examined
    unruled: tuple[int, ...] = ()  # the numbers of open findings that it was given and did not rule on
    back: tuple[int, ...] = ()  # the same of fixed findings whose file is again as it was when they were reported
    verdict: str = ""  # on the whole change: SHIP, SHIP-WITH-TICKETS or BLOCK
    argument: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it was a look at everything that the reviewer was given, and that was the whole change."""
        return not self.since and (self.paths is None or self.tool)


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Coverage(FindingValue):
    """Who looked, and what they could not assess."""

    looks: tuple[Look, ...] = ()
    residual_risks: tuple[str, ...] = ()
    testing_gaps: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every reviewer gave a readable answer."""
        return not self.gaps

    @property
    def gaps(self) -> tuple[Look, ...]:
        """The looks without a readable answer."""
        return tuple(look for look in self.looks if not look.status.answered)

    @property
    def by_reviewer(self) -> dict[str, Look]:
        """How each reviewer looked; of several looks the one that says least: unreadable, or at the smallest part."""
        ordered = sorted(self.looks, key=lambda look: (look.status.answered, look.is_whole))
        least = {look.reviewer: look for look in reversed(ordered)}
        return dict(sorted(least.items()))


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Pattern(FindingValue):
    """Something done well and worth repeating. Never a finding."""

    id: str
    name: str
    location: str = ""
    rationale: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Pass(FindingValue):
    """What looked at one tree together. Written once, never changed."""

    id: PassId
    started_at: str
    review: str  # the id of the review: passes of one round share it, and a verification keeps that of the one before
    task: str = ""
    branch: str = ""
    base: str = ""  # the commit that the change is compared with
    head: str = ""  # the commit at the start
    tree: str = ""  # git's tree of all files at the start, committed or not
    changed: bool = False  # whether files changed while it looked
    round: int = 1
    caller: str = ""
    mode: Literal["full", "quick", "verify"] = "full"
    scope: str = "changeset"
    target: str = ""
    required: tuple[str, ...] = ()  # who has to look at all of the target; empty: everyone who ever looked
    paths: tuple[str, ...] | None = None  # the files of the change under review; None: every file
    unshown: tuple[str, ...] = ()  # those of them whose lines no reviewer was shown: binary files, submodules
    run: str = ""
    stage: str = ""  # the parallel stage, or the only one
    visit: int = 0
    coverage: Coverage = Coverage()
    entries: tuple[ItemOutcome, ...] = ()
    finding_ids: tuple[str, ...] = ()  # raised, reported again or confirmed in it
    patterns: tuple[Pattern, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class PassRecorded(FindingValue):
    """A pass. It precedes the events of its findings."""

    kind: Literal["assessed"] = "assessed"
    at: str  # ISO 8601
    assessment: Pass


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class AnswerOwed(FindingValue):
    """A reviewer or tool was asked and could not answer: nothing is complete until it does."""

    kind: Literal["owed"] = "owed"
    at: str
    look: Look
    run: str = ""
    branch: str = ""
    required: tuple[str, ...] = ()  # who has to look at all of the target that it was asked about


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class FindingRaised(FindingValue):
    """A new finding."""

    kind: Literal["raised"] = "raised"
    at: str
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class FindingChanged(FindingValue):
    """Somebody said something about a finding. `fields` has the new values of what that changes."""

    kind: Literal["changed"] = "changed"
    id: FindingId
    change: Change
    fields: dict[str, Any] = Field(default_factory=dict)

    @property
    def at(self) -> str:
        """When."""
        return self.change.at


LedgerEvent = Annotated[PassRecorded | AnswerOwed | FindingRaised | FindingChanged, Field(discriminator="kind")]
_adapter: TypeAdapter[LedgerEvent] = TypeAdapter(LedgerEvent)


def iso(at: float) -> str:
    """Return a moment, in seconds since 1970, as events write it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def encode_event(event: LedgerEvent) -> str:
    """Return an event as one line of JSON, without fields at their default."""
    return f'{{"kind":"{event.kind}",{event.model_dump_json(exclude_defaults=True)[1:]}'


def decode_event(line: str) -> LedgerEvent:
    """Return the event in a line of JSON; raise ValueError if the line is not one."""
    return _adapter.validate_json(line)
