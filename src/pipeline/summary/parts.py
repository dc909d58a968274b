"""The kinds of parts that a summary has, each with its own way to be shortened.

A text is cut where no quotation stays open, and a note says how much is missing. Entries that do not fit are counted.
"""

from collections.abc import Sequence

from pipeline.text import close_fence, fence, longest_run, sanitize_prompt, start_that_fits
from pipeline.text.budget import Part, fit

_SHORTEST_QUOTE = 40  # characters of a text below which the note alone is shown


def cut_note(count: int, things: str = "characters") -> str:
    """The note where something was cut."""
    return f"[cut: {count:,} more {things}]"


def quoted(label: str, text: str, limit: int | None = None) -> Part:
    """A label above a sanitized text in a fence, of which at most `limit` characters are shown."""
    opening = f"{label}\n\n" if label else ""

    def shorten(room: int) -> str:
        note = cut_note(len(text))
        kept = start_that_fits(text, room - len(opening) - len(note) - 2)
        if len(kept) < min(_SHORTEST_QUOTE, len(text)):
            bare = f"{opening}{note}\n"
            return bare if len(bare) <= room else ""
        return f"{opening}{fence(kept)}\n{cut_note(len(text) - len(kept))}\n"

    if limit is not None and len(text) > limit:
        return Part(f"{opening}{fence(text[:limit])}\n{cut_note(len(text) - limit)}\n", shorten)
    return Part(f"{opening}{fence(text)}\n", shorten)


def prose(text: str) -> Part:
    """A text with markdown of its own, in which no fence stays open."""
    text = sanitize_prompt(text)

    def shorten(room: int) -> str:
        kept = room - len(cut_note(len(text))) - longest_run(text) - 3
        if kept < _SHORTEST_QUOTE:
            return ""
        return f"{close_fence(text[:kept].rstrip())}\n\n{cut_note(len(text) - kept)}"

    return Part(close_fence(text), shorten)


def section(heading: str, parts: Sequence[Part], *, things: str, newest_last: bool = False, omitted: int = 0) -> Part:
    """Parts below a heading. Without room for all, the last ones are dropped, or the first if the newest are last.

    `omitted` counts parts that were not even built because there could be no room for them.
    """
    opening = f"{heading}\n\n"
    count = len(parts) + omitted
    ordered = parts[::-1] if newest_last else parts
    bare = len(opening) + len(cut_note(count, things)) + 1

    def shorten(room: int) -> str:
        lines = [text for text in fit(ordered, room - bare, gap=1) if text]
        if not lines:
            return ""
        if len(lines) < count:
            lines.append(cut_note(count - len(lines), things))
        return opening + "\n".join(lines[::-1] if newest_last else lines).rstrip()

    whole = opening + "\n".join(part.longest for part in parts).rstrip()
    return Part(whole, shorten, least=bare + sum(part.shortest + 1 for part in ordered[:1]))
