"""Conditions: reading, printing, typing, evaluating."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.language.checks.conditions import constant, impossible_values, mismatches
from pipeline.language.expressions import EvaluationError, Expression, ExpressionError, evaluate, parse_expression
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


@dataclass
class World:
    """An environment for conditions, filled by hand."""

    outcomes: dict[str, str] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    visited: dict[str, int] = field(default_factory=dict)
    reports: dict[str, int] = field(default_factory=dict)
    ruling: str = "none"

    def outcome(self, stage: str) -> str:
        return self.outcomes.get(stage, "not_run")

    def output(self, key: str) -> object:
        return self.values.get(key)

    def exists(self, key: str) -> bool:
        return key in self.values

    def context(self, key: str) -> object:
        return self.values.get(key)

    def visits(self, stage: str) -> int:
        return self.visited.get(stage, 0)

    def function(self, name: str) -> Callable[[str | None], object] | None:
        return {"findings": self.findings, "verdict": lambda _: self.ruling}.get(name)

    def findings(self, stage: str | None) -> int:
        return sum(self.reports.values()) if stage is None else self.reports.get(stage, 0)


WORLD = World(
    outcomes={"build": "success", "review": "fail"},
    values={"build.risk": "high", "build.size": 12, "flag": True, "off": False, "list": [1]},
    visited={"build": 2},
    reports={"review": 2, "lint": 1},
    ruling="FAIL",
)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('outcome("build") == "success"', True),
        ('outcome("review") != "success"', True),
        ('outcome("never") == "not_run"', True),
        ("findings() > 0 && findings() <= 3", True),
        ('findings("lint") == 1', True),
        ('visits("build") >= 2', True),
        ('visits("other") == 0', True),
        ('verdict() == "FAIL"', True),
        ('output("build.risk") == "high"', True),
        ('output("build.size") < 13', True),
        ('exists("build.risk") && !exists("build.colour")', True),
        ('context("flag")', True),
        ('context("off") || context("missing")', False),
        ('!context("missing")', True),
        ('context("missing") == ""', False),
        ('context("missing") < 3', False),
        ('context("missing") >= 3', False),
        ('output("build.size") == "12"', False),
        ('output("build.size") != "12"', True),
        ('context("flag") == 1', False),
        ('"" == ""', True),
        ('"a && b" == "a && b"', True),
        ('"a || b" != "a" && true', True),
        (r'"say \"hi\"" == "say \"hi\""', True),
        ("true || false && false", True),
        ("(true || false) && false", False),
        ("!true == false", True),
        ("1 == 1.0", True),
        ("-1 < 0", True),
        ('"abc" < "abd"', True),
        ('false && context("list") < 1', False),
    ],
)
def test_a_condition_holds_or_not(text: str, holds: bool) -> None:  # noqa: FBT001 - a table's column
    """Operators, functions, null and unlike types have the values the language defines."""
    assert evaluate(parse_expression(text), WORLD) is holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('context("list") < 1', '< cannot compare a list or an object with a number: context("list") < 1'),
        ('output("build.risk") > 1', '> cannot compare text with a number: output("build.risk") > 1'),
        ('output("build.size")', 'output("build.size") is a number, where true or false is needed'),
        ('!output("build.risk")', 'output("build.risk") is text, where true or false is needed'),
        ('context("flag") < context("off")', None),
    ],
)
def test_a_condition_without_a_value_says_why(text: str, message: str | None) -> None:
    """Ordering unlike types, and asking a number or a text whether it is true, are errors with a reason."""
    with pytest.raises(EvaluationError) as caught:
        evaluate(parse_expression(text), WORLD)
    assert message is None or caught.value.message == message


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


def test_parentheses_nest_two_hundred_deep() -> None:
    """Two hundred levels of parentheses and of `!` are read and evaluated."""
    assert evaluate(parse_expression("(" * 200 + "true" + ")" * 200), WORLD)
    assert evaluate(parse_expression("!" * 200 + "true"), WORLD)


@pytest.mark.parametrize("text", ["(" * 100_000, "!" * 100_000 + "true", "(" * 300 + "true" + ")" * 300])
def test_deeper_nesting_is_an_error_not_a_crash(text: str) -> None:
    """Beyond the limit a condition is refused; the stack is never exhausted."""
    with pytest.raises(ExpressionError, match="nested deeper"):
        parse_expression(text)


def test_a_chain_may_be_as_long_as_it_likes() -> None:
    """Ten thousand terms joined by && are one flat node."""
    expression = parse_expression(" && ".join(["true"] * 10_000))
    assert isinstance(expression.tree, And)
    assert len(expression.tree.terms) == 10_000
    assert evaluate(expression, WORLD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('visits("a") < "3"', '< cannot compare a number with text: visits("a") < "3"'),
        ('outcome("a") > 1', '> cannot compare text with a number: outcome("a") > 1'),
        ('exists("a.b") < 1', '< needs numbers or text, but exists("a.b") is true or false'),
        ("findings()", "a condition needs true or false, but findings() is a number"),
        ('!"x"', '! needs true or false, but "x" is text'),
        ('true && outcome("a")', '&& needs true or false, but outcome("a") is text'),
        ('1 || exists("a.b")', "|| needs true or false, but 1 is a number"),
    ],
)
def test_types_that_cannot_meet_are_found_before_the_run(text: str, message: str) -> None:
    """Wherever both sides are literals or functions of known type, a mismatch is known when the file is checked."""
    assert [why for _, why in mismatches(parse_expression(text))] == [message]


@pytest.mark.parametrize("text", ['output("a.n") < 3', 'context("k")', 'context("k") < context("l")', "findings() > 0"])
def test_types_known_only_at_run_time_are_no_mismatch(text: str) -> None:
    """What a context value is cannot be known before the run."""
    assert list(mismatches(parse_expression(text))) == []


def test_words_outside_a_closed_set_are_found() -> None:
    """An outcome compared with a word that no outcome is, on either side of the operator."""
    expression = parse_expression('outcome("a") == "sucess" || "pass" == verdict() || outcome("a") == "fail"')
    assert [(function, literal.value) for function, literal in impossible_values(expression)] == [
        (Function.OUTCOME, "sucess"),
        (Function.VERDICT, "pass"),
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("!true", False),
        ("1 == 2", False),
        ('"a" != "b"', True),
        ('visits("a") == "3"', False),
        ('visits("a") != "3"', True),
        ("findings() > 0 && false", False),
        ("findings() > 0 || true", True),
        ("findings() > 0", None),
        ('context("a") == 1', None),
        ("true && findings() > 0", None),
    ],
)
def test_a_condition_no_run_can_change_is_known(text: str, value: bool | None) -> None:  # noqa: FBT001 - a table's column
    """Literals and unlike types fold to a constant; anything a run decides does not."""
    assert constant(parse_expression(text).tree) is value


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
    """Parse, print, parse again: the same tree, whatever it holds."""
    once = parse_expression(str(tree))
    assert once.tree == tree
    assert parse_expression(str(once)).tree == tree


@given(st.text(max_size=60) | st.text('()!&|=<>"\\ truefals019.-outcome', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text escapes as anything but an expression or an ExpressionError inside the text."""
    try:
        expression: Expression | None = parse_expression(text)
    except ExpressionError as error:
        assert 0 <= error.span.start <= error.span.end <= len(text)  # noqa: PT017 - both ways out are checked
    else:
        assert expression is not None
        list(mismatches(expression))
        constant(expression.tree)
