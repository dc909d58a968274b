"""Fits the parts of a text into a number of characters.

A part is shown whole if there is room. Otherwise it is cut where no quotation stays open, and a note says how much is
missing. Parts that do not fit at all are counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipeline.summary.markdown import close_fence, fence, longest_run, sanitize, start_that_fits

_SHORTEST_QUOTE = 40  # characters of a text below which the note alone is shown
_SHORTEST_ENTRY = 100  # characters that an entry of a section is worth


@dataclass(frozen=True, slots=True)
class SummaryPart:
    """A text, and how to shorten it to a number of characters, perhaps to nothing."""

    whole: str
    shrink: Callable[[int], str]

    def within(self, room: int) -> str:
        """As much of the part as `room` characters allow."""
        return self.whole if len(self.whole) <= room else self.shrink(room)

    @property
    def min_size(self) -> int:
        """The least room, with its line break, in which the part is shown."""
        return min(len(self.whole), _SHORTEST_ENTRY) + 1


def cut_note(count: int, things: str = "characters") -> str:
    """The note where something was cut."""
    return f"[cut: {count:,} more {things}]"


def plural(count: int, thing: str) -> str:
    """A number of things, such as `1 visit` or `1,200 visits`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def whole_line(text: str) -> SummaryPart:
    """A line that is shown whole or not at all."""
    return SummaryPart(text, lambda _: "")


def quoted(label: str, text: str, limit: int | None = None) -> SummaryPart:
    """A label above a sanitized text in a fence, of which at most `limit` characters are shown."""
    opening = f"{label}\n\n" if label else ""

    def shrink(room: int) -> str:
        note = cut_note(len(text))
        kept = start_that_fits(text, room - len(opening) - len(note) - 2)
        if len(kept) < min(_SHORTEST_QUOTE, len(text)):
            bare = f"{opening}{note}\n"
            return bare if len(bare) <= room else ""
        return f"{opening}{fence(kept)}\n{cut_note(len(text) - len(kept))}\n"

    if limit is not None and len(text) > limit:
        return SummaryPart(f"{opening}{fence(text[:limit])}\n{cut_note(len(text) - limit)}\n", shrink)
    return SummaryPart(f"{opening}{fence(text)}\n", shrink)


def prose(text: str) -> SummaryPart:
    """A text with markdown of its own, in which no fence stays open."""
    text = sanitize(text)

    def shrink(room: int) -> str:
        kept = room - len(cut_note(len(text))) - longest_run(text) - 3
        if kept < _SHORTEST_QUOTE:
            return ""
        return f"{close_fence(text[:kept].rstrip())}\n\n{cut_note(len(text) - kept)}"

    return SummaryPart(close_fence(text), shrink)


def section(
    heading: str, parts: Sequence[SummaryPart], *, things: str, newest_last: bool = False, omitted: int = 0
) -> SummaryPart:
    """Parts below a heading. Without room for all, the last ones are dropped, or the first if the newest are last.

    `omitted` counts parts that were not even built because there could be no room for them.
    """
    opening = f"{heading}\n\n"
    count = len(parts) + omitted

    def shrink(room: int) -> str:
        room -= len(opening) + len(cut_note(count, things)) + 1
        ordered = parts[::-1] if newest_last else parts
        lines = [text for text in share_room(ordered[: _count_fitting(ordered, room)], room) if text]
        if not lines:
            return ""
        if len(lines) < count:
            lines.append(cut_note(count - len(lines), things))
        return opening + "\n".join(lines[::-1] if newest_last else lines).rstrip()

    return SummaryPart(opening + "\n".join(part.whole for part in parts).rstrip(), shrink)


def _count_fitting(parts: Sequence[SummaryPart], room: int) -> int:
    """How many parts, from the first, can have their least size."""
    for count, part in enumerate(parts):
        room -= part.min_size
        if room < 0:
            return count
    return len(parts)


def share_room(parts: Sequence[SummaryPart], room: int) -> list[str]:
    """Each part, with its line break, in a fair share of the room: small ones whole, large ones equally cut."""
    shares = fair_shares([len(part.whole) + 1 for part in parts], room)
    return [part.within(share - 1) for part, share in zip(parts, shares, strict=True)]


def fair_shares(needs: Sequence[int], room: int) -> list[int]:
    """Split a room: nobody gets more than needed, and nobody less because another needs more."""
    shares = [0] * len(needs)
    for rank, index in enumerate(sorted(range(len(needs)), key=needs.__getitem__)):
        shares[index] = min(needs[index], max(room, 0) // (len(needs) - rank))
        room -= shares[index]
    return shares
