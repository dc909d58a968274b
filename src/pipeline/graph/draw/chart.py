"""A workflow as the boxes and lines of a picture, the same for every form of drawing."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from pipeline.graph.draw.wording import clean, shorten, way
from pipeline.graph.layout.flow import Flow, flow
from pipeline.language.edges import FOLLOWED, Edge, Role, edges
from pipeline.language.model import ParallelStage, Stage, Workflow, is_review

MISSING = "missing"  # the kind of a stage that is named but not declared
LONGEST = 60  # characters of a name or label in a picture that another program draws
_LABELS = 3  # of one line that are told there


@dataclass(frozen=True, slots=True)
class Node:
    """A box: a stage, or a name that no stage has. A parallel stage holds its branches."""

    id: str
    kind: str
    marks: tuple[str, ...] = ()
    inner: tuple["Node", ...] = ()

    @property
    def family(self) -> str:
        """What it is drawn as: the kind, with the three workspace stages as one."""
        return self.kind.partition(".")[0]

    @property
    def about(self) -> str:
        """Its kind and what is special about it."""
        return " · ".join((self.kind, *self.marks))


@dataclass(frozen=True, slots=True)
class Line:
    """All ways of one role from a box to another. `back` marks one that leads to where the run has been."""

    source: str
    target: str
    role: Role
    labels: tuple[str, ...]
    written: tuple[str, ...]  # the conditions as the file has them
    back: bool

    @property
    def dashed(self) -> bool:
        """Whether it is taken aside from the stage's own ways out."""
        return self.role in (Role.RETRY, Role.BRANCH, Role.LOOP)


@dataclass(frozen=True, slots=True)
class Chart:
    """A whole picture. `nodes` are in the order of the flow; `holder` leads from an inner box to the outer one."""

    name: str
    description: str
    start: str
    nodes: tuple[Node, ...]
    lines: tuple[Line, ...]
    holder: Mapping[str, str]

    def outer(self, node_id: str) -> str:
        """The box itself, or the one that holds it."""
        return self.holder.get(node_id, node_id)

    @property
    def every(self) -> Iterator[Node]:
        """All boxes, each followed by those it holds."""
        return (each for node in self.nodes for each in (node, *node.inner))

    @property
    def ways(self) -> Mapping[str, tuple[Line, ...]]:
        """The lines that leave each box, in the order of the file."""
        leaving: dict[str, list[Line]] = defaultdict(list)
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
    drawn = (e for e in edges(workflow) if e.role is not Role.BRANCH or holder.get(e.target) != e.source)
    return sorted(drawn, key=lambda edge: edge.role in (Role.RETRY, Role.LOOP))


def _links(ways: Iterable[Edge], holder: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(holder.get(edge.source, edge.source), holder.get(edge.target, edge.target)) for edge in ways]


def _lines(ways: Iterable[Edge], holder: Mapping[str, str], order: Flow) -> Iterator[Line]:
    together: dict[tuple[str, str, Role], list[Edge]] = defaultdict(list)
    conditions: dict[str, int] = {}  # of each stage with conditions, the highest priority among them
    for edge in ways:
        together[edge.source, edge.target, edge.role].append(edge)
        if edge.conditional and edge.role in FOLLOWED:
            conditions[edge.source] = max(edge.priority, conditions.get(edge.source, edge.priority))
    for (source, target, role), merged in together.items():
        words = [way(edge, otherwise=edge.priority <= conditions.get(source, -inf)) for edge in merged]
        written = [edge.condition or edge.label for edge in merged]
        back = order.leads_back(holder.get(source, source), holder.get(target, target))
        yield Line(source, target, role, _distinct(words), _distinct(written), back)


def _distinct(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, texts)))


def _node(name: str, workflow: Workflow, holder: Mapping[str, str]) -> Node:
    stage = workflow.by_id.get(name)
    if stage is None:
        return Node(name, MISSING)
    held: tuple[Node, ...] = ()
    if isinstance(stage, ParallelStage):
        inside = dict.fromkeys(branch.stage for branch in stage.branches if holder.get(branch.stage) == name)
        held = tuple(_node(branch, workflow, holder) for branch in inside)
    return Node(name, stage.kind, tuple(_marks(stage)), held)


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


def said(line: Line) -> str:
    """The labels of a line as one text, for a picture that another program draws."""
    shown = [shorten(label, LONGEST) for label in line.labels[:_LABELS]]
    more = len(line.labels) - len(shown)
    return " / ".join([*shown, f"{more} more"] if more else shown)
