"""Taking in a pass: all answers of those who looked at one tree together, once, as ledger events.

Every item has exactly one outcome, and the order in which reviewers answered changes nothing.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from posixpath import dirname
from typing import Any

from pipeline.findings import gate as gates
from pipeline.findings import lines, rulings
from pipeline.findings.drafts import prepare
from pipeline.findings.events import (
    Coverage,
    Disposition,
    FindingChanged,
    FindingRaised,
    ItemOutcome,
    LedgerEvent,
    Look,
    Pass,
    PassRecorded,
    Pattern,
)
from pipeline.findings.evidence import RepositoryFiles
from pipeline.findings.fingerprints import VERDICT, evidence_digest, finding_id, norm_quote, same_evidence
from pipeline.findings.formats.items import unreadable_draft
from pipeline.findings.gate import GateResult
from pipeline.findings.git import object_names
from pipeline.findings.ledger import Ledger, findings_about, passes_about
from pipeline.findings.linemap import GitHistory, line_maps
from pipeline.findings.match import Match, Strength, match, quotes_no_code
from pipeline.findings.model import (
    Actor,
    AutofixClass,
    Draft,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    PassId,
    Report,
    ReportStatus,
    Suppression,
    What,
)
from pipeline.findings.normalize import replace_surrogates, title_key
from pipeline.findings.reports import BESIDE, PLAIN, with_drafts
from pipeline.findings.rulings import Hearing

_UNKNOWN = "it rules on a number that no finding has"
_PATTERN_FIELDS = ("name", "location", "rationale", "destination")
_TEXTS = (
    "title",
    "plain_title",
    "impact",
    "fix",
    "reproduction",
    "min_fix_scope",
    "regression_tests",
    "scope",
    "action",
)
_REPORTED = (*_TEXTS, "why_it_works", "category", "severity", "severity_text", "confidence", "autofix_class", "owner")


@dataclass(frozen=True, slots=True)
class Taken:
    """A pass with what became of every item, and its events."""

    passed: Pass
    events: tuple[LedgerEvent, ...]


def take_in(
    reports: Iterable[Report],
    ledger: Ledger,
    passed: Pass,
    root: Path,
    environ: Mapping[str, str],
    at: str,
    present: Collection[str] = (),
) -> Taken:
    """Return the events of a pass. Reads the repository, writes nothing; `passed` says what was looked at.

    `present` are those who take part in the same review, in this pass or another.
    """
    reports = tuple(sorted(_with_unknown(reports, ledger), key=lambda one: (one.reviewer, one.stage, one.file)))
    prepared, history = prepare(reports, RepositoryFiles(root)), GitHistory(root, environ)
    drafts = _judge_age(prepared.drafts, history, passed)
    groups = lines.group(drafts)
    located = any(draft.locations for draft in drafts)  # git is asked only if lines matter
    maps = line_maps(ledger, history, passed.tree) if located else {}
    own, others = _recognise(ledger, drafts, maps, reports)
    work = _Taking(ledger, passed, at, drafts, own, others, _gate(drafts, groups))

    work.report_known()
    work.raise_new(groups)
    seen = {one.known for matches in (own, others) for one in matches.values()}
    present = {*present, *(report.reviewer for report in reports)}
    untouched = _untouched(ledger, passed, reports, root, environ)
    about = {id for report in reports for id in report.asked}
    about |= {finding.id for finding in findings_about(ledger, passed.paths, passes_about(ledger, passed))}
    ruled, unruled = rulings.rule(Hearing(ledger, passed, at, reports, seen, present, about, untouched))
    fixed = {one.number for one in ledger.findings.values() if one.state is FindingState.VERIFIED_FIXED}
    outcomes = [*work.outcomes.values(), *_repeats(prepared.repeated, drafts), *_harmless(reports)]
    confirmed = (event.id for event in ruled if event.change.word in rulings.STANDING)
    passed = replace(
        passed,
        entries=tuple(sorted(outcomes, key=_by_input)),
        coverage=_coverage(reports, drafts, work.results, unruled, fixed),
        finding_ids=tuple(dict.fromkeys((*work.reported, *confirmed))),
        patterns=tuple(_patterns(reports)),
    )
    return Taken(passed, (PassRecorded(at=at, assessment=passed), *work.events, *ruled))


def _untouched(
    ledger: Ledger, passed: Pass, reports: Sequence[Report], root: Path, environ: Mapping[str, str]
) -> set[FindingId]:
    """Return the open findings of tools that a list of unknown reach does not close.

    A stage lists the same each time: what it leaves out on other files is fixed. Of an imported list nobody knows that,
    so the very file of the finding must have changed.
    """
    tools = {report.reviewer: report.stage for report in reports if report.tool}
    own = [one for one in ledger.findings.values() if one.reviewer in tools and one.tool and one.state.is_open]
    same_tree = {one.id for one in own if rulings.is_unchanged(one, ledger, passed.tree)}
    asked: list[tuple[FindingId, str, str]] = []
    for one in own:
        before, path = ledger.passes.get(PassId(one.pass_id)), one.location.path if one.location else ""
        if before and before.tree and passed.tree and path and "\n" not in path and not tools[one.reviewer]:
            asked.append((one.id, f"{before.tree}:{path}", f"{passed.tree}:{path}"))
    names = object_names(root, environ, [place for _, *places in asked for place in places]) if asked else []
    same_file = {id for (id, *_), then, now in zip(asked, names[::2], names[1::2], strict=True) if then == now}
    return same_tree | same_file


def new_pass_id(ledger: Ledger, seconds: int, head: str) -> PassId:
    """Return the id of a pass at a time, in seconds since 1970, and a commit; of a later second if that is taken."""
    commit = head[:7] or "0000000"
    if PassId(f"REV-{seconds}-{commit}") in ledger.passes and ledger.last is not None:
        seconds = max(seconds, int(ledger.last.id.split("-")[1]))  # all in between are taken as well
    while (id := PassId(f"REV-{seconds}-{commit}")) in ledger.passes:
        seconds += 1
    return id


def _with_unknown(reports: Iterable[Report], ledger: Ledger) -> Iterator[Report]:
    """Yield the reports, with an unreadable item for each defect that is still there under a number nobody has."""
    for report in reports:
        unknown = [one for one in report.rulings if one.ruling in rulings.STANDING and not ledger.by_number(one.number)]
        items = [
            unreadable_draft(f"#{one.number} {one.word}: {one.why}", f"{report.reviewer}#{at}", report.format, _UNKNOWN)
            for at, one in enumerate(unknown, len(report.drafts) + 1)
        ]
        yield with_drafts(report, items)


def _judge_age(drafts: Sequence[Draft], history: GitHistory, passed: Pass) -> Sequence[Draft]:
    """Return the drafts. The diff decides what is older than the change, whatever a reviewer says."""
    older = [draft for draft in drafts if draft.pre_existing]
    change = history.changes(passed.base, passed.tree) if older and passed.tree else None
    if change is None:
        return drafts

    def judged(draft: Draft) -> Draft:
        if not draft.pre_existing:
            return draft
        places = [place for place in (*draft.locations, *draft.evidence) if place.path and place.start]
        written = any(change.is_changed(one.path, one.start or 0, one.end or one.start or 0) for one in places)
        if places and not written:
            return draft
        note = "the change wrote its lines" if written else "no line shows that it is older than the change"
        return replace(draft, pre_existing=False, notes=(*draft.notes, note))

    return list(map(judged, drafts))


Matches = Mapping[int, Match]  # by the index of a draft


def _recognise(
    ledger: Ledger, drafts: Sequence[Draft], maps: Mapping[str, Any], reports: Iterable[Report]
) -> tuple[Matches, Matches]:
    """Return which drafts are findings of their own reviewer, and which of the rest describe those of others.

    A finding that its reviewer ruled on in the same answer, or that was dismissed, is recognised only by its name.
    What merely looks like it is another defect until somebody says otherwise: on one line "the name goes into the
    query" and "the password goes into the query" have most of their words, their place and their code in common. What
    was said without a place, such as a rejection of the change, is another one once it is closed: it was about other
    files.
    """
    ruled = {(report.reviewer, said.number) for report in reports for said in report.rulings}
    own: dict[int, Match] = {}
    others: dict[int, Match] = {}
    indices = defaultdict[str, list[int]](list)
    for index, draft in enumerate(drafts):
        indices[draft.reviewer].append(index)
    for reviewer, mine in indices.items():
        known = [finding for finding in ledger.findings.values() if finding.reviewer == reviewer]
        for one in match(known, [drafts[index] for index in mine], maps):
            finding, draft = ledger.findings[one.known], drafts[mine[one.draft]]
            if BESIDE in draft.notes and not finding.state.is_open:
                continue
            settled = finding.state.dismissed or (reviewer, finding.number) in ruled
            named = one.strength is Strength.EXACT or title_key(finding.title) == title_key(draft.title)
            own[mine[one.draft]] = one if named or not settled else replace(one, strength=Strength.DOUBTFUL)
        rest = [index for index in mine if index not in own and not drafts[index].unreadable]
        theirs = [one for one in ledger.findings.values() if one.reviewer != reviewer and not one.unreadable]
        others |= {rest[one.draft]: one for one in match(theirs, [drafts[index] for index in rest], maps)}
    return own, others


def _gate(drafts: Sequence[Draft], groups: Iterable[Sequence[int]]) -> list[GateResult]:
    """Return what becomes of every draft. Several reviewers who agree need not be as sure as one."""
    agreed = {index for group in groups if len(group) > 1 for index in group}
    return [gates.decide(draft, agreed=index in agreed) for index, draft in enumerate(drafts)]


@dataclass(slots=True)
class _Taking:
    """The events of one pass, as they come up."""

    ledger: Ledger
    passed: Pass
    at: str
    drafts: Sequence[Draft]
    own: Matches
    others: Matches
    results: list[GateResult]
    events: list[LedgerEvent] = field(default_factory=list)
    outcomes: dict[int, ItemOutcome] = field(default_factory=dict)  # by draft
    reported: list[FindingId] = field(default_factory=list)
    lines: dict[int, FindingId] = field(default_factory=dict)  # the line of work of a draft

    def report_known(self) -> None:
        """Record findings that their reviewer reported again. One below the gate changes nothing."""
        for index, one in self.own.items():
            if not one.is_sure:
                continue
            known, draft, result = self.ledger.findings[one.known], self.drafts[index], self.results[index]
            self.lines[index] = known.line
            if not result.is_kept:
                self._conclude(index, result, known.id)
                continue
            reason = _reopening_reason(known, draft, self.at)
            held = known.state.dismissed and not reason
            if held:
                why = (known.suppression and known.suppression.reason) or known.state
                result = GateResult(Disposition.SUPPRESSED, f"known as {known.id} and dismissed: {why}")
                self.results[index] = result
            self.reported.append(known.id)
            self.events.append(self._seen(known, draft, one.strength, reason, held=held))
            self._conclude(index, result, known.id)

    def raise_new(self, groups: Iterable[Sequence[int]]) -> None:
        """Raise the findings that their reviewer had not reported before, group by group."""
        taken = set[str](self.ledger.findings)
        for group in groups:
            line = next((self.lines[index] for index in group if self._is_open_line(index)), FindingId(""))
            for index in sorted(group, key=lambda index: _rank(self.drafts[index])):
                if index in self.lines or not self._is_new(index):
                    continue
                finding = self._new_finding(index, finding_id(self.drafts[index].signature, taken), line)
                taken.add(finding.id)
                joined = finding.line != finding.id
                self.lines[index] = line = finding.line
                self.events.append(FindingRaised(at=self.at, finding=finding))
                self.reported.append(finding.id)
                result = self.results[index]
                if joined and result.disposition is Disposition.SURVIVING:
                    result = GateResult(Disposition.MERGED, "part of a line of work")
                self._conclude(index, result, finding.line if joined else "")

    def _is_open_line(self, index: int) -> bool:
        """Whether a draft is a known finding that was not dismissed: others may join it."""
        one = self.own.get(index)
        return one is not None and one.is_sure and not self.ledger.findings[one.known].state.dismissed

    def _is_new(self, index: int) -> bool:
        result = self.results[index]
        if not result.is_kept:
            self._conclude(index, result)
        return result.is_kept

    def _conclude(self, index: int, result: GateResult, into: str = "") -> None:
        draft = self.drafts[index]
        text = "; ".join((result.reason, *draft.notes))
        self.outcomes[index] = ItemOutcome(
            input_id=draft.input_id, disposition=result.disposition, reason=text, into=into, title=draft.title
        )

    def _seen(self, known: Finding, draft: Draft, strength: Strength, reason: str, *, held: bool) -> FindingChanged:
        """Return the event of a finding that its reviewer reported again."""
        fields = _identity(known, draft) if held else _updates(known, draft)
        fields |= {"pass_id": self.passed.id, "input_id": draft.input_id, "stage": draft.stage or self.passed.stage}
        state, note = _state_again(known, draft, reason, held=held)
        changes = {name: value for name, value in fields.items() if value != getattr(known, name)}
        again = replace(known, **{**changes, "state": state})
        if gates.gate(again) is not known.gate:
            changes["gate"] = gates.gate(again)
        return rulings.changed(
            known,
            at=self.at,
            what=What.SEEN,
            who=draft.reviewer,
            by=Actor.ORCHESTRATOR,
            note=note or strength,
            state=state,
            pass_id=self.passed.id,
            run=self.passed.run,
            fields=replace(known, **changes).model_dump(mode="json", include=set(changes)),
        )

    def _new_finding(self, index: int, id: FindingId, line: FindingId) -> Finding:
        """Return a new finding in the line of work that it belongs to."""
        draft, doubts = self.drafts[index], list[str]()
        suppression: Suppression | None = None
        state = _state_of(draft)
        for one in filter(None, (self.own.get(index), self.others.get(index))):
            known = self.ledger.findings[one.known]
            covered = one.strength is Strength.EXACT and not _reopening_reason(known, draft, self.at)
            if one.is_sure and not known.state.dismissed:
                line = line or known.line
            elif one.is_sure and covered and known.suppression and known.suppression.by == Actor.USER:
                line, state, suppression = known.line, known.state, known.suppression
                self.results[index] = GateResult(Disposition.SUPPRESSED, f"dismissed as {known.id}")
            else:
                doubts.append(known.id)
        if draft.suppressed is not None and suppression is None:
            suppression = Suppression(reason=draft.suppressed, by=draft.reviewer, digest=evidence_digest(draft))
        finding = Finding(
            id=id,
            line=line or id,
            signature=draft.signature,
            fingerprints=dict(draft.fingerprints),
            aliases=tuple(filter(None, (draft.fingerprints.get(VERDICT, ""),))),
            reviewer=draft.reviewer,
            tool=draft.by_tool,
            stage=draft.stage or self.passed.stage,
            **{name: getattr(draft, name) for name in _REPORTED if name != "scope"},
            scope=draft.scope or dirname(draft.location.path if draft.location else ""),
            requires_verification=draft.requires_verification,
            pre_existing=draft.pre_existing,
            system_breaking=draft.system_breaking,
            locations=draft.locations,
            evidence=draft.evidence,
            lens=draft.lens,
            task=self.passed.task,
            input_id=draft.input_id,
            state=state,
            unreadable=draft.unreadable,
            pass_id=self.passed.id,
            created_at=self.at,
            updated_at=self.at,
            suppression=suppression,
            may_be=tuple(doubts),
            ext=dict(draft.ext),
        )
        return replace(finding, gate=gates.gate(finding))


def _rank(draft: Draft) -> tuple[Any, ...]:
    """Return what the drafts of a group are raised by: the worst and surest first."""
    place = draft.location
    where = (place.path, place.start or 0) if place else ("", 0)
    return draft.severity.rank, -draft.confidence.value, *where, draft.title, draft.reviewer, draft.input_id


def _state_of(draft: Draft) -> FindingState:
    """Return the state of a new finding: open, unless its source knows better or nothing supports it."""
    if draft.unreadable or draft.severity_text:
        return FindingState.UNCERTAIN
    if draft.suppressed is not None:
        return draft.state if draft.state and draft.state.dismissed else FindingState.WONT_FIX
    if draft.state:
        return draft.state
    return FindingState.UNCERTAIN if draft.uncertain else FindingState.OPEN


def _state_again(known: Finding, draft: Draft, reason: str, *, held: bool) -> tuple[FindingState, str]:
    """Return what a finding becomes when its reviewer reports it again, and why; an open one stays open."""
    if held:
        return known.state, f"reported again, and still {known.state}"
    if draft.state and not draft.state.active:
        return known.state, f"{draft.state} in a file of another program, which closes nothing"
    match known.state:
        case FindingState.FIX_CLAIMED:
            return FindingState.REOPENED, "it was said to be fixed, and it was reported again"
        case FindingState.VERIFIED_FIXED if known.failing_stage:  # perhaps for another reason
            return FindingState.REOPENED, "it fails again"
        case FindingState.VERIFIED_FIXED:
            return FindingState.REOPENED, "regression: it was fixed, and it is back"
        case FindingState.FALSE_POSITIVE | FindingState.WONT_FIX:
            return FindingState.REOPENED, reason
        case FindingState.UNCERTAIN:
            return FindingState.OPEN if _state_of(draft) is FindingState.OPEN else known.state, ""
        case _:
            return known.state, known.failures


def _reopening_reason(known: Finding, draft: Draft, at: str) -> str:
    """Return why a dismissal does not cover a new report; empty if it does."""
    dismissal = known.suppression
    again = draft.suppressed is None and not (draft.state and draft.state.dismissed)
    if again and (dismissal is None or dismissal.by == draft.reviewer):
        return f"{draft.reviewer} took it back, and reports it again"
    if dismissal and dismissal.expires and at[: len(dismissal.expires)] > dismissal.expires:
        return f"its dismissal held until {dismissal.expires}"
    symbols = {place.symbol for place in (known.location, draft.location) if place and place.symbol}
    if len(symbols) > 1:
        return "it was dismissed in another function"
    if draft.system_breaking and not known.system_breaking:
        return "it was dismissed, and now endangers the whole system"
    if draft.severity.rank < known.severity.rank:
        return f"it was dismissed as {known.severity} and is now rated {draft.severity}"
    own = {draft.location.path} if draft.location else set[str]()  # it may have been renamed
    if _named_files(draft) - _named_files(known) - own or _quotes_elsewhere(draft, known):
        return "it was raised again with other evidence"
    digest = dismissal.digest if dismissal else ""
    if not same_evidence(digest or evidence_digest(known), draft):
        return "the code that was dismissed has changed"
    return ""


def _quotes_elsewhere(draft: Draft, known: Finding) -> bool:
    """Return whether a report quotes code away from the line of the defect that the finding did not quote."""
    old = [norm_quote(item.quote) for item in known.evidence if item.quote]
    line = (draft.location.start if draft.location else None) or 0
    new = [
        norm_quote(item.quote)
        for item in draft.evidence
        if item.quote and abs((item.start or line) - line) > lines.NEAR
    ]
    return any(quote and not any(quote in one or one in quote for one in old) for quote in new)


def _named_files(finding: Finding | Draft) -> set[str]:
    return {place.path for place in (*finding.locations, *finding.evidence) if place.path}


# --- what a report changes in a known finding ------------------------------------------------------------------------


def _updates(known: Finding, draft: Draft) -> dict[str, Any]:
    """Return the fields of a finding after another report. What is left out erases nothing."""
    said = {name: getattr(draft, name) for name in _REPORTED}
    fields = {name: value for name, value in said.items() if value not in (None, "", ())}
    fields |= {
        "requires_verification": known.requires_verification or draft.requires_verification,
        "system_breaking": known.system_breaking or draft.system_breaking,
        "pre_existing": draft.pre_existing,
        "unreadable": draft.unreadable,
        "severity_text": draft.severity_text,
    }
    if not draft.by_tool and not known.unreadable:
        fields |= _not_milder(known, draft)
    return _identity(known, draft) | fields


def _not_milder(known: Finding, draft: Draft) -> dict[str, Any]:
    """Return what another report of a reviewer does not make milder: that takes a ruling, by number."""
    fields: dict[str, Any] = {"pre_existing": known.pre_existing and draft.pre_existing}
    if draft.severity.rank > known.severity.rank:
        fields |= {"severity": known.severity, "confidence": known.confidence}
    if draft.autofix_class is AutofixClass.ADVISORY:
        fields["autofix_class"] = known.autofix_class
    return fields


def _identity(known: Finding, draft: Draft) -> dict[str, Any]:
    """Return locations, evidence and names after another report: evidence and names only grow."""
    named = [draft.fingerprints.get(VERDICT, "")]
    if not quotes_no_code(draft):
        named.append(draft.signature)
    aliases = dict.fromkeys((*known.aliases, *(name for name in named if name and name != known.signature)))
    evidence = {_evidence_key(item): item for item in (*known.evidence, *draft.evidence)}
    return {
        "locations": draft.locations or known.locations,
        "evidence": tuple(evidence.values()),
        "fingerprints": {**known.fingerprints, **draft.fingerprints},
        "aliases": tuple(aliases),
    }


def _evidence_key(evidence: Evidence) -> tuple[str, str, str]:
    return evidence.path, evidence.symbol, norm_quote(evidence.quote or evidence.raw) or evidence.raw


# --- the record of the pass ------------------------------------------------------------------------------------------


def _coverage(
    reports: Sequence[Report],
    drafts: Sequence[Draft],
    results: Sequence[GateResult],
    unruled: Mapping[str, tuple[int, ...]],
    fixed: Collection[int],
) -> Coverage:
    """Return who looked, at what, and what they could not assess. What was demoted is listed as a note."""
    rejected = defaultdict[str, int](int)
    gaps = {replace_surrogates(text) for report in reports for text in report.testing_gaps}
    risks = {replace_surrogates(text) for report in reports for text in report.residual_risks}
    for draft, result in zip(drafts, results, strict=True):
        if result.disposition is Disposition.REJECTED:
            rejected[draft.reviewer] += 1
        elif result.disposition is Disposition.DEMOTED:
            place = draft.location.path_line if draft.location else "no place"
            (gaps if gates.is_about_tests(draft) else risks).add(f"{place} -- {draft.title}")
    looks = [_look(report, rejected[report.reviewer], unruled.get(report.reviewer, ()), fixed) for report in reports]
    return Coverage(
        looks=tuple(sorted(looks, key=lambda look: (look.reviewer, look.file))),
        residual_risks=tuple(sorted(risks)),
        testing_gaps=tuple(sorted(gaps)),
    )


def _look(report: Report, lost: int, unruled: tuple[int, ...], fixed: Collection[int]) -> Look:
    status, problems = report.status, [report.problem]
    if lost:
        problems.append(f"{lost} of {len(report.drafts)} items cannot be read")
        status = ReportStatus.PARTIAL if status.answered else status
    return Look(
        reviewer=replace_surrogates(report.reviewer),
        status=status,
        problem=replace_surrogates("; ".join(filter(None, problems))),
        stage=report.stage,
        lens=report.lens,
        tool=report.tool,
        status_only=report.tool and report.format == PLAIN,
        file=replace_surrogates(report.file),
        since=report.since,
        paths=report.covered,
        reviewed=tuple(map(replace_surrogates, report.reviewed)),
        unruled=tuple(number for number in unruled if number not in fixed),
        back=tuple(number for number in unruled if number in fixed),
        verdict=report.verdict,
        argument=replace_surrogates(report.argument),
    )


def _repeats(repeated: Iterable[tuple[Draft, int]], drafts: Sequence[Draft]) -> Iterator[ItemOutcome]:
    """Return the outcomes of items that their reviewer had named already."""
    for item, index in repeated:
        reason = "the same text" if item.unreadable else "the same title at the same place"
        yield ItemOutcome(
            input_id=item.input_id,
            disposition=Disposition.MERGED,
            reason="; ".join((reason, *item.notes)),
            into=drafts[index].input_id,
            title=item.title,
        )


def _harmless(reports: Iterable[Report]) -> Iterator[ItemOutcome]:
    """Return the outcomes of items that report a success."""
    for draft in (draft for report in reports for draft in report.drafts if draft.harmless):
        yield ItemOutcome(
            input_id=replace_surrogates(draft.input_id),
            disposition=Disposition.FILTERED,
            reason=replace_surrogates(draft.harmless),
            title=replace_surrogates(draft.title),
        )


def _patterns(reports: Iterable[Report]) -> Iterator[Pattern]:
    """Return what reviewers found worth repeating, each once, numbered."""
    named = dict.fromkeys(tuple(sorted(one.items())) for report in reports for one in report.patterns)
    for number, fields in enumerate(named, 1):
        known = {key: replace_surrogates(value) for key, value in fields}
        yield Pattern(id=f"P{number}", **{key: known.get(key, "") for key in _PATTERN_FIELDS})


def _by_input(item: ItemOutcome) -> tuple[str, int, str]:
    """`lint#2` comes before `lint#10`."""
    reviewer, _, number = item.input_id.rpartition("#")
    return reviewer, int(number) if number.isdecimal() and len(number) < 10 else 0, item.input_id
