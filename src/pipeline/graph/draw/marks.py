"""What is known of a run, put on the picture of its workflow: classes for a page to colour, and words beside them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.graph.draw.letters import text_width
from pipeline.graph.draw.markup import escape, text
from pipeline.graph.draw.shapes import rectangle
from pipeline.graph.layout.geometry import Box, Point
from pipeline.language.edges import Role

Way = tuple[str, str, Role]  # where a line comes from, where it leads, and as what

_FONT, _HEIGHT = 11.0, 18.0
_BOLD = 1.15  # how much wider bold letters are


@dataclass(frozen=True, slots=True)
class Mark:
    """How a run stands at a stage."""

    css: str
    words: str  # what the pointer is told
    sign: str = ""  # what stands at the corner of the box
    href: str = ""  # where the box leads


@dataclass(frozen=True, slots=True)
class Marks:
    """How a run stands everywhere: at its stages, and how often each way was taken."""

    stages: Mapping[str, Mark] = field(default_factory=dict)
    taken: Mapping[Way, int] = field(default_factory=dict)
    latest: Way | None = None  # the way that was taken last

    def css(self, way: Way) -> str:
        """The classes of a line."""
        return (" taken" if self.taken.get(way) else "") + (" latest" if way == self.latest else "")

    def times(self, way: Way) -> str:
        """How often a way was taken, for its note."""
        times = self.taken.get(way, 0)
        return f" (taken {times} times)" if times > 1 else " (taken once)" if times else ""


NOTHING_KNOWN = Marks()
_UNMARKED = Mark("", "")


def mark_of(marks: Marks, stage: str) -> Mark:
    """The mark of a stage; an empty one where there is none."""
    return marks.stages.get(stage, _UNMARKED)


def draw_sign(mark: Mark, box: Box) -> str:
    """The sign of a mark, across the upper right corner of a box."""
    if not mark.sign:
        return ""
    width = text_width(mark.sign, _FONT) * _BOLD + 14
    place = Box(box.right - width + 6, box.y - _HEIGHT / 2, width, _HEIGHT)
    words = text(mark.sign, Point(place.centre.x, place.centre.y + 4), "sign-words")
    return f'<g class="badge">{rectangle(place, _HEIGHT / 2, "plate")}{words}</g>'


def linked(drawn: str, mark: Mark) -> str:
    """A drawing that leads where its mark says."""
    return f'<a href="{escape(mark.href)}">{drawn}</a>' if mark.href else drawn
