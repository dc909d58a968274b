"""Inputs: their declaration, and the values that a run gives them."""

import pytest
from tests.unit.language.examples import bounded, check_text, codes

from pipeline.language.inputs import resolve_inputs
from pipeline.language.model import Workflow

DECLARED = """input "ticket" required=true description="What to work on"
input "branch" default="main"
input "note"
input "rounds" default=3
input "share" default=0.5
input "draft" default=false
stage "a" kind="tool" command="x"
transition from="a" to="done"
"""


def workflow() -> Workflow:
    checked = check_text(bounded(DECLARED)).workflow
    assert checked is not None
    return checked


def test_an_input_that_is_not_given_has_its_default() -> None:
    """Without a default it is empty text."""
    values, problems = resolve_inputs(workflow(), {"ticket": "A-1"})
    assert problems == []
    assert values == {"ticket": "A-1", "branch": "main", "note": "", "rounds": 3, "share": 0.5, "draft": False}


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("branch", "5", "5"),
        ("branch", "", ""),
        ("branch", "a=b", "a=b"),
        ("branch", 5, "5"),
        ("rounds", "7", 7),
        ("rounds", "-2.5", -2.5),
        ("rounds", 7, 7),
        ("share", "1", 1),
        ("draft", "true", True),
        ("draft", "false", False),
        ("draft", True, True),
    ],
)
def test_a_value_is_converted_to_the_type_of_the_default(name: str, given: str | float, value: object) -> None:
    """A value that has the type already stays as it is."""
    values, problems = resolve_inputs(workflow(), {"ticket": "A-1", name: given})
    assert (problems, values[name], type(values[name])) == ([], value, type(value))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *(("rounds", text) for text in ("", "x", "1e3", "inf", "nan", " 1", "1_000", "0x1", "1.", "9" * 400, "true")),
        *(("draft", text) for text in ("", "yes", "1", "True")),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, given: str) -> None:
    """The message names the input."""
    values, problems = resolve_inputs(workflow(), {"ticket": "A-1", name: given})
    assert name not in values
    assert [f'"{name}"' in problem.message for problem in problems] == [True]


def test_everything_that_is_wrong_is_reported_at_once() -> None:
    """A missing one with its description, an unknown one with the nearest name."""
    _, problems = resolve_inputs(workflow(), {"tiket": "A-1", "rounds": "many"})
    unknown, missing, unsuitable = problems
    assert "ticket" in (unknown.help or "")
    assert "What to work on" in missing.message
    assert "rounds" in unsuitable.message


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("input", "AWF009"),
        ('input "Ticket"', "AWF014"),
        ('input "my-ticket"', "AWF014"),
        ('input "1st"', "AWF014"),
        ('input "' + "x" * 65 + '"', "AWF014"),
        ('input "a" "b"', "AWF038"),
        ('input "a" defualt="b"', "AWF007"),
        ('input "a" default="b" default="c"', "AWF008"),
        ('input "a" required="yes"', "AWF010"),
        ('input "a"\ninput "a" default=1', "AWF033"),
        ('input "a" required=true default=false', "AWF043"),
    ],
)
def test_a_declaration_is_wrong(line: str, code: str) -> None:
    """Nothing in it is ignored."""
    assert set(codes(bounded(f'{line}\nstage "s" kind="tool" command="x"\ntransition from="s" to="done"'))) == {code}
