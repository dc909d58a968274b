"""One pass, from what was returned to the events it makes: assessed, recognised, and put beside what is known."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pipeline.findings.events import Coverage, Disposition, ItemOutcome, LedgerEvent, LinkAdded, Pass, PassRecorded
from pipeline.findings.evidence import Placed, RepositoryFiles, SourceFiles, Texts, named, place, with_paths
from pipeline.findings.fingerprints import add_fingerprints, signature
from pipeline.findings.formats import record
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import GitHistory, LineMap, line_maps
from pipeline.findings.match import match
from pipeline.findings.merge import (
    Judge,
    Judged,
    Pair,
    Policy,
    Sifted,
    candidates,
    capped,
    coverage,
    exact,
    identical,
    judge_pairs,
    kept,
    near,
    sift,
    told_apart,
)
from pipeline.findings.model import (
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Link,
    PassId,
    RawFinding,
    ReportStatus,
    ReviewerReport,
)
from pipeline.findings.normalize import PathRefused, Worded, legible, of_refused, of_rejected, word
from pipeline.findings.transitions import CodeState, Fix, Upshot, upshot

RELATED = "related"
_NEAR = 20  # lines around a finding in which what was changed is taken for its fix


@dataclass(frozen=True, slots=True)
class PassInfo:
    """What a pass is about, and where it was done."""

    root: Path  # of the repository
    environment: Mapping[str, str]
    at: str  # ISO 8601
    seconds: int  # the same, since 1970
    head: str = ""
    tree: str = ""  # of the files as they are, where no commit says so
    branch: str = ""
    base: str = ""
    task: str = ""
    skill: str = "code-review"
    caller: str = ""
    mode: Literal["full", "quick", "verify"] = "full"
    scope: str = "changeset"
    target: str = ""
    round: int = 1
    run: str = ""
    stage: str = ""
    visit: int = 0
    changed_paths: tuple[str, ...] | None = None  # None: everything is new
    started: str = ""  # when the review began, where that is not `at`
    tree_changed: bool = False  # whether the files changed since then


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What a pass came to."""

    passed: Pass
    events: tuple[LedgerEvent, ...]
    drafts: tuple[Finding, ...]
    upshot: Upshot


def ingest(
    returns: Iterable[ReviewerReport], ledger: Ledger, about: PassInfo, policy: Policy, judge: Judge | None = None
) -> IngestResult:
    """Make events of what reviewers and tools returned. Nothing is written."""
    return recognise(assessed(returns, ledger, about, policy, judge), ledger, about)


@dataclass(frozen=True, slots=True)
class IntakeAssessment:
    """What a pass came to, before it is known which findings are new."""

    drafts: tuple[Finding, ...]  # the worst first; the first vote of each is of the item that survives
    entries: tuple[ItemOutcome, ...]  # one for each raw item
    coverage: Coverage
    withheld: tuple[Finding, ...] = ()  # reported, and not shown: what they are about is not gone
    related: tuple[Pair, ...] = ()  # drafts that may be one defect: nobody was asked
    declined: tuple[Pair, ...] = ()  # drafts that somebody judged to be two


def assessed(
    returns: Iterable[ReviewerReport], ledger: Ledger, about: PassInfo, policy: Policy, judge: Judge | None = None
) -> IntakeAssessment:
    """What was returned, checked and merged."""
    return assess(
        tuple(returns),
        RepositoryFiles(about.root),
        policy,
        _passed(about, ledger),
        judge=judge,
        changed_paths=about.changed_paths,
    )


def recognise(assessment: IntakeAssessment, ledger: Ledger, about: PassInfo) -> IngestResult:
    """What was assessed, put beside what is known."""
    history = GitHistory(about.root, about.environment)
    shown, entries, related = len(assessment.drafts), assessment.entries, assessment.related
    passed = replace(_passed(about, ledger), coverage=assessment.coverage)
    drafts = add_fingerprints((*assessment.drafts, *assessment.withheld), history)
    del assessment  # its drafts are not needed any more, and may be very many
    maps = line_maps(ledger, history, about.tree)
    matching = match(tuple(ledger.findings.values()), drafts, maps)
    ground = CodeState(history, maps, tuple(_fixes(ledger, maps)))
    result = upshot(ledger, matching, drafts, passed, about.at, ground, range(shown, len(drafts)))
    fates = _withheld(entries, drafts, result)
    whole = replace(
        passed,
        entries=fates,
        coverage=_looked_at(passed.coverage, fates),
        finding_ids=tuple(dict.fromkeys(id for id in result.ids[:shown] if id)),
    )
    events = (PassRecorded(at=about.at, assessment=whole), *result.events, *_related(related, ledger, result, about.at))
    return IngestResult(whole, events, drafts[:shown], result)


def _pass_id(about: PassInfo, ledger: Ledger) -> PassId:
    """By time and commit; a later second where that is another's."""
    commit = about.head[:7] or "0000000"
    seconds = about.seconds
    while PassId(f"REV-{seconds}-{commit}") in ledger.passes:
        seconds += 1
    return PassId(f"REV-{seconds}-{commit}")


def review_id(passed: Pass) -> str:
    """The id of a pass in a verdict file: eight hexadecimal digits."""
    return sha256(passed.id.encode()).hexdigest()[:8]


def _passed(about: PassInfo, ledger: Ledger) -> Pass:
    """A pass before anything is made of it."""
    return Pass(
        id=_pass_id(about, ledger),
        started_at=about.started or about.at,
        skill=about.skill,
        task=about.task,
        branch=about.branch,
        base=about.base,
        head=about.head,
        tree=about.tree,
        round=about.round,
        caller=about.caller,
        mode=about.mode,
        scope=about.scope,
        target=about.target,
        run=about.run,
        stage=about.stage,
        visit=about.visit,
        ext={record.FORMAT: {record.TREE_CHANGED: True}} if about.tree_changed else {},
    )


def _withheld(entries: Sequence[ItemOutcome], drafts: Sequence[Finding], result: Upshot) -> tuple[ItemOutcome, ...]:
    """The entries, with those that were known and dismissed told as such."""
    dismissed = {drafts[index].votes[0].input_id: reason for index, reason in result.suppressed.items()}
    return tuple(
        replace(entry, disposition=Disposition.SUPPRESSED, reason=dismissed[entry.input_id])
        if entry.disposition in (Disposition.SURVIVING, Disposition.REJECTED) and entry.input_id in dismissed
        else entry
        for entry in entries
    )


def _looked_at(coverage: Coverage, entries: Iterable[ItemOutcome]) -> Coverage:
    """The coverage, where every unreadable item of a reviewer that somebody dismissed counts as looked at."""
    left = {entry.input_id.rpartition("#")[0] for entry in entries if entry.disposition is Disposition.REJECTED}
    done = [name for name, status in coverage.reviewers.items() if status is ReportStatus.PARTIAL and name not in left]
    if not done:
        return coverage
    reviewers = coverage.reviewers | dict.fromkeys(done, ReportStatus.RETURNED)
    problems = {name: problem for name, problem in coverage.problems.items() if name not in done}
    return replace(coverage, reviewers=reviewers, problems=problems)


def _related(pairs: Iterable[Pair], ledger: Ledger, result: Upshot, at: str) -> Iterator[LinkAdded]:
    for one, other in pairs:
        id, to = result.ids[one], result.ids[other]
        known = ledger.findings.get(FindingId(id))
        linked = known is not None and any((link.kind, link.to) == (RELATED, to) for link in known.links)
        if id and to and id != to and not linked:
            yield LinkAdded(at=at, id=FindingId(id), link=Link(kind=RELATED, to=to))


def _fixes(ledger: Ledger, maps: Mapping[str, LineMap]) -> Iterator[Fix]:
    """What was written around findings that are said to be fixed, as far as git can tell."""
    for finding in ledger:
        lines, place = maps.get(finding.pass_id), finding.location
        if finding.state is not FindingState.FIX_CLAIMED or lines is None or place is None or place.start is None:
            continue
        path, near = lines.path(place.path), lines.line(place.path, place.start) or place.start
        written = ((at, line) for at, line in lines.written() if at == path and abs(line - near) <= _NEAR)
        yield Fix(finding.id, frozenset(written))


def assess(
    returns: Sequence[ReviewerReport],
    sources: SourceFiles,
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


def _placed(
    returns: Iterable[ReviewerReport], sources: SourceFiles, policy: Policy
) -> tuple[list[Placed], list[Placed]]:
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


def _read(claim: RawFinding, sources: SourceFiles) -> Worded | PathRefused:
    worded = word(claim)
    return worded if isinstance(worded, PathRefused) else with_paths(worded, sources)


def _file(worded: Worded) -> str:
    return next((item.path for item in named(worded.claim)), "")


def _entries(sifted: Sequence[Sifted], judged: Judged) -> Iterator[ItemOutcome]:
    apart = told_apart(sifted, judged.declined)
    for index, one in enumerate(sifted):
        yield from one.entries(apart.get(index, ()))


def _legible(claim: RawFinding, sources: SourceFiles) -> Worded:
    """An unreadable claim in words that a file can hold; without its place where that is outside the repository."""
    read = _read(claim, sources)
    if isinstance(read, PathRefused):
        read = _read(replace(claim, locations=(), evidence=()), sources)
    assert not isinstance(read, PathRefused)  # noqa: S101 - it has a title, and no place
    return read


def _harmless(returns: Iterable[ReviewerReport]) -> Iterator[ItemOutcome]:
    """The items that say that nothing is wrong."""
    for item in (item for answer in returns for item in answer.unreadable if item.harmless):
        yield ItemOutcome(
            input_id=legible(item.input_id),
            disposition=Disposition.FILTERED,
            reason=legible(item.reason),
            title=legible(item.title),
        )


def _by_input(entry: ItemOutcome) -> tuple[str, int, str]:
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
