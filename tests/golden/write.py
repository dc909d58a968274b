"""Writes a journal of the present format with every kind of record, and what it comes to, beside this file.

Run it once for each new `VERSION`; a journal that a release could have written is never written again.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.engine.context import Append, Discard, Operation
from pipeline.engine.machine import complete
from pipeline.engine.outcome import (
    ErrorKind,
    Failure,
    FailureClass,
    Outcome,
    Status,
    StatusSource,
    Usage,
    stage_operations,
)
from pipeline.engine.records import (
    AnyRecord,
    AttemptFailed,
    BranchCompleted,
    BranchResult,
    RunCancelled,
    RunCreated,
    RunFailed,
    RunPaused,
    RunResumed,
    RunWaiting,
    StageErrored,
    VisitCompleted,
    VisitStarted,
    WorkflowAdopted,
)
from pipeline.engine.state import State, apply, begin
from pipeline.journal.codec import VERSION, encode

HERE = Path(__file__).parent
FILE = "golden.awf.kdl"
WORKFLOW = """\
workflow "Golden" {
  version 2
  start "build"
  settings { max_visits 2 }
  stage "build" kind="tool" command="make" max_retries=1 effects="external"
  stage "reviews" kind="parallel" {
    branch "style"
    branch "tests"
  }
  stage "style" kind="llm" auto_status=true prompt="Look at the style."
  stage "tests" kind="llm" auto_status=true prompt="Look at the tests."
  stage "fix" kind="llm" prompt="Fix it."
  stage "approve" kind="human" prompt="Good?" {
    option "yes" label="Yes" to="exit"
    option "no" label="No" to="fix"
  }
  stage "exit" kind="exit"
  transition from="build" to="reviews"
  transition from="reviews" to="approve" when="outcome(\\"reviews\\") == \\"success\\""
  transition from="reviews" to="fix" when="outcome(\\"reviews\\") != \\"success\\""
  transition from="fix" to="build"
}
"""
ANSWER = "Line 12 of src/a.py catches everything – é, 日本, \U0001f600 – and says nothing. " * 4
RESULT = Outcome(
    status=Status.SUCCESS, source=StatusSource.EXIT_CODE, response="ok", duration=1.5, logs={"stdout": "out.txt"}
)
GOOD = Outcome(status=Status.SUCCESS, source=StatusSource.MARKER, response=ANSWER, duration=2.25, backend="scripted")
BAD = Outcome(
    status=Status.FAIL,
    source=StatusSource.MARKER,
    reason="no tests",
    response=ANSWER + "No.",
    usage=Usage(input_tokens=1200, output_tokens=80, cost_usd=0.015),
    duration=4.0,
    backend="scripted",
    notes=("it contradicts itself",),
)
BROKEN = Outcome(
    status=Status.RETRY,
    source=StatusSource.EXIT_CODE,
    failure=Failure(kind=FailureClass.EXIT_NONZERO, digest="1 failed", exit_code=2, stderr_tail="boom\n"),
    updates={"build.size": 12, "build.ok": None, "half": "\ud83d"},
)
REFUSED = Outcome(
    status=Status.ERROR,
    reason="claude has used up its quota: resets 3pm",
    failure=Failure(
        kind=FailureClass.AGENT, digest="claude has used up its quota", error=ErrorKind.QUOTA, retry_after=60.0
    ),
    usage=Usage(input_tokens=10),
    duration=1.0,
    backend="claude",
)
CHOSEN = Outcome(status=Status.SUCCESS, source=StatusSource.HUMAN)


@dataclass
class Story:
    """A run as it is told, one record after the other."""

    state: State
    records: list[AnyRecord] = field(default_factory=list)

    def add(self, kind: type[Any], **fields: Any) -> None:
        record = kind(at=1_000.0 + len(self.records), **fields)
        self.state = apply(self.state, record)
        self.records.append(record)

    def visit(
        self, outcome: Outcome, *more: Operation, option: str = "", branches: tuple[BranchResult, ...] = ()
    ) -> None:
        operations = (*stage_operations(self.state.stage, outcome), *more)
        announced = self.state.cursor.stage == "build"
        at = 1_000.0 + len(self.records) + announced
        record = complete(self.state, outcome, operations, at, option=option, branches=branches)
        if announced:
            self.add(VisitStarted, stage="build", visit=record.visit, attempt=record.attempt)
        self.state = apply(self.state, record)
        self.records.append(record)


def told() -> Story:
    created = RunCreated(
        at=1_000.0,
        run_id="golden",
        file=FILE,
        source=WORKFLOW,
        prompts={"prompts/fix.md": "Fix it.\n"},
        goal="Catch less",
        cwd="/project",
        version="0.1.0",
    )
    story = Story(begin(created), [created])
    add_build(story)
    add_reviews(story)
    story.visit(GOOD, Discard("review.findings", {"stageId": "style"}))
    story.visit(RESULT)
    story.visit(GOOD)
    add_approval(story)
    return story


def add_build(story: Story) -> None:
    story.add(VisitStarted, stage="build", visit=1, attempt=1)
    story.add(AttemptFailed, stage="build", visit=1, attempt=1, outcome=BROKEN, delay=0.5)
    story.add(RunCancelled, stage="build", visit=1, reason="stopped by SIGINT")
    story.add(RunResumed, repeat=True)
    story.visit(RESULT.model_copy(update={"updates": BROKEN.updates}))


def add_reviews(story: Story) -> None:
    branches = (BranchResult(stage="style", visit=1, outcome=GOOD), BranchResult(stage="tests", visit=1, outcome=BAD))
    report = Append(
        "review.findings", {"stageId": "tests", "iteration": 1, "response": BAD.response, "odd": {"$text": 0}}
    )
    for branch in branches:
        add_error(story, branch.stage)
        story.add(
            BranchCompleted,
            stage="reviews",
            visit=1,
            branch=branch.stage,
            branch_visit=1,
            outcome=branch.outcome,
        )
    story.visit(BAD, report, branches=branches)


def add_error(story: Story, stage: str) -> None:
    ends_run = stage == "style"
    story.add(
        StageErrored,
        stage=stage,
        visit=1,
        attempt=1,
        outcome=REFUSED,
        until=None if ends_run else 2_000.0,
        ends_run=ends_run,
    )
    if ends_run:
        story.add(RunFailed, stage=stage, reason=REFUSED.reason)
    else:
        story.add(RunPaused, limit="error", stage=stage, count=1, allowed=0, reason=REFUSED.reason, until=2_000.0)
    story.add(RunResumed)


def add_approval(story: Story) -> None:
    story.add(RunWaiting, stage="approve", visit=1)
    story.add(RunResumed)
    story.add(RunPaused, limit="max_visits", stage="build", count=2, allowed=2, reason="2 visits are allowed")
    story.add(WorkflowAdopted, file=FILE, source=WORKFLOW.replace("Good?", "Is it good?"))
    story.add(RunResumed, raised={"max_visits": 12.0}, repeat=True, torn="refs/awf/torn/golden/1")
    story.visit(CHOSEN, option="yes")
    story.visit(Outcome(status=Status.SUCCESS))


def main() -> None:
    story = told()
    bodies = [encode(record) for record in story.records]
    HERE.joinpath(f"v{VERSION}.jsonl").write_bytes(b"".join(body + b"\n" for body in bodies))
    state = story.state
    expected = {
        "status": state.status,
        "path": [record.stage for record in story.records if isinstance(record, VisitCompleted)],
        "visits": state.visits,
        "tokens": state.tokens,
        "seconds": state.seconds,
        "max_visits": state.settings.max_visits,
        "context": state.context.values,
    }
    HERE.joinpath(f"v{VERSION}.expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
