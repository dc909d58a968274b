"""Triage stages in a file: both of their ways are there, once, and lead to a stage."""

import pytest
from tests.unit.language.test_rules import examine, under_caret

from pipeline.language.edges import EdgeRole, edges
from pipeline.language.model import StageKind, TriageStage, TriageTarget, waits_for_person

STAGE = 'stage "sort" kind="triage" { apply to="fix"; done to="end" }'


def body(stage: str, more: str = "") -> str:
    return f"""workflow "W" {{
version 2
start "rev"
stage "rev" kind="llm" auto_status=true prompt="Review it"
{stage}
stage "fix" kind="llm" prompt="Fix it"
stage "end" kind="exit"
transition from="rev" to="sort"
transition from="fix" to="rev"
{more}
}}
"""


def test_it_says_where_it_leads() -> None:
    """What is written reaches the model, and its ways are known by their keys; people bound a loop through it."""
    report = examine(body(STAGE))
    assert report.diagnostics == ()
    assert report.workflow is not None
    sort = report.workflow.stage("sort")
    assert sort == TriageStage(id="sort", apply=TriageTarget(to="fix"), done=TriageTarget(to="end"))
    assert sort.kind is StageKind.TRIAGE
    assert waits_for_person(sort)
    leaving = [(edge.key, edge.target) for edge in edges(report.workflow) if edge.source == "sort"]
    assert leaving == [("apply", "fix"), ("done", "end")]
    assert {edge.role for edge in edges(report.workflow) if edge.source == "sort"} == {EdgeRole.OPTION}


@pytest.mark.parametrize(
    ("stage", "code", "marked"),
    [
        ('stage "sort" kind="triage" { done to="end"; }', "AWF041", 'stage "sort"'),
        ('stage "sort" kind="triage" { apply to="fix"; }', "AWF041", 'stage "sort"'),
        ('stage "sort" kind="triage" { apply to="fix"; apply to="rev"; done to="end"; }', "AWF008", "apply"),
        ('stage "sort" kind="triage" { apply; done to="end"; }', "AWF009", "apply"),
        ('stage "sort" kind="triage" { apply to=5; done to="end"; }', "AWF010", "5"),
        ('stage "sort" kind="triage" { apply to="fx"; done to="end"; }', "AWF020", '"fx"'),
        ('stage "sort" kind="triage" prompt="Go?" { apply to="fix"; done to="end"; }', "AWF007", "prompt"),
        ('stage "sort" kind="triage" { apply to="fix" when="true"; done to="end"; }', "AWF007", "when"),
        ('stage "sort" kind="triage" { aply to="fix"; done to="end"; }', "AWF006", "aply"),
        ('stage "sort" kind="human" prompt="?" { apply to="fix"; done to="end"; }', "AWF006", "apply"),
    ],
)
def test_its_mistakes_are_reported_where_they_are(stage: str, code: str, marked: str) -> None:
    """Each by its rule, with the part of the line that is wrong."""
    text = body(stage)
    assert (code, marked) in [(found.code, under_caret(text, found)) for found in examine(text).diagnostics]


@pytest.mark.parametrize(
    ("stage", "help"),
    [
        ('stage "sort" kind="triag" { apply to="fix"; done to="end"; }', 'did you mean "triage"?'),
        ('stage "sort" kind="triage" { aply to="fix"; done to="end"; }', 'did you mean "apply"?'),
        ('stage "sort" kind="triage" { apply to="fx"; done to="end"; }', 'did you mean "fix"?'),
        ('stage "sort" kind="triage" { apply too="fix"; done to="end"; }', 'did you mean "to"?'),
    ],
)
def test_a_slip_is_answered_with_what_was_meant(stage: str, help: str) -> None:
    """The nearest word that has a meaning there."""
    assert help in [one.help for one in examine(body(stage)).diagnostics]


def test_it_has_no_transitions() -> None:
    """It leaves by its two ways and by nothing else."""
    (found,) = examine(body(STAGE, 'transition from="sort" to="end"')).diagnostics
    assert found.code == "AWF026"


def test_it_reads_every_review() -> None:
    """A review before a triage is not one that nobody looks at."""
    without = body('stage "sort" kind="tool" command="true"', 'transition from="sort" to="fix"')
    assert any(one.code == "AWF102" for one in examine(without).diagnostics)
    assert not any(one.code == "AWF102" for one in examine(body(STAGE)).diagnostics)
