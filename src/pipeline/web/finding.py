"""One finding: what it says, the lines it is about, its line of work, and who said what about it."""

import os

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pipeline.app.findings.lookup import suggest_finding
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.formats.strict_json import finding_record
from pipeline.findings.places import Marks, follow_renames
from pipeline.web.findings import read_query
from pipeline.web.page import current_site, current_store, error_page, render, url, wants_json


def finding(request: Request) -> Response:
    """Return the page, or the whole record as JSON."""
    store, name = current_store(request), request.path_params["name"]
    run_id = read_query(request, store).run
    ledger = store.findings(run_id).ledger
    named = ledger.find(name)
    if named is None:
        help = f"{suggest_finding(name, ledger)}."
        return error_page(request, 404, "Not found", f'There is no finding "{name}".', help)
    if wants_json(request):
        return JSONResponse(finding_record(named, ledger))
    (line,) = follow_renames([ledger.line(named.id)], ledger, store.root, os.environ)
    found = next(member for member in line.members if member.id == named.id)
    values = {
        "finding": found,
        "line": line,
        "others": [member for member in line.members if member.id != found.id],
        "marks": Marks(store.root),
        "may_be": [other for other in map(ledger.find, found.may_be) if other],
        "excerpts": read_excerpts(found, store.root, current_site(request).redactor),
        "texts": [item.raw for item in found.evidence if not item.path and item.raw],
        "run_id": run_id,
        "live": url("s", store.name, "findings", found.number, run=run_id, part="details"),
    }
    return render(request, "finding.html", values)


ROUTES = [Route("/s/{store}/findings/{name}", finding)]
