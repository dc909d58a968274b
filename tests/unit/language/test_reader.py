"""Nodes to models: what does not fit is reported with its rule and its place, and the rest is still read."""

import pytest
from tests.unit.language.examples import bounded, check_text, codes, marked, problems, whole

END = '\ntransition from="a" to="done"'


@pytest.mark.parametrize(
    ("lines", "code", "part"),
    [
        ('stage "a" kind="tool" command="x" meta=1', "AWF007", "meta"),
        ('stage "a" kind="tool" command="x" { tiemout "5m"; }', "AWF006", "tiemout"),
        ('stage "a" kind="tool" command="x" command="y"', "AWF008", '"y"'),
        ('stage "a" kind="tool" command="x" { command "y"; }', "AWF008", "command"),
        ('stage "a" kind="tool"', "AWF009", 'stage "a"'),
        ('stage "a" kind="tool" command="x"\nstage kind="tool" command="x"', "AWF009", "stage"),
        ('stage "a" kind="tool" { command "x" "y"; }', "AWF009", "command"),
        ('stage "a" kind="llm" prompt="x" auto_status="yes"', "AWF010", '"yes"'),
        ('stage "a" kind="tool" command=5', "AWF010", "5"),
        ('stage "a" kind="tool" command="x"\nsettings { max_visits 0; }', "AWF010", "0"),
        ('stage "a" kind="tool" command="x"\nsettings { max_visits 2.5; }', "AWF011", "2.5"),
        ('stage "a" kind="tool" command="x" on_error="ignore"', "AWF012", '"ignore"'),
        ('stage "a" kind="parallel" join="most" { branch "b"; branch "c"; }', "AWF012", '"most"'),
        ('stage "a" command="x"', "AWF013", 'stage "a"'),
        ('stage "a" kind="shell" command="x"', "AWF013", '"shell"'),
        ('stage "a.b" kind="tool" command="x"', "AWF014", '"a.b"'),
        ('stage "a" kind="tool" command="x" timeout=600', "AWF015", "600"),
        ('stage "a" kind="tool" command="x" timeout="0s"', "AWF015", '"0s"'),
        ('stage "a" kind="tool" command="x" { retry max_attempts=0; }', "AWF016", "0"),
        ('stage "a" kind="tool" command="x" { retry max_attempts=2 delay="5s" max_delay="1s"; }', "AWF016", "retry"),
        ('stage "a" kind="tool" command="x" { retry backoff="none" delay="5s"; }', "AWF016", "retry"),
        ('stage "a" kind="tool" command="x" { retry backoff="linear"; }', "AWF016", '"linear"'),
        ('stage "a" "make" kind="tool" command="x"', "AWF038", '"make"'),
    ],
)
def test_a_mistake_is_reported_where_it_is(lines: str, code: str, part: str) -> None:
    """Each by its rule, with the part of the line that is wrong."""
    assert (code, part) in problems(whole(lines + END))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("AWF004", 1, 1)),
        ("settings { }", ("AWF006", 1, 1)),
        ('workflow "A" { version 2; start "x"; }\nworkflow "B" { version 2; start "x"; }', ("AWF004", 2, 1)),
        ('workflow "A" { start "x"; }', ("AWF005", 1, 1)),
        ('workflow "A" { version 1; start "x"; }', ("AWF005", 1, 24)),
        ('workflow "A" { version 2; }', ("AWF018", 1, 1)),
        ("a {" * 65, ("AWF003", 1, 195)),
        ('workflow "A" {', ("AWF002", 1, 14)),
    ],
)
def test_a_file_that_is_no_workflow(text: str, expected: tuple[str, int, int]) -> None:
    """The file as a whole has its own rules."""
    assert expected in [(found.code, found.line, found.column) for found in check_text(text).diagnostics]


def test_more_stages_than_any_workflow_has_are_refused() -> None:
    """Ten thousand stages are the limit."""
    stages = "\n".join(f'stage "s{index}" kind="exit"' for index in range(10_001))
    assert codes(f'workflow "W" {{\nversion 2\nstart "s0"\n{stages}\n}}') == ["AWF003"]


def test_all_problems_of_a_file_are_reported_in_order() -> None:
    """Independent mistakes on many lines come out together, sorted by position."""
    text = """workflow "Many" {
  version 3
  start "biuld"
  settings { max_visits 2.5; }
  stage "build" kind="tool" command="" timeout=5
  stage "review" kind="llm" prompt="Look" auto_staus=true
  stage "ask" kind="human" prompt="Go?" { option "y" label="Yes" to="nowhere"; }
  stage "lost" kind="shell"
  stage "done" kind="exit"
  transition from="build" to="review" when="outcome(\\"build\\") = 1"
  transition from="review" to="ask"
  transition from="build" to="done"
}
"""
    found = [(diagnostic.line, diagnostic.code) for diagnostic in check_text(text).diagnostics]
    assert found == [
        (2, "AWF005"),
        (3, "AWF020"),
        (4, "AWF011"),
        (5, "AWF022"),
        (5, "AWF015"),
        (6, "AWF036"),
        (6, "AWF007"),
        (7, "AWF023"),
        (7, "AWF036"),
        (7, "AWF020"),
        (8, "AWF034"),
        (8, "AWF013"),
        (10, "AWF017"),
    ]


@pytest.mark.parametrize(
    "lines",
    [
        'stage "a" kind="tool" command="x" { retry max_attempts=2 delay="5s"; meta { owner "me"; tags 1 2; }; }',
        'stage "a" kind="llm" response_key_base="plan" { prompt "Long prompts may be nodes"; }',
        'stage "a" kind="workspace.create" on_error="fail"',
    ],
)
def test_attributes_may_be_properties_or_nodes(lines: str) -> None:
    """Whichever reads better."""
    assert codes(bounded(lines + END)) == []


def test_stages_that_run_nothing_take_no_on_error() -> None:
    """For a parallel stage it is set on the branches."""
    stages = """stage "both" kind="parallel" on_error="fail" {
      branch "one"
      branch "two"
    }
    stage "one" kind="tool" command="x" on_error="fail"
    stage "two" kind="tool" command="x"
    stage "done" kind="exit" on_error="fail"
    transition from="both" to="done"
    """
    assert problems(whole(stages)) == [("AWF007", "on_error"), ("AWF007", "on_error")]


def test_a_repeatable_attribute_may_be_a_property_and_a_node() -> None:
    """Its values are collected; one of the wrong type is an error wherever it is."""
    stage = 'stage "a" kind="human" prompt="Go?" require_feedback_on=%s {\noption "yes" label="Yes" to="done"\n'
    rest = 'option "no" label="No" to="done"\nrequire_feedback_on "no"\n}'
    assert codes(bounded(stage % '"yes"' + rest)) == []
    assert codes(bounded(stage % "true" + rest)) == ["AWF010"]


def test_a_stage_of_unknown_kind_may_have_a_number_for_an_id() -> None:
    """Names that resemble it are still suggested for others."""
    found = problems(bounded('stage "a" kind="tool" command="x"\nstage 1\ntransition from="a" to="don"'))
    assert ("AWF013", "stage 1") in found
    assert ("AWF020", '"don"') in found


@pytest.mark.parametrize(
    ("written", "suggested"),
    [
        ('start "biuld"', "build"),
        ('stage "x" kind="tol" command="x"', "tool"),
        ('stage "x" kind="tool" comand="x"', "command"),
        ('transition from="build" to="don"', "done"),
        ('transition from="build" to="done" when="outcome(\\"biuld\\") == \\"success\\""', "build"),
        ("settngs { max_visits 3; }", "settings"),
        ("settings { max_visit 3; }", "max_visits"),
        ('transition from="build" to="done" when="outcome(\\"build\\") == \\"sucess\\""', "success"),
        ('stage "t" kind="triag" { apply to="build"; done to="done"; }', "triage"),
        ('stage "t" kind="triage" { aply to="build"; done to="done"; }', "apply"),
        ('stage "t" kind="triage" { apply too="build"; done to="done"; }', "to"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(written: str, suggested: str) -> None:
    """Whatever is misspelled, the name that was meant is suggested."""
    start = "" if written.startswith("start") else 'start "build"\n'
    text = f'workflow "W" {{\nversion 2\n{start}{written}\nstage "build" kind="tool" command="x"\n'
    found = check_text(text + 'stage "done" kind="exit"\ntransition from="build" to="done"\n}\n').diagnostics
    assert f'did you mean "{suggested}"?' in [diagnostic.help for diagnostic in found]


def test_a_problem_inside_a_condition_has_its_own_column() -> None:
    """Escaped quotes before it are counted."""
    text = whole(
        'stage "a" kind="tool" command="x"\n'
        'transition from="a" to="done" when="outcome(\\"a\\") == \\"success\\" && visits(\\"zzz\\") > 1"\n'
    )
    (found,) = check_text(text).diagnostics
    assert marked(text, found) == 'visits(\\"zzz\\")'
