"""What agents answer about findings by their numbers. A fixer's answer is a claim; a reviewer's decides."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from pipeline.findings.events import FixAttempted, LedgerEvent, RulingMade, StateChanged, VotesWithdrawn
from pipeline.findings.ledger import EDITED, Ledger
from pipeline.findings.merge import with_gate
from pipeline.findings.model import Actor, Answer, Finding, FindingId, FindingState, FixAttempt, Severity, Vote
from pipeline.findings.scales import severity_of_word
from pipeline.findings.triage import change_state
from pipeline.handlers.markers import lines_outside_fences
from pipeline.text import ELLIPSIS

CLAIMS = ("not_fixed", "wrong", "fixed")  # of a fixer; of two about one cluster the first counts
RULINGS = ("not_fixed", "upheld", "lowered", "withdrawn", "fixed")  # of a reviewer, as above
STANDING = RULINGS[:3]  # the defect is still in the code
MAX_WHY = 500  # characters of a reason
_ANSWER = re.compile(
    r"\[\s*FINDING\s+#?(?P<number>[0-9]{1,9})\s*:\s*"
    r"(?P<word>not[ _-]fixed|fixed|wrong|upheld|withdrawn|lowered)\b(?P<why>[^\]\n]*)\][\s,;.*_]*",
    re.IGNORECASE,
)
_LOWERED_TO = re.compile(r"\s*(?:to\s+)?(?P<severity>[A-Za-z][A-Za-z0-9]*)\b")
_BULLET = re.compile(r"\s*(?:[-*+]\s+|[0-9]{1,9}[.)]\s+)?[*_]*")
_MARKER = re.compile(r"\[(?=\s*(?:FINDING|STATUS|FAILURE_REASON|PREFERRED_LABEL|NEXT)\b)", re.IGNORECASE)
ANSWER_FORMAT = """Say what became of each finding by its number, one line each, outside any code block:

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
    """Return a text from outside on one line for a prompt: it starts no heading or list and holds no answer."""
    start = text[: 4 * length]
    line = _MARKER.sub("(", " ".join("".join(c if c.isprintable() else " " for c in start).split()))
    return line if len(line) <= length and start == text else f"{line[: length - 1]}{ELLIPSIS}"


def read_answers(text: str) -> list[Answer]:
    """The answers in a text; the last one about a finding counts.

    An answer starts its line: one in the middle of a line may be quoted.
    """
    found: dict[int, Answer] = {}
    for line in lines_outside_fences(text):
        bullet = _BULLET.match(line) if "[" in line else None
        at = bullet.end() if bullet else len(line)
        while one := _ANSWER.match(line, at):
            number, word, why = int(one["number"]), re.sub(r"[ -]", "_", one["word"].lower()), one["why"]
            severity = None
            if word == "lowered" and (to := _LOWERED_TO.match(why)) and (severity := severity_of_word(to["severity"])):
                why = why[to.end() :]
            found[number] = Answer(number, word, why.strip(" \t,:;—-")[:MAX_WHY], severity)
            at = one.end()
    return list(found.values())


def _by_finding(answers: Sequence[Answer], ledger: Ledger, words: Sequence[str]) -> Iterator[tuple[Answer, Finding]]:
    """The answers that can change a finding, with those findings.

    Those are about one that needs attention, or say that a verified one is still there. An answer about a member of a
    cluster is about the cluster. Of several, the one whose word comes first counts.
    """
    by_number = {finding.number: finding.id for finding in ledger.findings.values()}
    chosen: dict[FindingId, Answer] = {}
    for answer in sorted((one for one in answers if one.word in words), key=lambda one: words.index(one.word)):
        if answer.number in by_number:
            chosen.setdefault(ledger.leader(by_number[answer.number]), answer)
    for id, answer in chosen.items():
        finding = ledger.findings[id]
        refuted = finding.state is FindingState.VERIFIED_FIXED and answer.word in STANDING and words is RULINGS
        if finding.state.needs_attention or refuted:
            yield answer, finding


def fixer_events(
    answers: Sequence[Answer], ledger: Ledger, *, run: str, round: int, by: str, at: str
) -> Iterator[LedgerEvent]:
    """The events that a fixer's answers ask for. One that calls a finding wrong disputes it."""
    for answer, finding in _by_finding(answers, ledger, CLAIMS):
        outcome = {"fixed": "claimed"}.get(answer.word, answer.word)
        attempt = FixAttempt(run=run, round=round, by=by, what=answer.why, outcome=outcome)
        yield FixAttempted(at=at, id=finding.id, attempt=attempt)
        state, note = finding.state, answer.why
        if answer.word == "fixed":
            state = FindingState.FIX_CLAIMED
        elif answer.word == "wrong":
            state, note = FindingState.UNCERTAIN, ": ".join(filter(None, (f"{by} says that it is wrong", note)))
        if state is not finding.state:
            yield StateChanged(at=at, id=finding.id, state=state, by=Actor.FINISH_TASK, note=note)


def drop_conflicting_rulings(answers: Sequence[Answer], ledger: Ledger, reported: Collection[str]) -> list[Answer]:
    """The answers of a reviewer without those that call a finding fixed or withdrawn which the same review reports."""
    numbers = {finding.number for finding in ledger.findings.values() if ledger.leader(finding.id) in reported}
    return [answer for answer in answers if answer.word in STANDING or answer.number not in numbers]


def reviewer_events(
    answers: Sequence[Answer],
    ledger: Ledger,
    *,
    run: str,
    round: int,
    by: str,
    at: str,
    pass_id: str = "",
    verifies: bool = False,
) -> Iterator[LedgerEvent]:
    """The events that a reviewer's answers ask for.

    Only one that reported a finding withdraws or lowers it, or says that it is fixed, and only as far as no other
    reviewer and no tool still reports it. In a review that `verifies` any reviewer may say that a claimed fix holds.
    Any reviewer may say that it does not, and of a verified one those who reported it.
    """
    for answer, finding in _by_finding(answers, ledger, RULINGS):
        others, reported = _other_votes(finding, by), by in {vote.reviewer for vote in finding.votes}
        verified = finding.state is FindingState.VERIFIED_FIXED
        if not reported and (verified or answer.word in ("withdrawn", "lowered")):
            continue
        ruling = RulingMade(at=at, id=finding.id, by=by, ruling=answer.word, why=answer.why, pass_id=pass_id)
        attempt = FixAttempt(run=run, round=round, by=by, what=answer.why, outcome="not_fixed")
        if answer.word == "fixed" and (tool := finding.still_reported_by):
            what = f"says that it is fixed, and {tool} still reports it"
            yield FixAttempted(at=at, id=finding.id, attempt=replace(attempt, what=what, outcome="claimed"))
        elif answer.word == "fixed":
            note = f"{by} looked again: {answer.why or 'fixed'}"
            yield ruling
            if (verifies and finding.state is FindingState.FIX_CLAIMED) or (reported and not others):
                state = FindingState.VERIFIED_FIXED
                yield StateChanged(at=at, id=finding.id, state=state, by=Actor.REVALIDATE, note=note)
            elif by in finding.sources:
                yield VotesWithdrawn(at=at, id=finding.id, pass_id=pass_id, reviewers=(by,), note=note)
        elif answer.word == "withdrawn":
            why = answer.why or _dispute(finding)
            kept = _reason_to_keep(finding, others) or ("" if why else "a withdrawal needs a reason")
            yield replace(ruling, why="; ".join(filter(None, (why, kept and f"it stays open: {kept}"))))
            if not kept:
                state, note = FindingState.FALSE_POSITIVE, f"{by} withdrew it: {why}"
                yield change_state(finding, state, at=at, by=Actor.REVALIDATE, note=note)
        else:
            yield _lower(ruling, finding, answer.severity, others) if answer.word == "lowered" else ruling
            note = f"{by} looked again: {answer.why or answer.word.replace('_', ' ')}"
            if verified or finding.state is FindingState.FIX_CLAIMED:
                yield StateChanged(at=at, id=finding.id, state=FindingState.REOPENED, by=Actor.REVALIDATE, note=note)
                yield FixAttempted(at=at, id=finding.id, attempt=attempt)
            elif finding.state is FindingState.UNCERTAIN and _dispute(finding) is not None and not finding.unreadable:
                yield StateChanged(at=at, id=finding.id, state=FindingState.OPEN, by=Actor.REVALIDATE, note=note)


def _dispute(finding: Finding) -> str | None:
    """Why the last one who worked on a finding calls it wrong; None if nobody does."""
    last = finding.attempts[-1] if finding.attempts else None
    return last.what if last and last.outcome == "wrong" else None


def _other_votes(finding: Finding, reviewer: str) -> dict[str, Vote]:
    """The last vote of everyone else who still says that there is a defect, by name."""
    withdrawn = set[str]()
    for change in finding.history:
        if change.what == "ruling" and change.note.startswith("withdrawn"):
            withdrawn.add(change.by)
        elif change.what in ("raised", "seen"):
            withdrawn -= {vote.reviewer for vote in finding.votes if vote.pass_id == change.pass_id}
    gone = {vote.reviewer for vote in finding.votes if vote.tool} - {finding.still_reported_by}
    names = {*finding.sources} - {reviewer, *withdrawn, *gone}
    return {vote.reviewer: vote for vote in finding.votes if vote.reviewer in names}


def _reason_to_keep(finding: Finding, others: Collection[str]) -> str:
    """Why a finding is not closed although its reviewer withdraws it; empty if nothing keeps it."""
    if others:
        return f"also reported by {', '.join(others)}"
    if finding.system_breaking or finding.gate.by != "policy":
        return "only a person may dismiss it"
    return ""


def _lower(ruling: RulingMade, finding: Finding, to: Severity | None, others: Mapping[str, Vote]) -> RulingMade:
    """The ruling with the new severity and gate: not below what others say. Without a milder one it is upheld."""
    if to is None or to.rank <= finding.severity.rank:
        return replace(ruling, ruling="upheld")
    severity = min((to, *(vote.severity for vote in others.values())), key=lambda one: one.rank)
    by_person = finding.system_breaking or "severity" in finding.ext.get(EDITED, ())
    if by_person or severity.rank <= finding.severity.rank:
        return ruling
    gate = with_gate(replace(finding, severity=severity)).gate if finding.gate.by == "policy" else finding.gate
    return replace(ruling, severity=severity, gate=gate)
