"""What a pass makes of findings once it is known which are which: the ledger events it asks for.

A finding is fixed when all who reported it looked again and no longer do: a tool in any complete run, a reviewer in the
same run and after code was written. Any other silence proves nothing. Nothing is dismissed, reopened or fixed by a
doubtful match: such a draft is a new finding that names the one it may be.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
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
    VotesWithdrawn,
)
from pipeline.findings.fingerprints import (
    OURS,
    VERDICT,
    FindingSources,
    SourceFile,
    evidence_digest,
    finding_id,
    lines_unchanged,
    norm_quote,
    read_source,
    same_evidence,
    text_removed,
)
from pipeline.findings.ledger import DUPLICATE_OF, Ledger, joined_to
from pipeline.findings.linemap import LineMap
from pipeline.findings.match import Match, Matching, quotes_no_code
from pipeline.findings.merge import Decisions, promote, rank
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
    PassId,
    Vote,
)

CAUSED = "caused_by"
CLUSTERED = "clustered"  # the note of a link that a pass made
ABSENT = 2  # passes without a report, after which a finding whose text is gone is proposed for verification
_MAX_LINES = 400  # lines of a finding that are looked at
_REPORTED_FIELDS = (
    *("title", "plain_title", "impact", "fix", "reproduction", "min_fix_scope", "regression_tests", "scope"),
    "why_it_works",
    *("category", "severity", "confidence", "autofix_class", "owner", "agreement", "pre_existing"),
)
_FLAGS = ("requires_verification", "system_breaking")  # one report that says so is enough
Checked = Mapping[str, frozenset[str] | None]
"""By reviewer, the tool's ids of what it checked; None is everything."""
_IDENTITY = frozenset({"fingerprints", "aliases", "sources", "locations"})


def dismissed_drafts(ledger: Ledger, matches: Iterable[Match], drafts: Sequence[Finding], at: str) -> dict[int, str]:
    """The drafts of findings whose dismissal still holds, and why they are not shown."""
    reopened, covered = set[FindingId](), dict[int, FindingId]()
    for one in matches:
        known = ledger.findings[one.known]
        whole = ledger.findings[ledger.leader(known.id)]
        if not whole.state.dismissed:
            continue
        if _reopening_reason(whole, known, drafts[one.draft], at):
            reopened.add(whole.id)
        covered[one.draft] = whole.id
    held = {index: ledger.findings[id] for index, id in covered.items() if id not in reopened}
    return {
        index: f"known as {known.id} and dismissed: {(known.suppression and known.suppression.reason) or known.state}"
        for index, known in held.items()
    }


def transitions(
    ledger: Ledger,
    matching: Matching,
    decisions: Decisions,
    passed: Pass,
    at: str,
    code: "CodeState",
    checked: Checked = MappingProxyType({}),
) -> tuple[list[LedgerEvent], dict[int, Finding]]:
    """The events of a pass, and by draft its finding as the pass reports it: of a cluster the leader.

    A draft below the gate raises nothing and changes nothing, but what it is about counts as reported.
    """
    work = _PassEvents(ledger, decisions, passed, at, code, checked)
    work.report_again(matching.matches)
    doubtful = {one.draft: one for one in matching.doubtful}
    work.raise_new([index for index in matching.new if decisions.is_kept(index)], doubtful)
    mentioned = {ledger.leader(one.known) for one in (*matching.matches, *matching.doubtful)}
    for id in matching.unseen:
        if id not in mentioned:
            work.not_reported(ledger.findings[id])
    return work.events, work.found


class _PassEvents:
    """The events of one pass, as they come up."""

    def __init__(
        self, ledger: Ledger, decisions: Decisions, passed: Pass, at: str, code: "CodeState", checked: Checked
    ) -> None:
        self.ledger, self.decisions, self.passed, self.at, self.code = ledger, decisions, passed, at, code
        self.scope, self.checked = ReviewScope.of(passed.coverage), checked
        self.clean = not any(decisions.is_kept(index) for index in range(len(decisions.drafts)))
        self.events: list[LedgerEvent] = []
        self.found: dict[int, Finding] = {}  # by draft; of a cluster the leader

    def report_again(self, matches: Sequence[Match]) -> None:
        """Record known findings that were reported again; a member reports its leader if that was not."""
        kept = [one for one in matches if self.decisions.is_kept(one.draft)]
        direct = {one.known for one in kept}
        for one in matches:
            self.found[one.draft] = replace(self.decisions.whole(one.draft), id=self.ledger.leader(one.known))
        for one in kept:
            known, whole = self.ledger.findings[one.known], self.ledger.findings[self.ledger.leader(one.known)]
            own, draft = self.decisions.drafts[one.draft], self.decisions.whole(one.draft)
            dismissed = one.draft in self.decisions.dismissed
            if known is not whole:
                self._reported(known, _updates(known, own), one, own.votes)
                if whole.id in direct:
                    continue
                direct.add(whole.id)  # only a member was reported: the leader's text stays, and it becomes no milder
                worse = draft.severity.rank < whole.severity.rank and not dismissed
                changes = {"severity": draft.severity, "gate": draft.gate} if worse else {}
                self._reported(whole, changes, one, note=f"seen as {known.id}")
            elif dismissed:
                note = f"re-raised, suppressed: {known.state}"
                self._reported(known, _identity(known, draft), one, draft.votes, note)
            else:
                again = replace(known, votes=(*known.votes, *draft.votes)).failures
                self._reported(known, _updates(known, draft), one, draft.votes, again)
            if not dismissed:
                self._change_state(whole, known, draft)

    def raise_new(self, new: Sequence[int], doubtful: Mapping[int, Match]) -> None:
        """Raise new findings: leaders first, then the members of clusters with their links."""
        taken = set[str](self.ledger.findings)
        leaders = self.decisions.leaders
        for index in sorted(new, key=lambda index: (index in leaders, rank(self.decisions.drafts[index]))):
            draft = self.decisions.clusters.get(index, self.decisions.drafts[index])
            id = finding_id(draft.signature, taken)
            taken.add(id)
            raised = replace(
                draft,
                id=id,
                pass_id=self.passed.id,
                aliases=_union((), (draft.fingerprints.get(VERDICT, ""),)),
                late=self.code.is_late(draft.location, self.passed, self.ledger),
                created_at=self.at,
                updated_at=self.at,
            )
            self.events.append(FindingRaised(at=self.at, finding=raised))
            self.found[index] = self.found[leaders[index]] if index in leaders else raised
            if index in leaders:
                self._link(id, DUPLICATE_OF, self.found[index].id, CLUSTERED)
            if index not in doubtful:  # what may be a known finding was not made by its fix
                self._blame(id, draft, "it is on lines that this fix wrote")
            elif (may_be := self.ledger.leader(doubtful[index].known)) != self.found[index].id:
                self._link(id, MAY_BE, may_be, f"{doubtful[index].strength} match")

    def not_reported(self, known: Finding) -> None:
        """Record that a known finding was not reported by a pass that would have reported it.

        It is fixed if everybody who reported it withdraws it. Else a fix is claimed for one whose lines have changed,
        and a look proposed at one that is absent and gone.
        """
        path = self.code.path_now(known)
        if known.state is FindingState.VERIFIED_FIXED or joined_to(known) or not self.scope.looked_at(known, path):
            return
        # Reviewers are asked not to raise what was dismissed: their silence takes nothing back.
        sources = () if known.state.dismissed else known.sources
        withdrawn = tuple(name for name in sources if self._withdraws(name, known))
        closed = bool(withdrawn) and len(withdrawn) == len(known.sources) and known.state.needs_attention
        if withdrawn and not closed:
            note = self._silence(withdrawn)
            event = VotesWithdrawn(at=self.at, id=known.id, pass_id=self.passed.id, reviewers=withdrawn, note=note)
            self.events.append(event)
        if not closed and not self.scope.expects(known, path):
            return
        self.events.append(NotReported(at=self.at, id=known.id, pass_id=self.passed.id))
        if closed:
            self._set_state(known, FindingState.VERIFIED_FIXED, self._silence(withdrawn), Actor.REVALIDATE)
            return
        if known.unreadable and known.state.active:
            # Its source has now given a whole answer: that of a tool is proof, that of a reviewer a claim.
            tool = any(vote.tool for vote in known.votes)
            state = FindingState.VERIFIED_FIXED if tool else FindingState.FIX_CLAIMED
            self._set_state(known, state, f"{', '.join(known.sources)} gave a whole answer, and it is not in it")
            return
        source, absent = self.code.page(path), known.absent_passes + 1
        proposed = absent >= ABSENT and text_removed(known, source)
        if known.state.active and lines_unchanged(known, source) is False:
            note = "its lines were changed, and nobody reported it again"
            self._set_state(known, FindingState.FIX_CLAIMED, f"{note}{'; propose verify' if proposed else ''}")
        elif known.state is FindingState.FIX_CLAIMED and proposed and absent == ABSENT:
            note = "absent twice and its text is gone; propose verify"
            self._set_state(known, FindingState.FIX_CLAIMED, note)

    def _withdraws(self, reviewer: str, known: Finding) -> bool:
        """Whether the silence of one who reported a finding takes that back.

        That of a tool does if it checked the same thing; that of a reviewer if it reported the finding in this run and
        code was written since. What a fixer disputes or says it did not fix needs a ruling.
        """
        if self.scope.answered is None or reviewer not in self.scope.answered:
            return False
        last = next((vote for vote in reversed(known.votes) if vote.reviewer == reviewer), None)
        if last and last.tool:
            ids = self.checked.get(reviewer)
            own = {value for name, value in known.fingerprints.items() if name not in OURS}
            return ids is None or (not ids.isdisjoint(own) if own else self.clean)
        seen = self.ledger.passes.get(PassId(last.pass_id)) if last else None
        if seen is None or not seen.run or seen.run != self.passed.run:
            return False
        unchanged = bool(seen.head) and (seen.head, seen.tree) == (self.passed.head, self.passed.tree)
        if not known.failing_stage and (unchanged or _is_unfixed(known)):
            return False
        return seen.coded is not None and self.passed.coded is not None and seen.coded < self.passed.coded

    def _silence(self, reviewers: Sequence[str]) -> str:
        """Why a finding is withdrawn."""
        if not self.passed.stage:
            return f"{', '.join(reviewers)} no longer reports it"
        result = "passed" if self.clean else "no longer reported it in"
        return f"{self.passed.stage} {result} visit {self.passed.visit}"

    def _reported(
        self, known: Finding, new: Mapping[str, Any], one: Match, votes: Iterable[Vote] = (), note: str = ""
    ) -> None:
        """Record a report of a known finding, with the votes and the values that it did not have."""
        changed = {name: value for name, value in new.items() if value != getattr(known, name)}
        was, now = known.location, replace(known, **changed).location
        if was and now and (was.path, was.start) != (now.path, now.start):
            observed = Observed.MOVED
        else:
            observed = Observed.UPDATED if changed.keys() - _IDENTITY else Observed.UNCHANGED
        if "fingerprints" in changed:
            prints = new["fingerprints"].items()
            changed["fingerprints"] = {name: value for name, value in prints if known.fingerprints.get(name) != value}
        self.events.append(
            ReportedAgain(
                at=self.at,
                id=known.id,
                pass_id=self.passed.id,
                observed=observed,
                strength=one.strength,
                votes=tuple(vote for vote in votes if vote not in known.votes),
                changes=replace(known, **changed).model_dump(mode="json", include=set(changed)),
                note=note,
            )
        )

    def _change_state(self, known: Finding, reported: Finding, draft: Finding) -> None:
        """What a finding becomes by being reported again; an open one stays open."""
        if known.unreadable and known.state.active and not draft.unreadable:
            self._set_state(known, draft.state, "it was reported again, and can be read now")
        match known.state:
            case FindingState.FIX_CLAIMED:
                self._set_state(known, FindingState.REOPENED, "it was said to be fixed, and it was reported again")
                by = known.attempts[-1].by if known.attempts else ""
                attempt = FixAttempt(run=self.passed.run, round=self.passed.round, by=by, outcome="not_fixed")
                self.events.append(FixAttempted(at=self.at, id=known.id, attempt=attempt))
            case FindingState.VERIFIED_FIXED if known.failing_stage:  # perhaps for another reason
                self._set_state(known, FindingState.REOPENED, "it fails again")
            case FindingState.VERIFIED_FIXED:
                self._set_state(known, FindingState.REOPENED, "regression: it was fixed, and it is back")
                self._blame(known.id, draft, "this fix wrote its lines")
            case FindingState.FALSE_POSITIVE | FindingState.WONT_FIX:
                reason = _reopening_reason(known, reported, draft, self.at)
                self._set_state(known, FindingState.REOPENED, reason)

    def _set_state(self, known: Finding, state: FindingState, note: str, by: Actor = Actor.ORCHESTRATOR) -> None:
        pass_id = self.passed.id
        self.events.append(StateChanged(at=self.at, id=known.id, state=state, by=by, note=note, pass_id=pass_id))

    def _blame(self, id: FindingId, draft: Finding, note: str) -> None:
        """Link a finding to the one whose fix wrote its lines."""
        cause, known = self.code.fixed_here(draft.location), self.ledger.findings.get(id)
        linked = known is not None and any((link.kind, link.to) == (CAUSED, cause) for link in known.links)
        if cause is not None and cause != id and not linked:
            self._link(id, CAUSED, cause, note)

    def _link(self, id: FindingId, kind: str, to: str, note: str) -> None:
        self.events.append(LinkAdded(at=self.at, id=id, link=Link(kind=kind, to=to, note=note)))


def _is_unfixed(known: Finding) -> bool:
    """Whether the last one who worked on a finding says that it is wrong, or that it is not fixed."""
    tried = [attempt for attempt in known.attempts if attempt.by not in known.sources]
    return bool(tried) and tried[-1].outcome in ("wrong", "not_fixed")


def _reopening_reason(known: Finding, reported: Finding, draft: Finding, at: str) -> str:
    """Why a dismissal does not cover a new report; empty if it does.

    `reported` is the finding that the draft is: the dismissed one, or a member of its cluster.
    """
    dismissal = known.suppression
    if dismissal and dismissal.expires and at[: len(dismissal.expires)] > dismissal.expires:
        return f"its dismissal held until {dismissal.expires}"
    if draft.system_breaking and not known.system_breaking:
        return "it was dismissed, and now endangers the whole system"
    if draft.severity.rank < min(known.severity.rank, reported.severity.rank):
        return f"it was dismissed as {known.severity} and is now rated {draft.severity}"
    digest = dismissal.digest if dismissal and known is reported else ""
    if not same_evidence(digest or evidence_digest(reported), draft):
        return "the code that was dismissed has changed"
    return ""


# --- what a report changes in a known finding ------------------------------------------------------------------------


def _updates(known: Finding, draft: Finding) -> dict[str, Any]:
    """The fields of a known finding after a report. Silence erases nothing; evidence and names only grow."""
    fields = {name: value for name in _REPORTED_FIELDS if (value := getattr(draft, name)) not in (None, "", ())}
    fields |= {name: True for name in _FLAGS if getattr(draft, name)}
    fields |= {"gate": draft.gate} if known.gate.by == draft.gate.by else {}
    runs = {vote.run for vote in draft.votes} - {""}
    others = {vote.reviewer for vote in known.votes if vote.run in runs}.intersection(known.sources)
    agreeing = others.union(draft.sources)
    if runs and len(agreeing) > draft.agreement:  # with reviewers of other stages of the run
        fields["agreement"] = len(agreeing)
        fields |= {"confidence": promote(draft.confidence, len(agreeing))} if draft.agreement < 2 else {}
    if known.unreadable and not draft.unreadable:
        fields["ext"] = {name: value for name, value in known.ext.items() if name != UNREADABLE}
    else:
        fields |= _not_milder(known, draft)
    return _identity(known, draft) | fields


def _identity(known: Finding, draft: Finding) -> dict[str, Any]:
    """Locations, evidence and names after a report."""
    names = (draft.fingerprints.get(VERDICT, ""), "" if quotes_no_code(draft) else draft.signature)
    return {
        "locations": draft.locations or known.locations,
        "evidence": tuple({_evidence_key(item): item for item in (*known.evidence, *draft.evidence)}.values()),
        "fingerprints": {**known.fingerprints, **draft.fingerprints},
        "aliases": _union(known.aliases, (name for name in names if name != known.signature)),
        "sources": _union(known.sources, draft.sources),
    }


def _not_milder(known: Finding, draft: Finding) -> dict[str, Any]:
    """The fields that a report may not make milder: a rating is kept until its source takes it back.

    Only a person lowers what endangers the whole system.
    """
    if known.system_breaking and draft.severity.rank > known.severity.rank:
        return {"severity": known.severity, "gate": known.gate}
    last = {vote.reviewer: vote for vote in known.votes}
    others = [vote for name, vote in last.items() if name not in draft.sources]
    if not others:
        return {}
    kept: dict[str, Any] = {"pre_existing": known.pre_existing and draft.pre_existing}
    worst = min(vote.severity.rank for vote in others)
    if draft.severity.rank > known.severity.rank >= worst:
        kept |= {"severity": known.severity, "confidence": known.confidence}
    if known.gate.value is Gate.MUST:
        kept["gate"] = known.gate
    if draft.autofix_class is AutofixClass.ADVISORY:
        kept["autofix_class"] = known.autofix_class
    return kept


def _evidence_key(evidence: Evidence) -> tuple[str, str, str]:
    return evidence.path, evidence.symbol, norm_quote(evidence.quote or evidence.raw) or evidence.raw


def _union(old: tuple[str, ...], new: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *(name for name in new if name))))


# --- the code at the end of a pass -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReviewScope:
    """Which paths a pass covered, and who answered in it; None is all."""

    paths: frozenset[str] | None
    answered: frozenset[str] | None

    @classmethod
    def of(cls, coverage: Coverage) -> "ReviewScope":
        """The scope that a pass gives itself."""
        names = frozenset(name for name, status in coverage.reviewers.items() if status.answered)
        paths = None if coverage.paths is None else frozenset(path.rstrip("/") for path in coverage.paths)
        return cls(paths, names if coverage.reviewers else None)

    def covers(self, path: str) -> bool:
        """Whether a file, or a folder that it is in, was looked at by anybody who answered."""
        if self.answered is not None and not self.answered:
            return False
        folders = (str(folder) for folder in PurePosixPath(path).parents)
        return self.paths is None or path in self.paths or any(folder in self.paths for folder in folders)

    def looked_at(self, finding: Finding, path: str) -> bool:
        """Whether the pass looked where a finding is, or was."""
        before = finding.location.path if finding.location else ""
        return self.covers(path or before) or self.covers(before)

    def expects(self, finding: Finding, path: str) -> bool:
        """Whether the pass would have reported a finding again: it looked there, and one who found it answered.

        Where tools reported it, all of them must have answered: a silent reviewer says nothing about a tool.
        """
        if not self.looked_at(finding, path):
            return False
        if self.answered is None or not finding.sources:
            return True
        tools = {vote.reviewer for vote in finding.votes if vote.tool and vote.reviewer in finding.sources}
        return tools <= self.answered if tools else not self.answered.isdisjoint(finding.sources)


@dataclass(slots=True)
class CodeState:
    """The repository at the end of a pass. Each file is read once, when it is asked about."""

    sources: FindingSources
    maps: Mapping[str, LineMap] = field(default_factory=dict)  # from the commit of each pass to now
    fixes: Mapping[tuple[str, int], FindingId] = field(default_factory=dict)  # by line, the finding whose fix wrote it
    _pages: dict[str, SourceFile | None] = field(default_factory=dict)
    _scopes: dict[str, ReviewScope] = field(default_factory=dict)

    def page(self, path: str) -> SourceFile | None:
        """A file as it is now."""
        if path not in self._pages:
            self._pages[path] = read_source(self.sources, path)
        return self._pages[path]

    def path_now(self, finding: Finding) -> str:
        """What the file of a known finding is called now; empty if it has none or it was deleted."""
        lines = self.maps.get(finding.pass_id)
        path = finding.location.path if finding.location else ""
        return lines.path(path) if lines and path else path

    def fixed_here(self, place: Location | None) -> FindingId | None:
        """The finding whose fix wrote the first of these lines that any fix wrote."""
        if place is None or not self.fixes:
            return None
        start = place.start or 0
        lines = range(start, min(max(start, place.end or start), start + _MAX_LINES) + 1)
        return next((self.fixes[place.path, line] for line in lines if (place.path, line) in self.fixes), None)

    def is_late(self, place: Location | None, passed: Pass, ledger: Ledger) -> bool:
        """Whether a reviewer of this pass covered these very lines before, in the same work, and said nothing."""
        if place is None or place.start is None:
            return False
        reviewers = passed.coverage.reviewers.keys()
        earlier = (
            one
            for one in ledger.passes.values()
            if one.id != passed.id
            and same_work(one, passed)
            and not (reviewers and reviewers.isdisjoint(one.coverage.reviewers))
        )
        return any(self._covered_before(place, place.start, one, passed) for one in earlier)

    def _covered_before(self, place: Location, start: int, earlier: Pass, passed: Pass) -> bool:
        lines = self.maps.get(earlier.id)
        if lines is None and earlier.head and earlier.head == passed.head:
            lines = LineMap()
        before = lines.origin(place.path) if lines else ""
        if lines is None or not before:
            return False
        if earlier.id not in self._scopes:
            self._scopes[earlier.id] = ReviewScope.of(earlier.coverage)
        return self._scopes[earlier.id].covers(before) and lines.unchanged(
            place.path, start, max(start, place.end or start)
        )


def same_work(one: Pass, other: Pass) -> bool:
    """Whether two passes are about the same task, or belong to the same run."""
    return bool(one.task and one.task == other.task) or bool(one.run and one.run == other.run)
