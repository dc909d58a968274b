"""One pass, from what reviewers and tools returned to ledger events.

Every raw item has exactly one outcome, and the order in which reviewers answer changes nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.findings.answers import STANDING
from pipeline.findings.cluster import cluster
from pipeline.findings.events import (
    Disposition,
    ItemOutcome,
    LedgerEvent,
    Pass,
    PassRecorded,
    Pattern,
    ReviewerVerdict,
    RulingMade,
    StateChanged,
    VotesWithdrawn,
)
from pipeline.findings.evidence import RepositoryFiles, check_evidence, named_places
from pipeline.findings.fingerprints import add_fingerprints
from pipeline.findings.ledger import Ledger, joined_to
from pipeline.findings.linemap import GitHistory, LineMap, line_maps
from pipeline.findings.match import Match, Matching, match
from pipeline.findings.merge import (
    coverage,
    decide,
    draft,
    group_equal,
    harmless_outcomes,
    item_outcomes,
    leads,
    number_equal_signatures,
    outcome,
    rank,
)
from pipeline.findings.model import (
    Finding,
    FindingId,
    FindingState,
    PassId,
    ReviewerReport,
    Strength,
)
from pipeline.findings.normalize import normalize, replace_surrogates
from pipeline.findings.transitions import CodeState, dismissed_drafts, transitions

_PATTERN_FIELDS = ("name", "location", "rationale", "destination")
_NEAR_FIX = 20  # lines around a finding in which a change counts as its fix


@dataclass(frozen=True, slots=True)
class IngestResult:
    """A pass, its events, and the findings that it is about."""

    passed: Pass
    events: tuple[LedgerEvent, ...]
    findings: tuple[Finding, ...]  # raised or seen and not dismissed, the worst first; a cluster is its leader


# The events of a reviewer's answers about known findings, given the ledger and the ids of what it reports.
Respond = Callable[[Ledger, frozenset[str]], Iterable[LedgerEvent]]


def ingest(
    reports: Iterable[ReviewerReport],
    ledger: Ledger,
    passed: Pass,
    root: Path,
    environ: Mapping[str, str],
    at: str,
    respond: Respond = lambda *_: (),
    asked: Sequence[FindingId] = (),
) -> IngestResult:
    """Turn what reviewers and tools returned into ledger events. Reads the repository, writes nothing.

    `passed` says what was reviewed; the result adds what became of it. The events of `respond` come first, and the pass
    takes them for granted. Of the findings that a reviewer was `asked` to rule on, those that it passes over count as
    reported again: silence takes nothing back.
    """
    reports, files = tuple(reports), RepositoryFiles(root)
    raw = [item for report in reports for item in normalize(report, files)]
    raw.sort(key=lambda item: next((place.path for place in named_places(item)), ""))  # so that a file is read once
    groups = group_equal(check_evidence(item, files) for item in raw)
    del raw  # a hundred thousand items are not kept twice
    drafts = add_fingerprints(number_equal_signatures([draft(group, passed) for group in groups]), files)

    # Git is asked only if lines matter: a stage that fails in prose has none.
    located = any(one.locations for one in (*drafts, *ledger.findings.values()))
    maps = line_maps(ledger, GitHistory(root, environ), passed.tree) if located else {}
    matching = match(tuple(ledger.findings.values()), drafts, maps)
    answers = tuple(respond(ledger, frozenset(ledger.leader(one.known) for one in matching.matches)))
    ledger = ledger.extended(answers)
    ruled = {event.id for event in answers if isinstance(event, RulingMade)}
    matching = replace(matching, unseen=tuple(id for id in matching.unseen if ledger.leader(id) not in ruled))
    drafts, matching = _with_findings_of_this_round(drafts, matching, ledger, passed)
    dismissed = dismissed_drafts(ledger, matching.matches, drafts, at)
    decisions = decide(drafts, _leaders(drafts, matching, ledger, dismissed), dismissed)

    items = [*harmless_outcomes(reports), *item_outcomes(groups, decisions)]
    passed = replace(
        passed,
        entries=tuple(sorted(items, key=_by_input)),
        coverage=coverage(reports, groups, decisions),
        patterns=tuple(_patterns(reports)),
        reviewer_verdicts=tuple(_verdicts(reports)),
    )
    checked = _checked(reports)
    del reports, groups, drafts, items  # as above

    code = CodeState(files, maps, dict(_fixed_lines(ledger, maps)))
    events, found = transitions(ledger, matching, decisions, passed, at, code, checked)
    kept = (index for index in range(len(decisions.drafts)) if decisions.is_kept(index))
    leading = [index for index in kept if index not in decisions.leaders]
    leading.sort(key=lambda index: rank(decisions.whole(index)))
    reported = [found[index].id for index in leading]
    shown = tuple(found[index] for index in leading if index not in dismissed)
    standing = [event.id for event in answers if isinstance(event, RulingMade) and event.ruling in STANDING]
    settled = ruled.union(event.id for event in events if isinstance(event, StateChanged | VotesWithdrawn))
    standing += (id for id in asked if id not in settled)
    ids = {finding.id for finding in shown}
    shown += tuple(ledger.findings[id] for id in dict.fromkeys(standing) if id not in ids)
    passed = replace(passed, finding_ids=tuple(dict.fromkeys((*reported, *(finding.id for finding in shown)))))
    return IngestResult(passed, (*answers, PassRecorded(at=at, assessment=passed), *events), shown)


def _checked(reports: Iterable[ReviewerReport]) -> dict[str, frozenset[str] | None]:
    """By reviewer, the tool's ids of what it checked; None is everything."""
    found: dict[str, frozenset[str] | None] = {}
    for report in reports:
        before = found.get(report.reviewer, frozenset())
        found[report.reviewer] = None if before is None or report.checked is None else before | report.checked
    return found


def new_pass_id(ledger: Ledger, seconds: int, head: str) -> PassId:
    """The id of a pass at a time, in seconds since 1970, and a commit; of a later second if that is taken."""
    while (id := PassId(f"REV-{seconds}-{head[:7] or '0000000'}")) in ledger.passes:
        seconds += 1
    return id


def _with_findings_of_this_round(
    drafts: tuple[Finding, ...], matching: Matching, ledger: Ledger, passed: Pass
) -> tuple[tuple[Finding, ...], Matching]:
    """The drafts, and the open findings that other reviews of the same run reported of the same code.

    Each review of a run is a pass, but together they are one assessment: a new draft joins a cluster with what another
    review just reported. Only findings that a draft belongs to are added; a match makes them count as reported.
    """
    matched = {one.known for one in matching.matches}
    reported = [
        finding
        for finding in (ledger if passed.run else ())
        if finding.id not in matched
        and finding.state.active
        and not finding.unreadable
        and outcome(finding)[0] is Disposition.SURVIVING
        and _is_same_round(ledger.passes.get(finding.pass_id), passed)
    ]
    if not reported:
        return drafts, matching
    new = [drafts[index] for index in matching.new if not drafts[index].unreadable and not drafts[index].suppression]
    groups = [[(*new, *reported)[at] for at in group] for group in cluster([*new, *reported])]
    clustered = [[one for one in group if one.id] for group in groups if not all(one.id for one in group)]
    added = [min(known, key=leads) for known in clustered if known]
    matches = (Match(len(drafts) + at, one.id, Strength.CONTENT) for at, one in enumerate(added))
    return (*drafts, *added), replace(matching, matches=(*matching.matches, *matches))


def _is_same_round(earlier: Pass | None, passed: Pass) -> bool:
    """Whether an earlier pass of the same run saw the same code; without git, whether it was in the same round."""
    if earlier is None or earlier.run != passed.run:
        return False
    if not passed.head and not passed.tree:
        return earlier.round == passed.round
    return (earlier.head, earlier.tree) == (passed.head, passed.tree)


def _leaders(
    drafts: Sequence[Finding], matching: Matching, ledger: Ledger, dismissed: Mapping[int, str]
) -> dict[int, int]:
    """The leader of every draft that is a member of a cluster.

    Known findings are clustered as the ledger has them: a person may have split or joined them. A new draft joins a
    known finding of its cluster before it joins a new one.
    """
    known = {one.draft: one.known for one in matching.matches}
    free = [
        index
        for index, finding in enumerate(drafts)
        if index not in dismissed and not finding.unreadable and finding.suppression is None
    ]

    def order(index: int) -> tuple[object, ...]:
        member = index in known and bool(joined_to(ledger.findings[known[index]]))
        return index not in known, member, leads(drafts[index])

    joined = defaultdict[FindingId, list[int]](list)
    for index in free:
        if index in known:
            joined[ledger.leader(known[index])].append(index)
    leaders: dict[int, int] = {}
    for indices in joined.values():
        leader = min(indices, key=order)
        leaders |= {index: leader for index in indices if index != leader}
    for group in cluster([drafts[index] for index in free]):
        indices = [free[at] for at in group]
        first = min(indices, key=order)
        leader = leaders.get(first, first)
        leaders |= {index: leader for index in indices if index not in known and index != leader}
    return leaders


def _patterns(reports: Iterable[ReviewerReport]) -> Iterator[Pattern]:
    """What reviewers found worth repeating, each once, numbered."""
    named = dict.fromkeys(tuple(sorted(one.items())) for report in reports for one in report.patterns)
    for number, fields in enumerate(named, 1):
        known = {key: replace_surrogates(value) for key, value in fields}
        yield Pattern(id=f"P{number}", **{key: known.get(key, "") for key in _PATTERN_FIELDS})


def _verdicts(reports: Iterable[ReviewerReport]) -> Iterator[ReviewerVerdict]:
    """The verdicts of reviewers on the whole change."""
    for report in reports:
        if report.verdict:
            name, argument = replace_surrogates(report.reviewer), replace_surrogates(report.argument)
            yield ReviewerVerdict(reviewer=name, verdict=report.verdict, argument=argument)


def _by_input(item: ItemOutcome) -> tuple[str, int, str]:
    """`lint#2` comes before `lint#10`."""
    reviewer, _, number = item.input_id.rpartition("#")
    return reviewer, int(number) if number.isdecimal() and len(number) < 10 else 0, item.input_id


def _fixed_lines(ledger: Ledger, maps: Mapping[str, LineMap]) -> Iterator[tuple[tuple[str, int], FindingId]]:
    """The lines written around findings that are said to be fixed, as far as git can tell."""
    for finding in ledger:
        lines, place = maps.get(finding.pass_id), finding.location
        if finding.state is not FindingState.FIX_CLAIMED or lines is None or place is None or place.start is None:
            continue
        path, near = lines.path(place.path), lines.line(place.path, place.start) or place.start
        for at, line in lines.written():
            if at == path and abs(line - near) <= _NEAR_FIX:
                yield (at, line), finding.id
