"""One line for each event that matters to a person."""

import io
from typing import Any

from syrupy.assertion import SnapshotAssertion

from pipeline.engine.events import Event, EventKind
from pipeline.observe.progress import PlainLines, event_line, open_view

K = EventKind


def event(kind: str, stage: str = "", visit: int = 0, **data: Any) -> Event:
    return Event(kind, "20261116-083012-4f7kq", 1, 1_794_000_000.0, stage, visit, data)


EVERY = [
    event(K.RUN_STARTED, "plan", 1, goal="Add a\nbutton", workflow="Quick Dev"),
    event(K.RUN_RESUMED, "plan", 1, goal="", workflow="Quick Dev"),
    event(K.STAGE_STARTED, "plan", 1, attempt=1),
    event(K.STAGE_OUTPUT, "plan", 1, text="..."),
    event(K.STAGE_RETRYING, "plan", 1, attempt=1, reason="the agent failed", delay=2.0),
    event(K.STAGE_STARTED, "plan", 1, attempt=2),
    event(K.STAGE_COMPLETED, "plan", 1, status="success", duration=12.0, reason=""),
    event(K.CHECKPOINT_SAVED, "plan", 1),
    event(K.STAGE_FAILED, "selfci", 2, status="fail", duration=3.2, reason="\x1b[31mFAILED\x1b[0m test_x - boom"),
    event(K.STAGE_ERRORED, "review", 1, attempt=3, duration=3.2, reason="claude was refused: 401"),
    event("findings_changed", "selfci", 2, reports=1, findings=2),
    event("findings_changed", "selfci", 2, reports=0, findings=1),
    event(K.HUMAN_ASKED, "ask", 1),
    event(K.HUMAN_ANSWERED, "ask", 1, option="yes"),
    event(K.PLUGIN_FAILED, plugin="tracker", hook="conclude", error="KeyError: 'x'"),
    event(K.RUN_PAUSED, "selfci", 9, status="paused", reason="max_visits is reached: 8 of 8", outstanding=1),
    event(K.RUN_COMPLETED, "exit", 1, status="success", reason="reached exit"),
    event(K.RUN_FAILED, "plan", 1, status="fail", reason="x" * 1000),
    event(K.RUN_CANCELLED, "plan", 1, status="cancelled", reason=""),
]


def test_every_event_in_a_line(snapshot: SnapshotAssertion) -> None:
    """Every kind of event has a line, shown here without its time; output and checkpoints have none."""
    assert {one.event for one in EVERY} == {*K, "findings_changed"}
    assert "\n".join(event_line(one)[8:] for one in EVERY) == snapshot


def test_lines_begin_with_the_time_of_day() -> None:
    """A line begins with hours, minutes and seconds."""
    clock = event_line(EVERY[2])[:8]
    assert [clock[2], clock[5]] == [":", ":"]


def test_what_does_not_matter_is_not_written() -> None:
    """An event without a line leaves no empty one."""
    stream = io.StringIO()
    lines = PlainLines(stream)
    for one in EVERY:
        lines.listen(one)
    assert stream.getvalue().count("\n") == len(EVERY) - 2


def test_a_pipe_gets_plain_lines() -> None:
    """There is no live view without a terminal."""
    with open_view(io.StringIO()) as view:
        assert isinstance(view, PlainLines)
