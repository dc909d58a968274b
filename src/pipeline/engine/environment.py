"""What conditions may ask, answered from a run's state."""

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.engine.context import Context, Key
from pipeline.engine.outcome import Status


class RunEnvironment(NamedTuple):
    """The environment of conditions after a stage is done."""

    values: Context
    outcomes: Mapping[str, Status]
    completed: Mapping[str, int]

    def outcome(self, stage: str) -> str:
        return self.outcomes.get(stage, "not_run")

    def output(self, key: str) -> object:
        return self.values.get(key)

    def exists(self, key: str) -> bool:
        return key in self.values

    def context(self, key: str) -> object:
        return self.values.get(key)

    def visits(self, stage: str) -> int:
        return self.completed.get(stage, 0)

    def findings(self, stage: str | None) -> int:
        reports = self.values.list_at(Key.FINDINGS)
        if stage is None:
            return len(reports)
        return sum(1 for report in reports if isinstance(report, dict) and report.get("stageId") == stage)

    def verdict(self) -> str:
        verdict = self.values.get(Key.VERDICT)
        return verdict if isinstance(verdict, str) else "none"
