"""Where a claim says that it is: a path of the repository, or the reason why it is refused.

No path leaves this module that leads out of the repository by its own words. What links do is for `files` to see.
"""

import re
from dataclasses import dataclass

LONGEST = 4096  # characters of a path
_SHOWN = 80
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_ABSOLUTE = re.compile(r"/|~(?:/|$)|[A-Za-z]:|file:")
_ADDRESS = re.compile(r"https?://")


@dataclass(frozen=True, slots=True)
class PathRefused:
    """Why something is not taken in."""

    reason: str


def normalise(path: str, *, work_item: bool = False) -> str | PathRefused:
    """A path with single forward slashes, from the root of the repository. A work item may be an address too."""
    if reason := _fault(path):
        return PathRefused(f"the path {shown(path)} {reason}")
    if work_item and _ADDRESS.match(path):
        return path
    posix = path.replace("\\", "/")
    if _ABSOLUTE.match(posix):
        return PathRefused(f"the path {shown(path)} is absolute: give it from the root of the repository")
    parts = _walked(posix)
    if parts is None:
        return PathRefused(f"the path {shown(path)} leads out of the repository")
    return "/".join(parts) or "."


def shown(text: str) -> str:
    """A text from outside as it stands in a message: quoted, on one line, and not long."""
    return ascii(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def _fault(path: str) -> str:
    if not path.strip():
        return "is empty: name a file"
    if len(path) > LONGEST:
        return f"is longer than {LONGEST} characters"
    return "holds a character that no text has" if _CONTROL.search(path) else ""


def _walked(posix: str) -> list[str] | None:
    """The parts of a path without detours; None when it goes above where it begins."""
    parts: list[str] = []
    for part in posix.split("/"):
        if part == ".." and not parts:
            return None
        if part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return parts
