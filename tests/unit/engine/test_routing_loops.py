"""Loops that end: by rounds used up, or by a signal of a plugin."""

from tests.unit.engine.conftest import Machine, Make

from pipeline.engine.outcome import Status
from pipeline.engine.records import VisitCompleted
from pipeline.engine.routing import ExpressionFunction

BODY = """
stage "a" kind="llm" auto_status=true prompt="Review"
stage "gate" kind="decision" {
  route when="outcome(\\"a\\") == \\"success\\"" to="end"
  route when="true" to="fix"
}
stage "fix" kind="llm" prompt="Fix"
stage "person" kind="human" prompt="What now?" {
  option "more" label="Once more" to="fix"
  option "stop" label="Stop" to="end"
}
transition from="a" to="gate"
transition from="fix" to="a"
loop "fixing" {
  stages "a" "gate" "fix"
  max_rounds 3
  on "stalled" to="person"
  on "exhausted" to="person"
}
"""


def reasons(made: Machine) -> list[str]:
    """Why a loop was left, each time."""
    done = (record for record in made.records if isinstance(record, VisitCompleted))
    return [record.chosen.reason for record in done if record.chosen.role == "loop"]


STALLED: dict[str, ExpressionFunction] = {"stalled": lambda _, __: "finding #3 was not fixed twice"}


def test_a_loop_that_succeeds_ends_by_its_own_transition(machine: Make) -> None:
    """Neither signal is needed."""
    made = machine(BODY, a=[Status.FAIL, Status.SUCCESS]).run()
    assert made.path == ["a", "gate", "fix", "a", "gate", "end"]


def test_rounds_are_used_up(machine: Make) -> None:
    """After max_rounds no further round starts: a person is asked."""
    made = machine(BODY, a=[Status.FAIL], person=["stop"]).run()
    assert made.path == [*["a", "gate", "fix"] * 3, "person", "end"]
    assert reasons(made) == ['loop "fixing" is exhausted: 3 of 3 rounds']


def test_a_person_may_have_one_more_round(machine: Make) -> None:
    """A transition back into the loop is followed, and what it leads to is reviewed once more."""
    made = machine(BODY, a=[Status.FAIL], person=["more", "stop"]).run()
    assert made.path == [*["a", "gate", "fix"] * 3, "person", "fix", *["a", "gate", "fix"], "person", "end"]


def test_a_stalled_loop_stops_fixing(machine: Make) -> None:
    """Instead of the fix stage a person is asked, with the reason."""
    made = machine(BODY, a=[Status.FAIL], person=["stop"])
    made.functions = STALLED
    assert made.run().path == ["a", "gate", "person", "end"]
    assert reasons(made) == ['loop "fixing" is stalled: finding #3 was not fixed twice']


def test_a_signal_without_a_reason_is_no_signal(machine: Make) -> None:
    """A plugin that has nothing to say leaves the loop alone, as does one that is not loaded."""
    made = machine(BODY, a=[Status.FAIL], person=["stop"])
    made.functions = {"stalled": lambda _, __: ""}
    assert made.run().path == machine(BODY, a=[Status.FAIL], person=["stop"]).run().path


def test_without_an_exit_for_it_a_stalled_loop_continues(machine: Make) -> None:
    """Only its rounds limit it then."""
    made = machine(BODY.replace('  on "stalled" to="person"\n', ""), a=[Status.FAIL], person=["stop"])
    made.functions = STALLED
    assert made.run().path == [*["a", "gate", "fix"] * 3, "person", "end"]
