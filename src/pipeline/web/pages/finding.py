"""One finding: what it says, the lines it is about, who said it, what was tried and decided, and what it is now."""

from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.findings.explanation import last_seen, location_text
from pipeline.app.findings.ledger import suggest_finding
from pipeline.app.findings.queries import finding_record
from pipeline.findings.ledger import Ledger, joined_to
from pipeline.findings.model import Change, Finding
from pipeline.findings.triage import STATUSES
from pipeline.redaction import Redactor
from pipeline.web.desk import desk, store
from pipeline.web.errors import error_page
from pipeline.web.excerpts import Excerpt, excerpts
from pipeline.web.pages.findings import asked, moment
from pipeline.web.rendering import render, url, wants_json
from pipeline.web.shelf import FindingsCache


@dataclass(frozen=True, slots=True)
class Tie:
    """How a finding stands to another."""

    words: str
    to: str
    other: Finding | None
    note: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """All there is to show of one."""

    finding: Finding
    place: str
    last_seen: str
    excerpts: tuple[Excerpt, ...]
    texts: tuple[str, ...]  # evidence that names no lines
    ties: tuple[Tie, ...]
    history: tuple[tuple[float, Change], ...]  # the newest first
    merged: Finding | None


async def finding(request: Request) -> Response:
    """The page, or the whole record as JSON."""
    here, name = store(request), request.path_params["name"]
    position = here.feed.position
    whose = asked(request, here).run
    shelf = here.shelf(whose)
    view = await run_in_threadpool(shelf.look)
    ledger = view.known.ledger
    found = ledger.find(name)
    if found is None:
        return error_page(
            request, 404, "Not found", f'There is no finding "{name}".', f"{suggest_finding(name, ledger)}."
        )
    if wants_json(request):
        return JSONResponse(finding_record(found, ledger))
    sheet = await run_in_threadpool(_sheet, found, ledger, shelf, desk(request).redactor)
    live = url("s", here.name, "findings", found.number, run=whose, part="sheet")
    values = {"sheet": sheet, "live": live, "statuses": STATUSES, "whose": whose}
    return render(request, "finding.html", {"store": here, "here": "findings", "position": position, **values})


def _sheet(found: Finding, ledger: Ledger, shelf: FindingsCache, redactor: Redactor) -> Sheet:
    whole_of = joined_to(found)
    return Sheet(
        found,
        location_text(found),
        last_seen(found),
        tuple(excerpts(found, shelf.root, redactor)),
        tuple(item.raw for item in found.evidence if not item.path and item.raw),
        tuple(_ties(found, ledger)),
        tuple((moment(change.at), change) for change in reversed(found.history)),
        ledger.find(whole_of) if whole_of else None,
    )


def _ties(found: Finding, ledger: Ledger) -> list[Tie]:
    own = [Tie(_words(link.kind), link.to, ledger.find(link.to), link.note) for link in found.links]
    to_it = [
        Tie(f"is named by, as {_words(link.kind)} this", other.id, other, link.note)
        for other in ledger.findings.values()
        for link in other.links
        if link.to == found.id
    ]
    return own + to_it


def _words(kind: str) -> str:
    return kind.replace("_", " ")


ROUTES = [Route("/s/{store}/findings/{name}", finding)]
