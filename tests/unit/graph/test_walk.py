"""Where ways lead, held against networkx."""

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from pipeline.graph.analysis import Successors, dominators, find_cycles, reachable_from, reversed_edges, subgraph

NODES = "abcdefgh"
WAYS = st.fixed_dictionaries({node: st.lists(st.sampled_from(NODES), max_size=3, unique=True) for node in NODES})


def oracle(ways: Successors) -> "nx.DiGraph[str]":
    """The same graph there."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(ways)
    graph.add_edges_from((node, target) for node, targets in ways.items() for target in targets)
    return graph


@given(WAYS, st.sets(st.sampled_from(NODES)))
def test_what_can_be_reached(ways: Successors, starts: set[str]) -> None:
    """The starts and all their descendants."""
    assert reachable_from(ways, starts) == starts.union(*(nx.descendants(oracle(ways), start) for start in starts))


@given(WAYS)
def test_ways_turn_round(ways: Successors) -> None:
    """Every way is found once at its other end, and twice turned is as it was."""
    assert set(oracle(reversed_edges(ways)).edges) == {(target, node) for node, target in oracle(ways).edges}
    assert oracle(reversed_edges(reversed_edges(ways))).edges == oracle(ways).edges


@given(WAYS, st.sets(st.sampled_from(NODES)))
def test_ways_within_some_nodes(ways: Successors, nodes: set[str]) -> None:
    """Only ways between two of them are left."""
    assert set(oracle(subgraph(ways, nodes)).edges) == set(oracle(ways).subgraph(nodes).edges)


@given(WAYS)
def test_cycles_are_the_components_that_lead_back(ways: Successors) -> None:
    """Strongly connected components, without single nodes that do not lead to themselves."""
    graph = oracle(ways)
    components = nx.strongly_connected_components(graph)
    expected = [component for component in components if nx.number_of_edges(graph.subgraph(component))]
    assert sorted(map(sorted, find_cycles(ways))) == sorted(map(sorted, expected))


@given(WAYS, st.sampled_from(NODES))
def test_gatekeepers_are_the_immediate_dominators(ways: Successors, start: str) -> None:
    """The start is its own; every other reachable node has the one networkx gives it."""
    expected = dict(nx.immediate_dominators(oracle(ways), start))
    expected[start] = start  # some versions leave it out, some say None
    assert dominators(ways, start) == expected
