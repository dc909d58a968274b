"""What a walk asks of whoever drives it: values, and nothing is done by making one."""

from dataclasses import dataclass

from pipeline.findings.model import Finding, FindingId
from pipeline.findings.walk.block import Block
from pipeline.findings.walk.menu import Option
from pipeline.findings.walk.report import WalkReport


@dataclass(frozen=True, slots=True)
class Question:
    """Something for a person to decide: what is shown above it, the question, and what can be chosen."""

    stem: str
    options: tuple[Option, ...]
    above: Block | str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A ticket is to be made on a tracker; `filed` takes what came of it."""

    finding: Finding
    tracker: str


@dataclass(frozen=True, slots=True)
class FallBack:
    """A tracker is to be given up for this session; `fell_back` takes what is known of the others."""

    reason: str


@dataclass(frozen=True, slots=True)
class Validate:
    """Somebody is to look whether these hold; `validated` takes what they say."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One fixer is to make all accepted fixes; `dispatched` takes what came of it."""

    ids: tuple[FindingId, ...]


@dataclass(frozen=True, slots=True)
class WalkDone:
    """Nothing is left to ask or do."""

    report: WalkReport


Next = Question | File | FallBack | Validate | Dispatch | WalkDone
