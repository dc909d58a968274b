"""What a person sees while a run goes on: one line for each thing that happens, or a live view on a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from pipeline.engine.events import Event, EventKind

_SILENT = frozenset({EventKind.STAGE_OUTPUT, EventKind.CHECKPOINT_SAVED, EventKind.FINDINGS_CHANGED})


class View(Protocol):
    """Something that shows a run."""

    def listen(self, event: Event) -> None:
        """Take an event in."""

    def step_aside(self) -> None:
        """Leave the terminal to somebody who asks a question."""

    def come_back(self) -> None:
        """Go on showing."""


class PlainLines:
    """One line for each event that a person cares about."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def listen(self, event: Event) -> None:
        if event.event not in _SILENT:
            self._stream.write(line(event) + "\n")
            self._stream.flush()

    def step_aside(self) -> None:
        """Lines do not get in the way."""

    def come_back(self) -> None:
        """Lines do not get in the way."""


def line(event: Event) -> str:
    """An event in one line."""
    return f"{event.event} {event.stage} {event.data.get('status', '')} {event.data.get('reason', '')}".rstrip()


@contextmanager
def screen() -> Iterator[View]:
    """A live view."""
    import sys

    yield PlainLines(sys.stderr)
