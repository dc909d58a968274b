"""A held run waits until a person has seen why, however its process ends before that."""

from collections.abc import Iterable

import pytest
from tests.unit.engine.conftest import Machine, Make

from pipeline.engine.context import Key, Operation, Set
from pipeline.engine.machine import Pause, decide
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import RunCancelled, RunResumed
from pipeline.engine.state import RunStatus

BODY = """
stage "a" kind="llm" prompt="x"
stage "b" kind="llm" prompt="x"
transition from="a" to="b"
transition from="b" to="end"
"""
WHY = "a person has to look"


def holding(stage: str, _: Outcome) -> Iterable[Operation]:
    """What a plugin adds that holds the run after its first stage."""
    return [Set(Key.HOLD, WHY)] if stage == "a" else []


@pytest.fixture
def held(machine: Make) -> Machine:
    """A run whose first stage asks for a person."""
    made = machine(BODY)
    made.contribute = holding
    return made


def test_a_held_run_pauses_before_its_next_stage(held: Machine) -> None:
    """001-12: nothing runs after what a person has to see."""
    held.run()
    assert (held.path, held.state.status, held.state.reason) == (["a"], RunStatus.PAUSED, WHY)


def test_resuming_a_held_run_continues_it(held: Machine) -> None:
    """A hold applies once: it is cleared when somebody who has seen it resumes the run."""
    held.run()
    held.feed(RunResumed(at=9.0))
    assert Key.HOLD not in held.state.context
    held.run()
    assert (held.path, held.state.status) == (["a", "b", "end"], RunStatus.SUCCESS)


def step_once(held: Machine) -> None:
    """Run the first stage and no further, as when the process dies before the pause is on record."""
    held.step(decide(held.state))
    assert isinstance(decide(held.state), Pause)


def test_a_run_killed_before_it_was_held_is_held_when_it_is_resumed(held: Machine) -> None:
    """001-12: nobody has seen the reason yet, so resuming is not consent."""
    step_once(held)
    held.feed(RunResumed(at=9.0))
    held.run()
    assert (held.path, held.state.status, held.state.reason) == (["a"], RunStatus.PAUSED, WHY)


def test_a_run_cancelled_before_it_was_held_is_held_when_it_is_resumed(held: Machine) -> None:
    """Whoever cancels a run has not seen it either."""
    step_once(held)
    held.feed(RunCancelled(at=8.0, stage="b", visit=1))
    held.feed(RunResumed(at=9.0))
    held.run()
    assert (held.path, held.state.status) == (["a"], RunStatus.PAUSED)


def test_a_hold_comes_before_a_limit(machine: Make) -> None:
    """Raising a limit is not consent to what a person has to see first."""
    made = machine(f"settings {{ max_stages 1; }}\n{BODY}")
    made.contribute = holding
    assert made.run().state.reason == WHY
    made.feed(RunResumed(at=9.0))
    made.run()
    assert made.state.status is RunStatus.PAUSED
    assert made.state.reason != WHY
