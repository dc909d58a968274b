"""One assessment: who was asked, what became of every item they returned, and what it came to."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from pipeline.findings.claims import Returned
from pipeline.findings.model import PassId
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
class Entry(FindingValue):
    """The fate of one raw item."""

    input_id: str
    disposition: Disposition
    reason: str
    into: str = ""  # the input or finding it became part of
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Coverage(FindingValue):
    """Who answered, and what they could not say."""

    reviewers: dict[str, Returned] = Field(default_factory=dict)
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
    def silent(self) -> dict[str, Returned]:
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
    entries: tuple[Entry, ...] = ()
    finding_ids: tuple[str, ...] = ()  # those raised or seen in it
    patterns: tuple[Pattern, ...] = ()
    reviewer_verdicts: tuple[ReviewerVerdict, ...] = ()
    ext: dict[str, Any] = Field(default_factory=dict)
