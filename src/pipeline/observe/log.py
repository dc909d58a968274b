"""A run's events in a file, one JSON object a line. The only importer of structlog."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import structlog

from pipeline.engine.events import Event, Listener
from pipeline.errors import AwfError


@contextmanager
def event_log(path: Path) -> Iterator[Listener]:
    """A listener that adds each event to the end of a file. A file that cannot be opened is said before the run."""
    try:
        file = path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        words = f'the log "{path}" cannot be written: {error.strerror or error}'
        raise AwfError(words, help="name a file that you may write with --log, or leave it out") from None
    try:
        yield _listener(file)
    finally:
        with suppress(OSError):  # what a full disk did not take is lost here as well
            file.close()


def _listener(file: TextIO) -> Listener:
    renderer = structlog.processors.JSONRenderer(default=str)
    logger = structlog.wrap_logger(structlog.WriteLogger(file), processors=[renderer])

    def listen(event: Event) -> None:
        told = event.to_dict()
        told["time"] = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds")
        with suppress(OSError, ValueError):  # a full disk ends the log, not the run
            logger.info(str(told.pop("event")), **told)

    return listen
