"""What a run was asked to review, as recorded when it was started."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from pipeline.engine.state import State
from pipeline.errors import AwfError

OPTION = "review"  # the key among the options of a run
MODES = ("full", "quick", "verify")
SCOPES = ("changeset", "package", "team", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """How a review was asked for. A run that was not started as a review has the defaults."""

    mode: Literal["full", "quick", "verify"] = "full"
    base: str = ""  # the commit that the change is compared with
    target: str = ""  # what is reviewed, such as `main..HEAD`
    scope: str = "changeset"
    paths: tuple[str, ...] = ()  # empty: everything
    task: str = ""
    caller: str = "awf run"
    lenses: tuple[str, ...] = ()  # empty: whatever the stages say
    report: bool = False  # whether a full review writes its report to a file

    def recorded(self) -> dict[str, Any]:
        """The options for the first record of a run, without those at their default."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}
        plain = {name: value for name, (value, default) in values.items() if value != default}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}


def review_options(state: State) -> ReviewOptions:
    """How the review of a run was asked for."""
    return read_options(state.options.get(OPTION))


def read_options(recorded: Any) -> ReviewOptions:
    """The options that were recorded; raises AwfError if this version does not understand them."""
    if recorded is None:
        return ReviewOptions()
    if not isinstance(recorded, Mapping):
        raise AwfError("the run's review options are not an object")
    types = {one.name: one.default for one in fields(ReviewOptions)}
    values: dict[str, Any] = {}
    for name, value in recorded.items():
        default = types.get(name)
        if (
            isinstance(default, tuple)
            and isinstance(value, list | tuple)
            and all(isinstance(one, str) for one in value)
        ):
            values[name] = tuple(value)
        elif default is not None and type(value) is type(default):
            values[name] = value
        else:
            raise AwfError(f"the run's review option {name} cannot be used: {value!a}")
    options = ReviewOptions(**values)
    if options.mode not in MODES or options.scope not in SCOPES:
        raise AwfError(f"unknown mode or scope of a review: {options.mode}, {options.scope}")
    return options
