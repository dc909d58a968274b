"""The machine alone, fed with records: whole workflows without asyncio, clock or disk."""

import pytest
from tests.unit.engine.conftest import Machine, Make

from pipeline.engine.context import Append, Discard, Key, Operation, Set
from pipeline.engine.machine import Ask, FanOut, Pause, Stop, Visit, decide
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status, Usage
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    RunCancelled,
    RunPaused,
    RunResumed,
    RunWaiting,
    VisitCompleted,
    VisitStarted,
    WorkflowAdopted,
)
from pipeline.engine.state import RunStatus, apply
from pipeline.errors import AwfError

FAIL, SUCCESS = Status.FAIL, Status.SUCCESS
CHAIN = """
stage "a" kind="tool" command="x"
stage "b" kind="tool" command="x"
transition from="a" to="b"
transition from="b" to="end"
"""


def last(machine: object) -> VisitCompleted:
    record = machine.records[-1]  # type: ignore[attr-defined]  # the machine of conftest
    assert isinstance(record, VisitCompleted)
    return record


def test_a_chain_runs_to_its_exit(machine: Make) -> None:
    """Each stage once, in order, and success at the end."""
    run = machine(CHAIN).run()
    assert run.path == ["a", "b", "end"]
    assert (run.state.status, run.state.stages_run) == (RunStatus.SUCCESS, 3)
    assert run.state.context.get("graph.goal") == "a goal"
    assert run.state.context.get("last_stage") == "end"


def test_a_failed_stage_without_a_transition_fails_the_run(machine: Make) -> None:
    """A failed tool does not fall through its unconditional transition to just any stage."""
    run = machine(CHAIN, a=[Outcome(status=FAIL, reason="boom")]).run()
    assert (run.path, run.state.status) == (["a"], RunStatus.FAIL)
    assert (
        run.state.reason == 'a failed and its only transition needs success; add on="fail" or on="always". Cause: boom'
    )


def test_a_failed_stage_takes_a_condition_that_holds(machine: Make) -> None:
    """First of all a transition whose condition holds."""
    body = CHAIN + 'stage "c" kind="tool" command="x"\ntransition from="c" to="b"\n'
    body += 'transition from="a" to="c" when="outcome(\\"a\\") == \\"fail\\""\n'
    assert machine(body, a=[FAIL]).run().path == ["a", "c", "b", "end"]


def test_a_failed_stage_goes_to_a_decision(machine: Make) -> None:
    """Then an unconditional transition to a decision."""
    body = """
    stage "a" kind="tool" command="x"
    stage "d" kind="decision" {
      route when="outcome(\\"a\\") == \\"fail\\"" to="c"
      route when="true" to="end"
    }
    stage "c" kind="tool" command="x"
    transition from="a" to="d"
    transition from="c" to="end"
    """
    assert machine(body, a=[FAIL]).run().path == ["a", "d", "c", "end"]


def test_a_failed_stage_goes_to_its_retry_target(machine: Make) -> None:
    """Then its retry target."""
    body = CHAIN.replace('"a" kind="tool" command="x"', '"a" kind="tool" command="x" retry_target="a"')
    run = machine(body, a=[FAIL, SUCCESS]).run()
    assert run.path == ["a", "a", "b", "end"]


def test_a_review_that_found_something_is_no_failure(machine: Make) -> None:
    """004-31: it uses normal selection, so that all reviews run whatever an earlier one said."""
    body = """
    stage "a" kind="llm" prompt="x" auto_status=true
    stage "b" kind="llm" prompt="x" auto_status="true"
    transition from="a" to="b"
    transition from="b" to="end"
    """
    assert machine(body, a=[FAIL], b=[FAIL]).run().path == ["a", "b", "end"]


@pytest.mark.parametrize("kind", [FailureClass.PROTOCOL, FailureClass.AGENT])
def test_a_missing_review_is_never_taken_for_a_review(machine: Make, kind: FailureClass) -> None:
    """A review whose agent crashed or gave no status is routed like the failure of an ordinary stage."""
    body = 'stage "a" kind="llm" prompt="x" auto_status=true\ntransition from="a" to="end"\n'
    run = machine(body, a=[Outcome(status=FAIL, failure=Failure(kind=kind), reason="401")]).run()
    assert run.state.status is RunStatus.FAIL
    assert run.state.reason.endswith(f"Cause ({kind}): 401")


def test_a_false_condition_is_never_followed(machine: Make) -> None:
    """If nothing else matches, the run fails with the reason."""
    body = 'stage "a" kind="tool" command="x"\ntransition from="a" to="end" when="visits(\\"a\\") > 5"\n'
    run = machine(body).run()
    assert run.state.status is RunStatus.FAIL
    assert run.state.reason.endswith('no transition matches: visits("a") > 5 is false (visits("a") = 1)')


@pytest.mark.parametrize(
    ("first", "second", "target"),
    [
        ('to="b"', 'to="c" when="visits(\\"a\\") == 1"', "c"),
        ('to="b" when="true" priority=100', 'to="c" when="visits(\\"a\\") == 1"', "b"),
        ('to="b" when="visits(\\"a\\") == 1"', 'to="c" when="visits(\\"a\\") == 1"', "b"),
        ('to="b" when="visits(\\"a\\") == 1"', 'to="c" when="visits(\\"a\\") == 1" priority=1', "c"),
        ('to="b"', 'to="c"', "b"),
        ('to="b" priority=-1', 'to="c"', "c"),
        ('to="b" when="visits(\\"a\\") == 2" priority=9', 'to="c"', "c"),
    ],
)
def test_priority_then_condition_then_order(machine: Make, first: str, second: str, target: str) -> None:
    """`when="true" priority=100` beats any other match; a condition beats none; then the order of the file."""
    body = f"""
    stage "a" kind="tool" command="x"
    stage "b" kind="tool" command="x"
    stage "c" kind="tool" command="x"
    transition from="a" {first}
    transition from="a" {second}
    transition from="b" to="end"
    transition from="c" to="end"
    """
    assert machine(body).run().path == ["a", target, "end"]


@pytest.mark.parametrize(
    ("answer", "target"),
    [
        (Outcome(status=SUCCESS, preferred_next="c"), "c"),
        (Outcome(status=SUCCESS, preferred_label="c"), "c"),
        (Outcome(status=SUCCESS, preferred_next="nowhere"), "b"),
    ],
)
def test_an_answer_chooses_only_among_unconditional_transitions(machine: Make, answer: Outcome, target: str) -> None:
    """[NEXT: ...] and [PREFERRED_LABEL: ...] choose between transitions that are possible anyway."""
    body = """
    stage "a" kind="llm" prompt="x"
    stage "b" kind="tool" command="x"
    stage "c" kind="tool" command="x"
    transition from="a" to="b"
    transition from="a" to="c"
    transition from="b" to="end"
    transition from="c" to="end"
    """
    assert machine(body, a=[answer]).run().path == ["a", target, "end"]
    held = body.replace('from="a" to="b"', 'from="a" to="b" when="visits(\\"a\\") == 1"')
    assert machine(held, a=[answer]).run().path == ["a", "b", "end"]


GATED = """
stage "a" kind="tool" command="x" goal_gate=true retry_target="a"
stage "d" kind="decision" {
  route when="outcome(\\"a\\") == \\"fail\\"" to="end"
  route when="true" to="end"
}
transition from="a" to="d"
"""


def test_a_goal_gate_leads_back_until_it_passes(machine: Make) -> None:
    """At the exit an unsatisfied gate sends the run to its retry target; it is not forgotten."""
    run = machine(GATED, a=[FAIL, FAIL, SUCCESS]).run()
    assert run.path == ["a", "d", "end"] * 3
    assert run.state.status is RunStatus.SUCCESS


def test_a_goal_gate_without_a_retry_target_fails_the_run(machine: Make) -> None:
    """A failed goal gate never ends green."""
    run = machine(GATED.replace(' retry_target="a"', ""), a=[FAIL]).run()
    assert run.state.status is RunStatus.FAIL
    assert run.state.reason == 'the goal gate "a" is not satisfied (fail)'


def test_a_goal_gate_that_never_ran_is_not_satisfied(machine: Make) -> None:
    """Bypassing it does not help."""
    body = """
    stage "a" kind="decision" {
      route when="visits(\\"g\\") > 0" to="g"
      route when="true" to="end"
    }
    stage "g" kind="tool" command="x" goal_gate=true
    transition from="g" to="end"
    """
    assert machine(body).run().state.reason == 'the goal gate "g" is not satisfied (not_run)'


ASKING = """
stage "a" kind="tool" command="x"
stage "ask" kind="human" prompt="Good?" {
  option "revise" label="No" to="a"
  option "other" label="Elsewhere" to="b"
  option "ok" label="Yes" to="merge" approves=true
}
stage "b" kind="tool" command="x"
stage "merge" kind="tool" command="x"
transition from="a" to="ask"
transition from="b" to="merge"
transition from="merge" to="end"
"""


def test_after_a_refusal_the_approval_is_asked_for_again(machine: Make) -> None:
    """The target of the approving option cannot be reached around the gate: the run goes back to it."""
    run = machine(ASKING, ask=["other", "ok"]).run()
    assert run.path == ["a", "ask", "b", "ask", "merge", "end"]
    redirected = next(r for r in run.records if isinstance(r, VisitCompleted) and r.stage == "b")
    assert (redirected.chosen.role, redirected.chosen.target) == ("re_review", "ask")


def test_without_re_review_a_refusal_is_an_ordinary_choice(machine: Make) -> None:
    """`re_review=false` lets other transitions lead to the target."""
    run = machine(ASKING.replace('prompt="Good?"', 'prompt="Good?" re_review=false'), ask=["other"]).run()
    assert run.path == ["a", "ask", "b", "merge", "end"]


LOOP = """
stage "a" kind="llm" prompt="x" auto_status=true
stage "gate" kind="decision" {
  route when="findings() > 0" to="fix"
  route when="true" to="end"
}
stage "fix" kind="llm" prompt="x"
transition from="a" to="gate"
transition from="fix" to="a"
"""


def accumulate(stage: str, outcome: Outcome) -> list[Operation]:
    if stage != "a":
        return []
    if outcome.status is FAIL:
        return [Append("found", {"stageId": stage})]
    return [Discard("found", {"stageId": stage})]


def loop(machine: Make, settings: str = "", **script: list[Status]) -> Machine:
    """A loop whose gate asks a function of a plugin, which counts what the plugin has put into the context."""
    run = machine(settings + LOOP, **script)
    run.contribute = accumulate
    run.functions = {"findings": lambda context, _: len(context.list_at("found"))}
    return run


def test_a_loop_runs_until_a_plugin_has_nothing_left(machine: Make) -> None:
    """Conditions see what plugins add to a stage as soon as it is done."""
    run = loop(machine, a=[FAIL, FAIL, SUCCESS]).run()
    assert run.path == ["a", "gate", "fix"] * 2 + ["a", "gate", "end"]
    assert run.state.context.get("found") == []


def test_reaching_a_limit_pauses_and_raising_it_continues(machine: Make) -> None:
    """max_visits: the run pauses before the visit that would exceed it, with limit, stage and count."""
    run = loop(machine, "settings { max_visits 3; }", a=[FAIL]).run()
    assert run.path == ["a", "gate", "fix"] * 3
    assert (run.state.status, run.state.reason) == (RunStatus.PAUSED, "max_visits is reached: 3 of 3")
    run.feed(RunResumed(at=99.0, raised={"max_visits": 4}))
    run.run()
    assert run.path == ["a", "gate", "fix"] * 4
    assert run.state.status is RunStatus.PAUSED


@pytest.mark.parametrize(
    ("setting", "limit"),
    [("max_stages 2", "max_stages"), ('max_duration "5s"', "max_duration"), ("max_cost_usd 1", "max_cost_usd")],
)
def test_every_limit_pauses(machine: Make, setting: str, limit: str) -> None:
    """Stages, running time and money."""
    costly = Outcome(status=SUCCESS, duration=3.0, usage=Usage(cost_usd=0.6))
    run = machine(f"settings {{ {setting}; }}" + CHAIN, a=[costly], b=[costly]).run()
    assert (run.path, run.state.status) == (["a", "b"], RunStatus.PAUSED)
    assert run.state.reason.startswith(f"{limit} is reached")


def test_waiting_for_a_person_is_not_running_time(machine: Make) -> None:
    """max_duration counts the time stages ran, not the time a person needed."""
    run = machine('settings { max_duration "5s"; }' + ASKING, a=[Outcome(status=SUCCESS, duration=3.0)])
    run.step(decide(run.state))
    assert isinstance(decide(run.state), Ask)
    run.done(Outcome(status=SUCCESS, duration=86_400.0), [], option="ok")
    assert run.state.seconds == 3.0
    assert run.run().state.status is RunStatus.SUCCESS


def test_a_stage_leaves_the_well_known_keys(machine: Make) -> None:
    """Its status, its answer shortened and whole, and its usage; unknown usage has no key."""
    answered = Outcome(status=SUCCESS, response="x" * 100_000, usage=Usage(input_tokens=7, cost_usd=0.5))
    kept = machine(CHAIN.replace('kind="tool" command', 'kind="llm" prompt'), a=[answered]).run().state.context.values
    assert {key: kept[key] for key in kept if key.startswith("a.usage")} == {
        "a.usage.input_tokens": 7,
        "a.usage.cost_usd": 0.5,
    }
    assert (kept["outcome"], kept["last_stage"], kept["a.status"]) == ("success", "end", "success")
    assert kept["a._full_response"] == answered.response
    assert len(kept["a.response"]) < 100_000
    assert (kept["graph.name"], kept["graph.goal"]) == ("W", "a goal")


PARALLEL = """
stage "a" kind="parallel"%s {
  branch "p"
  branch "q"
  branch "r"
}
stage "p" kind="tool" command="x"
stage "q" kind="tool" command="x"
stage "r" kind="tool" command="x"
stage "d" kind="decision" {
  route when="outcome(\\"a\\") == \\"success\\"" to="end"
  route when="true" to="end"
}
transition from="a" to="d"
"""


@pytest.mark.parametrize(
    ("join", "failing", "status"),
    [
        ("", [], SUCCESS),
        ("", ["q"], FAIL),
        (' join="all"', ["q"], FAIL),
        (' join="any"', ["p", "q"], SUCCESS),
        (' join="any"', ["p", "q", "r"], FAIL),
        (" join=2", ["q"], SUCCESS),
        (" join=2", ["p", "q"], FAIL),
    ],
)
def test_a_parallel_stage_joins_its_branches(machine: Make, join: str, failing: list[str], status: Status) -> None:
    """All, any, or a number of branches must succeed."""
    run = machine(PARALLEL % join, **{name: [FAIL] for name in failing}).run()
    assert run.path == ["p", "q", "r", "a", "d", "end"]
    assert run.state.outcomes["a"] is status
    assert run.state.visits == {"p": 1, "q": 1, "r": 1, "a": 1, "d": 1, "end": 1}


def test_only_unfinished_branches_run_again(machine: Make) -> None:
    """After a crash a parallel stage runs the branches that are not on record."""
    run = machine(PARALLEL % "")
    run.feed(BranchCompleted(at=2, stage="a", visit=1, branch="q", branch_visit=1, outcome=Outcome(status=SUCCESS)))
    run.feed(RunResumed(at=3))
    command = decide(run.state)
    assert isinstance(command, FanOut)
    assert [(branch.stage, branch.attempt) for branch in command.branches] == [("p", 2), ("r", 2)]


def test_the_next_attempt_is_due_after_the_delay(machine: Make) -> None:
    """The delay is recorded, so a resumed run waits until the same moment for the same attempt."""
    run = machine(CHAIN)
    run.feed(AttemptFailed(at=5, stage="a", visit=1, attempt=1, outcome=Outcome(status=FAIL), delay=2.5))
    assert decide(run.state) == Visit("a", 1, 2, not_before=7.5)
    run.feed(RunResumed(at=6))
    assert decide(run.state) == Visit("a", 1, 2, not_before=7.5)
    run.feed(RunResumed(at=8))  # it may have begun
    assert decide(run.state) == Visit("a", 1, 3)


def test_each_branch_has_its_own_delay(machine: Make) -> None:
    """A resumed parallel stage delays only the branch whose next attempt is due later."""
    run = machine(PARALLEL % "")
    run.feed(AttemptFailed(at=5, stage="q", visit=1, attempt=1, outcome=Outcome(status=FAIL), delay=2.5))
    run.feed(RunResumed(at=6))
    command = decide(run.state)
    assert isinstance(command, FanOut)
    assert command.branches == (Visit("p", 1, 2), Visit("q", 1, 2, not_before=7.5), Visit("r", 1, 2))


def test_an_interrupted_stage_runs_again_with_its_first_attempt_on_record(machine: Make) -> None:
    """The second attempt has its own number."""
    run = machine(CHAIN)
    run.feed(RunResumed(at=2))
    assert decide(run.state) == Visit("a", 1, 2)
    run.run()
    assert [r.attempt for r in run.records if isinstance(r, VisitCompleted)] == [2, 1, 1]


def test_resuming_forgets_nothing(machine: Make) -> None:
    """Goal gates, pending approvals, visits, time and money are kept; only the progress of the stage is not."""
    body = """
    stage "a" kind="tool" command="x" goal_gate=true retry_target="ask"
    stage "ask" kind="human" prompt="Good?" { option "yes" label="Yes" to="end"; option "no" label="No" to="b" }
    stage "b" kind="tool" command="x"
    transition from="b" to="end"
    """
    used = Outcome(status=FAIL, duration=2.0, usage=Usage(cost_usd=0.5, input_tokens=7))
    run = machine(body, a=[used], ask=["no"]).run(steps=2)
    before = run.state
    assert (before.outcomes["a"], before.pending_gates, before.seconds, before.cost_usd) == (
        FAIL,
        frozenset({"ask"}),
        2.0,
        0.5,
    )
    run.feed(RunResumed(at=9))
    assert run.state._replace(progress=before.progress) == before


def test_an_interrupted_stage_with_external_effects_is_never_repeated_silently(machine: Make) -> None:
    """It pauses; only a person can have it repeated."""
    run = machine(CHAIN.replace('"a" kind="tool" command="x"', '"a" kind="tool" command="x" effects="external"'))
    run.feed(VisitStarted(at=1, stage="a", visit=1, attempt=1))
    run.feed(RunResumed(at=2))
    command = decide(run.state)
    assert isinstance(command, Pause)
    assert command.limit == "effects"
    run.feed(RunPaused(at=3, limit="effects", stage="a", count=1, allowed=0, reason="look"))
    run.feed(RunResumed(at=4, repeat=True))
    assert decide(run.state) == Visit("a", 1, 2)


@pytest.mark.parametrize("after", [[], [RunCancelled(at=2, stage="a", visit=1)]])
def test_an_interrupted_branch_with_external_effects_is_never_repeated_silently(
    machine: Make, after: list[AnyRecord]
) -> None:
    """Neither if its process died nor if it was cancelled."""
    run = machine(
        (PARALLEL % "").replace('"q" kind="tool" command="x"', '"q" kind="tool" command="x" effects="external"')
    )
    for record in (VisitStarted(at=1, stage="q", visit=1, attempt=1), *after, RunResumed(at=3)):
        run.feed(record)
    command = decide(run.state)
    assert isinstance(command, Pause)
    assert (command.limit, command.stage) == ("effects", "q")


def test_an_interruption_does_not_reset_the_retries(machine: Make) -> None:
    """Attempts that failed before a crash count against the stage's retries after it."""
    run = machine(CHAIN)
    run.feed(AttemptFailed(at=1, stage="a", visit=1, attempt=1, outcome=Outcome(status=FAIL), delay=0))
    run.feed(RunResumed(at=2))
    assert (run.state.progress.failed, run.state.progress.interrupted) == ({"a": 1}, {"a": 1})


def test_what_a_failed_attempt_cost_is_counted(machine: Make) -> None:
    """The time and money of failed attempts are spent all the same."""
    run = machine(CHAIN)
    used = Outcome(status=FAIL, duration=2.0, usage=Usage(cost_usd=0.5, input_tokens=7))
    run.feed(AttemptFailed(at=1, stage="a", visit=1, attempt=1, outcome=used, delay=0))
    assert (run.state.seconds, run.state.cost_usd, run.state.tokens) == (2.0, 0.5, 7)


def test_a_finished_branch_moves_the_checkpoint_of_the_workspace(machine: Make) -> None:
    """After a crash the workspace is restored with the work of the recorded branches."""
    run = machine(PARALLEL % "")
    known = {Key.WORKSPACE_PATH: "/w", Key.WORKSPACE_BRANCH: "b", Key.WORKSPACE_BASE: "0", Key.WORKSPACE_COMMIT: "1"}
    run.state = run.state._replace(context=run.state.context.apply(Set(key, value) for key, value in known.items()))
    done = {"stage": "a", "visit": 1, "branch": "q", "branch_visit": 1, "outcome": Outcome(status=SUCCESS)}
    run.feed(BranchCompleted(at=2, **done, commit="2"))
    run.feed(RunResumed(at=3))
    assert run.state.workspace is not None
    assert run.state.workspace.commit == "2"


def test_an_external_stage_that_had_not_started_just_runs(machine: Make) -> None:
    """Nothing was interrupted, so nothing is asked."""
    run = machine(CHAIN.replace('"a" kind="tool" command="x"', '"a" kind="tool" command="x" effects="external"'))
    run.feed(RunResumed(at=2))
    assert isinstance(decide(run.state), Visit)


def test_a_waiting_run_stops_and_asks_again_when_resumed(machine: Make) -> None:
    """Unanswered never means approved."""
    run = machine(ASKING, start="ask")
    assert decide(run.state) == Ask("ask", 1)
    run.feed(RunWaiting(at=1, stage="ask", visit=1))
    assert isinstance(decide(run.state), Stop)
    run.feed(RunResumed(at=2))
    assert decide(run.state) == Ask("ask", 1)


def test_a_cancelled_run_stops_and_can_be_resumed(machine: Make) -> None:
    """The interrupted stage runs again."""
    run = machine(CHAIN)
    run.feed(RunCancelled(at=2, stage="a", visit=1))
    assert decide(run.state) == Stop(RunStatus.CANCELLED, "interrupted")
    run.feed(RunResumed(at=3))
    assert decide(run.state) == Visit("a", 1, 2)


def test_a_run_that_succeeded_is_not_resumed(machine: Make) -> None:
    """Its journal would be damaged."""
    run = machine(CHAIN).run()
    with pytest.raises(AwfError, match="succeeded"):
        apply(run.state, RunResumed(at=9))


def test_a_changed_workflow_is_adopted_at_the_cursor(machine: Make) -> None:
    """The cursor stays; a workflow without its stage is refused."""
    run = machine(CHAIN)
    source = machine(CHAIN.replace('"b"', '"c"')).records[0].source  # type: ignore[union-attr]  # the creation
    run.feed(WorkflowAdopted(at=1, file="w", source=source))
    assert run.run().path == ["a", "c", "end"]
    gone = machine(CHAIN, start="a")
    other = machine(CHAIN.replace('"a"', '"z"'), start="z").records[0].source  # type: ignore[union-attr]  # the creation
    with pytest.raises(AwfError, match='has no stage "a"'):
        gone.feed(WorkflowAdopted(at=1, file="w", source=other))


def test_a_condition_without_a_value_fails_the_run_with_its_reason(machine: Make) -> None:
    """A context value of an unexpected type is reported, not guessed at."""
    body = CHAIN.replace('from="a" to="b"', 'from="a" to="b" when="output(\\"a.size\\") > 3"')
    run = machine(body, a=[Outcome(status=SUCCESS, updates={"a.size": "big"})]).run()
    assert run.state.status is RunStatus.FAIL
    assert "cannot compare text with a number" in run.state.reason


def test_the_reason_of_every_transition_is_on_record(machine: Make) -> None:
    """`awf why` has something to print."""
    run = loop(machine, a=[SUCCESS]).run()
    reasons = [record.chosen.reason for record in run.records if isinstance(record, VisitCompleted)]
    assert reasons == [
        "only transition",
        "otherwise (findings() = 0)",
        "reached exit",
    ]
