"""A walk at its beginning, made from a ledger. No tracker is looked for when there is nothing to decide."""

from collections.abc import Mapping

from pipeline.findings.ledger import Ledger
from pipeline.findings.walk.detail import Artifact
from pipeline.findings.walk.entry import entry
from pipeline.findings.walk.machine import begin
from pipeline.findings.walk.sinks import NO_SINKS, Trackers
from pipeline.findings.walk.state import Route, Walk, around


def opened(
    ledger: Ledger,
    trackers: Trackers,
    known: Mapping[str, Artifact] | None = None,
    *,
    route: Route | None = Route.EACH,
    advisory: bool = False,
    confirms: bool = False,
) -> Walk:
    """A walk through what is open; without a route it asks for one."""
    waiting = entry(ledger, NO_SINKS, advisory=advisory)
    sinks = trackers.sinks() if waiting else NO_SINKS
    items = entry((item.finding for item in waiting), sinks, known, advisory=advisory)
    return begin(items, sinks, around(ledger), route=route, confirms=confirms)
