"""What a project decides about the findings of a pass."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain, islice
from posixpath import dirname
from types import MappingProxyType
from typing import Any, Literal, TypeVar

from pipeline.findings.events import Coverage, Disposition, ItemOutcome, Pass
from pipeline.findings.evidence import Placed
from pipeline.findings.fingerprints import content_words, raw_signature, signature
from pipeline.findings.model import (
    UNREADABLE,
    AutofixClass,
    Category,
    Confidence,
    Finding,
    FindingId,
    FindingState,
    Gate,
    GateDecision,
    Owner,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
    Suppression,
    Vote,
)
from pipeline.findings.normalize import MOST, legible
from pipeline.findings.scales import ANCHORS, confidence_from_anchor, confidence_to_anchor
from pipeline.findings.value import FindingValue

CAPS: Mapping[str, int] = MappingProxyType({"file": 25, "changeset": 30, "package": 30, "team": 40})
"""How many findings a report of each scope has room for, where a project wants a limit."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How the findings of a pass are sifted."""

    preset: Literal["default", "strict"] = "default"  # whether a medium finding keeps a change from shipping
    cap: int | None = None  # the most findings of a pass; none are left out for their number when None
    origin: Callable[[str], str] = (
        str  # whose voice a reviewer is: one model with one prompt counts once, "" not at all
    )
    mode: Literal["interactive", "headless"] = "interactive"  # headless, nobody reads the notes of demoted findings
    quote_the_line: bool = False  # a reviewer's first evidence must be a line of the file, or it counts for less


NEAR = 3  # lines between two claims about one defect
NEIGHBOURS = 8  # groups that one is compared with, to either side
_FAMILIES = (
    frozenset({
        Category.BUG, Category.SECURITY, Category.PERFORMANCE, Category.CONCURRENCY, Category.API_CONTRACT,
        Category.DATA_LOSS,
    }),
    frozenset({Category.PRODUCT, Category.REQUIREMENT}),
)  # fmt: skip

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Group:
    """Claims about one defect, its leader first, and why each of the others is with it."""

    members: tuple[Placed, ...]
    reasons: tuple[str, ...] = ()

    @property
    def leader(self) -> Placed:
        """The one that others are measured by."""
        return self.members[0]

    @property
    def reviewers(self) -> frozenset[str]:
        """Who said so."""
        return frozenset(member.claim.reviewer for member in self.members)


def united(groups: Sequence[Group], reason: str) -> Group:
    """One group of several, led by the first."""
    first, rest = groups[0], [member for group in groups[1:] for member in group.members]
    return Group((*first.members, *rest), (*first.reasons, *(reason for _ in rest)))


def exact(claims: Iterable[Placed]) -> list[Group]:
    """Claims with one title on one line are one; so are those of different reviewers on one symbol of one category."""
    titled = defaultdict[tuple[object, ...], list[Placed]](list)
    for claim in sorted(claims, key=lambda claim: claim.order):
        titled[(*_spot(claim), claim.title)].append(claim)
    groups = [Group(tuple(members), ("same line, same title",) * (len(members) - 1)) for members in titled.values()]
    return _by_symbol(groups)


def identical(claims: Iterable[Placed]) -> list[Group]:
    """Claims that cannot be read: only those of one reviewer with one text are one."""
    same = defaultdict[tuple[str, str], list[Placed]](list)
    for claim in sorted(claims, key=lambda claim: claim.order):
        same[claim.claim.reviewer, claim.claim.impact].append(claim)
    return [Group(tuple(members), ("the same text",) * (len(members) - 1)) for members in same.values()]


def near(groups: Iterable[Group]) -> list[Group]:
    """Groups with equal titles, at most three lines from the first of them. Distance is never added up."""
    leaders = defaultdict[tuple[str, str], deque[int]](deque)
    done: list[Group] = []
    for group in groups:  # they come in the order of their leaders
        keys = sorted({(group.leader.place.path, member.title) for member in group.members})
        into = next((index for key in keys for index in leaders[key] if _joins(group, done[index])), None)
        if into is not None:
            done[into] = united([done[into], group], f"same title, within {NEAR} lines")
            continue
        for key in keys:
            while leaders[key] and not _within(done[leaders[key][0]].leader, group.leader):
                leaders[key].popleft()
            leaders[key].append(len(done))
        done.append(group)
    return done


def candidates(groups: Sequence[Group]) -> list[Pair]:
    """Pairs of groups that different reviewers may have raised for one defect: close by, or on one symbol."""
    pairs = {(a, b) for a in range(len(groups)) for b in _following(groups, a)}
    symbols = defaultdict[tuple[str, str], list[int]](list)
    for index, group in enumerate(groups):
        if group.leader.place.symbol:
            symbols[group.leader.place.path, group.leader.place.symbol].append(index)
    for same in symbols.values():
        pairs.update((a, b) for nth, a in enumerate(same) for b in islice(same, nth + 1, nth + 1 + NEIGHBOURS))
    voices = [group.reviewers for group in groups]
    categories = [group.leader.claim.category for group in groups]
    return sorted(
        (a, b) for a, b in pairs if voices[a].isdisjoint(voices[b]) and compatible(categories[a], categories[b])
    )


def compatible(one: Category, other: Category) -> bool:
    """Whether two reviewers may call one defect by these two."""
    return one == other or any(one in family and other in family for family in _FAMILIES)


def _spot(claim: Placed) -> tuple[object, ...]:
    """What exact claims share: the line; where there is none, the symbol and the words that are quoted."""
    place = claim.place
    if place.start is not None:
        return (place.path, place.start)
    quote = next((item.quote for item in claim.evidence if item.quote), "")
    return (place.path, None, place.symbol, quote)


def _by_symbol(groups: Sequence[Group]) -> list[Group]:
    """Join groups on one line, of one category and symbol, whose titles share a word.

    Two that one reviewer raised are two: they were told apart.
    """
    spots = defaultdict[tuple[object, ...], list[int]](list)
    for index, group in enumerate(groups):
        leader = group.leader
        if leader.place.symbol and leader.place.start is not None:
            spots[(*_spot(leader), leader.claim.category, leader.place.symbol)].append(index)
    done: dict[int, Group] = dict(enumerate(groups))
    for same in spots.values():
        voices = [reviewer for index in same for reviewer in groups[index].reviewers]
        if len(voices) == len(set(voices)) and frozenset.intersection(
            *(content_words((groups[i].leader.claim.title,)) for i in same)
        ):
            done[same[0]] = united([done.pop(index) for index in same], "same line, category and symbol")
    return [done[index] for index in sorted(done)]


def _joins(group: Group, leader: Group) -> bool:
    """Whether a group belongs to a leader. A tool that names two lines means two defects."""
    return _within(leader.leader, group.leader) and not (_tools(group) & _tools(leader))


def _within(leader: Placed, claim: Placed) -> bool:
    first, line = leader.place.start, claim.place.start
    return first is not None and line is not None and line - first <= NEAR


def _tools(group: Group) -> frozenset[str]:
    return frozenset(member.claim.reviewer for member in group.members if member.by_tool)


def _following(groups: Sequence[Group], index: int) -> Iterable[int]:
    """The next few groups that begin on the lines of one, or shortly after."""
    place = groups[index].leader.place
    if place.start is None:
        return
    last = (place.end or place.start) + NEAR
    for other in range(index + 1, min(index + 1 + NEIGHBOURS, len(groups))):
        start = groups[other].leader.place.start
        if groups[other].leader.place.path != place.path or start is None or start > last:
            return
        yield other


LEAST = 75  # the anchor of a finding that is reported
LEAST_CRITICAL = 50  # a critical one must not be lost for a doubt
_PROMOTED = 50  # the least anchor that agreement raises
_SOFT = frozenset({"testing", "maintainability"})


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a finding, and why. What is not kept may leave a note beside the findings."""

    disposition: Disposition
    reason: str
    kept: bool = False  # whether it is a finding of this pass
    gap: str = ""  # among the gaps in the tests
    risk: str = ""  # among the risks that remain


_KEPT = Fate(Disposition.SURVIVING, "kept", kept=True)


def passes(severity: Severity, confidence: Confidence) -> bool:
    """Whether a finding is sure enough to be reported."""
    return confidence.value >= (LEAST_CRITICAL if severity is Severity.CRITICAL else LEAST)


def promoted(confidence: Confidence, agreement: int) -> Confidence:
    """One anchor more when independent reviewers agree; what is speculative stays so."""
    anchor = confidence_to_anchor(confidence)
    if agreement < 2 or anchor < _PROMOTED or anchor == ANCHORS[-1]:
        return confidence
    return confidence_from_anchor(ANCHORS[ANCHORS.index(anchor) + 1])


def fate(finding: Finding, policy: Policy) -> Fate:
    """What becomes of a merged finding."""
    if finding.unreadable:
        return Fate(Disposition.REJECTED, finding.unreadable, kept=True)
    if finding.suppression:
        reason = finding.suppression.reason or "no reason given"
        return Fate(Disposition.SUPPRESSED, f"its source suppresses it: {reason}", kept=True)
    if finding.pre_existing:
        return Fate(Disposition.SURVIVING, "set apart: it was there before the change", kept=True)
    if _soft(finding):
        return _demoted(finding, policy)
    if not passes(finding.severity, finding.confidence):
        least = LEAST_CRITICAL if finding.severity is Severity.CRITICAL else LEAST
        return Fate(
            Disposition.FILTERED, f"its confidence, {confidence_to_anchor(finding.confidence)}, is below {least}"
        )
    return _KEPT


def gate_of(finding: Finding, policy: Policy, changed: Container[str] | None) -> GateDecision:
    """Whether a finding keeps the change from shipping; one outside the change never does."""
    if finding.unreadable:
        return _decision(Gate.MUST, policy.preset)
    place = finding.location
    worst = Severity.MEDIUM if policy.preset == "strict" else Severity.HIGH
    must = (
        finding.severity.rank <= worst.rank
        and not finding.pre_existing
        and finding.suppression is None
        and finding.autofix_class is not AutofixClass.ADVISORY
        and passes(finding.severity, finding.confidence)
        and (changed is None or place is None or place.path in changed)
    )
    return _decision(Gate.MUST if must else Gate.SUGGEST, policy.preset)


@cache
def _decision(gate: Gate, preset: str) -> GateDecision:
    """There are few, and many findings share each."""
    return GateDecision(value=gate, policy=preset)


def rank(finding: Finding) -> tuple[object, ...]:
    """What findings are sorted by: the worst and surest first, then by place."""
    place = finding.location
    where = (place.path, place.start or 0) if place else ("", 0)
    first = finding.votes[0]
    return (finding.severity.rank, -finding.confidence.value, *where, finding.title, first.reviewer, first.input_id)


def _soft(finding: Finding) -> bool:
    """Whether it is only advice of those who look at tests and upkeep, and not grave."""
    advice = finding.autofix_class is AutofixClass.ADVISORY and finding.severity.rank >= Severity.MEDIUM.rank
    return advice and all(_SOFT & _name_words(source) for source in finding.sources)


def _demoted(finding: Finding, policy: Policy) -> Fate:
    why = "advice on tests or upkeep, and not grave"
    if policy.mode == "headless":
        return Fate(Disposition.SUPPRESSED, f"{why}: nobody reads such notes in a headless pass")
    note = f"{finding.location.path_line if finding.location else 'no place'} -- {finding.title}"
    if any("testing" in _name_words(source) for source in finding.sources):
        return Fate(Disposition.DEMOTED, f"{why}: noted among the gaps in the tests", gap=note)
    return Fate(Disposition.DEMOTED, f"{why}: noted among the risks that remain", risk=note)


def _name_words(source: str) -> frozenset[str]:
    return frozenset(source.lower().split("-"))


_Part = TypeVar("_Part", bound=FindingValue)
_CLASSES = (AutofixClass.SAFE_AUTO, AutofixClass.GATED_AUTO, AutofixClass.MANUAL)
_OWNERS = tuple(Owner)  # the most careful last
_WORDS = ("impact", "fix", "plain_title", "reproduction", "min_fix_scope")


def ordered(group: Group) -> list[tuple[Placed, str]]:
    """The claims of a group, each with why it is in it; first the one whose severity and confidence stand."""
    members = list(zip(group.members, ("", *group.reasons), strict=True))
    if len(members) == 1:  # as most are
        return members
    return sorted(members, key=lambda member: (_standing(member[0]), member[0].order))


def merge(members: Sequence[Placed], policy: Policy, passed: Pass) -> Finding:
    """One finding out of the claims of a group, in their order. It has no id yet, and its gate is not decided."""
    claims = [member.claim for member in members]
    first, lead = members[0], claims[0]
    agreement = len({policy.origin(claim.reviewer) for claim in claims} - {""})
    evidence = _union(member.evidence for member in members)
    return Finding(
        id=FindingId(""),
        signature=raw_signature(lead.reviewer, lead.impact)
        if lead.unreadable
        else signature(lead.category, evidence, lead.title),
        fingerprints=_filled(claim.tool_ids for claim in claims),
        title=lead.title,
        scope=lead.scope or dirname(first.place.path),
        **_words(claims),
        category=lead.category,
        severity=lead.severity,
        confidence=promoted(first.confidence, agreement),
        **_handling(claims),
        pre_existing=all(claim.pre_existing for claim in claims),
        system_breaking=any(claim.system_breaking for claim in claims),
        locations=_union(member.locations for member in members),
        evidence=evidence,
        votes=tuple(_vote(member, passed) for member in members),
        sources=tuple(sorted({claim.reviewer for claim in claims})),
        lens=lead.lens,
        task=passed.task,
        agreement=max(agreement, 1),
        **_state(members),
        pass_id=passed.id,
        created_at=passed.started_at,
        updated_at=passed.started_at,
        ext=_filled(claim.ext for claim in claims) | ({UNREADABLE: lead.unreadable} if lead.unreadable else {}),
    )


def _standing(member: Placed) -> tuple[int, ...]:
    """What decides whose word stands: the worst of those that are sure enough, else the surest."""
    severity, confidence = member.claim.severity, member.confidence
    worst, surest = severity.rank, -confidence.value
    return (0, worst, surest) if passes(severity, confidence) else (1, surest, worst)


def _words(claims: Sequence[RawFinding]) -> dict[str, Any]:
    """What is told in words: by the first that tells it."""
    told = {name: text for claim in reversed(claims) for name in _WORDS if (text := getattr(claim, name))}
    tests = tuple(dict.fromkeys(test for claim in claims for test in claim.regression_tests))
    return {**told, "regression_tests": tests}


def _handling(claims: Sequence[RawFinding]) -> dict[str, Any]:
    """How careful a fix must be: as careful as the most careful says."""
    classes = {claim.autofix_class for claim in claims} - {AutofixClass.ADVISORY}
    return {
        "autofix_class": max(classes, key=_CLASSES.index, default=AutofixClass.ADVISORY),
        "owner": max((claim.owner for claim in claims), key=_OWNERS.index),
        "requires_verification": any(claim.requires_verification for claim in claims),
    }


def _state(members: Sequence[Placed]) -> dict[str, Any]:
    """Open, unless its source knows better, suppresses it, or nothing in the code could be held against it."""
    claims = [member.claim for member in members]
    if claims[0].unreadable:
        return {"state": FindingState.UNCERTAIN}
    given = next((claim.state for claim in claims if claim.state), None)
    if all(claim.suppressed is not None for claim in claims):
        state = given if given and given.dismissed else FindingState.WONT_FIX
        return {"state": state, "suppression": Suppression(reason=claims[0].suppressed or "", by=claims[0].reviewer)}
    if given:
        return {"state": given}
    return {"state": FindingState.OPEN if any(member.sure for member in members) else FindingState.UNCERTAIN}


def _vote(member: Placed, passed: Pass) -> Vote:
    claim = member.claim
    return Vote(
        reviewer=claim.reviewer,
        pass_id=passed.id,
        stage=claim.stage or passed.stage,
        run=passed.run,
        title=claim.title,
        severity=claim.severity,
        confidence=claim.confidence.value,
        autofix_class=claim.autofix_class,
        owner=claim.owner,
        action=claim.action,
        input_id=claim.input_id,
        tool=member.by_tool,
    )


def _union(parts: Iterable[tuple[_Part, ...]]) -> tuple[_Part, ...]:
    """All of them once, in their order, up to what a finding holds."""
    every = tuple(chain.from_iterable(parts))
    return every if len(every) < 2 else tuple(islice(dict.fromkeys(every), MOST))


def _filled(parts: Iterable[Any]) -> dict[str, Any]:
    """Everything that is said under any name; under one name, what is said first."""
    filled: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            filled.setdefault(name, value)
    return filled


Judge = Callable[[RawFinding, RawFinding], bool]  # would one fix resolve both?


@dataclass(frozen=True, slots=True)
class Judged:
    """The groups after the questions, and the pairs of them that stay apart."""

    groups: tuple[Group, ...]
    related: tuple[Pair, ...] = ()  # nobody was asked
    declined: tuple[Pair, ...] = ()  # somebody was, and they are two


def judge_pairs(groups: Sequence[Group], pairs: Sequence[Pair], judge: Judge | None) -> Judged:
    """Join the pairs that the judge takes for one defect."""
    if judge is None:
        return Judged(tuple(groups), related=tuple(pairs))
    questions = _Questions(groups, judge)
    for pair in pairs:
        questions.ask(pair)
    return questions.result()


class _Questions:
    """The groups while questions are asked about them."""

    def __init__(self, groups: Sequence[Group], judge: Judge) -> None:
        self._groups = groups
        self._judge = judge
        self._into: dict[int, int] = {}  # which group one was joined to
        self._piles: dict[int, list[int]] = {index: [index] for index in range(len(groups))}
        self._voices = [set(group.reviewers) for group in groups]
        self._apart: dict[Pair, bool] = {}  # pairs that are not one, and whether they were asked about

    def ask(self, pair: Pair) -> None:
        """Join a pair, or tell it apart. What is known is not asked again."""
        first, second = self._leaders(pair)
        if first == second or self._apart.get((first, second)):
            return
        if not self._voices[first].isdisjoint(self._voices[second]):  # by now somebody raised both
            self._apart[first, second] = False
        elif self._same(first, second):
            self._join(first, second)
        else:
            self._apart[first, second] = True

    def result(self) -> Judged:
        """The groups that are left, and how they stand to each other."""
        number = {index: place for place, index in enumerate(self._piles)}
        apart: dict[Pair, bool] = {}
        for pair, asked in self._apart.items():
            first, second = (number[index] for index in self._leaders(pair))
            if first != second:
                apart[first, second] = asked or apart.get((first, second), False)
        return Judged(
            tuple(self._pile(indices) for indices in self._piles.values()),
            related=tuple(sorted(pair for pair, asked in apart.items() if not asked)),
            declined=tuple(sorted(pair for pair, asked in apart.items() if asked)),
        )

    def _leaders(self, pair: Pair) -> Pair:
        one, other = pair
        while one in self._into:
            one = self._into[one]
        while other in self._into:
            other = self._into[other]
        return min(one, other), max(one, other)

    def _same(self, first: int, second: int) -> bool:
        one, other = self._groups[first].leader.checked, self._groups[second].leader.checked
        return self._judge(one, other) and self._judge(other, one)

    def _join(self, first: int, second: int) -> None:
        self._into[second] = first
        self._piles[first] += self._piles.pop(second)
        self._voices[first] |= self._voices[second]

    def _pile(self, indices: list[int]) -> Group:
        groups = [self._groups[index] for index in indices]
        return groups[0] if len(groups) == 1 else united(groups, "judged to be the same defect")


@dataclass(frozen=True, slots=True)
class Sifted:
    """A group, the finding it makes, and what becomes of it."""

    members: tuple[tuple[Placed, str], ...]  # first the one that stands for all; with each, why it is here
    finding: Finding
    fate: Fate

    def entries(self, told_apart: Iterable[str] = ()) -> Iterator[ItemOutcome]:
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


def _entry(member: Placed, disposition: Disposition, reasons: Iterable[str], into: str = "") -> ItemOutcome:
    reason = "; ".join([*reasons, *member.notes])
    return ItemOutcome(
        input_id=member.claim.input_id, disposition=disposition, reason=reason, into=into, title=member.claim.title
    )


_WORST = (ReportStatus.MISSING, ReportStatus.MALFORMED, ReportStatus.PARTIAL, ReportStatus.RETURNED, ReportStatus.EMPTY)


def coverage(
    returns: Sequence[ReviewerReport], unread: Container[str], fates: Sequence[Fate], changed: Collection[str] | None
) -> Coverage:
    """What all returns together cover. `unread` are the inputs that cannot be read: their reviewer answered in part."""
    reviewers: dict[str, ReportStatus] = {}
    problems: dict[str, list[str]] = {}
    whole: list[str] = []
    for answer in sorted(returns, key=lambda answer: (answer.reviewer, answer.problem)):
        name, lost = legible(answer.reviewer), _count(answer, unread)
        status = ReportStatus.PARTIAL if lost and answer.status.answered else answer.status
        reviewers[name] = min(status, reviewers.get(name, status), key=_WORST.index)
        told = (answer.problem, f"{lost} of {answer.inputs} items cannot be read" if lost else "")
        problems.setdefault(name, []).extend(legible(text) for text in told if text)
        whole += [legible(answer.file)] if answer.file and status.answered else []
    return Coverage(
        reviewers=reviewers,
        problems={name: "; ".join(texts) for name, texts in problems.items() if texts},
        testing_gaps=_notes((answer.testing_gaps for answer in returns), (fate.gap for fate in fates if fate.gap)),
        residual_risks=_notes(
            (answer.residual_risks for answer in returns), (fate.risk for fate in fates if fate.risk)
        ),
        paths=_paths(returns, changed),
        files=tuple(sorted(set(whole) - {legible(one.file) for one in returns if not one.status.answered})),
        unnamed=tuple(sorted({legible(one.file) for one in returns if one.file == one.reviewer and one.problem})),
    )


def _count(answer: ReviewerReport, unread: Container[str]) -> int:
    ids = [*(claim.input_id for claim in answer.findings), *(item.input_id for item in answer.unreadable)]
    return sum(id in unread for id in ids)


def _notes(told: Iterable[Iterable[str]], demoted: Iterable[str]) -> tuple[str, ...]:
    """Every note once, in an order that does not depend on who answered first."""
    return tuple(sorted({legible(note) for notes in told for note in notes} | {legible(note) for note in demoted}))


def _paths(returns: Sequence[ReviewerReport], changed: Collection[str] | None) -> tuple[str, ...] | None:
    """What was looked at; None is everything. Who does not say looked at the change, where it is known."""
    looked = [answer.covered for answer in returns if answer.status.answered]
    if any(paths is None for paths in looked) and changed is None:
        return None
    return tuple(sorted({path for paths in looked for path in (changed or () if paths is None else paths)}))
