"""Conditions: their value in a run."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pipeline.language.expressions import EvaluationError, evaluate, parse_expression


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

    def input(self, name: str) -> object:
        return self.values.get(f"input.{name}")

    def visits(self, stage: str) -> int:
        return self.visited.get(stage, 0)

    def findings(self, stage: str | None) -> int:
        return sum(self.reports.values()) if stage is None else self.reports.get(stage, 0)

    def function(self, name: str) -> Callable[[str | None], object] | None:
        return {"findings": self.findings, "verdict": lambda _: self.ruling}.get(name)


WORLD = World(
    outcomes={"build": "success", "review": "fail"},
    values={"input.rounds": 3, "build.risk": "high", "build.size": 12, "flag": True, "off": False, "list": [1]},
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
        ('input("rounds") == 3', True),
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
def test_conditions_have_the_documented_values(text: str, holds: bool) -> None:  # noqa: FBT001 - a table's column
    """Operators, functions, null and values of different types."""
    assert evaluate(parse_expression(text), WORLD) is holds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('context("list") < 1', '< cannot compare a list or an object with a number: context("list") < 1'),
        ('output("build.risk") > 1', '> cannot compare text with a number: output("build.risk") > 1'),
        ('output("build.size")', 'output("build.size") is a number, but a condition needs true or false'),
        ('!output("build.risk")', 'output("build.risk") is text, but a condition needs true or false'),
        ('context("flag") < context("off")', None),
    ],
)
def test_a_condition_without_a_value_is_an_error(text: str, message: str | None) -> None:
    """Ordering different types, and using a number or text as a condition, are errors with a reason."""
    with pytest.raises(EvaluationError) as caught:
        evaluate(parse_expression(text), WORLD)
    assert message is None or caught.value.message == message


def test_parentheses_nest_two_hundred_deep() -> None:
    """Two hundred levels of parentheses and of `!` are read and evaluated."""
    assert evaluate(parse_expression("(" * 200 + "true" + ")" * 200), WORLD)
    assert evaluate(parse_expression("!" * 200 + "true"), WORLD)
