"""What a run was asked to review, as its first record says."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from pipeline.engine.context import Key
from pipeline.engine.state import State

OPTION = "review"  # the option of a run that holds it
COMMAND = "awf review"

ReviewMode = Literal["full", "quick", "verify"]


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """What is reviewed, how, and for whom."""

    mode: ReviewMode = "full"
    base: str = ""  # the commit that the change is compared with; empty outside a repository
    target: str = ""  # such as `main..HEAD`
    scope: str = "changeset"  # or package, or file
    paths: tuple[str, ...] = ()  # what the review is limited to, from the root of the repository; empty: everything
    task: str = ""
    caller: str = "awf run"  # or COMMAND
    lenses: tuple[str, ...] = ()
    required: tuple[str, ...] = ()  # who has to look before anything ships, whoever looks now
    whole: bool = False  # whether every reviewer is given the whole change, whatever it has seen
    open: bool = False  # whether a verification covers every open finding, not only claimed fixes
    report: bool = False  # whether to write the Markdown report
    fail_on: Literal["warn", "fail", "abort"] = "fail"  # the mildest verdict that makes the command fail


def review_options(state: State) -> ReviewOptions:
    """What a run reviews. Without a given base it is that of the run's workspace, else the commit it started at."""
    known = {item.name for item in fields(ReviewOptions)}
    given = {name: value for name, value in (state.options.get(OPTION) or {}).items() if name in known}
    base = given.get("base") or state.context.get(Key.WORKSPACE_BASE) or state.head
    lists = {name: tuple(given.get(name) or ()) for name in ("paths", "lenses", "required")}
    return ReviewOptions(**{"task": state.run_id, **given, "base": str(base), **lists})


def is_review_command(options: Mapping[str, Any]) -> bool:
    """Whether a run with these options was started by `awf review`."""
    return (options.get(OPTION) or {}).get("caller") == COMMAND
