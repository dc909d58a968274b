"""What a live view knows of a run: what runs now, what it has used, and what has happened since the last look."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipeline.engine.events import Event, EventKind
from pipeline.engine.outcome import Status
from pipeline.text import format_duration

_KEPT = 4000  # characters of what a stage said last
_ENDS = (EventKind.RUN_PAUSED, EventKind.RUN_COMPLETED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED)


class LineMark(Enum):
    """What kind of thing happened."""

    TITLE = "title"
    QUIET = "quiet"
    PASSED = "passed"
    PARTLY = "partly"  # something is left to do
    FAILED = "failed"
    ERRORED = "errored"  # it could not do its job
    AGAIN = "again"  # an attempt failed, and another follows
    WARNING = "warning"


_MARKS = {
    EventKind.STAGE_COMPLETED: LineMark.PASSED,
    EventKind.STAGE_FAILED: LineMark.FAILED,
    EventKind.STAGE_ERRORED: LineMark.ERRORED,
}


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """One thing that stays on the screen."""

    mark: LineMark
    stage: str = ""
    visit: int = 0
    seconds: float | None = None
    text: str = ""


@dataclass(slots=True)
class RunningVisit:
    """A visit that goes on."""

    stage: str
    visit: int
    since: float
    attempt: int = 1
    parallel: bool = False  # its branches are shown in its place
    said: str = ""
    option: str = ""
    tokens: int = 0  # so far
    cost: float = 0.0


@dataclass(slots=True)
class RunProgress:
    """The events of a run so far, taken together."""

    began: float | None = None
    running: dict[tuple[str, int], RunningVisit] = field(default_factory=dict)
    fresh: list[ProgressLine] = field(default_factory=list)
    until: float | None = None  # when a paused run continues by itself
    outstanding: int = 0
    tokens: int = 0
    cost: float = 0.0
    stages: int = 0

    def take(self, event: Event) -> None:
        """Take an event in."""
        self.began = event.at if self.began is None else self.began
        match event.event:
            case EventKind.RUN_STARTED | EventKind.RUN_RESUMED:
                self._header(event)
            case EventKind.STAGE_STARTED | EventKind.HUMAN_ASKED:
                self._started(event)
            case EventKind.STAGE_OUTPUT | EventKind.HUMAN_ANSWERED:
                self._told(event)
            case EventKind.STAGE_RETRYING:
                self._again(event)
            case EventKind.STAGE_COMPLETED | EventKind.STAGE_FAILED | EventKind.STAGE_ERRORED:
                self._done(event)
            case "findings_changed":
                self.outstanding = int(event.data.get("outstanding", 0))
            case EventKind.PLUGIN_FAILED:
                words = f"plugin {event.data.get('plugin')} failed in {event.data.get('hook')}: "
                self.fresh.append(ProgressLine(LineMark.WARNING, text=words + str(event.data.get("error", ""))))
        self.until = event.data.get("until") if event.event is EventKind.RUN_PAUSED else None
        if event.event in _ENDS:
            self.running.clear()
            self.outstanding = int(event.data.get("outstanding", self.outstanding))

    def look(self) -> list[ProgressLine]:
        """What has happened since the last look."""
        fresh, self.fresh = self.fresh, []
        return fresh

    def spent(self) -> tuple[int, float]:
        """Tokens and dollars so far, those of what goes on among them."""
        going_on = self.running.values()
        return self.tokens + sum(one.tokens for one in going_on), self.cost + sum(one.cost for one in going_on)

    def shown(self) -> list[RunningVisit]:
        """The visits that go on; a parallel stage only while none of its branches does."""
        branches = [running for running in self.running.values() if not running.parallel]
        return branches or list(self.running.values())

    def _header(self, event: Event) -> None:
        again = "resumed" if event.event is EventKind.RUN_RESUMED else ""
        self.fresh.append(
            ProgressLine(LineMark.TITLE, event.data.get("workflow", ""), text=f"{event.run_id} {again}".strip())
        )
        if (goal := str(event.data.get("goal", ""))) and event.at == self.began:  # not again after a wait
            self.fresh.append(ProgressLine(LineMark.QUIET, text=goal))

    def _started(self, event: Event) -> None:
        running = RunningVisit(event.stage, event.visit, event.at, event.data.get("attempt", 1))
        running.parallel = "branches" in event.data
        running.said = "waits for an answer" if event.event is EventKind.HUMAN_ASKED else ""
        self.running[event.stage, event.visit] = running

    def _told(self, event: Event) -> None:
        running = self.running.get((event.stage, event.visit))
        if running is None:
            return
        running.option = str(event.data.get("option", running.option))
        if text := str(event.data.get("text", "")).rstrip():
            running.said = text[-_KEPT:]
        if usage := event.data.get("usage"):
            running.tokens, running.cost = _spending(usage)

    def _again(self, event: Event) -> None:
        delay = event.data.get("delay", 0.0)
        attempt = f"attempt {event.data.get('attempt', 1)}, again in {format_duration(delay)}"
        words = f"{event.data.get('reason') or 'failed'} ({attempt})"
        running = self.running.get((event.stage, event.visit))
        seconds = event.at - running.since if running else None
        self.fresh.append(ProgressLine(LineMark.AGAIN, event.stage, event.visit, seconds, words))
        if running:
            running.said = "waits for the next attempt" if delay else ""

    def _done(self, event: Event) -> None:
        running = self.running.pop((event.stage, event.visit), None)
        status = event.data.get("status", "")
        mark = LineMark.PARTLY if status == Status.PARTIAL_SUCCESS else _MARKS[EventKind(event.event)]
        option = f"chose {running.option}" if running and running.option else ""
        text = str(event.data.get("reason") or option)
        self.fresh.append(ProgressLine(mark, event.stage, event.visit, event.data.get("duration", 0.0), text))
        self.stages += mark is not LineMark.ERRORED
        tokens, cost = _spending(event.data.get("usage") or {})
        self.tokens += tokens
        self.cost += cost


def _spending(usage: Mapping[str, Any]) -> tuple[int, float]:
    tokens = (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)
    return tokens, usage.get("cost_usd") or 0.0
