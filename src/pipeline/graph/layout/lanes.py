"""Lanes at the side of the picture: how lines go around the boxes between their ends, most often the ways back."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.graph.layout.geometry import Link
from pipeline.graph.layout.rows import Rows

LEFT, RIGHT = -1, 1

_GAP = 18.0  # between a lane and what it passes
_WORK = 3_000_000  # rows looked at for all lanes together


@dataclass(frozen=True, slots=True)
class Lane:
    """A line along one side. An end that is open meets its box from the side, else from the strip by its row."""

    link: int
    side: int
    x: float
    source: int  # the items at its ends
    target: int
    label_row: int
    source_open: bool
    target_open: bool


class Lanes:
    """The lanes of a picture, laid from the inside to the outside. `reach` is how far each row extends by side."""

    def __init__(self, rows: Rows, order: Sequence[Sequence[int]], x: Sequence[float], links: Sequence[Link]) -> None:
        self.rows, self.x, self.links = rows, x, links
        self.place = {item: index for row in order for index, item in enumerate(row)}
        self.order = order
        self.reach = {side: [self._extent(row, side) for row in order] for side in (LEFT, RIGHT)}
        boxes = set(rows.box.values())
        self.outermost = {
            LEFT: {next((i for i in row if i in boxes), -1) for row in order},
            RIGHT: {next((i for i in reversed(row) if i in boxes), -1) for row in order},
        }
        self.edge = {side: max(self.reach[side]) for side in (LEFT, RIGHT)}
        self.far = False
        self.lanes = self._laid()

    def _extent(self, row: Sequence[int], side: int) -> float:
        items = self.rows.items
        reach = (self.x[i] * side + (items[i].right if side == RIGHT else items[i].left) for i in row)
        return max(reach, default=float("-inf"))

    def _laid(self) -> list[Lane]:
        around = sorted(self.rows.around, key=self._span)
        self.far = sum(map(self._span, around)) > _WORK
        return [self._lay(index) for index in around]

    def _span(self, index: int) -> int:
        source, target = self._ends(index)
        return abs(self.rows.items[source].row - self.rows.items[target].row)

    def _ends(self, index: int) -> tuple[int, int]:
        link = self.links[index]
        return self.rows.box[link.source], self.rows.box[link.target]

    def _lay(self, index: int) -> Lane:
        source, target = self._ends(index)
        here, there = self.rows.items[source].row, self.rows.items[target].row
        label_row = here - 1 if there < here else here + 1
        side = min((RIGHT, LEFT), key=lambda side: self._cost(source, target, side))
        x = self._take(side, min(here, there), max(here, there), label_row, self.links[index].label.width / 2)
        opened = (self._open(source, side), self._open(target, side))
        return Lane(index, side, x * side, source, target, label_row, *opened)

    def _cost(self, source: int, target: int, side: int) -> tuple[int, int, float]:
        """How little a side suits a line: boxes in the way, lines in the way, the distance to go."""
        closed = sum(not self._open(item, side) for item in (source, target))
        crossed = sum(self._beyond(item, side) for item in (source, target))
        away = sum(self.reach[side][self.rows.items[item].row] - self.x[item] * side for item in (source, target))
        return closed, crossed, away

    def _open(self, item: int, side: int) -> bool:
        looping = self.rows.items[item].right > self.rows.items[item].left and side == RIGHT
        return item in self.outermost[side] and not looping

    def _beyond(self, item: int, side: int) -> int:
        row = self.order[self.rows.items[item].row]
        return self.place[item] if side == LEFT else len(row) - 1 - self.place[item]

    def _take(self, side: int, first: int, last: int, label_row: int, half: float) -> float:
        """Room for a line past these rows, in the direction of the side."""
        reach = self.reach[side]
        if self.far:
            x = self.edge[side] + _GAP + half
        else:
            x = max(max(reach[first : last + 1]) + _GAP, reach[label_row] + _GAP + half)
            reach[first : last + 1] = [x] * (last + 1 - first)
            reach[label_row] = x + half
        self.edge[side] = max(self.edge[side], x + half)
        return x
