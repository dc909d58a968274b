"""A driver with in-memory services: handlers do what they are told, and plugins are real."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.engine.driver import Driver, Services
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import Job, Waiting
from pipeline.engine.records import AnyRecord, RunCreated, RunResumed
from pipeline.engine.state import apply, begin
from pipeline.journal.memory import MemoryJournal
from pipeline.language.model import StageKind
from pipeline.plugins.manager import PluginManager

SUCCESS = Outcome(status=Status.SUCCESS)
PARALLEL = """
stage "a" kind="parallel"%s { branch "p"; branch "q"; branch "s" }
stage "p" kind="tool" command="x"
stage "q" kind="tool" command="x"
stage "s" kind="tool" command="x"
stage "d" kind="decision" { route when="outcome(\\"q\\") == \\"fail\\"" to="end"; route when="true" to="end" }
transition from="a" to="d"
"""
TWO_TOOLS = """
stage "a" kind="tool" command="x"
stage "b" kind="tool" command="x"
transition from="a" to="b"
transition from="b" to="end"
"""


class Clock:
    """A clock whose waits last for ever."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()

    def now(self) -> float:
        return 0.0

    async def sleep_until(self, moment: float) -> None:
        if moment > 0:
            self.waiting.set()
            await asyncio.Event().wait()


class Doing:
    """A handler that does what it is told."""

    def __init__(self, act: Callable[[Job], Any]) -> None:
        self.act = act

    async def run(self, job: Job) -> Outcome | Waiting:
        result = self.act(job)
        outcome: Outcome | Waiting = await result if asyncio.iscoroutine(result) else result
        return outcome


def driver(body: str, act: Callable[[Job], Any], clock: Clock | None = None, start: str = "a") -> Driver:
    """A driver of a workflow with this body, whose handlers all do the same."""
    source = f'workflow "W" {{\nversion 2\nstart "{start}"\n{body}\nstage "end" kind="exit"\n}}\n'
    record = RunCreated(at=0.0, run_id="r", file="w", source=source, cwd="/", version="0")
    journal = MemoryJournal()
    journal.create("r", record)
    handlers, plugins = dict.fromkeys(StageKind, Doing(act)), PluginManager(lambda: 0.0)
    unused: Any = None
    services = Services(journal, handlers, plugins, clock or Clock(), lambda: 0.5, unused, Path("/nowhere"))
    return Driver(begin(record), services)


def with_plugins(made: Driver, *plugins: object) -> Driver:
    """The driver with plugins, in this order."""
    manager = PluginManager(lambda: 0.0)
    for number, plugin in enumerate(plugins, start=1):
        manager.register(plugin, f"plugin-{number}")
    return Driver(made.state, replace(made.services, plugins=manager))


def resumed(made: Driver) -> Driver:
    """The same run, resumed in another process."""
    record = RunResumed(at=1.0)
    made.services.journal.append("r", record)
    return Driver(apply(made.state, record), made.services)


def records(made: Driver) -> list[AnyRecord]:
    """All records of the run."""
    return [entry.record for entry in made.services.journal.entries("r")]
