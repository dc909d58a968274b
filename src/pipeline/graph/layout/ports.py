"""Where lines meet the upper and lower sides of boxes: near where they come from, and never all in one place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.graph.layout.lanes import Lane
from pipeline.graph.layout.rows import Rows

_APART = 14.0
_SPREAD = 0.36  # how far from the middle of a box lines may meet it, as a part of its width

Stops = Mapping[int, Sequence[int]]
Wish = tuple[int, float, int]  # an item, the x its line comes from, the line


@dataclass(frozen=True, slots=True)
class Ports:
    """The x at which each line leaves the box above and enters the box below, by link."""

    leaving: Mapping[int, float]
    entering: Mapping[int, float]


def ports(rows: Rows, x: Sequence[float], stops: Stops, lanes: Sequence[Lane]) -> Ports:
    """Find a place for every line that meets a box from above or below."""
    leaving = [(chain[0], x[chain[1]], link) for link, chain in stops.items()]
    leaving += [(lane.source, lane.x, lane.link) for lane in lanes if not lane.source_open]
    left = _spread(rows, x, leaving)
    entering = [(last, x[passed[-1]] if passed else left[link], link) for link, (_, *passed, last) in stops.items()]
    entering += [(lane.target, lane.x, lane.link) for lane in lanes if not lane.target_open]
    return Ports(left, _spread(rows, x, entering))


def _spread(rows: Rows, x: Sequence[float], wishes: Sequence[Wish]) -> Mapping[int, float]:
    by_box: dict[int, list[tuple[float, int]]] = {}
    for item, wanted, link in wishes:
        by_box.setdefault(item, []).append((wanted, link))
    found: dict[int, float] = {}
    for item, lines in by_box.items():
        reach = rows.items[item].size.width * _SPREAD
        lines.sort()
        places = _apart([wanted for wanted, _ in lines], x[item] - reach, x[item] + reach)
        found |= {link: place for (_, link), place in zip(lines, places, strict=True)}
    return found


def _apart(wanted: Sequence[float], least: float, most: float) -> list[float]:
    gap = min(_APART, (most - least) / max(1, len(wanted) - 1))
    places: list[float] = []
    for x in wanted:
        places.append(max(x, places[-1] + gap if places else least))
    for index in reversed(range(len(places))):
        places[index] = min(places[index], most)
        most = places[index] - gap
    return places
