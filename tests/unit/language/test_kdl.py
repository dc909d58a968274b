"""The door to kdl-py: spans, KDL's features, and every trouble as a problem at its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.language.diagnostics import Problem
from pipeline.language.kdl import MAX_DEPTH, TooDeep, parse
from pipeline.language.nodes import Node
from pipeline.language.source import Position, SourceText, decode


def nodes(text: str) -> tuple[Node, ...]:
    parsed = parse(decode("test", text.encode()))
    assert parsed.problem is None, parsed.problem
    return parsed.nodes


def problem(text: str) -> tuple[Position, Problem]:
    source = decode("test", text.encode())
    found = parse(source).problem
    assert found is not None
    return source.position(found.span.start), found


def test_everything_knows_where_it_stands() -> None:
    """Nodes, arguments, properties and children have exact spans."""
    text = 'top "one" key="two" {\n  child 3\n}\n'
    (top,) = nodes(text)
    assert text[slice(*top.span)] == "top"
    assert text[slice(*top.args[0].span)] == '"one"'
    assert text[slice(*top.props["key"].span)] == '"two"'
    assert text[slice(*top.children[0].span)] == "child"
    assert text[slice(*top.children[0].args[0].span)] == "3"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a 2", 2),
        ("a 9007199254740993", 9007199254740993),
        ("a 2.5", 2.5),
        ("a 1_000", 1000),
        ("a 007", 7),
        ("a -3", -3),
        ("a 0xff", 255),
        ("a 0b101", 5),
        ("a 0o17", 15),
        ("a 1e3", 1000.0),
        ("a true", True),
        ("a null", None),
        (r'a "tab\tquote\" \u{1F600}"', 'tab\tquote" \U0001f600'),
        (r'a r"C:\new"', r"C:\new"),
        ('a r#"say "hi""#', 'say "hi"'),
        ('a "first\nsecond"', "first\nsecond"),
    ],
)
def test_values_are_exact(text: str, value: object) -> None:
    """Whole numbers stay whole and exact; escaped, raw and many-line texts are what they say."""
    (node,) = nodes(text)
    found = node.args[0].value
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        "a 1 // comment\nb 2",
        "a 1 /* comment */\nb 2",
        "/* outer /* inner */ */ a 1\nb 2",
        "a 1 /-2\nb 2",
        "a 1\n/-c 3 { d 4; }\nb 2",
        "a 1 /-{ c 3; }\nb 2",
        "a 1; b 2",
        "a 1;b 2;",
        "a \\\n  1\nb 2",
        "a 1\r\nb 2\r\n",
        "a \\\r\n 1\r\nb 2",
        "\ufeffa 1\nb 2",
        "a 1\rb 2",
    ],
)
def test_what_authors_use_of_kdl_works(text: str) -> None:
    """Comments of every kind, slashdash, semicolons, continued lines, CRLF, lone CR and a byte order mark."""
    assert [(node.name, node.args[0].value) for node in nodes(text)] == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    "text",
    [
        "a { b 1; c 2 }",
        "a { b 1; c 2; }",
        "a { b 1 { d 3 }; c 2 }",
        "a { b 1; c 2 /* } */ }",
        'a { b 1; c 2 "}" }',
        "a { /* nothing before */ b 1; c 2 }",
        "a {\n b 1; c 2 }",
        'a { b 1; c 2 r#"}"# }\nd { /* nothing */ }',
    ],
)
def test_a_block_may_end_on_the_line_of_its_last_node(text: str) -> None:
    """`{ a 1; b 2 }` needs no semicolon before its bracket."""
    assert [child.name for child in nodes(text)[0].children] == ["b", "c"]


def test_lines_and_columns_count_as_an_editor_counts() -> None:
    """A byte order mark and CRLF move no column."""
    source = decode("test", "\ufeffa 1\r\n  b\r\n".encode())
    parsed = parse(source)
    assert source.position(parsed.nodes[1].span.start) == (2, 3)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a x=1 x=2", ["x"]),
        ("a x=1 y=2 x=3 y=4", ["x", "y"]),
        ('a "x"=1 x=2', ["x"]),
        ("a x=1 /-x=2", []),
        ("a /-x=1 x=2", []),
        ("a /- /* - */ x=1 x=2", []),
        ("a x=1 { b x=2; }", []),
        ("a x=1 { /-b x=2; }", []),
        ("a 1 1", []),
    ],
)
def test_a_repeated_property_is_noticed(text: str, expected: list[str]) -> None:
    """kdl-py lets the last one win in silence; commented-out ones and those of children do not count."""
    assert [duplicate.name for duplicate in nodes(text)[0].duplicates] == expected


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a key=word", (1, 7), "a value is missing after the equals sign"),
        ('a "open', (1, 3), "this text is never closed"),
        ('a r#"open"', (1, 3), "this raw text is never closed"),
        ("a {\n b 1\n", (1, 3), "this block is never closed"),
        ("/* open", (1, 1), "this comment is never closed"),
        ("a 'x'", (1, 3), "text needs double quotes"),
        ("a TRUE", (1, 3), "true, false and null are written in lower case"),
        ("a 1\n}", (2, 1), "a node cannot start with this"),
        ('a "one \\\n  two"', (1, 8), "a backslash cannot end a line inside text"),
        (r'a "\d"', (1, 4), "this escape does not exist"),
        (r'a "\u{110000}"', (1, 7), "Maximum codepoint in a unicode escape is 0x10ffff"),
        (r'a "\u{D800}"', (1, 3), "text may not hold the character U+D800"),
        (r'a "\u{0}"', (1, 3), "text may not hold the character U+0000"),
        ("a 1e999999999", (1, 3), "this number is too large"),
        ("a " + "9" * 5000, (1, 3), "this number is too long"),
        ("a (u8)5", (1, 7), "the type annotation (u8) has no meaning here"),
        ("(t)a 5", (1, 1), "the type annotation (t) has no meaning here"),
        ("a {b 1}", (1, 7), "the last node of a block on one line needs an end"),
        ("a 5z", (1, 4), "this does not belong to the line before it"),
    ],
)
def test_what_cannot_be_read_is_said_at_its_place(text: str, where: tuple[int, int], message: str) -> None:
    """Each mistake has a message in plain words at its line and column."""
    position, found = problem(text)
    assert (tuple(position), found.message) == (where, message)


def test_a_line_break_behind_a_backslash_says_what_to_write() -> None:
    """KDL's escaped line breaks in text are the one thing kdl-py cannot read; the help tells the way round."""
    _, found = problem('a "one \\\n two"')
    assert found.help == "leave the backslash out: text may run over several lines as it is"


@pytest.mark.parametrize("text", ["a{" * 5000, "a {" * (MAX_DEPTH + 1), "/*" * 5000, "a 1e" + "9" * 5000])
def test_hostile_depth_and_digits_end_in_words(text: str) -> None:
    """Neither the stack nor the integer parser gives way."""
    try:
        assert parse(SourceText("test", text)).problem is not None
    except TooDeep as deep:
        assert 0 <= deep.offset < len(text)  # noqa: PT017 - both ways out are checked


def test_brackets_in_texts_and_comments_are_no_depth() -> None:
    """Only real blocks count towards the limit."""
    braces = "{" * 500
    assert len(nodes(f'a "{braces}" r#"{braces}"# // {braces}\nb /* {braces} */ 1')) == 2


def test_many_unclosed_raw_texts_take_no_time_to_speak_of() -> None:
    """A text made to be slow for patterns is refused at its first mistake."""
    assert parse(SourceText("test", 'r##"' * 100_000)).problem is not None
    assert parse(SourceText("test", '"\\' * 200_000)).problem is not None
    assert parse(SourceText("test", "a/" * 200_000)).problem is not None
    assert parse(SourceText("test", "#" * 400_000)).problem is None


@given(st.text(max_size=80) | st.text('ab1 {}"\\/*-;=#r()\n\t', max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but nodes, a problem inside the text, or TooDeep comes out."""
    source = decode("test", text.encode("utf-8", "replace"))
    try:
        parsed = parse(source)
    except TooDeep:
        return
    if parsed.problem:
        assert 0 <= parsed.problem.span.start <= len(source.text)
        assert source.position(parsed.problem.span.start).line >= 1
