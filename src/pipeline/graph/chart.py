"""A workflow as boxes and arrows, with their labels and colors: what all drawings have in common."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import UnionType
from typing import NamedTuple

from pipeline.graph.layers import Layering, assign_layers
from pipeline.language.edges import FOLLOWED, Edge, EdgeRole, edges
from pipeline.language.expressions.parse import (
    And,
    Comparison,
    Function,
    FunctionCall,
    Literal,
    Not,
    Operator,
    Or,
    Tree,
)
from pipeline.language.model import ParallelStage, Workflow, is_review
from pipeline.text import sanitize_line

_PLAIN = re.compile(r"[\w.-]+")
_OPERATORS = {Operator.EQUAL: "=", Operator.UNEQUAL: "≠", Operator.AT_MOST: "≤", Operator.AT_LEAST: "≥"}


@dataclass(frozen=True, slots=True)
class ChartNode:
    """A box: a stage, or a name that no stage has (its kind is "missing"). A parallel stage contains its branches."""

    id: str
    kind: str
    traits: tuple[str, ...] = ()
    branches: tuple["ChartNode", ...] = ()

    @property
    def family(self) -> str:
        """What it is drawn as: the kind, with the three workspace kinds as one."""
        return self.kind.partition(".")[0]

    @property
    def subtitle(self) -> str:
        """Its kind and its traits."""
        return " · ".join((self.kind, *self.traits))


ArrowKey = tuple[str, str, EdgeRole]  # source, target, role


@dataclass(frozen=True, slots=True)
class Arrow:
    """All edges of one role from one stage to another. `back` is true if it leads back in the flow."""

    source: str
    target: str
    role: EdgeRole
    labels: tuple[str, ...]
    conditions: tuple[str, ...]  # as the file has them
    back: bool

    @property
    def key(self) -> ArrowKey:
        """What identifies it in a chart."""
        return self.source, self.target, self.role

    @property
    def dashed(self) -> bool:
        """Whether it is something other than a regular transition."""
        return self.role in (EdgeRole.RETRY, EdgeRole.BRANCH, EdgeRole.LOOP)


@dataclass(frozen=True, slots=True)
class Chart:
    """A whole workflow; its nodes are in the order of the flow."""

    name: str
    description: str
    inputs: tuple[str, ...]
    start: str
    nodes: tuple[ChartNode, ...]
    arrows: tuple[Arrow, ...]
    containers: Mapping[str, str]  # of a branch: the parallel stage that is drawn around it

    def outer(self, node_id: str) -> str:
        """Return the box around a box, or the box itself if there is none."""
        return self.containers.get(node_id, node_id)

    @property
    def all_nodes(self) -> Iterator[ChartNode]:
        """All boxes, each followed by those inside it."""
        return (each for node in self.nodes for each in (node, *node.branches))


def build_chart(workflow: Workflow) -> Chart:
    """Build the chart of a workflow, even of one with errors."""
    containers = _containers(workflow)
    drawn = [e for e in edges(workflow) if e.role is not EdgeRole.BRANCH or containers.get(e.target) != e.source]
    drawn.sort(key=lambda edge: edge.role in (EdgeRole.RETRY, EdgeRole.LOOP))  # these do not set the flow's direction
    ids = dict.fromkeys((*workflow.by_id, workflow.start, *(end for e in drawn for end in (e.source, e.target))))
    layering = assign_layers(
        (name for name in ids if name not in containers),
        ((containers.get(e.source, e.source), containers.get(e.target, e.target)) for e in drawn),
        containers.get(workflow.start, workflow.start),
    )
    return Chart(
        name=sanitize_line(workflow.name),
        description=sanitize_line(workflow.description),
        inputs=tuple(sanitize_line(item.usage) for item in workflow.inputs),
        start=workflow.start,
        nodes=tuple(_node(name, workflow, containers) for name in layering.order),
        arrows=tuple(_arrows(drawn, containers, layering)),
        containers=containers,
    )


def _containers(workflow: Workflow) -> dict[str, str]:
    """Return the parallel stage around each branch: the first that runs it. Parallel stages contain no other."""
    containers: dict[str, str] = {}
    for stage in workflow.by_id.values():
        if isinstance(stage, ParallelStage):
            for branch in stage.branches:
                if not isinstance(workflow.by_id.get(branch.stage, stage), ParallelStage):
                    containers.setdefault(branch.stage, stage.id)
    return containers


def _node(name: str, workflow: Workflow, containers: Mapping[str, str]) -> ChartNode:
    stage = workflow.by_id.get(name)
    if stage is None:
        return ChartNode(name, "missing")
    traits: list[str] = []
    branches: dict[str, None] = {}
    if is_review(stage):
        traits.append("review")
    if getattr(stage, "goal_gate", False):
        traits.append("goal gate")
    if isinstance(stage, ParallelStage):
        if stage.join != "all":
            traits.append(f"{stage.join} of {len(stage.branches)}")
        if stage.max_parallel and stage.max_parallel < len(stage.branches):
            traits.append(f"{stage.max_parallel} at a time")
        branches = dict.fromkeys(branch.stage for branch in stage.branches if containers.get(branch.stage) == name)
    return ChartNode(name, stage.kind, tuple(traits), tuple(_node(each, workflow, containers) for each in branches))


def _arrows(drawn: Iterable[Edge], containers: Mapping[str, str], layering: Layering) -> Iterator[Arrow]:
    together: dict[ArrowKey, list[Edge]] = defaultdict(list)
    highest: dict[str, int] = {}  # by stage with conditions: the highest priority among them
    for edge in drawn:
        together[edge.source, edge.target, edge.role].append(edge)
        if edge.conditional and edge.role in FOLLOWED:
            highest[edge.source] = max(edge.priority, highest.get(edge.source, edge.priority))
    for (source, target, role), merged in together.items():
        labels = [_edge_label(edge, otherwise=edge.priority <= highest.get(source, -inf)) for edge in merged]
        conditions = [edge.condition or edge.label for edge in merged]
        back = (containers.get(source, source), containers.get(target, target)) in layering.back
        yield Arrow(source, target, role, _distinct(labels), _distinct(conditions), back)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))


def _edge_label(edge: Edge, *, otherwise: bool) -> str:
    """Say when an edge is followed; one without a condition needs a label only beside others that have one."""
    match edge.role:
        case EdgeRole.OPTION | EdgeRole.LOOP:
            label = sanitize_line(edge.label)
        case EdgeRole.RETRY:
            label = "retry"
        case EdgeRole.BRANCH:
            label = "branch"
        case _ if not edge.conditional:
            label = "otherwise" if otherwise else ""
        case _:
            when = condition_label(edge.when.tree, edge.source) if edge.when else ""
            label = " and ".join(filter(None, (edge.on, when)))
    return f"{label} (priority {edge.priority})".lstrip() if edge.priority else label


def condition_label(tree: Tree, source: str) -> str:
    """Put a condition into words, as they read on an arrow that leaves `source`."""
    match tree:
        case And(terms):
            return " and ".join(_operand(term, source, Or) for term in terms)
        case Or(terms):
            return " or ".join(_operand(term, source, And) for term in terms)
        case Not(FunctionCall(Function.EXISTS, argument)):
            return f"no {sanitize_line(argument or '')}"
        case Not(operand):
            return f"not {_operand(operand, source, And | Or | Comparison)}"
        case Comparison(operator, left, right):
            return _comparison_label(operator, left, right, source)
        case FunctionCall(Function.EXISTS, argument):
            return f"{sanitize_line(argument or '')} exists"
        case FunctionCall(
            Function.OUTCOME | Function.VISITS | Function.FINDINGS | Function.REPORTS as function, argument
        ):
            name = function.value
            return name if argument in (None, source) else f"{sanitize_line(argument or '')} {name}"
        case FunctionCall(function, argument):
            return sanitize_line(argument or "") or function.value
        case Literal(str(text)) if _PLAIN.fullmatch(text):
            return text
    return sanitize_line(str(tree))


def _comparison_label(operator: Operator, left: Tree, right: Tree, source: str) -> str:
    negation = {Operator.EQUAL: "", Operator.UNEQUAL: "not "}.get(operator)
    match left, right:
        case FunctionCall(Function.OUTCOME, stage), Literal(str(status)) if negation is not None:
            outcome = negation + sanitize_line(status).replace("_", " ")
            return outcome if stage == source else f"{sanitize_line(stage or '')}: {outcome}"
        case FunctionCall(Function.VERDICT), Literal(str(verdict)) if negation is not None:
            return f"verdict {negation}{sanitize_line(verdict)}"
    compound = And | Or | Comparison
    sign = _OPERATORS.get(operator, operator)
    return f"{_operand(left, source, compound)} {sign} {_operand(right, source, compound)}"


def _operand(tree: Tree, source: str, compound: type | UnionType) -> str:
    """Put a part of a condition into words, in parentheses if it is of a compound type."""
    label = condition_label(tree, source)
    return f"({label})" if isinstance(tree, compound) else label


class BoxColors(NamedTuple):
    """The colors of a box."""

    fill: str
    stroke: str
    ink: str


class PageColors(NamedTuple):
    """The colors of everything else."""

    card: str
    border: str
    ink: str
    quiet: str
    line: str


LIGHT: Mapping[str, BoxColors] = {
    "llm": BoxColors("#eef2ff", "#6366f1", "#312e81"),
    "tool": BoxColors("#ecfdf5", "#059669", "#064e3b"),
    "human": BoxColors("#fff7ed", "#ea580c", "#7c2d12"),
    "decision": BoxColors("#fdf4ff", "#c026d3", "#701a75"),
    "triage": BoxColors("#fefce8", "#ca8a04", "#713f12"),
    "parallel": BoxColors("#f8fafc", "#94a3b8", "#334155"),
    "workspace": BoxColors("#ecfeff", "#0891b2", "#164e63"),
    "exit": BoxColors("#334155", "#334155", "#f8fafc"),
    "missing": BoxColors("#fef2f2", "#dc2626", "#7f1d1d"),
}
DARK: Mapping[str, BoxColors] = {
    "llm": BoxColors("#1e1f4b", "#818cf8", "#e0e7ff"),
    "tool": BoxColors("#06302a", "#34d399", "#d1fae5"),
    "human": BoxColors("#3b1d0c", "#fb923c", "#ffedd5"),
    "decision": BoxColors("#3a0d40", "#e879f9", "#fae8ff"),
    "triage": BoxColors("#33260a", "#facc15", "#fef9c3"),
    "parallel": BoxColors("#161d29", "#64748b", "#e2e8f0"),
    "workspace": BoxColors("#0b2f3a", "#22d3ee", "#cffafe"),
    "exit": BoxColors("#cbd5e1", "#cbd5e1", "#0f172a"),
    "missing": BoxColors("#3f1212", "#f87171", "#fee2e2"),
}
LIGHT_PAGE = PageColors(card="#ffffff", border="#e2e8f0", ink="#0f172a", quiet="#64748b", line="#64748b")
DARK_PAGE = PageColors(card="#0f141c", border="#2a3441", ink="#f1f5f9", quiet="#94a3b8", line="#8593a8")
