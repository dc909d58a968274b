"""Decisions: there is nothing to run; their routes are chosen when they are done."""

from pipeline.engine.handler import Job
from pipeline.engine.outcome import Outcome, Status


class DecisionHandler:
    """Succeeds at once."""

    async def run(self, job: Job) -> Outcome:
        del job
        return Outcome(status=Status.SUCCESS)
