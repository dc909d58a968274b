"""A run on a terminal. What is done stays, line by line; below it a few lines show what goes on, drawn again and again.

Events are only noted when they come; one thread draws, so many times a second and no more, however many come.
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

PAUSE = 1 / 8  # seconds between two drawings
MOST = 8  # visits that go on and are shown
WIDEST = 80  # columns of the moving lines: a terminal that becomes narrower seldom has to wrap them
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_SIGNS = {
    LineMark.PASSED: ("✓", "green"),
    LineMark.PARTLY: ("✓", "yellow"),
    LineMark.FAILED: ("✗", "red"),
    LineMark.ERRORED: ("!", "red"),
    LineMark.AGAIN: ("↻", "yellow"),
    LineMark.WARNING: ("!", "yellow"),
}
_NARROW = 60  # columns below which a line has less room for names


class _Area(Live):
    """The lines that are drawn again. A terminal that became narrower has wrapped them: that many more are erased."""

    drawn: tuple[int, tuple[int, ...]] = (0, ())  # the terminal's width, and that of each line

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        before, lines = self.drawn
        width = self.console.width
        self.drawn = (0, ())  # a drawing may write twice: what stays, then the lines that move
        more = sum((line - 1) // width for line in lines if line) if width < before else 0
        up = Control(*((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * more)
        processed = super().process_renderables(renderables)
        return [processed[0], up, *processed[1:]] if more else processed


class LiveView:
    """Shows a run on a terminal until it is closed."""

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.time, console: Console | None = None) -> None:
        self._console = console or Console(file=stream, highlight=False, emoji=False, markup=False)
        self._now = now
        self._picture = RunProgress()
        self._noting = threading.Lock()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._area: _Area | None = None

    def listen(self, event: Event) -> None:
        """Note an event; it is drawn with the next drawing."""
        with self._noting:
            self._picture.take(event)

    def show(self) -> None:
        """Begin to draw, or go on."""
        if self._thread is not None:
            return
        self._done.clear()
        self._area = _Area(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # what goes elsewhere is not for the screen
        )
        self._thread = threading.Thread(target=self._keep_drawing, args=(self._area,), name="awf-view", daemon=True)
        self._thread.start()

    def hide(self) -> None:
        """Take the moving lines off the screen and draw no more; what is done stays."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._done.set()
            thread.join()

    def close(self) -> None:
        """Leave what was done and the sums on the screen."""
        self.hide()
        with self._noting:
            left = [visit_line(happened, self._console.width) for happened in self._picture.look()]
            if self._picture.stages:
                left.append(Text(f"  {truncate(sums(self._picture, self._now()), self._console.width - 3)}", "dim"))
        with suppress(OSError, ValueError):  # a terminal that is gone
            for line in left:
                self._console.print(line, no_wrap=True, crop=True)

    def _keep_drawing(self, area: _Area) -> None:
        """Draw until told to stop. A terminal that is gone ends the drawing, never the run."""
        with suppress(OSError, ValueError), area:
            while not self._done.wait(PAUSE):
                self._draw(area)
            self._draw(area, last=True)

    def _draw(self, area: _Area, *, last: bool = False) -> None:
        width, height = self._console.size
        with self._noting:
            lines = [] if last else list(frame(self._picture, self._now(), min(width, WIDEST), height))
            stays = [visit_line(happened, width) for happened in self._picture.look()]
        area.update(Group(*lines) if lines else "")
        with self._console:  # gathers all of it into one writing
            if stays:
                self._console.print(Text("\n").join(stays), no_wrap=True, crop=True)
            area.refresh()
        area.drawn = (width, tuple(display_width(line.plain) for line in lines))


def frame(picture: RunProgress, now: float, width: int, height: int) -> Iterator[Text]:
    """The lines that move: what goes on, as far as there is room, and the sums."""
    running = picture.shown()
    room = max(min(MOST, height // 2 - 1), 1)  # what scrolled away cannot be drawn again
    for one in running[:room]:
        yield running_line(one, now, width)
    if len(running) > room:
        yield Text(truncate(f"  and {len(running) - room} more", width - 1), "dim")
    if picture.until is not None:
        left = f"paused; the quota resets {format_time_until(picture.until, now)}"
        yield Text.assemble(("‖", "yellow"), " ", truncate(left, width - 3))
    if picture.began is not None:
        yield Text(f"  {truncate(sums(picture, now), width - 3)}", "dim")


def running_line(running: RunningVisit, now: float, width: int) -> Text:
    """A visit that goes on: what it is, for how long, and what it said last."""
    sign = _SPINNER[int(now / PAUSE) % len(_SPINNER)]
    attempt = f"attempt {running.attempt}: " if running.attempt > 1 else ""
    used = "".join(f"{part} · " for part in _spending(running.tokens, running.cost))
    said = attempt + used + last_line(running.said)
    return _line(
        (sign, "cyan"),
        running.stage,
        running.visit,
        now - running.since,
        said.removesuffix(": ").removesuffix(" · "),
        width,
    )


def visit_line(happened: ProgressLine, width: int) -> Text:
    """A thing that is done, as it stays on the screen."""
    if happened.mark is LineMark.TITLE:
        name = truncate(sanitize_line(happened.stage), width - 1)
        rest = truncate(f"  {sanitize_line(happened.text)}", width - 1 - display_width(name))
        return Text.assemble((name, "bold"), (rest, "dim"))
    if happened.mark is LineMark.QUIET:
        return Text(truncate(sanitize_line(happened.text), width - 1))
    if not happened.stage:
        sign, style = _SIGNS[happened.mark]
        return Text.assemble((sign, style), " ", truncate(sanitize_line(happened.text), width - 3))
    text = happened.text[:2000]
    return _line(_SIGNS[happened.mark], happened.stage, happened.visit, happened.seconds, text, width)


def _line(sign: tuple[str, str], stage: str, visit: int, seconds: float | None, text: str, width: int) -> Text:
    name = _name_width(width)
    took = "" if seconds is None else format_duration(seconds)
    start = f"{pad(visit_label(stage, visit, name), name)} {took:>6}"
    left = width - 1 - 2 - display_width(start) - 2
    shown = truncate(sanitize_line(text), left) if left >= 4 else ""
    head = Text.assemble(sign, " ", truncate(start, width - 3))
    return head.append(f"  {shown}", "dim") if shown else head


def _name_width(width: int) -> int:
    return 24 if width >= _NARROW else 14


def sums(picture: RunProgress, now: float) -> str:
    """What the run has come to, in one line."""
    began = now if picture.began is None else picture.began
    parts = [plural(picture.stages, "stage"), format_duration(now - began)]
    if picture.outstanding:
        parts.append(f"{plural(picture.outstanding, 'finding')} outstanding")
    return " · ".join([*parts, *_spending(*picture.spent())])


def _spending(tokens: int, cost: float) -> list[str]:
    parts = [f"{format_count(tokens)} tokens"] if tokens else []
    return [*parts, format_cost(cost)] if cost else parts
