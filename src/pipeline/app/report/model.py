"""What a page about a run tells. Texts are as they were recorded: whoever writes a page makes them harmless."""

from dataclasses import dataclass

from pipeline.app.history import StageTotals


@dataclass(frozen=True, slots=True)
class PathStep:
    """One visit on the path of a run, or, without a stage, something that happened between two."""

    stage: str
    said: str
    visit: int = 0
    status: str = ""
    source: str = ""
    seconds: float | None = None  # None while it goes on
    attempts: int = 1
    attempt: int = 0  # its number, for an attempt before the visit's last
    within: str = ""  # the parallel stage, for a branch
    to: str = ""


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """A round of reviews in numbers of findings."""

    number: int
    outstanding: int
    new: int
    resolved: int
    carried: int
    regressed: int
    late: int
    caused_by_fix: int


@dataclass(frozen=True, slots=True)
class FindingRow:
    """A finding with what became of it."""

    number: int
    title: str
    severity: str
    state: str
    must: bool
    place: str
    history: tuple[str, ...]
    attempts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewSummary:
    """What the ledger has about a run."""

    rounds: tuple[RoundCounts, ...] = ()
    findings: tuple[FindingRow, ...] = ()  # the ones that count first, the gravest of them first


@dataclass(frozen=True, slots=True)
class DiffSize:
    """The size of a change."""

    files: int
    added: int
    removed: int
    so_far: bool = False  # up to the files as they are now: a run in the checkout has no end of its own


@dataclass(frozen=True, slots=True)
class RunReport:
    """All that a page tells about a run."""

    run_id: str
    workflow: str
    file: str
    goal: str
    status: str
    reason: str
    until: float | None  # when a used-up quota resets
    resume: str  # the command that continues the run; empty when there is nothing to continue
    began: float
    ended: float  # of the last thing on record
    seconds: float  # spent running, not waiting
    tokens: int
    cost_usd: float
    steps: tuple[PathStep, ...]
    stages: tuple[StageTotals, ...]
    outstanding: tuple[tuple[str, int, str], ...]  # stage reports: the stage, its visit, and what it reported
    notes: tuple[tuple[str, int, str], ...]  # what was put back in view files, by stage and visit, newest last
    reviewed: ReviewSummary
    diff: DiffSize | None  # None where nothing tells
