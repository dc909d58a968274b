"""The sizes, places and lines a layout is asked for and answers with. The y axis points down."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Size(NamedTuple):
    """How much room something takes."""

    width: float
    height: float


NOTHING = Size(0, 0)


class Point(NamedTuple):
    """A place."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle by its upper left corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of its right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The y of its lower side."""
        return self.y + self.height

    @property
    def centre(self) -> Point:
        """Its middle."""
        return Point(self.x + self.width / 2, self.y + self.height / 2)

    def overlaps(self, other: "Box") -> bool:
        """Whether the two share more than an edge."""
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom


def around(middle: Point, size: Size) -> Box:
    """The box of a size around a point."""
    return Box(middle.x - size.width / 2, middle.y - size.height / 2, size.width, size.height)


@dataclass(frozen=True, slots=True)
class Link:
    """A line to be led from one box to another, with room for its label."""

    source: str
    target: str
    label: Size = NOTHING


@dataclass(frozen=True, slots=True)
class Route:
    """How a line runs: straight where two points share a coordinate, else bent within the rectangle they span."""

    points: tuple[Point, ...]
    label: Box | None
    back: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """A finished arrangement: every box in its place, and one route for each link, in their order."""

    size: Size
    boxes: Mapping[str, Box]
    routes: tuple[Route, ...]
