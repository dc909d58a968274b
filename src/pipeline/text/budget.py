"""Fits the parts of a text into a number of characters.

A part can be shown at its longest, at its shortest, or at any length between; one that cannot be shortened is shown
whole or not at all. Room is given out by priority, 0 first. Parts of one priority share it in two steps:

1. Each gets its shortest form, in the order given. From the first that does not fit on, they are left out: of a list
   the beginning is kept, without gaps.
2. What is left is shared fairly: a part that needs little gets all it needs, and the others get equally much.

What they do not use is for the next priority. So parts that are to be tried one by one, each whether or not the one
before it fitted, have a priority each.

For example, 1,000 characters for four parts:

    part     priority  shortest  longest     shown
    goal     0         100       400     ->  400, all it needs; 600 are left for priority 1
    history  1         100       900     ->  100, and 300 of the 400 that are then left
    notes    1         100       200     ->  100, and the 100 more that it needs
    patch    2         500       500     ->  nothing: no room is left, and it cannot be shortened

With 1,500 characters the history is shown whole, and there is still no room for the patch; with 2,000 nothing is cut.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, slots=True)
class Part:
    """A text, and how to show less of it."""

    longest: str
    shorten: Callable[[int], str] | None = None  # returns at most that many characters of it, perhaps none
    least: int = 100  # characters that are worth showing of a text that is longer
    priority: int = 0  # 0 is served first

    @property
    def shortest(self) -> int:
        """The length of its shortest form."""
        return min(len(self.longest), self.least) if self.shorten else len(self.longest)

    def within(self, room: int) -> str:
        """Return as much of the text as `room` characters allow."""
        if len(self.longest) <= room:
            return self.longest
        return self.shorten(room) if self.shorten and room > 0 else ""


def fit(parts: Sequence[Part], room: int, gap: int = 0) -> list[str]:
    """Return what is shown of each part, in the order given: nothing of a part that is left out.

    All together have at most `room` characters, with `gap` more for each part that is shown.
    """
    shown = [""] * len(parts)

    def priority(place: int) -> int:
        return parts[place].priority

    for _, places in groupby(sorted(range(len(parts)), key=priority), key=priority):
        chosen, left = list[int](), room
        for place in places:
            needed = parts[place].shortest + gap
            if needed > left:
                break
            left -= needed
            chosen.append(place)
        shares = fair_shares([len(parts[place].longest) - parts[place].shortest for place in chosen], left)
        for place, share in zip(chosen, shares, strict=True):
            shown[place] = parts[place].within(parts[place].shortest + share)
            room -= len(shown[place]) + gap
    return shown


def fit_whole(texts: Sequence[str], room: int, gap: int = 0) -> list[str]:
    """Return the texts that fit, tried one by one; those that do not fit are empty."""
    return fit([Part(text, priority=place) for place, text in enumerate(texts)], room, gap)


def fair_shares(needs: Sequence[int], room: int) -> list[int]:
    """Split a room: nobody gets more than needed, and nobody less because another needs more.

    Of 30, needs of 5, 70 and 40 get 5, 13 and 12: what is left after the smallest is split between the other two.
    """
    shares = [0] * len(needs)
    for rank, place in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[place] = min(needs[place], max(room, 0) // (len(needs) - rank))
        room -= shares[place]
    return shares
