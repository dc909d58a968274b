"""A workflow as input for programs that draw: a Mermaid flowchart, as GitHub shows it, or a Graphviz graph."""

import json
from collections.abc import Iterator, Mapping

from pipeline.graph.chart import LIGHT, LIGHT_PAGE, Arrow, Chart, ChartNode, build_chart
from pipeline.language.model import Workflow
from pipeline.text import escape_mermaid, quote_dot, sanitize_line, truncate

_MAX_TITLE = 200
_MAX_TEXT = 60  # of a name or label
_MAX_LABELS = 3  # on one arrow

_MERMAID_SHAPES = {
    "llm": ("(", ")"),
    "tool": ("[[", "]]"),
    "human": ("[/", "\\]"),
    "decision": ("{{", "}}"),
    "triage": ("[\\", "/]"),
    "workspace": ("[(", ")]"),
    "exit": ("([", "])"),
}
_MERMAID_BOX = ("[", "]")

_DOT_SHAPES = {
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
_DOT_HEADER = (
    "    compound=true; rankdir=TB; labelloc=t; nodesep=0.4; ranksep=0.5;",
    '    graph [fontname="Helvetica", fontsize=16];',
    '    node [fontname="Helvetica", fontsize=12, margin="0.2,0.1"];',
    f'    edge [fontname="Helvetica", fontsize=10, color="{LIGHT_PAGE.line}", fontcolor="{LIGHT_PAGE.ink}"];',
    '    start [label="", shape=circle, style=filled, fillcolor="#0f172a", width=0.2];',
)


def draw_mermaid(workflow: Workflow) -> str:
    """Write a Mermaid flowchart. Nodes are called n0, n1 …: all text from the file is in quotes."""
    chart = build_chart(workflow)
    names = _node_names(chart)
    title = json.dumps(truncate(chart.name, _MAX_TITLE), ensure_ascii=False)
    rows = ["---", f"title: {title}", "---", "flowchart TD", "    start(( )):::start"]
    for node in chart.nodes:
        if not node.branches:
            rows.append(f"    {_mermaid_node(node, names)}")
            continue
        subgraph = truncate(sanitize_line(f"{node.id} · {node.subtitle}"), _MAX_TEXT * 3)
        rows.append(f'    subgraph {names[node.id]}["{escape_mermaid(subgraph)}"]')
        rows.append("        direction LR")
        rows += [f"        {_mermaid_node(branch, names)}" for branch in node.branches]
        rows.append("    end")
        rows.append(f"    class {names[node.id]} {_mermaid_class(node)}")
    rows.append(f"    start --> {names[chart.start]}")
    for arrow in chart.arrows:
        label = f'|"{escape_mermaid(_arrow_label(arrow))}"|' if arrow.labels else ""
        rows.append(f"    {names[arrow.source]} {'-.->' if arrow.dashed else '-->'}{label} {names[arrow.target]}")
    rows.append("    classDef start fill:#0f172a,stroke:#0f172a")
    for name, node in sorted({_mermaid_class(node): node for node in chart.all_nodes}.items()):
        colors = LIGHT[node.family]
        width = ",stroke-width:3px" if "goal gate" in node.traits else ""
        dashes = ",stroke-dasharray:5 4" if node.family == "missing" else ""
        rows.append(f"    classDef {name} fill:{colors.fill},stroke:{colors.stroke},color:{colors.ink}{width}{dashes}")
    return "\n".join(rows) + "\n"


def _node_names(chart: Chart) -> dict[str, str]:
    return {node.id: f"n{index}" for index, node in enumerate(chart.all_nodes)}


def _arrow_label(arrow: Arrow) -> str:
    labels = [truncate(label, _MAX_TEXT) for label in arrow.labels[:_MAX_LABELS]]
    more = len(arrow.labels) - len(labels)
    return " / ".join([*labels, f"{more} more"] if more else labels)


def _mermaid_node(node: ChartNode, names: Mapping[str, str]) -> str:
    opening, closing = _MERMAID_SHAPES.get(node.family, _MERMAID_BOX)
    subtitle = "" if node.id == node.subtitle else f"<br/>{escape_mermaid(node.subtitle)}"
    label = f'"{escape_mermaid(truncate(sanitize_line(node.id), _MAX_TEXT))}{subtitle}"'
    return f"{names[node.id]}{opening}{label}{closing}:::{_mermaid_class(node)}"


def _mermaid_class(node: ChartNode) -> str:
    return f"kind_{node.family}" if "goal gate" not in node.traits else f"kind_{node.family}_gate"


def draw_dot(workflow: Workflow) -> str:
    """Write a Graphviz graph. Nodes are called n0, n1 …; a parallel stage is a cluster of its branches."""
    chart = build_chart(workflow)
    names = _node_names(chart)
    title = f"    label={quote_dot(truncate(chart.name, _MAX_TITLE))};"
    rows = ["digraph workflow {", title, *_DOT_HEADER, *_dot_nodes(chart, names), *_dot_arrows(chart, names), "}"]
    return "\n".join(rows) + "\n"


def _dot_nodes(chart: Chart, names: Mapping[str, str]) -> Iterator[str]:
    for node in chart.nodes:
        if not node.branches:
            yield f"    {_dot_node(node, names)}"
            continue
        colors = LIGHT[node.family]
        yield f"    subgraph cluster_{names[node.id]} {{"
        yield f"        label={_dot_label(node)}; fontsize=12;"
        yield f'        style="rounded,filled"; fillcolor="{colors.fill}"; color="{colors.stroke}";'
        yield from (f"        {_dot_node(branch, names)}" for branch in node.branches)
        yield "    }"


def _dot_node(node: ChartNode, names: Mapping[str, str]) -> str:
    colors = LIGHT[node.family]
    style = f'fillcolor="{colors.fill}", color="{colors.stroke}", fontcolor="{colors.ink}"'
    gate = ", penwidth=2.5" if "goal gate" in node.traits else ""
    return f"{names[node.id]} [label={_dot_label(node)}, {_DOT_SHAPES[node.family]}, {style}{gate}];"


def _dot_label(node: ChartNode) -> str:
    name = quote_dot(truncate(sanitize_line(node.id), _MAX_TEXT))
    return name if node.id == node.subtitle else f'{name[:-1]}\\n{node.subtitle}"'


def _dot_arrows(chart: Chart, names: Mapping[str, str]) -> Iterator[str]:
    """An arrow to a cluster leads to the branch in its middle and is clipped at its border."""
    middle = {node.id: node.branches[len(node.branches) // 2].id for node in chart.nodes if node.branches}
    ends = {node.id: names[middle.get(node.id, node.id)] for node in chart.all_nodes}
    border = {node: f"cluster_{names[node]}" for node in middle}
    yield _dot_arrow("start", ends[chart.start], {"lhead": border.get(chart.start, "")})
    for arrow in chart.arrows:
        attributes = {
            "label": quote_dot(_arrow_label(arrow)) if arrow.labels else "",
            "style": "dashed" if arrow.dashed else "",
            "ltail": border.get(arrow.source, ""),
            "lhead": border.get(arrow.target, ""),
            "constraint": "false" if arrow.back else "",  # leading back does not put its target further down
        }
        yield _dot_arrow(ends[arrow.source], ends[arrow.target], attributes)


def _dot_arrow(source: str, target: str, attributes: Mapping[str, str]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in attributes.items() if value)
    return f"    {source} -> {target}{f' [{given}]' if given else ''};"
