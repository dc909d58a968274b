"""What a project decides about the findings of a pass."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

CAPS: Mapping[str, int] = MappingProxyType({"file": 25, "changeset": 30, "package": 30, "team": 40})
"""How many findings a report of each scope has room for, where a project wants a limit."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How the findings of a pass are sifted."""

    preset: Literal["default", "strict"] = "default"  # whether a medium finding keeps a change from shipping
    cap: int | None = None  # the most findings of a pass; none are left out for their number when None
    origin: Callable[[str], str] = (
        str  # whose voice a reviewer is: one model with one prompt counts once, "" not at all
    )
    mode: Literal["interactive", "headless"] = "interactive"  # headless, nobody reads the notes of demoted findings
    quote_the_line: bool = False  # a reviewer's first evidence must be a line of the file, or it counts for less
