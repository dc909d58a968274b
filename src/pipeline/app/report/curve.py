"""The rounds of a run as a picture: what is outstanding as a line, what came and went as bars. The page colours it."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pipeline.app.report.markup import Markup, joined, tag, text
from pipeline.app.report.model import RoundCounts

_WIDE, _HIGH = 640, 200
_LEFT, _TOP, _BOTTOM = 36, 16, 168
_LABELS = 16  # rounds, from which on not each of them gets a label


def curve(rounds: Sequence[RoundCounts]) -> Markup:
    """The picture; its words say what it shows to those who cannot see it."""
    said = ", ".join(f"round {one.number}: {one.outstanding}" for one in rounds)
    box = f"0 0 {_WIDE} {_HIGH}"
    inside = joined([*_grid(rounds), *_bars(rounds), *_line(rounds), *_labels(rounds)])
    return tag("svg", inside, viewBox=box, role="img", aria_label=f"Findings outstanding, {said}", class_="curve")


def _most(rounds: Sequence[RoundCounts]) -> int:
    return max(1, *(max(one.outstanding, one.new, one.resolved) for one in rounds))


def _x(place: int, count: int) -> float:
    return round(_LEFT + (_WIDE - _LEFT) * (place + 0.5) / count, 1)


def _y(number: int, most: int) -> float:
    return round(_BOTTOM - (_BOTTOM - _TOP) * number / most, 1)


def _grid(rounds: Sequence[RoundCounts]) -> Iterator[Markup]:
    most = _most(rounds)
    for number in sorted({0, most // 2, most}):
        y = _y(number, most)
        yield tag("line", x1=_LEFT, x2=_WIDE, y1=y, y2=y, class_="grid")
        yield tag("text", text(number), x=_LEFT - 8, y=y + 4, text_anchor="end")


def _bars(rounds: Sequence[RoundCounts]) -> Iterator[Markup]:
    most, count = _most(rounds), len(rounds)
    wide = round(min(18.0, (_WIDE - _LEFT) / count / 3), 1)
    for place, one in enumerate(rounds):
        for number, kind, shift in ((one.new, "new", -wide), (one.resolved, "resolved", 0.0)):
            y = _y(number, most)
            x, high = round(_x(place, count) + shift, 1), round(_BOTTOM - y, 1)
            yield tag("rect", x=x, y=y, width=wide, height=high, class_=kind)


def _line(rounds: Sequence[RoundCounts]) -> Iterator[Markup]:
    most, count = _most(rounds), len(rounds)
    points = [(_x(place, count), _y(one.outstanding, most)) for place, one in enumerate(rounds)]
    for (x1, y1), (x2, y2) in pairwise(points):
        yield tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="outstanding")
    yield from (tag("circle", cx=x, cy=y, r=3.5, class_="outstanding") for x, y in points)


def _labels(rounds: Sequence[RoundCounts]) -> Iterator[Markup]:
    every = -(-len(rounds) // _LABELS)
    for place, one in list(enumerate(rounds))[::every]:
        yield tag("text", text(one.number), x=_x(place, len(rounds)), y=_BOTTOM + 20, text_anchor="middle")
