"""Puts a run together: the only place that knows every part."""

import asyncio
import random
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from pipeline.app.responders import AutoApprove, FileResponder, FirstResponder, MailboxResponder, ResponderChain
from pipeline.app.settings import NOTHING_SET, Settings
from pipeline.app.store import process_label
from pipeline.app.workspace_diff import ReviewDiffs
from pipeline.backends.environment import child_environment
from pipeline.backends.process import LocalProcesses
from pipeline.backends.select import BackendSelector
from pipeline.backends.worktree import GitWorktrees
from pipeline.engine.driver import Services
from pipeline.engine.events import Listener
from pipeline.engine.policy import ERROR_RETRY
from pipeline.engine.ports import Handler, Job, Journal, Mailbox, Workspaces
from pipeline.engine.routing import require_functions
from pipeline.engine.state import State
from pipeline.findings.plugin import ReviewFindings
from pipeline.handlers.human import HumanHandler, Responder
from pipeline.handlers.llm import AgentDefaults, LlmHandler
from pipeline.handlers.registry import PassThroughHandler, require_handlers
from pipeline.handlers.tool import ToolHandler
from pipeline.handlers.workspace import WorkspaceHandler
from pipeline.journal.memory import MemoryMailbox
from pipeline.language.model import LlmStage, Retry, StageKind
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import Redactor, redactor_of
from pipeline.summary.render import render
from pipeline.summary.report_index import ReportIndex

if TYPE_CHECKING:
    from pipeline.findings.walk.deciders import Decider


class SystemClock:
    """The time of this machine."""

    now = staticmethod(time.time)  # asked several times a stage

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


def build_services(state: State, journal: Journal, around: Runtime) -> Services:
    """Everything the driver of one run needs."""
    clock = SystemClock()
    plugins = PluginManager(clock.now, around.listeners, around.redactor)
    trusted = around.settings.record_writers
    findings = ReviewFindings(
        journal, state.cwd, around.environ, around.store, clock.now, plugins.trackers, around.deciders, trusted
    )
    plugins.register(findings, "findings")
    plugins.register(ReviewDiffs(around.environ, around.store), "reviewed")
    plugins.load_installed()
    label = process_label(around.store, state.run_id)
    processes = LocalProcesses(label=label, redactor=around.redactor)
    worktrees = around.workspaces or GitWorktrees(around.store / "worktrees", dict(around.environ))
    backends = BackendSelector(
        state.options, processes, plugins.agent_backends(), around.settings, around.environ, label
    )
    if not state.stages_run:
        backends.check(state.workflow)  # a missing agent is told before the first stage, not when it is reached

    reports = ReportIndex()

    def summary(job: Job) -> str:
        worklist = plugins.worklist(job)
        return render(
            job.context,
            reports.groups(job.context),
            goal=job.state.goal,
            workflow=job.state.workflow.name,
            past=job.state.recent,
            omitted_visits=job.state.stages_run - len(job.state.recent),
            budget=_summary_budget(job),
            findings_path=worklist.path,
            extra=plugins.summary_sections(job),
            items=worklist.render,
            only_items=worklist.replaces_reports,
        )

    @cache  # to tell what is secret takes longer than all else that a short stage does
    def passed_on(names: frozenset[str]) -> Mapping[str, str]:
        return MappingProxyType(child_environment(around.environ, extra_names=names.union(around.settings.environment)))

    def environment(names: Collection[str]) -> Mapping[str, str]:
        return passed_on(frozenset(names))

    workspace = WorkspaceHandler(worktrees)
    present = FirstResponder(
        ResponderChain(around.responders), around.mailbox, clock.now, around.redactor, stay=around.wait_for_answer
    )
    in_advance = [AutoApprove()] if state.options.get("auto_approve") else []
    answers = FileResponder(state.options.get("answers") or {})
    responders = ResponderChain([MailboxResponder(around.mailbox), answers, *in_advance, present])
    handlers: dict[StageKind, Handler] = {
        StageKind.LLM: LlmHandler(
            backends.choose, summary, environment, clock.now, _defaults(around.settings), plugins.read_answer
        ),
        StageKind.TOOL: ToolHandler(processes, environment, plugins.stage_variables, plugins.read_report),
        StageKind.HUMAN: HumanHandler(responders, clock.now, present.settle),
        StageKind.DECISION: PassThroughHandler(),
        StageKind.WORKSPACE_CREATE: workspace,
        StageKind.WORKSPACE_MERGE: workspace,
        StageKind.WORKSPACE_CLEANUP: workspace,
        StageKind.EXIT: PassThroughHandler(),
    }
    handlers.update(plugins.stage_handlers())
    require_handlers(state.workflow, handlers)
    functions = plugins.expression_functions()
    require_functions(state.workflow, functions)
    return Services(
        journal,
        handlers,
        plugins,
        clock,
        random.random,
        worktrees,
        around.store,
        around.redactor,
        _error_retry(around.settings),
        waits=around.wait_for_quota,
        functions=functions,
    )


def _error_retry(settings: Settings) -> Retry:
    if settings.limits.retry_delay is None:
        return ERROR_RETRY
    return ERROR_RETRY.model_copy(update={"delay": timedelta(seconds=settings.limits.retry_delay)})


def _defaults(settings: Settings) -> AgentDefaults:
    limits = settings.limits
    usual = AgentDefaults()
    return AgentDefaults(settings.model_choice, limits.timeout or usual.timeout, limits.idle or usual.idle)


def _summary_budget(job: Job) -> int:
    """Characters of summary: as the run was started with, else as the stage says, else as the workflow says."""
    of_stage = job.stage.summary_budget if isinstance(job.stage, LlmStage) else None
    return job.state.options.get("summary_budget") or of_stage or job.state.settings.summary_budget
