"""Checks of transitions, branches, triage targets and loops."""

import pytest
from tests.unit.language.examples import bounded, check_text, codes, problems, whole

from pipeline.language.edges import EdgeRole, edges
from pipeline.language.model import StageKind, TriageStage, TriageTarget, waits_for_person


@pytest.mark.parametrize(
    ("lines", "code", "part"),
    [
        ('transition from="a" to="done"\ntransition from="done" to="a"', "AWF026", "transition"),
        ('stage "p" kind="parallel" { branch "b"; branch "b"; }\nstage "b" kind="tool" command="x"', "AWF027", '"b"'),
        ('stage "p" kind="parallel" { branch "done"; branch "a"; }', "AWF027", '"done"'),
        ('stage "p" kind="parallel" { branch "a"; }', "AWF027", 'stage "p"'),
        ('stage "p" kind="parallel" join=3 { branch "b"; branch "c"; }', "AWF027", "3"),
    ],
)
def test_a_transition_or_branch_is_wrong(lines: str, code: str, part: str) -> None:
    """Forms that a rule covers besides the example of its page."""
    assert (code, part) in problems(bounded(f'stage "a" kind="tool" command="x"\n{lines}'))


def test_a_retry_target_must_exist() -> None:
    """It is an edge like any other."""
    lines = 'stage "a" kind="tool" command="x" retry_target="b"\ntransition from="a" to="done"'
    assert ("AWF020", '"b"') in problems(bounded(lines))


def test_a_parallel_stage_with_a_number_to_join() -> None:
    """As many as there are branches is fine."""
    lines = (
        'stage "a" kind="parallel" join=2 max_parallel=1 {\nbranch "b"\nbranch "c"\n}\n'
        'stage "b" kind="tool" command="x"\nstage "c" kind="tool" command="y"\ntransition from="a" to="done"'
    )
    assert codes(bounded(lines)) == []


TRIAGE = 'stage "sort" kind="triage" { apply to="fix"; done to="end" }'


def triage(stage: str, more: str = "") -> str:
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


def test_a_triage_stage_has_two_targets() -> None:
    """They reach the model and are edges by their keys; people bound a loop through the stage."""
    report = check_text(triage(TRIAGE))
    assert report.diagnostics == ()
    assert report.workflow is not None
    sort = report.workflow.stage("sort")
    assert sort == TriageStage(id="sort", apply=TriageTarget(to="fix"), done=TriageTarget(to="end"))
    assert sort.kind is StageKind.TRIAGE
    assert waits_for_person(sort)
    leaving = [edge for edge in edges(report.workflow) if edge.source == "sort"]
    assert [(edge.key, edge.target) for edge in leaving] == [("apply", "fix"), ("done", "end")]
    assert {edge.role for edge in leaving} == {EdgeRole.OPTION}


@pytest.mark.parametrize(
    ("stage", "code", "part"),
    [
        ('stage "sort" kind="triage" { done to="end"; }', "AWF041", 'stage "sort"'),
        ('stage "sort" kind="triage" { apply to="fix"; }', "AWF041", 'stage "sort"'),
        ('stage "sort" kind="triage" { apply to="fix"; apply to="rev"; done to="end"; }', "AWF008", "apply"),
        ('stage "sort" kind="triage" { apply; done to="end"; }', "AWF009", "apply"),
        ('stage "sort" kind="triage" { apply to=5; done to="end"; }', "AWF010", "5"),
        ('stage "sort" kind="triage" { apply to="fx"; done to="end"; }', "AWF020", '"fx"'),
        ('stage "sort" kind="triage" prompt="Go?" { apply to="fix"; done to="end"; }', "AWF007", "prompt"),
        ('stage "sort" kind="triage" { apply to="fix" when="true"; done to="end"; }', "AWF007", "when"),
        ('stage "sort" kind="human" prompt="?" { apply to="fix"; done to="end"; }', "AWF006", "apply"),
    ],
)
def test_a_triage_stage_is_wrong(stage: str, code: str, part: str) -> None:
    """Each mistake by its rule, with the part of the line that is wrong."""
    assert (code, part) in problems(triage(stage))


def test_a_triage_stage_has_no_transitions() -> None:
    """It leaves by its targets only."""
    assert codes(triage(TRIAGE, 'transition from="sort" to="end"')) == ["AWF026"]


STAGES = """stage "check" kind="tool" command="make check"
stage "fix" kind="llm" prompt="Fix it"
transition from="check" to="done" when="outcome(\\"check\\") == \\"success\\""
transition from="check" to="fix"
transition from="fix" to="check"
"""
LOOP = """loop "fixing" {
  stages "check" "fix"
  max_rounds 4
  on "stalled" to="done"
  on "exhausted" to="done"
}
"""


def test_a_loop_is_read() -> None:
    """Its stages in order, its rounds and its exits; it is a limit of the cycle that it covers."""
    report = check_text(whole(STAGES + LOOP))
    assert report.diagnostics == ()
    assert report.workflow is not None
    (loop,) = report.workflow.loops
    assert (loop.name, loop.stages, loop.max_rounds) == ("fixing", ("check", "fix"), 4)
    assert (loop.exit_for("stalled"), loop.exit_for("exhausted")) == ("done", "done")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("max_rounds 4", "max_rounds 0"), "AWF010"),
        (('on "stalled"', 'on "staled"'), "AWF012"),
        (('on "stalled" to="done"', 'on "stalled" to="dne"'), "AWF020"),
        (('stages "check" "fix"', 'stages "check" "fixx"'), "AWF039"),
        (('  stages "check" "fix"\n', ""), "AWF039"),
        (('  on "exhausted" to="done"\n', ""), "AWF040"),
        (('on "stalled"', 'on "exhausted"'), "AWF040"),
        (('on "stalled" to="done"', 'on "stalled" to="fix"'), "AWF040"),
        (("max_rounds", "max_round"), "AWF006"),
        (('loop "fixing"', "loop"), "AWF009"),
    ],
)
def test_a_loop_is_wrong(change: tuple[str, str], code: str) -> None:
    """Each mistake by its own rule."""
    assert code in codes(whole(STAGES + LOOP.replace(*change)))


def test_a_stage_is_in_one_loop_only() -> None:
    """Rounds are counted once."""
    twice = LOOP + LOOP.replace("fixing", "again")
    assert codes(whole(STAGES + twice)).count("AWF039") == 4
