"""Actions on a run: answer it, cancel it, and resume it, with higher limits where one was reached."""

import time

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pipeline.app.runs import parse_raised_limits, refuse_finished
from pipeline.app.store import AlreadyAnswered, InvalidAnswer
from pipeline.errors import AwfError
from pipeline.web.html import render, url
from pipeline.web.launch import start_process, wait_until_started
from pipeline.web.site import Form, ServedStore, current_store, current_user, form_endpoint, parse_number


def answer(request: Request, form: Form) -> Response:
    """Leave an answer for a run, and resume the run if no process drives it and the form asks for that."""
    store, run_id, user = current_store(request), request.path_params["run"], current_user(request, form)
    stage, visit = form.get("stage", ""), parse_number(form.get("visit", "")) or 0
    option, feedback = form.get("option", ""), form.get("feedback", "").replace("\r\n", "\n").strip()
    try:
        with store.open() as runs:
            receipt = runs.answer(run_id, option, by=user, stage=stage, visit=visit, feedback=feedback)
    except InvalidAnswer as error:
        raise AwfError(error.message, help="go back and say why in the field above the options") from None
    except AlreadyAnswered as error:
        values = {"store": store, "here": "runs", "run_id": run_id, "kept": error.kept, "yours": form}
        return render(request, "already_answered.html", values, 409)
    if not receipt.driven and form.get("resume"):
        _start_resume(store, run_id, [])
    return _to_run(store, run_id)


def cancel(request: Request, form: Form) -> Response:
    """Cancel a run: stop its process, or record it as cancelled if it has none."""
    store, run_id = current_store(request), request.path_params["run"]
    with store.open() as runs:
        runs.cancel(run_id, by=current_user(request, form), reason=form.get("reason", "").strip())
    return _to_run(store, run_id)


def resume(request: Request, form: Form) -> Response:
    """Resume a run in a process of its own; a run of the list that needs a choice leads to its page instead."""
    store, run_id = current_store(request), request.path_params["run"]
    overview = store.reader.run(run_id).overview()
    if form.get("from") != "list" or not (overview.resume or (overview.until or 0.0) > time.time()):
        _start_resume(store, run_id, _resume_options(store, run_id, form))
    return _to_run(store, run_id)


def _resume_options(store: ServedStore, run_id: str, form: Form) -> list[str]:
    """The options for `awf resume`; a limit that cannot be raised like this is refused before anything is started."""
    run = store.reader.run(run_id)
    if run.driven:
        raise AwfError(f"run {run_id} is already running", help="cancel it first, or wait until it ends")
    refuse_finished(run.state)
    fields = {name.removeprefix("raise-"): value.strip() for name, value in form.items() if name.startswith("raise-")}
    raised = {name: value for name, value in fields.items() if value}
    parse_raised_limits(run.state, raised)
    limits = [f"--raise={name}={value}" for name, value in raised.items()]
    return [*limits, *(f"--{name}" for name in ("repeat", "now", "wait") if form.get(name))]


def _start_resume(store: ServedStore, run_id: str, options: list[str]) -> None:
    run = store.reader.run(run_id)
    cwd = run.state.cwd if run.state.cwd.is_dir() else store.project
    arguments = ["resume", *store.command_options, *options, "--", run_id]
    started = start_process(arguments, store.directory, run_id, cwd)

    def is_resumed() -> bool:
        with store.open() as runs:
            runs.refresh(run_id)
            return store.reader.heads().get(run_id, 0) > run.head or bool(runs.driven_status(run_id))

    wait_until_started(started, is_resumed)


def _to_run(store: ServedStore, run_id: str) -> Response:
    return RedirectResponse(url("s", store.name, "runs", run_id), 303)


_RUN = "/s/{store}/runs/{run}"
ROUTES = [
    Route(f"{_RUN}/answer", form_endpoint(answer), methods=["POST"]),
    Route(f"{_RUN}/cancel", form_endpoint(cancel), methods=["POST"]),
    Route(f"{_RUN}/resume", form_endpoint(resume), methods=["POST"]),
]
