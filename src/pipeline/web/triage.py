"""Decisions about findings: previewed first, then made. The rules are those of `awf findings triage`."""

from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from pipeline.app.findings.ledger import timestamp
from pipeline.app.findings.queries import select
from pipeline.app.findings.triage import ChosenFindings, TriageRequest, TriageResult, apply_triage, plan_triage
from pipeline.app.findings.triage import split as split_findings
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor
from pipeline.web.findings import FindingsQuery
from pipeline.web.page import (
    Form,
    current_store,
    form_endpoint,
    render,
    repository_of,
    url,
    wants_json,
    writable_store,
)


@dataclass(frozen=True, slots=True)
class TriageForm:
    """What is to be decided, and about which findings."""

    request: TriageRequest
    names: tuple[str, ...]  # of findings, each for its line of work unless only the finding is meant
    everything: bool  # all that the filters match, whatever is named
    query: FindingsQuery  # the filters of the page that it came from
    agreed: str  # the digest of the preview that was agreed to

    @classmethod
    def parse(cls, form: Form) -> "TriageForm":
        """Read the fields of a form."""
        note, expires = form.get("note", "").strip(), form.get("expires", "").strip()
        return cls(
            request=TriageRequest(form.get("as", ""), Actor.USER, note, expires, only=bool(form.get("only"))),
            names=tuple(name for names in form.getlist("id") for name in names.split()),
            everything=form.get("scope") == "all",
            query=FindingsQuery.parse(dict(parse_qsl(form.get("from", "")))),
            agreed=form.get("agreed", ""),
        )

    def choose(self, ledger: Ledger) -> ChosenFindings:
        """The findings it is about."""
        if not self.everything:
            return ChosenFindings(self.names)
        return ChosenFindings(tuple(line.id for line in select(ledger.lines(), self.query.filter())))


def preview(request: Request, fields: Form) -> Response:
    """What would be decided, and what would be refused and why. Nothing is written."""
    store, form = writable_store(request), TriageForm.parse(fields)
    now = timestamp(datetime.now(UTC))
    result = plan_triage(form.choose, form.request, store.findings().snapshot, now)
    return _respond(request, form, result, planned=True)


def triage(request: Request, fields: Form) -> Response:
    """Decide about one finding at once, about several only if the preview was agreed to."""
    store, form = writable_store(request), TriageForm.parse(fields)
    if not form.agreed and (form.everything or len(form.names) != 1):
        raise HTTPException(409, "Several findings are changed only after a preview. Nothing was decided.")
    repository, now = repository_of(store), datetime.now(UTC)
    result = apply_triage(form.choose, form.request, store.directory, repository, now, form.agreed)
    if result.moves and not result.refused and not form.agreed and not wants_json(request):
        return RedirectResponse(url("s", store.name, "findings", result.moves[0].finding.number), 303)
    return _respond(request, form, result, planned=False)


def split(request: Request, fields: Form) -> Response:
    """Make a finding a line of work of its own, and show it."""
    store, name = writable_store(request), fields.get("id", "")
    split_findings((name,), store.directory, repository_of(store), datetime.now(UTC))
    return RedirectResponse(url("s", store.name, "findings", name), 303)


def to_findings(request: Request) -> Response:
    """Lead to the findings when the address of a decision is opened again, as after a reload."""
    return RedirectResponse(url("s", current_store(request).name, "findings"), 303)


def _respond(request: Request, form: TriageForm, result: TriageResult, *, planned: bool) -> Response:
    if wants_json(request):
        return JSONResponse({**result.as_json("planned" if planned else "applied"), "seal": result.digest})
    return render(request, "triage.html", {"form": form, "result": result, "planned": planned})


_FINDINGS = "/s/{store}/findings"
_ACTIONS = {"preview": preview, "triage": triage, "split": split}
ROUTES = [
    *(Route(f"{_FINDINGS}/{name}", form_endpoint(action), methods=["POST"]) for name, action in _ACTIONS.items()),
    *(Route(f"{_FINDINGS}/{name}", to_findings) for name in _ACTIONS),
]
