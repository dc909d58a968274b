"""One pass, from what was returned to the events it makes: assessed, recognised, and put beside what is known."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

from pipeline.findings.claims import Return, Returned
from pipeline.findings.codecs import record
from pipeline.findings.events import AnyEvent, Assessed, Linked
from pipeline.findings.identity.cascade import match
from pipeline.findings.identity.ground import Fix, Ground
from pipeline.findings.identity.history import GitHistory, line_maps
from pipeline.findings.identity.linemap import LineMap
from pipeline.findings.identity.texts import fingerprinted
from pipeline.findings.identity.upshot import Upshot, upshot
from pipeline.findings.intake.assess import IntakeAssessment, assess
from pipeline.findings.intake.files import RepositoryFiles
from pipeline.findings.intake.group import Pair
from pipeline.findings.intake.judging import Judge
from pipeline.findings.intake.policy import Policy
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState, Link, PassId
from pipeline.findings.passes import Coverage, Disposition, Entry, Pass

RELATED = "related"
_NEAR = 20  # lines around a finding in which what was changed is taken for its fix


@dataclass(frozen=True, slots=True)
class About:
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
class Taken:
    """What a pass came to."""

    passed: Pass
    events: tuple[AnyEvent, ...]
    drafts: tuple[Finding, ...]
    upshot: Upshot


def take(returns: Iterable[Return], ledger: Ledger, about: About, policy: Policy, judge: Judge | None = None) -> Taken:
    """Make events of what reviewers and tools returned. Nothing is written."""
    return recognise(assessed(returns, ledger, about, policy, judge), ledger, about)


def assessed(
    returns: Iterable[Return], ledger: Ledger, about: About, policy: Policy, judge: Judge | None = None
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


def recognise(assessment: IntakeAssessment, ledger: Ledger, about: About) -> Taken:
    """What was assessed, put beside what is known."""
    history = GitHistory(about.root, about.environment)
    shown, entries, related = len(assessment.drafts), assessment.entries, assessment.related
    passed = replace(_passed(about, ledger), coverage=assessment.coverage)
    drafts = fingerprinted((*assessment.drafts, *assessment.withheld), history)
    del assessment  # its drafts are not needed any more, and may be very many
    maps = line_maps(ledger, history, about.tree)
    matching = match(tuple(ledger.findings.values()), drafts, maps)
    ground = Ground(history, maps, tuple(_fixes(ledger, maps)))
    result = upshot(ledger, matching, drafts, passed, about.at, ground, range(shown, len(drafts)))
    fates = _withheld(entries, drafts, result)
    whole = replace(
        passed,
        entries=fates,
        coverage=_looked_at(passed.coverage, fates),
        finding_ids=tuple(dict.fromkeys(id for id in result.ids[:shown] if id)),
    )
    events = (Assessed(at=about.at, assessment=whole), *result.events, *_related(related, ledger, result, about.at))
    return Taken(whole, events, drafts[:shown], result)


def _pass_id(about: About, ledger: Ledger) -> PassId:
    """By time and commit; a later second where that is another's."""
    commit = about.head[:7] or "0000000"
    seconds = about.seconds
    while PassId(f"REV-{seconds}-{commit}") in ledger.passes:
        seconds += 1
    return PassId(f"REV-{seconds}-{commit}")


def review_id(passed: Pass) -> str:
    """The id of a pass in a verdict file: eight hexadecimal digits."""
    return sha256(passed.id.encode()).hexdigest()[:8]


def _passed(about: About, ledger: Ledger) -> Pass:
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


def _withheld(entries: Sequence[Entry], drafts: Sequence[Finding], result: Upshot) -> tuple[Entry, ...]:
    """The entries, with those that were known and dismissed told as such."""
    dismissed = {drafts[index].votes[0].input_id: reason for index, reason in result.suppressed.items()}
    return tuple(
        replace(entry, disposition=Disposition.SUPPRESSED, reason=dismissed[entry.input_id])
        if entry.disposition in (Disposition.SURVIVING, Disposition.REJECTED) and entry.input_id in dismissed
        else entry
        for entry in entries
    )


def _looked_at(coverage: Coverage, entries: Iterable[Entry]) -> Coverage:
    """The coverage, where every unreadable item of a reviewer that somebody dismissed counts as looked at."""
    left = {entry.input_id.rpartition("#")[0] for entry in entries if entry.disposition is Disposition.REJECTED}
    done = [name for name, status in coverage.reviewers.items() if status is Returned.PARTIAL and name not in left]
    if not done:
        return coverage
    reviewers = coverage.reviewers | dict.fromkeys(done, Returned.RETURNED)
    problems = {name: problem for name, problem in coverage.problems.items() if name not in done}
    return replace(coverage, reviewers=reviewers, problems=problems)


def _related(pairs: Iterable[Pair], ledger: Ledger, result: Upshot, at: str) -> Iterator[Linked]:
    for one, other in pairs:
        id, to = result.ids[one], result.ids[other]
        known = ledger.findings.get(FindingId(id))
        linked = known is not None and any((link.kind, link.to) == (RELATED, to) for link in known.links)
        if id and to and id != to and not linked:
            yield Linked(at=at, id=FindingId(id), link=Link(kind=RELATED, to=to))


def _fixes(ledger: Ledger, maps: Mapping[str, LineMap]) -> Iterator[Fix]:
    """What was written around findings that are said to be fixed, as far as git can tell."""
    for finding in ledger:
        lines, place = maps.get(finding.pass_id), finding.location
        if finding.state is not FindingState.FIX_CLAIMED or lines is None or place is None or place.start is None:
            continue
        path, near = lines.path(place.path), lines.line(place.path, place.start) or place.start
        written = ((at, line) for at, line in lines.written() if at == path and abs(line - near) <= _NEAR)
        yield Fix(finding.id, frozenset(written))
