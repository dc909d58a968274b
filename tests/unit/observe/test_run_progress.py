"""What a live view knows of a run."""

from typing import Any

from pipeline.engine.events import Event, EventKind
from pipeline.observe.run_progress import LineMark, RunProgress

K = EventKind


def seen(*events: tuple[EventKind, str, int, dict[str, Any]]) -> RunProgress:
    picture = RunProgress()
    for number, (kind, stage, visit, data) in enumerate(events):
        picture.take(Event(kind, "r", number, 100.0 + number, stage, visit, data))
    return picture


def test_a_visit_goes_on_until_it_is_done() -> None:
    """A started visit is shown as running, and its end moves it to what stays."""
    picture = seen((K.STAGE_STARTED, "fix", 2, {"attempt": 1}))
    assert [one.stage for one in picture.shown()] == ["fix"]
    picture.take(Event(K.STAGE_FAILED, "r", 2, 103.0, "fix", 2, {"status": "fail", "duration": 3.0, "reason": "boom"}))
    assert picture.shown() == []
    assert [(one.mark, one.visit, one.seconds, one.text) for one in picture.look()] == [
        (LineMark.FAILED, 2, 3.0, "boom")
    ]
    assert picture.look() == []


def test_an_error_is_marked_and_waited_for() -> None:
    """A stage that errored does not count as done; a pause with a time is shown until the run is resumed."""
    refused = {"status": "error", "duration": 1.0, "reason": "used up"}
    picture = seen(
        (K.RUN_STARTED, "", 0, {"workflow": "W", "goal": "Go"}),
        (K.STAGE_STARTED, "fix", 1, {"attempt": 1}),
        (K.STAGE_ERRORED, "fix", 1, refused),
        (K.RUN_PAUSED, "fix", 1, {"until": 500.0}),
    )
    assert (picture.stages, picture.until, picture.shown()) == (0, 500.0, [])
    assert [one.mark for one in picture.look()] == [LineMark.TITLE, LineMark.QUIET, LineMark.ERRORED]
    picture.take(Event(K.RUN_RESUMED, "r", 9, 500.0, "fix", 1, {"workflow": "W", "goal": "Go"}))
    assert picture.until is None
    assert [one.mark for one in picture.look()] == [LineMark.TITLE]


def test_branches_are_shown_in_place_of_their_stage() -> None:
    """A parallel stage is shown only while none of its branches runs."""
    picture = seen((K.STAGE_STARTED, "reviews", 1, {"branches": ["a", "b"]}))
    assert [one.stage for one in picture.shown()] == ["reviews"]
    picture.take(Event(K.STAGE_STARTED, "r", 2, 101.0, "a", 1, {"attempt": 1}))
    assert [one.stage for one in picture.shown()] == ["a"]


def test_usage_adds_up() -> None:
    """Tokens and money of all visits are summed; unknown is not counted."""
    done = {"status": "success", "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}}
    picture = seen(
        (K.STAGE_COMPLETED, "a", 1, done), (K.STAGE_COMPLETED, "b", 1, {}), (K.STAGE_COMPLETED, "a", 2, done)
    )
    assert (picture.tokens, picture.cost, picture.stages) == (30, 1.0, 3)


def test_a_choice_is_told() -> None:
    """What a person chose stays on the screen."""
    picture = seen(
        (K.HUMAN_ASKED, "ask", 1, {}),
        (K.HUMAN_ANSWERED, "ask", 1, {"option": "revise"}),
        (K.STAGE_COMPLETED, "ask", 1, {"status": "success"}),
    )
    assert picture.look()[0].text == "chose revise"


def test_nothing_runs_after_the_end() -> None:
    """A cancelled run shows no running visit, and says what is outstanding."""
    picture = seen((K.STAGE_STARTED, "a", 1, {}), (K.RUN_CANCELLED, "a", 1, {"outstanding": 2}))
    assert picture.shown() == []
    assert picture.outstanding == 2


def test_what_goes_on_is_counted_while_it_goes_on() -> None:
    """An agent's usage so far replaces what it told before, and is not counted again when it is done."""
    used = {"agent": "usage", "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.5}}
    more = {"agent": "usage", "usage": {"input_tokens": 20, "output_tokens": 5, "cost_usd": 0.75}}
    picture = seen(
        (K.STAGE_STARTED, "a", 1, {}),
        (K.STAGE_OUTPUT, "a", 1, {"agent": "tool_start", "text": "Bash: pytest -q"}),
        (K.STAGE_OUTPUT, "a", 1, used),
        (K.STAGE_OUTPUT, "a", 1, more),
    )
    (running,) = picture.shown()
    assert (running.said, running.tokens, running.cost) == ("Bash: pytest -q", 25, 0.75)
    assert picture.spent() == (25, 0.75)
    picture.take(Event(K.STAGE_COMPLETED, "r", 9, 109.0, "a", 1, {"status": "success", "usage": more["usage"]}))
    assert picture.spent() == (25, 0.75)
