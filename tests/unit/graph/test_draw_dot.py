"""A workflow for Graphviz."""

import re
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pipeline.graph.export import draw_dot
from pipeline.language.model import Workflow

VALUE = r'(?:"(?:[^"\\\n]|\\.)*"|[\w.]+)'
ATTRIBUTES = rf"\[\w+={VALUE}(?:, \w+={VALUE})*\]"
ROW = re.compile(
    rf"digraph workflow {{| *}}| +subgraph cluster_n\d+ {{| +(?:\w+={VALUE}; ?)+"
    rf"| +(?:graph|node|edge|start|n\d+) {ATTRIBUTES};| +\w+ -> n\d+(?: {ATTRIBUTES})?;"
)


def test_the_shipped_workflows_are_drawn(shipped: Workflow, snapshot: SnapshotAssertion) -> None:
    """Each with the shapes, colours and labels of its stages."""
    assert draw_dot(shipped) == snapshot


def test_a_workflow_with_errors_is_drawn(crooked: Workflow, snapshot: SnapshotAssertion) -> None:
    """Nothing that the file names is left out."""
    assert draw_dot(crooked) == snapshot


def test_text_stays_within_its_quotes(hostile: Workflow) -> None:
    """Nothing an author wrote can be read as Graphviz."""
    drawn = draw_dot(hostile)
    assert [row for row in drawn.splitlines() if not ROW.fullmatch(row)] == []
    assert len(drawn) < 20_000


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_any_text_stays_within_its_quotes(made_of: Callable[[Iterable[str]], Workflow], texts: list[str]) -> None:
    """The same for whatever else there is to write."""
    assert [row for row in draw_dot(made_of(texts)).split("\n")[:-1] if not ROW.fullmatch(row)] == []


def test_five_thousand_stages_are_drawn(chain: Workflow) -> None:
    """A long workflow needs no deep stack."""
    assert draw_dot(chain).count(" -> ") == 5000
