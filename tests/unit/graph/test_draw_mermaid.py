"""A workflow for Mermaid."""

import re
from collections.abc import Callable, Iterable

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from pipeline.graph.export import draw_mermaid
from pipeline.language.model import Workflow

LABEL = r'"(?:[^"#<>`;\\{}\[\]|&\n]|#\d+;|<br/>)*"'
ROW = re.compile(
    rf"flowchart TD|---|title: .*|    start\(\( \)\):::start|    start --> n\d+"
    rf"| +n\d+[\[({{/]{{1,2}}{LABEL}[\])}}\\]{{1,2}}:::\w+"
    rf"|    subgraph n\d+\[{LABEL}\]|        direction LR|    end|    class n\d+ \w+"
    rf"|    n\d+ (?:-->|-\.->)(?:\|{LABEL}\|)? n\d+|    classDef \w+ [\w:#,. -]+"
)


def test_the_shipped_workflows_are_drawn(shipped: Workflow, snapshot: SnapshotAssertion) -> None:
    """Each as a flowchart with shapes, colours and labels."""
    assert draw_mermaid(shipped) == snapshot


def test_a_workflow_with_errors_is_drawn(crooked: Workflow, snapshot: SnapshotAssertion) -> None:
    """Nothing that the file names is left out."""
    assert draw_mermaid(crooked) == snapshot


def test_text_stays_within_its_quotes(hostile: Workflow) -> None:
    """Nothing an author wrote can be read as Mermaid, Markdown or HTML."""
    drawn = draw_mermaid(hostile)
    assert [row for row in drawn.splitlines() if not ROW.fullmatch(row)] == []
    assert len(drawn) < 10_000


@given(texts=st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_any_text_stays_within_its_quotes(made_of: Callable[[Iterable[str]], Workflow], texts: list[str]) -> None:
    """The same for whatever else there is to write."""
    assert [row for row in draw_mermaid(made_of(texts)).split("\n")[3:-1] if not ROW.fullmatch(row)] == []


def test_five_thousand_stages_are_drawn(chain: Workflow) -> None:
    """A long workflow needs no deep stack."""
    assert draw_mermaid(chain).count(" --> ") == 5000
