"""What agents say of findings by their numbers: rulings of reviewers and tools, claims of fixers.

Nothing else changes the state of a finding, except a person. A ruling is about the one finding that has the number; a
claim is about all findings of its line of work.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from pipeline.findings.events import FindingChanged, Pass
from pipeline.findings.fingerprints import OURS, evidence_digest
from pipeline.findings.gate import gate
from pipeline.findings.ledger import Ledger, is_same_branch
from pipeline.findings.model import (
    Actor,
    Change,
    Finding,
    FindingId,
    FindingState,
    Owner,
    PassId,
    Report,
    Said,
    Severity,
    Suppression,
    What,
)
from pipeline.findings.scales import is_hedged, severity_of_word
from pipeline.handlers.markers import lines_outside_fences
from pipeline.text import ELLIPSIS

CLAIMS = ("not_fixed", "wrong", "fixed")  # of a fixer; of two about one line of work the first counts
EVERYTHING = "."  # what a list covers that is complete
STANDING = ("not_fixed", "upheld", "lowered")  # of a reviewer: the defect is still in the code
RULINGS = (*STANDING, "withdrawn", "fixed")  # of two about one finding the first counts
MAX_WHY = 500  # characters of a reason
_SAID = re.compile(
    r"\[\s*FINDING\s+#?(?P<number>[0-9]{1,9})\s*(?:\([^)\]\n]{0,20}\)\s*)?[:–—-]\s*"
    r"(?P<word>not[ _-]fixed|fixed|wrong|upheld|withdrawn|lowered"
    r"|(?P<still>still|remains|unfixed|unresolved|not[ _-]\w+|part(?:ly|ially)|open|present))\b"
    r"(?P<why>[^\]\n]*)\][\s,;.*_]*",
    re.IGNORECASE,
)
_LOWERED_TO = re.compile(r"\s*(?:to\s+)?(?P<severity>[A-Za-z][A-Za-z0-9]*)\b")
_BULLET = re.compile(r"\s*(?:[-*+]\s+|[0-9]{1,9}[.)]\s+)?[*_]*")
_MARKER = re.compile(r"\[(?=\s*(?:FINDING|STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\b)", re.IGNORECASE)
CLAIM_FORMAT = """Say what became of each finding by its number, one line each, outside any code block:

[FINDING N: fixed]
[FINDING N: not fixed, because ...]
[FINDING N: wrong, because ...]"""
RULING_FORMAT = """Rule on each by its number: one line each, outside any code block, or `rulings` in your JSON object:

[FINDING N: fixed]
[FINDING N: not fixed, because ...]
[FINDING N: upheld, because ...]
[FINDING N: withdrawn, because ...]
[FINDING N: lowered to P2, because ...]"""


def quote_line(text: str, length: int) -> str:
    """Return a text from outside on one line for a prompt: it starts no heading or list and holds no ruling."""
    start = text[: 4 * length]
    line = " ".join(start.split())
    if not line.isprintable():
        line = " ".join("".join(c if c.isprintable() else " " for c in line).split())
    line = _MARKER.sub("(", line)
    return line if len(line) <= length and start == text else f"{line[: length - 1]}{ELLIPSIS}"


def read_said(text: str) -> list[Said]:
    """Return what a text says of findings; the last word about a number counts.

    It starts its line: one in the middle of a line may be quoted.
    """
    found: dict[int, Said] = {}
    for line in lines_outside_fences(text):
        bullet = _BULLET.match(line) if "[" in line else None
        at = bullet.end() if bullet else len(line)
        match = _SAID.match(line, at)
        while match:
            said = _said(match)
            found[said.number] = said
            match = _SAID.match(line, match.end())
    return list(found.values())


def _said(match: re.Match[str]) -> Said:
    word, why = re.sub(r"[ -]", "_", match["word"].lower()), match["why"]
    if match["still"]:
        word, why = "not_fixed", f"{match['word']}{why}"
    lowered = _LOWERED_TO.match(why) if word == "lowered" else None
    severity = severity_of_word(lowered["severity"]) if lowered else None
    if lowered and severity:
        why = why[lowered.end() :]
    if word == "fixed" and is_hedged(why):
        word = "not_fixed"
    why = why.strip(" \t,:;—-")[:MAX_WHY]
    return Said(int(match["number"]), word, why, severity, vague=word == "fixed" and bool(why.strip(".!")))


def changed(
    finding: Finding, *, at: str, what: What, who: str, by: Actor, fields: Mapping[str, Any] | None = None, **more: Any
) -> FindingChanged:
    """Return the event of what somebody said about a finding. A state that it already has is not repeated.

    A finding that is no longer dismissed loses the reason why it was.
    """
    opens = more.get("state") in (FindingState.OPEN, FindingState.REOPENED)
    if opens and not finding.state.is_open and _was_uncertain(finding):
        more["state"] = FindingState.UNCERTAIN  # nobody has become sure of it by closing it
    if more.get("state") is finding.state:
        more["state"] = None
    state, changes = more.get("state"), dict(fields or {})
    if finding.suppression and state and not state.dismissed:
        changes.setdefault("suppression", None)
    return FindingChanged(id=finding.id, change=Change(at=at, what=what, who=who, by=by, **more), fields=changes)


def _was_uncertain(finding: Finding) -> bool:
    """Return whether nobody was sure of a finding when it was open last."""
    states = [change.state for change in finding.history if change.state and change.state.is_open]
    return bool(states) and states[-1] is FindingState.UNCERTAIN


# --- fixers ----------------------------------------------------------------------------------------------------------


def claims(said: Iterable[Said], ledger: Ledger, *, who: str, run: str, at: str) -> list[FindingChanged]:
    """Return the events of a fixer's claims and disputes, one for each open finding of a line of work."""
    chosen: dict[FindingId, Said] = {}
    for one in sorted((one for one in said if one.word in CLAIMS), key=lambda one: CLAIMS.index(one.word)):
        finding = ledger.by_number(one.number)
        if finding:
            chosen.setdefault(finding.line, one)
    return [
        changed(
            finding,
            at=at,
            what=What.CLAIM,
            who=who,
            by=Actor.FINISH_TASK,
            word=one.word,
            note=one.why,
            run=run,
            state=claimed_state(finding, one.word),
        )
        for line, one in chosen.items()
        for finding in ledger.line(line).open_members
    ]


def claimed_state(finding: Finding, word: str) -> FindingState:
    """Return the state of an open finding after a claim. What is uncertain stays so, whatever is claimed."""
    if finding.state is FindingState.UNCERTAIN:
        return finding.state
    if word == "fixed":
        return FindingState.FIX_CLAIMED
    if finding.state is FindingState.FIX_CLAIMED:  # the claim is taken back
        return FindingState.REOPENED
    return finding.state


# --- reviewers and tools ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hearing:
    """What a pass knows when it rules: the ledger before it, who takes part, and what was reported again."""

    ledger: Ledger
    passed: Pass
    at: str
    reports: tuple[Report, ...]
    seen: Collection[FindingId]  # reported again in this pass, for sure or in doubt
    present: Collection[str]  # the reviewers and tools that take part in the review
    about: Collection[FindingId] | None = None  # the findings about what was looked at; None: all of them
    untouched: Collection[FindingId] = ()  # those of tools whose file is as it was when they were last reported

    def rulings(self) -> Iterator[tuple[Report, Said, Finding]]:
        """Return every ruling with the finding that has its number."""
        pairs = ((report, said) for report in self.reports for said in report.rulings)
        for report, said in sorted(pairs, key=lambda pair: RULINGS.index(pair[1].ruling)):
            finding = self.ledger.by_number(said.number)
            if finding:
                yield report, replace(said, word=said.ruling), finding


def is_unchanged(finding: Finding, ledger: Ledger, tree: str) -> bool:
    """Return whether nothing at all has changed in a tree since a finding was last reported or confirmed.

    Without git nobody knows, and the reviewer's word is taken.
    """
    last = ledger.passes.get(finding.pass_id)
    return last is not None and bool(tree) and last.tree == tree


def rule(hearing: Hearing) -> tuple[list[FindingChanged], dict[str, tuple[int, ...]]]:
    """Return the events of all rulings of a pass, and by reviewer the numbers it was given and did not rule on."""
    refuted = {finding.id for _, said, finding in hearing.rulings() if said.word in STANDING} | {*hearing.seen}
    events: list[FindingChanged] = []
    ruled: set[tuple[str, FindingId]] = set()
    for report, said, finding in hearing.rulings():
        if (report.reviewer, finding.id) in ruled:
            continue
        event = _ruling(hearing, report.reviewer, said, finding, refuted=finding.id in refuted)
        if event:
            events.append(event)
            ruled.add((report.reviewer, finding.id))
    events += _no_longer_listed(hearing, refuted)
    unruled = {
        report.reviewer: tuple(
            hearing.ledger.findings[id].number
            for id in report.asked
            if (report.reviewer, id) not in ruled
            and id not in hearing.seen
            and not (report.stage and hearing.ledger.findings[id].failing_stage == report.stage)  # its status rules
        )
        for report in hearing.reports
    }
    return _last_state_wins(events), unruled


def _ruling(hearing: Hearing, who: str, said: Said, finding: Finding, *, refuted: bool) -> FindingChanged | None:
    """Return the event of one ruling; None for one that its reviewer may not make, or that is none."""
    common: dict[str, Any] = {"at": hearing.at, "what": What.RULING, "who": who, "by": Actor.REVALIDATE}
    common |= {"word": said.word, "note": said.why, "pass_id": hearing.passed.id, "run": hearing.passed.run}
    own = finding.reviewer == who
    if said.word in STANDING:
        return _standing(finding, said, common, own=own)
    if hearing.about is not None and finding.id not in hearing.about:
        return None  # of what is open on another branch nothing was looked at
    if said.word == "withdrawn":
        return _withdrawn(finding, said, common, refuted=refuted) if own else None
    if finding.state is FindingState.VERIFIED_FIXED:
        # It was asked about, since its file is as it was when it was reported.
        return changed(finding, **common)
    if not finding.state.is_open or is_unchanged(finding, hearing.ledger, hearing.passed.tree):
        return None
    if finding.state is FindingState.UNCERTAIN and _needs_a_person(finding):
        return changed(finding, **common)  # it was taken back: "fixed" does not settle that either
    takes_part = finding.reviewer in hearing.present
    confirms = finding.state is FindingState.FIX_CLAIMED and hearing.passed.mode == "verify" and not takes_part
    if not own and not confirms:
        return None
    if refuted:  # "not fixed" wins over "fixed"
        return changed(finding, **common)
    return changed(finding, state=FindingState.VERIFIED_FIXED, **common)


def _standing(finding: Finding, said: Said, common: dict[str, Any], *, own: bool) -> FindingChanged:
    """The defect is still there: a claim is refuted, and its reviewer may rate it anew."""
    fields: dict[str, Any] = {"pass_id": common["pass_id"]}
    state = finding.state
    taken_back = finding.suppression is not None and finding.suppression.by == finding.reviewer
    if state in (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED) or taken_back:
        state = FindingState.REOPENED
    severity = _new_severity(finding, said)
    milder = severity is not None and severity.rank > finding.severity.rank
    if milder and not own:
        severity, milder = None, False
    if milder and _needs_a_person(finding):
        common["note"] = f"{said.why or 'no reason given'}; a critical finding is lowered only by a person"
        return changed(finding, fields=fields | {"owner": Owner.HUMAN}, state=FindingState.UNCERTAIN, **common)
    if severity and not milder and state.dismissed:
        state = FindingState.REOPENED  # what was dismissed was less than this
    if severity:
        rated = replace(finding, severity=severity)
        fields |= {"severity": severity, "gate": gate(rated)}
    return changed(finding, fields=fields, state=state, **common)


def _new_severity(finding: Finding, said: Said) -> Severity | None:
    """Return another severity that a reviewer gives its finding. Only "lowered" makes it milder; any word, graver."""
    if said.severity is None or said.severity is finding.severity:
        return None
    milder = said.severity.rank > finding.severity.rank
    return None if milder and said.word != "lowered" else said.severity


def _needs_a_person(finding: Finding) -> bool:
    """Return whether its reviewer alone may not take a finding back.

    It is critical, or nobody knows how bad it is; and it counts against the change.
    """
    grave = finding.severity is Severity.CRITICAL or finding.system_breaking or bool(finding.severity_text)
    return grave and not finding.pre_existing


def _withdrawn(finding: Finding, said: Said, common: dict[str, Any], *, refuted: bool) -> FindingChanged | None:
    """Its reviewer calls it a mistake of its own. That needs a reason, and for a P0 a person looks."""
    reason = said.why or next((claim.note for claim in reversed(finding.claims) if claim.word == "wrong"), "")
    if not any(map(str.isalpha, reason)):
        return None
    if not finding.state.is_open:  # it was closed on another branch, and is on this one
        return changed(finding, **common)
    if refuted:
        return changed(finding, **common)
    if _needs_a_person(finding):
        common["note"] = f"{reason}; a critical finding is withdrawn only by a person"
        return changed(finding, fields={"owner": Owner.HUMAN}, state=FindingState.UNCERTAIN, **common)
    common["note"] = reason
    suppression = Suppression(reason=reason, by=common["who"], digest=evidence_digest(finding))
    fields = {"suppression": suppression.model_dump()}
    return changed(finding, fields=fields, state=FindingState.FALSE_POSITIVE, **common)


def _no_longer_listed(hearing: Hearing, refuted: Collection[FindingId]) -> Iterator[FindingChanged]:
    """A complete list of a tool is an answer about everything that it reported before, where it looked."""
    lost = {report.reviewer for report in hearing.reports if not report.status.answered}
    for report in hearing.reports:
        if report.reviewer in lost:
            continue
        for finding in hearing.ledger.findings.values():
            if finding.reviewer != report.reviewer or not finding.state.is_open or finding.id in refuted:
                continue
            if not _is_on_branch(finding, hearing):
                continue
            if report.checked is None and report.covered is None and finding.id in hearing.untouched:
                continue  # it is still there: the tool listed something else, such as another directory
            if (finding.tool or finding.failing_stage) and _is_on_list(finding, report):
                yield changed(
                    finding,
                    at=hearing.at,
                    what=What.RULING,
                    who=report.reviewer,
                    by=Actor.REVALIDATE,
                    word="fixed",
                    note="no longer listed" if finding.tool else "the stage passed",
                    pass_id=hearing.passed.id,
                    run=hearing.passed.run,
                    state=FindingState.VERIFIED_FIXED,
                )


def _is_on_branch(finding: Finding, hearing: Hearing) -> bool:
    """Return whether a finding was last seen on the branch that is looked at: a list is about no other one."""
    placed = hearing.ledger.passes.get(PassId(finding.placed_in))
    return placed is None or is_same_branch(placed.branch, hearing.passed.branch)


def _is_on_list(finding: Finding, report: Report) -> bool:
    """Return whether a report would list a finding if it were still there."""
    if report.checked is not None:
        own = {value for name, value in finding.fingerprints.items() if name not in OURS}
        return not own.isdisjoint(report.checked) if own else not report.drafts
    if not finding.tool:
        return False
    if report.covered is None or report.covered == (EVERYTHING,):
        return True
    if finding.location is None:
        return False
    path = finding.location.path
    folders = {path, *map(str, PurePosixPath(path).parents)}
    return not folders.isdisjoint(covered.rstrip("/") for covered in report.covered)


def _last_state_wins(events: Sequence[FindingChanged]) -> list[FindingChanged]:
    """Return the events with those that leave a finding open after those that close it."""
    return sorted(events, key=lambda event: event.change.state is not None and event.change.state.is_open)
