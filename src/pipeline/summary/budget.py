"""Fitting parts of a text into a number of characters.

A part is whole while there is room; else it is cut at a place where nothing stays open, and says so. What does not fit
at all is counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.summary import markdown as fence

_WORTHWHILE = 40  # characters of a text below which a note alone is better
_SMALLEST = 100  # room that an entry of a section is worth


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """A text, and what is left of it in less room than it needs: at most so many characters, perhaps none."""

    whole: str
    less: Callable[[int], str]

    def within(self, room: int) -> str:
        """As much of the part as the room allows."""
        return self.whole if len(self.whole) <= room else self.less(room)


def note(left_out: int, what: str = "characters") -> str:
    """What stands where something was cut."""
    return f"[cut: {left_out:,} more {what}]"


def counted(number: int, thing: str) -> str:
    """A number of things."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def line(text: str) -> SummaryPart:
    """A line that is shown whole or not at all."""
    return SummaryPart(text, lambda _: "")


def quoted(lead: str, text: str, most: int | None = None) -> SummaryPart:
    """A label with a clean text in a fence, of which no more than so many characters are shown."""
    opening = f"{lead}\n\n" if lead else ""

    def less(room: int) -> str:
        closing = note(len(text))
        kept = fence.beginning(text, room - len(opening) - len(closing) - 2)
        if len(kept) < min(_WORTHWHILE, len(text)):
            bare = f"{opening}{closing}\n"
            return bare if len(bare) <= room else ""
        return f"{opening}{fence.quote(kept)}\n{note(len(text) - len(kept))}\n"

    if most is not None and len(text) > most:
        kept = text[:most]
        return SummaryPart(f"{opening}{fence.quote(kept)}\n{note(len(text) - most)}\n", less)
    return SummaryPart(f"{opening}{fence.quote(text)}\n", less)


def prose(text: str) -> SummaryPart:
    """A text with a structure of its own; no fence in it is left open."""
    text = fence.clean(text)

    def less(room: int) -> str:
        closing = note(len(text))
        kept = room - len(closing) - fence.longest_run(text) - 3
        if kept < _WORTHWHILE:
            return ""
        return f"{fence.closed(text[:kept].rstrip())}\n\n{note(len(text) - kept)}"

    return SummaryPart(fence.closed(text), less)


def section(
    heading: str, parts: Sequence[SummaryPart], *, what: str, newest_last: bool = False, unmade: int = 0
) -> SummaryPart:
    """Parts below a heading. When there are too many, the last give way, or the first where the newest are last.

    `unmade` counts parts that were not even made, since those that were are more than there can be room for.
    """
    opening = f"{heading}\n\n"
    count = len(parts) + unmade

    def joined(texts: list[str], dropped: int) -> str:
        lines = [*texts, note(dropped, what)] if dropped else texts
        return opening + "\n".join(lines[::-1] if newest_last else lines).rstrip()

    def less(room: int) -> str:
        left = room - len(opening) - len(note(count, what)) - 1
        ordered = parts[::-1] if newest_last else parts
        kept = ordered[: _how_many(ordered, left)]
        texts = [text for text in shared(kept, left) if text]
        return joined(texts, count - len(texts)) if texts else ""

    return SummaryPart(opening + "\n".join(part.whole for part in parts).rstrip(), less)


def shared(parts: Sequence[SummaryPart], room: int) -> list[str]:
    """Parts in a room they share, each with a line break: the small are whole and the large get equal shares."""
    shares = fair_shares([len(part.whole) + 1 for part in parts], room)
    return [part.within(share - 1) for part, share in zip(parts, shares, strict=True)]


def fair_shares(needs: Sequence[int], room: int) -> list[int]:
    """How much of a room each need gets: nobody more than needed, and nobody less for another's greater need."""
    shares = [0] * len(needs)
    for rank, place in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[place] = min(needs[place], max(room, 0) // (len(needs) - rank))
        room -= shares[place]
    return shares


def min_size(part: SummaryPart) -> int:
    """The least room, with a line break, that a part is shown in."""
    return min(len(part.whole), _SMALLEST) + 1


def _how_many(parts: Sequence[SummaryPart], room: int) -> int:
    """How many parts, from the first, can have a share worth having."""
    for number, part in enumerate(parts):
        room -= min_size(part)
        if room < 0:
            return number
    return len(parts)
