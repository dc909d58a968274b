"""The driver with in-memory services: cancellation reaches everything, and one branch's trouble stays its own."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.context import Append, Context, Key, Operation
from pipeline.engine.driver import Driver, Services
from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.ports import Job, JournalError, LedgerLine, PluginFailed, Waiting
from pipeline.engine.records import AnyRecord, BranchCompleted, RunCreated, RunResumed, VisitCompleted
from pipeline.engine.state import RunStatus, Workspace, apply, begin, replay
from pipeline.journal.memory import MemoryJournal
from pipeline.language.model import BaseStage, StageKind

SUCCESS = Outcome(status=Status.SUCCESS)


class Quiet:
    """Plugins that add nothing."""

    def before_stage(self, *_: object) -> None:
        """Nothing is looked at."""

    def after_stage(self, *_: object) -> tuple[Operation, ...]:
        return ()

    def commit_events(self, *_: object) -> tuple[tuple[str, dict[str, Any]], ...]:
        return ()

    def after_branch(self, *_: object) -> tuple[Operation, ...]:
        return ()

    def after_commit(self, *_: object) -> None:
        """Nothing is done."""

    def on_resume(self, *_: object) -> None:
        """Nothing is put right."""

    def emit(self, kind: str, *_: object, **data: object) -> None:
        """Nobody listens."""


class Clock:
    """A clock whose waits last for ever."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()

    def now(self) -> float:
        return 0.0

    async def sleep_until(self, moment: float) -> None:
        if moment > 0:
            self.waiting.set()
            await asyncio.Event().wait()


class Doing:
    """A handler that does what it is told."""

    def __init__(self, act: Callable[[Job], Any]) -> None:
        self.act = act

    async def run(self, job: Job) -> Outcome | Waiting:
        result = self.act(job)
        outcome: Outcome | Waiting = await result if asyncio.iscoroutine(result) else result
        return outcome


def driver(body: str, act: Callable[[Job], Any], clock: Clock, start: str = "a") -> Driver:
    source = f'workflow "W" {{\nversion 2\nstart "{start}"\n{body}\nstage "end" kind="exit"\n}}\n'
    record = RunCreated(at=0.0, run_id="r", file="w", source=source, cwd="/", version="0")
    journal = MemoryJournal()
    journal.create("r", record)
    handlers = dict.fromkeys(StageKind, Doing(act))
    unused: Any = None
    return Driver(begin(record), Services(journal, handlers, Quiet(), clock, lambda: 0.5, unused, Path("/nowhere")))


def records(made: Driver) -> list[AnyRecord]:
    return [entry.record for entry in made.services.journal.entries("r")]


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


class Reporting(Quiet):
    """Plugins that have a line for the ledger about every stage."""

    def after_stage(self, stage: BaseStage, *_: object) -> tuple[LedgerLine, ...]:  # type: ignore[override]  # one of the two
        return (LedgerLine(f"about {stage.id}"),)


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
        made.services = replace(made.services, plugins=Reporting(), workspaces=saving)
        assert await cancelled(made, saving.begun) is RunStatus.CANCELLED
        assert [line for _, line in made.services.journal.ledger()] == ["about a"]

    asyncio.run(story())


PARALLEL = """
stage "a" kind="parallel"%s { branch "p"; branch "q"; branch "s" }
stage "p" kind="tool" command="x"
stage "q" kind="tool" command="x"
stage "s" kind="tool" command="x"
stage "d" kind="decision" { route when="outcome(\\"q\\") == \\"fail\\"" to="end"; route when="true" to="end" }
transition from="a" to="d"
"""


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


class Appending(Quiet):
    """Plugins that add one entry for each stage that is done, as reports are added."""

    def after_stage(self, stage: BaseStage, *_: object) -> tuple[Operation, ...]:  # type: ignore[override]
        return (Append("done", stage.id),)


def test_every_branch_is_applied_once() -> None:
    """What plugins add for a branch is added when the stage is done, once for each, before what they add for itself."""

    def counted(job: Job) -> Outcome:
        return Outcome(status=Status.SUCCESS, usage=Usage(input_tokens=1), updates={f"{job.stage.id}.x": job.visit})

    made = driver(PARALLEL % "", counted, Clock())
    made.services = replace(made.services, plugins=Appending())
    asyncio.run(made.drive())
    assert made.state.context.get("done") == ["p", "q", "s", "a", "d", "end"]
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
    error = PluginFailed("mine", "worklist", cause)
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


class Failing(Quiet):
    """Plugins of which one raises when it is asked what to announce."""

    def commit_events(self, *_: object) -> tuple[tuple[str, dict[str, Any]], ...]:
        raise PluginFailed("mine", "commit_events", ValueError("no"))


TWO_TOOLS = """
stage "a" kind="tool" command="x"
stage "b" kind="tool" command="x"
transition from="a" to="b"
transition from="b" to="end"
"""


def test_a_plugin_that_fails_after_the_commit_pauses_the_run() -> None:
    """The stage is on record, and the next one does not run."""
    made = driver(TWO_TOOLS, lambda _: SUCCESS, Clock())
    made.services = replace(made.services, plugins=Failing())
    asyncio.run(made.drive())
    assert [record.kind for record in records(made)] == ["run_created", "visit_completed", "run_paused"]
    assert 'plugin "mine" failed in commit_events' in made.state.reason


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


class Announcing(Quiet):
    """Plugins that have an event of their own after every commit."""

    def __init__(self) -> None:
        self.emitted: list[tuple[str, dict[str, object]]] = []

    def commit_events(self, before: Context, after: Context) -> tuple[tuple[str, dict[str, Any]], ...]:  # type: ignore[override]
        return (("keys_changed", {"added": sorted(set(after) - set(before))}),)

    def emit(self, kind: str, *_: object, **data: object) -> None:
        self.emitted.append((kind, data))


def test_a_plugin_announces_what_a_commit_changed() -> None:
    """Its event comes after those of the stage, with the contexts before and after the commit."""
    plugins = Announcing()
    made = driver('stage "a" kind="tool" command="x"\ntransition from="a" to="end"', lambda _: SUCCESS, Clock())
    made.services = replace(made.services, plugins=plugins)
    asyncio.run(made.drive())
    kinds = [kind for kind, _ in plugins.emitted]
    assert kinds[:4] == ["stage_started", "checkpoint_saved", "stage_completed", "keys_changed"]
    assert "a.status" in str(plugins.emitted[3][1]["added"])
