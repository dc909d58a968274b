"""Which run a person means."""

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from pipeline.engine.outcome import Status
from pipeline.engine.ports import Journal, JournalError, UnknownRun
from pipeline.engine.records import VisitCompleted
from pipeline.errors import AwfError
from pipeline.language.names import did_you_mean

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


def find_unfinished(journal: Journal) -> str:
    """The newest run that has not ended in success."""
    runs = journal.runs()
    for run in reversed(runs):
        last = journal.last(run).record
        if not (isinstance(last, VisitCompleted) and last.ends is Status.SUCCESS):
            return run
    newest = find_run(NEWEST[0], runs)
    help = f"look at the newest with: awf status {newest}; start another with: awf run WORKFLOW"
    raise AwfError("there is nothing to resume: every run has ended in success", help=help)


def split_run(
    words: Sequence[str], runs: Sequence[str], names: Callable[[str], Collection[str]], least: int, most: int
) -> tuple[str, Sequence[str]]:
    """The run that arguments begin with, or the newest when they begin with something else, and the other arguments.

    At least `least` and at most `most` arguments follow the run. Where the first one may be a run or a name of the
    newest run, as `names` lists them, an exact name goes before the beginning of a run's id.
    """
    if len(words) > most:
        return find_run(words[0], runs), words[1:]
    newest = find_run(NEWEST[0], runs)
    if len(words) <= least:
        return newest, words
    word = words[0]
    try:
        known = names(newest)
    except JournalError:  # the newest run is damaged: another one can still be named
        return find_run(word, runs), words[1:]
    if word.lower() not in {name.lower() for name in known}:
        return _found(word, runs, newest, known), words[1:]
    if word in runs:
        help = f'write latest {word} for the one in the newest run, and {word} "" for the run'
        raise AwfError(f'"{word}" is the name of a run, and of something in the newest run', help=help)
    return newest, words


def _found(word: str, runs: Sequence[str], newest: str, known: Collection[str]) -> str:
    try:
        return find_run(word, runs)
    except UnknownRun:
        help = did_you_mean(word, [*runs, *known]) or f"the newest runs are {_newest(runs[-3:])}"
        raise UnknownRun(f'there is no run "{word}", and nothing of that name in run {newest}', help=help) from None


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
