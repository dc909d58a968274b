"""From a text to what a settings file says. Whatever does not fit is reported, so that one pass shows every problem."""

from collections.abc import Iterator
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipeline.app.settings.grammar import BLOCKS, AgentSettings, SettingsFile
from pipeline.language.load import read_nodes
from pipeline.language.model import Element
from pipeline.language.nodes import Node, Value, key_before
from pipeline.language.rules import structure, values
from pipeline.language.rules.rule import Seen
from pipeline.language.source import START, Place, Source, Span

_FILE = "the settings file"
_SEVERAL = frozenset(
    {"environment", "program", "arguments", "extra", "pass", "command", "project", "record-write"}
)  # take one value or more
_EXPECTED = {"string_type": "text", "float_type": "a number", "greater_than": "a number above {gt:g}"}


class _Line(NamedTuple):
    """A name with its values, written as a node or as a property."""

    name: str
    span: Span
    values: tuple[Value, ...]
    plain: bool = True  # nothing hangs on it that a name with values cannot have


def read_settings(source: Source) -> tuple[SettingsFile | None, list[Seen]]:
    """What a file says, and what is wrong with it; None where it cannot be used."""
    nodes, seen = read_nodes(source)
    if seen:
        return None, seen
    built = _Block(SettingsFile, Node("", START, (), {}, nodes), _FILE, source.text, seen).build()
    return (built if isinstance(built, SettingsFile) and not seen else None), seen


class _Block:
    """Reads one node for one model, then lets the model judge the values."""

    __slots__ = ("known", "model", "node", "owner", "seen", "spans", "text", "values")

    def __init__(self, model: type[Element], node: Node, owner: str, text: str, seen: list[Seen]) -> None:
        self.model = model
        self.node = node
        self.owner = owner
        self.text = text
        self.seen = seen
        self.known = [*model.blocks, *model.attributes()]
        self.values: dict[str, Any] = {}
        self.spans: dict[str, tuple[Span, ...]] = {}

    def build(self) -> Element | None:
        self.arguments()
        for line in _properties(self.node, self.text):
            if line.name in self.model.attributes():
                self.attribute(line)
            else:
                self.seen += structure.unknown_property(line.span, line.name, self.owner, self.known, None)
        for child in self.node.children:
            self.child(child)
        for repeated in self.node.duplicates:
            self.seen += structure.duplicate(repeated.span, f'"{repeated.name}"', self.owner, None)
        return self.judged()

    def arguments(self) -> None:
        names = self.model.positional
        for name, value in zip(names, self.node.args, strict=False):
            self.values[name], self.spans[name] = value.value, (value.span,)
        for extra in self.node.args[len(names) :]:
            self.seen += structure.stray_value(extra.span, self.owner, extra.value, None)

    def child(self, child: Node) -> None:
        if child.name in self.model.blocks:
            self.block(child)
        elif child.name in self.model.attributes():
            plain = not child.props and not child.children
            self.attribute(_Line(child.name, child.span, child.args, plain))
        else:
            self.seen += structure.unknown_node(child, self.owner, self.known)

    def block(self, child: Node) -> None:
        """A child that is an element of its own: one `agent` for each name, everything else once."""
        field, words = self.model.blocks[child.name], _words(child)
        if words in self.spans:
            self.seen += structure.duplicate(child.span, words, self.owner, None)
            return
        self.spans[words] = (child.span,)
        built = _Block(BLOCKS[child.name], child, words, self.text, self.seen).build()
        if isinstance(built, AgentSettings):
            self.values[field] = (*self.values.get(field, ()), built)
        elif built is not None:
            self.values[field] = built

    def attribute(self, line: _Line) -> None:
        if line.name in self.spans:
            self.seen += structure.duplicate(line.span, f'"{line.name}"', self.owner, None)
            return
        self.spans[line.name] = tuple(value.span for value in line.values) or (line.span,)
        several = line.name in _SEVERAL
        if not line.plain or not line.values or (len(line.values) > 1 and not several):
            amount = "one value or more" if several else "one value"
            self.seen += structure.missing(line.span, f'{amount} for "{line.name}"', self.owner, None)
            return
        given = tuple(value.value for value in line.values)
        if given == (None,):  # a field that may be left out would take it for that
            what = f'{self.owner}: "{line.name}"'
            self.seen += structure.wrong_value(line.values[0].span, what, None, "a value", None)
            return
        self.values[line.name] = given if several else given[0]

    def judged(self) -> Element | None:
        place = Place(self.node.span, {name: spans[0] for name, spans in self.spans.items()})
        try:
            return self.model(**self.values, at=place)
        except ValidationError as error:
            for details in error.errors(include_url=False):
                self.report(details)
            return None

    def report(self, details: ErrorDetails) -> None:
        field, *rest = details["loc"]
        name, index = str(field), rest[0] if rest and isinstance(rest[0], int) else 0
        kind, value = details["type"], details["input"]
        if kind == "missing":
            self.seen += structure.missing(self.node.span, "a name", f"the {self.owner} block", None)
            return
        span, what = self.spans[name][index], f'{self.owner}: "{name}"'
        value = value[0] if isinstance(value, tuple) else value
        if kind == "duration":
            self.seen += values.bad_duration(span, what, details["msg"], None)
        elif kind == "literal_error":
            choices = get_args(self.model.model_fields[name].annotation)
            self.seen += structure.unknown_choice(span, what, value, choices, None)
        else:
            expected = _EXPECTED.get(kind, details["msg"]).format(**details.get("ctx", {}))
            self.seen += structure.wrong_value(span, what, value, expected, None)


def _properties(node: Node, text: str) -> Iterator[_Line]:
    for name, value in node.props.items():
        key = key_before(text, node.span.start, value)
        yield _Line(name, key[1] if key else value.span, (value,))


def _words(node: Node) -> str:
    """A block in the words of a message: `agent "claude"`, `limits`."""
    name = node.args[0].value if node.args and node.name == "agent" else None
    return f'{node.name} "{name}"' if isinstance(name, str) else node.name
