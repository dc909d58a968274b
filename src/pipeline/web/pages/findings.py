"""The findings of a store: what matters most first, by filters, a hundred at a time; and as a download."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.findings.explanation import location_text
from pipeline.app.findings.exports import EXPORTS
from pipeline.app.findings.queries import finding_row
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, Gate, Severity
from pipeline.findings.triage import STATUSES
from pipeline.web.desk import Store, store
from pipeline.web.rendering import render, url, wants_json
from pipeline.web.shelf import FindingsCache, View
from pipeline.web.wanted import STATES, FindingsQuery, wanted_of

SHOWN = 100
NAV = (("Findings", "findings"),)
FILES = {
    "sarif": ("findings.sarif", "application/sarif+json"),
    "rdjson": ("findings.rdjson.json", "application/json"),
    "markdown": ("findings.md", "text/markdown; charset=utf-8"),
    "json": ("findings.json", "application/json"),
    "review": ("review.json", "application/json"),
}
"""What a download in each format is called, and what it is."""
_OFFERED = 500  # files that are suggested while somebody writes a path


@dataclass(frozen=True, slots=True)
class FindingListRow:
    """A finding in one line."""

    finding: Finding
    place: str
    since: float  # when something was last said of it; 0 where that cannot be read


@dataclass(frozen=True, slots=True)
class FindingsPage:
    """One page of what is wanted."""

    rows: tuple[FindingListRow, ...]
    total: int  # on all pages
    pages: int


async def findings(request: Request) -> Response:
    """The page, or the same as JSON."""
    here = store(request)
    wanted = asked(request, here)
    position = here.feed.position  # before the ledger is read: what comes after is told
    view, found = await run_in_threadpool(find, here.shelf(wanted.run), wanted)
    if wants_json(request):
        return JSONResponse(_as_object(found, wanted, view.known.ledger))
    live = url("s", here.name, "findings", **wanted.query(), page=wanted.page, part="rows")
    values = {
        "wanted": wanted,
        "found": found,
        "view": view,
        "live": live,
        "choices": _choices(view),
        "ledgers": here.place.ledgers(),
    }
    told = {"store": here, "here": "findings", "position": position, "statuses": STATUSES, "formats": FILES}
    return render(request, "findings.html", {**told, **values})


def asked(request: Request, here: Store) -> FindingsQuery:
    """The filters that an address names; where each run has findings of its own, the newest run with any is meant."""
    wanted = wanted_of(request.query_params)
    if wanted.run or not here.place.apart:
        return replace(wanted, run=wanted.run if here.place.apart else "")
    return replace(wanted, run=next(iter(here.place.ledgers()), ""))


def find(shelf: FindingsCache, wanted: FindingsQuery) -> tuple[View, FindingsPage]:
    """All findings, and those of them that are wanted."""
    view = shelf.look()
    matching = wanted.among(view.findings)
    start = (wanted.page - 1) * SHOWN
    rows = tuple(
        FindingListRow(one, location_text(one), moment(one.updated_at)) for one in matching[start : start + SHOWN]
    )
    return view, FindingsPage(rows, len(matching), max(1, -(-len(matching) // SHOWN)))


def moment(text: str) -> float:
    """A time of the ledger as pages count it; 0 for one that cannot be read, as in a record from elsewhere."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _choices(view: View) -> dict[str, Any]:
    return {
        "state": STATES,
        "severity": tuple(Severity),
        "gate": tuple(Gate),
        "stage": view.stages,
        "reviewer": view.reviewers,
        "file": view.files[:_OFFERED],
    }


def _as_object(found: FindingsPage, wanted: FindingsQuery, ledger: Ledger) -> dict[str, object]:
    rows = [finding_row(one.finding, ledger) for one in found.rows]
    return {"findings": rows, "total": found.total, "page": wanted.page, "pages": found.pages}


async def export(request: Request) -> Response:
    """The findings that the filters of the page take, all of them, in the format of another program."""
    here, form = store(request), request.path_params["form"]
    if form not in FILES:
        raise HTTPException(404, f'Findings are not exported as "{form}"; there is {", ".join(FILES)}.')
    wanted = asked(request, here)
    text = await run_in_threadpool(_exported, here.shelf(wanted.run), wanted, form)
    name, kind = FILES[form]
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Type": kind}
    return Response(text.encode(errors="replace"), headers=headers)


def _exported(shelf: FindingsCache, wanted: FindingsQuery, form: str) -> str:
    view = shelf.look()
    return EXPORTS[form](wanted.among(view.findings), view.known.ledger)


ROUTES = [Route("/s/{store}/findings", findings), Route("/s/{store}/findings/export/{form}", export)]
