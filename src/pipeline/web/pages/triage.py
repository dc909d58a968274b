"""Decisions about findings: looked at first, then made. The rules are those of `awf findings triage`."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from pipeline.app.findings.ledger import timestamp
from pipeline.app.findings.queries import select
from pipeline.app.findings.triage import Choose, ChosenFindings, TriageRequest, TriageResult, apply_triage, plan_triage
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor
from pipeline.web.desk import Store, store
from pipeline.web.forms import Form, form
from pipeline.web.rendering import render, url, wants_json
from pipeline.web.wanted import FindingsQuery, wanted_of

LISTED = 50  # findings with one fate; the rest is counted
ALL = "all"  # the scope of all that the filters of the page take
_UNSEEN = "Several findings are decided about only after they were shown. Nothing was decided."


@dataclass(frozen=True, slots=True)
class TriageForm:
    """What somebody wants decided, and about which findings."""

    wish: TriageRequest
    names: tuple[str, ...]
    everything: bool  # all that the filters take, whatever is named
    wanted: FindingsQuery  # the filters of the page it came from
    agreed: str  # the seal of what was shown

    def choose(self, ledger: Ledger) -> ChosenFindings:
        """The findings that are meant."""
        if not self.everything:
            return ChosenFindings(self.names)
        return ChosenFindings(tuple(finding.id for finding in select(ledger, self.wanted.filter())))

    @property
    def choice(self) -> Choose:
        """The same, as decisions are told it."""
        return self.choose


async def preview(request: Request) -> Response:
    """What would be decided, and what refused and why. Nothing is written."""
    here, order = _deciding(request), _order(await form(request))
    view = await run_in_threadpool(here.shelf().look)
    planned = await run_in_threadpool(plan_triage, order.choice, order.wish, view.known, timestamp(datetime.now(UTC)))
    return _told(request, here, order, planned, planned=True)


async def triage(request: Request) -> Response:
    """The decision. About one finding it is made at once; about several when it was agreed to."""
    here, order = _deciding(request), _order(await form(request))
    alone = len(order.names) == 1 and not order.everything
    if not order.agreed and not alone:
        raise HTTPException(409, _UNSEEN)
    about = (order.choice, order.wish, here.directory, here.shelf().root, datetime.now(UTC))
    done = await run_in_threadpool(lambda: apply_triage(*about, agreed=order.agreed))
    if done.moves and not done.refused and not order.agreed and not wants_json(request):
        return RedirectResponse(url("s", here.name, "findings", done.moves[0].finding.number), 303)
    return _told(request, here, order, done, planned=False)


async def back(request: Request) -> Response:
    """Whoever opens the address of a decision again is led to the findings."""
    return RedirectResponse(url("s", store(request).name, "findings"), 303)


def _deciding(request: Request) -> Store:
    """The store whose findings are decided about."""
    here = store(request)
    if here.place.apart:
        raise AwfError(
            "findings of a cluster's runs are only shown here",
            help="a triage stage of the workflow decides about them; nothing was changed",
        )
    return here


def _order(given: Form) -> TriageForm:
    wish = TriageRequest(
        given.get("as", ""), Actor.USER, given.get("note", "").strip(), given.get("expires", "").strip()
    )
    wanted = wanted_of(dict(parse_qsl(given.get("from", ""))))
    names = tuple(name for given in given.getlist("id") for name in given.split())
    return TriageForm(wish, names, given.get("scope") == ALL, wanted, given.get("agreed", ""))


def _told(request: Request, here: Store, order: TriageForm, done: TriageResult, *, planned: bool) -> Response:
    if wants_json(request):
        return JSONResponse({**done.as_json("planned" if planned else "applied"), "seal": done.digest})
    told = {"order": order, "done": done, "planned": planned, "listed": LISTED, "all": ALL}
    page = {"store": here, "here": "findings", "position": here.feed.position}
    return render(request, "triage.html", {**page, **told})


def _routes() -> Iterable[Route]:
    for name, deed in (("preview", preview), ("triage", triage)):
        yield Route(f"/s/{{store}}/findings/{name}", deed, methods=["POST"])
        yield Route(f"/s/{{store}}/findings/{name}", back)


ROUTES = list(_routes())
