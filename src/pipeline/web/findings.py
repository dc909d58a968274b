"""The lines of work of a store: most important first, by filters, a hundred a page; and as a download."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.findings.queries import STATE_GROUPS, FindingFilter, line_row, parse_states
from pipeline.findings.formats import FORMATS
from pipeline.findings.model import FindingState, Gate, Severity
from pipeline.findings.places import Marks, follow_renames
from pipeline.web.page import ServedStore, current_store, parse_number, render, url, wants_json

PAGE_SIZE = 100
DEFAULT_STATE = "outstanding"
CHOICES = {  # the values of filters that are the same in every store
    "state": (*(name for name in STATE_GROUPS if name != "all"), *map(str, FindingState), "all"),
    "severity": tuple(map(str, Severity)),
    "gate": tuple(map(str, Gate)),
}
DOWNLOADS = {name: format for name, format in FORMATS.items() if format.label}
_MAX_SUGGESTED_FILES = 500
_FILTERS = ("state", "severity", "gate", "file", "stage", "reviewer", "q", "run")


@dataclass(frozen=True, slots=True)
class FindingsQuery:
    """The filters that an address names; an empty one filters nothing."""

    state: str = ""  # empty for what is open
    severity: str = ""
    gate: str = ""
    file: str = ""
    stage: str = ""
    reviewer: str = ""
    q: str = ""
    run: str = ""  # whose findings, where each run has its own
    page: int = 1

    @classmethod
    def parse(cls, fields: Mapping[str, str]) -> "FindingsQuery":
        """Read the filters of an address."""
        values = {name: fields.get(name, "").strip() for name in _FILTERS}
        state = "" if values["state"] == DEFAULT_STATE else values["state"]
        return cls(**values | {"state": state}, page=parse_number(fields.get("page", "")) or 1)

    @property
    def is_default(self) -> bool:
        """Whether no filter was chosen."""
        return replace(self, page=1, run="") == FindingsQuery()

    def fields(self) -> dict[str, str]:
        """The filters as fields of an address, without the page."""
        return {name: getattr(self, name) for name in _FILTERS}

    def filter(self) -> FindingFilter:
        """The filter for findings; raises a 400 for an unknown state, severity or gate."""
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value and value.replace("-", "_") not in known:
                raise HTTPException(400, f'Unknown {name} "{value}"; choose one of {", ".join(known)}.')
        return FindingFilter(
            states=parse_states((self.state or DEFAULT_STATE,)),
            severities=frozenset(map(Severity, self.severity.split())),
            gates=frozenset(map(Gate, self.gate.split())),
            files=(self.file,) if self.file else (),
            stages=frozenset({self.stage} - {""}),
            reviewers=frozenset({self.reviewer} - {""}),
            words=tuple(self.q.split()),
        )


def findings(request: Request) -> Response:
    """The page, or the same as JSON."""
    store = current_store(request)
    query = read_query(request, store)
    view = store.findings(query.run)
    matching = list(filter(query.filter().matches, view.lines))
    page = matching[(query.page - 1) * PAGE_SIZE : query.page * PAGE_SIZE]
    shown = follow_renames(page, view.ledger, store.root, os.environ)
    pages = max(1, ceil(len(matching) / PAGE_SIZE))
    if wants_json(request):
        rows = list(map(line_row, shown))
        return JSONResponse({"findings": rows, "total": len(matching), "page": query.page, "pages": pages})
    values = {
        "query": query,
        "view": view,
        "marks": Marks(store.root),
        "rows": shown,
        "total": len(matching),
        "pages": pages,
        "choices": {
            **CHOICES,
            "stage": view.stages,
            "reviewer": view.reviewers,
            "file": view.files[:_MAX_SUGGESTED_FILES],
        },
        "downloads": DOWNLOADS,
        "live": url("s", store.name, "findings", **query.fields(), page=query.page, part="rows"),
    }
    return render(request, "findings.html", values)


def download(request: Request) -> Response:
    """Return all findings that the filters match, as a file."""
    store, name = current_store(request), request.path_params["format"]
    if name not in DOWNLOADS:
        raise HTTPException(404, f'Unknown format "{name}"; choose one of {", ".join(DOWNLOADS)}.')
    format = DOWNLOADS[name]
    query = read_query(request, store)
    view = store.findings(query.run)
    matching = filter(query.filter().matches, view.lines)
    text = format.write([finding for line in matching for finding in line.members], view.ledger)
    headers = {
        "Content-Disposition": f'attachment; filename="{format.file_name}"',
        "Content-Type": format.media_type,
    }
    return Response(text.encode(errors="replace"), headers=headers)


def read_query(request: Request, store: ServedStore) -> FindingsQuery:
    """The filters that an address names; where each run has its own findings, by default those of the newest run."""
    query = FindingsQuery.parse(request.query_params)
    if store.cluster is None:
        return replace(query, run="")
    return query if query.run else replace(query, run=next(iter(store.cluster.runs_with_findings()), ""))


ROUTES = [Route("/s/{store}/findings", findings), Route("/s/{store}/findings/export/{format}", download)]
