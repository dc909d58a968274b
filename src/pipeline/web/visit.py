"""One visit of a stage: its prompt, its answer, its logs as they grow, how it ended, and why this transition followed.

No more of a file is read than is shown. Nothing in an address becomes part of a path: a log is named, and the record
of the visit says where it is.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from pipeline.app.history import STREAMS, AttemptArtifacts, find_artifacts
from pipeline.app.overview import error_advice
from pipeline.backends.spool import RedactionFilter
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Journal
from pipeline.redaction import Redactor
from pipeline.text import sanitize_block
from pipeline.web.page import ServedStore, current_site, current_store, parse_number, render, url
from pipeline.web.run import visit_status
from pipeline.web.store import RunSnapshot

MAX_TAIL = 64 * 1024  # bytes of a log that a page shows
_CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class LogTail:
    """The end of a log, or what follows a position in it."""

    name: str
    text: str
    start: int  # in bytes
    end: int
    size: int  # of the whole log


def visit(request: Request) -> Response:
    """The page of a visit, or its live part."""
    store, redactor = current_store(request), current_site(request).redactor
    run = store.run(request.path_params["run"])
    found = _find_attempt(request, store, run)
    outcome = found.outcome
    with store.open_journal() as journal:
        texts = {name: redactor.text(_read_text(journal, found, name) or "") for name in ("prompt", "response")}
    visits = run.history.visits
    index = next(i for i, one in enumerate(visits) if (one.stage, one.visit) == (found.stage, found.visit))
    attempt = parse_number(request.query_params.get("attempt", ""))
    address = {"stage": found.stage, "visit": found.visit, "attempt": attempt}
    values: dict[str, Any] = {
        "run": run,
        "found": found,
        **texts,
        "logs": [read_tail(name, path, redactor) for name, path in log_files(store.directory, found).items()],
        "visit": visits[index],
        "outcome": outcome,
        "status": outcome.status if outcome else visit_status(visits[index], run),
        "advice": error_advice(outcome.failure) if outcome and outcome is visits[index].error else "",
        "before": visits[index - 1] if index else None,
        "after": visits[index + 1] if index + 1 < len(visits) else None,
        "address": address,
        "live": url("s", store.name, "runs", found.run_id, "visit", **address, part="visit"),
        "running": not found.done and bool(run.driven),
    }
    return render(request, "visit.html", values)


def text(request: Request) -> Response:
    """A prompt, an answer or a log, whole and as plain text; with `after`, what follows that many bytes of a log."""
    store, redactor = current_store(request), current_site(request).redactor
    name, after = request.query_params.get("name", ""), request.query_params.get("after")
    found = _find_attempt(request, store, store.run(request.path_params["run"]))
    with store.open_journal() as journal:
        whole = _read_text(journal, found, name)
    if whole is not None:
        return PlainTextResponse(redactor.text(whole))
    path = log_files(store.directory, found).get(name)
    if path is None:
        raise HTTPException(404, f'Visit {found.visit} of stage "{found.stage}" has no text "{name}".')
    if after is None:
        return StreamingResponse(_read_log(path, redactor), media_type="text/plain")
    tail = read_tail(name, path, redactor, parse_number(after) or 0)
    return PlainTextResponse(sanitize_block(tail.text), headers={"X-Awf-End": str(tail.end)})


def _find_attempt(request: Request, store: ServedStore, run: RunSnapshot) -> AttemptArtifacts:
    """The attempt that an address names, by default the last one of the visit, with its files in the store."""
    query = request.query_params
    stage, number = query.get("stage", ""), parse_number(query.get("visit", ""))
    if not stage or not number:
        raise HTTPException(404, "The address must name a stage and the number of a visit.")
    found = find_artifacts(store.directory, run.history, stage, number, parse_number(query.get("attempt", "")))
    with store.open() as runs:
        runs.fetch_files(found)
    return found


def _read_text(journal: Journal, found: AttemptArtifacts, name: str) -> str | None:
    """The whole prompt or response of an attempt that has ended; None for anything else."""
    if found.seq is None or name not in ("prompt", "response"):
        return None
    if name == "prompt":
        return journal.attached(found.run_id, found.seq)
    outcome: Outcome | None = getattr(next(journal.entries(found.run_id, found.seq - 1)).record, "outcome", None)
    return outcome.response if outcome else None


def log_files(store: Path, found: AttemptArtifacts) -> dict[str, Path]:
    """The logs of an attempt by name: those on record, and those that its program is writing."""
    paths = {name: found.directory / f"{name}.log" for name in STREAMS}
    paths |= {name: store / path for name, path in (found.outcome.logs if found.outcome else {}).items()}
    root = store.resolve()  # stages can write into the store, links out of it too
    return {name: path for name, path in paths.items() if path.is_file() and path.resolve().is_relative_to(root)}


def read_tail(name: str, path: Path, redactor: Redactor, after: int | None = None) -> LogTail:
    """The end of a log, or what follows the first `after` bytes; at most `MAX_TAIL` bytes of it."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        start = max(size - MAX_TAIL, 0) if after is None else min(max(after, 0), size)
        file.seek(start)
        data = file.read(MAX_TAIL)
    if after is None and start:
        skipped = data.find(b"\n") + 1  # start with a whole line
        start, data = start + skipped, data[skipped:]
    _, used = codecs.utf_8_decode(data, "replace", False)  # the rest of a split character comes next time
    return LogTail(name, redactor.data(data[:used]).decode(errors="replace"), start, start + used, size)


def _read_log(path: Path, redactor: Redactor) -> Iterator[bytes]:
    """A log from start to end, in chunks."""
    ready: list[bytes] = []
    with path.open("rb") as file, RedactionFilter(redactor, ready.append) as redacted:
        while data := file.read(_CHUNK):
            redacted.feed(data)
            yield b"".join(ready)
            ready.clear()
    yield b"".join(ready)


ROUTES = [Route("/s/{store}/runs/{run}/visit", visit), Route("/s/{store}/runs/{run}/text", text)]
