"""What a pass makes of findings once it is known which are which: a table of states, and the events it asks for.

Nothing is ever fixed because nobody mentioned it, and nothing dismissed is hidden on the strength of a guess.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeline.findings.events import AnyEvent, Linked, Missed, Raised, Seen, Tried, Turned
from pipeline.findings.identity.cascade import Match, Matching
from pipeline.findings.identity.ground import Covered, Ground
from pipeline.findings.identity.merging import CAUSED, root
from pipeline.findings.identity.retold import changes, observed, placed, where_only
from pipeline.findings.identity.texts import VERDICT, evidence_digest, gone, same_evidence, standing
from pipeline.findings.ledger import Ledger, merged_into
from pipeline.findings.model import (
    MAY_BE,
    Actor,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Link,
    Observed,
    Severity,
    Strength,
)
from pipeline.findings.passes import Pass
from pipeline.findings.signature import finding_id

ABSENT = 2  # passes without a word, after which a look at a finding whose text is gone is proposed


@dataclass(frozen=True, slots=True)
class Upshot:
    """The events of a pass, and what its drafts came to."""

    events: tuple[AnyEvent, ...]
    ids: tuple[str, ...]  # the finding of each draft; nothing for one that was withheld and is not known
    suppressed: Mapping[int, str]  # drafts of dismissed findings, and why they are not shown


def upshot(
    ledger: Ledger,
    matching: Matching,
    drafts: Sequence[Finding],
    passed: Pass,
    at: str,
    ground: Ground,
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
    mentioned = {root(ledger, one.known) for one in (*matching.matches, *matching.doubtful)}
    for id in matching.unseen:
        if id not in mentioned:
            work.miss(ledger.findings[id])
    ids = tuple(work.ids.get(index, "") for index in range(len(drafts)))
    return Upshot(tuple(work.events), ids, work.suppressed)


class _Work:
    """The events of one pass, as they come up."""

    def __init__(self, ledger: Ledger, passed: Pass, at: str, ground: Ground) -> None:
        self.ledger, self.passed, self.at, self.ground = ledger, passed, at, ground
        self.covered = Covered.by(passed.coverage)
        self.events: list[AnyEvent] = []
        self.ids: dict[int, str] = {}
        self.taken: set[str] = set(ledger.findings)
        self.suppressed: dict[int, str] = {}

    def see(self, matches: Sequence[Match], drafts: Sequence[Finding]) -> None:
        """Known findings that were reported again; one merged into another speaks for that, unless it speaks too."""
        direct = {one.known for one in matches}
        for one in matches:
            known, draft = self.ledger.findings[one.known], drafts[one.draft]
            if not merged_into(known):
                self._see(known, draft, one)
                continue
            self.events.append(self._seen(known, draft, one.strength))
            whole = root(self.ledger, known.id)
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
        self.events.append(Raised(at=self.at, finding=replace(draft, **update)))
        if blame:  # what may be a known finding was not made by its fix
            self._blame(id, draft, "it is on lines that this fix wrote")

    def suppose(self, one: Match) -> None:
        """A new finding that may be a known one."""
        link = Link(kind=MAY_BE, to=root(self.ledger, one.known), note=f"{one.strength} match")
        self.events.append(Linked(at=self.at, id=FindingId(self.ids[one.draft]), link=link))

    def miss(self, known: Finding) -> None:
        """A known finding that nobody reported, where somebody would have."""
        path = self.ground.path_now(known)
        if known.state is FindingState.VERIFIED_FIXED or merged_into(known):
            return
        if not self.covered.would_tell(known, path):
            return
        self.events.append(Missed(at=self.at, id=known.id, pass_id=self.passed.id))
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
        proposed = gone(known, page) and known.absent_passes + 1 >= ABSENT
        if known.state.active and standing(known, page) is False:
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
            Seen(
                at=self.at,
                id=known.id,
                pass_id=self.passed.id,
                observed=Observed.UNCHANGED,
                strength=one.strength,
                note=f"seen as {one.known}",
            )
        )
        self._turn(known, draft, one)

    def _seen(self, known: Finding, draft: Finding, strength: Strength, *, held: bool = False) -> Seen:
        changed = where_only(known, draft, strength) if held else changes(known, draft, strength)
        return Seen(
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
                self.events.append(Tried(at=self.at, id=known.id, attempt=replace(tried, by=who)))
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
        turned = Turned(at=self.at, id=known.id, state=state, by=Actor.ORCHESTRATOR, note=note, pass_id=self.passed.id)
        self.events.append(turned)

    def _blame(self, id: FindingId, draft: Finding, note: str) -> None:
        cause = self.ground.fixed_here(draft.location)
        known = self.ledger.findings.get(id)
        linked = known is not None and any((link.kind, link.to) == (CAUSED, cause) for link in known.links)
        if cause is not None and cause != id and not linked:
            self.events.append(Linked(at=self.at, id=id, link=Link(kind=CAUSED, to=cause, note=note)))


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
