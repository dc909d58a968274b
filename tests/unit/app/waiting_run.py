"""A run that waits at a human stage."""

from pipeline.engine.records import RunCreated
from pipeline.engine.state import begin
from pipeline.handlers.human import build_question
from pipeline.handlers.questions import Question
from pipeline.language.model import HumanStage

SOURCE = """
workflow "W" {
  version 2
  start "ask"
  stage "ask" kind="human" prompt="Is ${goal} good?" require_feedback_on="no" details_from="graph.name" {
    option "yes" label="Good" to="work" approves=true
    option "no" label="Not yet" to="ask"
  }
  stage "work" kind="tool" command="true"
  stage "other" kind="human" prompt="Sure?" {
    option "yes" label="Sure" to="end"
    option "no" label="Not so sure" to="ask"
  }
  stage "end" kind="exit"
  transition from="work" to="other"
}
"""
CREATED = RunCreated(at=1.0, run_id="r", file="w.awf.kdl", source=SOURCE, goal="it", cwd="/", version="0")


def first_question() -> Question:
    """What the run asks at its first visit."""
    state = begin(CREATED)
    assert isinstance(state.stage, HumanStage)
    return build_question(state, state.stage, 1)
