"""The summary's sections and their order.

The findings come last, so that "the review findings below" in a prompt points at what directly precedes it, and they
have the first claim on the budget. A section with nothing to say is not there.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from pipeline.engine.context import Context, Key
from pipeline.engine.state import Past
from pipeline.summary import fence
from pipeline.summary.budget import Part, counted, line, prose, quoted, section, shared
from pipeline.summary.outstanding import Group
from pipeline.summary.reports import findings_section
from pipeline.summary.values import values

SMALLEST_BUDGET = 1000
_FINDINGS_SHARE = 0.6
_RECENT = 10  # visits with a line of their own
_NAME = 80
_REASON = 200
_PATH = 500
_GAP = "\n\n"


def _no_items(room: int) -> str:
    """Nothing is known one by one."""
    del room
    return ""


def render(
    context: Context,
    groups: Sequence[Group],
    *,
    goal: str,
    workflow: str,
    past: Sequence[Past],
    budget: int,
    findings_path: str,
    untold: int = 0,
    extra: Sequence[str] = (),
    items: Callable[[int], str] = _no_items,
) -> str:
    """The summary, in at most `budget` characters.

    `groups` are the outstanding reports, `past` is oldest first, and `untold` counts the visits before those; `extra`
    holds sections of plugins, and `items` gives what is known of findings one by one in so many characters: it has a
    line for each, also where that is more, and then the summary is as much longer.
    """
    budget = max(budget, SMALLEST_BUDGET)
    listed = items(min(int(budget * _FINDINGS_SHARE), budget - len(_GAP) - SMALLEST_BUDGET))
    budget = max(budget - len(listed) - len(_GAP), SMALLEST_BUDGET) if listed else budget
    parts = [
        *_goal(goal),
        *_history(past, untold),
        *_feedback(context),
        *_workspace(context),
        *_values(context, groups, budget),
    ]
    extras = [prose(text) for text in extra if fence.clean(text)]
    opening = _opening(workflow)
    needed = len(_GAP.join([opening, *(part.whole for part in (*parts, *extras))])) + len(_GAP)
    room = max(int(budget * _FINDINGS_SHARE), budget - needed)
    asked = () if listed and Key.CHOSEN in context else groups  # what was chosen is all that is asked of a fixer
    findings = findings_section(asked, room, fence.path(findings_path, budget // 5))
    others = _others(opening, parts, extras, budget - len(findings) - len(_GAP))
    return _GAP.join(text for text in (others, findings, listed) if text)


def _opening(workflow: str) -> str:
    name = fence.flat(workflow, _NAME)
    return f"# Context\n\nWorkflow: {name}" if name else "# Context"


def _others(opening: str, parts: Sequence[Part], extras: Sequence[Part], room: int) -> str:
    """All sections but the findings; those that do not go in are named."""
    everything = [*parts, *extras]
    whole = _GAP.join([opening, *(part.whole for part in everything)])
    if len(whole) <= room:
        return whole
    left = room - len(opening) - len(_GAP) - len(_missing(parts, len(extras)))
    texts = shared(everything, left - len(everything) * len(_GAP))
    own = [part for part, text in zip(parts, texts, strict=False) if not text]
    missing = _missing(own, texts[len(parts) :].count(""))
    return _GAP.join(text for text in (opening, *texts, missing) if text)


def _missing(parts: Sequence[Part], extras: int) -> str:
    names = [part.whole.partition("\n")[0].lstrip("# ") for part in parts]
    if extras:
        names.append(counted(extras, "section") + " of plugins")
    return f"[left out for want of room: {', '.join(names)}]" if names else ""


def _goal(goal: str) -> Iterator[Part]:
    if text := fence.clean(goal):
        yield section("## Goal", [quoted("", text)], what="texts")


def _history(past: Sequence[Past], untold: int) -> Iterator[Part]:
    if past:
        older, recent = past[:-_RECENT], past[-_RECENT:]
        before = [line(f"- {counted(untold, 'visit')} before these")] if untold else []
        lines = [*before, *_condensed(older), *(line(_visit(visit)) for visit in recent)]
        yield section("## What has happened", lines, what="earlier entries", newest_last=True)


def _condensed(past: Sequence[Past]) -> Iterator[Part]:
    """A line for each stage, in the order of their first visits: `review_code #1-#12: fail 11, success 1`."""
    stages: dict[str, list[Past]] = {}
    for visit in past:
        stages.setdefault(visit.stage, []).append(visit)
    for stage, visits in stages.items():
        first, last = visits[0].visit, visits[-1].visit
        numbers = f"#{first}" if first == last else f"#{first}-#{last}"
        counts = sorted(Counter(visit.status for visit in visits).items(), key=lambda it: (-it[1], it[0]))
        words = (f"{fence.flat(status, _NAME)} {number:,}" for status, number in counts)
        yield line(f"- {fence.flat(stage, _NAME)} {numbers}: {', '.join(words)}")


def _visit(visit: Past) -> str:
    reason = fence.flat(visit.reason, _REASON)
    status = fence.flat(visit.status, _NAME)
    return f"- {fence.flat(visit.stage, _NAME)} #{visit.visit}: {status}" + (f" ({reason})" if reason else "")


def _feedback(context: Context) -> Iterator[Part]:
    label, selected, feedback = (
        fence.as_text(context.get(key)) for key in (Key.HUMAN_LABEL, Key.HUMAN_SELECTED, Key.HUMAN_FEEDBACK)
    )
    chosen = " / ".join(filter(None, dict.fromkeys(fence.flat(text, _REASON) for text in (label, selected))))
    parts = [line(f"Chosen: {chosen}\n")] if chosen else []
    if text := fence.clean(feedback):
        parts.append(quoted("", text))
    if parts:
        yield section("## Human feedback", parts, what="texts")


def _workspace(context: Context) -> Iterator[Part]:
    named = (("Path", Key.WORKSPACE_PATH), ("Branch", Key.WORKSPACE_BRANCH))
    shown = [(name, fence.path(fence.as_text(context.get(key)), _PATH)) for name, key in named]
    if lines := [line(f"- {name}: {text}") for name, text in shown if text]:
        yield section("## Workspace", lines, what="entries")


def _values(context: Context, groups: Sequence[Group], room: int) -> Iterator[Part]:
    parts, unmade = values(context, (group.newest.whole for group in groups), room)
    if parts:
        yield section("## Context values", parts, what="values", unmade=unmade)
