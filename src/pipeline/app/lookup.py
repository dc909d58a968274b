"""Which run a person means."""

from collections.abc import Sequence
from difflib import get_close_matches

from pipeline.engine.ports import UnknownRun
from pipeline.errors import AwfError

NEWEST = ("latest", "-")
LISTED = 5  # names that an error tells


def find_run(name: str, runs: Sequence[str]) -> str:
    """The run of a name, of the beginning of one, or the newest for `latest` and `-`; `runs` has the oldest first."""
    if name in runs:
        return name
    if name in NEWEST:
        if not runs:
            raise UnknownRun("there are no runs yet", help="start one with: awf run WORKFLOW")
        return runs[-1]
    meant = [run for run in runs if run.startswith(name)] if name else []
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise AwfError(f'{len(meant)} runs begin with "{name}"', help=f"write more of the id: {_newest(meant)}")
    raise UnknownRun(f'there is no run "{name}"', help=_nearest(name, runs))


def _nearest(name: str, runs: Sequence[str]) -> str:
    if not runs:
        return "there are no runs yet; start one with: awf run WORKFLOW"
    likely = get_close_matches(name, runs, n=LISTED, cutoff=0.6)
    near = [run for run in runs if run in likely]
    return f"did you mean {_newest(near)}?" if near else f"the newest are {_newest(runs[-3:])}"


def _newest(runs: Sequence[str]) -> str:
    """Some runs, the newest first; `runs` has the oldest first."""
    return listed(runs[::-1])


def check_new_name(name: str) -> None:
    """Refuse a name for a run by which it could not be found."""
    if name in NEWEST:
        raise AwfError(f'"{name}" cannot be the name of a run: it stands for the newest', help="choose another")


def listed(names: Sequence[str]) -> str:
    """The first of some names, as an error tells them."""
    return ", ".join(names[:LISTED]) + (", ..." if len(names) > LISTED else "")
