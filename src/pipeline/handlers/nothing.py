"""Decisions and exits: there is nothing to run; routes and goal gates are looked at when they are done."""

from pipeline.engine.handler import Job
from pipeline.engine.outcome import Outcome, Status


class NothingToRun:
    """Succeeds at once."""

    async def run(self, job: Job) -> Outcome:
        del job
        return Outcome(status=Status.SUCCESS)
