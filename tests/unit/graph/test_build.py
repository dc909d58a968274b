"""A workflow as a graph."""

from pipeline.graph.analysis import Graph, build_graph
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText

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


def graph(text: str = TEXT) -> Graph:
    workflow = parse_workflow(SourceText("test", text)).workflow
    assert workflow is not None
    return build_graph(workflow)


def test_the_cursor_reaches_branches_through_their_parallel_stage() -> None:
    """Branches are reached with it; what nothing leads to is not."""
    assert graph().reachable == {"a", "b", "p", "q", "c", "end"}
    assert graph().owners == {"p": {"b"}, "q": {"b"}}


def test_stages_that_can_end_are_known() -> None:
    """Every stage before an exit; not one that only leads to itself."""
    assert graph().can_exit == {"a", "b", "c", "end"}


def test_loops_are_groups_of_stages_in_the_order_of_the_file() -> None:
    """A cycle through several stages and a stage that leads to itself are loops."""
    assert graph().loops == (("a", "b", "c"), ("self",))


def test_a_mistyped_target_counts_as_the_one_that_was_meant() -> None:
    """One typing error does not make half of the file unreachable."""
    assert graph(TEXT.replace('start "a"', 'start "aa"').replace('to="c"', 'to="cc"')).reachable == graph().reachable
