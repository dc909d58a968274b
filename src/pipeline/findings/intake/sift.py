"""What becomes of each group, and the line that each of its items has in the record of the pass."""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.findings.intake.anchor import Placed
from pipeline.findings.intake.gate import Fate, fate, gate_of, rank
from pipeline.findings.intake.group import Group, Pair
from pipeline.findings.intake.merge import merge, ordered
from pipeline.findings.intake.policy import Policy
from pipeline.findings.model import Finding
from pipeline.findings.passes import Disposition, Entry, Pass


@dataclass(frozen=True, slots=True)
class Sifted:
    """A group, the finding it makes, and what becomes of it."""

    members: tuple[tuple[Placed, str], ...]  # first the one that stands for all; with each, why it is here
    finding: Finding
    fate: Fate

    def entries(self, told_apart: Iterable[str] = ()) -> Iterator[Entry]:
        """A line for each item of the group; `told_apart` are inputs that were judged to be other defects."""
        lead, why = self.members[0]
        asides = [f"judged to be another defect than {other}" for other in told_apart]
        yield _entry(lead, self.fate.disposition, [self.fate.reason, *self._changes(lead), *asides])
        for member, reason in self.members[1:]:
            yield _entry(member, Disposition.MERGED, [reason or why], into=lead.claim.input_id)

    def _changes(self, lead: Placed) -> Iterator[str]:
        """What the agreement of reviewers did, and where they disagree."""
        before, after = lead.confidence.value, self.finding.confidence.value
        if before != after:
            yield f"confidence raised from {before} to {after}: {self.finding.agreement} independent reviewers agree"
        if len(self.finding.votes) == 1:
            return
        votes = sorted({(vote.severity.rank, vote.reviewer, str(vote.severity)) for vote in self.finding.votes})
        if len({severity for _, _, severity in votes}) > 1:
            told = ", ".join(f"{reviewer} ({severity})" for _, reviewer, severity in votes)
            yield f"{told}: {self.finding.severity} kept"


def sift(group: Group, policy: Policy, passed: Pass, changed: Container[str] | None) -> Sifted:
    """Merge a group and decide about it."""
    members = ordered(group)
    finding = merge([member for member, _ in members], policy, passed)
    finding = replace(finding, gate=gate_of(finding, policy, changed))
    return Sifted(tuple(members), finding, fate(finding, policy))


def kept(sifted: Sequence[Sifted]) -> list[int]:
    """Which are findings of this pass, the worst and surest first."""
    indices = [index for index, one in enumerate(sifted) if one.fate.kept]
    return sorted(indices, key=lambda index: rank(sifted[index].finding))


def capped(sifted: Sequence[Sifted], cap: int | None) -> list[Sifted]:
    """The same, with no more findings than a project wants. What was there before, or is suppressed, does not count."""
    if cap is None:
        return list(sifted)
    counted = [index for index in kept(sifted) if _counts(sifted[index].finding)]
    over = Fate(
        Disposition.FILTERED, f"{len(counted)} findings, and the limit of this pass is {cap}: the least are left out"
    )
    left_out = set(counted[cap:])
    return [replace(one, fate=over) if index in left_out else one for index, one in enumerate(sifted)]


def told_apart(sifted: Sequence[Sifted], declined: Iterable[Pair]) -> dict[int, list[str]]:
    """For each group, the inputs that it was judged not to be the same as."""
    apart: dict[int, list[str]] = {}
    for one, other in declined:
        apart.setdefault(one, []).append(_lead(sifted[other]))
        apart.setdefault(other, []).append(_lead(sifted[one]))
    return apart


def _counts(finding: Finding) -> bool:
    return not finding.pre_existing and finding.suppression is None and not finding.unreadable


def _lead(one: Sifted) -> str:
    return one.members[0][0].claim.input_id


def _entry(member: Placed, disposition: Disposition, reasons: Iterable[str], into: str = "") -> Entry:
    reason = "; ".join([*reasons, *member.notes])
    return Entry(
        input_id=member.claim.input_id, disposition=disposition, reason=reason, into=into, title=member.claim.title
    )
