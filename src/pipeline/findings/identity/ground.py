"""What the code looks like to a pass that is over: which places it covered, and since when each line is as it is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from pipeline.findings.identity.history import FindingSources
from pipeline.findings.identity.linemap import LineMap
from pipeline.findings.identity.texts import SourceFile, page_of
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, Location
from pipeline.findings.passes import Coverage, Pass

_LONGEST = 400  # lines of a finding that are looked at


@dataclass(frozen=True, slots=True)
class Covered:
    """Where a pass looked, and who answered in it. What is not known of either is taken for all."""

    paths: frozenset[str] | None
    answered: frozenset[str] | None

    @classmethod
    def by(cls, coverage: Coverage) -> "Covered":
        """What a pass says of itself."""
        names = frozenset(name for name, status in coverage.reviewers.items() if status.answered)
        paths = None if coverage.paths is None else frozenset(path.rstrip("/") for path in coverage.paths)
        return cls(paths, names if coverage.reviewers else None)

    def has(self, path: str) -> bool:
        """Whether a file, or a folder that it is in, was looked at by anybody who answered."""
        if self.answered is not None and not self.answered:
            return False
        above = (str(folder) for folder in PurePosixPath(path).parents)
        return self.paths is None or path in self.paths or any(folder in self.paths for folder in above)

    def would_tell(self, finding: Finding, path: str) -> bool:
        """Whether the pass would have reported a finding again: it looked there, and one who found it answered.

        Where a tool reported it, every such tool must have answered: a silent reviewer says nothing about a tool.
        """
        then = finding.location.path if finding.location else ""
        if not (self.has(path or then) or self.has(then)):
            return False
        if self.answered is None or not finding.sources:
            return True
        tools = {vote.reviewer for vote in finding.votes if vote.tool}
        return tools <= self.answered if tools else not self.answered.isdisjoint(finding.sources)


@dataclass(frozen=True, slots=True)
class Fix:
    """What a try to fix a finding wrote: lines of the files as they are now."""

    finding: FindingId
    lines: frozenset[tuple[str, int]]


@dataclass(slots=True)
class Ground:
    """The repository at the end of a pass. Files are read when they are asked about, each once."""

    sources: FindingSources
    maps: Mapping[str, LineMap] = field(default_factory=dict)  # from the commit of each pass to now
    fixes: tuple[Fix, ...] = ()  # oldest first
    _pages: dict[str, SourceFile | None] = field(default_factory=dict)
    _places: dict[str, Covered] = field(default_factory=dict)
    _written: dict[tuple[str, int], FindingId] | None = None

    def page(self, path: str) -> SourceFile | None:
        """A file as it is now."""
        if path not in self._pages:
            self._pages[path] = page_of(self.sources, path)
        return self._pages[path]

    def path_now(self, finding: Finding) -> str:
        """What the file of a known finding is called now; nothing when it has none or it was deleted."""
        lines = self.maps.get(finding.pass_id)
        path = finding.location.path if finding.location else ""
        return lines.path(path) if lines and path else path

    def fixed_here(self, place: Location | None) -> FindingId | None:
        """The finding whose fix wrote some of these lines, the latest when several did."""
        if self._written is None:
            self._written = {spot: fix.finding for fix in self.fixes for spot in fix.lines}
        spots = ((place.path, line) for line in _lines(place)) if place else ()
        return next((self._written[spot] for spot in spots if spot in self._written), None)

    def is_late(self, place: Location | None, passed: Pass, ledger: Ledger) -> bool:
        """Whether an earlier pass of the same work covered these very lines and said nothing."""
        if place is None or place.start is None:
            return False
        earlier = (one for one in ledger.passes.values() if one.id != passed.id and same_work(one, passed))
        return any(self._was_there(place, one, passed) for one in earlier)

    def _was_there(self, place: Location, earlier: Pass, passed: Pass) -> bool:
        lines = self.maps.get(earlier.id)
        if lines is None and earlier.head and earlier.head == passed.head:
            lines = LineMap()
        before = lines.origin(place.path) if lines else ""
        if lines is None or not before or not self._covered(earlier).has(before):
            return False
        start = place.start or 0
        return lines.unchanged(place.path, start, max(start, place.end or start))

    def _covered(self, earlier: Pass) -> Covered:
        if earlier.id not in self._places:
            self._places[earlier.id] = Covered.by(earlier.coverage)
        return self._places[earlier.id]


def same_work(one: Pass, other: Pass) -> bool:
    """Whether two passes are about the same task, or belong to the same run."""
    return bool(one.task and one.task == other.task) or bool(one.run and one.run == other.run)


def _lines(place: Location) -> range:
    start = place.start or 0
    return range(start, min(max(start, place.end or start), start + _LONGEST) + 1)
