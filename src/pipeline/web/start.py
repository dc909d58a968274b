"""Starting a workflow of the catalog in a process of its own."""

import secrets
import time
from dataclasses import dataclass
from pathlib import Path

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
from pipeline.web.html import render, url
from pipeline.web.launch import start_process, wait_until_started
from pipeline.web.site import Form, ServedStore, current_site, current_store, form_endpoint


@dataclass(frozen=True, slots=True)
class WorkflowChoice:
    """A workflow that can be started."""

    name: str
    folder: str
    description: str
    has_errors: bool


def show_form(request: Request) -> Response:
    """The page with the workflows."""
    store = current_store(request)
    values = {
        "store": store,
        "here": "start",
        "choices": _workflows(store),
        "chosen": request.query_params.get("workflow", ""),
        "can_act": not current_site(request).read_only,
        "agents": AGENTS,
    }
    return render(request, "start.html", values)


def start(request: Request, form: Form) -> Response:
    """Start a run, and go to its page once it is recorded."""
    store, run_id = current_store(request), new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    started = start_process(_run_arguments(store, form, run_id), store.directory, run_id, store.project)

    def is_recorded() -> bool:
        with store.open() as runs:
            runs.refresh(run_id)
        return run_id in store.reader.heads()

    wait_until_started(started, is_recorded)
    return RedirectResponse(url("s", store.name, "runs", run_id), 303)


def _run_arguments(store: ServedStore, form: Form, run_id: str) -> list[str]:
    """The arguments for awf. A workflow is named from the catalog, so that no path comes from a form."""
    name, goal = form.get("workflow", ""), form.get("goal", "").replace("\r\n", "\n").strip()
    names = [workflow.name for workflow in _workflows(store)]
    if name not in names:
        help = did_you_mean(name, names) or "go back and choose one from the list"
        raise AwfError(f'there is no workflow "{name}" in the catalog', help=help)
    if "\0" in goal:
        raise AwfError("the goal contains a NUL character", help="go back and remove it")
    agent = form.get("backend", "").strip()
    options = [f"--goal={goal}"] * bool(goal) + [f"--backend={agent}"] * bool(agent)
    return ["run", *store.command_options, f"--run-id={run_id}", *options, "--", name]


def _workflows(store: ServedStore) -> list[WorkflowChoice]:
    """The workflows that are found by name from the store's project; of two with the same name, the first."""
    shipped = Path(pipeline.__file__).parent / "workflows"
    found: dict[str, WorkflowChoice] = {}
    for folder, entry in Catalog(store.project, Path.home(), shipped).entries():
        if entry.name not in found:
            workflow = check(entry).workflow
            description = workflow.description if workflow else ""
            found[entry.name] = WorkflowChoice(entry.name, folder.title, description, workflow is None)
    return list(found.values())


ROUTES = [Route("/s/{store}/start", show_form), Route("/s/{store}/start", form_endpoint(start), methods=["POST"])]
