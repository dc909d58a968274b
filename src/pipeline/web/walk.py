"""Walk-throughs in the browser: one finding at a time, with the generator of `awf findings walk`.

A walk is kept in memory: one that is left has decided nothing, and only filed tickets stay. The walk for a triage stage
files none: what was decided is left for the run, which does the rest when it continues.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock

from anyio import from_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as Page

from pipeline.app.findings.ledger import open_ledger
from pipeline.app.findings.queries import ALL_STATES, FindingFilter
from pipeline.app.findings.validation import open_validator
from pipeline.app.setting_paths import SettingsPaths
from pipeline.app.settings import load_settings
from pipeline.app.store import AlreadyAnswered
from pipeline.app.wiring import Runtime
from pipeline.errors import AwfError
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import Actor, FindingId, Severity
from pipeline.findings.places import follow_renames
from pipeline.findings.review_options import review_options
from pipeline.findings.trackers import TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import Filed, OpenTracker, TrackerContext
from pipeline.findings.walk.machine import Validate
from pipeline.findings.walk.report import render_report
from pipeline.findings.walk.session import Session, decision_events, open_walk
from pipeline.findings.walk.stage import decisions_answer
from pipeline.findings.walk.state import Route, Validation, Walk, is_settled, pending_lines
from pipeline.findings.walk.validation import Validator, no_validator
from pipeline.handlers.questions import Question, Reply
from pipeline.language.model import TriageStage, choose_model
from pipeline.plugins.manager import PluginManager
from pipeline.web.actions import resume_run
from pipeline.web.page import (
    Form,
    ServedStore,
    Site,
    current_site,
    current_store,
    current_user,
    form_endpoint,
    markdown_parts,
    parse_number,
    render,
    repository_of,
    url,
    writable_store,
)
from pipeline.web.store import RunSnapshot

STOP = "stop"
FIX_COMMAND = "awf findings fix"
_MAX_WALKS = 20  # that are kept; the oldest is given up


class BrowserWalk:
    """A walk that is answered by forms, one after another."""

    def __init__(
        self, session: Session, site: Site, validate: Validator = no_validator, run: RunSnapshot | None = None
    ) -> None:
        self.run = run  # whose triage it is
        self.told: list[str] = []  # what was done since the last question
        self.number = 0  # of the question: an answer to an earlier one is not taken
        self.report = ""
        self.problems: tuple[str, ...] = ()
        self._session, self._site, self._validate = session, site, validate
        session.tell = self.told.append
        self._lock = Lock()
        self._task: asyncio.Task[None] | None = None
        session.advance()
        self._shown()

    @property
    def question(self) -> Question | None:
        """What is asked now."""
        waiting = self._session.waiting
        return waiting if isinstance(waiting, Question) else None

    @property
    def checking(self) -> int:
        """How many findings an agent is looking at."""
        waiting = self._session.waiting
        return len(waiting.lines) if isinstance(waiting, Validate) else 0

    @property
    def outcome(self) -> Walk | None:
        """What was decided, once everything is."""
        return self._session.outcome

    def answer(self, key: str, number: int) -> Walk | None:
        """Answer the question with this number, and return the walk if it is done. Late answers are ignored."""
        with self._lock:
            if self.question is None or number != self.number:
                return None
            self.told.clear()
            self._session.answer(Reply(key))
            self._shown()
            return self._session.outcome

    def stop(self) -> None:
        """Give it up, with the agent that works for it."""
        if self._task:
            from_thread.run_sync(self._task.cancel)

    def _shown(self) -> None:
        """Number what is shown next, and have an agent look at the findings if that comes before a question."""
        self.number += 1
        waiting = self._session.waiting
        if isinstance(waiting, Validate):
            self._task = self._site.start(self._check(waiting.lines))

    async def _check(self, lines: Sequence[Line]) -> None:
        results: Mapping[FindingId, Validation] = {}  # what gets no result is not validated
        try:
            results = await self._validate(lines)
        except (AwfError, OSError) as error:
            self.told.append(f"The findings were not checked: {error}")
        finally:
            with self._lock:
                self._session.validated(results)
                self._shown()


class LaterTickets(TrackerChain):
    """Trackers that file nothing: a run files its tickets when it continues."""

    def file(self, line: Line) -> Filed:  # noqa: ARG002 - nothing is filed
        """Promise a ticket."""
        return Filed("when the run continues")


def walk_page(request: Request) -> Response:
    """What a walk would be about, and how to go about it."""
    store, query = current_store(request), request.query_params
    if store.cluster:
        return render(request, "walk_start.html", {"count": 0, "query": query, "severities": (), "trackers": ()})
    wanted = _wanted(query.get("severity", ""), query.get("file", ""))
    found = pending_lines(filter(wanted, _ledger(store).lines()))
    values = {"count": len(found), "query": query, "severities": list(Severity), "trackers": list(_trackers())}
    return render(request, "walk_start.html", values)


def start_walk(request: Request, form: Form) -> Response:
    """Start a walk through the findings of a store."""
    store = writable_store(request)
    chain = TrackerChain(_context(store), form.get("tracker", ""), _trackers())
    route = form.get("route", Route.EACH)
    ledger = _ledger(store)
    begun = open_walk(
        ledger,
        chain,
        route=Route(route) if route in set(Route) else Route.ASK,
        follow=lambda lines: follow_renames(lines, ledger, store.root, os.environ),
        wanted=_wanted(form.get("severity", ""), form.get("file", "")),
        advisory=bool(form.get("advisory")),
        validates=bool(form.get("validate")),
        confirms=True,
    )
    validate: Validator = no_validator
    if begun.validates:
        base = begun.ledger.last.base if begun.ledger.last else ""
        validate = open_validator(store.root, _runtime(store), datetime.now(UTC), {}, base)
    return _open(request, store, begun, chain, validate)


def start_triage(request: Request, form: Form) -> Response:
    """Start a walk for the triage stage at which a run waits."""
    store = writable_store(request)
    run = store.run(request.path_params["run"])
    stage, run_id = run.state.stage, run.state.run_id
    if run.state.status.final or not isinstance(stage, TriageStage):
        raise AwfError(f"run {run_id} does not wait at a triage stage", help="look at its page")
    if run.driven:
        raise AwfError(f"the process of run {run_id} asks at its terminal", help="answer there, or stop it first")
    chain = LaterTickets(_context(store), stage.tracker or "", _trackers())
    ledger = _ledger(store)
    begun = open_walk(
        ledger,
        chain,
        route=Route(stage.route),
        follow=lambda lines: follow_renames(lines, ledger, run.state.directory, os.environ),
        wanted=lambda line: not is_settled(line, run_id),
        advisory=stage.advisory,
        validates=stage.validation,
    )
    del form
    validate: Validator = no_validator
    if begun.validates:
        runtime, state = _runtime(store), run.state
        settings, base = runtime.settings, review_options(state).base
        choice = choose_model(stage.validator, state.workflow.models, settings.model_choice, settings.profiles)
        validate = open_validator(state.directory, runtime, datetime.now(UTC), state.options, base, choice)
    return _open(request, store, begun, chain, validate, run)


def show_walk(request: Request) -> Response:
    """The question that a walk asks, or its report."""
    store, name = current_store(request), request.path_params["name"]
    walk = _find(request, name)
    question = walk.question
    values = {
        "walk": walk,
        "name": name,
        "question": question,
        "block": list(markdown_parts(question.block)) if question else [],
        "details": list(markdown_parts(question.details)) if question and question.block else [],
        "report": list(markdown_parts(walk.report)),
        "here": url("s", store.name, "walk", name),
        "stop": STOP,
    }
    return render(request, "walk.html", values)


def answer_walk(request: Request, form: Form) -> Response:
    """Answer the question of a walk; after the last one, record what was decided or leave it for the run."""
    store, name = writable_store(request), request.path_params["name"]
    walk, key = _find(request, name), form.get("key", "")
    if key == STOP:
        walk.stop()
        current_site(request).walks.pop(name, None)
        return RedirectResponse(_origin(store, walk), 303)
    done = walk.answer(key, parse_number(form.get("number", "")) or 0)
    if done is None:
        return RedirectResponse(url("s", store.name, "walk", name), 303)
    user = current_user(request, form)
    if walk.run:
        current_site(request).walks.pop(name)
        _answer_run(store, walk.run, done, user)
        current_site(request).walks[name] = walk
        walk.report = render_report(done)
    else:
        walk.report = render_report(_record(store, walk, done, user), FIX_COMMAND)
    return RedirectResponse(url("s", store.name, "walk", name), 303)


def _record(store: ServedStore, walk: BrowserWalk, done: Walk, user: str) -> Walk:
    """Record what was decided, and return the walk with the ledger after it."""
    if not done.choices:
        return done
    with open_ledger(store.directory, repository_of(store), datetime.now(UTC)) as opened:
        events = decision_events(done, opened.at, who=user, by=Actor.USER)
        walk.problems = opened.problems + opened.record(events)
        return replace(done, ledger=opened.ledger.copy())


def _answer_run(store: ServedStore, run: RunSnapshot, done: Walk, user: str) -> None:
    """Leave the decisions for the run, and continue it. The first to decide counts."""
    state = run.state
    given = decisions_answer(state.run_id, *state.cursor, done.choices, user, time.time())
    with store.open() as runs:
        kept = runs.mailbox.put_answer(given)
    if (kept.by, kept.at) != (given.by, given.at):
        raise AlreadyAnswered(kept)
    resume_run(store, store.run(state.run_id), [])


def _runtime(store: ServedStore) -> Runtime:
    """What an agent needs that works for a page."""
    loaded = load_settings(SettingsPaths.of(store.root, Path.home(), os.environ))
    if loaded.problems:
        names = " and ".join(f'"{source.name}"' for source, _ in loaded.problems)
        raise AwfError(f"errors in the settings {names}", help="awf config shows them")
    return Runtime(store=store.directory, environ=dict(os.environ), settings=loaded.settings)


def _open(
    request: Request,
    store: ServedStore,
    begun: Walk,
    chain: TrackerChain,
    validate: Validator,
    run: RunSnapshot | None = None,
) -> Response:
    site, name = current_site(request), secrets.token_urlsafe(9)
    excerpts = partial(read_excerpts, root=run.state.directory if run else store.root, redactor=site.redactor)
    session = Session(begun, chain, lambda _line: None, excerpts)
    opened = BrowserWalk(session, site, validate, run)
    if opened.outcome:  # nothing to decide
        opened.report = render_report(opened.outcome, FIX_COMMAND)
    site.walks[name] = opened
    while len(site.walks) > _MAX_WALKS:
        site.walks.pop(next(iter(site.walks)))
    return RedirectResponse(url("s", store.name, "walk", name), 303)


def _find(request: Request, name: str) -> BrowserWalk:
    walk = current_site(request).walks.get(name)
    if not isinstance(walk, BrowserWalk):
        raise HTTPException(404, "This walk-through is no longer open. What it had decided was not recorded.")
    return walk


def _origin(store: ServedStore, walk: BrowserWalk) -> str:
    return url("s", store.name, "runs", walk.run.state.run_id) if walk.run else url("s", store.name, "findings")


def _wanted(severity: str, file: str) -> Callable[[Line], bool]:
    """Return whether a line of work has an open member that these fields of a form select."""
    severities = frozenset({Severity(severity)}) if severity in set(Severity) else frozenset[Severity]()
    return FindingFilter(ALL_STATES, severities, files=(file.strip(),) if file.strip() else ()).matches


def _ledger(store: ServedStore) -> Ledger:
    return store.findings().snapshot.ledger


def _context(store: ServedStore) -> TrackerContext:
    return TrackerContext(store.root, store.directory, os.environ)


def _trackers() -> dict[str, OpenTracker]:
    plugins = PluginManager(time.time)
    plugins.load_installed()
    return all_trackers(dict(plugins.collect("trackers")))


ROUTES = [
    Page("/s/{store}/walk", walk_page),
    Page("/s/{store}/walk", form_endpoint(start_walk), methods=["POST"]),
    Page("/s/{store}/walk/{name}", show_walk),
    Page("/s/{store}/walk/{name}", form_endpoint(answer_walk), methods=["POST"]),
    Page("/s/{store}/runs/{run}/walk", form_endpoint(start_triage), methods=["POST"]),
]
