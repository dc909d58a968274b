"""What a person sees during a run: one line per event, or a live view on a terminal."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol, TextIO

from pipeline.engine.events import Event, EventKind
from pipeline.text import (
    format_duration,
    format_time_until,
    one_line,
    pad,
    plural,
    visit_label,
)

_NAME_WIDTH = 20  # columns for a stage and its visit
_MAX_TEXT = 400  # columns
_RUN_EVENTS = frozenset(kind for kind in EventKind if kind.startswith("run_"))


class RunView(Protocol):
    """Something that shows a run."""

    def listen(self, event: Event) -> None:
        """Show an event."""

    def hide(self) -> None:
        """Leave the terminal to a question."""

    def show(self) -> None:
        """Continue after `hide`."""


class PlainLines:
    """One line for each event that matters to a person."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def listen(self, event: Event) -> None:
        if line := event_line(event):
            self._stream.write(line + "\n")
            self._stream.flush()

    def hide(self) -> None:
        """Lines do not get in the way of a question."""

    def show(self) -> None:
        """As above."""


@contextmanager
def open_view(stream: TextIO) -> Iterator[RunView]:
    """The view that fits a stream: live on a terminal that supports it, else plain lines."""
    if not stream.isatty() or os.environ.get("TERM") in ("dumb", "unknown"):
        yield PlainLines(stream)
        return
    from pipeline.observe.live import LiveView  # noqa: PLC0415 - rich takes 60 ms, and only a terminal needs it

    view = LiveView(stream)
    view.show()
    try:
        yield view
    finally:
        view.close()


def event_line(event: Event) -> str:
    """An event in one line; empty for one that does not matter to a person."""
    text = _event_text(event)
    if text is None:
        return ""
    clock = datetime.fromtimestamp(event.at).astimezone().strftime("%H:%M:%S")
    name = visit_label(event.stage, event.visit) if event.stage and event.event not in _RUN_EVENTS else "run"
    return f"{clock}  {pad(name, _NAME_WIDTH)}  {text}".rstrip()


def _event_text(event: Event) -> str | None:
    data, reason = event.data, _said(event.data.get("reason"))
    match event.event:
        case EventKind.RUN_STARTED | EventKind.RUN_RESUMED:
            verb = event.event.removeprefix("run_")
            return f"{verb}  {event.run_id}  {_said(data.get('workflow'))}: {_said(data.get('goal'))}".rstrip(": ")
        case EventKind.STAGE_STARTED:
            return "started" if data.get("attempt", 1) == 1 else f"started, attempt {data['attempt']}"
        case EventKind.STAGE_RETRYING:
            return _columns("retry", "", f"{reason} (retrying in {format_duration(data.get('delay', 0.0))})")
        case EventKind.STAGE_COMPLETED | EventKind.STAGE_FAILED:
            return _columns(data.get("status", ""), format_duration(data.get("duration", 0.0)), reason)
        case EventKind.STAGE_ERRORED:
            return _columns("error", format_duration(data.get("duration", 0.0)), reason)
        case "findings_changed":  # of the findings plugin
            return f"{plural(data.get('findings', 0), 'open finding')}, {plural(data.get('reports', 0), 'open report')}"
        case EventKind.HUMAN_ASKED:
            return "asks a person"
        case EventKind.HUMAN_ANSWERED:
            return f"answered: {_said(data.get('option'))}" + (f" (by {_said(data['by'])})" if data.get("by") else "")
        case EventKind.PLUGIN_FAILED:
            return f"plugin {_said(data.get('plugin'))} failed in {data.get('hook')}: {_said(data.get('error'))}"
        case EventKind.RUN_PAUSED | EventKind.RUN_COMPLETED | EventKind.RUN_FAILED | EventKind.RUN_CANCELLED:
            until = f"; continues {format_time_until(data['until'], event.at)}" if data.get("until") else ""
            return _columns(data.get("status", ""), "", reason + until)
        case _:  # output, checkpoints, and events of plugins
            return None


def _columns(status: str, duration: str, text: str) -> str:
    return f"{status:<7}  {duration:>6}  {text}"


def _said(value: object) -> str:
    return one_line(str(value or ""), _MAX_TEXT)
