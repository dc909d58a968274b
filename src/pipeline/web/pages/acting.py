"""What can be done about a run: answer it, cancel it, take it up again, with higher limits where one was reached."""

import time
from collections.abc import Mapping
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from pipeline.app.runs import parse_raised_limits, refuse_finished
from pipeline.app.store import AlreadyAnswered, AnswerReceipt, InvalidAnswer
from pipeline.errors import AwfError
from pipeline.web.desk import Store, desk, store
from pipeline.web.forms import form
from pipeline.web.launching import launch, under_way
from pipeline.web.pages.run import look
from pipeline.web.rendering import render, url, whole_number

_LONGEST_NAME = 80


async def answered(request: Request) -> Response:
    """Keep somebody's answer; a run that nobody is at is taken up, unless they do not want that."""
    here, given = store(request), await form(request)
    run_id = request.path_params["run"]
    try:
        done = await run_in_threadpool(_answer, request, here, run_id, given)
    except AlreadyAnswered as error:
        values = {"store": here, "here": "runs", "position": here.feed.position, "run": run_id, "kept": error.kept}
        return render(request, "quicker.html", {**values, "yours": given}, 409)
    if not done.driven and given.get("resume"):
        await _resumed(here, run_id, [])
    return _back(here, run_id)


def _answer(request: Request, here: Store, run_id: str, given: Mapping[str, str]) -> AnswerReceipt:
    words = given.get("feedback", "").replace("\r\n", "\n").strip()
    stage, visit = given.get("stage", ""), whole_number(given.get("visit", "")) or 0
    option, by = given.get("option", ""), _by(request, given)
    try:
        with here.place.open() as runs:
            return runs.answer(run_id, option, by=by, stage=stage, visit=visit, feedback=words)
    except InvalidAnswer as error:
        raise AwfError(error.message, help="go back, and say why in the field above the options") from None


async def cancelled(request: Request) -> Response:
    """Stop a run: its process is told to, and where there is none it is recorded as cancelled."""
    here, given = store(request), await form(request)
    await run_in_threadpool(_cancel, request, here, given)
    return _back(here, request.path_params["run"])


def _cancel(request: Request, here: Store, given: Mapping[str, str]) -> None:
    with here.place.open() as runs:
        runs.cancel(request.path_params["run"], by=_by(request, given), reason=given.get("reason", "").strip())


async def resumed(request: Request) -> Response:
    """Resume a run in a process of its own; from the list only where that takes no choice, which its page offers."""
    here, given = store(request), await form(request)
    run_id = request.path_params["run"]
    if given.get("from") == "list" and await run_in_threadpool(_needs_a_choice, here, run_id):
        return _back(here, run_id)
    options = await run_in_threadpool(_options, here, run_id, given)
    await _resumed(here, run_id, options)
    return _back(here, run_id)


def _needs_a_choice(here: Store, run_id: str) -> bool:
    standing = look(here, run_id).overview()
    return bool(standing.resume) or (standing.until or 0.0) > time.time()


def _options(here: Store, run_id: str, given: Mapping[str, str]) -> list[str]:
    """What `awf resume` is told; a limit that cannot be raised so is refused before anything is started."""
    seen = look(here, run_id)
    if seen.driven:
        raise AwfError(f"run {run_id} is under way: somebody is at it", help="cancel it first, or wait for its end")
    refuse_finished(seen.state)
    raised = {name.removeprefix("raise-"): value.strip() for name, value in given.items() if name.startswith("raise-")}
    raised = {name: value for name, value in raised.items() if value}
    parse_raised_limits(seen.state, raised)
    limits = [f"--raise={name}={value}" for name, value in raised.items()]
    return [*limits, *(f"--{name}" for name in ("repeat", "now", "wait") if given.get(name))]


async def _resumed(here: Store, run_id: str, options: list[str]) -> None:
    seen = await run_in_threadpool(look, here, run_id)
    place = seen.state.cwd if seen.state.cwd.is_dir() else here.place.project
    arguments = ["resume", *here.place.options, *options, "--", run_id]
    launched = await run_in_threadpool(launch, arguments, here.directory, run_id, place)
    await under_way(launched, partial(_moved, here, run_id, seen.head))


def _moved(here: Store, run_id: str, head: int) -> bool:
    here.place.refresh(run_id)
    with here.journal() as journal:
        return journal.last(run_id).seq > head or bool(here.place.driven(run_id))


def _by(request: Request, given: Mapping[str, str]) -> str:
    """Whose deed it is: the name that was given, or that of whoever serves."""
    return " ".join(given.get("by", "").split())[:_LONGEST_NAME] or desk(request).user or "somebody"


def _back(here: Store, run_id: str) -> Response:
    return RedirectResponse(url("s", here.name, "runs", run_id), 303)


_RUN = "/s/{store}/runs/{run}"
ROUTES = [
    Route(f"{_RUN}/answer", answered, methods=["POST"]),
    Route(f"{_RUN}/cancel", cancelled, methods=["POST"]),
    Route(f"{_RUN}/resume", resumed, methods=["POST"]),
]
