"""What holds for every walk, whatever is answered."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import ledgers
from tests.unit.findings.walk.made import AT, ISSUES, LINEAR

from pipeline.findings.model import Finding, FindingState
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, TrackerStatus
from pipeline.findings.walk.machine import (
    Dispatch,
    FallBack,
    File,
    Next,
    Question,
    Validate,
    WalkDone,
    answer,
    ask,
    begin,
    decisions,
    dispatched,
    fell_back,
    filed,
    validated,
)
from pipeline.findings.walk.present import Fixes, OptionKey, Route, Validation, Walk, walk_items
from pipeline.findings.walk.report import document, markdown

_OPEN: dict[str, Any] = {"state": FindingState.OPEN, "pre_existing": False, "confidence": confidence_from_anchor(75)}
ROUTES = st.none() | st.sampled_from(Route)
PENDING = ledgers(6).map(lambda found: [replace(one, **_OPEN) for one in found])
HOW = st.fixed_dictionaries({"validates": st.booleans(), "confirms": st.booleans()})
CALM = (OptionKey.CANCEL, OptionKey.RETRY)  # answers that may lead in a circle


def step(draw: st.DataObject, walk: Walk, coming: Next, tired: bool) -> Walk:  # noqa: FBT001 - whether it should end
    """Whatever may happen next."""
    match coming:
        case Question():
            keys = [option.key for option in coming.options]
            return answer(walk, draw.draw(st.sampled_from([key for key in keys if not tired or key not in CALM])))
        case File():
            return filed(walk, draw.draw(st.just(Filed("T-1")) | st.just(TicketFailed("down"))))
        case FallBack():
            return fell_back(walk, draw.draw(st.sampled_from((NO_TRACKER, ISSUES))))
        case Validate():
            said = st.dictionaries(
                st.sampled_from([one.id for one in coming.findings]), st.builds(Validation, st.booleans())
            )
            return validated(walk, draw.draw(said))
        case Dispatch():
            made = draw.draw(st.sets(st.sampled_from(coming.ids)))
            return dispatched(walk, Fixes(frozenset(made), {id: "x" for id in coming.ids if id not in made}))
        case WalkDone():
            raise AssertionError


@settings(max_examples=100, deadline=None)
@given(st.data(), PENDING, st.sampled_from((LINEAR, ISSUES, NO_TRACKER)), ROUTES, HOW)
def test_every_walk_ends_with_all_findings_accounted_for(
    data: st.DataObject,
    found: Sequence[Finding],
    sinks: TrackerStatus,
    route: Route | None,
    how: Any,
) -> None:
    """002-40 to 002-60: counts add up to the entry list; one dispatch at most; nothing before it but tickets."""
    wanted = walk_items(found, sinks, advisory=True)
    walk = begin(wanted, sinks, route=route, **how)
    past: list[Next] = []
    while not isinstance(coming := ask(walk), WalkDone):
        assert ask(walk) == coming
        assert decisions(walk, AT, "user") == []
        past.append(coming)
        walk = step(data, walk, coming, tired=len(past) > 60)
    sent = [one for one in past if isinstance(one, Dispatch)]
    assert sum(coming.report.counts.values()) == len(wanted) == len(coming.report.lines)
    assert len(sent) == bool(walk.accepted)
    assert all(one.ids == walk.accepted and one is past[-1] for one in sent)
    assert coming.report.counts["applied"] == len(walk.accepted)
    assert len(decisions(walk, AT, "user")) == len(walk.decided) == len(wanted) - len(walk.dropped) - _left(coming)
    assert document(coming.report)["counts"] == coming.report.counts
    assert markdown(coming.report).endswith(f"Verdict: {coming.report.verdict}.")


def _left(over: WalkDone) -> int:
    return over.report.counts["left"]
