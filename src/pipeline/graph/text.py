"""A workflow as plain text: the stages in the order of the flow, each with its ways out."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from pipeline.graph.chart import Arrow, Chart, ChartNode, chart, clean, columns, shorten
from pipeline.language.model import Workflow

_SIGNS = {
    "llm": "○",
    "tool": "□",
    "human": "△",
    "decision": "◇",
    "triage": "▽",
    "parallel": "≡",
    "workspace": "⌥",
    "exit": "●",
    "missing": "?",
}
_LONGEST = 36  # columns of a name or a label
_LEAST = 24  # a narrower picture says nothing


def draw_text(workflow: Workflow, width: int = 80) -> str:
    """The picture, no wider than so many columns."""
    width = max(width, _LEAST)
    drawn = chart(workflow)
    rows = [*_heading(drawn, width), "", *_Sheet(drawn, width).rows()]
    return "\n".join(row.rstrip() for row in rows) + "\n"


def _heading(drawn: Chart, width: int) -> Iterator[str]:
    yield shorten(drawn.name, width)
    described = wrap(shorten(drawn.description, 3 * width), width, break_on_hyphens=False)
    yield from (shorten(row, width) for row in described)


class _Sheet:
    """A chart about to be written, and where its second column begins."""

    def __init__(self, drawn: Chart, width: int) -> None:
        self.drawn, self.width, self.ways = drawn, width, drawn.ways
        names = [columns(clean(node.id)) + 4 * (node.id in drawn.holder) for node in drawn.every]
        labels = [columns(_label(line)) + 2 for line in drawn.lines]  # a stroke and a gap more than a name has
        self.second = 4 + min(_LONGEST, width // 2, max(*names, *labels, 0) + 1)

    def rows(self) -> Iterator[str]:
        """Stage by stage; a lone way to the stage below is a line down to it."""
        nodes = self.drawn.nodes
        for node, after in zip(nodes, (*nodes[1:], None), strict=True):
            yield self._stage(node, "")
            yield from self._branches(node)
            yield from self._onward(node, after)

    def _stage(self, node: ChartNode, indent: str) -> str:
        name = shorten(clean(node.id), self.second - len(indent) - 4)
        about = node.about if node.id != self.drawn.start else f"{node.about} · start"
        row = f"{indent}{_SIGNS[node.family]} {name}"
        return shorten(f"{row}{' ' * (self.second - columns(row))}{about if name != about else ''}", self.width)

    def _branches(self, node: ChartNode) -> Iterator[str]:
        for inner in node.inner:
            last = inner is node.inner[-1]
            yield self._stage(inner, "│ ╰ " if last else "│ ├ ")
            yield from (f"│   {row}" for row in self._ways(self.ways.get(inner.id, ()), 4))

    def _onward(self, node: ChartNode, after: ChartNode | None) -> Iterator[str]:
        ways = self.ways.get(node.id, ())
        if after and len(ways) == 1 and ways[0].target == after.id and not ways[0].labels:
            yield "│"
            return
        yield from self._ways(ways, 0)
        if after:
            yield ""

    def _ways(self, ways: Sequence[Arrow], indent: int) -> Iterator[str]:
        for line in ways:
            yield self._way(line, indent, last=line is ways[-1])

    def _way(self, line: Arrow, indent: int, *, last: bool) -> str:
        stroke = "┄" if line.dashed else "─"
        second = self.second - indent
        label = shorten(_label(line), second - 7)
        lead = f"{'╰' if last else '├'}{stroke}{f' {label} ' if label else stroke * 2}"
        arrow = f"{stroke * (second - 2 - columns(lead))}{'↩' if line.back else '→'} "
        return shorten(f"{lead}{arrow}{clean(line.target)}", self.width - indent)


def _label(line: Arrow) -> str:
    return " / ".join(line.labels)
