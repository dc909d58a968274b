"""A workflow as plain text: the stages in the order of the flow, each with its outgoing arrows."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pipeline.graph.chart import Arrow, Chart, ChartNode, build_chart
from pipeline.language.model import Workflow
from pipeline.text import display_width, pad, sanitize_line, truncate, wrap

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
_WIDTH = 80
_MAX_NAME = 36  # columns of a name or a label


def draw_text(workflow: Workflow) -> str:
    """Draw a workflow for a terminal of 80 columns."""
    return "\n".join(row.rstrip() for row in _TextDrawing(build_chart(workflow)).rows()) + "\n"


class _TextDrawing:
    """Two columns: names and labels in the first, kinds and targets in the second."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.leaving: dict[str, list[Arrow]] = defaultdict(list)
        for arrow in chart.arrows:
            self.leaving[arrow.source].append(arrow)
        names = [display_width(sanitize_line(node.id)) + 4 * (node.id in chart.containers) for node in chart.all_nodes]
        labels = [display_width(" / ".join(arrow.labels)) + 2 for arrow in chart.arrows]
        self.second = 4 + min(_MAX_NAME, max(*names, *labels, 0) + 1)

    def rows(self) -> Iterator[str]:
        """Yield the heading, then stage by stage; a lone arrow without a label is a line to the stage below."""
        yield truncate(self.chart.name, _WIDTH)
        description = truncate(self.chart.description, 3 * _WIDTH)
        yield from (truncate(row, _WIDTH) for row in wrap(description, _WIDTH))
        yield from (truncate(f"input {usage}", _WIDTH) for usage in self.chart.inputs)
        yield ""
        nodes = self.chart.nodes
        for node, following in zip(nodes, (*nodes[1:], None), strict=True):
            yield self._stage(node)
            for branch in node.branches:
                yield self._stage(branch, "│ ╰ " if branch is node.branches[-1] else "│ ├ ")
                yield from (f"│   {row}" for row in self._arrows(self.leaving[branch.id], indent=4))
            arrows = self.leaving[node.id]
            if following and [(arrow.target, arrow.labels) for arrow in arrows] == [(following.id, ())]:
                yield "│"
            else:
                yield from self._arrows(arrows)
                if following:
                    yield ""

    def _stage(self, node: ChartNode, indent: str = "") -> str:
        name = truncate(sanitize_line(node.id), self.second - len(indent) - 4)
        subtitle = node.subtitle if node.id != self.chart.start else f"{node.subtitle} · start"
        row = f"{indent}{_SIGNS[node.family]} {name}"
        return truncate(pad(row, self.second) + (subtitle if subtitle != name else ""), _WIDTH)

    def _arrows(self, arrows: Sequence[Arrow], indent: int = 0) -> Iterator[str]:
        second = self.second - indent
        for arrow in arrows:
            stroke = "┄" if arrow.dashed else "─"
            label = truncate(" / ".join(arrow.labels), second - 7)
            row = f"{'╰' if arrow is arrows[-1] else '├'}{stroke}{f' {label} ' if label else stroke * 2}"
            row += f"{stroke * (second - 2 - display_width(row))}{'↩' if arrow.back else '→'} "
            yield truncate(row + sanitize_line(arrow.target), _WIDTH - indent)
