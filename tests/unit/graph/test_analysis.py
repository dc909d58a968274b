"""What can be reached and what loops; the algorithms are compared with networkx."""

import networkx as nx
from hypothesis import given
from hypothesis import strategies as st

from pipeline.graph.analysis import (
    Graph,
    Successors,
    build_graph,
    find_cycles,
    reachable_from,
    reversed_edges,
    subgraph,
)
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText

NODES = "abcdefgh"
GRAPHS = st.fixed_dictionaries({node: st.lists(st.sampled_from(NODES), max_size=3, unique=True) for node in NODES})

TEXT = """workflow "W" {
  version 2
  start "a"
  stage "a" kind="tool" command="x" retry_target="b"
  stage "b" kind="parallel" { branch "p"; branch "q"; }
  stage "p" kind="tool" command="x"
  stage "q" kind="tool" command="x"
  stage "c" kind="decision" {
    route when="findings() > 0" to="a"
    route when="true" to="end"
  }
  stage "self" kind="tool" command="x"
  stage "end" kind="exit"
  transition from="a" to="b"
  transition from="b" to="c"
  transition from="self" to="self"
}
"""


def graph_of(text: str = TEXT) -> Graph:
    workflow = parse_workflow(SourceText("test", text)).workflow
    assert workflow is not None
    return build_graph(workflow)


def test_branches_are_reached_through_their_parallel_stage() -> None:
    """A stage without a transition to it is not reachable."""
    assert graph_of().reachable == {"a", "b", "p", "q", "c", "end"}
    assert graph_of().owners == {"p": {"b"}, "q": {"b"}}


def test_stages_that_can_exit() -> None:
    """Every stage before an exit counts; one that only leads to itself does not."""
    assert graph_of().can_exit == {"a", "b", "c", "end"}


def test_loops_are_groups_of_stages_in_the_order_of_the_file() -> None:
    """A cycle through several stages and a stage that leads to itself are loops."""
    assert graph_of().loops == (("a", "b", "c"), ("self",))


def test_a_mistyped_target_counts_as_the_intended_stage() -> None:
    """One typing error does not make half of the file unreachable."""
    mistyped = TEXT.replace('start "a"', 'start "aa"').replace('to="c"', 'to="cc"')
    assert graph_of(mistyped).reachable == graph_of().reachable


def in_networkx(graph: Successors) -> "nx.DiGraph[str]":
    """The same graph in networkx."""
    other: nx.DiGraph[str] = nx.DiGraph()
    other.add_nodes_from(graph)
    other.add_edges_from((node, target) for node, targets in graph.items() for target in targets)
    return other


@given(GRAPHS, st.sets(st.sampled_from(NODES)), st.sets(st.sampled_from(NODES)))
def test_reachable_nodes(graph: Successors, starts: set[str], blocked: set[str]) -> None:
    """The starts and all their descendants are reachable, in the graph without the blocked nodes."""
    allowed = in_networkx(graph).subgraph(set(NODES) - blocked)
    expected = (starts - blocked).union(*(nx.descendants(allowed, start) for start in starts - blocked))
    assert reachable_from(graph, starts, blocked) == expected


@given(GRAPHS)
def test_reversed_edges(graph: Successors) -> None:
    """Every edge is turned around, and turned twice it is as before."""
    turned = reversed_edges(graph)
    assert set(in_networkx(turned).edges) == {(target, node) for node, target in in_networkx(graph).edges}
    assert in_networkx(reversed_edges(turned)).edges == in_networkx(graph).edges


@given(GRAPHS, st.sets(st.sampled_from(NODES)))
def test_subgraph(graph: Successors, nodes: set[str]) -> None:
    """Only edges between two of the nodes are left."""
    assert set(in_networkx(subgraph(graph, nodes)).edges) == set(in_networkx(graph).subgraph(nodes).edges)


@given(GRAPHS)
def test_cycles_are_strongly_connected_components(graph: Successors) -> None:
    """Single nodes count only if they lead to themselves."""
    other = in_networkx(graph)
    components = nx.strongly_connected_components(other)
    expected = [component for component in components if nx.number_of_edges(other.subgraph(component))]
    assert sorted(map(sorted, find_cycles(graph))) == sorted(map(sorted, expected))
