"""Plugins conclude visits: once, together, before they are recorded, and with what was kept before each attempt."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.engine.drivers import PARALLEL, SUCCESS, TWO_TOOLS, driver, records, resumed, with_plugins

from pipeline.engine.context import Context, Set
from pipeline.engine.driver import Driver, StageExecutor
from pipeline.engine.machine import FanOut, decide
from pipeline.engine.outcome import Outcome, Status, Usage
from pipeline.engine.ports import Concluded, Conclusion, Job, LedgerLine, Waiting
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunWaiting,
    StageErrored,
    VisitCompleted,
)
from pipeline.engine.state import RunStatus, State, replay
from pipeline.plugins import hookimpl
from pipeline.redaction import redactor_of

FAIL, ERROR, WHY = Status.FAIL, Status.ERROR, "it was amended"
Conclude = Callable[[Sequence[Concluded]], Conclusion | None]


class Plugin:
    """Concludes visits as it is told, and keeps what it was asked."""

    def __init__(self, act: Conclude = lambda _: None) -> None:
        self.act = act
        self.asked: list[tuple[Concluded, ...]] = []
        self.contexts: list[Context] = []

    @hookimpl
    def conclude(self, visits: Sequence[Concluded], context: Context, state: State) -> Conclusion | None:
        assert context is state.context
        self.asked.append(tuple(visits))
        self.contexts.append(context)
        return self.act(visits)

    @property
    def names(self) -> list[list[str]]:
        """The stages that were concluded together, in order."""
        return [[one.stage.id for one in visits] for visits in self.asked]


def amend(*, once: bool = False, **statuses: Status) -> Conclude:
    """Conclude with another status for the visits of these stages, only the first time if `once`."""
    left = dict(statuses)

    def act(visits: Sequence[Concluded]) -> Conclusion:
        amended = {
            one.stage.id: one.outcome.model_copy(update={"status": left[one.stage.id], "reason": WHY})
            for one in visits
            if one.stage.id in left
        }
        if once:
            for stage in amended:
                del left[stage]
        return Conclusion(amended, [Set("concluded", True)], [LedgerLine("a line")] if amended else [])

    return act


def of_kind(made: Driver, *kinds: type[AnyRecord]) -> list[Any]:
    return [record for record in records(made) if isinstance(record, kinds)]


def ledger(made: Driver) -> list[str]:
    return [line for _, line in made.services.journal.ledger()]


def test_all_branches_are_concluded_together() -> None:
    """In the order of the file, after the last of them, with the context before any of them."""
    plugin = Plugin()
    outcome = Outcome(status=Status.SUCCESS, updates={"x": 1})
    made = with_plugins(driver(PARALLEL % "", lambda _: outcome), plugin)
    asyncio.run(made.drive())
    assert plugin.names == [["p", "q", "s"], ["d"], ["end"]]
    assert "x" not in plugin.contexts[0]
    assert "x" in plugin.contexts[1]


def test_a_branch_is_final_when_it_is_joined() -> None:
    """The branch is recorded as its handler left it; the stage, its operations and its join use the amended outcome."""
    made = with_plugins(driver(PARALLEL % "", lambda _: SUCCESS), Plugin(amend(q=FAIL)))
    asyncio.run(made.drive())
    raw = {record.branch: record.outcome.status for record in of_kind(made, BranchCompleted)}
    joined = next(record for record in of_kind(made, VisitCompleted) if record.stage == "a")
    assert raw == dict.fromkeys("pqs", Status.SUCCESS)
    assert [one.outcome.status for one in joined.branches] == [Status.SUCCESS, Status.FAIL, Status.SUCCESS]
    assert (joined.outcome.status, f"q: {WHY}" in joined.outcome.reason) == (Status.FAIL, True)
    assert made.state.outcomes["q"] is Status.FAIL
    assert made.state.context.get("q.status") == "fail"
    assert ledger(made) == ["a line"]


def test_the_operations_of_plugins_follow_those_of_all_branches() -> None:
    """The parallel stage's own come last, as they follow from the join."""
    made = with_plugins(driver(PARALLEL % "", lambda _: SUCCESS), Plugin(amend(q=FAIL)))
    asyncio.run(made.drive())
    joined = next(record for record in of_kind(made, VisitCompleted) if record.stage == "a")
    keys = [key for _, key, _ in joined.operations if key in ("p.status", "s.status", "concluded", "a.status")]
    assert keys == ["p.status", "s.status", "concluded", "a.status"]


def test_an_amended_outcome_decides_the_transition() -> None:
    """What follows a stage sees the outcome as it is recorded."""
    body = TWO_TOOLS.replace('from="a" to="b"', 'from="a" to="b" on="success"')
    body += 'stage "c" kind="tool" command="x"\ntransition from="a" to="c" on="fail"\ntransition from="c" to="end"'
    made = with_plugins(driver(body, lambda _: SUCCESS), Plugin(amend(a=FAIL)))
    asyncio.run(made.drive())
    assert list(made.state.outcomes) == ["a", "c", "end"]


def test_a_visit_that_is_amended_to_an_error_is_an_error() -> None:
    """Its lines are kept and its operations are not; the plugin is asked again when the stage has run again."""
    plugin = Plugin(amend(once=True, a=ERROR))
    made = with_plugins(driver(TWO_TOOLS, lambda _: SUCCESS), plugin)
    asyncio.run(made.drive())
    (errored,) = of_kind(made, StageErrored)
    assert (errored.stage, errored.outcome.reason, made.state.status) == ("a", WHY, RunStatus.PAUSED)
    assert (plugin.names, ledger(made), "concluded" in made.state.context) == ([["a"]], ["a line"], False)
    again = resumed(made)
    asyncio.run(again.drive())
    assert (again.state.status, plugin.names) == (RunStatus.SUCCESS, [["a"], ["a"], ["b"], ["end"]])


def test_an_amended_error_is_routed_like_any_other() -> None:
    """`on_error="route"`: the visit fails instead, and so the rest of the conclusion counts."""
    body = 'stage "a" kind="tool" command="x" on_error="route"\ntransition from="a" to="end" on="fail"'
    made = with_plugins(driver(body, lambda _: SUCCESS), Plugin(amend(a=ERROR)))
    asyncio.run(made.drive())
    assert (made.state.status, made.state.outcomes["a"]) == (RunStatus.SUCCESS, Status.FAIL)
    assert made.state.context.get("concluded") is True


def test_a_branch_that_is_an_error_after_all_runs_again_alone() -> None:
    """Nothing is joined before; then all branches are concluded, the others with their first answers."""
    ran: list[str] = []

    def act(job: Job) -> Outcome:
        ran.append(job.stage.id)
        usage = Usage(input_tokens=1)
        return Outcome(status=Status.SUCCESS, response=f"{job.stage.id}{len(ran)}", usage=usage)

    plugin = Plugin(amend(once=True, q=ERROR))
    made = with_plugins(driver(PARALLEL % " max_parallel=1", act), plugin)
    asyncio.run(made.drive())
    (errored,) = of_kind(made, StageErrored)
    assert (errored.stage, made.state.status, made.state.outcomes) == ("q", RunStatus.PAUSED, {})
    assert sorted(made.state.progress.branches) == ["p", "s"]
    assert replay(records(made)) == made.state
    again = resumed(made)
    asyncio.run(again.drive())
    assert (again.state.status, ran) == (RunStatus.SUCCESS, ["p", "q", "s", "q", "d", "end"])
    assert [one.outcome.response for one in plugin.asked[1]] == ["p1", "q4", "s3"]
    assert again.state.tokens == 6, "the answer that was thrown away was paid for once"


def test_an_error_of_a_branch_ends_the_run_if_it_says_so() -> None:
    """Its own `on_error` counts at the join as well."""
    text = PARALLEL.replace('"q" kind="tool"', '"q" kind="tool" on_error="fail"')
    made = with_plugins(driver(text % "", lambda _: SUCCESS), Plugin(amend(q=ERROR)))
    asyncio.run(made.drive())
    assert made.state.status is RunStatus.FAIL


def killed_before_the_join(plugin: Plugin) -> Driver:
    """A run whose process died after the last branch was recorded."""
    made = driver(PARALLEL % "", lambda job: Outcome(status=Status.SUCCESS, response=job.stage.id))
    asyncio.run(made.drive())
    kept = [record for record in records(made) if not isinstance(record, VisitCompleted)]
    assert isinstance(kept[-1], BranchCompleted)
    fresh = driver(PARALLEL % "", lambda _: SUCCESS)
    for record in kept[1:]:
        fresh.services.journal.append("r", record)
    return with_plugins(Driver(replay(kept), fresh.services), plugin)


@pytest.mark.parametrize("by_worker", [False, True], ids=["on this machine", "by a worker of a cluster"])
def test_a_process_that_dies_before_the_join_concludes_the_branches_once(*, by_worker: bool) -> None:
    """The next one concludes all recorded answers together, whichever driver asks for it."""
    plugin = Plugin(lambda visits: Conclusion(lines=[LedgerLine(one.outcome.response) for one in visits]))
    made = killed_before_the_join(plugin)
    assert plugin.asked == []
    again = resumed(made)
    if by_worker:
        command = decide(again.state)
        assert isinstance(command, FanOut)
        executor = StageExecutor(again.state, again.services)
        executor.join(command, 0.0)
    else:
        asyncio.run(again.drive())
    assert plugin.names[0] == ["p", "q", "s"]
    assert sum("p" in names for names in plugin.names) == 1
    assert ledger(made)[:3] == ["p", "q", "s"]


def test_a_visit_that_could_not_do_its_job_is_concluded_alone() -> None:
    """The ledger can say who did not answer; the context stays as it was."""

    def act(job: Job) -> Outcome:
        if job.stage.id == "q":
            raise RuntimeError("boom")
        return SUCCESS

    added = [Set("concluded", True)]
    plugin = Plugin(lambda visits: Conclusion(operations=added, lines=[LedgerLine(one.stage.id) for one in visits]))
    made = with_plugins(driver(PARALLEL % "", act), plugin)
    asyncio.run(made.drive())
    assert [(one.stage.id, one.outcome.status) for one in plugin.asked[0]] == [("q", Status.ERROR)]
    assert (ledger(made), "concluded" in made.state.context) == (["q"], False)


@pytest.mark.parametrize(("body", "errored"), [(TWO_TOOLS, "a"), (PARALLEL % "", "a")], ids=["a visit", "a join"])
def test_a_plugin_that_cannot_conclude_stops_the_run_there(body: str, errored: str) -> None:
    """Nothing of the conclusion counts, not even what other plugins made of it; a resume concludes again."""

    def fail_once(visits: Sequence[Concluded]) -> None:
        if len(broken.asked) == 1:
            raise ValueError(str(len(visits)))

    first, broken = Plugin(lambda _: Conclusion(lines=[LedgerLine("a line")])), Plugin(fail_once)
    ran: list[str] = []

    def act(job: Job) -> Outcome:
        ran.append(job.stage.id)
        return SUCCESS

    made = with_plugins(driver(body, act), first, broken)
    asyncio.run(made.drive())
    assert [record.stage for record in of_kind(made, StageErrored)] == [errored]
    assert (made.state.status, ledger(made)) == (RunStatus.PAUSED, [])
    again = resumed(made)
    asyncio.run(again.drive())
    assert again.state.status is RunStatus.SUCCESS
    assert broken.names[0] == broken.names[1]
    assert ran.count("p") <= 1, "finished branches do not run again"


def test_a_conclusion_without_a_transition_is_made_again() -> None:
    """A plugin whose expression function raises leaves nothing of it: each line gets into the ledger once."""
    asked: list[object] = []

    def count(*_: object) -> int:
        asked.append(None)
        if len(asked) == 1:
            raise ValueError("no")
        return 0

    body = (PARALLEL % "").replace('from="a" to="d"', 'from="a" to="d" when="findings() == 0"')
    plugin = Plugin(lambda visits: Conclusion(lines=[LedgerLine(one.stage.id) for one in visits]))
    functions = SimpleNamespace(expression_functions=hookimpl(lambda: {"findings": count}))
    made = with_plugins(driver(body, lambda _: SUCCESS), plugin, functions)
    found = dict(made.services.plugins.collect("expression_functions"))
    made = Driver(made.state, replace(made.services, functions=found))
    asyncio.run(made.drive())
    assert (made.state.status, ledger(made)) == (RunStatus.PAUSED, [])
    asyncio.run(resumed(made).drive())
    assert ledger(made) == ["p", "q", "s", "d", "end"]
    assert plugin.names[:2] == [["p", "q", "s"], ["p", "q", "s"]]


class Keeping:
    """Notes something before each attempt; `second` notes more, and replaces one thing."""

    def __init__(self, *, second: bool = False) -> None:
        self.second = second
        self.attempts = 0

    @hookimpl
    def before_stage(self) -> dict[str, Any]:
        self.attempts += 1
        return {"shared": "later", "more": [1]} if self.second else {"shared": "earlier", "attempt": self.attempts}


@pytest.mark.parametrize("branches", [False, True], ids=["a visit", "branches"])
def test_what_plugins_note_before_an_attempt_is_kept_with_its_outcome(*, branches: bool) -> None:
    """Of all plugins, with failed and crashed attempts too; `conclude` is given that of the last attempt."""
    ran: list[str] = []

    def act(job: Job) -> Outcome:
        ran.append(job.stage.id)
        if len(ran) == 1:
            return Outcome(status=Status.RETRY)
        if len(ran) == 2:
            raise RuntimeError("boom")
        return SUCCESS

    body = (PARALLEL % " max_parallel=1") if branches else TWO_TOOLS
    body = body.replace('kind="tool" command="x"', 'kind="tool" command="x" {\nretry max_attempts=2 delay="1s"\n}', 1)
    plugin = Plugin()
    made = with_plugins(driver(body, act), Keeping(), Keeping(second=True), plugin)
    made = Driver(made.state, replace(made.services, clock=Instant()))
    asyncio.run(made.drive())
    asyncio.run(resumed(made).drive())
    (failed,), (errored,) = of_kind(made, AttemptFailed), of_kind(made, StageErrored)
    assert failed.outcome.kept == {"shared": "later", "more": [1], "attempt": 1}
    assert errored.outcome.kept["attempt"] == 2
    (done,) = [visits for visits in plugin.asked if visits[0].outcome.status is not Status.ERROR][:1]
    assert done[0].outcome.kept["attempt"] > 2
    assert all(record.outcome.kept for record in of_kind(made, BranchCompleted))


class Instant:
    """A clock that stands still and waits for nothing."""

    def now(self) -> float:
        return 0.0

    async def sleep_until(self, moment: float) -> None:
        """No time passes."""


def test_what_was_noted_before_a_person_was_asked_is_kept_with_the_answer() -> None:
    """Each time the person is asked anew."""
    replies: list[Outcome | Waiting] = [Waiting(), Outcome(status=Status.SUCCESS, preferred_label="y"), SUCCESS]
    body = 'stage "a" kind="human" prompt="Go?" {\noption "y" label="Yes" to="end"\noption "n" label="No" to="a"\n}'
    made = with_plugins(driver(body, lambda _: replies.pop(0)), Keeping())
    asyncio.run(made.drive())
    assert of_kind(made, RunWaiting)
    asyncio.run(resumed(made).drive())
    answered = of_kind(made, VisitCompleted)[0]
    assert (answered.option, answered.outcome.kept) == ("y", {"shared": "earlier", "attempt": 2})


def test_no_secret_is_recorded_of_a_conclusion() -> None:
    """Neither in outcomes, operations and lines, nor in what is kept."""
    secret = "s3cr3t-s3cr3t-s3cr3t"  # noqa: S105 - of nobody
    outcome = Outcome(status=Status.SUCCESS, response=secret, answers=(secret, secret))
    amended = Outcome(status=Status.FAIL, reason=secret, kept={"k": secret})

    def tell(visits: Sequence[Concluded]) -> Conclusion | None:
        is_a = visits[0].stage.id == "a"
        return Conclusion({"a": amended}, [Set("k", secret)], [LedgerLine(secret)]) if is_a else None

    class Telling:
        @hookimpl
        def before_stage(self) -> dict[str, str]:
            return {"k": secret}

    made = with_plugins(driver('stage "a" kind="tool" command="x"\ntransition from="a" to="end"', lambda _: outcome))
    redactor = redactor_of({"MY_API_KEY": secret})
    plugin = Plugin(tell)
    made = with_plugins(Driver(made.state, replace(made.services, redactor=redactor)), plugin, Telling())
    asyncio.run(made.drive())
    assert secret not in plugin.asked[0][0].outcome.model_dump_json()
    assert secret not in "".join(record.model_dump_json() for record in records(made))
    assert secret not in "".join(ledger(made))
    assert ledger(made)
