"""What the code looks like to a pass that is over: which places it covered, and since when each line is as it is."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from pipeline.findings.events import (
    Coverage,
    FindingRaised,
    FixAttempted,
    LedgerEvent,
    LinkAdded,
    NotReported,
    Pass,
    ReportedAgain,
    StateChanged,
)
from pipeline.findings.fingerprints import (
    AROUND,
    TEXT,
    VERDICT,
    SourceFile,
    evidence_digest,
    finding_id,
    fingerprints,
    line_count,
    lines_unchanged,
    norm_quote,
    read_source,
    same_evidence,
    text_removed,
)
from pipeline.findings.ledger import Ledger, joined_to
from pipeline.findings.linemap import FindingSources, LineMap
from pipeline.findings.match import Match, Matching, quotes_no_code
from pipeline.findings.model import (
    MAY_BE,
    UNREADABLE,
    Actor,
    AutofixClass,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Gate,
    Link,
    Location,
    Observed,
    Severity,
    Strength,
)

_LONGEST = 400  # lines of a finding that are looked at


@dataclass(frozen=True, slots=True)
class ReviewScope:
    """Where a pass looked, and who answered in it. What is not known of either is taken for all."""

    paths: frozenset[str] | None
    answered: frozenset[str] | None

    @classmethod
    def by(cls, coverage: Coverage) -> "ReviewScope":
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
class CodeState:
    """The repository at the end of a pass. Files are read when they are asked about, each once."""

    sources: FindingSources
    maps: Mapping[str, LineMap] = field(default_factory=dict)  # from the commit of each pass to now
    fixes: tuple[Fix, ...] = ()  # oldest first
    _pages: dict[str, SourceFile | None] = field(default_factory=dict)
    _places: dict[str, ReviewScope] = field(default_factory=dict)
    _written: dict[tuple[str, int], FindingId] | None = None

    def page(self, path: str) -> SourceFile | None:
        """A file as it is now."""
        if path not in self._pages:
            self._pages[path] = read_source(self.sources, path)
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

    def _covered(self, earlier: Pass) -> ReviewScope:
        if earlier.id not in self._places:
            self._places[earlier.id] = ReviewScope.by(earlier.coverage)
        return self._places[earlier.id]


def same_work(one: Pass, other: Pass) -> bool:
    """Whether two passes are about the same task, or belong to the same run."""
    return bool(one.task and one.task == other.task) or bool(one.run and one.run == other.run)


def _lines(place: Location) -> range:
    start = place.start or 0
    return range(start, min(max(start, place.end or start), start + _LONGEST) + 1)


CAUSED = "caused_by"


_TOLD = (
    *("title", "plain_title", "impact", "fix", "reproduction", "min_fix_scope", "regression_tests", "scope"),
    *("category", "severity", "confidence", "autofix_class", "owner", "agreement", "pre_existing"),
)
_RAISED = ("requires_verification", "system_breaking")  # one report that says so is enough
_WHERE = frozenset({"fingerprints", "aliases", "sources", "locations"})


def placed(known: Finding, draft: Finding, page: SourceFile | None) -> Finding:
    """A draft moved to the known finding's own line where that is near: a vague report must not make it drift."""
    text, place = known.fingerprints.get(TEXT, ""), draft.location
    if page is None or place is None or place.start is None or text in ("", draft.fingerprints.get(TEXT)):
        return draft
    away, line = min(((abs(line - place.start), line) for line in page.places.get(text, ())), default=(AROUND + 1, 0))
    if away > AROUND:
        return draft
    size = line_count(known.location)
    there = Location(path=place.path, start=line, end=line + size - 1 if size > 1 else None, symbol=place.symbol)
    moved = replace(draft, locations=(there, *draft.locations[1:]))
    return replace(moved, fingerprints=fingerprints(moved, page))


def changes(known: Finding, draft: Finding, strength: Strength) -> dict[str, Any]:
    """The fields of a known finding that a report tells differently, as JSON values."""
    new = where(known, draft, strength) | (_worse(known, draft) if strength is Strength.FUZZY else _told(known, draft))
    return _differing(known, new)


def where_only(known: Finding, draft: Finding, strength: Strength) -> dict[str, Any]:
    """What a report changes in a finding that somebody dismissed: where it is, not what it says."""
    return _differing(known, where(known, draft, strength))


def where(known: Finding, draft: Finding, strength: Strength) -> dict[str, Any]:
    """Places, evidence and names after a report."""
    names = [draft.fingerprints.get(VERDICT, "")]
    if strength is not Strength.FUZZY:  # a guess must not become a name
        names += [*draft.aliases, "" if quotes_no_code(draft) else draft.signature]
    return {
        "locations": draft.locations or known.locations,
        "evidence": _grown(known.evidence, draft.evidence),
        "fingerprints": {**known.fingerprints, **draft.fingerprints},
        "aliases": _union(known.aliases, (name for name in names if name != known.signature)),
        "sources": _union(known.sources, draft.sources),
    }


def observed(known: Finding, changed: Iterable[str], draft: Finding) -> Observed:
    """How a finding that was reported again stands."""
    was, now = known.location, draft.location or known.location
    if was and now and (was.path, was.start) != (now.path, now.start):
        return Observed.MOVED
    return Observed.UPDATED if set(changed) - _WHERE else Observed.UNCHANGED


def _told(known: Finding, draft: Finding) -> dict[str, Any]:
    told = {name: value for name in _TOLD if (value := getattr(draft, name)) not in (None, "", ())}
    raised = {name: True for name in _RAISED if getattr(draft, name)}
    gate = {"gate": draft.gate} if known.gate.by == draft.gate.by else {}
    if known.unreadable and not draft.unreadable:
        return told | raised | gate | {"ext": {name: value for name, value in known.ext.items() if name != UNREADABLE}}
    return told | raised | gate | _milder(known, draft)


def _milder(known: Finding, draft: Finding) -> dict[str, Any]:
    """What a report may not make milder: a rating that another source gave stands until that source takes it back.

    Only a person lowers what endangers the whole system.
    """
    if known.system_breaking and draft.severity.rank > known.severity.rank:
        return {"severity": known.severity, "gate": known.gate}
    last = {vote.reviewer: vote for vote in known.votes}
    others = [vote for name, vote in last.items() if name not in draft.sources]
    if not others:
        return {}
    worst = min(others, key=lambda vote: vote.severity.rank)
    rated = {"severity": known.severity, "confidence": known.confidence}
    kept = rated if draft.severity.rank > known.severity.rank and worst.severity.rank <= known.severity.rank else {}
    must = {"gate": known.gate} if known.gate.value is Gate.MUST else {}
    advice = {"autofix_class": known.autofix_class} if draft.autofix_class is AutofixClass.ADVISORY else {}
    return kept | must | advice | {"pre_existing": known.pre_existing and draft.pre_existing}


def _worse(known: Finding, draft: Finding) -> dict[str, Any]:
    return {"severity": draft.severity} if draft.severity.rank < known.severity.rank else {}


def _differing(known: Finding, new: dict[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in new.items() if value != getattr(known, name)}
    if "fingerprints" in changed:  # of these only those that are others: the rest stays
        prints = changed["fingerprints"].items()
        changed["fingerprints"] = {name: value for name, value in prints if known.fingerprints.get(name) != value}
    return replace(known, **changed).model_dump(mode="json", include=set(changed))


def _grown(known: tuple[Evidence, ...], new: tuple[Evidence, ...]) -> tuple[Evidence, ...]:
    """All evidence; that which was there before is where it is now."""
    found = {_key(item): item for item in known}
    found.update({_key(item): item for item in new})
    return tuple(found.values())


def _key(evidence: Evidence) -> tuple[str, str, str]:
    return evidence.path, evidence.symbol, norm_quote(evidence.quote or evidence.raw) or evidence.raw


def _union(old: tuple[str, ...], new: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *(name for name in new if name))))


ABSENT = 2  # passes without a word, after which a look at a finding whose text is gone is proposed


@dataclass(frozen=True, slots=True)
class Upshot:
    """The events of a pass, and what its drafts came to."""

    events: tuple[LedgerEvent, ...]
    ids: tuple[str, ...]  # the finding of each draft; nothing for one that was withheld and is not known
    suppressed: Mapping[int, str]  # drafts of dismissed findings, and why they are not shown


def upshot(
    ledger: Ledger,
    matching: Matching,
    drafts: Sequence[Finding],
    passed: Pass,
    at: str,
    ground: CodeState,
    withheld: Collection[int] = (),
) -> Upshot:
    """The events that a pass asks for; `withheld` drafts, as those below a gate, raise nothing but count as seen."""
    work = _Work(ledger, passed, at, ground)
    for one in matching.matches:
        work.ids[one.draft] = one.known
    shown = [one for one in matching.matches if one.draft not in withheld]
    work.see(shown, drafts)
    supposed = {one.draft for one in matching.doubtful}
    for index in matching.new:
        if index not in withheld:
            work.raise_(index, drafts[index], blame=index not in supposed)
    for one in matching.doubtful:
        if one.draft not in withheld:
            work.suppose(one)
    mentioned = {ledger.leader(one.known) for one in (*matching.matches, *matching.doubtful)}
    for id in matching.unseen:
        if id not in mentioned:
            work.miss(ledger.findings[id])
    ids = tuple(work.ids.get(index, "") for index in range(len(drafts)))
    return Upshot(tuple(work.events), ids, work.suppressed)


class _Work:
    """The events of one pass, as they come up."""

    def __init__(self, ledger: Ledger, passed: Pass, at: str, ground: CodeState) -> None:
        self.ledger, self.passed, self.at, self.ground = ledger, passed, at, ground
        self.covered = ReviewScope.by(passed.coverage)
        self.events: list[LedgerEvent] = []
        self.ids: dict[int, str] = {}
        self.taken: set[str] = set(ledger.findings)
        self.suppressed: dict[int, str] = {}

    def see(self, matches: Sequence[Match], drafts: Sequence[Finding]) -> None:
        """Known findings that were reported again; one merged into another speaks for that, unless it speaks too."""
        direct = {one.known for one in matches}
        for one in matches:
            known, draft = self.ledger.findings[one.known], drafts[one.draft]
            if not joined_to(known):
                self._see(known, draft, one)
                continue
            self.events.append(self._seen(known, draft, one.strength))
            whole = self.ledger.leader(known.id)
            self.ids[one.draft] = whole
            if whole not in direct:
                direct.add(whole)
                self._see_whole(self.ledger.findings[whole], draft, one)

    def raise_(self, index: int, draft: Finding, *, blame: bool) -> None:
        """A finding that nobody knew."""
        id = finding_id(draft.signature, self.taken)
        self.taken.add(id)
        self.ids[index] = id
        names = (*draft.aliases, draft.fingerprints.get(VERDICT, ""))
        update: dict[str, Any] = {
            "id": id,
            "pass_id": self.passed.id,
            "task": draft.task or self.passed.task,
            "aliases": tuple(dict.fromkeys(name for name in names if name)),
            "observed": Observed.NEW,
            "late": self.ground.is_late(draft.location, self.passed, self.ledger),
            "created_at": self.at,
            "updated_at": self.at,
        }
        self.events.append(FindingRaised(at=self.at, finding=replace(draft, **update)))
        if blame:  # what may be a known finding was not made by its fix
            self._blame(id, draft, "it is on lines that this fix wrote")

    def suppose(self, one: Match) -> None:
        """A new finding that may be a known one."""
        link = Link(kind=MAY_BE, to=self.ledger.leader(one.known), note=f"{one.strength} match")
        self.events.append(LinkAdded(at=self.at, id=FindingId(self.ids[one.draft]), link=link))

    def miss(self, known: Finding) -> None:
        """A known finding that nobody reported, where somebody would have."""
        path = self.ground.path_now(known)
        if known.state is FindingState.VERIFIED_FIXED or joined_to(known):
            return
        if not self.covered.would_tell(known, path):
            return
        self.events.append(NotReported(at=self.at, id=known.id, pass_id=self.passed.id))
        if not known.state.dismissed:
            self._doubt(known, path)

    def _doubt(self, known: Finding, path: str) -> None:
        """An open finding whose lines are no longer what they were may be fixed; somebody has to look.

        Of one that could not be read the source has now given a whole answer: a tool's is proof, a reviewer's a claim.
        """
        if known.unreadable and known.state.active:
            tool = any(vote.tool for vote in known.votes)
            note = f"{', '.join(known.sources)} gave a whole answer, and it is not in it"
            self._turned(known, FindingState.VERIFIED_FIXED if tool else FindingState.FIX_CLAIMED, note)
            return
        page = self.ground.page(path)
        proposed = text_removed(known, page) and known.absent_passes + 1 >= ABSENT
        if known.state.active and lines_unchanged(known, page) is False:
            note = "its lines were changed, and nobody reported it again"
            self._turned(known, FindingState.FIX_CLAIMED, f"{note}{'; propose verify' if proposed else ''}")
        elif known.state is FindingState.FIX_CLAIMED and proposed and known.absent_passes + 1 == ABSENT:
            self._turned(known, FindingState.FIX_CLAIMED, "absent twice and its text is gone; propose verify")

    def _see(self, known: Finding, draft: Finding, one: Match) -> None:
        if one.strength is Strength.FUZZY and draft.location:
            draft = placed(known, draft, self.ground.page(draft.location.path))
        held = known.state.dismissed and not _reopening(known, draft, one.strength, self.at)
        self.events.append(self._seen(known, draft, one.strength, held=held))
        self._turn(known, draft, one)

    def _see_whole(self, known: Finding, draft: Finding, one: Match) -> None:
        """A finding that a part of it speaks for: it is there, and what it says stays."""
        self.events.append(
            ReportedAgain(
                at=self.at,
                id=known.id,
                pass_id=self.passed.id,
                observed=Observed.UNCHANGED,
                strength=one.strength,
                note=f"seen as {one.known}",
            )
        )
        self._turn(known, draft, one)

    def _seen(self, known: Finding, draft: Finding, strength: Strength, *, held: bool = False) -> ReportedAgain:
        changed = where_only(known, draft, strength) if held else changes(known, draft, strength)
        return ReportedAgain(
            at=self.at,
            id=known.id,
            pass_id=self.passed.id,
            observed=observed(known, changed, draft),
            strength=strength,
            votes=draft.votes,
            changes=changed,
            note=f"re-raised, suppressed: {known.state}" if held else "",
        )

    def _turn(self, known: Finding, draft: Finding, one: Match) -> None:
        """What a finding becomes by being there again; an open one stays open."""
        if known.unreadable and known.state.active and not draft.unreadable:
            self._turned(known, draft.state, "it was reported again, and can be read now")
        match known.state:
            case FindingState.FIX_CLAIMED:
                self._turned(known, FindingState.REOPENED, "it was said to be fixed, and it was reported again")
                tried = FixAttempt(run=self.passed.run, round=self.passed.round, outcome="not_fixed")
                who = known.attempts[-1].by if known.attempts else ""
                self.events.append(FixAttempted(at=self.at, id=known.id, attempt=replace(tried, by=who)))
            case FindingState.VERIFIED_FIXED:
                self._turned(known, FindingState.REOPENED, "regression: it was fixed, and it is back")
                self._blame(known.id, draft, "this fix wrote its lines")
            case FindingState.FALSE_POSITIVE | FindingState.WONT_FIX:
                self._reconsider(known, draft, one)

    def _reconsider(self, known: Finding, draft: Finding, one: Match) -> None:
        reopening = _reopening(known, draft, one.strength, self.at)
        if reopening is None:
            self.suppressed[one.draft] = f"known as {known.id} and dismissed: {_reason(known)}"
        else:
            self._turned(known, *reopening)

    def _turned(self, known: Finding, state: FindingState, note: str) -> None:
        turned = StateChanged(
            at=self.at, id=known.id, state=state, by=Actor.ORCHESTRATOR, note=note, pass_id=self.passed.id
        )
        self.events.append(turned)

    def _blame(self, id: FindingId, draft: Finding, note: str) -> None:
        cause = self.ground.fixed_here(draft.location)
        known = self.ledger.findings.get(id)
        linked = known is not None and any((link.kind, link.to) == (CAUSED, cause) for link in known.links)
        if cause is not None and cause != id and not linked:
            self.events.append(LinkAdded(at=self.at, id=id, link=Link(kind=CAUSED, to=cause, note=note)))


def _reopening(known: Finding, draft: Finding, strength: Strength, at: str) -> tuple[FindingState, str] | None:
    """Why a dismissal does not cover a new report, and what the finding becomes; None when it does."""
    return next(_reasons(known, draft, strength, at), None)


def _reasons(known: Finding, draft: Finding, strength: Strength, at: str) -> Iterator[tuple[FindingState, str]]:
    held = known.suppression
    if held and held.expires and at[: len(held.expires)] > held.expires:
        yield FindingState.REOPENED, f"its dismissal held until {held.expires}"
    if draft.system_breaking and not known.system_breaking:
        yield FindingState.REOPENED, "it was dismissed, and now endangers the whole system"
    if draft.severity.rank < known.severity.rank:
        yield FindingState.REOPENED, f"it was dismissed as {known.severity} and is now rated {draft.severity}"
    if not same_evidence((held and held.digest) or evidence_digest(known), draft):
        yield FindingState.REOPENED, "the code that was dismissed has changed"
    if strength is Strength.FUZZY and draft.severity.rank <= Severity.HIGH.rank:
        yield (
            FindingState.UNCERTAIN,
            f"ask again: it is probably the one that was dismissed as {known.state}, but not surely",
        )


def _reason(known: Finding) -> str:
    return (known.suppression and known.suppression.reason) or str(known.state)
