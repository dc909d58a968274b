"""Starting, resuming and watching runs of a cluster; what is shown, and what the shell is told, is as ever."""

import json
import os
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.app.responders import check_answers
from pipeline.app.runs import (
    ResumeRequest,
    RunResult,
    build_adoption,
    load_state,
    parse_raised_limits,
    redact_options,
    refuse_finished,
    with_head,
)
from pipeline.cli.execute import format_result, open_event_log, print_event
from pipeline.cli.store_options import StoreLocation
from pipeline.cli.terminal import best_effort_output
from pipeline.engine.events import Listener
from pipeline.engine.records import AnyRecord, RunCreated, RunResumed
from pipeline.engine.state import State, apply, begin
from pipeline.errors import AwfError, ExitCode
from pipeline.language.model import StageKind
from pipeline.observe.progress import open_view
from pipeline.plugins.manager import PluginManager
from pipeline.redaction import redactor_of

if TYPE_CHECKING:
    from pipeline.cluster.remote import ClusterConnection

Begin = Callable[
    ["ClusterConnection"], Coroutine[Any, Any, tuple[str, int]]
]  # the run, and the record it is followed from


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a run is watched."""

    as_json: bool
    log: Path | None = None
    stay: bool = False  # also while it waits for a person
    detach: bool = False  # not at all


def start_on_cluster(where: StoreLocation, record: RunCreated, remote_name: str, how: WatchOptions) -> int:
    """Start a run on a cluster and watch it until it stops."""

    async def begun_by(remote: "ClusterConnection") -> tuple[str, int]:
        begun = with_head(record, os.environ)
        if remote_name:
            begun = await _with_remote(begun, remote_name)
        await remote.cluster.start(begun, redactor_of(os.environ))
        return record.run_id, 0

    return _watch(where, begun_by, how)


async def _with_remote(record: RunCreated, name: str) -> RunCreated:
    """The record with where the run's files are, once they are there."""
    from pipeline.cluster.travel import send_start  # noqa: PLC0415 - an extra

    if not any(stage.kind == StageKind.WORKSPACE_CREATE for stage in begin(record).workflow.stages):
        raise AwfError(
            "the workflow has no workspace.create stage, so that what its stages change would not travel",
            help="give it one, or leave out --remote and have the directory on every worker",
        )
    sent = await send_start(Path(record.cwd), os.environ, name, record.run_id)
    return record.model_copy(update={"options": {**record.options, "remote": sent.model_dump()}})


def resume_on_cluster(where: StoreLocation, run_id: str, resume: ResumeRequest, how: WatchOptions) -> int:
    """Have a cluster take a run up again, and watch it until it stops."""

    async def begun_by(remote: "ClusterConnection") -> tuple[str, int]:
        journal = remote.cluster.journal
        last = journal.last(run_id).seq
        await remote.cluster.resume(run_id, _resumption(load_state(journal, run_id), resume))
        return run_id, last

    return _watch(where, begun_by, how)


def _resumption(state: State, how: ResumeRequest) -> list[AnyRecord]:
    """The records by which a run goes on, with what the command was given."""
    refuse_finished(state)
    redactor, records = redactor_of(os.environ), list[AnyRecord]()
    if how.adopt is not None:
        adopted = build_adoption(*how.adopt, redactor, 0.0)
        state = apply(state, adopted)  # refuses a workflow in which the run's place is gone
        records.append(adopted)
    options = redact_options(redactor, dict(how.options))
    check_answers(options.get("answers", {}), state.workflow)
    raised = parse_raised_limits(state, how.raised)
    return [*records, RunResumed(at=0.0, raised=raised, options=options, repeat=how.repeat)]


def _watch(where: StoreLocation, begin: Begin, how: WatchOptions) -> int:
    with where.remote() as remote, open_event_log(how.log) as listeners:
        run_id, after = remote.call(begin(remote))
        if how.detach:
            return _left(where, run_id, as_json=how.as_json)
        try:
            if how.as_json:
                result = _followed(remote, run_id, after, (print_event, *listeners), stay=how.stay)
                said = json.dumps(result.as_event())
            else:
                with open_view(sys.stderr) as view:
                    result = _followed(remote, run_id, after, (view.listen, *listeners), stay=how.stay)
                said = format_result(result, where)
        except KeyboardInterrupt:
            click.echo(f"\nthe run goes on without you; stop it with: awf cancel {run_id}{where.end}", err=True)
            return ExitCode.CANCELLED
    with best_effort_output():
        click.echo(said)
    return result.exit_code


def _left(where: StoreLocation, run_id: str, *, as_json: bool) -> int:
    """Say what run the workers were given."""
    if as_json:
        click.echo(json.dumps({"run_id": run_id}))
    else:
        click.echo(f"run {run_id} is with the workers\nlook with: awf status {run_id}{where.end}")
    return ExitCode.SUCCESS


def _followed(
    remote: "ClusterConnection", run_id: str, after: int, listeners: tuple[Listener, ...], *, stay: bool
) -> RunResult:
    from pipeline.cluster.following import RunFollower  # noqa: PLC0415 - an extra

    plugins = PluginManager(time.time, listeners, redactor_of(os.environ))
    return remote.call(RunFollower(remote.cluster, run_id, plugins).until_it_stops(after, stay=stay))
