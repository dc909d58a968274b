"""A walk as people see it: the block that explains a finding, the question below it, the plan before a bulk apply.

The block is markdown, the question is plain text, and neither repeats the other. What findings say is sanitized: it can
neither control a terminal nor pass for a heading or a label.
"""

import re
from collections.abc import Iterable
from posixpath import basename

from pipeline.findings.excerpts import Excerpt
from pipeline.findings.explanation import said_text
from pipeline.findings.model import Change, Finding
from pipeline.findings.scales import P_LEVEL, confidence_to_anchor
from pipeline.findings.walk.prose import code, escape, labelled, one_line, present_fix, prose, sentences
from pipeline.findings.walk.state import (
    Action,
    Choice,
    Route,
    Turn,
    Walk,
    WalkItem,
    available_action,
    is_unvalidated,
    lost_its_tracker,
    menu,
    plan,
    proposed_fix,
    recommendations,
    refusals,
    routes,
)
from pipeline.handlers.questions import Option, Question
from pipeline.text import ELLIPSIS, plural, truncate

DONE = {
    Action.APPLY: "applied",
    Action.DEFER: "deferred",
    Action.SKIP: "skipped",
    Action.ACKNOWLEDGE: "acknowledged",
}
DECIDED = DONE | {Action.APPLY: "accepted"}  # what was decided about a finding that is open
_NO_FIX = "No concrete fix proposed; needs a decision."
_NO_SINK = "Defer unavailable on this platform — no durable tracker sink detected."
_NO_SINK_FOR_ROUTE = "Defer unavailable — no durable tracker sink detected on this platform."
_DOWNGRADED = "recommended Defer; downgraded to Skip — no tracker sink available."
_LABELS: dict[Action | Route | Turn, str] = {
    Action.APPLY: "Apply the proposed fix",
    Action.ACKNOWLEDGE: "Acknowledge — mark as reviewed",
    Action.SKIP: "Skip — don't apply, don't track",
    Turn.REST: "Apply the rest — this and all remaining findings, as recommended",
    Turn.PROCEED: "Proceed",
    Turn.CANCEL: "Cancel",
    Turn.FALLBACK: "Fall back to next sink",
    Turn.CONVERT: "Convert to Skip — record the failure",
    Route.EACH: "Review each finding one by one — accept the recommendation or choose another action",
    Route.ALL: "Apply the recommended action to every finding",
    Route.REPORT: "Report only — take no further action",
}
_SEED_LABELS: dict[Action | Route | Turn, str] = {
    Turn.REST: "LFG the rest — apply the agent's best judgment to this and remaining findings",
    Route.ALL: "LFG. Apply the agent's best-judgment action per finding",
}
_PURPOSES = {
    Route.ALL: "apply the plan above",
    Route.MUST: "apply the plan above",
    Route.FILE: "file the tickets above",
    Route.EACH: "resolve the remaining findings above",
}
_LOST, _DROPPED = "lost", "dropped"
_GROUPS = {  # of a plan, in their order
    Action.APPLY: "Applying",
    Action.DEFER: "Filing {ticket}s",
    Action.SKIP: "Skipping",
    _LOST: "Skipping — defer sink unavailable",
    Action.ACKNOWLEDGE: "Acknowledging",
    _DROPPED: "Dropping — refused by the validator",
}

_MAX_EARLIER = 2  # decisions in the block; the details have all of them
_MAX_PLACE = 220  # characters of a path with its lines
_MAX_TITLE = 120  # characters, of at most eight words
_MAX_WORDS = 8
_MAX_WIDTH = 80  # columns of a line in a plan
_LOW_CONFIDENCE = 50  # below it, a recommendation says so
_LINE_NUMBER = re.compile(
    r"\s+(?:on|at|in)\s+lines?\s+\d+(?:\s*[-–]\s*\d+)?\s*$|\s*\(lines?\s+\d+(?:\s*[-–]\s*\d+)?\)\s*$", re.IGNORECASE
)


def ask_route(walk: Walk) -> Question:
    """Ask which route to take."""
    stem = f"What should the agent do with the remaining {len(walk.items)} findings?"
    if not walk.trackers.available:
        stem = f"{stem}\n{_NO_SINK_FOR_ROUTE}"
    offered = [route for route in routes(walk) if route is not Route.MUST]
    return Question(stem, tuple(_option(walk, route, approves=route is Route.ALL) for route in offered))


def ask_about(walk: Walk, item: WalkItem) -> Question:
    """Ask what to do about one item. The last of many is not a single one: the rest can still be applied."""
    recommended = _recommended(walk, item)
    keys: list[Action | Turn] = [*menu(item, walk.trackers)]
    approved: Action | Turn = recommended
    if len(walk.items) > 1:
        keys.append(Turn.REST)
        approved = Turn.REST
    options = tuple(_option(walk, key, recommended=key is recommended, approves=key is approved) for key in keys)
    return Question(_finding_stem(walk, item), options, block=_finding_block(walk, item), about=item.id)


def ask_tracker(walk: Walk) -> Question:
    """Ask whether the first ticket may go to a tracker that was not named."""
    return Question(f"This files a ticket on {walk.trackers.name}. Proceed?", _yes_or_no(walk))


def ask_failed(walk: Walk) -> Question:
    """Ask what to do instead of a ticket that could not be filed; none is given up while a tracker is left."""
    failure = walk.tickets[-1].failure.rstrip(".")
    stem = f"Defer failed: {walk.trackers.name} returned {failure}. How should the agent handle this finding?"
    keys = (Turn.RETRY, Turn.FALLBACK, Turn.CONVERT)
    return Question(stem, tuple(_option(walk, key, approves=key is Turn.FALLBACK) for key in keys))


def ask_plan(walk: Walk) -> Question:
    """Ask whether the plan for all remaining items may be carried out."""
    shown = _preview(walk)
    stem = f"The agent is about to {_PURPOSES[walk.route]}. Proceed?"
    return Question(stem, _yes_or_no(walk), plan=shown, details=f"```\n{shown}\n```")


def _yes_or_no(walk: Walk) -> tuple[Option, ...]:
    return _option(walk, Turn.PROCEED, approves=True), _option(walk, Turn.CANCEL)


def _option(walk: Walk, key: Action | Route | Turn, *, recommended: bool = False, approves: bool = False) -> Option:
    tracker = walk.trackers
    issue = f"a {tracker.label}" if tracker.certain else "an issue"
    named: dict[Action | Route | Turn, str] = {
        Action.DEFER: f"Defer — file a {tracker.label}",
        Turn.RETRY: f"Retry on {tracker.name}",
        Route.FILE: f"File {issue} per finding without applying fixes",
    }
    labels = {**_LABELS, **named, **(_SEED_LABELS if walk.seed_wording else {})}
    return Option(str(key), labels[key], recommended=recommended, approves=approves)


def confirmation(item: WalkItem, choice: Choice) -> str:
    """Return one line that says what was done, and for which findings if there are several."""
    members, where = item.line.open_members, location_lines(item.finding)
    done = {
        Action.APPLY: f"Applied. Fix staged at {where}." if where else "Applied.",
        Action.DEFER: f"Deferred. Ticket filed: {one_line(choice.ref, 400)}.",
        Action.SKIP: "Skipped.",
        Action.ACKNOWLEDGE: "Acknowledged.",
    }
    also = f" For {', '.join(f'#{one.number}' for one in members)}." if len(members) > 1 else ""
    return f"→ {done[choice.action]}{also}"


def title(finding: Finding) -> str:
    """Return what happens, in at most eight words and without the line."""
    text = one_line(finding.plain_title or finding.title, _MAX_TITLE)
    words = (_LINE_NUMBER.sub("", text) or text).rstrip(".").split()
    return " ".join(words) if len(words) <= _MAX_WORDS else f"{' '.join(words[:_MAX_WORDS])}{ELLIPSIS}"


def location(finding: Finding) -> str:
    """Return `path:line`; empty if it has no location."""
    return one_line(finding.location.path_line, _MAX_PLACE) if finding.location else ""


def location_lines(finding: Finding) -> str:
    """Return `path:first-last`; empty if it has no location."""
    return one_line(str(finding.location), _MAX_PLACE) if finding.location else ""


def skip_reason(finding: Finding, impact: str) -> str:
    """Return why a finding may be skipped: what it is about, in one sentence, or how sure it is."""
    about = sentences(one_line(impact))
    return one_line(about[0], 100) if about else f"confidence {confidence_to_anchor(finding.confidence)}"


def _recommended(walk: Walk, item: WalkItem) -> Action:
    return available_action(item.recommended, item, walk.trackers)


def _heading(walk: Walk, item: WalkItem, name: str) -> str:
    position = f"Finding {walk.items.index(item) + 1} of {len(walk.items)} — " if len(walk.items) > 1 else ""
    return f"{position}{item.level} {name}"


def _finding_stem(walk: Walk, item: WalkItem) -> str:
    lines = [f"{_heading(walk, item, _within_sentence(title(item.finding)))}.", _action_phrase(walk, item)]
    return "\n".join(lines if walk.trackers.available else [*lines, _NO_SINK])


def _within_sentence(name: str) -> str:
    """Return a title without the capital of its first word, if that has it only because it comes first."""
    first = name.split(" ", 1)[0]
    return name[:1].lower() + name[1:] if len(first) > 1 and first[1:].islower() else name


def _action_phrase(walk: Walk, item: WalkItem) -> str:
    """Return what the recommended action does, as a question."""
    where = item.finding.location
    file = f" in {one_line(basename(where.path), 60)}" if where else ""
    phrases = {
        Action.APPLY: f"Apply the proposed fix{file}?",
        Action.DEFER: f"Defer and file a {walk.trackers.label}?",
        Action.ACKNOWLEDGE: "Acknowledge it as reviewed?",
        Action.SKIP: "Skip the fix and leave the finding open?",
    }
    return phrases[_recommended(walk, item)]


def _conflict(walk: Walk, item: WalkItem) -> str:
    """Return which reviewers disagree, and a downgraded recommendation; empty if there is neither."""
    wanted = recommendations(item.line)
    downgraded = f"{'Stage 5' if walk.seed_wording else 'The review'} {_DOWNGRADED}"
    parts = [downgraded] if lost_its_tracker(walk, item) else []
    if len({finding.action for finding in wanted}) > 1:
        votes = "; ".join(map(_recommendation, wanted))
        parts = [f"{votes}.", *parts, f"Agent's recommendation: {_recommended(walk, item).capitalize()}."]
    return " ".join(parts)


def _recommendation(finding: Finding) -> str:
    name = one_line(finding.reviewer, 60)
    doubt = " (low confidence)" if finding.confidence.value < _LOW_CONFIDENCE else ""
    return f"{name[:1].upper()}{name[1:]} recommends {finding.action.capitalize()}{doubt}"


def _finding_block(walk: Walk, item: WalkItem) -> str:
    same_as = f"may be the same as {', '.join(f'#{number}' for number in item.same_as)}" if item.same_as else ""
    where = " — ".join(part for part in (location(item.finding), same_as) if part)
    parts = [f"## {_heading(walk, item, title(item.finding))}", escape(where)]
    if item.line.decisions:
        parts.append(f"Earlier: {'; '.join(map(_earlier, item.line.decisions[-_MAX_EARLIER:]))}.")
    parts += labelled(_sections(item))
    parts.append(escape(_conflict(walk, item)))
    return "\n\n".join(part for part in parts if part)


def _earlier(change: Change) -> str:
    """Return what was decided before, when, and the ticket or the reason."""
    about = one_line(change.ref or change.note, _MAX_TITLE).rstrip(".")
    text = f"{DECIDED[Action(change.word)]} on {change.at[:10]}"
    return one_line(f"{text}, {about}" if about else text, 2 * _MAX_TITLE)


def details(item: WalkItem, excerpts: Iterable[Excerpt]) -> str:
    """Return everything that is known about a finding as markdown, with the code that it is about."""
    finding, with_fix = item.finding, proposed_fix(item.line)
    sections = {
        "What's wrong": prose(item.impact),
        "Whole fix": code(with_fix.fix or "") if with_fix else "",
        "Why it works": prose(item.why_it_works),
        "Evidence": "\n\n".join(code(one.raw or one.quote) for one in finding.evidence),
        **{f"Code: {one_line(str(one.evidence), 200)}": _excerpt(one) for one in excerpts},
        "How to reproduce": code(finding.reproduction or ""),
        "Recommendations": "\n".join(f"- {_recommendation(one)}" for one in recommendations(item.line)),
        "Attempts": "\n".join(f"- {_attempt(change)}" for change in finding.claims),
        "Decisions": "\n".join(f"- {_earlier(change)}" for change in item.line.decisions),
    }
    return "\n\n".join([f"## #{item.line.number} {one_line(finding.title, 400)}", *labelled(sections)])


def _attempt(change: Change) -> str:
    return f"{one_line(change.who, 60)}: {one_line(said_text(change.word, change.note))}"


def _excerpt(excerpt: Excerpt) -> str:
    lines = [f"{'>' if hit else ' '} {number:>4}  {text}" for number, text, hit in excerpt.lines]
    shown = "\n".join(["```", *lines, "```"]) if lines else ""
    return f"{shown}\n\n{excerpt.note}".strip("\n")


def _sections(item: WalkItem) -> dict[str, str]:
    """Return what the block says about a finding, by label. What nobody explained is not shown to work either."""
    with_fix = proposed_fix(item.line)
    fix = "" if item.advisory else _NO_FIX
    if with_fix:
        fix = present_fix(with_fix.fix or "", location(with_fix), item.pointer)
    if not item.impact:
        sections = {"Proposed fix": fix}
    else:
        why = " ".join(sentences(one_line(item.why_it_works))[:3])
        sections = {"What's wrong": prose(item.impact), "Proposed fix": fix, "Why it works": escape(why)}
    if item.line.others:
        members = [_member(item.finding, ""), *(_member(other, other.impact) for other in item.line.others)]
        sections[f"Reported by {plural(len(item.line.reviewers), 'reviewer')}"] = "\n".join(members)
    return sections


def _member(finding: Finding, impact: str) -> str:
    """Return a member of a line of work, in its reviewer's own words as far as they are not shown above."""
    about = f": {one_line(impact, 300)}" if impact else ""
    closed = "" if finding.state.is_open else f" ({finding.state.replace('_', ' ')})"
    named = f"- {one_line(finding.reviewer, 60)}, {P_LEVEL[finding.severity]}"
    return f"{named} {one_line(finding.title, _MAX_TITLE)}{closed}{about}"


def _preview(walk: Walk) -> str:
    """Return the plan: a heading, then the findings by what is to be done; empty groups are left out."""
    planned, dropped = plan(walk), refusals(walk)
    groups: dict[str, list[WalkItem]] = {name: [] for name in _GROUPS}
    for item, action in planned:
        lost = action is Action.SKIP and lost_its_tracker(walk, item)
        groups[_LOST if lost else action].append(item)
    groups[_DROPPED] = [item for item in walk.remaining if item.id in dropped]
    texts = [_plan_heading(walk, len(planned), tickets=bool(groups[Action.DEFER]))]
    for name, found in groups.items():
        if found:
            heading = _GROUPS[name].format(ticket=walk.trackers.label)
            texts.append("\n".join([f"{heading} ({len(found)}):", *(_plan_line(walk, item) for item in found)]))
    return "\n\n".join(texts)


def _plan_heading(walk: Walk, count: int, *, tickets: bool) -> str:
    if walk.route is Route.FILE:
        return f"File plan — {plural(count, 'finding')} as {walk.trackers.label}s:"
    what = plural(count, "finding")
    if walk.route is Route.EACH:
        what = f"{plural(count, 'remaining finding')} ({len(walk.choices)} already decided)"
    tracker = f" (tracker: {walk.trackers.name})" if tickets and walk.trackers.certain else ""
    return f"{'LFG plan' if walk.seed_wording else 'Plan'} — {what}{tracker}:"


def _plan_line(walk: Walk, item: WalkItem) -> str:
    flag = " (not validated)" if is_unvalidated(walk, item) else ""
    where = " — ".join(filter(None, (location(item.finding), title(item.finding))))
    return truncate(f"  [{item.level}] {where}", _MAX_WIDTH - len(flag)) + flag
