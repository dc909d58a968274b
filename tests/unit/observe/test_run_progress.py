"""What the live view knows about a run."""

from typing import Any

from pipeline.engine.events import Event, EventKind
from pipeline.observe.run_progress import LineMark, RunProgress

K = EventKind


def progress_after(*events: tuple[EventKind, str, int, dict[str, Any]]) -> RunProgress:
    progress = RunProgress()
    for number, (kind, stage, visit, data) in enumerate(events):
        progress.update(Event(kind, "r", number, 100.0 + number, stage, visit, data))
    return progress


def test_a_visit_runs_until_it_ends() -> None:
    """A started visit is shown as running; when it ends, it becomes a line that stays."""
    progress = progress_after((K.STAGE_STARTED, "fix", 2, {"attempt": 1}))
    assert [one.stage for one in progress.visible_visits()] == ["fix"]
    progress.update(
        Event(K.STAGE_FAILED, "r", 2, 103.0, "fix", 2, {"status": "fail", "duration": 3.0, "reason": "boom"})
    )
    assert progress.visible_visits() == []
    assert [(one.mark, one.visit, one.seconds, one.text) for one in progress.take_lines()] == [
        (LineMark.FAILED, 2, 3.0, "boom")
    ]
    assert progress.take_lines() == []


def test_an_error_is_marked_and_a_quota_is_counted_down() -> None:
    """An errored stage does not count as done; the end of a pause is shown until the run is resumed."""
    refused = {"status": "error", "duration": 1.0, "reason": "used up"}
    progress = progress_after(
        (K.RUN_STARTED, "", 0, {"workflow": "W", "goal": "Go"}),
        (K.STAGE_STARTED, "fix", 1, {"attempt": 1}),
        (K.STAGE_ERRORED, "fix", 1, refused),
        (K.RUN_PAUSED, "fix", 1, {"until": 500.0}),
    )
    assert (progress.stages, progress.until, progress.visible_visits()) == (0, 500.0, [])
    assert [one.mark for one in progress.take_lines()] == [LineMark.TITLE, LineMark.GOAL, LineMark.ERRORED]
    progress.update(Event(K.RUN_RESUMED, "r", 9, 500.0, "fix", 1, {"workflow": "W", "goal": "Go"}))
    assert progress.until is None
    assert [one.mark for one in progress.take_lines()] == [LineMark.TITLE]


def test_branches_are_shown_instead_of_their_stage() -> None:
    """A parallel stage is shown only while none of its branches runs."""
    progress = progress_after((K.STAGE_STARTED, "reviews", 1, {"branches": ["a", "b"]}))
    assert [one.stage for one in progress.visible_visits()] == ["reviews"]
    progress.update(Event(K.STAGE_STARTED, "r", 2, 101.0, "a", 1, {"attempt": 1}))
    assert [one.stage for one in progress.visible_visits()] == ["a"]


def test_usage_adds_up() -> None:
    """The tokens and costs of all visits are summed; unknown ones count as zero."""
    done = {"status": "success", "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}}
    progress = progress_after(
        (K.STAGE_COMPLETED, "a", 1, done), (K.STAGE_COMPLETED, "b", 1, {}), (K.STAGE_COMPLETED, "a", 2, done)
    )
    assert (progress.tokens, progress.cost, progress.stages) == (30, 1.0, 3)


def test_a_choice_is_shown() -> None:
    """What a person chose stays on the screen."""
    progress = progress_after(
        (K.HUMAN_ASKED, "ask", 1, {}),
        (K.HUMAN_ANSWERED, "ask", 1, {"option": "revise"}),
        (K.STAGE_COMPLETED, "ask", 1, {"status": "success"}),
    )
    assert progress.take_lines()[0].text == "chose revise"


def test_nothing_runs_after_the_end() -> None:
    """A cancelled run has no running visit and keeps the numbers of open reports and findings."""
    counts = {"reports": 2, "findings": 3}
    progress = progress_after((K.STAGE_STARTED, "a", 1, {}), (K.RUN_CANCELLED, "a", 1, counts))
    assert progress.visible_visits() == []
    assert (progress.reports, progress.findings) == (2, 3)


def test_usage_counts_while_an_agent_runs() -> None:
    """The usage of an agent replaces its earlier usage, and is not counted again when it is done."""
    used = {"agent": "usage", "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}}
    more = {"agent": "usage", "usage": {"input_tokens": 20, "output_tokens": 5, "cost_usd": 0.75}}
    progress = progress_after(
        (K.STAGE_STARTED, "a", 1, {}),
        (K.STAGE_OUTPUT, "a", 1, {"agent": "tool_start", "text": "Bash: pytest -q"}),
        (K.STAGE_OUTPUT, "a", 1, used),
        (K.STAGE_OUTPUT, "a", 1, more),
    )
    (running,) = progress.visible_visits()
    assert (running.output, running.tokens, running.cost) == ("Bash: pytest -q", 25, 0.75)
    assert progress.usage() == (25, 0.75)
    progress.update(Event(K.STAGE_COMPLETED, "r", 9, 109.0, "a", 1, {"status": "success", "usage": more["usage"]}))
    assert progress.usage() == (25, 0.75)
