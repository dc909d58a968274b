"""A workflow as a Mermaid flowchart, as GitHub renders it."""

import json
import re
from collections.abc import Iterator, Mapping

from pipeline.graph.draw.chart import LONGEST, Chart, Node, chart, said
from pipeline.graph.draw.palette import LIGHT
from pipeline.graph.draw.wording import clean, shorten
from pipeline.language.model import Workflow

_SHAPES = {
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
    rows = [*_heading(drawn), "flowchart TD", *_nodes(drawn, names), *_lines(drawn, names), *_classes(drawn)]
    return "\n".join(rows) + "\n"


def _heading(drawn: Chart) -> Iterator[str]:
    yield from ("---", f"title: {json.dumps(shorten(drawn.name, 200), ensure_ascii=False)}", "---")


def _nodes(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    yield "    start(( )):::start"
    for node in drawn.nodes:
        if not node.inner:
            yield f"    {_node(node, names)}"
            continue
        yield f"    subgraph {names[node.id]}[{_quoted(f'{node.id} · {node.about}')}]"
        yield "        direction LR"
        yield from (f"        {_node(inner, names)}" for inner in node.inner)
        yield "    end"
        yield f"    class {names[node.id]} {_class(node)}"


def _node(node: Node, names: Mapping[str, str]) -> str:
    opening, closing = _SHAPES.get(node.family, _BOX)
    about = "" if node.id == node.about else f"<br/>{_escaped(node.about)}"
    label = f'"{_escaped(shorten(clean(node.id), LONGEST))}{about}"'
    return f"{names[node.id]}{opening}{label}{closing}:::{_class(node)}"


def _class(node: Node) -> str:
    return f"kind_{node.family}" if "goal gate" not in node.marks else f"kind_{node.family}_gate"


def _lines(drawn: Chart, names: Mapping[str, str]) -> Iterator[str]:
    yield f"    start --> {names[drawn.start]}"
    for line in drawn.lines:
        arrow = "-.->" if line.dashed else "-->"
        label = f"|{_quoted(said(line))}|" if line.labels else ""
        yield f"    {names[line.source]} {arrow}{label} {names[line.target]}"


def _classes(drawn: Chart) -> Iterator[str]:
    yield "    classDef start fill:#0f172a,stroke:#0f172a"
    kinds = {_class(node): node for node in drawn.every}
    for name, node in sorted(kinds.items()):
        paint = LIGHT[node.family]
        width = ",stroke-width:3px" if "goal gate" in node.marks else ""
        dashes = ",stroke-dasharray:5 4" if node.family == "missing" else ""
        yield f"    classDef {name} fill:{paint.fill},stroke:{paint.stroke},color:{paint.ink}{width}{dashes}"


def _quoted(content: str) -> str:
    return f'"{_escaped(shorten(clean(content), LONGEST * 3))}"'


def _escaped(content: str) -> str:
    """A text in which every character that Mermaid, Markdown or HTML could read is spelled by its number."""
    safe = _SAFE.sub(lambda match: f"#{ord(match[0])};", content)
    return _LISTS.sub("#8203;", safe)
