"""Checks of conditions."""

import pytest
from tests.unit.language.checks.test_transitions import TRIAGE, triage
from tests.unit.language.examples import bounded, codes, problems

from pipeline.language.checks.conditions import constant, impossible_values, mismatches
from pipeline.language.expressions import parse_expression
from pipeline.language.expressions.parse import Function


def test_a_value_of_an_unknown_stage_is_reported() -> None:
    """A key starts with the stage that produced it, or with the name it chose for its answer."""
    lines = 'stage "a" kind="llm" prompt="x" response_key_base="plan"\ntransition from="a" to="done" when="%s == 1"'
    assert ("AWF029", 'output(\\"b.c\\")') in problems(bounded(lines % r"output(\"b.c\")"))
    assert codes(bounded(lines % r"output(\"plan.response\")")) == []


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
def test_incompatible_types_are_found_before_the_run(text: str, message: str) -> None:
    """Wherever the types of both sides are known."""
    assert [why for _, why in mismatches(parse_expression(text))] == [message]


@pytest.mark.parametrize("text", ['output("a.n") < 3', 'context("k")', 'context("k") < context("l")', "findings() > 0"])
def test_types_known_only_at_run_time_are_not_a_mismatch(text: str) -> None:
    """What a context value is cannot be known before the run."""
    assert list(mismatches(parse_expression(text))) == []


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ('input("n") < 3', None),
        ('input("on") && input("t") == "x"', None),
        ('input("t") < 3', "AWF030"),
        ('input("on") < 3', "AWF030"),
        ('input("n")', "AWF030"),
        ('input("n") == "3"', "AWF104"),
    ],
)
def test_an_input_has_the_type_of_its_default(condition: str, code: str | None) -> None:
    """A number is not compared with text, and one without a default is text."""
    lines = f'''input "n" default=2.5
        input "on" default=true
        input "t"
        stage "a" kind="tool" command="x"
        transition from="a" to="done" when=r#"{condition}"#
        transition from="a" to="done"'''
    assert codes(bounded(lines)) == ([code] if code else [])


def test_impossible_values_are_found() -> None:
    """An outcome or verdict compared with a value it never has, on either side."""
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
def test_constant_conditions_are_recognized(text: str, value: bool | None) -> None:  # noqa: FBT001 - a table's column
    """Literals and values of different types are constant; what a run decides is not."""
    assert constant(parse_expression(text).tree) is value


def test_a_condition_that_no_run_can_change_is_reported() -> None:
    """A number never equals a text."""
    lines = 'stage "a" kind="tool" command="x"\ntransition from="a" to="done" when="visits(\\"a\\") == \\"1\\""'
    assert "AWF104" in codes(bounded(lines))


@pytest.mark.parametrize(
    ("transitions", "dead"),
    [
        ('transition from="a" to="b" on="always"; transition from="a" to="done" on="fail"', 1),
        ('transition from="a" to="b" when="true"; transition from="a" to="done"', 1),
        ('transition from="a" to="b" on="fail"; transition from="a" to="done" on="fail"', 1),
        (
            'transition from="a" to="b" on="fail"; transition from="a" to="done" on="success"; '
            'transition from="a" to="b"',
            1,
        ),
        ('transition from="a" to="b" on="fail"; transition from="a" to="done" on="always"', 0),
        ('transition from="a" to="b" on="success"; transition from="a" to="done"', 0),
        ('transition from="a" to="b" priority=5; transition from="a" to="done" on="fail"', 0),
    ],
)
def test_a_transition_that_is_never_followed(transitions: str, dead: int) -> None:
    """It comes after one for every result, after the same condition, or after both results."""
    text = f"""
    workflow "W" {{
      version 2
      start "a"
      stage "a" kind="tool" command="x"
      stage "b" kind="tool" command="x"
      stage "done" kind="exit"
      transition from="b" to="done"
      {transitions}
    }}
    """
    assert codes(text).count("AWF104") == dead


@pytest.mark.parametrize("on", ["success", "fail"])
def test_a_transition_for_a_result_reads_a_review(on: str) -> None:
    """A review whose result chooses the transition is read; on="always" reads nothing."""
    text = f"""
    workflow "W" {{
      version 2
      start "a"
      stage "a" kind="llm" prompt="x" auto_status=true
      stage "b" kind="tool" command="x"
      stage "done" kind="exit"
      transition from="b" to="done"
      transition from="a" to="b" on="{on}"
      transition from="a" to="done"
    }}
    """
    assert "AWF102" not in codes(text)
    assert "AWF102" in codes(text.replace(f'on="{on}"', 'on="always"'))


def test_an_outcome_in_a_route_reads_a_review() -> None:
    """So does `findings()`, as the page of the rule shows."""
    lines = (
        'stage "a" kind="llm" prompt="x" auto_status="true"\nstage "g" kind="decision" {\n'
        'route when="outcome(\\"a\\") == \\"success\\"" to="done"\nroute when="true" to="a"\n}\n'
        'transition from="a" to="g"'
    )
    assert codes(bounded(lines)) == []


def test_a_triage_stage_reads_every_review() -> None:
    """It shows their findings to a person."""
    without = triage('stage "sort" kind="tool" command="true"', 'transition from="sort" to="fix"')
    assert "AWF102" in codes(without)
    assert "AWF102" not in codes(triage(TRIAGE))
