"""What is about to be done to many findings at once, a line for each, before anything is done."""

from collections.abc import Mapping, Sequence

from pipeline.findings.model import FindingId
from pipeline.findings.walk.advice import Action
from pipeline.findings.walk.block import place, title
from pipeline.findings.walk.entry import Item
from pipeline.findings.walk.menu import ticket
from pipeline.findings.walk.sinks import Sinks
from pipeline.findings.walk.state import Route
from pipeline.findings.walk.wording import cut

Planned = tuple[Item, Action]
_WIDTH = 80
_PURPOSE = {
    Route.ALL: "apply the plan above",
    Route.FILE: "file the tickets above",
    Route.EACH: "resolve the remaining findings above",
}


def stem(route: Route) -> str:
    """The question after a preview."""
    return f"The agent is about to {_PURPOSE[route]}. Proceed?"


def preview(
    planned: Sequence[Planned], sinks: Sinks, route: Route, decided: int, dropped: Mapping[FindingId, Item]
) -> str:
    """The plan: a heading, then what is to be done, by what it is. Nothing to do is not mentioned."""
    buckets = [
        ("Applying", _of(planned, Action.APPLY)),
        (f"Filing {ticket(sinks)}s", _of(planned, Action.DEFER)),
        ("Skipping", [item for item in _of(planned, Action.SKIP) if not _moved(item, sinks)]),
        (
            "Skipping — defer sink unavailable",
            [item for item in _of(planned, Action.SKIP) if _moved(item, sinks)],
        ),
        ("Acknowledging", _of(planned, Action.ACKNOWLEDGE)),
        ("Dropping — refused by the validator", list(dropped.values())),
    ]
    told = ["\n".join([f"{name} ({len(items)}):", *map(_line, items)]) for name, items in buckets if items]
    return "\n\n".join([_heading(planned, sinks, route, decided), *told])


def _heading(planned: Sequence[Planned], sinks: Sinks, route: Route, decided: int) -> str:
    many = len(planned)
    findings = "finding" if many == 1 else "findings"
    if route is Route.FILE:
        return f"File plan — {many} {findings} as {ticket(sinks)}s:"
    filing = sinks.named and _of(planned, Action.DEFER)
    tracker = f" (tracker: {sinks.named})" if filing else ""
    if route is Route.ALL:
        return f"LFG plan — {many} {findings}{tracker}:"
    return f"LFG plan — {many} remaining {findings} ({decided} already decided){tracker}:"


def _of(planned: Sequence[Planned], action: Action) -> list[Item]:
    return [item for item, what in planned if what is action]


def _moved(item: Item, sinks: Sinks) -> bool:
    return item.recommended is Action.DEFER and not sinks.any_sink_available


def _line(item: Item) -> str:
    where = place(item.finding)
    return cut(f"  [{item.level}] {f'{where} — ' if where else ''}{title(item.finding)}", _WIDTH)
