"""Actions on runs: start, answer, cancel and resume them.

A run is started or resumed in a process with a session of its own, which survives the server. What it prints is added
to a file in the store, named after the run.
"""

import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

import pipeline
from pipeline.app.catalog import Catalog
from pipeline.app.check import check
from pipeline.app.runs import AWF_COMMAND, parse_raised_limits, refuse_finished
from pipeline.app.store import AlreadyAnswered, InvalidAnswer
from pipeline.backends.process import DetachedProgram, start_detached
from pipeline.backends.select import AGENTS
from pipeline.errors import AwfError
from pipeline.journal import check_run_id, new_run_id
from pipeline.language.model import Workflow
from pipeline.text import did_you_mean
from pipeline.web.page import Form, ServedStore, current_store, current_user, form_endpoint, parse_number, render, url
from pipeline.web.store import RunSnapshot

_TIMEOUT = 10.0  # seconds a page waits; the process continues
_POLL_INTERVAL = 0.05
_MAX_OUTPUT = 4_000  # bytes of a process's output that an error shows


def start_page(request: Request) -> Response:
    """The page with the workflows."""
    return render(request, "start.html", {"choices": _workflows(current_store(request)), "agents": AGENTS})


def start(request: Request, form: Form) -> Response:
    """Start a run, and go to its page once it is recorded."""
    store, run_id = current_store(request), new_run_id(time.time_ns() // 1_000_000, secrets.token_bytes(4))
    name, goal = form.get("workflow", ""), _clean_text(form, "goal")
    names = _workflows(store)
    if name not in names:  # no path comes from a form
        help = did_you_mean(name, names) or "go back and choose one from the list"
        raise AwfError(f'there is no workflow "{name}" in the catalog', help=help)
    agent = form.get("backend", "").strip()
    options = [f"--goal={goal}"] * bool(goal) + [f"--backend={agent}"] * bool(agent)
    workflow = names[name][1]
    for item in workflow.inputs if workflow else ():
        if value := _clean_text(form, f"input-{name}-{item.name}"):  # an empty field leaves the default
            options.append(f"--input={item.name}={value}")
    if any("\0" in option for option in options):
        raise AwfError("the goal or an input contains a NUL character", help="go back and remove it")
    arguments = ["run", *store.command_options, f"--run-id={run_id}", *options, "--", name]
    started = start_process(arguments, store.directory, run_id, store.project)
    _wait_until_started(started, store, run_id, head=0)
    return _to_run(store, run_id)


def _workflows(store: ServedStore) -> dict[str, tuple[str, Workflow | None]]:
    """The workflows that are found from the store's project, by name: their folder, and None for one with errors."""
    shipped = Path(pipeline.__file__).parent / "workflows"
    found: dict[str, tuple[str, Workflow | None]] = {}
    for folder, entry in Catalog(store.project, Path.home(), shipped).entries():
        if entry.name not in found:
            found[entry.name] = (folder.title, check(entry).workflow)
    return found


def answer(request: Request, form: Form) -> Response:
    """Leave an answer for a run, and resume the run if no process drives it and the form asks for that."""
    store, run_id, user = current_store(request), request.path_params["run"], current_user(request, form)
    stage, visit = form.get("stage", ""), parse_number(form.get("visit", "")) or 0
    option, feedback = form.get("option", ""), _clean_text(form, "feedback")
    try:
        with store.open() as runs:
            receipt = runs.answer(run_id, option, by=user, stage=stage, visit=visit, feedback=feedback)
    except InvalidAnswer as error:
        raise AwfError(error.message, help="go back and say why in the field above the options") from None
    except AlreadyAnswered as error:
        return render(request, "already_answered.html", {"run_id": run_id, "kept": error.kept, "yours": form}, 409)
    if not receipt.driven and form.get("resume"):
        resume_run(store, store.run(run_id), [])
    return _to_run(store, run_id)


def cancel(request: Request, form: Form) -> Response:
    """Cancel a run: stop its process, or record it as cancelled if it has none."""
    store, run_id = current_store(request), request.path_params["run"]
    with store.open() as runs:
        runs.cancel(run_id, by=current_user(request, form), reason=form.get("reason", "").strip())
    return _to_run(store, run_id)


def resume(request: Request, form: Form) -> Response:
    """Resume a run; one of the list that needs a choice leads to its page instead.

    A limit that cannot be raised like this is refused before anything is started.
    """
    store, run_id = current_store(request), request.path_params["run"]
    run = store.run(run_id)
    overview = run.overview()
    if form.get("from") == "list" and (overview.resume or (overview.until or 0.0) > time.time()):
        return _to_run(store, run_id)
    if run.driven:
        raise AwfError(f"run {run_id} is already running", help="cancel it first, or wait until it ends")
    refuse_finished(run.state)
    fields = {name.removeprefix("raise-"): value.strip() for name, value in form.items() if name.startswith("raise-")}
    raised = {name: value for name, value in fields.items() if value}
    parse_raised_limits(run.state, raised)
    limits = [f"--raise={name}={value}" for name, value in raised.items()]
    resume_run(store, run, [*limits, *(f"--{name}" for name in ("repeat", "now", "wait") if form.get(name))])
    return _to_run(store, run_id)


def resume_run(store: ServedStore, run: RunSnapshot, options: Sequence[str]) -> None:
    """Resume a run in a process of its own, and wait until it has begun."""
    run_id, cwd = run.state.run_id, run.state.cwd if run.state.cwd.is_dir() else store.project
    started = start_process(["resume", *store.command_options, *options, "--", run_id], store.directory, run_id, cwd)
    _wait_until_started(started, store, run_id, run.head)


def _clean_text(form: Form, name: str) -> str:
    return form.get(name, "").replace("\r\n", "\n").strip()


def _to_run(store: ServedStore, run_id: str) -> Response:
    return RedirectResponse(url("s", store.name, "runs", run_id), 303)


# --- processes -------------------------------------------------------------------------------------------------------


class NotStarted(AwfError):
    """A process ended before it did anything for its run; `output` is what it printed."""

    def __init__(self, message: str, help: str, output: str = "") -> None:
        super().__init__(message, help=help)
        self.output = output


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process that was started, and the file that its output is added to."""

    process: DetachedProgram
    output_file: Path
    start: int  # the size of the file before

    def output(self) -> str:
        """The end of what it has printed so far."""
        with self.output_file.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.start, size - _MAX_OUTPUT))
            return file.read().decode(errors="replace").strip()


def start_process(arguments: Sequence[str], store: Path, run_id: str, cwd: Path) -> StartedProcess:
    """Start awf with these arguments in a session of its own, so that stopping the server does not stop it."""
    check_run_id(run_id)
    output_file = store / "started" / f"{run_id}.log"
    try:
        output_file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(output_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            start = os.fstat(file.fileno()).st_size
            process = start_detached([*AWF_COMMAND, *arguments], cwd, file)
    except OSError as error:
        raise NotStarted(
            f"run {run_id} could not be started: {error.strerror} ({error.filename})",
            help="check that the store is writable and the project's directory exists",
        ) from None
    return StartedProcess(process, output_file, start)


def _wait_until_started(started: StartedProcess, store: ServedStore, run_id: str, head: int) -> None:
    """Wait until the run has a record after `head`, or is driven again; raise NotStarted if that does not happen."""
    deadline, ended = time.monotonic() + _TIMEOUT, False
    while not ended and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
        ended = started.process.poll() is not None  # before the journal is read: it may have recorded something
        with store.open() as runs:
            runs.refresh(run_id)
            if store.heads().get(run_id, 0) > head or (head > 0 and runs.driven_status(run_id)):
                return
    if not ended:
        problem = f"the process has recorded nothing in {_TIMEOUT:g} seconds"
        raise NotStarted(problem, "it still runs; its run appears in the list of runs", started.output())
    if started.process.returncode:  # 0: it has handed the run to a cluster
        problem = "the process ended before it recorded anything"
        raise NotStarted(problem, "its output may show why; the run was not changed", started.output())


_RUN = "/s/{store}/runs/{run}"
ROUTES = [
    Route("/s/{store}/start", start_page),
    Route("/s/{store}/start", form_endpoint(start), methods=["POST"]),
    Route(f"{_RUN}/answer", form_endpoint(answer), methods=["POST"]),
    Route(f"{_RUN}/cancel", form_endpoint(cancel), methods=["POST"]),
    Route(f"{_RUN}/resume", form_endpoint(resume), methods=["POST"]),
]
