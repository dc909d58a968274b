"""The events of a run in a file, one JSON object per line. The only importer of structlog."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import structlog

from pipeline.engine.events import Event, Listener
from pipeline.errors import AwfError


@contextmanager
def event_log(path: Path) -> Iterator[Listener]:
    """A listener that appends each event to a file; an error before the run starts if the file cannot be opened."""
    try:
        file = path.open("a", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        message = f'the log "{path}" cannot be written: {error.strerror or error}'
        raise AwfError(message, help="give --log a file that you may write, or leave it out") from None
    renderer = structlog.processors.JSONRenderer(default=str)
    logger = structlog.wrap_logger(structlog.WriteLogger(file), processors=[renderer])

    def listen(event: Event) -> None:
        fields = event.to_dict()
        fields["time"] = datetime.fromtimestamp(event.at, UTC).isoformat(timespec="milliseconds")
        with suppress(OSError, ValueError):  # a full disk ends the log, not the run
            logger.info(str(fields.pop("event")), **fields)

    try:
        yield listen
    finally:
        with suppress(OSError):  # closing a file on a full disk fails as well
            file.close()
