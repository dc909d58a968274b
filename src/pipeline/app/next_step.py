"""What a person can do about a run that has stopped: the command that takes it on."""

from collections.abc import Iterator
from datetime import timedelta
from math import ceil

from pipeline.engine.fold import apply
from pipeline.engine.machine import EFFECTS, HOLD, Ask, Pause, decide
from pipeline.engine.records import RunResumed
from pipeline.engine.state import State
from pipeline.language.durations import format_duration
from pipeline.language.model import HumanStage, Settings

_MORE = {"max_visits": "+10", "max_stages": "+100"}


def resume_options(state: State) -> list[str]:
    """The options `awf resume` needs so that a stopped run goes on."""
    return list(_options(apply(state, RunResumed(at=0.0))))


def _options(state: State) -> Iterator[str]:
    """Ask the machine again and again, each time with what stopped it out of the way."""
    while isinstance(command := decide(state), Pause):
        if command.limit == HOLD:
            return  # nobody has been told of it yet: resumed, it stops there at once and says why
        if command.limit == EFFECTS:
            yield "--repeat"
            state = state._replace(repeat=True)
        else:
            yield f"--raise {command.limit}={_more(command)}"
            state = state._replace(settings=_without(state.settings, command.limit))


def _more(reached: Pause) -> str:
    """Some more visits; of time and money as much again as was spent."""
    if reached.limit == "max_duration":
        return f"+{format_duration(timedelta(minutes=ceil(reached.count / 60)))}"
    return _MORE.get(reached.limit) or f"+{ceil(reached.count)}"


def _without(settings: Settings, limit: str) -> Settings:
    unlimited = None if limit in ("max_duration", "max_cost_usd") else 1_000_000_000
    return settings.model_copy(update={limit: unlimited})


def asked(state: State) -> HumanStage | None:
    """The human stage that a resumed run would ask at, or None."""
    command = decide(apply(state, RunResumed(at=0.0)))
    return state.stage if isinstance(command, Ask) and isinstance(state.stage, HumanStage) else None
