"""How a picture puts things into words: short, on one line, and free of anything a terminal or a parser would obey."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType, UnionType
from typing import NamedTuple

from pipeline.graph.layers import Layering, flow
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
from pipeline.language.model import ParallelStage, Stage, Workflow, is_review

OTHERWISE = "otherwise"

_HOSTILE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))  # controls, direction marks, surrogates, no characters
_SPACES = re.compile(r"\s+")
_PLAIN = re.compile(r"[\w.-]+")
_SIGNS = {Operator.EQUAL: "=", Operator.UNEQUAL: "≠", Operator.AT_MOST: "≤", Operator.AT_LEAST: "≥"}
_NAMES = {Function.OUTCOME: "outcome", Function.VISITS: "visits", Function.FINDINGS: "findings"}


def clean(text: str) -> str:
    """A text on one line, every character of which can be shown."""
    spaced = _SPACES.sub(" ", text).strip()
    if spaced.isascii() and spaced.isprintable():
        return spaced
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _HOSTILE else c for c in spaced)


def shorten(text: str, width: int) -> str:
    """A text of at most so many columns, cut with an ellipsis where it is longer."""
    if columns(text) <= width:
        return text
    room, kept = width - 1, []
    for character in text:
        room -= columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def way(edge: Edge, *, otherwise: bool) -> str:
    """When an edge is followed; empty for a transition without a condition that is not the otherwise of another."""
    words = _transition_words(edge, otherwise=otherwise)
    return f"{words} (priority {edge.priority})".lstrip() if edge.priority else words


def _transition_words(edge: Edge, *, otherwise: bool) -> str:
    match edge.role:
        case EdgeRole.OPTION | EdgeRole.LOOP:
            return clean(edge.label)
        case EdgeRole.RETRY:
            return "retry"
        case EdgeRole.BRANCH:
            return "branch"
    if not edge.conditional:
        return OTHERWISE if otherwise else ""
    when = condition(edge.when.tree, edge.source) if edge.when else ""
    return " and ".join(filter(None, (edge.on, when)))


def condition(tree: Tree, source: str) -> str:
    """A condition in words, as it reads on a way out of `source`."""
    match tree:
        case And(terms):
            return " and ".join(_term(term, source, Or) for term in terms)
        case Or(terms):
            return " or ".join(_term(term, source, And) for term in terms)
        case Not(FunctionCall(Function.EXISTS, argument)):
            return f"no {clean(argument or '')}"
        case Not(operand):
            return f"not {_term(operand, source, And | Or | Comparison)}"
        case Comparison(operator, left, right):
            return _compared(operator, left, right, source)
    return _value(tree, source)


def _term(tree: Tree, source: str, grouped: type | UnionType) -> str:
    words = condition(tree, source)
    return f"({words})" if isinstance(tree, grouped) else words


def _compared(operator: Operator, left: Tree, right: Tree, source: str) -> str:
    negation = {Operator.EQUAL: "", Operator.UNEQUAL: "not "}.get(operator)
    match left, right:
        case FunctionCall(Function.OUTCOME, stage), Literal(str(status)) if negation is not None:
            words = negation + clean(status).replace("_", " ")
            return words if stage == source else f"{clean(stage or '')}: {words}"
        case FunctionCall(Function.VERDICT), Literal(str(verdict)) if negation is not None:
            return f"verdict {negation}{clean(verdict)}"
    grouped = And | Or | Comparison
    return f"{_term(left, source, grouped)} {_SIGNS.get(operator, operator)} {_term(right, source, grouped)}"


def _value(tree: Tree, source: str) -> str:
    match tree:
        case FunctionCall(function, argument):
            return _asked(function, clean(argument or ""), own=argument in (None, source))
        case Literal(str(text)) if _PLAIN.fullmatch(text):
            return text
    return clean(str(tree))


def _asked(function: Function, argument: str, *, own: bool) -> str:
    if function is Function.EXISTS:
        return f"{argument} exists"
    if function not in _NAMES:
        return argument or function.value
    return _NAMES[function] if own else f"{argument} {_NAMES[function]}"


class BoxColors(NamedTuple):
    """What a box is painted with."""

    fill: str
    stroke: str
    ink: str


class PageColors(NamedTuple):
    """What everything else is painted with."""

    card: str
    border: str
    ink: str
    quiet: str
    line: str


LIGHT: Mapping[str, BoxColors] = MappingProxyType(
    {
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
)
DARK: Mapping[str, BoxColors] = MappingProxyType(
    {
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
)
LIGHT_PAGE = PageColors(card="#ffffff", border="#e2e8f0", ink="#0f172a", quiet="#64748b", line="#64748b")
DARK_PAGE = PageColors(card="#0f141c", border="#2a3441", ink="#f1f5f9", quiet="#94a3b8", line="#8593a8")


MISSING = "missing"  # the kind of a stage that is named but not declared
LONGEST = 60  # characters of a name or label in a picture that another program draws
_LABELS = 3  # of one line that are told there


@dataclass(frozen=True, slots=True)
class ChartNode:
    """A box: a stage, or a name that no stage has. A parallel stage holds its branches."""

    id: str
    kind: str
    marks: tuple[str, ...] = ()
    inner: tuple["ChartNode", ...] = ()

    @property
    def family(self) -> str:
        """What it is drawn as: the kind, with the three workspace stages as one."""
        return self.kind.partition(".")[0]

    @property
    def about(self) -> str:
        """Its kind and what is special about it."""
        return " · ".join((self.kind, *self.marks))


@dataclass(frozen=True, slots=True)
class Arrow:
    """All ways of one role from a box to another. `back` marks one that leads to where the run has been."""

    source: str
    target: str
    role: EdgeRole
    labels: tuple[str, ...]
    written: tuple[str, ...]  # the conditions as the file has them
    back: bool

    @property
    def dashed(self) -> bool:
        """Whether it is taken aside from the stage's own ways out."""
        return self.role in (EdgeRole.RETRY, EdgeRole.BRANCH, EdgeRole.LOOP)


@dataclass(frozen=True, slots=True)
class Chart:
    """A whole picture. `nodes` are in the order of the flow; `holder` leads from an inner box to the outer one."""

    name: str
    description: str
    start: str
    nodes: tuple[ChartNode, ...]
    lines: tuple[Arrow, ...]
    holder: Mapping[str, str]

    def outer(self, node_id: str) -> str:
        """The box itself, or the one that holds it."""
        return self.holder.get(node_id, node_id)

    @property
    def every(self) -> Iterator[ChartNode]:
        """All boxes, each followed by those it holds."""
        return (each for node in self.nodes for each in (node, *node.inner))

    @property
    def ways(self) -> Mapping[str, tuple[Arrow, ...]]:
        """The lines that leave each box, in the order of the file."""
        leaving: dict[str, list[Arrow]] = defaultdict(list)
        for line in self.lines:
            leaving[line.source].append(line)
        return {source: tuple(lines) for source, lines in leaving.items()}


def chart(workflow: Workflow) -> Chart:
    """The boxes and lines of a workflow, also of one with errors."""
    holder = _holders(workflow)
    ways = _ways(workflow, holder)
    named = dict.fromkeys((*workflow.by_id, workflow.start, *(end for e in ways for end in (e.source, e.target))))
    outer = [name for name in named if name not in holder]
    order = flow(outer, _links(ways, holder), holder.get(workflow.start, workflow.start))
    nodes = tuple(_node(name, workflow, holder) for name in order.order)
    lines = tuple(_lines(ways, holder, order))
    return Chart(clean(workflow.name), clean(workflow.description), workflow.start, nodes, lines, holder)


def _holders(workflow: Workflow) -> dict[str, str]:
    """Which parallel stage draws a stage inside: the first that runs it, and never another parallel stage."""
    holder: dict[str, str] = {}
    for stage in workflow.by_id.values():
        if isinstance(stage, ParallelStage):
            for branch in stage.branches:
                if not isinstance(workflow.by_id.get(branch.stage, stage), ParallelStage):
                    holder.setdefault(branch.stage, stage.id)
    return holder


def _ways(workflow: Workflow, holder: Mapping[str, str]) -> list[Edge]:
    """Those that are drawn as lines; what follows a failure comes last, so that it does not lead the flow."""
    drawn = (e for e in edges(workflow) if e.role is not EdgeRole.BRANCH or holder.get(e.target) != e.source)
    return sorted(drawn, key=lambda edge: edge.role in (EdgeRole.RETRY, EdgeRole.LOOP))


def _links(ways: Iterable[Edge], holder: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(holder.get(edge.source, edge.source), holder.get(edge.target, edge.target)) for edge in ways]


def _lines(ways: Iterable[Edge], holder: Mapping[str, str], order: Layering) -> Iterator[Arrow]:
    together: dict[tuple[str, str, EdgeRole], list[Edge]] = defaultdict(list)
    conditions: dict[str, int] = {}  # of each stage with conditions, the highest priority among them
    for edge in ways:
        together[edge.source, edge.target, edge.role].append(edge)
        if edge.conditional and edge.role in FOLLOWED:
            conditions[edge.source] = max(edge.priority, conditions.get(edge.source, edge.priority))
    for (source, target, role), merged in together.items():
        words = [way(edge, otherwise=edge.priority <= conditions.get(source, -inf)) for edge in merged]
        written = [edge.condition or edge.label for edge in merged]
        back = order.leads_back(holder.get(source, source), holder.get(target, target))
        yield Arrow(source, target, role, _distinct(words), _distinct(written), back)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))


def _node(name: str, workflow: Workflow, holder: Mapping[str, str]) -> ChartNode:
    stage = workflow.by_id.get(name)
    if stage is None:
        return ChartNode(name, MISSING)
    held: tuple[ChartNode, ...] = ()
    if isinstance(stage, ParallelStage):
        inside = dict.fromkeys(branch.stage for branch in stage.branches if holder.get(branch.stage) == name)
        held = tuple(_node(branch, workflow, holder) for branch in inside)
    return ChartNode(name, stage.kind, tuple(_marks(stage)), held)


def _marks(stage: Stage) -> Iterator[str]:
    if is_review(stage):
        yield "review"
    if getattr(stage, "goal_gate", False):
        yield "goal gate"
    if isinstance(stage, ParallelStage):
        yield from _joining(stage)


def _joining(stage: ParallelStage) -> Iterator[str]:
    if stage.join != "all":
        yield f"{stage.join} of {len(stage.branches)}"
    if stage.max_parallel and stage.max_parallel < len(stage.branches):
        yield f"{stage.max_parallel} at a time"


def said(line: Arrow) -> str:
    """The labels of a line as one text, for a picture that another program draws."""
    shown = [shorten(label, LONGEST) for label in line.labels[:_LABELS]]
    more = len(line.labels) - len(shown)
    return " / ".join([*shown, f"{more} more"] if more else shown)
