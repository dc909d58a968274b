"""What a person sees while a run goes on: one line for each thing that matters, or a live view on a terminal."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol, TextIO

from pipeline.engine.events import Event, EventKind
from pipeline.text import format_duration, format_time_until, pad, plural, sanitize_line, visit_label

_NAME = 20  # columns for a stage and its visit
_LONGEST = 400  # characters of a line's last part
_OF_THE_RUN = frozenset(kind for kind in EventKind if kind.startswith("run_"))


class RunView(Protocol):
    """Something that shows a run."""

    def listen(self, event: Event) -> None:
        """Take an event in."""

    def hide(self) -> None:
        """Leave the terminal to somebody who asks a question."""

    def show(self) -> None:
        """Go on showing."""


class PlainLines:
    """One line for each event that a person cares about."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def listen(self, event: Event) -> None:
        if written := line(event):
            self._stream.write(written + "\n")
            self._stream.flush()

    def hide(self) -> None:
        """Lines do not get in the way."""

    def show(self) -> None:
        """Lines do not get in the way."""


@contextmanager
def open_view(stream: TextIO) -> Iterator[RunView]:
    """The view that fits a stream: a live one on a terminal that can show it, plain lines elsewhere."""
    if not stream.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        yield PlainLines(stream)
        return
    from pipeline.observe.live import LiveView  # noqa: PLC0415 - rich takes a while, and only a terminal needs it

    view = LiveView(stream)
    view.show()
    try:
        yield view
    finally:
        view.close()


def line(event: Event) -> str:
    """An event in one line, without the line's end; nothing for one that does not matter to a person."""
    told = _told(event)
    if told is None:
        return ""
    clock = datetime.fromtimestamp(event.at).astimezone().strftime("%H:%M:%S")
    name = visit_label(event.stage, event.visit) if event.stage and event.event not in _OF_THE_RUN else "run"
    return f"{clock}  {pad(name, _NAME)}  {told}".rstrip()


def _told(event: Event) -> str | None:
    data = event.data
    match event.event:
        case EventKind.RUN_STARTED | EventKind.RUN_RESUMED:
            word = event.event.removeprefix("run_")
            return f"{word}  {event.run_id}  {_text(data.get('workflow'))}: {_text(data.get('goal'))}".rstrip(": ")
        case EventKind.STAGE_STARTED:
            return "started" if data.get("attempt", 1) == 1 else f"started, attempt {data['attempt']}"
        case EventKind.STAGE_RETRYING:
            delay = format_duration(data.get("delay", 0.0))
            return f"{'retry':<7}  {'':>6}  {_text(data.get('reason'))} (again in {delay})"
        case EventKind.STAGE_COMPLETED | EventKind.STAGE_FAILED:
            duration = format_duration(data.get("duration", 0.0))
            return f"{data.get('status', ''):<7}  {duration:>6}  {_text(data.get('reason'))}"
        case EventKind.STAGE_ERRORED:
            return f"{'error':<7}  {format_duration(data.get('duration', 0.0)):>6}  {_text(data.get('reason'))}"
        case "findings_changed":
            return f"{plural(data.get('outstanding', 0), 'finding')} outstanding"
        case EventKind.HUMAN_ASKED:
            return "asks a person"
        case EventKind.HUMAN_ANSWERED:
            return f"answered: {_text(data.get('option'))}" + (f" (by {_text(data['by'])})" if data.get("by") else "")
        case EventKind.PLUGIN_FAILED:
            return f"plugin {_text(data.get('plugin'))} failed in {data.get('hook')}: {_text(data.get('error'))}"
        case EventKind.RUN_PAUSED | EventKind.RUN_COMPLETED | EventKind.RUN_FAILED | EventKind.RUN_CANCELLED:
            until = f"; continues {format_time_until(data['until'], event.at)}" if data.get("until") else ""
            return f"{data.get('status', ''):<7}  {'':>6}  {_text(data.get('reason'))}{until}"
        case _:
            return None


def _text(value: object) -> str:
    text = sanitize_line(str(value or ""))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
