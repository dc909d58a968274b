"""Walk-throughs in the browser: one finding at a time, with the machine of `awf findings walk`.

A walk is kept in memory: one that is left has decided nothing, and only filed tickets stay. The walk for a triage stage
files none: what was decided is left for the run, which does the rest when it continues.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
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
from pipeline.app.settings import SettingsPaths, load_settings
from pipeline.app.store import AlreadyAnswered
from pipeline.app.wiring import Runtime
from pipeline.errors import AwfError
from pipeline.findings.excerpts import read_excerpts
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Finding, FindingId, Severity
from pipeline.findings.review_options import review_options
from pipeline.findings.trackers import TrackerChain, all_trackers
from pipeline.findings.trackers.ticket import Filed, OpenTracker, TrackerContext
from pipeline.findings.walk.machine import Fixes, Route, Step, Validation, Walk
from pipeline.findings.walk.present import Question, read_markdown
from pipeline.findings.walk.report import render_report
from pipeline.findings.walk.session import Session, decision_events, is_settled, open_walk, pending_findings
from pipeline.findings.walk.stage import decisions_answer
from pipeline.findings.walk.validation import Validate
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
        self, session: Session, site: Site, validate: Validate | None = None, run: RunSnapshot | None = None
    ) -> None:
        self.run = run  # whose triage it is
        self.told: list[str] = []  # what was done since the last question
        self.number = 0  # of the question: an answer to an earlier one is not taken
        self.report = ""
        self.problems: tuple[str, ...] = ()
        self.question: Question | None = None
        self.checking = 0  # findings that an agent is looking at
        self._session, self._site, self._validate = session, site, validate
        session.tell = self.told.append
        self._lock = Lock()
        self._task: asyncio.Task[None] | None = None
        self._advance()

    @property
    def walk(self) -> Walk:
        """Its state."""
        return self._session.walk

    def answer(self, key: str, number: int) -> bool:
        """Answer the question with this number, and return whether the walk is done. Late answers are ignored."""
        with self._lock:
            if self.question is None or number != self.number:
                return False
            option = next((one.key for one in self.question.options if one.key == key), None)
            if option is None:
                raise AwfError(f'unknown option "{key}"', help="go back and choose one of the buttons")
            self.told.clear()
            self._session.answer(option)
            self._advance()
            return self.walk.step is Step.DONE

    def stop(self) -> None:
        """Give it up, with the agent that works for it."""
        if self._task:
            from_thread.run_sync(self._task.cancel)

    def _advance(self) -> None:
        """Show the next question, or have an agent look at the findings before there is one."""
        self.number += 1
        self.question = self._session.advance()
        findings = self._session.to_validate
        self.checking = len(findings)
        if findings:
            self._task = self._site.start(self._check(findings))

    async def _check(self, findings: Sequence[Finding]) -> None:
        results: Mapping[FindingId, Validation] = {}  # what gets no result is not validated
        try:
            results = await self._validate(findings) if self._validate else {}
        except (AwfError, OSError) as error:
            self.told.append(f"The findings were not checked: {error}")
        finally:
            with self._lock:
                self._session.record_validations(results)
                self._advance()


class LaterTickets(TrackerChain):
    """Trackers that file nothing: a run files its tickets when it continues."""

    def file(self, finding: Finding) -> Filed:  # noqa: ARG002 - nothing is filed
        """Promise a ticket."""
        return Filed("when the run continues")


def walk_page(request: Request) -> Response:
    """What a walk would be about, and how to go about it."""
    store, query = current_store(request), request.query_params
    if store.cluster:
        return render(request, "walk_start.html", {"count": 0, "query": query, "severities": (), "trackers": ()})
    found = pending_findings(filter(_filter(query.get("severity", ""), query.get("file", "")).matches, _ledger(store)))
    values = {"count": len(found), "query": query, "severities": list(Severity), "trackers": list(_trackers())}
    return render(request, "walk_start.html", values)


def start_walk(request: Request, form: Form) -> Response:
    """Start a walk through the findings of a store."""
    store = writable_store(request)
    chain = TrackerChain(_context(store), form.get("tracker", ""), _trackers())
    route = form.get("route", Route.EACH)
    walk = open_walk(
        _ledger(store),
        chain,
        route=None if route not in set(Route) else Route(route),
        wanted=_filter(form.get("severity", ""), form.get("file", "")).matches,
        advisory=bool(form.get("advisory")),
        validates=bool(form.get("validate")),
        confirms=True,
    )
    validate = None
    if walk.validates:
        base = walk.ledger.last.base if walk.ledger.last else ""
        validate = open_validator(store.root, _runtime(store), datetime.now(UTC), {}, base)
    return _open(request, store, walk, chain, validate)


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
    walk = open_walk(
        _ledger(store),
        chain,
        route=None if stage.route == "ask" else Route(stage.route),
        wanted=lambda finding: not is_settled(finding, run_id),
        advisory=stage.advisory,
        validates=stage.validation,
    )
    del form
    validate = None
    if walk.validates:
        runtime, state = _runtime(store), run.state
        settings, base = runtime.settings, review_options(state).base
        choice = choose_model(stage.validator, state.workflow.models, settings.model_choice, settings.profiles)
        validate = open_validator(state.directory, runtime, datetime.now(UTC), state.options, base, choice)
    return _open(request, store, walk, chain, validate, run)


def show_walk(request: Request) -> Response:
    """The question that a walk asks, or its report."""
    store, name = current_store(request), request.path_params["name"]
    walk = _find(request, name)
    question = walk.question
    values = {
        "walk": walk,
        "name": name,
        "question": question,
        "block": list(_parts(question.block)) if question else [],
        "details": list(_parts(question.details)) if question and question.block else [],
        "report": list(_parts(walk.report)),
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
    if walk.answer(key, parse_number(form.get("number", "")) or 0):
        return _finish(request, store, walk, current_user(request, form), name)
    return RedirectResponse(url("s", store.name, "walk", name), 303)


def _finish(request: Request, store: ServedStore, walk: "BrowserWalk", user: str, name: str) -> Response:
    if walk.run:
        return _answer_run(request, store, walk, user, name)
    walk.report = render_report(walk.walk, FIX_COMMAND)
    if walk.walk.decisions:
        with open_ledger(store.directory, repository_of(store), datetime.now(UTC)) as opened:
            events = decision_events(walk.walk, opened.at, str(Actor.USER))
            walk.problems = opened.problems + opened.record(events)
    return RedirectResponse(url("s", store.name, "walk", name), 303)


def _answer_run(request: Request, store: ServedStore, walk: "BrowserWalk", user: str, name: str) -> Response:
    """Leave the decisions for the run, and continue it. The first to decide counts."""
    assert walk.run is not None  # noqa: S101 - the caller knows
    state = walk.run.state
    given = decisions_answer(state.run_id, *state.cursor, walk.walk.decisions, user, time.time())
    current_site(request).walks.pop(name, None)
    with store.open() as runs:
        kept = runs.mailbox.put_answer(given)
    if (kept.by, kept.at) != (given.by, given.at):
        raise AlreadyAnswered(kept)
    resume_run(store, store.run(state.run_id), [])
    return RedirectResponse(url("s", store.name, "runs", state.run_id), 303)


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
    walk: Walk,
    chain: TrackerChain,
    validate: Validate | None,
    run: RunSnapshot | None = None,
) -> Response:
    site, name = current_site(request), secrets.token_urlsafe(9)
    excerpts = partial(read_excerpts, root=run.state.directory if run else store.root, redactor=site.redactor)
    session = Session(walk, lambda _line: None, chain, fixer=lambda _findings: Fixes(), excerpts=excerpts)
    opened = BrowserWalk(session, site, validate, run)
    if opened.walk.step is Step.DONE:  # nothing to decide
        opened.report = render_report(opened.walk, FIX_COMMAND)
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


def _parts(markdown: str) -> Iterator[tuple[str, list[str]]]:
    """Lines of the same kind that follow one another, without blank ones."""
    for kind, lines in groupby(read_markdown(markdown), key=lambda one: one[0]):
        texts = [text for _, text in lines]
        shown = texts if kind == "code" else [text for text in texts if text]
        if shown:
            yield kind, shown


def _filter(severity: str, file: str) -> FindingFilter:
    severities = frozenset({Severity(severity)}) if severity in set(Severity) else frozenset[Severity]()
    return FindingFilter(ALL_STATES, severities, files=(file.strip(),) if file.strip() else ())


def _ledger(store: ServedStore) -> Ledger:
    return store.findings().snapshot.ledger


def _context(store: ServedStore) -> TrackerContext:
    return TrackerContext(store.root, store.directory, os.environ)


def _trackers() -> dict[str, OpenTracker]:
    plugins = PluginManager(time.time)
    plugins.load_installed()
    return all_trackers(plugins.trackers())


ROUTES = [
    Page("/s/{store}/walk", walk_page),
    Page("/s/{store}/walk", form_endpoint(start_walk), methods=["POST"]),
    Page("/s/{store}/walk/{name}", show_walk),
    Page("/s/{store}/walk/{name}", form_endpoint(answer_walk), methods=["POST"]),
    Page("/s/{store}/runs/{run}/walk", form_endpoint(start_triage), methods=["POST"]),
]
