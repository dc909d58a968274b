"""One pass from what reviewers and tools returned to drafts of findings, with a fate for every raw item.

Every item has exactly one entry, and the order in which reviewers answer changes nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pipeline.findings.claims import Claim, Return
from pipeline.findings.intake.anchor import Placed, Texts, place
from pipeline.findings.intake.coverage import coverage
from pipeline.findings.intake.files import CurrentSources
from pipeline.findings.intake.group import Pair, candidates, exact, identical, near
from pipeline.findings.intake.judging import Judge, Judged, judge_pairs
from pipeline.findings.intake.paths import PathRefused
from pipeline.findings.intake.places import named, with_paths
from pipeline.findings.intake.policy import Policy
from pipeline.findings.intake.sift import Sifted, capped, kept, sift, told_apart
from pipeline.findings.intake.unreadable import of_refused, of_rejected
from pipeline.findings.intake.wording import Worded, legible, word
from pipeline.findings.model import Evidence, Finding
from pipeline.findings.passes import Coverage, Disposition, Entry, Pass
from pipeline.findings.signature import signature


@dataclass(frozen=True, slots=True)
class IntakeAssessment:
    """What a pass came to, before it is known which findings are new."""

    drafts: tuple[Finding, ...]  # the worst first; the first vote of each is of the item that survives
    entries: tuple[Entry, ...]  # one for each raw item
    coverage: Coverage
    withheld: tuple[Finding, ...] = ()  # reported, and not shown: what they are about is not gone
    related: tuple[Pair, ...] = ()  # drafts that may be one defect: nobody was asked
    declined: tuple[Pair, ...] = ()  # drafts that somebody judged to be two


def assess(
    returns: Sequence[Return],
    sources: CurrentSources,
    policy: Policy,
    passed: Pass,
    *,
    judge: Judge | None = None,
    changed_paths: Collection[str] | None = None,
) -> IntakeAssessment:
    """Check, group, merge and sift what a pass returned. With `changed_paths` a finding elsewhere never gates."""
    changed = None if changed_paths is None else frozenset(changed_paths)
    placed, unread = _placed(returns, sources, policy)
    groups = near(exact(placed))
    judged = judge_pairs(groups, candidates(groups), judge)
    every = (*judged.groups, *identical(unread))
    sifted = capped([sift(group, policy, passed, changed) for group in every], policy.cap)
    order = kept(sifted)
    return IntakeAssessment(
        drafts=_signed([sifted[index].finding for index in order]),
        entries=tuple(sorted([*_harmless(returns), *_entries(sifted, judged)], key=_by_input)),
        coverage=coverage(returns, {one.claim.input_id for one in unread}, [one.fate for one in sifted], changed),
        withheld=tuple(one.finding for one in sifted if not one.fate.kept),
        related=_numbered(judged.related, order),
        declined=_numbered(judged.declined, order),
    )


def _placed(returns: Iterable[Return], sources: CurrentSources, policy: Policy) -> tuple[list[Placed], list[Placed]]:
    """Every claim held against its file, and those that cannot be read as one. Claims of one file come together."""
    unread = [of_rejected(item, answer) for answer in returns for item in answer.unreadable if not item.harmless]
    worded: list[Worded] = []
    for claim in (claim for answer in returns for claim in answer.findings):
        read = _read(claim, sources)
        if isinstance(read, PathRefused):
            unread.append(of_refused(claim, read.reason))
        else:
            worded.append(read)
    texts = Texts(sources)
    worded.sort(key=_file)
    return (
        [place(claim, texts, quote_the_line=policy.quote_the_line) for claim in worded],
        [place(_legible(claim, sources), texts) for claim in unread],
    )


def _read(claim: Claim, sources: CurrentSources) -> Worded | PathRefused:
    worded = word(claim)
    return worded if isinstance(worded, PathRefused) else with_paths(worded, sources)


def _file(worded: Worded) -> str:
    return next((item.path for item in named(worded.claim)), "")


def _entries(sifted: Sequence[Sifted], judged: Judged) -> Iterator[Entry]:
    apart = told_apart(sifted, judged.declined)
    for index, one in enumerate(sifted):
        yield from one.entries(apart.get(index, ()))


def _legible(claim: Claim, sources: CurrentSources) -> Worded:
    """An unreadable claim in words that a file can hold; without its place where that is outside the repository."""
    read = _read(claim, sources)
    if isinstance(read, PathRefused):
        read = _read(replace(claim, locations=(), evidence=()), sources)
    assert not isinstance(read, PathRefused)  # noqa: S101 - it has a title, and no place
    return read


def _harmless(returns: Iterable[Return]) -> Iterator[Entry]:
    """The items that say that nothing is wrong."""
    for item in (item for answer in returns for item in answer.unreadable if item.harmless):
        yield Entry(
            input_id=legible(item.input_id),
            disposition=Disposition.FILTERED,
            reason=legible(item.reason),
            title=legible(item.title),
        )


def _by_input(entry: Entry) -> tuple[str, int, str]:
    """`lint#2` comes before `lint#10`."""
    reviewer, _, number = entry.input_id.rpartition("#")
    return reviewer, int(number) if number.isdecimal() and len(number) < 10 else 0, entry.input_id


def _signed(drafts: Sequence[Finding]) -> tuple[Finding, ...]:
    """Drafts that can be told apart: equal ones are counted by line, in an order that new findings do not disturb."""
    equal = defaultdict[str, list[int]](list)
    for index, draft in enumerate(drafts):
        equal[draft.signature].append(index)
    done = list(drafts)
    for indices in equal.values():
        for nth, index in enumerate(sorted(indices, key=lambda index: _line(drafts[index]))):
            if nth:
                done[index] = _counted(drafts[index], nth)
    return tuple(done)


def _counted(draft: Finding, nth: int) -> Finding:
    path = draft.location.path if draft.location else ""
    signed = signature(draft.category, (*draft.evidence, Evidence(path=path)), draft.title, nth=nth)
    return replace(draft, signature=signed)


def _line(draft: Finding) -> tuple[int, str]:
    start = draft.location.start if draft.location else None
    return start or 0, draft.votes[0].input_id


def _numbered(pairs: Iterable[Pair], order: Sequence[int]) -> tuple[Pair, ...]:
    """Pairs of groups as pairs of drafts, where both are."""
    number = {index: place for place, index in enumerate(order)}
    drafts = [(number[one], number[other]) for one, other in pairs if one in number and other in number]
    return tuple(sorted((min(pair), max(pair)) for pair in drafts))
