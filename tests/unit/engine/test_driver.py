"""The driver with in-memory services: cancellation reaches everything, and one branch's trouble stays its own."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.engine.drivers import PARALLEL, SUCCESS, TWO_TOOLS, Clock, driver, records, with_plugins

from pipeline.engine.context import Append, Context, Key
from pipeline.engine.driver import Driver, Services
from pipeline.engine.events import Event
from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.ports import Concluded, Conclusion, Job, JournalError, LedgerLine, PluginFailed
from pipeline.engine.records import (
    AnyRecord,
    BranchCompleted,
    RunResumed,
    VisitCompleted,
)
from pipeline.engine.state import RunStatus, Workspace, apply, replay
from pipeline.journal.memory import MemoryJournal
from pipeline.plugins import hookimpl


async def cancelled(made: Driver, ready: asyncio.Event) -> RunStatus:
    """Drive until something waits, then cancel; the records alone must tell the same."""
    task = asyncio.create_task(made.drive())
    await asyncio.wait_for(ready.wait(), 10)
    task.cancel()
    await asyncio.wait_for(task, 10)
    assert replay(records(made)) == made.state
    return made.state.status


def test_cancelling_reaches_a_back_off() -> None:
    """A run that waits for its next attempt is cancelled at once, and the failed attempt is on record."""

    async def story() -> None:
        clock = Clock()
        body = 'stage "a" kind="tool" command="x" {\nretry max_attempts=3 delay="10s"\n}\ntransition from="a" to="end"'
        made = driver(body, lambda _: Outcome(status=Status.FAIL), clock)
        assert await cancelled(made, clock.waiting) is RunStatus.CANCELLED
        assert [record.kind for record in records(made)] == ["run_created", "attempt_failed", "run_cancelled"]

    asyncio.run(story())


@pytest.mark.parametrize(
    "stage",
    [
        'kind="human" prompt="Go?" {\noption "y" label="Yes" to="end"\noption "n" label="No" to="a"\n}',
        'kind="tool" command="x"\ntransition from="a" to="end"',
    ],
)
def test_cancelling_reaches_whatever_is_waited_for(stage: str) -> None:
    """A person who does not answer, and a program that does not end."""

    async def story() -> None:
        asked = asyncio.Event()

        async def never(_: Job) -> Outcome:
            asked.set()
            await asyncio.Event().wait()
            return SUCCESS

        made = driver(f'stage "a" {stage}', never, Clock())
        assert await cancelled(made, asked) is RunStatus.CANCELLED

    asyncio.run(story())


class Reporting:
    """Plugins that have a line for the ledger about every visit."""

    @hookimpl
    def conclude(self, visits: Sequence[Concluded]) -> Conclusion:
        return Conclusion(lines=[LedgerLine(f"about {one.stage.id}") for one in visits])


class Saving:
    """Workspaces whose commit lasts for ever."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()

    async def commit(self, workspace: Workspace, *_: object) -> Workspace:
        self.begun.set()
        await asyncio.Event().wait()
        return workspace


def test_cancelling_while_a_stage_is_saved_records_nothing_of_it() -> None:
    """The ledger has nothing of it: the stage runs again, and would report it twice."""

    async def story() -> None:
        body = 'stage "a" kind="workspace.create"\nstage "b" kind="tool" command="x"\n'
        body += 'transition from="a" to="b"\ntransition from="b" to="end"'
        made = driver(body, lambda _: Outcome(status=Status.SUCCESS, updates={Key.WORKSPACE_PATH: "/w"}), Clock())
        saving: Any = Saving()
        made.services = replace(with_plugins(made, Reporting()).services, workspaces=saving)
        assert await cancelled(made, saving.begun) is RunStatus.CANCELLED
        assert [line for _, line in made.services.journal.ledger()] == ["about a"]

    asyncio.run(story())


def test_branches_run_at_once_and_are_applied_in_the_order_of_the_file() -> None:
    """The last branch finishes first, and the result does not depend on it."""

    async def story() -> None:
        gates = {name: asyncio.Event() for name in "pqs"}
        gates["s"].set()

        async def in_reverse(job: Job) -> Outcome:
            name = job.stage.id
            if name not in gates:
                return SUCCESS
            await gates[name].wait()
            gates[{"s": "q", "q": "p", "p": "p"}[name]].set()
            return Outcome(status=Status.SUCCESS, updates={"last": name})

        made = driver(PARALLEL % "", in_reverse, Clock())
        await asyncio.wait_for(made.drive(), 10)
        finished = [record.branch for record in records(made) if isinstance(record, BranchCompleted)]
        assert finished == ["s", "q", "p"]
        assert made.state.context.get("last") == "s"

    asyncio.run(story())


class Appending:
    """Plugins that add one entry for each visit that is done, as reports are added."""

    @hookimpl
    def conclude(self, visits: Sequence[Concluded]) -> Conclusion:
        return Conclusion(operations=[Append("done", one.stage.id) for one in visits])


def test_every_branch_is_applied_once() -> None:
    """What plugins add for the branches is added once for each when they are joined."""

    def counted(job: Job) -> Outcome:
        return Outcome(status=Status.SUCCESS, usage=Usage(input_tokens=1), updates={f"{job.stage.id}.x": job.visit})

    made = driver(PARALLEL % "", counted, Clock())
    made = with_plugins(made, Appending())
    asyncio.run(made.drive())
    assert made.state.context.get("done") == ["p", "q", "s", "d", "end"]
    assert made.state.visits == dict.fromkeys(("p", "q", "s", "a", "d", "end"), 1)
    assert (made.state.stages_run, made.state.tokens) == (6, 5), "the stage itself asks nobody"
    joined = next(one for one in records(made) if isinstance(one, VisitCompleted))
    keys = [key for _, key, _ in joined.operations]
    assert [keys.count(f"{name}.x") for name in "pqs"] == [1, 1, 1]


class Counting:
    """Workspaces that name each commit by its number, and keep what it was of."""

    def __init__(self) -> None:
        self.of: list[str] = []

    async def commit(self, workspace: Workspace, subject: str, *_: object) -> Workspace:
        self.of.append(subject)
        return replace(workspace, commit=f"commit {len(self.of)}")


def test_a_branch_that_only_looks_commits_nothing_beside_one_that_writes() -> None:
    """No checkpoint has half of what another branch is writing; the last branch commits the rest."""

    async def story() -> None:
        body = PARALLEL % " max_parallel=1" + 'stage "ws" kind="workspace.create"\ntransition from="ws" to="a"'
        for name in "qs":
            body = body.replace(f'"{name}" kind="tool"', f'"{name}" kind="tool" effects="none"')
        outcome = Outcome(status=Status.SUCCESS, updates={Key.WORKSPACE_PATH: "/w"})
        made = driver(body, lambda _: outcome, Clock(), start="ws")
        workspaces: Any = Counting()
        made.services = replace(made.services, workspaces=workspaces)
        await made.drive()
        commits = {one.branch: one.commit for one in records(made) if isinstance(one, BranchCompleted)}
        assert commits == {"p": "commit 1", "q": "", "s": "commit 2"}
        assert workspaces.of == ["awf: p #1", "awf: s #1"]

    asyncio.run(story())


def test_no_more_branches_run_at_once_than_allowed() -> None:
    """`max_parallel` is respected."""

    async def story() -> None:
        running, most = 0, 0

        async def counted(_: Job) -> Outcome:
            nonlocal running, most
            running += 1
            most = max(most, running)
            for _turn in range(3):
                await asyncio.sleep(0)
            running -= 1
            return SUCCESS

        await driver(PARALLEL % " max_parallel=2", counted, Clock()).drive()
        assert most == 2

    asyncio.run(story())


def crash_once(stage: str, ran: list[str]) -> Callable[[Job], Outcome]:
    """A handler that raises the first time it runs a stage, and notes all that it runs."""

    def act(job: Job) -> Outcome:
        ran.append(job.stage.id)
        if job.stage.id == stage and ran.count(stage) == 1:
            raise RuntimeError("boom")
        return SUCCESS

    return act


def test_only_the_branch_that_errored_runs_again() -> None:
    """The others finish, the run pauses before its decision, and a resume runs that branch and no other."""
    ran: list[str] = []
    made = driver(PARALLEL % "", crash_once("q", ran), Clock())
    asyncio.run(made.drive())
    assert (made.state.status, made.state.outcomes) == (RunStatus.PAUSED, {})
    assert "RuntimeError: boom" in made.state.reason
    asyncio.run(Driver(apply(made.state, RunResumed(at=1.0)), made.services).drive())
    assert ran == ["p", "q", "s", "q", "d", "end"]


def test_an_error_that_is_to_end_the_run_ends_it_and_it_can_be_resumed() -> None:
    """`on_error="fail"` fails the run; a resume runs only the branch that errored."""
    ran: list[str] = []
    text = PARALLEL.replace('"q" kind="tool"', '"q" kind="tool" on_error="fail"')
    made = driver(text % "", crash_once("q", ran), Clock())
    asyncio.run(made.drive())
    assert made.state.status is RunStatus.FAIL
    again = Driver(apply(made.state, RunResumed(at=1.0)), made.services)
    asyncio.run(again.drive())
    assert (again.state.status, ran) == (RunStatus.SUCCESS, ["p", "q", "s", "q", "d", "end"])


def test_an_error_that_is_routed_is_an_ordinary_failure() -> None:
    """`on_error="route"`: the decision sees the stage as failed."""

    def crash(job: Job) -> Outcome:
        if job.stage.id == "q":
            raise RuntimeError("boom")
        return SUCCESS

    made = driver(PARALLEL.replace('"q" kind="tool"', '"q" kind="tool" on_error="route"') % "", crash, Clock())
    asyncio.run(made.drive())
    assert (made.state.status, made.state.outcomes["q"]) == (RunStatus.SUCCESS, Status.FAIL)


def test_a_journal_that_cannot_be_written_stops_the_run() -> None:
    """Nothing runs that could not be recorded, and the error is reported as it is."""

    class Full(MemoryJournal):
        def append(
            self,
            run_id: str,  # noqa: ARG002 - the port's
            record: AnyRecord,  # noqa: ARG002 - as above
            *,
            attached: str = "",  # noqa: ARG002 - as above
            lines: Sequence[str] = (),  # noqa: ARG002 - as above
        ) -> int:
            raise JournalError("the disk is full")

    made = driver('stage "a" kind="tool" command="x"\ntransition from="a" to="end"', lambda _: SUCCESS, Clock())
    journal = Full()
    journal.create("r", records(made)[0])
    services = made.services
    broken = Services(
        journal,
        services.handlers,
        services.plugins,
        services.clock,
        services.chance,
        services.workspaces,
        services.store,
    )
    with pytest.raises(JournalError, match="the disk is full"):
        asyncio.run(Driver(made.state, broken).drive())


def plugin_failure(cause: Exception) -> PluginFailed:
    """What the manager makes of a plugin that raises while a handler asks it."""
    error = PluginFailed("mine", "brief", cause)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "trouble",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EROFS, "Read-only file system", "/anywhere"),
        plugin_failure(OSError(errno.ENOSPC, "No space left on device")),
        PermissionError(errno.EACCES, "Permission denied", "/nowhere/runs/r/a/1"),
    ],
)
def test_a_stage_whose_files_cannot_be_written_stops_the_run(trouble: Exception) -> None:
    """A full disk or a read-only store is not an error of the stage: nothing is recorded."""

    def fail(_: Job) -> Outcome:
        raise trouble

    made = driver('stage "a" kind="tool" command="x"\ntransition from="a" to="end"', fail, Clock())
    with pytest.raises(JournalError, match='stage "a"') as told:
        asyncio.run(made.drive())
    assert str(trouble) in told.value.message
    assert "resume the run" in str(told.value.help)
    assert [record.kind for record in records(made)] == ["run_created"]


@pytest.mark.parametrize(
    "trouble",
    [
        PermissionError(errno.EACCES, "no", "/elsewhere/x"),
        PermissionError(errno.EACCES, "no", "/nowhere/worktrees/r/x"),
        FileNotFoundError(errno.ENOENT, "no", "/nowhere/runs/r/a/1/report"),
        ConnectionError("gone"),
    ],
)
def test_other_system_errors_are_errors_of_the_stage(trouble: OSError) -> None:
    """Anything else that a handler cannot read, write or find is an error of its stage."""

    def fail(_: Job) -> Outcome:
        raise trouble

    made = driver('stage "a" kind="tool" command="x"\ntransition from="a" to="end"', fail, Clock())
    asyncio.run(made.drive())
    assert made.state.status is RunStatus.PAUSED


def test_an_outcome_that_is_nested_without_end_fails_its_stage() -> None:
    """What cannot be searched for secrets is not recorded."""
    nested: Any = []
    for _ in range(10_000):
        nested = [nested]
    outcome = SUCCESS.model_copy(update={"updates": {"deep": nested}})
    made = driver('stage "a" kind="tool" command="x"\ntransition from="a" to="end"', lambda _: outcome, Clock())
    asyncio.run(made.drive())
    assert made.state.status is RunStatus.PAUSED
    assert "RecursionError" in made.state.reason


class Failing:
    """A plugin that raises when something was committed."""

    @hookimpl
    def committed(self) -> None:
        raise ValueError("no")


def test_a_plugin_that_fails_after_the_commit_pauses_the_run() -> None:
    """The stage is on record, and the next one does not run."""
    made = with_plugins(driver(TWO_TOOLS, lambda _: SUCCESS), Failing())
    asyncio.run(made.drive())
    assert [record.kind for record in records(made)] == ["run_created", "visit_completed", "run_paused"]
    assert 'plugin "plugin-1" failed in committed' in made.state.reason


def test_an_expression_function_that_fails_decides_nothing() -> None:
    """The stage errors and the run pauses: a condition without a value is neither true nor false."""

    def fail(*_: object) -> object:
        raise PluginFailed("mine", "expression_functions", ValueError("no"))

    body = TWO_TOOLS.replace('from="a" to="b"', 'from="a" to="b" when="findings() == 0"')
    made = driver(body, lambda _: SUCCESS, Clock())
    made.services = replace(made.services, functions={"findings": fail})
    asyncio.run(made.drive())
    assert [record.kind for record in records(made)] == ["run_created", "stage_errored", "run_paused"]
    assert made.state.outcomes == {}


class Announcing:
    """A plugin that has an event of its own after every commit, and hears all events."""

    def __init__(self) -> None:
        self.heard: list[Event] = []

    @hookimpl
    def committed(self, before: Context, after: Context) -> dict[str, dict[str, Any]]:
        return {"keys_changed": {"added": sorted(set(after) - set(before))}}

    @hookimpl
    def on_event(self, event: Event) -> None:
        self.heard.append(event)


def test_a_plugin_announces_what_a_commit_changed() -> None:
    """Its event comes after those of the stage, with the contexts before and after the commit."""
    plugin = Announcing()
    made = driver('stage "a" kind="tool" command="x"\ntransition from="a" to="end"', lambda _: SUCCESS)
    asyncio.run(with_plugins(made, plugin).drive())
    kinds = [event.event for event in plugin.heard]
    assert kinds[:4] == ["stage_started", "checkpoint_saved", "stage_completed", "keys_changed"]
    assert "a.status" in plugin.heard[3].data["added"]
