"""A job for a handler's test: one stage of a run that has just begun."""

from pathlib import Path

from pipeline.engine.ports import Job
from pipeline.engine.records import RunCreated
from pipeline.engine.state import begin
from pipeline.language.model import BaseStage

SOURCE = """workflow "W" {
version 2
start "a"
stage "a" kind="tool" command="x"
stage "end" kind="exit"
transition from="a" to="end"
}
"""


def job_of(stage: BaseStage, folder: Path, goal: str = "a goal") -> Job:
    """The first attempt at the first visit of a stage."""
    created = RunCreated(at=0.0, run_id="r", file="w.awf.kdl", source=SOURCE, goal=goal, cwd=str(folder), version="0")
    store = folder / ".awf"
    return Job(stage, 1, 1, begin(created), store, emit=lambda _: None, attach_prompt=lambda _: None)
