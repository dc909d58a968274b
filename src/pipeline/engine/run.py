"""The local driver: carries out what the machine decides, step by step, in one process. The one effectful loop."""

import asyncio

from pipeline.engine.events import EventKind
from pipeline.engine.machine import Ask, Fail, FanOut, Pause, Stop, Visit, decide
from pipeline.engine.outcome import Outcome
from pipeline.engine.records import RunResumed
from pipeline.engine.state import State
from pipeline.engine.steps import Services, Steps
from pipeline.language.model import ParallelStage


class Driver(Steps):
    """Drives one run from where it stands until it stops."""

    def __init__(self, state: State, services: Services) -> None:
        super().__init__(state, services)
        self.cancelled_because = ""  # set by whoever cancels the task, where there is more to say than that

    async def drive(self) -> None:
        """Carry out commands until the run stops; a cancelled task leaves a cancelled run.

        A run that is paused until a quota resets is waited for, and resumed, by a process that stays.

        Where it stopped is in `state`, and is not returned: asyncio would print all of it for itself to throw away.
        """
        try:
            while True:
                while not isinstance(command := decide(self.state), Stop):
                    await self._carry_out(command)
                if self.state.until is None or not self.services.waits:
                    return
                await self._wait(self.state.until)
        except asyncio.CancelledError:
            self.cancel(self.cancelled_because)

    async def _wait(self, until: float) -> None:
        """Continue by itself at the time when a quota resets."""
        cursor = self.state.cursor
        self._tell(EventKind.RUN_PAUSED, *cursor, status=self.state.status, reason=self.state.reason, until=until)
        await self.services.clock.sleep_until(until)
        torn = await self.restore_workspace()
        self._record(RunResumed(at=self._now(), torn=torn))
        self._tell(EventKind.RUN_RESUMED, *cursor, goal=self.state.goal, workflow=self.state.workflow.name)

    async def _carry_out(self, command: Visit | Ask | FanOut | Pause | Fail) -> None:
        match command:
            case Visit():
                await self.conclude(command, await self._attempts(command))
            case Ask():
                await self.ask(command)
            case FanOut():
                await self._fan_out(command)
            case Pause():
                self.pause(command)
            case Fail():
                self.fail(command)

    async def _attempts(self, visit: Visit, before: State | None = None) -> Outcome:
        """Run a stage until an attempt is final."""
        while True:
            if visit.not_before is not None:
                await self.services.clock.sleep_until(visit.not_before)
            outcome = await self.attempt(visit, before)
            if isinstance(outcome, Outcome):
                return outcome
            visit = outcome

    async def _fan_out(self, command: FanOut) -> None:
        began = self._now()
        stage = command.parallel
        self._tell(EventKind.STAGE_STARTED, stage.id, command.visit, branches=[b.stage for b in command.branches])
        await self._branches(stage, command)
        rest = decide(self.state)
        if isinstance(rest, FanOut) and not rest.branches:
            self.join(command, began)

    async def _branches(self, stage: ParallelStage, command: FanOut) -> None:
        """Run what is not done, so many at a time. One branch's trouble is its own."""
        places = asyncio.Semaphore(stage.max_parallel or len(stage.branches))
        before = self.state

        async def run(visit: Visit) -> None:
            async with places:
                await self.conclude_branch(command, visit, await self._attempts(visit, before))

        tasks = [asyncio.create_task(run(visit)) for visit in command.branches]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
