"""A workflow for Graphviz."""

from collections.abc import Iterator, Mapping

from pipeline.graph.draw.chart import LONGEST, Chart, Node, chart, said
from pipeline.graph.draw.palette import LIGHT, LIGHT_PAGE
from pipeline.graph.draw.wording import clean, shorten
from pipeline.language.model import Workflow

_SHAPES = {
    "llm": 'shape=box, style="rounded,filled"',
    "tool": 'shape=component, style="filled"',
    "human": 'shape=octagon, style="filled"',
    "decision": 'shape=hexagon, style="filled"',
    "triage": 'shape=invtrapezium, style="filled"',
    "parallel": 'shape=box, style="rounded,filled"',
    "workspace": 'shape=cylinder, style="filled"',
    "exit": 'shape=box, style="rounded,filled,bold", peripheries=2',
    "missing": 'shape=box, style="dashed,filled"',
}
_HEADER = (
    "    compound=true; rankdir=TB; labelloc=t; nodesep=0.4; ranksep=0.5;",
    '    graph [fontname="Helvetica", fontsize=16];',
    '    node [fontname="Helvetica", fontsize=12, margin="0.2,0.1"];',
    f'    edge [fontname="Helvetica", fontsize=10, color="{LIGHT_PAGE.line}", fontcolor="{LIGHT_PAGE.ink}"];',
    '    start [label="", shape=circle, style=filled, fillcolor="#0f172a", width=0.2];',
)


def draw_dot(workflow: Workflow) -> str:
    """The graph. Names are n0, n1 …; a parallel stage is a cluster of its branches."""
    drawn = chart(workflow)
    names = {node.id: f"n{index}" for index, node in enumerate(drawn.every)}
    title = f"    label={_quoted(shorten(drawn.name, 200))};"
    rows = ["digraph workflow {", title, *_HEADER, *_nodes(drawn, names), *_lines(drawn, names), "}"]
    return "\n".join(rows) + "\n"


def _nodes(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    for node in drawn.nodes:
        if not node.inner:
            yield f"    {_node(node, names)}"
            continue
        paint = LIGHT[node.family]
        yield f"    subgraph cluster_{names[node.id]} {{"
        yield f"        label={_label(node)}; fontsize=12;"
        yield f'        style="rounded,filled"; fillcolor="{paint.fill}"; color="{paint.stroke}";'
        yield from (f"        {_node(inner, names)}" for inner in node.inner)
        yield "    }"


def _node(node: Node, names: Mapping[str, str]) -> str:
    paint = LIGHT[node.family]
    colours = f'fillcolor="{paint.fill}", color="{paint.stroke}", fontcolor="{paint.ink}"'
    gate = ", penwidth=2.5" if "goal gate" in node.marks else ""
    return f"{names[node.id]} [label={_label(node)}, {_SHAPES[node.family]}, {colours}{gate}];"


def _label(node: Node) -> str:
    name = _quoted(shorten(clean(node.id), LONGEST))
    return name if node.id == node.about else f'{name[:-1]}\\n{node.about}"'


def _lines(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    """A line to a cluster goes to the branch in its middle and is cut off at its border."""
    within = {node.id: node.inner[len(node.inner) // 2].id for node in drawn.nodes if node.inner}
    ends = {node.id: names[within.get(node.id, node.id)] for node in drawn.every}
    border = {node: f"cluster_{names[node]}" for node in within}
    yield _line("start", ends[drawn.start], {"lhead": border.get(drawn.start, "")})
    for line in drawn.lines:
        cut = {"ltail": border.get(line.source, ""), "lhead": border.get(line.target, "")}
        style = {"label": _quoted(said(line)) if line.labels else "", "style": "dashed" if line.dashed else ""}
        aside = {"constraint": "false" if line.back else ""}  # a way back does not turn the picture over
        yield _line(ends[line.source], ends[line.target], style | cut | aside)


def _line(source: str, target: str, attributes: Mapping[str, str]) -> str:
    said = ", ".join(f"{name}={value}" for name, value in attributes.items() if value)
    return f"    {source} -> {target}{f' [{said}]' if said else ''};"


def _quoted(content: str) -> str:
    """A text in quotes. Graphviz reads backslashes and HTML's named characters even there."""
    return '"' + content.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") + '"'
