"""A run: its status, what it asks, its chart, its visits and review rounds; now, or after any earlier record."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.overview import resume_commands
from pipeline.app.store import PendingQuestion, find_question, load_records
from pipeline.app.workspace_diff import WorkspaceDiff, diff_run
from pipeline.journal.memory import MemoryMailbox
from pipeline.language.model import TriageStage, waits_for_person
from pipeline.redaction import Redactor
from pipeline.web.html import render, url
from pipeline.web.run_chart import draw_chart
from pipeline.web.site import ServedStore, Site, current_site, current_store, parse_number, wants_json
from pipeline.web.store import RunSnapshot
from pipeline.web.timeline import build_timeline

_LINE_KINDS = {"+": "added", "-": "removed", "@": "place"}  # by the first character of a line of a patch


@dataclass(frozen=True, slots=True)
class GateView:
    """A stage at which a run waits for a person."""

    pending: PendingQuestion | None  # None for a triage stage, which goes through findings
    stage: str
    visit: int
    changes: WorkspaceDiff
    patch: list[tuple[str, str]]  # the kind and the text of each line


def run(request: Request) -> Response:
    """The page, one of its parts, or the status of the run as JSON."""
    store, run_id, query = current_store(request), request.path_params["run"], request.query_params
    position = store.feed.position  # before the journal is read, so that no later record is missed
    snapshot = store.reader.run(run_id, parse_number(query.get("at", "")))
    if wants_json(request):
        return JSONResponse(_status_fields(snapshot))
    part = query.get("part", "")
    values = {"store": store, "here": "runs", "position": position, "run": snapshot, "state": snapshot.state}
    if part in ("", "status"):
        current = snapshot if snapshot.is_latest else store.reader.run(run_id)
        values |= _status_values(current, store, current_site(request))
    if part in ("", "view"):
        values |= _view_values(snapshot, store, query.get("stage", ""), parse_number(query.get("before", "")) or 0)
    if part in ("", "rounds"):
        values["rounds"] = store.reader.review_rounds(run_id)
        values["rounds_live"] = url("s", store.name, "runs", run_id, part="rounds")
    return render(request, "run.html", values)


def _status_values(current: RunSnapshot, store: ServedStore, site: Site) -> dict[str, Any]:
    """The status and the question of the run as it is now, whichever record the rest of the page shows."""
    overview, run_id = current.overview(), current.state.run_id
    until = None if store.on_cluster else overview.until  # a cluster waits for a quota by itself
    return {
        "current": current,
        "overview": overview,
        "commands": resume_commands(run_id, overview.resume or (), until, time.time()),
        "resumes_at": until,
        "gate": read_gate(store, current, site.redactor),
        "can_act": not site.read_only,
        "user": site.user,
        "status_live": url("s", store.name, "runs", run_id, part="status"),
    }


def _view_values(snapshot: RunSnapshot, store: ServedStore, stage: str, before: int) -> dict[str, Any]:
    at = "" if snapshot.is_latest else snapshot.position
    run_id = snapshot.state.run_id
    return {
        "chart": draw_chart(snapshot, store.name),
        "timeline": build_timeline(snapshot, time.time(), stage, before),
        "totals": snapshot.history.stage_totals(),
        "view_live": url("s", store.name, "runs", run_id, stage=stage, before=before or "", at=at, part="view"),
        "at": at,
    }


def read_gate(store: ServedStore, snapshot: RunSnapshot, redactor: Redactor) -> GateView | None:
    """What a run asks a person; None when it asks nothing."""
    state = snapshot.state
    if state.status.final or not waits_for_person(state.stage):
        return None
    pending = None
    if not isinstance(state.stage, TriageStage):
        with store.open() as runs, store.reader.open_journal() as journal:
            mailbox = MemoryMailbox() if runs.connection_problem() else runs.mailbox  # it cannot be read now
            pending = find_question(load_records(journal, state.run_id), mailbox)
        if pending is None:  # something else comes first, such as a limit
            return None
    changes = diff_run(state, snapshot.history.created.head, os.environ, store.directory)
    return GateView(pending, *state.cursor, changes, list(_patch_lines(redactor.text(changes.patch))))


def _patch_lines(patch: str) -> Iterator[tuple[str, str]]:
    """The lines of a patch with their kinds; those that only repeat the file's name are left out."""
    in_header = False
    for text in patch.splitlines():
        in_header = text.startswith("diff ") or (in_header and not text.startswith("@@"))
        if text.startswith("diff "):
            yield "file", (text.rpartition(" b/")[2] or text)
        elif not in_header:
            yield _LINE_KINDS.get(text[:1], "same"), text
        elif not text.startswith(("index ", "--- ", "+++ ")):
            yield "about", text


def _status_fields(snapshot: RunSnapshot) -> dict[str, Any]:
    state = snapshot.state
    return {
        "run_id": state.run_id,
        "status": snapshot.overview().status,
        "reason": state.reason,
        "until": state.until,
        "stage": state.cursor.stage,
        "visit": state.cursor.visit,
        "position": snapshot.position,
        "head": snapshot.head,
        "driven": snapshot.driven,
    }


ROUTES = [Route("/s/{store}/runs/{run}", run)]
