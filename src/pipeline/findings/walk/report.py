"""The completion report of a walk, the same however it ended. Its counts add up to the findings it started with."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pipeline.findings.events import Coverage, Disposition
from pipeline.findings.ledger import Ledger, last_passes, open_findings
from pipeline.findings.merge import passes
from pipeline.findings.model import AutofixClass, Finding, FindingState
from pipeline.findings.reviews import last_review, standing_rejections
from pipeline.findings.verdicts import Readiness, verdicts
from pipeline.findings.walk.machine import UNTRACKED, Action, Walk, WalkItem
from pipeline.findings.walk.present import DONE, location, one_line, title

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
_LEFT_ALONE = {"advisory", "pre-existing", DONE[Action.ACKNOWLEDGE]}  # what nobody has to act on


def render_report(walk: Walk, apply_with: str = "") -> str:
    """Return the report as markdown: failures, findings by what became of them, counts, coverage, verdict."""
    data = report_data(walk, apply_with)
    verdict = f"Verdict: {data['verdict']}."
    if not walk.items:
        return f"{data['summary']}\n\n{verdict}"
    names = {item.finding.id: f"{item.level} {title(item.finding)}" for item in walk.items}
    sections = {"Failures": [f"- {names[one['finding_id']]} — {_failure_text(one)}" for one in data["failures"]]}
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


def report_data(walk: Walk, apply_with: str = "") -> dict[str, Any]:
    """Return the report for programs, with the findings by what became of them and in the order of the walk.

    `apply_with` is the command that makes the fixes which were accepted and not made.
    """
    order = list(_BUCKETS)
    findings = sorted((_entry(item, walk) for item in walk.items), key=lambda one: order.index(one["action"]))
    counts = {bucket: sum(one["action"] == bucket for one in findings) for bucket in order}
    failures = _failures(walk)
    summary = {bucket: f"{count} {_BUCKETS[bucket]}" for bucket, count in counts.items() if count}
    accepted = [summary.pop(_ACCEPTED)] if counts[_ACCEPTED] else []  # last, since it says what to do
    hint = [f"apply them with: {apply_with}"] if apply_with and accepted else []
    decided = "; ".join([*filter(None, [", ".join(summary.values())]), *accepted, *hint])
    return {
        "route": str(walk.route),
        "failures": failures,
        "findings": findings,
        "counts": counts,
        "apply": [finding.id for finding in walk.accepted],
        "tickets": _tickets(walk),
        "open": len(open_findings(walk.ledger)),
        "not_asked": _not_asked(walk),
        "coverage": _coverage(walk),
        "summary": decided if walk.items else _nothing_to_decide(walk.ledger, apply_with),
        "verdict": str(_readiness(walk)),
    }


def _entry(item: WalkItem, walk: Walk) -> dict[str, Any]:
    """What became of one finding, with the ticket, the reason, or how the fix went."""
    id, decision = item.finding.id, walk.decisions.get(item.finding.id)
    bucket, note = "left", ""
    if id in walk.dropped:
        bucket, note = "dropped", walk.dropped[id]
    elif decision:
        bucket, note = DONE[Action(decision.action)], decision.ref or decision.reason
    if bucket == DONE[Action.APPLY]:
        note = location(item.finding, all_lines=True)
        if id not in walk.fixes.made:
            bucket = _FAILED if id in walk.fixes.failed else _ACCEPTED
    if id in walk.unvalidated and id not in walk.dropped:
        note = ", ".join(filter(None, (note, "not validated")))
    return {
        "id": id,
        "number": item.finding.number,
        **_description(item),
        "action": bucket,
        "reference": decision.ref if decision else "",
        "note": one_line(note, _MAX_NOTE),
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
    reasons = walk.fixes.failed
    fixes = [
        {
            "finding_id": finding.id,
            "what": "fix",
            "tracker": "",
            "reason": one_line(reasons[finding.id], _MAX_NOTE) or "no reason given",
            "then": "",
        }
        for finding in walk.accepted
        if finding.id in reasons
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
    untracked = {id for id, decision in walk.decisions.items() if decision.reason == UNTRACKED} - set(failed)
    no_sink = [item for item in walk.items if item.finding.id in untracked]
    return {
        "filed": [{"finding_id": id, "tracker": one.tracker, "url": one.reference} for id, one in filed.items()],
        "failed": [{"finding_id": id, "tracker": one.tracker, "reason": one.failure} for id, one in failed.items()],
        "no_sink": [{"finding_id": item.finding.id, **_description(item)} for item in no_sink],
    }


def _coverage(walk: Walk) -> dict[str, Any]:
    """What the findings do not show."""
    coverage, last = walk.ledger.coverage() or Coverage(), last_passes(walk.ledger)
    hidden = (Disposition.SUPPRESSED, Disposition.FILTERED)
    unexplained = [item for item in walk.items if item.unexplained_by]
    reviewers = dict.fromkeys(name for item in unexplained for name in item.unexplained_by)
    return {
        "suppressed": sum(entry.disposition in hidden for one in last for entry in one.entries),
        "residual_risks": [one_line(text, _MAX_NOTE) for one in last for text in one.coverage.residual_risks],
        "testing_gaps": [one_line(text, _MAX_NOTE) for one in last for text in one.coverage.testing_gaps],
        "failed_reviewers": _failed_reviewers(coverage),
        "framing_gaps": {"count": len(unexplained), "reviewers": [one_line(name, _MAX_NAME) for name in reviewers]},
    }


def _coverage_lines(coverage: dict[str, Any]) -> list[str]:
    lists = ("residual_risks", "testing_gaps", "failed_reviewers")
    lines = [f"- {key.replace('_', ' ').capitalize()}: {'; '.join(coverage[key])}" for key in lists if coverage[key]]
    if gaps := coverage["framing_gaps"]["count"]:
        lines.append(f"- Framing-enrichment gaps: {gaps} ({', '.join(coverage['framing_gaps']['reviewers'])})")
    return [f"- Suppressed findings: {coverage['suppressed']}", *lines]


def _failed_reviewers(coverage: Coverage) -> list[str]:
    return [f"{one_line(name, _MAX_NAME)} ({status})" for name, status in coverage.silent.items()]


def _readiness(walk: Walk) -> Readiness:
    """The verdict on what remains. A fix counts as claimed until someone has verified it."""
    coverage = walk.ledger.coverage()
    if coverage is None:  # nothing was reviewed
        return Readiness.NOT_READY
    made = walk.fixes.made
    left = [
        replace(one, state=FindingState.FIX_CLAIMED) if one.id in made and one.state.active else one
        for one in walk.ledger
    ]
    fixes_applied = bool(made or _count_safe_fixes(left))
    last = last_review(walk.ledger)
    changed = last is not None and last.tree_changed
    said = standing_rejections(walk.ledger)
    return verdicts(left, coverage, said, fixes_applied=fixes_applied, changed=changed).readiness


def _nothing_to_decide(ledger: Ledger, apply_with: str) -> str:
    """Why nothing was asked. Findings are called resolved only if all was reviewed and none of them remains open."""
    coverage = ledger.coverage()
    if coverage is None:
        return "Nothing was reviewed."
    if not coverage.complete:
        failed = ", ".join(_failed_reviewers(coverage))
        return f"The review is incomplete: {failed}. No finding needs a decision."
    if rejections := standing_rejections(ledger):
        names = ", ".join(one_line(one.reviewer, _MAX_NAME) for one in rejections)
        return f"The change is rejected by {names}. No finding needs a decision."
    safe = _count_safe_fixes(ledger)
    applied = f" — {safe} safe_auto {'fix' if safe == 1 else 'fixes'} applied" if safe else ""
    left = _count_kinds(open_findings(ledger))
    if not left:
        return f"All findings resolved{applied}."
    remain = "finding remains" if sum(left.values()) == 1 else "findings remain"
    resolved = "All actionable findings resolved" if set(left) <= _LEFT_ALONE else "No finding needs a decision"
    hint = f" Make the safe fixes with: {apply_with}" if apply_with and "safe_auto" in left else ""
    return f"{resolved}{applied}. ({_listed(left)} {remain} in the report.){hint}"


def _not_asked(walk: Walk) -> dict[str, int]:
    """Why the walk did not ask about some of the open findings."""
    asked = {item.finding.id for item in walk.items}
    return _count_kinds(one for one in open_findings(walk.ledger) if one.id not in asked)


def _count_kinds(findings: Iterable[Finding]) -> dict[str, int]:
    """How many of some open findings are of each kind for which nobody is asked, and how many of no such kind."""
    classes = {AutofixClass.ADVISORY: "advisory", AutofixClass.SAFE_AUTO: "safe_auto"}
    counts = Counter(
        "claimed to be fixed"
        if not one.state.active
        else "pre-existing"
        if one.pre_existing
        else _DECIDED[Action(one.decisions[-1].action)]
        if one.decisions and one.decisions[-1].action in set(Action)
        else classes.get(one.autofix_class, "undecided" if passes(one.severity, one.confidence) else "doubtful")
        for one in findings
    )
    order = (
        "advisory",
        "pre-existing",
        "safe_auto",
        "doubtful",
        "claimed to be fixed",
        *_DECIDED.values(),
        "undecided",
    )
    return {kind: counts[kind] for kind in order if counts[kind]}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _count_safe_fixes(findings: Iterable[Finding]) -> int:
    done = (FindingState.FIX_CLAIMED, FindingState.VERIFIED_FIXED)
    return sum(finding.autofix_class is AutofixClass.SAFE_AUTO and finding.state in done for finding in findings)
