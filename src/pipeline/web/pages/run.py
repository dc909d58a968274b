"""A run: how it stands, what it asks, its picture, its visits and rounds; now, or as it once stood."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.overview import resume_commands
from pipeline.web.desk import Store, desk, store
from pipeline.web.following import RunSnapshot, then
from pipeline.web.gate import gate_of
from pipeline.web.picture import picture
from pipeline.web.rendering import render, url, wants_json, whole_number
from pipeline.web.timeline import timeline

STANDING, VIEW, ROUNDS = "standing", "view", "rounds"  # the parts of the page that are fetched again


async def run(request: Request) -> Response:
    """The page, one of its parts, or how the run stands as JSON."""
    here = store(request)
    position = here.feed.position  # before the journal is read: what comes after is told
    return await run_in_threadpool(_answer, request, here, position)


def _answer(request: Request, here: Store, position: str) -> Response:
    seen = look(here, request.path_params["run"], whole_number(request.query_params.get("at", "")))
    if wants_json(request):
        return JSONResponse(_as_object(seen))
    part = request.query_params.get("part", "")
    values = {"store": here, "here": "runs", "position": position, "seen": seen, "state": seen.state}
    for name, make in _PARTS.items():
        values |= make(request, here, seen) if part in ("", name) else {}
    return render(request, "run.html", values)


def look(here: Store, run_id: str, at: int | None = None) -> RunSnapshot:
    """A run as it stands, or as it stood."""
    with here.journal() as journal:
        if at is not None:
            found = then(journal, run_id, at)
            if not found.now:
                return found
        return here.following.now(journal, run_id)


def _standing(request: Request, here: Store, seen: RunSnapshot) -> dict[str, Any]:
    """How it stands now, and what it asks, wherever in its history the rest of the page is."""
    current = seen if seen.now else look(here, seen.state.run_id)
    at, standing = desk(request), current.overview()
    waits_for = None if here.place.apart else standing.until  # a cluster waits for a quota by itself
    return {
        "current": current,
        "standing": standing,
        "commands": resume_commands(seen.state.run_id, standing.resume or (), waits_for, time.time()),
        "waits_for": waits_for,
        "gate": gate_of(here, current, at.redactor),
        "acts": not at.read_only,
        "user": at.user,
        "standing_live": url("s", here.name, "runs", seen.state.run_id, part=STANDING),
    }


def _view(request: Request, here: Store, seen: RunSnapshot) -> dict[str, Any]:
    asked = request.query_params
    stage, before = asked.get("stage", ""), whole_number(asked.get("before", "")) or 0
    at = "" if seen.now else seen.position
    live = url("s", here.name, "runs", seen.state.run_id, stage=stage, before=before or "", at=at, part=VIEW)
    rows = timeline(seen, time.time(), stage, before)
    return {
        "picture": picture(seen, here.name),
        "time": rows,
        "sums": seen.history.stage_totals(),
        "view_live": live,
        "at": at,
    }


def _rounds(_: Request, here: Store, seen: RunSnapshot) -> dict[str, Any]:
    live = url("s", here.name, "runs", seen.state.run_id, part=ROUNDS)
    return {"rounds": here.rounds.of(seen.state.run_id), "rounds_live": live}


_PARTS: Mapping[str, Callable[[Request, Store, RunSnapshot], dict[str, Any]]] = {
    STANDING: _standing,
    VIEW: _view,
    ROUNDS: _rounds,
}


def _as_object(seen: RunSnapshot) -> dict[str, Any]:
    state = seen.state
    return {
        "run_id": state.run_id,
        "status": seen.overview().status,
        "reason": state.reason,
        "until": state.until,
        "stage": state.cursor.stage,
        "visit": state.cursor.visit,
        "position": seen.position,
        "head": seen.head,
        "driven": seen.driven,
    }


ROUTES = [Route("/s/{store}/runs/{run}", run)]
