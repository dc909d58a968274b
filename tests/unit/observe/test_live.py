"""The lines of the live view, on any terminal and for any text."""

import io
import time
from typing import Any

import pytest
from rich.console import Console

from pipeline.engine.events import Event, EventKind
from pipeline.observe.live import INTERVAL, LiveView, MovingLines, finished_line, frame_lines, running_line
from pipeline.observe.run_progress import LineMark, ProgressLine, RunningVisit, RunProgress
from pipeline.text import display_width

K = EventKind
UP = "\x1b[1A"
HOSTILE = "\x1b[2J\x1b[5A日本語👩\u200d👧\u202e " + "x" * 500 + "\r\nlast \x1b[31mline"


def progress(running: int) -> RunProgress:
    shown = {(f"stage_{n}", 1): RunningVisit(f"stage_{n}", 1, 90.0, output=HOSTILE) for n in range(running)}
    return RunProgress(began=0.0, running=shown, tokens=12_300, cost=0.4, reports=2, findings=3, stages=7)


@pytest.mark.parametrize(("width", "height"), [(40, 10), (20, 4), (80, 24), (8, 2)])
@pytest.mark.parametrize("running", [0, 1, 3, 50])
def test_the_moving_lines_fit(width: int, height: int, running: int) -> None:
    """No line is wider than the terminal, and there are never more lines than it has."""
    lines = list(frame_lines(progress(running), 100.0, width, height))
    assert all(display_width(line.plain) < width or width < 20 for line in lines)
    assert len(lines) <= max(height, 3)


def test_the_totals_are_last() -> None:
    """The last line shows stages, time, outstanding reports, tokens and cost."""
    last = list(frame_lines(progress(1), 100.0, 100, 30))[-1].plain
    assert last == "  7 stages · 1m40s · 3 open findings · 12.3k tokens · $0.40"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_countdown_fits(width: int) -> None:
    """While a quota is used up, one line shows when it resets and in how long."""
    line = next(frame_lines(RunProgress(began=0.0, until=8_100.0), 100.0, width, 24)).plain
    assert display_width(line) < width
    assert line.startswith("‖ paused; the")
    assert width < 80 or line.endswith(", in 2h13m")


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("mark", LineMark)
def test_finished_lines_fit_and_are_sanitized(mark: LineMark, width: int) -> None:
    """A line that stays is one line, without escapes, and no wider than the terminal."""
    line = finished_line(ProgressLine(mark, HOSTILE, 3, 1.0, HOSTILE), width).plain
    assert display_width(line) < width
    assert not set(line) & set("\x1b\r\n\u202e\u200d")


def send(view: LiveView, kind: EventKind, stage: str = "", visit: int = 0, **data: Any) -> None:
    view.listen(Event(kind, "r1", 1, time.time(), stage, visit, data))


def test_a_flood_of_events_is_drawn_seldom() -> None:
    """Thousands of events cost a few frames, and every finished visit stays on the screen."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, height=24)
    view = LiveView(stream, console=console)
    began = time.monotonic()
    view.show()
    for number in range(5000):
        send(view, K.STAGE_OUTPUT, "a", 1, text=f"line {number}")
        if number % 100 == 0:
            send(view, K.STAGE_COMPLETED, f"s{number}", 1, status="success", duration=0.1)
    view.close()
    frames = stream.getvalue().count(" stages · ")
    assert frames <= (time.monotonic() - began) / INTERVAL + 2
    assert stream.getvalue().count("✓") == 50


def test_a_narrower_terminal_loses_no_finished_line() -> None:
    """Wrapped lines are erased completely, and nothing above them is."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=80, height=24)
    view = LiveView(stream, console=console)
    send(view, K.STAGE_STARTED, "a", 1)
    send(view, K.STAGE_OUTPUT, "a", 1, text="x" * 80)
    with MovingLines(console=console, auto_refresh=False, transient=True) as moving:
        view.draw(moving)
        stream.truncate(0)
        console.width = 50  # which makes two rows of the output of "a"
        send(view, K.STAGE_COMPLETED, "b", 1, status="success")
        view.draw(moving)
        drawn = stream.getvalue()
    first, rest = drawn.split("✓")
    assert (first.count(UP), rest.count(UP)) == (2, 1)


def test_a_terminal_that_is_gone_stops_nothing() -> None:
    """When nothing can be written anymore, events are still accepted and closing returns."""

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error", text)

    view = LiveView(Gone(), console=Console(file=Gone(), force_terminal=True))
    view.show()
    send(view, K.STAGE_COMPLETED, "a", 1, status="success")
    view.close()


def test_a_running_agent_shows_its_usage_and_its_last_output() -> None:
    """Tokens and cost so far come before its last tool or line."""
    running = RunningVisit("fix", 2, since=100.0, output="Bash: pytest -q", tokens=12_300, cost=0.42)
    assert running_line(running, 112.0, 80).plain.endswith("12.3k tokens · $0.42 · Bash: pytest -q")
