"""One finding: what it says, the lines it is about, who reported it, what was tried and decided, and its history."""

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.findings.ledger import suggest_finding
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.explanation import last_seen
from pipeline.findings.formats.strict_json import finding_record
from pipeline.findings.ledger import DUPLICATE_OF, Ledger
from pipeline.findings.model import Finding
from pipeline.web.findings import read_query
from pipeline.web.page import current_site, current_store, error_page, render, url, wants_json


def finding(request: Request) -> Response:
    """The page, or the whole record as JSON."""
    store, name = current_store(request), request.path_params["name"]
    run_id = read_query(request, store).run
    ledger = store.findings(run_id).snapshot.ledger
    found = ledger.find(name)
    if found is None:
        help = f"{suggest_finding(name, ledger)}."
        return error_page(request, 404, "Not found", f'There is no finding "{name}".', help)
    if wants_json(request):
        return JSONResponse(finding_record(found, ledger))
    leader = ledger.leader(found.id)
    values = {
        "finding": found,
        "ledger": ledger,
        "excerpts": read_excerpts(found, store.root, current_site(request).redactor),
        "texts": [item.raw for item in found.evidence if not item.path and item.raw],
        "leader": ledger.findings[leader] if leader != found.id else None,
        "members": ledger.members(found.id),
        "links": list(_links(found, ledger)),
        "last_seen": last_seen(found),
        "run_id": run_id,
        "live": url("s", store.name, "findings", found.number, run=run_id, part="details"),
    }
    return render(request, "finding.html", values)


def _links(found: Finding, ledger: Ledger) -> Iterator[tuple[str, str, str]]:
    """The links from and to a finding: what they say, the other finding's id, and a note."""
    for link in found.links:
        yield link.kind.replace("_", " "), link.to, link.note
    for other in ledger.findings.values():
        for link in other.links:
            if link.to == found.id and link.kind != DUPLICATE_OF:  # members are listed with their texts
                yield f"{link.kind.replace('_', ' ')} this:", other.id, link.note


ROUTES = [Route("/s/{store}/findings/{name}", finding)]
