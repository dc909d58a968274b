"""Builds everything a run needs: the only module that knows every part."""

import asyncio
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pipeline.app.read_only import ReadOnlyGuard
from pipeline.app.responders import AutoApprove, FileResponder, FirstResponder, MailboxResponder, ResponderChain
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
from pipeline.engine.ports import Handler, Job, Journal, Mailbox, Workspaces
from pipeline.engine.routing import require_functions
from pipeline.engine.state import State
from pipeline.findings.git import TreeSnapshots
from pipeline.findings.plugin import ReviewFindings
from pipeline.handlers.human import HumanHandler, Responder
from pipeline.handlers.llm import AgentDefaults, LlmHandler
from pipeline.handlers.registry import PassThroughHandler, require_handlers
from pipeline.handlers.tool import ToolHandler
from pipeline.handlers.workspace import WorkspaceHandler
from pipeline.journal.memory import MemoryMailbox
from pipeline.language.model import StageKind, is_structured_review
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import Redactor, redactor_of
from pipeline.summary.render import render, summary_budget
from pipeline.summary.report_index import ReportIndex

if TYPE_CHECKING:
    from pipeline.findings.walk.stage import Decider


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
    deciders: "tuple[Decider, ...]" = ()  # the same person, asked about findings one by one
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
    worktrees = runtime.workspaces or GitWorktrees(runtime.store / "worktrees", dict(environ))
    backends = BackendSelector(state.options, processes, plugins.agent_backends(), settings, environ, label)
    if not state.stages_run:
        backends.check(state.workflow)  # a missing agent is reported before the first stage, not when it is reached

    @cache  # finding the secrets takes longer than everything else in a short stage
    def child_variables(names: frozenset[str]) -> Mapping[str, str]:
        return MappingProxyType(child_environment(environ, extra_names=names.union(settings.environment)))

    def environment(names: Collection[str]) -> Mapping[str, str]:
        return child_variables(frozenset(names))

    llm = LlmHandler(
        backends.choose,
        _summary(state, plugins),
        environment,
        clock.now,
        _agent_defaults(settings),
        plugins.read_answer,
        plugins.answer_format,
        plugins.second_look,
        lambda agent, given: withheld_hint(agent, withheld_keys(environ, given)),
    )
    tool = ToolHandler(processes, environment, plugins.stage_variables, plugins.read_report)
    workspace, guard = WorkspaceHandler(worktrees), ReadOnlyGuard(environ, snapshots)
    handlers: dict[StageKind, Handler] = {
        StageKind.LLM: guard.guarded(llm),
        StageKind.TOOL: guard.guarded(tool),
        StageKind.HUMAN: _human_handler(state, runtime),
        StageKind.DECISION: PassThroughHandler(),
        StageKind.WORKSPACE_CREATE: workspace,
        StageKind.WORKSPACE_MERGE: workspace,
        StageKind.WORKSPACE_CLEANUP: workspace,
        StageKind.EXIT: PassThroughHandler(),
        **plugins.stage_handlers(),
    }
    require_handlers(state.workflow, handlers)
    functions = plugins.expression_functions()
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
        ask_agent=guard.guarded_questions(llm.ask),
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
        plugins.trackers,
        runtime.deciders,
        settings.record_writers,
        runtime.mailbox,
    )
    diffs = ReviewDiffs(environ, snapshots, runtime.store, settings.review_reports)
    plugins.register(diffs, "reviewed")  # first: a summary starts with it
    plugins.register(findings, "findings")
    plugins.load_installed()
    return plugins


def _summary(state: State, plugins: PluginManager) -> Callable[[Job], str]:
    """What renders the text about the run that comes before an agent's prompt."""
    reports = ReportIndex()
    # Reviewers are independent: what they answer reaches others as reports and findings.
    answers = frozenset(
        response_key(response_base(stage)) for stage in state.workflow.stages if is_structured_review(stage)
    )

    def summary(job: Job) -> str:
        worklist = plugins.worklist(job)
        return render(
            job.context,
            reports.groups(job.context),
            goal=job.state.goal,
            workflow=job.state.workflow.name,
            past=job.state.recent,
            omitted_visits=job.state.stages_run - len(job.state.recent),
            budget=summary_budget(job.stage, job.state),
            findings_path=worklist.path,
            extra=plugins.summary_sections(job),
            items=worklist.render,
            only_items=worklist.replaces_reports,
            hidden=answers,
        )

    return summary


def _human_handler(state: State, runtime: Runtime) -> HumanHandler:
    """Asks in this order: the mailbox, the recorded answers, auto-approval, the person at the terminal."""
    now = SystemClock().now
    present = FirstResponder(
        ResponderChain(runtime.responders), runtime.mailbox, now, runtime.redactor, stay=runtime.wait_for_answer
    )
    responders: list[Responder] = [MailboxResponder(runtime.mailbox), FileResponder(state.options.get("answers") or {})]
    if state.options.get("auto_approve"):
        responders.append(AutoApprove())
    return HumanHandler(ResponderChain([*responders, present]), now, present.settle)


def _agent_defaults(settings: Settings) -> AgentDefaults:
    limits, usual = settings.limits, AgentDefaults()
    return AgentDefaults(
        settings.model_choice,
        settings.profiles,
        limits.timeout or usual.timeout,
        limits.idle or usual.idle,
        settings.prices,
    )
