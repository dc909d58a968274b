"""KDL nodes to models.

What a model rejects is reported and left out, so that one pass shows every problem of a file.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipeline.language.diagnostics import Problem, Rule, RuleHit
from pipeline.language.expressions.parse import UNREADABLE
from pipeline.language.kdl import (
    MAX_DEPTH,
    KdlError,
    KdlNode,
    KdlValue,
    NestingError,
    key_before,
    parse_kdl,
)
from pipeline.language.model import (
    STAGE_MODELS,
    VERSION,
    BaseStage,
    Element,
    HumanStage,
    Retry,
    StageKind,
    Workflow,
    WorkflowInput,
)
from pipeline.language.source import START, SourceSpans, SourceText, Span
from pipeline.text import did_you_mean, listing, nearest, quote_value

MAX_BYTES = 1024 * 1024
MAX_STAGES = 10_000
STAGE_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
INPUT_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")  # in lowercase, so that no two share an environment variable

UNREADABLE_FILE = Rule("AWF001", "unreadable-file")
SYNTAX_ERROR = Rule("AWF002", "syntax-error")
TOO_LARGE = Rule("AWF003", "too-large")
NOT_ONE_WORKFLOW = Rule("AWF004", "not-one-workflow")
UNSUPPORTED_VERSION = Rule("AWF005", "unsupported-version")
UNKNOWN_NODE = Rule("AWF006", "unknown-node")
UNKNOWN_PROPERTY = Rule("AWF007", "unknown-property")
DUPLICATE = Rule("AWF008", "duplicate")
MISSING = Rule("AWF009", "missing")
WRONG_VALUE = Rule("AWF010", "wrong-value")
NOT_AN_INTEGER = Rule("AWF011", "not-an-integer")
UNKNOWN_CHOICE = Rule("AWF012", "unknown-choice")
UNKNOWN_KIND = Rule("AWF013", "unknown-kind")
BAD_NAME = Rule("AWF014", "bad-name")
BAD_DURATION = Rule("AWF015", "bad-duration")
BAD_RETRY = Rule("AWF016", "bad-retry")
MALFORMED_EXPRESSION = Rule("AWF017", "malformed-expression")
MISSING_START = Rule("AWF018", "missing-start")
STRAY_VALUE = Rule("AWF038", "stray-value")
RULES = tuple(value for value in vars().values() if isinstance(value, Rule))

ElementT = TypeVar("ElementT", bound=Element)


@dataclass(frozen=True)
class WorkflowDraft:
    """A workflow as far as its file could be read, and the problems found so far."""

    source: SourceText
    workflow: Workflow | None
    hits: tuple[RuleHit, ...]


def parse_workflow(source: SourceText) -> WorkflowDraft:
    """Read a workflow, without checking how its stages fit together. Mistakes are hits, never exceptions."""
    nodes, hits = parse_nodes(source)
    if hits:
        return WorkflowDraft(source, None, tuple(hits))
    hits += (unknown_node(node, "a workflow file", ["workflow"]) for node in nodes if node.name != "workflow")
    workflows = [node for node in nodes if node.name == "workflow"]
    hits += (NOT_ONE_WORKFLOW.hit(node.span, "a second workflow", "move it to its own file") for node in workflows[1:])
    if not workflows:
        hits.append(NOT_ONE_WORKFLOW.hit(START, "no workflow found", 'start with: workflow "Name" { version 2 ... }'))
        return WorkflowDraft(source, None, tuple(hits))
    node = workflows[0]
    stages = [child for child in node.children if child.name == "stage"]
    if len(stages) > MAX_STAGES:
        message = f"the workflow has {len(stages):,} stages; the limit is {MAX_STAGES:,}"
        hits.append(TOO_LARGE.hit(stages[MAX_STAGES].span, message, "split it up"))
        return WorkflowDraft(source, None, tuple(hits))
    version = _written_value(node, "version")
    if version is None:
        hits.append(UNSUPPORTED_VERSION.hit(node.span, "the workflow has no version", "add: version 2"))
    elif version.value != VERSION or isinstance(version.value, bool | float):
        message = f"unsupported version {quote_value(version.value)}"
        hits.append(UNSUPPORTED_VERSION.hit(version.span, message, "write: version 2"))
    workflow = read_element(Workflow, node, "the workflow", source.text, hits)
    return WorkflowDraft(source, workflow, tuple(hits))


def parse_nodes(source: SourceText) -> tuple[tuple[KdlNode, ...], list[RuleHit]]:
    """The nodes of a text, or the problem that makes it unreadable."""
    try:
        return parse_kdl(source), []
    except NestingError as error:
        message = f"{error.message}; the limit is {MAX_DEPTH} levels"
        return (), [TOO_LARGE.hit(error.span, message, "flatten it")]
    except KdlError as error:
        return (), [SYNTAX_ERROR.hit(error.span, error.message, error.help)]


def read_element(model: type[ElementT], node: KdlNode, owner: str, text: str, hits: list[RuleHit]) -> ElementT:
    """Read a node and everything in it as a model, adding what is wrong to `hits`; messages call it `owner`."""
    built: ElementT = _ElementReader(model, node, owner, text, hits).read()
    return built


# What replaces a value that is missing or wrong, so that the rest of its element can still be checked.
_STAND_INS: Mapping[str, object] = {"when": UNREADABLE, "version": VERSION}
_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt:g}",
    "less_than_equal": "at most {le}",
    "tuple_type": "text",
}


class _UnknownStage(BaseStage):
    """A stage whose kind cannot be guessed: it takes what any stage takes, and only its id is used."""

    repeatable = HumanStage.repeatable

    @classmethod
    def attributes(cls) -> tuple[str, ...]:
        return tuple({name for model in STAGE_MODELS.values() for name in model.attributes()})


class _ElementReader:
    """Reads one node as one model: collects arguments, properties and children, then lets the model validate them."""

    def __init__(
        self,
        model: type[Any],
        node: KdlNode,
        owner: str,
        text: str,
        hits: list[RuleHit],
        stage: str | None = None,
        kind: StageKind | None = None,
    ) -> None:
        self.model = model
        self.node = node
        self.owner = owner  # the element's name in messages
        self.text = text
        self.hits = hits
        self.stage = stage  # the id of the stage it is or belongs to
        self.kind = kind  # of a stage
        self.values: dict[str, Any] = {}
        self.spans: dict[str, tuple[Span, ...]] = {}
        self.attributes = model.attributes()

    def read(self) -> Any:
        positional = self.model.positional
        for name, argument in zip(positional, self.node.args, strict=False):
            self.values[name], self.spans[name] = argument.value, (argument.span,)
        for extra in self.node.args[len(positional) :]:
            message = f"{self.owner}: unexpected argument {quote_value(extra.value)}"
            self.report(STRAY_VALUE, extra.span, message, 'give it a name: name="value"')
        for name, value in self.node.props.items():
            if name in self.attributes:
                self.values[name], self.spans[name] = value.value, (value.span,)
            else:
                self.report_unknown_property(name, value)
        for child in self.node.children:
            self.read_child(child)
        for name, span in self.node.duplicates.items():
            self.report_duplicate(name, span)
        return self.build()

    def read_child(self, child: KdlNode) -> None:
        has_meta = "meta" in self.model.model_fields
        if child.name in self.model.blocks:
            self.read_block(child, self.model.blocks[child.name])
        elif child.name == "meta" and has_meta:
            self.set_once("meta", child, _plain_data(child))
        elif child.name in self.attributes:
            self.read_attribute(child)
        else:
            known = [*self.model.blocks, *(["meta"] if has_meta else []), *self.attributes]
            self.hits.append(unknown_node(child, self.owner, known))

    def read_block(self, child: KdlNode, field: str) -> None:
        """Read a child node that is an element itself."""
        annotation = self.model.model_fields[field].annotation
        types = [part for part in (annotation, *get_args(annotation)) if isinstance(part, type)]
        models = [part for part in types if issubclass(part, Element)]
        if models:
            built = _ElementReader(models[0], child, describe(child), self.text, self.hits, self.stage).read()
            if isinstance(built, WorkflowInput) and built.name and not INPUT_NAME.fullmatch(built.name):
                help = 'use up to 64 lowercase letters, digits and "_", starting with a letter'
                self.report(BAD_NAME, built.spans.of("name"), f"invalid input name {quote_value(built.name)}", help)
        else:  # the stages are a union of models
            built = _read_stage(child, self.text, self.hits)
        if get_origin(annotation) is tuple:
            self.values.setdefault(field, []).append(built)
        else:
            self.set_once(field, child, built)

    def read_attribute(self, child: KdlNode) -> None:
        """Read an attribute written as a child node: `prompt "..."`."""
        name, arguments = child.name, child.args
        several = name in self.model.lists
        if child.props or child.children or not arguments or (len(arguments) > 1 and not several):
            amount = "at least one value" if several else "one value"
            self.report(MISSING, child.span, f'{self.owner} needs {amount} for "{name}"')
        elif several:
            self.set_once(name, child, tuple(argument.value for argument in arguments))
        elif name in self.model.repeatable and isinstance(value := arguments[0].value, str):
            earlier = self.values.get(name, ())
            self.values[name] = (*(earlier if isinstance(earlier, tuple) else (earlier,)), value)
            self.spans[name] = (arguments[0].span,)
        else:
            self.set_once(name, child, arguments[0].value)

    def set_once(self, name: str, child: KdlNode, value: object) -> None:
        if name in self.values:
            self.report_duplicate(name, child.span)
        else:
            self.values[name] = value
            self.spans[name] = tuple(argument.span for argument in child.args) or (child.span,)

    def build(self) -> Any:
        """Build the model; report what it rejects, and build it again without that."""
        first_spans = {name: spans[0] for name, spans in self.spans.items()}
        self.values["spans"] = SourceSpans(self.node.title_span, first_spans)
        if self.kind is not None:
            self.values["kind"] = self.kind
        elif self.model is _UnknownStage:
            return _UnknownStage.model_construct(id=self.stage or "", spans=self.values["spans"])
        try:
            return self.model(**_with_tuples(self.values))
        except ValidationError as error:
            rejected = _by_value(error)
        for (field, index), details in rejected.items():
            if field not in self.model.blocks.values():  # blocks have reported what is inside them
                self.report_rejected(field, index, details)
                self.values.pop(field, None)
        required = [field.alias or name for name, field in self.model.model_fields.items() if field.is_required()]
        if ("", 0) in rejected:  # each value is right, but they contradict each other
            self.values = {name: self.values[name] for name in (*required, "spans") if name in self.values}
        values = {name: _STAND_INS.get(name, "") for name in required} | _with_tuples(self.values)
        try:
            return self.model(**values)
        except ValidationError:
            return self.model.model_construct(**values)  # only blocks are still wrong, and they stay as they are

    def report_rejected(self, field: str, index: int, details: ErrorDetails) -> None:
        if field == "version":
            return  # it has its own rule
        spans = self.spans.get(field, (self.node.title_span,))
        span = spans[min(index, len(spans) - 1)]
        error, value, context = details["type"], details["input"], details.get("ctx", {})
        value = value[0] if isinstance(value, tuple) and value else value
        expected = _EXPECTED[error].format(**context) if error in _EXPECTED else details["msg"]
        what = f'{self.owner}: "{field}"'
        if error == "missing":
            self.report_missing(field)
        elif error == "duration":
            self.report(BAD_DURATION, span, f"{what}: {details['msg']}")
        elif error == "expression":
            inside = Span(context["start"], context["end"])
            problem = Problem(span, f"invalid condition: {context['why']}", context["help"], self.stage, inside)
            self.hits.append(RuleHit(MALFORMED_EXPRESSION, problem))
        elif self.model is Retry:
            self.report(BAD_RETRY, span, f'retry: "{field}" must be {expected}' if field else f"retry: {expected}")
        elif error in ("enum", "literal_error"):
            choices = _choices(self.model, field)
            message = f"{what} must be one of {', '.join(choices)}, not {quote_value(value)}"
            self.report(UNKNOWN_CHOICE, span, message, did_you_mean(value, choices) if isinstance(value, str) else None)
        else:
            whole = isinstance(value, float) and error in ("int_type", "int_from_float")
            rule = NOT_AN_INTEGER if whole else WRONG_VALUE
            self.report(rule, span, f"{what} must be {expected}, not {quote_value(value)}")

    def report_missing(self, field: str) -> None:
        if self.model is Workflow and field == "start":
            self.report(MISSING_START, self.node.span, "the workflow has no start", 'add: start "stage"')
        else:
            what = "a name" if field in self.model.positional else f'"{field}"'
            self.report(MISSING, self.node.title_span, f"{self.owner} needs {what}")

    def report_unknown_property(self, name: str, value: KdlValue) -> None:
        owner = f"{self.owner} ({self.kind})" if self.kind else self.owner
        known = sorted(self.attributes)
        help = did_you_mean(name, known)
        kinds = [kind for kind, model in STAGE_MODELS.items() if name in model.attributes()]
        if not help:
            help = (
                f"it belongs to {listing(kinds)} stages" if kinds and self.stage else unknown_hint(name, owner, known)
            )
        span = key_before(self.text, value) or value.span
        self.report(UNKNOWN_PROPERTY, span, f'unknown property "{name}" in {owner}', help)

    def report_duplicate(self, name: str, span: Span) -> None:
        self.report(DUPLICATE, span, f'{self.owner} has "{name}" twice', "remove one of them")

    def report(self, rule: Rule, span: Span, message: str, help: str | None = None) -> None:
        self.hits.append(rule.hit(span, message, help, self.stage))


def _read_stage(node: KdlNode, text: str, hits: list[RuleHit]) -> BaseStage:
    """Read a stage; one of unknown kind is read as the kind that was probably meant."""
    name = node.args[0].value if node.args else None
    stage = name if isinstance(name, str) else ""
    if stage and not STAGE_ID.fullmatch(stage):
        help = 'use 1 to 64 letters, digits, "_" and "-", starting with a letter or "_"'
        hits.append(BAD_NAME.hit(node.args[0].span, f"invalid stage id {quote_value(stage)}", help))
    written = _written_value(node, "kind")
    kind = written.value if written else None
    if kind not in list(StageKind):
        choices = f"the kinds are {', '.join(StageKind)}"
        if written is None:
            hits.append(UNKNOWN_KIND.hit(node.title_span, f'stage "{stage}" has no kind', choices, stage))
        else:
            help = did_you_mean(str(kind), StageKind) or choices
            message = f'stage "{stage}" has the unknown kind {quote_value(kind)}'
            hits.append(UNKNOWN_KIND.hit(written.span, message, help, stage))
        kind = nearest(kind, StageKind) if isinstance(kind, str) else None
    meant = StageKind(kind) if kind else None
    model = STAGE_MODELS[meant] if meant else _UnknownStage
    built: BaseStage = _ElementReader(model, node, describe(node), text, hits, stage, meant).read()
    return built


def _written_value(node: KdlNode, name: str) -> KdlValue | None:
    """An attribute's value, written as a property or as a child node."""
    children = (child.args[0] for child in node.children if child.name == name and child.args)
    return node.props.get(name) or next(children, None)


def unknown_node(node: KdlNode, parent: str, known: Iterable[str]) -> RuleHit:
    """Report a child node that its parent does not take."""
    return UNKNOWN_NODE.hit(
        node.span, f'unknown node "{node.name}" in {parent}', unknown_hint(node.name, parent, known)
    )


def unknown_hint(name: str, owner: str, known: Iterable[str]) -> str:
    """Say which name was probably meant, or which there are."""
    names = sorted(known)
    return did_you_mean(name, names) or f"{owner} takes {', '.join(names) or 'no child nodes'}"


def describe(node: KdlNode) -> str:
    """An element's name in messages: `stage "build"`, `retry`, `the transition from "build"`."""
    if node.args and isinstance(node.args[0].value, str):
        return f'{node.name} "{node.args[0].value}"'
    if node.name == "transition" and (source := node.props.get("from")):
        return f'the transition from "{source.value}"'
    return node.name


def _plain_data(node: KdlNode) -> dict[str, object]:
    """A `meta` block as plain data; names given several times become lists."""
    gathered: dict[str, list[object]] = {name: [value.value] for name, value in node.props.items()}
    for child in node.children:
        own: list[object] = [argument.value for argument in child.args]
        if child.props or child.children:
            own.append(_plain_data(child))
        gathered.setdefault(child.name, []).extend(own or [None])
    return {name: values[0] if len(values) == 1 else values for name, values in gathered.items()}


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _by_value(error: ValidationError) -> dict[tuple[str, int], ErrorDetails]:
    """One error for each value, by field and index. Of a field that takes several types, that of the given type."""
    chosen: dict[tuple[str, int], ErrorDetails] = {}
    for details in error.errors(include_url=False):
        field, index, *_ = (*details["loc"], 0, 0) if details["loc"] else ("", 0)
        key = str(field), index if isinstance(index, int) else 0
        if key not in chosen or not isinstance(details["input"], str):
            chosen[key] = details
    return chosen


def _choices(model: type[Element], field: str) -> list[str]:
    annotation = model.model_fields[field].annotation
    for part in (annotation, *get_args(annotation)):  # an enumeration, perhaps an optional one
        if isinstance(part, type) and issubclass(part, Enum):
            return [member.value for member in part]
    return ["all", "any", "a number"] if field == "join" else [str(choice) for choice in get_args(annotation)]
