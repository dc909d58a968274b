"""A run: its status, what it asks, its chart, its visits and review rounds; now, or after any earlier record."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.history import AttemptEnd, RunNote, VisitRecord, running_visits
from pipeline.app.overview import resume_commands
from pipeline.app.store import PendingQuestion, find_question, load_records
from pipeline.app.workspace_diff import WorkspaceDiff, diff_run
from pipeline.engine.ports import HumanAnswer
from pipeline.engine.state import RunStatus, State
from pipeline.graph.chart import Arrow, ArrowKey
from pipeline.graph.svg import RunOverlay, StageMark, draw_run, place_chart
from pipeline.journal.memory import MemoryMailbox
from pipeline.language.edges import EdgeRole
from pipeline.language.model import TriageStage, waits_for_person
from pipeline.redaction import Redactor
from pipeline.text import plural
from pipeline.web.page import (
    GLYPHS,
    ServedStore,
    current_site,
    current_store,
    markdown_parts,
    parse_number,
    render,
    url,
    wants_json,
)
from pipeline.web.store import RunSnapshot

PAGE_SIZE = 100  # visits and notes
BAR_UNITS = 1000  # the width of all bars together
_MIN_BAR = 6.0  # units; a shorter bar would be invisible
TimelineRow = tuple[VisitRecord | RunNote, str, float, float]  # of a visit: its status, and its bar's left and width
_LINE_KINDS = {"+": "added", "-": "removed", "@": "place"}  # by the first character of a line of a patch


def run(request: Request) -> Response:
    """The page, one of its parts, or the overview of the run as JSON."""
    store, site, run_id = current_store(request), current_site(request), request.path_params["run"]
    query, part = request.query_params, request.query_params.get("part", "")
    snapshot = store.run(run_id, parse_number(query.get("at", "")))
    if wants_json(request):
        return JSONResponse(snapshot.overview().as_json())
    values: dict[str, Any] = {"run": snapshot, "state": snapshot.state}
    if part in ("", "status"):  # of the run as it is now, whichever record the rest of the page shows
        values |= _status_values(store, snapshot if snapshot.is_latest else store.run(run_id), site.redactor)
    if part in ("", "view"):
        values |= _view_values(store, snapshot, query.get("stage", ""), parse_number(query.get("before", "")) or 0)
    if part in ("", "rounds"):
        values["rounds"] = store.review_rounds(run_id)
        values["triage"] = list(markdown_parts(store.triage_report(run_id)))
        values["rounds_live"] = url("s", store.name, "runs", run_id, part="rounds")
    return render(request, "run.html", values)


def _status_values(store: ServedStore, current: RunSnapshot, redactor: Redactor) -> dict[str, Any]:
    run_id, overview = current.state.run_id, current.overview()
    until = None if store.cluster else overview.until  # a cluster waits for a quota by itself
    options = overview.resume or ()
    raises = [option.removeprefix("--raise ") for option in options if option.startswith("--raise ")]
    return {
        "current": current,
        "overview": overview,
        "commands": resume_commands(run_id, options, until, time.time()),
        "resumes_at": until,
        "raised": dict(limit.split("=") for limit in raises),
        "gate": read_gate(store, current, redactor),
        "status_live": url("s", store.name, "runs", run_id, part="status"),
    }


def _view_values(store: ServedStore, run: RunSnapshot, stage: str, before: int) -> dict[str, Any]:
    at = "" if run.is_latest else run.history.position
    live = {"stage": stage, "before": before or "", "at": at, "part": "view"}
    return {
        "chart": draw_chart(run, store.name),
        "timeline": build_timeline(run, time.time(), stage, before),
        "totals": run.history.stage_totals(),
        "view_live": url("s", store.name, "runs", run.state.run_id, **live),
        "at": at,
    }


# --- what it asks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GateView:
    """What a person needs to answer the stage at which a run waits."""

    pending: PendingQuestion | None  # None for a triage stage, which goes through findings
    changes: WorkspaceDiff
    patch: list[tuple[str, str]]  # the kind and the text of each line
    decided: HumanAnswer | None = None  # what was decided in a triage, and no process has picked up yet


def read_gate(store: ServedStore, snapshot: RunSnapshot, redactor: Redactor) -> GateView | None:
    """What a run asks a person; None when it asks nothing."""
    state = snapshot.state
    if state.status.final or not waits_for_person(state.stage):
        return None
    is_triage = isinstance(state.stage, TriageStage)
    pending = decided = None
    with store.open() as runs, store.open_journal() as journal:
        mailbox = MemoryMailbox() if runs.connection_problem() else runs.mailbox  # it cannot be read now
        if is_triage:
            decided = mailbox.answer(state.run_id, *state.cursor)
        else:
            pending = find_question(load_records(journal, state.run_id), mailbox)
    if not (pending or is_triage):  # something else comes first, such as a limit
        return None
    changes = diff_run(state, snapshot.history.created.head, os.environ, store.directory)
    return GateView(pending, changes, list(_patch_lines(redactor.text(changes.patch))), decided)


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


# --- its chart -------------------------------------------------------------------------------------------------------


def draw_chart(run: RunSnapshot, store: str) -> Markup:
    """The chart as SVG, with links from its stages to their visits. The drawing escapes every text in it."""
    chart = place_chart(run.state.workflow)
    arrows = [arrow for arrow, _ in chart.arrows]
    taken = [key for visit in run.history.visits if (key := _taken_arrow(visit, arrows))]
    overlay = RunOverlay(dict(_stage_marks(run, store)), Counter(taken), taken[-1] if taken else None)
    return Markup(draw_run(chart, overlay))  # noqa: S704 - as above


def _taken_arrow(visit: VisitRecord, arrows: Iterable[Arrow]) -> ArrowKey | None:
    """The arrow that a visit left by; a gate that sends a run back uses another arrow to the same stage."""
    chosen = visit.chosen
    if chosen is None or chosen.target is None:
        return None
    roles = [arrow.role for arrow in arrows if (arrow.source, arrow.target) == (visit.stage, chosen.target)]
    if chosen.role in roles:
        return (visit.stage, chosen.target, EdgeRole(chosen.role))
    return (visit.stage, chosen.target, roles[0]) if roles else None


def _stage_marks(run: RunSnapshot, store: str) -> Iterator[tuple[str, StageMark]]:
    state, at = run.state, "" if run.is_latest else run.history.position
    current = set() if state.status.final else {state.cursor.stage, *dict(running_visits(state))}
    branches = state.progress.branches  # those of a running parallel stage are counted when it is done
    for stage in state.workflow.stages:
        is_current, errored, branch = stage.id in current, stage.id in state.progress.errors, branches.get(stage.id)
        status: str | None
        if errored:
            status = "error"
        elif is_current:
            status = run.status
        else:
            status = branch.status if branch else state.outcomes.get(stage.id)
        if status is None:
            yield stage.id, StageMark("idle", "not visited")
            continue
        started = is_current and state.status is not RunStatus.PAUSED  # a limit stops a stage before it starts
        visits = state.visits.get(stage.id, 0) + (started or errored or branch is not None)
        glyph, kind = GLYPHS[status]
        sign = glyph if visits < 2 else f"{glyph} ×{visits}"
        words = f"{status.replace('_', ' ')}, {plural(visits, 'visit')}"
        link = url("s", store, "runs", state.run_id, stage=stage.id, at=at) + "#visits"
        css = f"{kind} current" if is_current else kind
        yield stage.id, StageMark(css, words, f"{glyph} {status}" if errored else sign, link)


# --- its visits ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Timeline:
    """One page of visits and notes, newest first."""

    rows: Sequence[TimelineRow]
    first: int  # of all rows, oldest first and counted from 0
    end: int
    total: int
    stage: str  # whose visits they are; empty for all

    @property
    def newer(self) -> int:
        """The end of the page with newer rows; 0 for the newest page."""
        return self.end + PAGE_SIZE if self.end + PAGE_SIZE < self.total else 0


def build_timeline(run: RunSnapshot, now: float, stage: str = "", before: int = 0) -> Timeline:
    """The newest rows, or those before row `before`."""
    entries: list[VisitRecord | RunNote] = list(run.history.timeline)
    if not run.state.status.final and waits_for_person(run.state.stage):  # its visit is recorded when it is answered
        entries.append(VisitRecord(*run.state.cursor, run.history.at))
    if stage:
        entries = [entry for entry in entries if isinstance(entry, VisitRecord) and entry.stage == stage]
    end = min(before, len(entries)) if before > 0 else len(entries)
    first = max(end - PAGE_SIZE, 0)
    axis = _Axis(entries[first:end], run.state, now)
    rows = list[TimelineRow]()
    for entry in reversed(entries[first:end]):
        if isinstance(entry, RunNote):
            rows.append((entry, "", 0.0, 0.0))
        else:
            rows.append((entry, visit_status(entry, run), *axis.bar(entry)))
    return Timeline(rows, first, end, len(entries), stage)


def visit_status(visit: VisitRecord, run: RunSnapshot) -> str:
    """How a visit ended, or the status of the run while it has not."""
    if ended := visit.result:
        return str(ended.status)
    return str(RunStatus.CANCELLED) if visit.end is AttemptEnd.CANCELLED else run.status


class _Axis:
    """Time as far as something ran: the hours in which a run waits for a person would leave no room for the rest."""

    def __init__(self, entries: Iterable[VisitRecord | RunNote], state: State, now: float) -> None:
        self._people = {stage.id for stage in state.workflow.stages if waits_for_person(stage)}
        self._now = now
        self._spans: list[tuple[float, float]] = []  # without overlaps
        visits = [one for one in entries if isinstance(one, VisitRecord) and one.stage not in self._people]
        for began, ended in sorted((visit.began, max(self._end(visit), visit.began)) for visit in visits):
            if self._spans and began <= self._spans[-1][1]:
                self._spans[-1] = (self._spans[-1][0], max(self._spans[-1][1], ended))
            else:
                self._spans.append((began, ended))
        self._total = sum(ended - began for began, ended in self._spans) or 1.0

    def bar(self, visit: VisitRecord) -> tuple[float, float]:
        """Where the bar of a visit begins, and its width."""
        left = self._position(visit.began)
        width = max(self._position(self._end(visit)) - left, _MIN_BAR)
        return round(min(left, BAR_UNITS - width), 1), round(width, 1)

    def _end(self, visit: VisitRecord) -> float:
        if visit.ended is not None:
            return visit.ended
        return visit.began if visit.stage in self._people else self._now

    def _position(self, moment: float) -> float:
        before = sum(min(ended, moment) - began for began, ended in self._spans if began < moment)
        return BAR_UNITS * before / self._total


ROUTES = [Route("/s/{store}/runs/{run}", run)]
