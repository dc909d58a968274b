"""A machine that is fed by hand: no asyncio, no clock, no disk."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import pytest

from pipeline.engine.context import Operation
from pipeline.engine.machine import Ask, Command, FanOut, Pause, Stop, Visit, complete, decide, join_branches
from pipeline.engine.outcome import Outcome, Status, stage_operations
from pipeline.engine.records import AnyRecord, BranchResult, RunCreated, RunPaused
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import State, apply, begin, replay

Answer = Outcome | Status | str
Script = dict[str, list[Answer]]


@dataclass
class Machine:
    """Runs a workflow on paper: outcomes by stage and visit, the last one repeated."""

    state: State
    records: list[AnyRecord]
    script: Script = field(default_factory=dict)
    contribute: Callable[[str, Outcome], Iterable[Operation]] = lambda *_: ()
    functions: dict[str, ExpressionFunction] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    replayed: bool = True  # whether it is checked at every point that the records alone give the same state

    def run(self, steps: int = 500) -> "Machine":
        """Go on until the machine stops or pauses."""
        for _ in range(steps):
            command = decide(self.state)
            if isinstance(command, Stop):
                return self
            self.step(command)
            assert not self.replayed or replay(self.records) == self.state
        return self

    def step(self, command: Command) -> None:
        at = float(len(self.records))
        match command:
            case Pause(limit, stage, count, allowed, reason):
                self.feed(RunPaused(at=at, limit=limit, stage=stage, count=count, allowed=allowed, reason=reason))
            case FanOut(parallel, _, branches):
                results = [BranchResult(stage=b.stage, visit=b.visit, outcome=self.answer(b)) for b in branches]
                added = [op for r in results for op in self.added(r.stage, r.outcome)]
                outcome = join_branches(parallel, results, 1.0, self.state.workflow)
                self.path += [result.stage for result in results]
                self.done(outcome, [*added, *self.added(parallel.id, outcome)], branches=tuple(results))
            case Ask(stage, visit):
                option = self.given(stage, visit)
                assert isinstance(option, str)
                self.done(Outcome(status=Status.SUCCESS), [], option=option)
            case Visit(stage):
                outcome = self.answer(command)
                self.done(outcome, self.added(stage, outcome))

    def done(
        self,
        outcome: Outcome,
        operations: Iterable[Operation],
        option: str = "",
        branches: tuple[BranchResult, ...] = (),
    ) -> None:
        self.path.append(self.state.cursor.stage)
        at = float(len(self.records))
        record = complete(
            self.state, outcome, operations, at, option=option, branches=branches, functions=self.functions
        )
        self.feed(record)

    def feed(self, record: AnyRecord) -> None:
        self.records.append(record)
        self.state = apply(self.state, record)

    def added(self, stage: str, outcome: Outcome) -> list[Operation]:
        return [*stage_operations(self.state.workflow.stage(stage), outcome), *self.contribute(stage, outcome)]

    def answer(self, visit: Visit) -> Outcome:
        given = self.given(visit.stage, visit.visit)
        return given if isinstance(given, Outcome) else Outcome(status=Status(given))

    def given(self, stage: str, visit: int) -> Answer:
        answers = self.script.get(stage, [Status.SUCCESS])
        return answers[min(visit, len(answers)) - 1]


Make = Callable[..., Machine]


@pytest.fixture
def machine() -> Make:
    """A machine for the body of a workflow; its start is the first stage named."""

    def make(body: str, goal: str = "a goal", start: str = "a", **script: list[Answer]) -> Machine:
        source = f'workflow "W" {{\nversion 2\nstart "{start}"\n{body}\nstage "end" kind="exit"\n}}\n'
        record = RunCreated(at=0.0, run_id="r", file="w.awf.kdl", source=source, goal=goal, cwd="/", version="0")
        return Machine(begin(record), [record], script)

    return make
