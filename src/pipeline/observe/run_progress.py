"""A fold over the events of a run for the live view: what runs now, what it has used, and what has just ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pipeline.engine.events import Event, EventKind
from pipeline.engine.outcome import Status
from pipeline.text import format_duration

_MAX_OUTPUT = 4000  # characters of a stage's last output
_RUN_ENDS = (EventKind.RUN_PAUSED, EventKind.RUN_COMPLETED, EventKind.RUN_FAILED, EventKind.RUN_CANCELLED)


class LineMark(Enum):
    """What a line is about."""

    TITLE = "title"
    GOAL = "goal"
    PASSED = "passed"
    PARTIAL = "partial"  # something is left to do
    FAILED = "failed"
    ERRORED = "errored"  # the stage could not do its job
    RETRIED = "retried"  # an attempt failed, and another follows
    WARNING = "warning"


_STAGE_MARKS = {
    EventKind.STAGE_COMPLETED: LineMark.PASSED,
    EventKind.STAGE_FAILED: LineMark.FAILED,
    EventKind.STAGE_ERRORED: LineMark.ERRORED,
}


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """One line that stays on the screen."""

    mark: LineMark
    stage: str = ""
    visit: int = 0
    seconds: float | None = None
    text: str = ""


@dataclass(slots=True)
class RunningVisit:
    """A visit that is running."""

    stage: str
    visit: int
    since: float
    attempt: int = 1
    is_parallel: bool = False  # its branches are shown instead
    output: str = ""
    option: str = ""
    tokens: int = 0  # so far
    cost: float = 0.0


@dataclass(slots=True)
class RunProgress:
    """The events of a run so far."""

    began: float | None = None
    running: dict[tuple[str, int], RunningVisit] = field(default_factory=dict)
    new_lines: list[ProgressLine] = field(default_factory=list)
    until: float | None = None  # when a paused run continues by itself
    reports: int = 0  # open ones
    findings: int = 0  # open ones
    tokens: int = 0
    cost: float = 0.0
    stages: int = 0

    def update(self, event: Event) -> None:
        """Take an event into account."""
        self.began = event.at if self.began is None else self.began
        running = self.running.get((event.stage, event.visit))
        match event.event:
            case EventKind.RUN_STARTED | EventKind.RUN_RESUMED:
                self._add_header(event)
            case EventKind.STAGE_STARTED | EventKind.HUMAN_ASKED:
                started = RunningVisit(event.stage, event.visit, event.at, event.data.get("attempt", 1))
                started.is_parallel = "branches" in event.data
                started.output = "waiting for an answer" if event.event is EventKind.HUMAN_ASKED else ""
                self.running[event.stage, event.visit] = started
            case EventKind.STAGE_OUTPUT | EventKind.HUMAN_ANSWERED if running:
                running.option = str(event.data.get("option", running.option))
                if text := str(event.data.get("text", "")).rstrip():
                    running.output = text[-_MAX_OUTPUT:]
                if usage := event.data.get("usage"):
                    running.tokens, running.cost = _tokens_and_cost(usage)
            case EventKind.STAGE_RETRYING:
                self._add_retry(event, running)
            case EventKind.STAGE_COMPLETED | EventKind.STAGE_FAILED | EventKind.STAGE_ERRORED:
                self._end_visit(event)
            case "findings_changed":  # of the findings plugin
                self._count(event)
            case EventKind.PLUGIN_FAILED:
                plugin, hook, error = (event.data.get(name, "") for name in ("plugin", "hook", "error"))
                self.new_lines.append(ProgressLine(LineMark.WARNING, text=f"plugin {plugin} failed in {hook}: {error}"))
        self.until = event.data.get("until") if event.event is EventKind.RUN_PAUSED else None
        if event.event in _RUN_ENDS:
            self.running.clear()
            self._count(event)

    def take_lines(self) -> list[ProgressLine]:
        """The lines since the last call."""
        lines, self.new_lines = self.new_lines, []
        return lines

    def usage(self) -> tuple[int, float]:
        """Tokens and dollars so far, including those of running visits."""
        running = self.running.values()
        return self.tokens + sum(one.tokens for one in running), self.cost + sum(one.cost for one in running)

    def visible_visits(self) -> list[RunningVisit]:
        """The running visits; a parallel stage only while none of its branches runs."""
        branches = [visit for visit in self.running.values() if not visit.is_parallel]
        return branches or list(self.running.values())

    def _count(self, event: Event) -> None:
        self.reports = int(event.data.get("reports", self.reports))
        self.findings = int(event.data.get("findings", self.findings))

    def _add_header(self, event: Event) -> None:
        resumed = " resumed" if event.event is EventKind.RUN_RESUMED else ""
        title = ProgressLine(LineMark.TITLE, event.data.get("workflow", ""), text=event.run_id + resumed)
        self.new_lines.append(title)
        if (goal := str(event.data.get("goal", ""))) and event.at == self.began:  # not again after a wait
            self.new_lines.append(ProgressLine(LineMark.GOAL, text=goal))

    def _add_retry(self, event: Event, running: RunningVisit | None) -> None:
        delay, attempt = event.data.get("delay", 0.0), event.data.get("attempt", 1)
        reason = event.data.get("reason") or "failed"
        text = f"{reason} (attempt {attempt}, retrying in {format_duration(delay)})"
        seconds = event.at - running.since if running else None
        self.new_lines.append(ProgressLine(LineMark.RETRIED, event.stage, event.visit, seconds, text))
        if running:
            running.output = "waiting for the next attempt" if delay else ""

    def _end_visit(self, event: Event) -> None:
        running = self.running.pop((event.stage, event.visit), None)
        is_partial = event.data.get("status") == Status.PARTIAL_SUCCESS
        mark = LineMark.PARTIAL if is_partial else _STAGE_MARKS[EventKind(event.event)]
        option = f"chose {running.option}" if running and running.option else ""
        text, seconds = str(event.data.get("reason") or option), event.data.get("duration", 0.0)
        self.new_lines.append(ProgressLine(mark, event.stage, event.visit, seconds, text))
        self.stages += mark is not LineMark.ERRORED
        tokens, cost = _tokens_and_cost(event.data.get("usage") or {})
        self.tokens += tokens
        self.cost += cost


def _tokens_and_cost(usage: Mapping[str, Any]) -> tuple[int, float]:
    tokens = (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)
    return tokens, usage.get("cost_usd") or 0.0
