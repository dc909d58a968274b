"""A workflow for Mermaid and for Graphviz."""

import re
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pipeline.graph.export import draw_dot, draw_mermaid
from pipeline.language.model import Workflow

LABEL = r'"(?:[^"#<>`;\\{}\[\]|&\n]|#\d+;|<br/>)*"'
MERMAID_ROW = re.compile(
    rf"flowchart TD|---|title: .*|    start\(\( \)\):::start|    start --> n\d+"
    rf"| +n\d+[\[({{/]{{1,2}}{LABEL}[\])}}\\]{{1,2}}:::\w+"
    rf"|    subgraph n\d+\[{LABEL}\]|        direction LR|    end|    class n\d+ \w+"
    rf"|    n\d+ (?:-->|-\.->)(?:\|{LABEL}\|)? n\d+|    classDef \w+ [\w:#,. -]+"
)
VALUE = r'(?:"(?:[^"\\\n]|\\.)*"|[\w.]+)'
ATTRIBUTES = rf"\[\w+={VALUE}(?:, \w+={VALUE})*\]"
DOT_ROW = re.compile(
    rf"digraph workflow {{| *}}| +subgraph cluster_n\d+ {{| +(?:\w+={VALUE}; ?)+"
    rf"| +(?:graph|node|edge|start|n\d+) {ATTRIBUTES};| +\w+ -> n\d+(?: {ATTRIBUTES})?;"
)
TEXTS = st.lists(st.text(max_size=40), min_size=1, max_size=5)
Make = Callable[[Iterable[str]], Workflow]


def test_mermaid_of_the_shipped_workflows(shipped: Workflow, snapshot: SnapshotAssertion) -> None:
    """Each is a flowchart with shapes, colors and labels."""
    assert draw_mermaid(shipped) == snapshot


def test_mermaid_of_a_workflow_with_errors(crooked: Workflow, snapshot: SnapshotAssertion) -> None:
    """Nothing that the file names is left out."""
    assert draw_mermaid(crooked) == snapshot


def test_mermaid_of_a_triage(triage: Workflow) -> None:
    """It has a shape of its own, and both transitions are labeled."""
    rows = draw_mermaid(triage).splitlines()
    assert '    n0[\\"sort<br/>triage"/]:::kind_triage' in rows
    assert {'    n0 -->|"apply"| n1', '    n0 -->|"done"| n2'} <= set(rows)


def test_hostile_text_stays_in_mermaid_quotes(hostile: Workflow) -> None:
    """No text of an author is read as Mermaid, Markdown or HTML, and its length is bounded."""
    drawn = draw_mermaid(hostile)
    assert [row for row in drawn.splitlines() if not MERMAID_ROW.fullmatch(row)] == []
    assert len(drawn) < 10_000


@given(texts=TEXTS)
def test_any_text_stays_in_mermaid_quotes(made_of: Make, texts: list[str]) -> None:
    """The same holds for any text."""
    assert [row for row in draw_mermaid(made_of(texts)).split("\n")[3:-1] if not MERMAID_ROW.fullmatch(row)] == []


def test_dot_of_the_shipped_workflows(shipped: Workflow, snapshot: SnapshotAssertion) -> None:
    """Each has the shapes, colors and labels of its stages."""
    assert draw_dot(shipped) == snapshot


def test_dot_of_a_workflow_with_errors(crooked: Workflow, snapshot: SnapshotAssertion) -> None:
    """Nothing that the file names is left out."""
    assert draw_dot(crooked) == snapshot


def test_dot_of_a_triage(triage: Workflow) -> None:
    """It has a shape of its own, and both transitions are labeled."""
    drawn = draw_dot(triage)
    assert "shape=invtrapezium" in drawn
    assert 'n0 -> n1 [label="apply"];' in drawn
    assert 'n0 -> n2 [label="done"];' in drawn


def test_hostile_text_stays_in_dot_quotes(hostile: Workflow) -> None:
    """No text of an author is read as Graphviz, and its length is bounded."""
    drawn = draw_dot(hostile)
    assert [row for row in drawn.splitlines() if not DOT_ROW.fullmatch(row)] == []
    assert len(drawn) < 20_000


@given(texts=TEXTS)
def test_any_text_stays_in_dot_quotes(made_of: Make, texts: list[str]) -> None:
    """The same holds for any text."""
    assert [row for row in draw_dot(made_of(texts)).split("\n")[:-1] if not DOT_ROW.fullmatch(row)] == []
