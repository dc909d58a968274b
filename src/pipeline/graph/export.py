"""A workflow as a Mermaid flowchart, as GitHub renders it."""

import json
import re
from collections.abc import Iterator, Mapping

from pipeline.graph.chart import LIGHT, LIGHT_PAGE, LONGEST, Chart, ChartNode, chart, clean, said, shorten
from pipeline.language.model import Workflow

_MERMAID_SHAPES = {
    "llm": ("(", ")"),
    "tool": ("[[", "]]"),
    "human": ("[/", "\\]"),
    "decision": ("{{", "}}"),
    "triage": ("[\\", "/]"),
    "workspace": ("[(", ")]"),
    "exit": ("([", "])"),
}
_BOX = ("[", "]")
_SAFE = re.compile(r"[^\w ,:=/?·…→≤≥≠-]", re.UNICODE)
_LISTS = re.compile(r"^(?=[-+*]|\d)")  # Mermaid takes what looks like a list for Markdown, and refuses it


def draw_mermaid(workflow: Workflow) -> str:
    """The flowchart. Names are n0, n1 …: nothing an author wrote stands outside of quotes."""
    drawn = chart(workflow)
    names = {node.id: f"n{index}" for index, node in enumerate(drawn.every)}
    rows = [
        *_mermaid_heading(drawn),
        "flowchart TD",
        *_mermaid_nodes(drawn, names),
        *_mermaid_arrows(drawn, names),
        *_mermaid_classes(drawn),
    ]
    return "\n".join(rows) + "\n"


def _mermaid_heading(drawn: Chart) -> Iterator[str]:
    yield from ("---", f"title: {json.dumps(shorten(drawn.name, 200), ensure_ascii=False)}", "---")


def _mermaid_nodes(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    yield "    start(( )):::start"
    for node in drawn.nodes:
        if not node.inner:
            yield f"    {_mermaid_node(node, names)}"
            continue
        yield f"    subgraph {names[node.id]}[{_quote_mermaid(f'{node.id} · {node.about}')}]"
        yield "        direction LR"
        yield from (f"        {_mermaid_node(inner, names)}" for inner in node.inner)
        yield "    end"
        yield f"    class {names[node.id]} {_mermaid_class(node)}"


def _mermaid_node(node: ChartNode, names: Mapping[str, str]) -> str:
    opening, closing = _MERMAID_SHAPES.get(node.family, _BOX)
    about = "" if node.id == node.about else f"<br/>{_escape_mermaid(node.about)}"
    label = f'"{_escape_mermaid(shorten(clean(node.id), LONGEST))}{about}"'
    return f"{names[node.id]}{opening}{label}{closing}:::{_mermaid_class(node)}"


def _mermaid_class(node: ChartNode) -> str:
    return f"kind_{node.family}" if "goal gate" not in node.marks else f"kind_{node.family}_gate"


def _mermaid_arrows(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    yield f"    start --> {names[drawn.start]}"
    for line in drawn.lines:
        arrow = "-.->" if line.dashed else "-->"
        label = f"|{_quote_mermaid(said(line))}|" if line.labels else ""
        yield f"    {names[line.source]} {arrow}{label} {names[line.target]}"


def _mermaid_classes(drawn: Chart) -> Iterator[str]:
    yield "    classDef start fill:#0f172a,stroke:#0f172a"
    kinds = {_mermaid_class(node): node for node in drawn.every}
    for name, node in sorted(kinds.items()):
        paint = LIGHT[node.family]
        width = ",stroke-width:3px" if "goal gate" in node.marks else ""
        dashes = ",stroke-dasharray:5 4" if node.family == "missing" else ""
        yield f"    classDef {name} fill:{paint.fill},stroke:{paint.stroke},color:{paint.ink}{width}{dashes}"


def _quote_mermaid(content: str) -> str:
    return f'"{_escape_mermaid(shorten(clean(content), LONGEST * 3))}"'


def _escape_mermaid(content: str) -> str:
    """A text in which every character that Mermaid, Markdown or HTML could read is spelled by its number."""
    safe = _SAFE.sub(lambda match: f"#{ord(match[0])};", content)
    return _LISTS.sub("#8203;", safe)


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


def draw_dot(workflow: Workflow) -> str:
    """The graph. Names are n0, n1 …; a parallel stage is a cluster of its branches."""
    drawn = chart(workflow)
    names = {node.id: f"n{index}" for index, node in enumerate(drawn.every)}
    title = f"    label={_quote_dot(shorten(drawn.name, 200))};"
    rows = ["digraph workflow {", title, *_DOT_HEADER, *_dot_nodes(drawn, names), *_dot_arrows(drawn, names), "}"]
    return "\n".join(rows) + "\n"


def _dot_nodes(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    for node in drawn.nodes:
        if not node.inner:
            yield f"    {_dot_node(node, names)}"
            continue
        paint = LIGHT[node.family]
        yield f"    subgraph cluster_{names[node.id]} {{"
        yield f"        label={_dot_label(node)}; fontsize=12;"
        yield f'        style="rounded,filled"; fillcolor="{paint.fill}"; color="{paint.stroke}";'
        yield from (f"        {_dot_node(inner, names)}" for inner in node.inner)
        yield "    }"


def _dot_node(node: ChartNode, names: Mapping[str, str]) -> str:
    paint = LIGHT[node.family]
    colours = f'fillcolor="{paint.fill}", color="{paint.stroke}", fontcolor="{paint.ink}"'
    gate = ", penwidth=2.5" if "goal gate" in node.marks else ""
    return f"{names[node.id]} [label={_dot_label(node)}, {_DOT_SHAPES[node.family]}, {colours}{gate}];"


def _dot_label(node: ChartNode) -> str:
    name = _quote_dot(shorten(clean(node.id), LONGEST))
    return name if node.id == node.about else f'{name[:-1]}\\n{node.about}"'


def _dot_arrows(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    """A line to a cluster goes to the branch in its middle and is cut off at its border."""
    within = {node.id: node.inner[len(node.inner) // 2].id for node in drawn.nodes if node.inner}
    ends = {node.id: names[within.get(node.id, node.id)] for node in drawn.every}
    border = {node: f"cluster_{names[node]}" for node in within}
    yield _dot_arrow("start", ends[drawn.start], {"lhead": border.get(drawn.start, "")})
    for line in drawn.lines:
        cut = {"ltail": border.get(line.source, ""), "lhead": border.get(line.target, "")}
        style = {"label": _quote_dot(said(line)) if line.labels else "", "style": "dashed" if line.dashed else ""}
        aside = {"constraint": "false" if line.back else ""}  # a way back does not turn the picture over
        yield _dot_arrow(ends[line.source], ends[line.target], style | cut | aside)


def _dot_arrow(source: str, target: str, attributes: Mapping[str, str]) -> str:
    said = ", ".join(f"{name}={value}" for name, value in attributes.items() if value)
    return f"    {source} -> {target}{f' [{said}]' if said else ''};"


def _quote_dot(content: str) -> str:
    """A text in quotes. Graphviz reads backslashes and HTML's named characters even there."""
    return '"' + content.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") + '"'
