"""What a mistyped name was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like the given one, or None when none is like it."""
    by_lower = {candidate.lower(): candidate for candidate in known if candidate}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A help line naming the nearest known name, or None."""
    found = nearest(name, known)
    return f'did you mean "{found}"?' if found else None
