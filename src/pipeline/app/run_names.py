"""The names by which people call a run: its id, the beginning of it, or `latest`."""

from collections.abc import Callable, Collection, Sequence
from difflib import get_close_matches

from pipeline.engine.errors import JournalError, UnknownRun
from pipeline.errors import AwfError
from pipeline.text import did_you_mean, listing

NEWEST = ("latest", "-")  # what a person writes for the newest run
MAX_NAMES = 5  # how many names an error lists


def find_run(name: str, runs: Sequence[str]) -> str:
    """Return the run of a name or a unique prefix, or the newest for `latest` and `-`; `runs` has the oldest first."""
    if name in runs:
        return name
    if not runs:
        raise UnknownRun("no runs yet", help="start one with: awf run WORKFLOW")
    if name in NEWEST:
        return runs[-1]
    newest_first = list(reversed(runs))
    matches = [run for run in newest_first if run.startswith(name)] if name else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        help = f"write more of the id: {listing(matches, MAX_NAMES)}"
        raise AwfError(f'{len(matches)} runs start with "{name}"', help=help)
    likely = get_close_matches(name, runs, n=MAX_NAMES, cutoff=0.6)
    if likely:
        help = f"did you mean {listing([run for run in newest_first if run in likely], last='or')}?"
    else:
        help = f"the newest are {listing(newest_first[:3])}"
    raise UnknownRun(f'there is no run "{name}"', help=help)


def split_run(
    words: Sequence[str], runs: Sequence[str], names: Callable[[str], Collection[str]], least: int, most: int
) -> tuple[str, Sequence[str]]:
    """Split arguments into the run they start with, or the newest when they do not start with one, and the rest.

    At least `least` and at most `most` arguments follow the run. Where the first may be a run or a name in the newest
    run, as listed by `names`, an exact name is preferred to the prefix of a run's id.
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
    is_name = word.lower() in {name.lower() for name in known}
    if is_name and word in runs:
        help = f'write latest {word} for the name in the newest run, or {word} "" for the run'
        raise AwfError(f'"{word}" is both a run and a name in the newest run', help=help)
    if is_name:
        return newest, words
    try:
        return find_run(word, runs), words[1:]
    except UnknownRun:
        help = did_you_mean(word, [*runs, *known]) or f"the newest runs are {listing(runs[-3:][::-1])}"
        raise UnknownRun(f'there is no run "{word}", nor that name in run {newest}', help=help) from None


def check_run_name(name: str) -> None:
    """Refuse a name by which the run could not be found."""
    if name in NEWEST:
        raise AwfError(f'"{name}" cannot be the name of a run: it means the newest run', help="choose another")
