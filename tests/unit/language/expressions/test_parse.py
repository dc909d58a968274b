"""Conditions: parsing, mistakes, printing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.language.checks.conditions import constant, mismatches
from pipeline.language.expressions import Expression, ExpressionError, parse_expression
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
from pipeline.language.source import START


@pytest.mark.parametrize(
    ("text", "at", "message", "help"),
    [
        ("", 0, "expected a value at the end", None),
        ("true &&", 7, "expected a value at the end", None),
        ("(true", 5, 'expected ")" at the end', None),
        ("true)", 4, 'unexpected ")"', None),
        ('outcome("a") = "b"', 13, 'unexpected "="', "use =="),
        ("outcome('a')", 8, 'unexpected "\'"', "double quotes"),
        ('"abc', 0, "unterminated string", 'end it with "'),
        ("1 + 2", 2, 'unexpected "+"', "conditions do not calculate"),
        ("1 < 2 < 3", 6, "comparisons cannot be chained", "&&"),
        ("passed", 0, 'unexpected "passed"', "quote it"),
        ("success", 0, 'unexpected "success"', 'on="success"'),
        ("null == 1", 0, 'unexpected "null"', "exists"),
        ("true and false", 5, 'unexpected "and"; use &&', None),
        ('outcom("a") == "b"', 0, "unknown function outcom()", 'did you mean "outcome"?'),
        ('fetch("a")', 0, "unknown function fetch()", "the functions are"),
        ("outcome()", 0, "outcome() needs a name in quotes", 'outcome("name")'),
        ("visits(3)", 7, "visits() takes a name in quotes", None),
        ('verdict("a")', 8, "verdict() takes no argument", None),
        (r'"a\q"', 2, r'unknown escape "\q"', None),
        ("1" * 350 + ".5 < 1", 0, "this number is too large", None),
        ("&& true", 0, 'unexpected "&&"', "expected a value"),
        ("1" * 500 + " < 1", 0, "this number is too long", None),
    ],
)
def test_a_malformed_condition_is_reported_at_its_place(text: str, at: int, message: str, help: str | None) -> None:
    """The error names the first wrong thing, its offset and, where possible, what to write."""
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    assert (caught.value.span.start, caught.value.message) == (at, message)
    assert help is None or help in (caught.value.help or "")


@pytest.mark.parametrize("text", ["(" * 100_000, "!" * 100_000 + "true", "(" * 300 + "true" + ")" * 300])
def test_deeper_nesting_is_an_error_not_a_crash(text: str) -> None:
    """Beyond the limit a condition is refused; the stack is never exhausted."""
    with pytest.raises(ExpressionError, match="nested deeper"):
        parse_expression(text)


def test_a_chain_may_have_any_length() -> None:
    """Ten thousand terms joined by && are one flat node."""
    expression = parse_expression(" && ".join(["true"] * 10_000))
    assert isinstance(expression.tree, And)
    assert len(expression.tree.terms) == 10_000


def literals() -> st.SearchStrategy[Tree]:
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    numbers = st.integers(-(10**9), 10**9) | st.floats(-1e6, 1e6, allow_nan=False)
    return st.builds(Literal, texts | numbers | st.booleans(), st.just(START))


def calls() -> st.SearchStrategy[Tree]:
    named = st.sampled_from([f for f in Function if f is not Function.VERDICT])
    return st.one_of(
        st.builds(FunctionCall, named, st.text(max_size=8), st.just(START)),
        st.builds(FunctionCall, st.sampled_from([Function.FINDINGS, Function.VERDICT]), st.none(), st.just(START)),
    )


def trees() -> st.SearchStrategy[Tree]:
    def extend(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        terms = st.lists(inner, min_size=2, max_size=4).map(tuple)
        return st.one_of(
            st.builds(Not, inner, st.just(START)),
            st.builds(Comparison, st.sampled_from(Operator), inner, inner, st.just(START)),
            st.builds(And, terms, st.just(START)),
            st.builds(Or, terms, st.just(START)),
        )

    return st.recursive(literals() | calls(), extend, max_leaves=12)


@given(trees())
def test_printing_and_reading_again_gives_the_same_tree(tree: Tree) -> None:
    """Parse, print, parse again: the same tree."""
    once = parse_expression(str(tree))
    assert once.tree == tree
    assert parse_expression(str(once)).tree == tree


@given(st.text(max_size=60) | st.text('()!&|=<>"\\ truefals019.-outcome', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Any text is an expression, or an ExpressionError inside the text."""
    try:
        expression: Expression | None = parse_expression(text)
    except ExpressionError as error:
        assert 0 <= error.span.start <= error.span.end <= len(text)  # noqa: PT017 - both ways out are checked
    else:
        assert expression is not None
        list(mismatches(expression))
        constant(expression.tree)
