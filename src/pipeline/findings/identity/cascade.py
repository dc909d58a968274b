"""Which finding of a pass is which known one: tiers from the surest to the vaguest, each on what is left.

Every draft is at most one known finding and every known finding at most one draft. What fits two equally is left to
the next tier, and at last is new: a duplicate can be merged by hand, a finding that was swallowed is lost.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from pipeline.findings.identity.anchors import Anchor, apart, is_loose, of_draft, of_known
from pipeline.findings.identity.assign import Pair, assign
from pipeline.findings.identity.linemap import LineMap
from pipeline.findings.identity.renames import renamed
from pipeline.findings.identity.tiers import TIERS, Tier, of_one_file
from pipeline.findings.model import Finding, FindingId, Strength

Judge = Callable[[Finding, Finding], bool]

JUDGED = 50  # questions to a judge in one pass
_SURE = (Strength.EXACT, Strength.MAPPED, Strength.CONTENT)


@dataclass(frozen=True, slots=True)
class Match:
    """A draft, by its index, that is a known finding."""

    draft: int
    known: FindingId
    strength: Strength
    tier: str


@dataclass(frozen=True, slots=True)
class Matching:
    """What became of all drafts and all known findings. Nobody is in it twice, and nobody is missing."""

    matches: tuple[Match, ...] = ()  # by draft
    new: tuple[int, ...] = ()
    unseen: tuple[FindingId, ...] = ()
    doubtful: tuple[Match, ...] = ()  # of new drafts: what they may be, without being taken for it


def match(
    known: Sequence[Finding],
    drafts: Sequence[Finding],
    maps: Mapping[str, LineMap] | None = None,
    judge: Judge | None = None,
) -> Matching:
    """Recognise known findings among the drafts of a pass; both have their fingerprints, `maps` is by pass."""
    old = sorted(known, key=lambda finding: finding.id)
    new = sorted(range(len(drafts)), key=lambda index: _order(drafts[index]))
    same = _same(old, [drafts[index] for index in new])
    taken = set(same.values())
    found = _Found({}, {})
    if len(same) < min(len(old), len(new)):
        after = {at: of_draft(at, drafts[index]) for at, index in enumerate(new) if at not in taken}
        before = {
            at: of_known(at, finding, (maps or {}).get(finding.pass_id))
            for at, finding in enumerate(old)
            if at not in same
        }
        found = _Found(renamed(before, after.values()), after)
    found.pairs += [(Pair((), known, draft), Strength.EXACT, TIERS[0].name) for known, draft in same.items()]
    for tier in TIERS:
        found.take(tier)
    if judge is not None:
        found.ask(lambda pair: judge(old[pair.known], drafts[new[pair.draft]]))
    return _matching(found, old, new)


def _same(known: Sequence[Finding], drafts: Sequence[Finding]) -> dict[int, int]:
    """The known findings and drafts that alone have a signature with code in it: nothing else need be looked at."""
    before, after = _alone(known), _alone(drafts)
    return {at: after[signed] for signed, at in before.items() if signed in after}


def _alone(findings: Sequence[Finding]) -> dict[str, int]:
    counts = Counter(finding.signature for finding in findings)
    return {
        finding.signature: at
        for at, finding in enumerate(findings)
        if counts[finding.signature] == 1 and finding.evidence and not is_loose(finding)
    }


class _Found:
    """Who is still alone, and who is not."""

    def __init__(self, known: dict[int, Anchor], drafts: dict[int, Anchor]) -> None:
        self.known, self.drafts = known, drafts
        self.pairs: list[tuple[Pair, Strength, str]] = []

    def take(self, tier: Tier) -> None:
        """Let one tier pair whom it can."""
        if self.known and self.drafts:
            pairs = tier.pairs(tuple(self.known.values()), tuple(self.drafts.values()))
            if tier.strength is not Strength.EXACT:
                pairs = (pair for pair in pairs if not apart(self.known[pair.known], self.drafts[pair.draft]))
            for pair in assign(pairs, by_order=tier.by_order):
                self._pair(pair, tier.strength, tier.name)

    def ask(self, same: Callable[[Pair], bool]) -> None:
        """Let a judge look at those that are left, the likeliest first."""
        pairs = of_one_file(tuple(self.known.values()), tuple(self.drafts.values()))
        ranked = sorted(pairs, key=lambda pair: (tuple(-part for part in pair.score), pair.known, pair.draft))
        free = (pair for pair in ranked if pair.known in self.known and pair.draft in self.drafts)
        for pair in islice(free, JUDGED):
            if same(pair):
                self._pair(pair, Strength.JUDGED, "judge")

    def _pair(self, pair: Pair, strength: Strength, tier: str) -> None:
        del self.known[pair.known], self.drafts[pair.draft]
        self.pairs.append((pair, strength, tier))


def _matching(found: _Found, old: Sequence[Finding], new: Sequence[int]) -> Matching:
    """Who is who. What is only likely is taken for an open finding, and for no other: that would hide a defect."""
    matches, doubtful = list[Match](), list[Match]()
    for pair, strength, tier in sorted(found.pairs, key=lambda one: new[one[0].draft]):
        known = old[pair.known]
        taken = strength in _SURE or (known.state.active and not known.unreadable)
        (matches if taken else doubtful).append(Match(new[pair.draft], known.id, strength, tier))
    paired, matched = {pair.known for pair, _, _ in found.pairs}, {one.draft for one in matches}
    return Matching(
        tuple(matches),
        tuple(sorted(index for index in new if index not in matched)),
        tuple(finding.id for at, finding in enumerate(old) if at not in paired),
        tuple(doubtful),
    )


def _order(draft: Finding) -> tuple[Hashable, ...]:
    """An order of drafts that does not depend on who reported first."""
    place = draft.location
    where = (place.path, place.start or 0, place.end or 0) if place else ("", 0, 0)
    return (*where, draft.signature, draft.title, draft.category, draft.severity.rank, draft.impact)
