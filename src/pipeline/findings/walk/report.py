"""The completion report of a walk, the same however it ended. Its counts add up to the findings it started with."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pipeline.findings import reviews
from pipeline.findings.events import Disposition
from pipeline.findings.explanation import member_row
from pipeline.findings.ledger import last_passes
from pipeline.findings.lines import Line
from pipeline.findings.model import AutofixClass, FindingId, FindingState, Gate
from pipeline.findings.reviews import Review
from pipeline.findings.scales import P_LEVEL
from pipeline.findings.verdicts import Readiness
from pipeline.findings.walk.present import DECIDED, DONE, location_lines, title
from pipeline.findings.walk.prose import one_line
from pipeline.findings.walk.state import (
    UNTRACKED,
    Action,
    Walk,
    WalkItem,
    actionable,
    is_advice,
    is_safe,
    last_action,
)
from pipeline.text import plural

_MAX_NOTE = 300  # characters
_MAX_NAME = 60
_ACCEPTED, _FAILED = DECIDED[Action.APPLY], "failed"
_BUCKETS = {  # what can become of a finding, in the order of the report, with the words for people
    DONE[Action.APPLY]: DONE[Action.APPLY],
    _FAILED: "failed to apply",
    _ACCEPTED: "accepted, not applied yet",
    **{bucket: bucket for bucket in DONE.values()},
    "dropped": "dropped by the validator",
    "left": "left open",
}
_UNRELATED = "unrelated"  # not about the change that was reviewed last
_CLAIMED = "claimed to be fixed"
_UNDECIDED = "undecided"
_KINDS = ("advisory", "pre-existing", "safe_auto", "doubtful", _CLAIMED, *DECIDED.values(), _UNDECIDED, _UNRELATED)
_LEFT_ALONE = {"advisory", "pre-existing", _UNRELATED, DONE[Action.ACKNOWLEDGE]}  # what nobody has to act on


def render_report(walk: Walk, apply_with: str = "", unseen: str = "") -> str:
    """Return the report as markdown: failures, findings by what became of them, counts, coverage, verdict."""
    data = report_data(walk, apply_with, unseen)
    verdict = f"Verdict: {data['verdict']}: {data['why']}." if data["why"] else f"Verdict: {data['verdict']}."
    names = {item.id: f"{item.level} {title(item.finding)}" for item in walk.items}
    for line in map(walk.ledger.line, walk.failed_fixes):
        names.setdefault(line.id, f"{P_LEVEL[line.severity]} {title(line.lead)}")
    sections = {"Failures": [f"- {names[one['finding_id']]} — {_failure_text(one)}" for one in data["failures"]]}
    for bucket, words in _BUCKETS.items():
        heading = words.capitalize()
        sections[f"{heading} ({data['counts'][bucket]})"] = [
            f"- {names[one['id']]} — {': '.join(filter(None, (heading, one['note'])))}"
            for one in data["findings"]
            if one["action"] == bucket
        ]
    parts = ["\n".join([f"**{heading}**\n", *lines]) for heading, lines in sections.items() if lines]
    if not walk.items:
        return "\n\n".join([*parts, data["summary"], verdict])
    coverage = "\n".join(["**Coverage**\n", *_coverage_lines(data["coverage"], data["not_asked"])])
    return "\n\n".join(["## Completion report", *parts, data["summary"], coverage, verdict])


def report_data(walk: Walk, apply_with: str = "", unseen: str = "") -> dict[str, Any]:
    """Return the report for programs, with the findings by what became of them and in the order of the walk.

    `apply_with` is the command that makes the fixes which were accepted and not made; `unseen` says what changed since
    anybody looked.
    """
    review = reviews.review(walk.ledger)
    order = list(_BUCKETS)
    findings = sorted((_entry(item, walk) for item in walk.items), key=lambda one: order.index(one["action"]))
    counts = {bucket: sum(one["action"] == bucket for one in findings) for bucket in order}
    # A fix is claimed until somebody has verified it.
    readiness = review.readiness(fixed=bool(walk.fixes.made) or _count_safe_fixes(review) > 0)
    if unseen:
        readiness = Readiness.NOT_READY
    return {
        "route": str(walk.route),
        "failures": _failures(walk),
        "findings": findings,
        "counts": counts,
        "apply": [line.id for line in walk.accepted],
        "tickets": _tickets(walk),
        "open": len(review.open),
        "elsewhere": len(review.elsewhere),
        "not_asked": _count_kinds(review, except_for={item.id for item in walk.items}),
        "coverage": _coverage(walk, review),
        "summary": _summary(counts, apply_with) if walk.items else _nothing_to_decide(review, apply_with, unseen),
        "verdict": str(readiness),
        "why": _explain(walk, review) if readiness is Readiness.WITH_FIXES else unseen,
    }


def _summary(counts: Mapping[str, int], apply_with: str) -> str:
    """Return the counts, with what is accepted and not applied yet last, since it says what to do."""
    named = {bucket: f"{count} {_BUCKETS[bucket]}" for bucket, count in counts.items() if count}
    accepted = named.pop(_ACCEPTED, "")
    hint = f"apply them with: {apply_with}" if apply_with and accepted else ""
    return "; ".join(filter(None, (", ".join(named.values()), accepted, hint)))


def _entry(item: WalkItem, walk: Walk) -> dict[str, Any]:
    """Return what became of one line of work, with the ticket, the reason, or how the fix went."""
    bucket, note = _bucket(item, walk)
    if item.id in walk.unvalidated:
        note = ", ".join(filter(None, (note, "not validated")))
    return {
        "id": item.id,
        "number": item.line.number,
        **_description(item),
        "members": list(map(member_row, item.line.members)),
        "action": bucket,
        "reference": walk.choices[item.id].ref if item.id in walk.choices else "",
        "note": one_line(note, _MAX_NOTE),
    }


def _bucket(item: WalkItem, walk: Walk) -> tuple[str, str]:
    """Return what became of a line of work, and a note about it."""
    if item.id in walk.dropped:
        return "dropped", walk.dropped[item.id]
    if item.id not in walk.choices:
        return "left", ""
    choice, where = walk.choices[item.id], location_lines(item.finding)
    if choice.action is not Action.APPLY:
        return DONE[choice.action], choice.ref or choice.reason
    if item.id in walk.fixes.made:
        return DONE[Action.APPLY], where
    return (_FAILED, where) if item.id in walk.fixes.failed else (_ACCEPTED, where)


def _description(item: WalkItem) -> dict[str, Any]:
    where = item.finding.location
    return {
        "title": item.finding.title,
        "severity": item.level,
        "file": where.path if where else None,
        "line": where.start if where else None,
    }


def _failures(walk: Walk) -> list[dict[str, Any]]:
    """Return the fixes and tickets that failed."""
    fixes = [_failure(id, "fix", one_line(reason, _MAX_NOTE)) for id, reason in walk.failed_fixes.items()]
    failed = [one for one in walk.tickets if one.failure]
    return [*fixes, *(_failure(one.id, "ticket", one.failure, one.tracker, one.then) for one in failed)]


def _failure(id: FindingId, what: str, reason: str, tracker: str = "", then: str = "") -> dict[str, Any]:
    reason = reason or "no reason given"
    return {"finding_id": id, "what": what, "tracker": tracker, "reason": reason, "then": then}


def _failure_text(failure: dict[str, Any]) -> str:
    tracker = f" on {one_line(failure['tracker'], _MAX_NAME)}" if failure["tracker"] else ""
    then = f"; {failure['then']}" if failure["then"] else ""
    return f"{failure['what']}{tracker} failed: {failure['reason']}{then}"


def _tickets(walk: Walk) -> dict[str, list[dict[str, Any]]]:
    """Return what became of every ticket: each finding is in one list, filed before failed."""
    filed = {attempt.id: attempt for attempt in walk.tickets if attempt.reference}
    failed = {attempt.id: attempt for attempt in walk.tickets if attempt.failure and attempt.id not in filed}
    untracked = {id for id, choice in walk.choices.items() if choice.reason == UNTRACKED} - set(failed)
    no_sink = [item for item in walk.items if item.id in untracked]
    return {
        "filed": [{"finding_id": id, "tracker": one.tracker, "url": one.reference} for id, one in filed.items()],
        "failed": [{"finding_id": id, "tracker": one.tracker, "reason": one.failure} for id, one in failed.items()],
        "no_sink": [{"finding_id": item.id, **_description(item)} for item in no_sink],
    }


def _coverage(walk: Walk, review: Review) -> dict[str, Any]:
    """Return what the findings do not show."""
    last = last_passes(walk.ledger)
    hidden = (Disposition.SUPPRESSED, Disposition.FILTERED)
    unexplained = [item for item in walk.items if item.unexplained_by]
    reviewers = dict.fromkeys(name for item in unexplained for name in item.unexplained_by)
    return {
        "suppressed": sum(entry.disposition in hidden for one in last for entry in one.entries),
        "residual_risks": [one_line(text, _MAX_NOTE) for one in last for text in one.coverage.residual_risks],
        "testing_gaps": [one_line(text, _MAX_NOTE) for one in last for text in one.coverage.testing_gaps],
        "failed_reviewers": [f"{one_line(look.reviewer, _MAX_NAME)} ({look.status})" for look in review.coverage.gaps],
        "framing_gaps": {"count": len(unexplained), "reviewers": [one_line(name, _MAX_NAME) for name in reviewers]},
    }


def _coverage_lines(coverage: dict[str, Any], not_asked: Mapping[str, int]) -> Iterator[str]:
    yield f"- Suppressed findings: {coverage['suppressed']}"
    for key in ("residual_risks", "testing_gaps", "failed_reviewers"):
        if coverage[key]:
            yield f"- {key.replace('_', ' ').capitalize()}: {'; '.join(coverage[key])}"
    gaps = coverage["framing_gaps"]
    if gaps["count"]:
        yield f"- Framing-enrichment gaps: {gaps['count']} ({', '.join(gaps['reviewers'])})"
    if not_asked:
        yield f"- Open and not asked about: {_listed(not_asked)}"


def _explain(walk: Walk, review: Review) -> str:
    """Return why a change is ready only with fixes; empty if it is only that fixes were made."""
    kinds = {line.id: _kind(line) for line in review.open}
    work = [line for line in review.open if kinds[line.id] not in _LEFT_ALONE]
    if not work:
        return ""
    must = sum(line.gate is Gate.MUST for line in work)
    undecided = sum(kinds[line.id] == _UNDECIDED and line.id not in walk.choices for line in work)
    blocks = f"{plural(must, 'finding')} must still be fixed" if must else "nothing blocks"
    left = f"{_are(undecided)} left to decide" if undecided else f"{_are(len(work))} still open"
    return f"{blocks}; {left}"


def _are(count: int) -> str:
    return plural(count, "finding is", "findings are")


def _nothing_to_decide(review: Review, apply_with: str, unseen: str) -> str:
    """Return why nothing was asked.

    Findings are called resolved only if all was reviewed and none of them remains open.
    """
    if not review.coverage.looks:
        return "Nothing was reviewed."
    if not review.complete:
        return f"The review is incomplete: {'; '.join(map(one_line, review.gaps))}. No finding needs a decision."
    applied, left = _applied(_count_safe_fixes(review)), _count_kinds(review)
    if not left and (unseen or review.unseen):
        return f"No finding needs a decision{applied}."
    if not left:
        return f"All findings resolved{applied}."
    nobodys = left.keys() <= _LEFT_ALONE and not review.blocking_elsewhere
    resolved = "All actionable findings resolved" if nobodys else "No finding needs a decision"
    remain = "finding remains" if sum(left.values()) == 1 else "findings remain"
    hint = f" Make the safe fixes with: {apply_with}" if apply_with and "safe_auto" in left else ""
    return f"{resolved}{applied}. ({_listed(left)} {remain} in the report.){hint}"


def _applied(safe: int) -> str:
    return f" — {plural(safe, 'safe_auto fix', 'safe_auto fixes')} applied" if safe else ""


def _count_kinds(review: Review, except_for: Collection[str] = ()) -> dict[str, int]:
    """Count the open lines of work by why nobody is asked about them, and those for which there is no reason."""
    kinds = {line.id: _kind(line) for line in review.open} | {line.id: _UNRELATED for line in review.elsewhere}
    counts = Counter(kind for id, kind in kinds.items() if id not in except_for)
    return {kind: counts[kind] for kind in _KINDS if counts[kind]}


def _kind(line: Line) -> str:
    """Return why nobody is asked about an open line of work, or that it is undecided."""
    if not line.state.active:
        return _CLAIMED
    if all(finding.pre_existing for finding in line.open_members):
        return "pre-existing"
    action = last_action(line)
    if action:
        return DECIDED[action]
    if is_advice(line):
        return "advisory"
    if is_safe(line.open_members):
        return "safe_auto"
    return _UNDECIDED if actionable(line) else "doubtful"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _count_safe_fixes(review: Review) -> int:
    """Count the findings that were fixed without a decision."""
    safe = [one for one in review.findings if one.autofix_class is AutofixClass.SAFE_AUTO]
    return sum(finding.state in (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED) for finding in safe)
