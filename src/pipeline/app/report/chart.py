"""The picture of the rounds: what is outstanding as a line, what is new and what is resolved as bars.

A chart holds numbers only, in the units of the picture; the template of the page draws it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pipeline.findings.rounds import Round

_WIDTH, _HEIGHT = 640, 200
_LEFT, _TOP, _BOTTOM = 36, 16, 168  # where the numbers on the left end, and between which heights the counts are
_WIDEST_BAR = 18.0
_MAX_LABELS = 16  # with more rounds than this, not every round gets a label


@dataclass(frozen=True, slots=True)
class Stroke:
    """A line of the grid, or a part of the curve."""

    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True, slots=True)
class Bar:
    """How many findings of a kind a round has."""

    x: float
    y: float
    width: float
    height: float
    kind: str


@dataclass(frozen=True, slots=True)
class Dot:
    """How many findings are outstanding after a round."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Label:
    """A number beside an axis."""

    x: float
    y: float
    anchor: str
    number: int


@dataclass(frozen=True, slots=True)
class RoundsChart:
    """A picture, and the same in words for those who cannot see it."""

    grid: tuple[Stroke, ...]
    bars: tuple[Bar, ...]
    curve: tuple[Stroke, ...]
    dots: tuple[Dot, ...]
    labels: tuple[Label, ...]
    words: str
    width: int = _WIDTH
    height: int = _HEIGHT


def draw_rounds(rounds: Sequence[Round]) -> RoundsChart:
    """Return the picture of one or more rounds."""
    most = max(1, *(max(len(one.outstanding), len(one.new), len(one.resolved)) for one in rounds))
    slot = (_WIDTH - _LEFT) / len(rounds)
    bar_width = round(min(_WIDEST_BAR, slot / 3), 1)

    def height_of(count: int) -> float:
        return round(_BOTTOM - (_BOTTOM - _TOP) * count / most, 1)

    def bar(left: float, count: int, kind: str) -> Bar:
        top = height_of(count)
        return Bar(round(left, 1), top, bar_width, round(_BOTTOM - top, 1), kind)

    counts = sorted({0, most // 2, most})
    dots = [
        Dot(round(_LEFT + slot * (place + 0.5), 1), height_of(len(one.outstanding))) for place, one in enumerate(rounds)
    ]
    bars = list[Bar]()
    for dot, one in zip(dots, rounds, strict=True):
        bars.append(bar(dot.x - bar_width, len(one.new), "new"))
        bars.append(bar(dot.x, len(one.resolved), "resolved"))
    labels = [Label(_LEFT - 8, height_of(count) + 4, "end", count) for count in counts]
    step = -(-len(rounds) // _MAX_LABELS)  # rounded up: 40 rounds have a label at every third
    for dot, one in list(zip(dots, rounds, strict=True))[::step]:
        labels.append(Label(dot.x, _BOTTOM + 20, "middle", one.number))
    return RoundsChart(
        grid=tuple(Stroke(_LEFT, height_of(count), _WIDTH, height_of(count)) for count in counts),
        bars=tuple(bars),
        curve=tuple(Stroke(one.x, one.y, other.x, other.y) for one, other in pairwise(dots)),
        dots=tuple(dots),
        labels=tuple(labels),
        words=", ".join(f"round {one.number}: {len(one.outstanding)}" for one in rounds),
    )
