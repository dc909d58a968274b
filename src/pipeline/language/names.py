"""What a mistyped name was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

_LONGEST = 100  # characters of a name; nobody mistypes a longer one
_MOST = 1000  # names to compare with: a hint is not worth more time


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like the given one, or None when none is like it."""
    if len(name) > _LONGEST:
        return None
    short = (candidate for candidate in known if candidate and len(candidate) <= _LONGEST)
    by_lower = {candidate.lower(): candidate for candidate in islice(short, _MOST)}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A help line naming the nearest known name, or None."""
    found = nearest(name, known)
    return f'did you mean "{found}"?' if found else None
