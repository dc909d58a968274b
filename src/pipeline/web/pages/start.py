"""Starting a workflow of the catalogue, in a process of its own."""

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import pipeline
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.backends.select import AGENTS
from pipeline.errors import AwfError
from pipeline.journal import new_run_id
from pipeline.text import did_you_mean
from pipeline.web.desk import Store, desk, store
from pipeline.web.forms import form
from pipeline.web.launching import launch, under_way
from pipeline.web.rendering import render, url


@dataclass(frozen=True, slots=True)
class Offer:
    """A workflow that can be started."""

    name: str
    folder: str
    file: str
    title: str
    description: str
    goal: str  # its own, which it has when none is given
    errors: bool


async def start(request: Request) -> Response:
    """The page with what can be started."""
    here = store(request)
    offers = await run_in_threadpool(_offers, here)
    chosen = request.query_params.get("workflow", "")
    values = {"offers": offers, "chosen": chosen, "acts": not desk(request).read_only, "agents": AGENTS}
    values |= {"project": here.place.project}
    return render(request, "start.html", {"store": here, "here": "start", "position": here.feed.position, **values})


async def started(request: Request) -> Response:
    """Start one, and go to its page as soon as it is on record."""
    here, given = store(request), await form(request)
    run_id = new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    arguments = await run_in_threadpool(_arguments, here, given, run_id)
    launched = await run_in_threadpool(launch, arguments, here.directory, run_id, here.place.project)
    await under_way(launched, lambda: _is_there(here, run_id))
    return RedirectResponse(url("s", here.name, "runs", run_id), 303)


def _arguments(here: Store, given: Mapping[str, str], run_id: str) -> list[str]:
    """What `awf run` is told. A workflow is named from the catalogue, so that no path comes from a form."""
    name, goal = given.get("workflow", ""), given.get("goal", "").replace("\r\n", "\n").strip()
    names = [offer.name for offer in _offers(here)]
    if name not in names:
        help = did_you_mean(name, names) or "go back and choose one of the list"
        raise AwfError(f'there is no workflow "{name}" in the catalogue', help=help)
    if "\0" in goal:
        raise AwfError("the goal holds a NUL character", help="go back and take it out")
    agent = given.get("backend", "").strip()
    options = [f"--goal={goal}"] * bool(goal) + [f"--backend={agent}"] * bool(agent)
    return ["run", *here.place.options, f"--run-id={run_id}", *options, "--", name]


def _is_there(here: Store, run_id: str) -> bool:
    here.place.refresh(run_id)
    with here.journal() as journal:
        return run_id in journal.runs()


def _offers(here: Store) -> list[Offer]:
    """Those that are found by name from the store's project; of two with one name the first is meant."""
    shipped = Path(pipeline.__file__).parent / "workflows"
    offers: dict[str, Offer] = {}
    for folder, entry in Catalog(here.place.project, Path.home(), shipped).entries():
        if entry.name in offers:
            continue
        workflow = check(entry).workflow
        told = (workflow.name, workflow.description, workflow.goal) if workflow else (entry.name, "", "")
        offers[entry.name] = Offer(entry.name, folder.title, entry.display_path, *told, workflow is None)
    return list(offers.values())


NAV = (("Start", "start"),)
ROUTES = [Route("/s/{store}/start", start), Route("/s/{store}/start", started, methods=["POST"])]
