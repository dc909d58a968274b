"""What a person can do about a run that has stopped: what to fix, and the options that resume it."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from math import ceil

from pipeline.engine.fold import apply
from pipeline.engine.machine import EFFECTS, HOLD, Ask, Pause, decide
from pipeline.engine.outcome import ErrorKind, Failure, FailureClass
from pipeline.engine.records import RunResumed
from pipeline.engine.state import State
from pipeline.language.durations import format_duration
from pipeline.language.model import HumanStage, Settings

_ADVICE: dict[str, str] = {
    ErrorKind.AUTH: "Log the agent in, or set its key, then resume.",
    ErrorKind.QUOTA: "Wait until the quota resets, or resume with another agent.",
    ErrorKind.RATE_LIMIT: "Wait a few minutes, then resume.",
    ErrorKind.SERVER: "Resume when the provider works again.",
    ErrorKind.INVALID: "Check the model and the length of the prompt, then resume.",
    ErrorKind.CONFIG: "Check the agent with awf doctor, then resume.",
    ErrorKind.DENIED: "Allow the agent what it was refused, then resume.",
    ErrorKind.EMPTY: "Resume to ask the agent again.",
    ErrorKind.PROTOCOL: "Read the answer in its logs, then resume to ask again.",  # FailureClass.PROTOCOL as well
    ErrorKind.KILLED: "Look at its logs, then resume.",
    ErrorKind.SPAWN: "Check that the agent is installed with awf doctor, then resume.",
    FailureClass.SPAWN_ERROR: "Fix what kept it from starting, then resume.",
    FailureClass.INTERNAL: "Fix the plugin or report the problem, then resume.",
}
_MORE = {"max_visits": "+10", "max_stages": "+100"}


def kind_of(failure: Failure | None) -> str:
    """What kind of error it was, in one word."""
    return str(failure.error or failure.kind) if failure else "error"


def advice(failure: Failure | None) -> str:
    """What to do about an error."""
    return _ADVICE.get(kind_of(failure), "Look at its logs, then resume.")


def resume_commands(run_id: str, options: Sequence[str], until: float | None, now: float) -> list[str]:
    """The commands that resume a run: before a used-up quota resets, one that waits for it and one that does not."""
    command = " ".join(["awf resume", run_id, *options])
    return [command] if until is None or until <= now else [f"{command} --wait", f"{command} --now"]


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
