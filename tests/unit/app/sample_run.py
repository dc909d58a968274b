"""Records of a small run, for tests of what reads them."""

from typing import Any

from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome, Status, Usage
from pipeline.engine.records import BranchCompleted, BranchResult, RunCreated, VisitCompleted
from pipeline.engine.routing import Selection

SHIP = """
workflow "Ship" {
  version 2
  goal "Ship it"
  start "build"
  settings { max_visits 2; max_cost_usd 1; }
  stage "build" kind="llm" prompt="Build"
  stage "deploy" kind="tool" command="deploy" effects="external"
  stage "ask" kind="human" prompt="Well?" {
    option "yes" label="Yes" to="exit"
    option "no" label="No" to="build"
  }
  stage "exit" kind="exit"
  transition from="build" to="deploy"
  transition from="deploy" to="ask"
}
"""
BOTH = """
workflow "Both" {
  version 2
  start "both"
  stage "both" kind="parallel" { branch "a"; branch "b"; }
  stage "a" kind="tool" command="a"
  stage "b" kind="tool" command="b"
  stage "exit" kind="exit"
  transition from="both" to="exit"
}
"""
CREATED = RunCreated(at=0, run_id="r1", file="ship.awf.kdl", source=SHIP, cwd="/", version="1")
PARALLEL = RunCreated(at=0, run_id="r2", file="both.awf.kdl", source=BOTH, cwd="/", version="1")
ERROR = Outcome(status=Status.ERROR, reason="no key", failure=Failure(kind=FailureClass.AGENT, error=ErrorKind.AUTH))


def done(stage: str, visit: int, to: str | None, **more: Any) -> VisitCompleted:
    """A visit that passed; those of `build` used tokens and money."""
    usage = Usage(input_tokens=10, output_tokens=5, cost_usd=0.6)
    given: dict[str, Any] = {
        "outcome": Outcome(status=Status.SUCCESS, duration=2.0, usage=usage if stage == "build" else None),
        "attempt": 1,
        "operations": (),
        "chosen": Selection(target=to, reason="because"),
    }
    return VisitCompleted(at=3, stage=stage, visit=visit, **{**given, **more})


def branch_done(branch: str, at: float, outcome: Outcome) -> BranchCompleted:
    """The first visit of a branch of `both`."""
    return BranchCompleted(at=at, stage="both", visit=1, branch=branch, branch_visit=1, outcome=outcome)


def both_done(outcome: Outcome, to: str | None, **more: Any) -> VisitCompleted:
    """The first visit of `both`, whose branches ended alike."""
    results = tuple(BranchResult(stage=name, visit=1, outcome=outcome) for name in ("a", "b"))
    return done("both", 1, to, branches=results, **more)
