"""What is about to be done to many findings at once."""

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.walk.made import ISSUES, LINEAR, Drive, advisory, finding, question, vote, walk_of

from pipeline.findings.model import Location, Severity
from pipeline.findings.trackers.ticket import NO_TRACKER, TrackerStatus
from pipeline.findings.walk.present import Route, Validation, columns

MIXED = (
    finding(1, severity=Severity.CRITICAL, plain_title="Any caller can read any file of the whole machine now"),
    finding(2, locations=(Location(path="src/a/very/long/path/that/takes/most/of/the/line.py", start=1234),)),
    finding(3, fix=None),
    finding(4, votes=(vote("x", "skip"),), locations=()),
    advisory(5),
)
SINKS = {"named": LINEAR, "generic": ISSUES}


def shown(route: Route, sinks: TrackerStatus = LINEAR, *answers: str, **how: bool) -> list[str]:
    asked = question(Drive().run(walk_of(*MIXED, sinks=sinks, route=route, **how), answers))
    return [*str(asked.above).split("\n"), "", *asked.stem.split("\n"), *(str(option) for option in asked.options)]


@pytest.mark.parametrize("name", SINKS)
@pytest.mark.parametrize("route", [Route.ALL, Route.FILE])
def test_002_71_the_plan_for_all(route: Route, name: str, snapshot: SnapshotAssertion) -> None:
    """002-71: heading, buckets in order without empty ones, a line for each, and two options."""
    assert shown(route, SINKS[name]) == snapshot


def test_002_71_the_plan_for_the_rest(snapshot: SnapshotAssertion) -> None:
    """002-71: it counts what was decided already."""
    assert shown(Route.EACH, LINEAR, "skip", "rest") == snapshot


def test_002_71_without_a_sink_a_ticket_becomes_a_skip(snapshot: SnapshotAssertion) -> None:
    """002-71: what was to be deferred is told apart from what was to be skipped anyway."""
    told = finding(6, votes=(vote("x", "defer"),))
    asked = question(walk_of(*MIXED, told, sinks=NO_TRACKER, route=Route.ALL))
    assert str(asked.above).split("\n") == snapshot


def test_002_71_every_line_fits() -> None:
    """002-71: about eighty columns, with an ellipsis where it is cut."""
    lines = shown(Route.ALL)
    assert max(map(columns, lines)) <= 80
    assert any(line.endswith("…") for line in lines)


def test_002_44_a_plan_with_nothing_left_still_asks() -> None:
    """002-44: when all was refused the person sees that, and can go back."""
    drive = Drive(judge=lambda _one: Validation(validated=False, reason="no"))
    walk = drive.run(walk_of(finding(1), finding(2), validates=True), ["rest"])
    assert str(question(walk).above).startswith("LFG plan — 0 remaining findings (0 already decided):\n\nDropping")


def test_wide_letters_take_two_columns() -> None:
    """002-71: a title in another script is cut where the terminal ends."""
    walk = walk_of(finding(1, title="検" * 100), finding(2), route=Route.ALL)
    [line] = [line for line in str(question(walk).above).split("\n") if line.endswith("…")]
    assert len(line) + line.count("検") == 80
