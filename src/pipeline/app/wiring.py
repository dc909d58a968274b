"""Builds everything a run needs: the only module that knows every part."""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType

from pipeline.app.approval import unapproved_verdict
from pipeline.app.history import read_review
from pipeline.app.reading import Readers
from pipeline.app.responders import FirstResponder, MailboxResponder
from pipeline.app.settings import NOTHING_SET, Settings
from pipeline.app.store import process_label
from pipeline.app.workspace_diff import ReviewDiffs
from pipeline.backends.environment import child_environment, withheld_hint, withheld_keys
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.backends.worktree import GitWorktrees
from pipeline.engine.context import response_key
from pipeline.engine.driver import Services
from pipeline.engine.events import Listener
from pipeline.engine.outcome import response_base
from pipeline.engine.policy import ERROR_RETRY
from pipeline.engine.ports import (
    NOTHING_LEFT,
    Assessment,
    Briefing,
    Handler,
    Job,
    Journal,
    Mailbox,
    Workspaces,
    merge_briefings,
)
from pipeline.engine.routing import require_functions
from pipeline.engine.state import State
from pipeline.findings.git import TreeSnapshots
from pipeline.findings.keys import OWNED, ReviewKey
from pipeline.findings.plugin import ReviewFindings
from pipeline.handlers.human import HumanHandler, Objection
from pipeline.handlers.llm import AgentDefaults, LlmHandler
from pipeline.handlers.questions import AnswersByVisit, AutoApprove, Responder, ResponderChain
from pipeline.handlers.registry import PassThroughHandler, require_handlers
from pipeline.handlers.tool import ToolHandler
from pipeline.handlers.workspace import WorkspaceHandler
from pipeline.journal.memory import MemoryMailbox
from pipeline.language.model import StageKind, is_structured_review
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import Redactor, redactor_of
from pipeline.summary.render import render, summary_budget
from pipeline.summary.report_index import ReportIndex


class SystemClock:
    """The clock of this machine."""

    now = staticmethod(time.time)

    async def sleep_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - time.time()))


@dataclass(frozen=True)
class Runtime:
    """What this machine provides for a run: the store, the environment, listeners, responders and settings."""

    store: Path
    environ: Mapping[str, str]
    listeners: tuple[Listener, ...] = ()
    responders: tuple[Responder, ...] = ()  # a person at the terminal, if there is one
    settings: Settings = NOTHING_SET
    mailbox: Mailbox = field(default_factory=MemoryMailbox)
    wait_for_answer: bool = False  # whether to wait for the mailbox when nobody here can answer
    wait_for_quota: bool = False  # whether to wait until an exhausted quota resets
    detach: bool = False  # whether to leave a run to a cluster without watching it
    workspaces: Workspaces | None = None  # where worktrees do not stay on this machine

    @cached_property
    def redactor(self) -> Redactor:
        """Removes the secrets of the environment from everything that is recorded or shown."""
        return redactor_of(self.environ)


def build_services(state: State, journal: Journal, runtime: Runtime) -> Services:
    """Everything the driver of one run needs, from its plugins to its handlers."""
    clock, settings, environ = SystemClock(), runtime.settings, runtime.environ
    snapshots = TreeSnapshots(environ, runtime.store)  # one for all, so that no moment is recorded twice
    plugins = _load_plugins(state, journal, runtime, snapshots)
    label = process_label(runtime.store, state.run_id)
    processes = LocalProcesses(label=label, redactor=runtime.redactor)
    worktrees = runtime.workspaces or GitWorktrees(runtime.store / "worktrees", dict(environ), _views(plugins))
    backends = BackendSelector(state.options, processes, plugins.collect("agent_backends"), settings, environ, label)
    if not state.stages_run:
        backends.check(state.workflow)  # a missing agent is reported before the first stage, not when it is reached

    @cache  # finding the secrets takes longer than everything else in a short stage
    def child_variables(names: frozenset[str]) -> Mapping[str, str]:
        return MappingProxyType(child_environment(environ, extra_names=names.union(settings.environment)))

    def environment(names: Collection[str]) -> Mapping[str, str]:
        return child_variables(frozenset(names))

    def brief(job: Job) -> Briefing:
        return merge_briefings(plugins.collect("brief", job=job))

    def read_answer(job: Job, answers: Sequence[str]) -> Assessment | None:
        """Read answers as they will be recorded: what cannot be read without its secrets is asked for again."""
        recorded = [runtime.redactor.text(answer) for answer in answers]
        found: Assessment | None = plugins.first("read_answer", job=job, answers=recorded)
        return found

    def read_report(job: Job, report: Path) -> Assessment:
        found = plugins.first("read_report", job=job, report=report)
        return found or Assessment(problem="no loaded plugin reads reports of this format")

    llm = LlmHandler(
        backends.choose,
        _summary(state, plugins, brief),
        environment,
        clock.now,
        _agent_defaults(settings),
        read_answer,
        lambda stage: plugins.first("answer_format", stage=stage) or "",
        lambda agent, given: withheld_hint(agent, withheld_keys(environ, given)),
    )
    tool = ToolHandler(processes, environment, lambda job: brief(job).variables, read_report)
    workspace = WorkspaceHandler(
        worktrees, lambda now: unapproved_verdict(now, journal, read_review(journal, now.run_id))
    )
    readers = Readers(runtime.store, environ, snapshots)
    handlers: dict[StageKind, Handler] = {
        StageKind.LLM: readers.reading(llm),
        StageKind.TOOL: tool,
        StageKind.HUMAN: _human_handler(state, runtime, lambda now: plugins.first("objection", state=now)),
        StageKind.DECISION: PassThroughHandler(),
        StageKind.WORKSPACE_CREATE: workspace,
        StageKind.WORKSPACE_MERGE: workspace,
        StageKind.WORKSPACE_CLEANUP: workspace,
        StageKind.EXIT: PassThroughHandler(),
        **dict(plugins.collect("stage_handlers")),
    }
    require_handlers(state.workflow, handlers)
    functions = dict(plugins.collect("expression_functions"))
    require_functions(state.workflow, functions)

    retry, delay = ERROR_RETRY, settings.limits.retry_delay
    if delay is not None:
        retry = ERROR_RETRY.model_copy(update={"delay": timedelta(seconds=delay)})
    return Services(
        journal,
        handlers,
        plugins,
        clock,
        random.random,
        worktrees,
        runtime.store,
        runtime.redactor,
        retry,
        waits=runtime.wait_for_quota,
        functions=functions,
        ask_agent=readers.asking(llm.ask),
    )


def _load_plugins(state: State, journal: Journal, runtime: Runtime, snapshots: TreeSnapshots) -> PluginManager:
    """The plugins of a run: those of awf itself, then the installed ones."""
    now, settings, environ = SystemClock().now, runtime.settings, runtime.environ
    plugins = PluginManager(now, runtime.listeners, runtime.redactor)
    findings = ReviewFindings(
        journal,
        state.cwd,
        environ,
        snapshots,
        runtime.store,
        now,
        lambda: dict(plugins.collect("trackers")),
        runtime.responders,
        settings.record_writers,
        runtime.mailbox,
    )
    diffs = ReviewDiffs(environ, snapshots, runtime.store, findings.since)
    plugins.register(diffs, "reviewed")  # first: a summary starts with it
    plugins.register(findings, "findings")
    plugins.load_installed()
    return plugins


def _views(plugins: PluginManager) -> list[str]:
    """The files and directories of a repository in which plugins show things."""
    return [name for owned in plugins.collect("owned") for name in owned.files]


def installed_views() -> list[str]:
    """The same for the plugins of this machine, where there is no run yet."""
    plugins = PluginManager(time.time)
    plugins.load_installed()
    return [*OWNED.files, *_views(plugins)]


def _summary(state: State, plugins: PluginManager, brief: Callable[[Job], Briefing]) -> Callable[[Job], str]:
    """What renders the text about the run that comes before an agent's prompt."""
    reports = ReportIndex(ReviewKey.REPORTS)
    owned = tuple(key for each in plugins.collect("owned") for key in each.context_keys)
    # Reviewers are independent: what they answer reaches others as reports and findings.
    answers = frozenset(
        response_key(response_base(stage)) for stage in state.workflow.stages if is_structured_review(stage)
    )

    def summary(job: Job) -> str:
        briefing = brief(job)
        worklist = briefing.worklist or NOTHING_LEFT
        return render(
            job.context,
            reports.groups(job.context),
            goal=job.state.goal,
            workflow=job.state.workflow.name,
            past=job.state.recent,
            omitted_visits=job.state.stages_run - len(job.state.recent),
            budget=summary_budget(job.stage, job.state),
            findings_path=worklist.path,
            extra=briefing.sections,
            items=worklist.render,
            only_items=worklist.replaces_reports,
            hidden=answers,
            owned=owned,
        )

    return summary


def _human_handler(state: State, runtime: Runtime, objection: Objection) -> HumanHandler:
    """Asks in this order: the mailbox, the recorded answers, then auto-approval or the person at the terminal.

    As long as there is an objection, neither auto-approval nor a timeout takes an approving option: the run waits.
    """
    now, approves = SystemClock().now, bool(state.options.get("auto_approve"))
    person = ResponderChain(() if approves else runtime.responders)
    present = FirstResponder(person, runtime.mailbox, now, runtime.redactor, stay=runtime.wait_for_answer)
    given: list[Responder] = [MailboxResponder(runtime.mailbox), AnswersByVisit(state.options.get("answers") or {})]
    if approves:
        given.append(AutoApprove())
    return HumanHandler(ResponderChain([*given, present]), now, present.settle, objection)


def _agent_defaults(settings: Settings) -> AgentDefaults:
    limits, usual = settings.limits, AgentDefaults()
    return AgentDefaults(
        settings.model_choice,
        settings.profiles,
        limits.timeout or usual.timeout,
        limits.idle or usual.idle,
        settings.prices,
    )
