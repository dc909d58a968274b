"""KDL text to nodes: exact spans and values, and every mistake as an error at its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.language.kdl import MAX_DEPTH, KdlError, KdlNode, NestingError, parse_kdl
from pipeline.language.source import SourceText, decode


def nodes(text: str) -> tuple[KdlNode, ...]:
    return parse_kdl(decode("test", text.encode()))


def mistake(text: str) -> tuple[tuple[int, int], KdlError]:
    source = decode("test", text.encode())
    with pytest.raises(KdlError) as caught:
        parse_kdl(source)
    return source.position(caught.value.span.start), caught.value


def test_everything_has_an_exact_span() -> None:
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
    """Integers stay integers and exact; escaped, raw and multi-line strings are read correctly."""
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
def test_the_features_of_kdl_work(text: str) -> None:
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


def test_lines_and_columns_are_those_of_an_editor() -> None:
    """A byte order mark and CRLF move no column."""
    source = decode("test", "\ufeffa 1\r\n  b\r\n".encode())
    assert source.position(parse_kdl(source)[1].span.start) == (2, 3)


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
    """kdl-py silently keeps the last one; commented-out ones and those of children do not count."""
    assert list(nodes(text)[0].duplicates) == expected


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("a key=word", (1, 7), "missing value"),
        ('a "open', (1, 3), "unterminated string"),
        ('a r#"open"', (1, 3), "unterminated raw string"),
        ("a {\n b 1\n", (1, 3), "unclosed block"),
        ("/* open", (1, 1), "unclosed comment"),
        ("a 'x'", (1, 3), "double quotes"),
        ("a TRUE", (1, 3), "lower case"),
        ("a 1\n}", (2, 1), "expected a node"),
        ('a "one \\\n  two"', (1, 8), "backslash"),
        (r'a "\d"', (1, 4), "unknown escape"),
        (r'a "\u{110000}"', (1, 7), "0x10ffff"),
        (r'a "\u{D800}"', (1, 3), "U+D800"),
        (r'a "\u{0}"', (1, 3), "U+0000"),
        ("a 1e999999999", (1, 3), "too large"),
        ("a " + "9" * 5000, (1, 3), "too long"),
        ("a (u8)5", (1, 7), "(u8)"),
        ("(t)a 5", (1, 1), "(t)"),
        ("a {b 1}", (1, 7), "before }"),
        ("a 5z", (1, 4), "unexpected text"),
    ],
)
def test_a_mistake_is_reported_at_its_place(text: str, where: tuple[int, int], message: str) -> None:
    """Each mistake has its line and column, and a message of ours rather than of the parser."""
    position, error = mistake(text)
    assert position == where
    assert message in error.message


def test_a_backslash_at_the_end_of_a_line_has_a_hint() -> None:
    """Escaped line breaks in strings are the one feature of KDL 1.0 that kdl-py cannot read."""
    _, error = mistake('a "one \\\n two"')
    assert error.help is not None
    assert "remove the backslash" in error.help


@pytest.mark.parametrize("text", ["a{" * 5000, "a {" * (MAX_DEPTH + 1), "/*" * 5000])
def test_deep_nesting_is_an_error_inside_the_text(text: str) -> None:
    """The stack is never exhausted."""
    with pytest.raises(NestingError) as caught:
        parse_kdl(SourceText("test", text))
    assert 0 <= caught.value.span.start < len(text)


def test_a_huge_exponent_is_an_error() -> None:
    """Python refuses to convert so many digits."""
    mistake("a 1e" + "9" * 5000)


def test_brackets_in_strings_and_comments_do_not_count_as_depth() -> None:
    """Only real blocks count towards the limit."""
    braces = "{" * 500
    assert len(nodes(f'a "{braces}" r#"{braces}"# // {braces}\nb /* {braces} */ 1')) == 2


def test_hostile_texts_are_refused_in_linear_time() -> None:
    """A text made to be slow for patterns is refused at its first mistake."""
    for text in ('r##"' * 100_000, '"\\' * 200_000, "a/" * 200_000):
        mistake(text)
    assert parse_kdl(SourceText("test", "#" * 400_000))
    long = "a" * 400_000
    assert list(nodes(f"a x=1 /*{long}*/ x=2 /*{long}*/ 3")[0].duplicates) == ["x"]


@given(st.text(max_size=80) | st.text('ab1 {}"\\/*-;=#r()\n\t', max_size=80))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    """Nothing comes out but nodes, or a KdlError inside the text."""
    source = decode("test", text.encode("utf-8", "replace"))
    try:
        parse_kdl(source)
    except KdlError as error:
        start = error.span.start
    else:
        start = 0
    assert 0 <= start <= len(source.text)
    assert source.position(start).line >= 1
