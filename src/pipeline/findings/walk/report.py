"""The completion report of a walk, the same however it ended. Its counts add up to the findings it started with."""

from collections import Counter
from collections.abc import Collection, Mapping, Sized
from typing import Any

from pipeline.findings import reviews
from pipeline.findings.events import Disposition
from pipeline.findings.ledger import last_passes
from pipeline.findings.lines import Line
from pipeline.findings.model import AutofixClass, Finding, FindingId, FindingState, Gate
from pipeline.findings.reviews import Review
from pipeline.findings.scales import P_LEVEL
from pipeline.findings.verdicts import Readiness
from pipeline.findings.walk.present import DONE, location, one_line, title
from pipeline.findings.walk.state import (
    UNTRACKED,
    Action,
    Walk,
    WalkItem,
    actionable,
    is_safe,
    last_action,
)
from pipeline.text import plural

_MAX_NOTE = 300  # characters
_MAX_NAME = 60
_ACCEPTED, _FAILED = "accepted", "failed"
_BUCKETS = {  # what can become of a finding, in the order of the report, with the words for people
    DONE[Action.APPLY]: DONE[Action.APPLY],
    _FAILED: "failed to apply",
    _ACCEPTED: "accepted, not applied yet",
    **{bucket: bucket for bucket in DONE.values()},
    "dropped": "dropped by the validator",
    "left": "left open",
}
_DECIDED = DONE | {Action.APPLY: _ACCEPTED}  # what was decided about a finding that is open
_UNRELATED = "unrelated"  # not about the change that was reviewed last
_CLAIMED = "claimed to be fixed"
_UNDECIDED = "undecided"
_KINDS = ("advisory", "pre-existing", "safe_auto", "doubtful", _CLAIMED, *_DECIDED.values(), _UNDECIDED, _UNRELATED)
_LEFT_ALONE = {"advisory", "pre-existing", _UNRELATED, DONE[Action.ACKNOWLEDGE]}  # what nobody has to act on
_DONE_STATES = (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED)


def render_report(walk: Walk, apply_with: str = "") -> str:
    """Return the report as markdown: failures, findings by what became of them, counts, coverage, verdict."""
    data = report_data(walk, apply_with)
    verdict = f"Verdict: {': '.join(filter(None, (data['verdict'], data['why'])))}."
    names = {line.id: f"{P_LEVEL[line.severity]} {title(line.lead)}" for line in map(walk.ledger.line, _named(data))}
    names |= {item.id: f"{item.level} {title(item.finding)}" for item in walk.items}
    failures = [f"- {names[one['finding_id']]} — {_failure_text(one)}" for one in data["failures"]]
    if not walk.items:
        failed = ["\n".join(["**Failures**\n", *failures])] if failures else []
        return "\n\n".join([*failed, data["summary"], verdict])
    sections = {"Failures": failures}
    for bucket, words in _BUCKETS.items():
        heading = words.capitalize()
        sections[f"{heading} ({data['counts'][bucket]})"] = [
            f"- {names[one['id']]} — {heading}{one['note'] and ': '}{one['note']}"
            for one in data["findings"]
            if one["action"] == bucket
        ]
    sections["Coverage"] = _coverage_lines(data["coverage"])
    if data["not_asked"]:
        sections["Coverage"].append(f"- Open and not asked about: {_listed(data['not_asked'])}")
    parts = ["\n".join([f"**{heading}**\n", *lines]) for heading, lines in sections.items() if lines]
    return "\n\n".join(["## Completion report", *parts[:-1], data["summary"], parts[-1], verdict])


def _named(data: Mapping[str, Any]) -> list[FindingId]:
    """Return the lines of work whose fixes or tickets failed."""
    return [one["finding_id"] for one in data["failures"]]


def report_data(walk: Walk, apply_with: str = "") -> dict[str, Any]:
    """Return the report for programs, with the findings by what became of them and in the order of the walk.

    `apply_with` is the command that makes the fixes which were accepted and not made.
    """
    review = reviews.review(walk.ledger)
    order = list(_BUCKETS)
    findings = sorted((_entry(item, walk) for item in walk.items), key=lambda one: order.index(one["action"]))
    counts = {bucket: sum(one["action"] == bucket for one in findings) for bucket in order}
    readiness = _readiness(walk, review)
    return {
        "route": str(walk.route),
        "failures": _failures(walk),
        "findings": findings,
        "counts": counts,
        "apply": [line.id for line in walk.accepted],
        "tickets": _tickets(walk),
        "open": len(review.open),
        "elsewhere": len(review.elsewhere),
        "not_asked": _not_asked(walk, review),
        "coverage": _coverage(walk, review),
        "summary": _summary(counts, apply_with) if walk.items else _nothing_to_decide(review, apply_with),
        "verdict": str(readiness),
        "why": _explain(walk, review) if readiness is Readiness.WITH_FIXES else "",
    }


def _summary(counts: Mapping[str, int], apply_with: str) -> str:
    """Return the counts, with what is accepted and not applied yet last, since it says what to do."""
    named = {bucket: f"{count} {_BUCKETS[bucket]}" for bucket, count in counts.items() if count}
    accepted = named.pop(_ACCEPTED, "")
    hint = f"apply them with: {apply_with}" if apply_with and accepted else ""
    return "; ".join(filter(None, (", ".join(named.values()), accepted, hint)))


def _entry(item: WalkItem, walk: Walk) -> dict[str, Any]:
    """What became of one line of work, with the ticket, the reason, or how the fix went."""
    bucket, note = _bucket(item, walk)
    if item.id in walk.unvalidated and item.id not in walk.dropped:
        note = ", ".join(filter(None, (note, "not validated")))
    choice = walk.choices.get(item.id)
    return {
        "id": item.id,
        "number": item.line.number,
        **_description(item),
        "members": [_member(finding) for finding in item.line.members],
        "action": bucket,
        "reference": choice.ref if choice else "",
        "note": one_line(note, _MAX_NOTE),
    }


def _bucket(item: WalkItem, walk: Walk) -> tuple[str, str]:
    """Return what became of a line of work, and a note about it."""
    if item.id in walk.dropped:
        return "dropped", walk.dropped[item.id]
    choice = walk.choices.get(item.id)
    if choice is None:
        return "left", ""
    if choice.action is not Action.APPLY:
        return DONE[choice.action], choice.ref or choice.reason
    where = location(item.finding, all_lines=True)
    if item.id in walk.fixes.made:
        return DONE[Action.APPLY], where
    return _FAILED if item.id in walk.fixes.failed else _ACCEPTED, where


def _member(finding: Finding) -> dict[str, Any]:
    return {
        "id": finding.id,
        "number": finding.number,
        "reviewer": finding.reviewer,
        "severity": str(finding.severity),
        "state": str(finding.state),
        "title": finding.title,
    }


def _description(item: WalkItem) -> dict[str, Any]:
    where = item.finding.location
    return {
        "title": item.finding.title,
        "severity": item.level,
        "file": where.path if where else None,
        "line": where.start if where else None,
    }


def _failures(walk: Walk) -> list[dict[str, Any]]:
    """The fixes and tickets that failed."""
    fixes = [
        {
            "finding_id": id,
            "what": "fix",
            "tracker": "",
            "reason": one_line(reason, _MAX_NOTE) or "no reason given",
            "then": "",
        }
        for id, reason in walk.failed_fixes.items()
    ]
    tickets = [
        {"finding_id": one.id, "what": "ticket", "tracker": one.tracker, "reason": one.failure, "then": one.then}
        for one in walk.tickets
        if one.failure
    ]
    return [*fixes, *tickets]


def _failure_text(failure: dict[str, Any]) -> str:
    tracker = f" on {one_line(failure['tracker'], _MAX_NAME)}" if failure["tracker"] else ""
    then = f"; {failure['then']}" if failure["then"] else ""
    return f"{failure['what']}{tracker} failed: {failure['reason']}{then}"


def _tickets(walk: Walk) -> dict[str, list[dict[str, Any]]]:
    """What became of every ticket: each finding is in one list, a filed ticket counting more than a failed one."""
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
    """What the findings do not show."""
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


def _coverage_lines(coverage: dict[str, Any]) -> list[str]:
    lists = ("residual_risks", "testing_gaps", "failed_reviewers")
    lines = [f"- {key.replace('_', ' ').capitalize()}: {'; '.join(coverage[key])}" for key in lists if coverage[key]]
    if gaps := coverage["framing_gaps"]["count"]:
        lines.append(f"- Framing-enrichment gaps: {gaps} ({', '.join(coverage['framing_gaps']['reviewers'])})")
    return [f"- Suppressed findings: {coverage['suppressed']}", *lines]


def _readiness(walk: Walk, review: Review) -> Readiness:
    """Return the verdict on what remains. A fix is claimed until someone has verified it."""
    return review.readiness(fixed=bool(walk.fixes.made) or _count_safe_fixes(review) > 0)


def _explain(walk: Walk, review: Review) -> str:
    """Return why a change is ready only with fixes; empty if it is only that fixes were made."""
    work = [line for line in review.open if _kind(line) not in _LEFT_ALONE]
    if not work:
        return ""
    must = [line for line in work if line.gate is Gate.MUST]
    undecided = [line for line in work if _kind(line) == _UNDECIDED and line.id not in walk.choices]
    blocks = f"{plural(len(must), 'finding')} must still be fixed" if must else "nothing blocks"
    left = f"{_are(undecided)} left to decide" if undecided else f"{_are(work)} still open"
    return f"{blocks}; {left}"


def _are(lines: Sized) -> str:
    return plural(len(lines), "finding is", "findings are")


def _nothing_to_decide(review: Review, apply_with: str) -> str:
    """Return why nothing was asked.

    Findings are called resolved only if all was reviewed and none of them remains open.
    """
    if not review.coverage.looks:
        return "Nothing was reviewed."
    if not review.complete:
        return f"The review is incomplete: {'; '.join(map(one_line, review.gaps))}. No finding needs a decision."
    if review.rejections:
        names = ", ".join(one_line(look.reviewer, _MAX_NAME) for look in review.rejections)
        return f"The change is rejected by {names}. No finding needs a decision."
    safe = _count_safe_fixes(review)
    applied = f" — {plural(safe, 'safe_auto fix', 'safe_auto fixes')} applied" if safe else ""
    left = _count_kinds(review)
    if not left:
        return f"All findings resolved{applied}."
    remain = "finding remains" if sum(left.values()) == 1 else "findings remain"
    done = set(left) <= _LEFT_ALONE and not review.blocking_elsewhere
    resolved = "All actionable findings resolved" if done else "No finding needs a decision"
    hint = f" Make the safe fixes with: {apply_with}" if apply_with and "safe_auto" in left else ""
    return f"{resolved}{applied}. ({_listed(left)} {remain} in the report.){hint}"


def _not_asked(walk: Walk, review: Review) -> dict[str, int]:
    """Why the walk did not ask about some of what is open."""
    return _count_kinds(review, except_for={item.id for item in walk.items})


def _count_kinds(review: Review, except_for: Collection[str] = ()) -> dict[str, int]:
    """Count the open lines of work by why nobody is asked about them, and those for which there is no reason."""
    counts = Counter(_kind(line) for line in review.open if line.id not in except_for)
    counts[_UNRELATED] = sum(line.id not in except_for for line in review.elsewhere)
    return {kind: counts[kind] for kind in _KINDS if counts[kind]}


def _kind(line: Line) -> str:
    """Return why nobody is asked about an open line of work, or that it is undecided."""
    if not line.state.active:
        return _CLAIMED
    if all(finding.pre_existing for finding in line.open_members):
        return "pre-existing"
    action = last_action(line)
    if action:
        return _DECIDED[action]
    if all(finding.autofix_class is AutofixClass.ADVISORY for finding in line.open_members):
        return "advisory"
    if is_safe(line.open_members):
        return "safe_auto"
    return _UNDECIDED if actionable(line) else "doubtful"


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _count_safe_fixes(review: Review) -> int:
    """Count the findings that were fixed without a decision."""
    safe = [one for one in review.findings if one.autofix_class is AutofixClass.SAFE_AUTO]
    return sum(finding.state in _DONE_STATES for finding in safe)
