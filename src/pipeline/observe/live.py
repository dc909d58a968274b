"""A run on a terminal: finished visits stay as lines, and a few lines below them show what is running.

Listening only updates the progress. One thread redraws at a fixed rate, however many events arrive.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TextIO

from rich.console import Console, ConsoleRenderable, Group
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.text import Text

from pipeline.engine.events import Event
from pipeline.observe.run_progress import LineMark, ProgressLine, RunningVisit, RunProgress
from pipeline.text import (
    display_width,
    format_cost,
    format_count,
    format_duration,
    format_time_until,
    last_line,
    pad,
    plural,
    sanitize_line,
    truncate,
    visit_label,
)

INTERVAL = 1 / 8  # seconds between two frames
MAX_VISITS = 8  # running visits that are shown
MAX_WIDTH = 80  # columns of the moving lines: a terminal that becomes narrower seldom wraps them
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SIGNS = {
    LineMark.PASSED: ("✓", "green"),
    LineMark.PARTIAL: ("✓", "yellow"),
    LineMark.FAILED: ("✗", "red"),
    LineMark.ERRORED: ("!", "red"),
    LineMark.RETRIED: ("↻", "yellow"),
    LineMark.WARNING: ("!", "yellow"),
}
_NARROW = 60  # columns; below that, names get less room


class MovingLines(Live):
    """The lines that are redrawn. A terminal that became narrower has wrapped them, so more lines are erased."""

    drawn: tuple[int, tuple[int, ...]] = (0, ())  # the width of the terminal, and of each line

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        before, lines = self.drawn
        width = self.console.width
        self.drawn = (0, ())  # a frame may be written in two parts: the lines that stay, then those that move
        wrapped = sum((line - 1) // width for line in lines if line) if width < before else 0
        processed = super().process_renderables(renderables)
        if not wrapped:
            return processed
        erase = Control(*((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * wrapped)
        return [processed[0], erase, *processed[1:]]


class LiveView:
    """Shows a run on a terminal until it is closed."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.time, console: Console | None = None) -> None:
        self._console = console or Console(file=stream, highlight=False, emoji=False, markup=False)
        self._now = now
        self._progress = RunProgress()
        self._lock = threading.Lock()  # of the progress
        self._hidden = threading.Event()
        self._thread: threading.Thread | None = None

    def listen(self, event: Event) -> None:
        """Take an event into account; the next frame shows it."""
        with self._lock:
            self._progress.update(event)

    def show(self) -> None:
        """Start drawing, or continue."""
        if self._thread is None:
            self._hidden.clear()
            self._thread = threading.Thread(target=self._draw_until_hidden, name="awf-view", daemon=True)
            self._thread.start()

    def hide(self) -> None:
        """Stop drawing and remove the moving lines; what has ended stays."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._hidden.set()
            thread.join()

    def close(self) -> None:
        """Leave the finished visits and the totals on the screen."""
        self.hide()
        with self._lock:
            lines = [finished_line(line, self._console.width) for line in self._progress.take_lines()]
            if self._progress.stages:
                totals = totals_text(self._progress, self._now())
                lines.append(Text(f"  {truncate(totals, self._console.width - 3)}", "dim"))
        with suppress(OSError, ValueError):  # the terminal is gone
            for line in lines:
                self._console.print(line, no_wrap=True, crop=True)

    def draw(self, moving: MovingLines, *, last: bool = False) -> None:
        """Write one frame: what has ended since the last one, and what is running unless this is the `last`."""
        width, height = self._console.size
        with self._lock:
            lines = [] if last else list(frame_lines(self._progress, self._now(), min(width, MAX_WIDTH), height))
            finished = [finished_line(line, width) for line in self._progress.take_lines()]
        moving.update(Group(*lines) if lines else "")
        with self._console:  # written at once
            if finished:
                self._console.print(Text("\n").join(finished), no_wrap=True, crop=True)
            moving.refresh()
        moving.drawn = (width, tuple(display_width(line.plain) for line in lines))

    def _draw_until_hidden(self) -> None:
        """Draw frame by frame. A terminal that is gone ends the drawing, never the run."""
        moving = MovingLines(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # output that goes elsewhere is not for the screen
        )
        with suppress(OSError, ValueError), moving:
            while not self._hidden.wait(INTERVAL):
                self.draw(moving)
            self.draw(moving, last=True)


def frame_lines(progress: RunProgress, now: float, width: int, height: int) -> Iterator[Text]:
    """The moving lines: the running visits, as far as there is room, and the totals."""
    visits = progress.visible_visits()
    room = max(min(MAX_VISITS, height // 2 - 1), 1)  # lines that scrolled away cannot be redrawn
    for visit in visits[:room]:
        yield running_line(visit, now, width)
    if len(visits) > room:
        yield Text(truncate(f"  and {len(visits) - room} more", width - 1), "dim")
    if progress.until is not None:
        text = f"paused; the quota resets {format_time_until(progress.until, now)}"
        yield Text.assemble(("‖", "yellow"), " ", truncate(text, width - 3))
    if progress.began is not None:
        yield Text(f"  {truncate(totals_text(progress, now), width - 3)}", "dim")


def running_line(visit: RunningVisit, now: float, width: int) -> Text:
    """A running visit: its name, for how long it runs, what it has used, and its last output."""
    spinner = _SPINNER[int(now / INTERVAL) % len(_SPINNER)]
    attempt = f"attempt {visit.attempt}: " if visit.attempt > 1 else ""
    used = "".join(f"{part} · " for part in _usage_parts(visit.tokens, visit.cost))
    text = (attempt + used + last_line(visit.output)).removesuffix(": ").removesuffix(" · ")
    return _visit_line((spinner, "cyan"), visit.stage, visit.visit, now - visit.since, text, width)


def finished_line(line: ProgressLine, width: int) -> Text:
    """A line that stays on the screen."""
    text = sanitize_line(line.text[:2000])
    if line.mark is LineMark.TITLE:
        name = truncate(sanitize_line(line.stage), width - 1)
        rest = truncate(f"  {text}", width - 1 - display_width(name))
        return Text.assemble((name, "bold"), (rest, "dim"))
    if line.mark is LineMark.GOAL:
        return Text(truncate(text, width - 1))
    sign = _SIGNS[line.mark]
    if not line.stage:
        return Text.assemble(sign, " ", truncate(text, width - 3))
    return _visit_line(sign, line.stage, line.visit, line.seconds, text, width)


def _visit_line(sign: tuple[str, str], stage: str, visit: int, seconds: float | None, text: str, width: int) -> Text:
    name_width = 24 if width >= _NARROW else 14
    duration = "" if seconds is None else format_duration(seconds)
    start = f"{pad(visit_label(stage, visit, name_width), name_width)} {duration:>6}"
    room = width - 1 - 2 - display_width(start) - 2
    shown = truncate(text, room) if room >= 4 else ""
    line = Text.assemble(sign, " ", truncate(start, width - 3))
    return line.append(f"  {shown}", "dim") if shown else line


def totals_text(progress: RunProgress, now: float) -> str:
    """What the run has used so far, in one line."""
    began = now if progress.began is None else progress.began
    parts = [plural(progress.stages, "stage"), format_duration(now - began)]
    if progress.findings:
        parts.append(plural(progress.findings, "open finding"))
    elif progress.reports:
        parts.append(plural(progress.reports, "open report"))
    return " · ".join([*parts, *_usage_parts(*progress.usage())])


def _usage_parts(tokens: int, cost: float) -> list[str]:
    parts = [f"{format_count(tokens)} tokens"] if tokens else []
    return [*parts, format_cost(cost)] if cost else parts
