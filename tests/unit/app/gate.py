"""A run that stands at a human stage, on paper."""

from pipeline.engine.records import RunCreated
from pipeline.engine.state import State, begin
from pipeline.handlers.human import HumanQuestion, build_question
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


def state() -> State:
    """Where the run stands."""
    return begin(CREATED)


def question() -> HumanQuestion:
    """What it asks."""
    here = state()
    assert isinstance(here.stage, HumanStage)
    return build_question(here, here.stage, 1)
