"""From nodes to the model. Whatever does not fit is reported and left out, so that one pass shows every problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipeline.language.diagnostics import RuleHit
from pipeline.language.expressions.parse import UNREADABLE
from pipeline.language.kdl import MAX_DEPTH, TooDeep, parse
from pipeline.language.model import (
    STAGE_MODELS,
    BaseStage,
    Branch,
    DecisionRoute,
    Element,
    HumanOption,
    Loop,
    LoopExit,
    Models,
    Profile,
    Retry,
    StageKind,
    Transition,
    TriageTarget,
    Workflow,
    WorkflowSettings,
)
from pipeline.language.nodes import Node, Value, key_before
from pipeline.language.rules import care, conditions, loops, reading, routing, stages, structure, values
from pipeline.language.rules.structure import probable_kind
from pipeline.language.source import SourceSpans, SourceText, Span

MAX_STAGES = 10_000
_WORKFLOW = "the workflow"

_BLOCKS: Mapping[str, type[Element]] = {
    "retry": Retry,
    "option": HumanOption,
    "route": DecisionRoute,
    "branch": Branch,
    "apply": TriageTarget,
    "done": TriageTarget,
    "settings": WorkflowSettings,
    "models": Models,
    "profile": Profile,
    "transition": Transition,
    "loop": Loop,
    "on": LoopExit,
}
_KINDS: Mapping[object, StageKind] = {kind.value: kind for kind in StageKind}
_ONCE = frozenset({"retry", "settings", "models", "apply", "done"})
_REPEATABLE = frozenset({"require_feedback_on"})
_SEVERAL = frozenset({"stages"})  # attributes that take several values: `stages "review" "fix"`
# What stands in for a value that is missing or wrong, so that the rest of its element can still be checked.
_STAND_INS: Mapping[str, object] = {"when": UNREADABLE, "version": 2}
_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "greater_than_equal": "a number of at least {ge}",
    "greater_than": "a number above {gt}",
    "less_than_equal": "a number of at most {le}",
    "tuple_type": "text",
}


class Lowering:
    """Builds one file's model and gathers what is wrong on the way."""

    def __init__(self, source: SourceText) -> None:
        self.text = source.text
        self.seen: list[RuleHit] = []

    def document(self, nodes: Sequence[Node]) -> Workflow | None:
        """The file's workflow, as far as it can be made out."""
        for node in nodes:
            if node.name != "workflow":
                self.seen += structure.unknown_node(node, "a file", ["workflow"])
        workflows = [node for node in nodes if node.name == "workflow"]
        self.seen += reading.not_one_workflow(workflows)
        return self.workflow(workflows[0]) if workflows else None

    def workflow(self, node: Node) -> Workflow | None:
        stages = [child for child in node.children if child.name == "stage"]
        if len(stages) > MAX_STAGES:
            what = f"the workflow has {len(stages):,} stages"
            self.seen += reading.too_large(stages[MAX_STAGES].span, what, f"{MAX_STAGES:,}")
            return None
        version = next((child.args[0] for child in node.children if child.name == "version" and child.args), None)
        self.seen += reading.unsupported_version(node.span, version or node.props.get("version"))
        built: Workflow = _Attributes(self, Workflow, node, None).build()
        return built

    def stage(self, node: Node) -> BaseStage:
        """One stage; a kind that does not exist is replaced by the one that was probably meant."""
        name = node.args[0].value if node.args else None
        stage = name if isinstance(name, str) else ""
        if stage and not structure.NAME.fullmatch(stage):
            self.seen += structure.bad_name(node.args[0].span, stage)
        written = node.props.get("kind") or next(
            (c.args[0] for c in node.children if c.name == "kind" and c.args), None
        )
        kind = _kind(written)
        if kind is None:
            span = written.span if written else _span(node)
            self.seen += structure.unknown_kind(span, stage, written.value if written else None)
            kind = probable_kind(written.value if written else None)
        model = STAGE_MODELS[kind] if kind else _UnknownStage
        built: BaseStage = _Attributes(self, model, node, stage, kind=kind).build()
        return built


class _UnknownStage(BaseStage):
    """A stage whose kind cannot be guessed: only its id is of use."""

    @classmethod
    def attributes(cls) -> tuple[str, ...]:
        return tuple({name for model in STAGE_MODELS.values() for name in model.attributes()})


class _Attributes:
    """Reads one node for one model: arguments, properties, children; then lets the model judge the values."""

    __slots__ = ("allowed", "kind", "lowering", "model", "node", "spans", "stage", "values", "within")

    def __init__(
        self,
        lowering: Lowering,
        model: type[Any],
        node: Node,
        stage: str | None,
        within: "_Attributes | None" = None,
        kind: StageKind | None = None,
    ) -> None:
        self.lowering = lowering
        self.model = model
        self.node = node
        self.stage = stage
        self.within = within
        self.kind = kind
        self.values: dict[str, Any] = {}
        self.spans: dict[str, Span] = {}
        self.allowed = model.attributes()

    @property
    def owner(self) -> str:
        """The element in the words of a message."""
        if self.model is Workflow:
            return _WORKFLOW
        if issubclass(self.model, BaseStage):
            return f'stage "{self.stage}"' if self.stage else "a stage without a name"
        return _owner(self.node, self.within.owner if self.within else _WORKFLOW)

    def build(self) -> Any:
        self.arguments()
        self.properties()
        for child in self.node.children:
            self.child(child)
        for repeated in self.node.duplicates:
            self.twice(repeated.name, repeated.span)
        self.values["at"] = SourceSpans(_span(self.node), self.spans)
        if self.kind is not None:
            self.values["kind"] = self.kind
        elif self.model is _UnknownStage:
            return _UnknownStage.model_construct(id=self.values.get("id", ""), at=self.values["at"])
        try:
            return self.model(**_sealed(self.values) if self.model.blocks else self.values)
        except ValidationError as error:
            return self.recover(error)

    def arguments(self) -> None:
        names = self.model.positional
        for name, value in zip(names, self.node.args, strict=False):
            self.values[name], self.spans[name] = value
        for extra in self.node.args[len(names) :]:
            self.see(structure.stray_value(extra.span, self.owner, extra.value, self.stage))

    def properties(self) -> None:
        for name, value in self.node.props.items():
            if name in self.allowed:
                self.values[name], self.spans[name] = value
            else:
                self.unknown(name, value)

    def unknown(self, name: str, value: Value) -> None:
        key = key_before(self.lowering.text, self.node.span.start, value)
        span = key[1] if key else value.span
        owner = f"{self.owner} ({self.kind})" if self.kind else self.owner
        self.see(structure.unknown_property(span, name, owner, self.allowed, self.stage))

    def child(self, child: Node) -> None:
        name = child.name
        if name in self.model.blocks:
            self.block(child, self.model.blocks[name])
        elif name == "meta" and "meta" in self.model.model_fields:
            self.once("meta", child, free(child))
        elif name in self.allowed:
            self.attribute(child)
        else:
            known = [*self.model.blocks, *(["meta"] if "meta" in self.model.model_fields else []), *self.allowed]
            self.see(structure.unknown_node(child, self.owner, known))

    def block(self, child: Node, field: str) -> None:
        """A child that is an element of its own."""
        if child.name == "stage":
            built: Element = self.lowering.stage(child)
        else:
            built = _Attributes(self.lowering, _BLOCKS[child.name], child, self.stage, self).build()
        if child.name in _ONCE:
            self.once(field, child, built)
        else:
            self.values.setdefault(field, []).append(built)

    def attribute(self, child: Node) -> None:
        """An attribute written as a child: `prompt "..."`."""
        if child.name in _SEVERAL and child.args and not child.props and not child.children:
            self.once(child.name, child, tuple(argument.value for argument in child.args))
            return
        if len(child.args) != 1 or child.props or child.children:
            what = f'one value for "{child.name}"'
            self.see(structure.missing(child.span, what, self.owner, self.stage))
            return
        if child.name in _REPEATABLE and isinstance(child.args[0].value, str):
            self.values[child.name] = (*self.values.get(child.name, ()), child.args[0].value)
            self.spans[child.name] = child.args[0].span
        else:
            self.once(child.name, child, child.args[0].value, child.args[0].span)

    def once(self, name: str, child: Node, value: object, span: Span | None = None) -> None:
        if name in self.values:
            self.twice(name, child.span)
        else:
            self.values[name] = value
            self.spans[name] = span or child.span

    def twice(self, name: str, span: Span) -> None:
        self.see(structure.duplicate(span, f'"{name}"', self.owner, self.stage))

    def see(self, seen: list[RuleHit]) -> None:
        self.lowering.seen += seen

    def recover(self, error: ValidationError) -> Any:
        """Report what the model refused and go on without it."""
        refused = _by_field(error)
        for field, details in refused.items():
            if field not in self.model.blocks.values():  # what a block holds was reported when it was built
                self.report(field, details)
                self.values.pop(field, None)
        required = [field.alias or name for name, field in self.model.model_fields.items() if field.is_required()]
        if "" in refused:  # the values are right one by one and wrong together
            self.values = {name: self.values[name] for name in (*required, "at") if name in self.values}
        values = {**{name: _STAND_INS.get(name, "") for name in required}, **_sealed(self.values)}
        try:
            return self.model(**values)
        except ValidationError:  # about blocks, built and reported before: they stay as they are
            return self.model.model_construct(**values)

    def report(self, field: str, details: ErrorDetails) -> None:
        span = self.spans.get(field, _span(self.node))
        kind, value, context = details["type"], details["input"], details.get("ctx", {})
        what = f'{self.owner}: "{field}"'
        if field == "version":
            return  # told by its own rule
        if kind == "missing":
            self.missing(field)
        elif kind == "duration":
            self.see(values.bad_duration(span, what, details["msg"], self.stage))
        elif kind == "expression":
            inside = Span(context["start"], context["end"])
            self.see(values.malformed_expression(span, inside, context["why"], context["help"], self.stage))
        elif self.model is Retry:
            self.see(values.bad_retry(span, _why(field, details), self.stage))
        elif kind in ("enum", "literal_error"):
            self.see(structure.unknown_choice(span, what, value, _choices(self.model, field), self.stage))
        elif isinstance(value, float) and kind in ("int_type", "int_from_float"):
            self.see(structure.not_an_integer(span, what, value, self.stage))
        else:
            self.see(structure.wrong_value(span, what, value, _expected(details), self.stage))

    def missing(self, field: str) -> None:
        alias = self.model.model_fields[field].alias if field in self.model.model_fields else None
        if self.model is Workflow and field == "start":
            self.see(structure.missing_start(self.node.span))
        else:
            what = "a name" if field in self.model.positional else f'"{alias or field}"'
            self.see(structure.missing(_span(self.node), what, self.owner, self.stage))


def free(node: Node) -> dict[str, object]:
    """A `meta` block as plain data: what is said several times becomes a list."""
    gathered: dict[str, list[object]] = {name: [value.value] for name, value in node.props.items()}
    for child in node.children:
        own: list[object] = [argument.value for argument in child.args]
        if child.props or child.children:
            own.append(free(child))
        gathered.setdefault(child.name, []).extend(own or [None])
    return {name: values[0] if len(values) == 1 else values for name, values in gathered.items()}


def _kind(written: Value | None) -> StageKind | None:
    return _KINDS.get(written.value) if written else None


def _span(node: Node) -> Span:
    """A node's name and its first argument: `stage "build"`."""
    return Span(node.span.start, node.args[0].span.end) if node.args else node.span


def _owner(node: Node, parent: str) -> str:
    if node.args and isinstance(node.args[0].value, str):
        return f'{node.name} "{node.args[0].value}" of {parent}'
    if node.name == "transition" and (source := node.props.get("from")):
        return f'the transition from "{source.value}"'
    return node.name if parent == _WORKFLOW else f"{node.name} of {parent}"


def _by_field(error: ValidationError) -> dict[str, ErrorDetails]:
    """One detail for each field: where a field takes several types, the one for the type that was given."""
    chosen: dict[str, ErrorDetails] = {}
    for details in error.errors(include_url=False):
        field = str(details["loc"][0]) if details["loc"] else ""
        if field not in chosen or not isinstance(details["input"], str):
            chosen[field] = details
    return chosen


def _choices(model: type[Element], field: str) -> list[str]:
    annotation = model.model_fields[field].annotation
    for kind in (annotation, *get_args(annotation)):  # the members of an enumeration, also of an optional one
        if isinstance(kind, type) and issubclass(kind, Enum):
            return [member.value for member in kind]
    if field == "join":
        return ["all", "any", "a number"]
    return [str(choice) for choice in get_args(annotation)]


def _expected(details: ErrorDetails) -> str:
    return _EXPECTED.get(details["type"], details["msg"]).format(**details.get("ctx", {}))


def _why(field: str, details: ErrorDetails) -> str:
    return f'"{field}" must be {_expected(details)}' if field else details["msg"]


def _sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, as the models hold them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


MAX_BYTES = 1024 * 1024

RULES = (
    stages.duplicate_stage,
    stages.prompt_source,
    stages.empty_command,
    stages.too_few_options,
    stages.unknown_option,
    stages.unknown_profile,
    stages.path_outside,
    stages.repeated_name,
    routing.unknown_stage,
    routing.no_catch_all,
    routing.mixed_routing,
    routing.branch_rules,
    routing.triage_ways,
    loops.loop_stages,
    loops.loop_ending,
    care.piped_exit_code,
    care.timeout_without_default,
    care.shared_workspace,
)
CONDITION_RULES = (
    conditions.unknown_stage_in_condition,
    conditions.type_mismatch,
    conditions.impossible_value,
    care.unread_review,
    care.dead_route,
)


@dataclass(frozen=True)
class WorkflowDraft:
    """A file as far as it could be understood, and what was seen to be wrong with it so far."""

    source: SourceText
    workflow: Workflow | None
    seen: tuple[RuleHit, ...]


def parse_workflow(source: SourceText) -> WorkflowDraft:
    """Read a text; what is wrong with it is part of the draft, never an exception."""
    nodes, seen = read_nodes(source)
    if seen:
        return WorkflowDraft(source, None, tuple(seen))
    lowering = Lowering(source)
    workflow = lowering.document(nodes)
    seen = lowering.seen
    if workflow is not None:
        uses = list(conditions.conditions(workflow))
        seen += chain.from_iterable(rule(workflow) for rule in RULES)
        seen += chain.from_iterable(rule(workflow, uses) for rule in CONDITION_RULES)
    return WorkflowDraft(source, workflow, tuple(seen))


def read_nodes(source: SourceText) -> tuple[tuple[Node, ...], list[RuleHit]]:
    """The nodes of a text, or what keeps it from being read."""
    try:
        parsed = parse(source)
    except TooDeep as deep:
        span = Span(deep.offset, deep.offset + 1)
        return (), reading.too_large(span, "blocks are nested too deep", f"{MAX_DEPTH} levels")
    return parsed.nodes, reading.syntax_error(parsed.problem) if parsed.problem else []
