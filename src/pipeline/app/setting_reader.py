"""Reads a settings file by the table of declarations. All mistakes are collected, each at its place."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pipeline.app.setting_table import BLOCK_NAMES, Declaration, SettingType, blocks_in, settings_in
from pipeline.language.diagnostics import RuleHit
from pipeline.language.kdl import KdlNode, KdlValue, key_before
from pipeline.language.reader import (
    DUPLICATE,
    MISSING,
    STRAY_VALUE,
    UNKNOWN_PROPERTY,
    describe,
    parse_nodes,
    unknown_hint,
    unknown_node,
)
from pipeline.language.source import START, SourceText, Span
from pipeline.text import did_you_mean, quote_value


class ReadSetting(NamedTuple):
    """A value that a file sets, and the line it is in."""

    value: Any
    line: int


class _Block(NamedTuple):
    """A block of a file: what declares it, what its settings are called from outside, and how messages name it."""

    declared: str  # such as `agent.*`
    name: str  # such as `agent.claude`
    owner: str  # such as `agent "claude"`

    def inside(self, word: str) -> str:
        """Return the full name of something in it."""
        return _join(self.name, word)


def read_entries(source: SourceText) -> tuple[dict[str, ReadSetting], list[RuleHit]]:
    """Return what a file sets by its full names, and everything that is wrong with it."""
    nodes, hits = parse_nodes(source)
    if hits:
        return {}, hits
    reader = _SettingsReader(source)
    reader.read_block(KdlNode("", START, (), {}, nodes, {}), _Block("", "", "the settings file"))
    return reader.entries, reader.hits


def _join(*words: str) -> str:
    return ".".join(filter(None, words))


class _SettingsReader:
    def __init__(self, source: SourceText) -> None:
        self.source = source
        self.entries: dict[str, ReadSetting] = {}
        self.hits: list[RuleHit] = []
        self._blocks: set[str] = set()

    def read_block(self, node: KdlNode, block: _Block) -> None:
        """Read the settings of a block, written as properties or as child nodes, and the blocks in it."""
        known = settings_in(block.declared)
        for word, value in node.props.items():
            if word in known:
                self.set(known[word], block, (value,), value.span)
            else:
                span = key_before(self.source.text, value) or value.span
                message = f'unknown property "{word}" in {block.owner}'
                self.hits.append(UNKNOWN_PROPERTY.hit(span, message, unknown_hint(word, block.owner, known)))
        for word, span in node.duplicates.items():
            self.report_duplicate(word, block, span)
        blocks = blocks_in(block.declared)
        for child in node.children:
            if child.name in known:
                self.read_setting(child, known[child.name], block)
            elif child.name in blocks:
                self.read_inner_block(child, block)
            else:
                self.hits.append(unknown_node(child, block.owner, (*blocks, *known)))
        for word, declared in known.items():
            if declared.required and block.inside(word) not in self.entries:
                self.hits.append(MISSING.hit(node.title_span, f'{block.owner} needs "{word}"'))

    def read_inner_block(self, node: KdlNode, outer: _Block) -> None:
        declared, owner = _join(outer.declared, node.name), describe(node)
        name, arguments = outer.inside(node.name), node.args
        if declared in BLOCK_NAMES:
            name = _join(name, self.read_name(node, BLOCK_NAMES[declared], owner))
            declared, arguments = f"{declared}.*", arguments[1:]
        for extra in arguments:
            message = f"{owner}: unexpected argument {quote_value(extra.value)}"
            self.hits.append(STRAY_VALUE.hit(extra.span, message, 'give it a name: name="value"'))
        if name in self._blocks:
            self.hits.append(DUPLICATE.hit(node.title_span, f"{outer.owner} has {owner} twice", "merge them"))
        else:
            self._blocks.add(name)
            self.read_block(node, _Block(declared, name, owner))

    def read_name(self, node: KdlNode, type: SettingType, owner: str) -> str:
        if not node.args:
            self.hits.append(MISSING.hit(node.title_span, f"{owner} needs a name"))
            return ""
        self.read_value("name", type, node.args[0], owner)
        return str(node.args[0].value)

    def read_setting(self, node: KdlNode, declared: Declaration, block: _Block) -> None:
        """Read a setting that is written as a child node: `timeout "30m"`."""
        several = declared.type.several
        if node.args and not node.props and not node.children and (several or len(node.args) == 1):
            self.set(declared, block, node.args, node.span)
            return
        amount = "at least one value" if several else "one value"
        self.hits.append(MISSING.hit(node.span, f'{block.owner} needs {amount} for "{declared.word}"'))
        self.entries.setdefault(block.inside(declared.word), ReadSetting(None, 0))

    def set(self, declared: Declaration, block: _Block, given: Sequence[KdlValue], span: Span) -> None:
        """Set a setting to the values that were given; `span` is where it was set."""
        name = block.inside(declared.word)
        if name in self.entries:
            self.report_duplicate(declared.word, block, span)
            return
        types = map(declared.type.at, range(len(given)))
        values = tuple(self.read_value(declared.word, *pair, block.owner) for pair in zip(types, given, strict=True))
        line = self.source.position(given[0].span.start).line
        self.entries[name] = ReadSetting(values if declared.type.several else values[0], line)

    def read_value(self, word: str, type: SettingType, given: KdlValue, owner: str) -> object:
        """Return a value as its setting has it; report one that the setting does not accept."""
        try:
            return type.read(given.value)
        except ValueError as error:
            what, why = f'{owner}: "{word}"', str(error)
            message = f"{what}: {why}" if why else f"{what} must be {type.words}, not {quote_value(given.value)}"
            hint = did_you_mean(str(given.value), type.choices)
            self.hits.append(type.rule.hit(given.span, message, hint))
            return ""

    def report_duplicate(self, word: str, block: _Block, span: Span) -> None:
        self.hits.append(DUPLICATE.hit(span, f'{block.owner} has "{word}" twice', "remove one of them"))
