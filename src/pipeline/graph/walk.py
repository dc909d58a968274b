"""Where the ways of a graph lead. Written out, since loading networkx takes longer than checking a workflow does."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

Ways = Mapping[str, Sequence[str]]  # from each node, where its ways lead


def reached(ways: Ways, starts: Iterable[str], shut: Collection[str] = frozenset()) -> set[str]:
    """The starts, and everything that can be come to from them without going through what is shut."""
    seen = set(starts)
    ahead = list(seen)
    while ahead:
        fresh = [node for node in ways[ahead.pop()] if node not in seen and node not in shut]
        seen.update(fresh)
        ahead += fresh
    return seen


def turned(ways: Ways) -> dict[str, list[str]]:
    """The same ways, walked backwards."""
    back: dict[str, list[str]] = {node: [] for node in ways}
    for node, targets in ways.items():
        for target in targets:
            back[target].append(node)
    return back


def within(ways: Ways, nodes: Collection[str]) -> dict[str, list[str]]:
    """The ways between some of the nodes."""
    return {node: [target for target in ways[node] if target in nodes] for node in nodes}


def cycles(ways: Ways) -> Iterator[set[str]]:
    """The largest groups of nodes each of which can be come to from every other, and from itself."""
    back = turned(ways)
    placed: set[str] = set()
    for node in reversed(left_in_order(ways, ways)):
        if node in placed:
            continue
        group = reached(back, [node], placed)
        placed |= group
        if len(group) > 1 or node in ways[node]:
            yield group


def left_in_order(ways: Ways, starts: Iterable[str]) -> list[str]:
    """The nodes in the order in which a depth-first walk from the starts leaves them for good."""
    seen: set[str] = set()
    order: list[str] = []
    for start in starts:
        if start in seen:
            continue
        seen.add(start)
        trail = [(start, iter(ways[start]))]
        while trail:
            node, ahead = trail[-1]
            target = next((target for target in ahead if target not in seen), None)
            if target is None:
                order.append(node)
                trail.pop()
            else:
                seen.add(target)
                trail.append((target, iter(ways[target])))
    return order


def gatekeepers(ways: Ways, start: str) -> dict[str, str]:
    """Of each node that can be come to, the nearest other one that every way from the start to it goes through.

    The start is its own. The algorithm is Cooper, Harvey and Kennedy's "A Simple, Fast Dominance Algorithm".
    """
    order = left_in_order(ways, [start])
    rank = {node: index for index, node in enumerate(order)}
    before = turned(within(ways, rank))
    above = {start: start}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [other for other in before[node] if other in above]
            meeting = known[0]
            for other in known[1:]:
                meeting = _meeting(above, rank, meeting, other)
            if above.get(node) != meeting:
                above[node] = meeting
                changed = True
    return above


def _meeting(above: Mapping[str, str], rank: Mapping[str, int], one: str, other: str) -> str:
    while one != other:
        while rank[one] < rank[other]:
            one = above[one]
        while rank[other] < rank[one]:
            other = above[other]
    return one
