"""From checked raw findings to the findings of a pass: equal items merged, confidence promoted, the gate applied.

Nothing is asserted that nobody asserted: severity and confidence come from one item together, and what the others said
stays as votes. The confidence gate comes late on purpose: two doubtful items that agree are worth one that is not.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from posixpath import dirname
from typing import Any, TypeVar

from pipeline.findings.events import Coverage, Disposition, ItemOutcome, Pass
from pipeline.findings.fingerprints import raw_signature, signature
from pipeline.findings.model import (
    UNREADABLE,
    AutofixClass,
    Confidence,
    Evidence,
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
from pipeline.findings.normalize import MAX_PARTS, replace_surrogates, title_key
from pipeline.findings.scales import ANCHORS, confidence_from_anchor, confidence_to_anchor

NEAR = 3  # lines between two items about one defect
LEAST = 75  # the confidence of a finding that is reported
LEAST_CRITICAL = 50  # a critical finding must not be lost to a doubt
_PROMOTED = 50  # the least confidence that agreement raises
_SOFT_SOURCES = frozenset({"testing", "maintainability"})
_CLASSES = (AutofixClass.SAFE_AUTO, AutofixClass.GATED_AUTO, AutofixClass.MANUAL)  # the most careful last
_OWNERS = tuple(Owner)  # the most careful last
_WORDS = ("impact", "fix", "plain_title", "reproduction", "min_fix_scope", "why_it_works")
_FROM_WORST = (
    ReportStatus.MISSING, ReportStatus.MALFORMED, ReportStatus.PARTIAL, ReportStatus.RETURNED, ReportStatus.EMPTY,
)  # fmt: skip
_MUST, _SUGGEST = GateDecision(value=Gate.MUST), GateDecision(value=Gate.SUGGEST)
_Part = TypeVar("_Part")


# --- equal items -----------------------------------------------------------------------------------------------------


def group_equal(findings: Iterable[RawFinding]) -> list[list[RawFinding]]:
    """Items of one title at most three lines from the first of them, the item that decides first in each group.

    Distance is never added up. A tool that names two lines means two defects. Unreadable items are equal only if one
    reviewer returned the same text twice.
    """
    same_line = defaultdict[tuple[Any, ...], list[RawFinding]](list)
    for finding in sorted(findings, key=_order):
        same_line[_place_and_title(finding)].append(finding)
    groups: list[list[RawFinding]] = []
    nearby = defaultdict[tuple[Any, ...], list[list[RawFinding]]](list)  # by path and title, those within reach
    for (path, start, *title), members in same_line.items():
        near = [group for group in nearby[path, *title] if start is not None and start - _start(group[0]) <= NEAR]
        into = next((group for group in near if _tools(group).isdisjoint(_tools(members))), None)
        if into is None:
            groups.append(members)
            near.append(members)
        else:
            into += members
        nearby[path, *title] = near
    return [sorted(group, key=lambda item: (_precedence(item), _order(item))) for group in groups]


def _place_and_title(finding: RawFinding) -> tuple[Any, ...]:
    """What equal items share: path, line and title; without a line, also the symbol and the quoted words."""
    if finding.unreadable:
        return "", None, finding.reviewer, finding.impact
    place = finding.locations[0] if finding.locations else None
    path, start, title = place.path if place else "", place.start if place else None, title_key(finding.title)
    if start is not None:
        return path, start, title
    return path, None, title, place.symbol if place else "", next((i.quote for i in finding.evidence if i.quote), "")


def _order(finding: RawFinding) -> tuple[Any, ...]:
    """An order that does not depend on who answered first."""
    place = finding.locations[0] if finding.locations else None
    return (
        *((place.path, place.start or 0, place.end or 0) if place else ("", 0, 0)),
        *(title_key(finding.title), finding.title, finding.severity.rank, -finding.confidence.value, finding.category),
        *(finding.reviewer, finding.input_id, finding.impact, finding.fix or ""),
    )


def _start(finding: RawFinding | Finding) -> int:
    return finding.locations[0].start or 0 if finding.locations else 0


def _tools(group: Iterable[RawFinding]) -> frozenset[str]:
    return frozenset(item.reviewer for item in group if item.by_tool)


def _precedence(item: RawFinding | Finding) -> tuple[int, ...]:
    """Who decides severity and confidence: the worst of those sure enough to be reported, else the surest."""
    worst, surest = item.severity.rank, -item.confidence.value
    return (0, worst, surest) if passes(item.severity, item.confidence) else (1, surest, worst)


def draft(group: Sequence[RawFinding], passed: Pass) -> Finding:
    """One finding out of equal items, the first of which decides. It has no id yet, and its gate is not decided."""
    lead = group[0]
    evidence = _union(item.evidence for item in group)
    texts = {name: text for item in reversed(group) for name in _WORDS if (text := getattr(item, name))}
    ext = {name: value for item in reversed(group) for name, value in item.ext.items()}
    sources = tuple(sorted({item.reviewer for item in group}))
    return Finding(
        id=FindingId(""),
        signature=raw_signature(lead.reviewer, lead.impact)
        if lead.unreadable
        else signature(lead.category, evidence, lead.title),
        fingerprints={name: id for item in reversed(group) for name, id in item.tool_ids.items()},
        title=lead.title,
        scope=lead.scope or dirname(lead.locations[0].path if lead.locations else ""),
        **texts,
        regression_tests=tuple(dict.fromkeys(test for item in group for test in item.regression_tests)),
        category=lead.category,
        severity=lead.severity,
        confidence=promote(lead.confidence, len(sources)),
        autofix_class=_most_careful_class(item.autofix_class for item in group),
        owner=max((item.owner for item in group), key=_OWNERS.index),
        requires_verification=any(item.requires_verification for item in group),
        pre_existing=all(item.pre_existing for item in group),
        system_breaking=any(item.system_breaking for item in group),
        locations=_union(item.locations for item in group),
        evidence=evidence,
        votes=tuple(_vote(item, passed) for item in group),
        sources=sources,
        lens=lead.lens,
        task=passed.task,
        agreement=len(sources),
        **_state(group),
        pass_id=passed.id,
        created_at=passed.started_at,
        updated_at=passed.started_at,
        ext=ext | ({UNREADABLE: lead.unreadable} if lead.unreadable else {}),
    )


def _state(group: Sequence[RawFinding]) -> dict[str, Any]:
    """Open, unless its source knows better or suppresses it, or nothing in the code supports it."""
    lead = group[0]
    if lead.unreadable:
        return {"state": FindingState.UNCERTAIN}
    given = next((item.state for item in group if item.state), None)
    if all(item.suppressed is not None for item in group):
        state = given if given and given.dismissed else FindingState.WONT_FIX
        return {"state": state, "suppression": Suppression(reason=lead.suppressed or "", by=lead.reviewer)}
    uncertain = all(item.uncertain for item in group)
    return {"state": given or (FindingState.UNCERTAIN if uncertain else FindingState.OPEN)}


def _vote(item: RawFinding, passed: Pass) -> Vote:
    return Vote(
        reviewer=item.reviewer,
        pass_id=passed.id,
        stage=item.stage or passed.stage,
        run=passed.run,
        title=item.title,
        severity=item.severity,
        confidence=item.confidence.value,
        autofix_class=item.autofix_class,
        owner=item.owner,
        action=item.action,
        input_id=item.input_id,
        tool=item.by_tool,
    )


def number_equal_signatures(drafts: Sequence[Finding]) -> list[Finding]:
    """The drafts with signatures of their own: equal ones are counted by line, which an edit elsewhere leaves alone."""
    equal = defaultdict[str, list[int]](list)
    for index, finding in enumerate(drafts):
        equal[finding.signature].append(index)
    done = list(drafts)
    for indices in equal.values():
        if len(indices) > 1:
            indices.sort(key=lambda index: (_start(drafts[index]), drafts[index].votes[0].input_id))
        for nth, index in enumerate(indices[1:], 1):
            one = drafts[index]
            evidence = (*one.evidence, Evidence(path=one.location.path if one.location else ""))
            done[index] = replace(one, signature=signature(one.category, evidence, one.title, nth=nth))
    return done


# --- clusters, promotion and the gate --------------------------------------------------------------------------------


def lead_cluster(leader: Finding, members: Sequence[Finding]) -> Finding:
    """The leader of a cluster with the votes of its members, as severe and as careful as any of them asks for.

    Members that are sure enough to be reported decide its severity and its age; those that are not only agree.
    """
    every = (leader, *members)
    sure = [finding for finding in every if passes(finding.severity, finding.confidence)] or every
    votes = tuple(vote for finding in every for vote in finding.votes)
    others = sorted({source for member in members for source in member.sources})
    sources = tuple(dict.fromkeys((*leader.sources, *others)))  # its own first: a verdict file names it by that
    first = min(every, key=_precedence)
    return replace(
        leader,
        severity=first.severity,
        confidence=promote(first.confidence, len(sources)) if first.agreement < 2 else first.confidence,
        votes=votes,
        sources=sources,
        agreement=len(sources),
        autofix_class=_most_careful_class(finding.autofix_class for finding in every),
        owner=max((finding.owner for finding in every), key=_OWNERS.index),
        requires_verification=any(finding.requires_verification for finding in every),
        system_breaking=any(finding.system_breaking for finding in every),
        pre_existing=all(finding.pre_existing for finding in sure),
    )


def leads(finding: Finding) -> tuple[Any, ...]:
    """The order in which findings lead a cluster: the worst of those sure enough to be reported first."""
    return (_precedence(finding), rank(finding))


def passes(severity: Severity, confidence: Confidence) -> bool:
    """Whether a finding is sure enough to be reported."""
    return confidence.value >= (LEAST_CRITICAL if severity is Severity.CRITICAL else LEAST)


def promote(confidence: Confidence, agreement: int) -> Confidence:
    """One step more if independent reviewers agree; a speculation stays one."""
    anchor = confidence_to_anchor(confidence)
    if agreement < 2 or anchor < _PROMOTED or anchor == ANCHORS[-1]:
        return confidence
    return confidence_from_anchor(ANCHORS[ANCHORS.index(anchor) + 1])


@dataclass(frozen=True, slots=True)
class Decisions:
    """The drafts of a pass and what becomes of them, by their index."""

    drafts: tuple[Finding, ...]
    outcomes: tuple[tuple[Disposition, str], ...]
    leaders: Mapping[int, int]  # of each member of a cluster
    clusters: Mapping[int, Finding]  # by leader: its draft with the votes of its members
    dismissed: Mapping[int, str]  # drafts that a dismissal covers, and why

    def is_kept(self, index: int) -> bool:
        """Whether a draft is a finding of the pass, dismissed or not; a known one is only if a new one joined it."""
        if self.drafts[index].id and index not in self.clusters:
            return False
        return self.outcomes[index][0] not in (Disposition.FILTERED, Disposition.DEMOTED)

    def whole(self, index: int) -> Finding:
        """The draft of a cluster's leader, or the draft itself."""
        return self.clusters.get(self.leaders.get(index, index), self.drafts[index])


def decide(drafts: Sequence[Finding], leaders: Mapping[int, int], dismissed: Mapping[int, str]) -> Decisions:
    """Apply the gate to the drafts of a pass. A cluster that does not pass it falls apart."""
    members = defaultdict[int, list[int]](list)
    for member, leader in sorted(leaders.items()):
        members[leader].append(member)
    clusters = {leader: lead_cluster(drafts[leader], [drafts[i] for i in joined]) for leader, joined in members.items()}
    clusters = {leader: one for leader, one in clusters.items() if outcome(one)[0] is Disposition.SURVIVING}
    leaders = {member: leader for member, leader in leaders.items() if leader in clusters}
    outcomes = []
    for index, finding in enumerate(drafts):
        result = outcome(clusters.get(index, finding))
        if index in dismissed and result[0] in (Disposition.SURVIVING, Disposition.REJECTED):
            result = Disposition.SUPPRESSED, dismissed[index]
        elif index in leaders:
            result = Disposition.MERGED, f"clustered with {_name(drafts[leaders[index]])}"
        outcomes.append(result)
    return Decisions(
        drafts=tuple(with_gate(finding) for finding in drafts),
        outcomes=tuple(outcomes),
        leaders=leaders,
        clusters={leader: with_gate(finding) for leader, finding in clusters.items()},
        dismissed=dismissed,
    )


def outcome(finding: Finding) -> tuple[Disposition, str]:
    """What becomes of a finding, and why. What was there before the change is kept whatever its confidence."""
    if finding.unreadable:
        return Disposition.REJECTED, finding.unreadable
    if finding.suppression:
        return Disposition.SUPPRESSED, f"its source suppresses it: {finding.suppression.reason or 'no reason given'}"
    if finding.pre_existing:
        return Disposition.SURVIVING, "set apart: it was there before the change"
    advice = finding.autofix_class is AutofixClass.ADVISORY and finding.severity.rank >= Severity.MEDIUM.rank
    if advice and all(_SOFT_SOURCES.intersection(source.lower().split("-")) for source in finding.sources):
        section = "testing gaps" if _is_about_tests(finding) else "residual risks"
        return Disposition.DEMOTED, f"minor advice on tests or maintenance: listed under {section}"
    if not passes(finding.severity, finding.confidence):
        least = LEAST_CRITICAL if finding.severity is Severity.CRITICAL else LEAST
        return Disposition.FILTERED, f"its confidence, {confidence_to_anchor(finding.confidence)}, is below {least}"
    return Disposition.SURVIVING, "kept"


def with_gate(finding: Finding) -> Finding:
    """The finding with the decision whether it blocks the change."""
    must = finding.unreadable or (
        finding.severity.rank <= Severity.HIGH.rank
        and not finding.pre_existing
        and finding.suppression is None
        and finding.autofix_class is not AutofixClass.ADVISORY
        and passes(finding.severity, finding.confidence)
    )
    gate = _MUST if must else _SUGGEST
    return finding if finding.gate == gate else replace(finding, gate=gate)


def rank(finding: Finding) -> tuple[Any, ...]:
    """What findings of a pass are sorted by: the worst and surest first, then by place."""
    place, first = finding.location, finding.votes[0]
    where = (place.path, place.start or 0) if place else ("", 0)
    return (finding.severity.rank, -finding.confidence.value, *where, finding.title, first.reviewer, first.input_id)


def _is_about_tests(finding: Finding) -> bool:
    return any("testing" in source.lower().split("-") for source in finding.sources)


# --- what became of every item, and what was covered -----------------------------------------------------------------


def item_outcomes(groups: Sequence[Sequence[RawFinding]], decisions: Decisions) -> Iterator[ItemOutcome]:
    """The outcome of every item of every group."""
    for index, group in enumerate(groups):
        lead = group[0]
        disposition, reason = decisions.outcomes[index]
        leader = decisions.leaders.get(index)
        into = "" if leader is None else _name(decisions.drafts[leader])
        reasons = [reason, *_changes(lead, decisions.clusters.get(index, decisions.drafts[index]))]
        for item in group:
            if item is not lead:
                where = f"within {NEAR} lines" if _start(item) != _start(lead) else "same line"
                reasons = ["same text" if item.unreadable else f"same title, {where}"]
                disposition, into = Disposition.MERGED, into or lead.input_id
            text = "; ".join([*reasons, *item.notes])
            yield ItemOutcome(input_id=item.input_id, disposition=disposition, reason=text, into=into, title=item.title)


def _name(leader: Finding) -> str:
    """What members of a cluster name their leader by: the id of a known finding, else its item."""
    return leader.id or leader.votes[0].input_id


def harmless_outcomes(reports: Iterable[ReviewerReport]) -> Iterator[ItemOutcome]:
    """The outcome of items that say nothing is wrong."""
    for item in (item for report in reports for item in report.unreadable if item.harmless):
        yield ItemOutcome(
            input_id=replace_surrogates(item.input_id),
            disposition=Disposition.FILTERED,
            reason=replace_surrogates(item.reason),
            title=replace_surrogates(item.title),
        )


def _changes(lead: RawFinding, finding: Finding) -> Iterator[str]:
    """What the agreement of reviewers changed, and where they disagree."""
    before, after = lead.confidence.value, finding.confidence.value
    if before != after:
        yield f"confidence raised from {before} to {after}: {finding.agreement} independent reviewers agree"
    votes = sorted({(vote.severity.rank, vote.reviewer, str(vote.severity)) for vote in finding.votes})
    if len({severity for _, _, severity in votes}) > 1:
        rated = ", ".join(f"{reviewer} ({severity})" for _, reviewer, severity in votes)
        yield f"{rated}: {finding.severity} kept"


def coverage(
    reports: Sequence[ReviewerReport], groups: Sequence[Sequence[RawFinding]], decisions: Decisions
) -> Coverage:
    """Who answered and what was looked at. Silence never counts as a look.

    A reviewer with unreadable items that are not dismissed answered in part. What was demoted is listed as a note.
    """
    rejected = (group for at, group in enumerate(groups) if decisions.outcomes[at][0] is Disposition.REJECTED)
    unreadable = {item.input_id for group in rejected for item in group}
    reviewers: dict[str, ReportStatus] = {}
    problems = defaultdict[str, list[str]](list)
    whole, unnamed, failed = set[str](), set[str](), set[str]()
    for report in sorted(reports, key=lambda report: (report.reviewer, report.problem)):
        name, file = replace_surrogates(report.reviewer), replace_surrogates(report.file)
        ids = [*(item.input_id for item in report.findings), *(item.input_id for item in report.unreadable)]
        lost = sum(id in unreadable for id in ids)
        status = ReportStatus.PARTIAL if lost and report.status.answered else report.status
        reviewers[name] = min(status, reviewers.get(name, status), key=_FROM_WORST.index)
        notes = (report.problem, f"{lost} of {report.inputs} items cannot be read" if lost else "")
        problems[name] += [replace_surrogates(note) for note in notes if note]
        if status.answered:
            whole.add(file)
        if not report.status.answered:
            failed.add(file)
        if report.file == report.reviewer and report.problem:
            unnamed.add(file)
    looked = [report.covered for report in reports if report.status.answered]
    everything = any(paths is None for paths in looked)
    gaps = {replace_surrogates(text) for report in reports for text in report.testing_gaps}
    risks = {replace_surrogates(text) for report in reports for text in report.residual_risks}
    for finding, (kind, _) in zip(decisions.drafts, decisions.outcomes, strict=True):
        if kind is Disposition.DEMOTED:
            place = finding.location.path_line if finding.location else "no place"
            (gaps if _is_about_tests(finding) else risks).add(f"{place} -- {finding.title}")
    return Coverage(
        reviewers=reviewers,
        problems={name: "; ".join(texts) for name, texts in problems.items() if texts},
        testing_gaps=tuple(sorted(gaps)),
        residual_risks=tuple(sorted(risks)),
        paths=None if everything else tuple(sorted({path for paths in looked for path in paths or ()})),
        files=tuple(sorted(whole - failed - {""})),
        unnamed=tuple(sorted(unnamed - {""})),
    )


# --- helpers ---------------------------------------------------------------------------------------------------------


def _most_careful_class(classes: Iterable[AutofixClass]) -> AutofixClass:
    """The most careful of some classes; advisory only if all say so."""
    actionable = set(classes) - {AutofixClass.ADVISORY}
    return max(actionable, key=_CLASSES.index, default=AutofixClass.ADVISORY)


def _union(parts: Iterable[tuple[_Part, ...]]) -> tuple[_Part, ...]:
    """All of them once, in their order, up to what a finding holds."""
    return tuple(islice(dict.fromkeys(chain.from_iterable(parts)), MAX_PARTS))
