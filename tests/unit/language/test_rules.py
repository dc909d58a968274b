"""Every rule has a page, an example that breaks it and one that does not; and the rules see what they should."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.app.check import CheckedWorkflow, check_draft, every_rule
from pipeline.language import diagnostics
from pipeline.language.diagnostics import Diagnostic, Rule, RuleSeverity
from pipeline.language.reader import parse_workflow
from pipeline.language.source import decode

RULES = every_rule()
# Rules about files as such: what breaks them is no text of a workflow.
ABOUT_FILES = {"AWF001", "AWF003"}
_BLOCK = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:.*\n?)*?)(?=^## |\Z)", re.MULTILINE)
_FENCE = re.compile(r"```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)


def examine(
    text: str, prompt_exists: Callable[[str], bool] = lambda path: path == "prompts/plan.md"
) -> CheckedWorkflow:
    return check_draft(parse_workflow(decode("example.awf.kdl", text.encode())), prompt_exists)


def codes(text: str) -> list[str]:
    return [diagnostic.code for diagnostic in examine(text).diagnostics]


def under_caret(text: str, found: Diagnostic) -> str:
    """The part of a text that a diagnostic marks."""
    start = found.column - 1
    return text.splitlines()[found.line - 1][start : start + found.width]


def whole(example: str) -> str:
    """An example as a file: what a page leaves out for brevity is put round it."""
    if example.startswith("workflow"):
        return example
    first = re.search(r'stage "([^"]*)"', example)
    assert first is not None
    exit_stage = "" if 'kind="exit"' in example else 'stage "done" kind="exit"\n'
    return f'workflow "Example" {{\nversion 2\nstart "{first[1]}"\n{example}{exit_stage}}}\n'


def sections(rule: Rule) -> dict[str, str]:
    return {found["title"]: found["body"].strip() for found in _BLOCK.finditer(rule.page)}


def fenced(text: str) -> str:
    found = _FENCE.search(text)
    assert found is not None
    return found["text"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_has_a_page(rule: Rule) -> None:
    """What it is in one line, why it is bad, an example, and what to use instead."""
    assert rule.summary.endswith(".")
    assert list(sections(rule)) == ["Why is this bad?", "Example", "Use instead"]
    assert all(sections(rule).values())


def test_every_page_belongs_to_a_rule() -> None:
    """The heading of each page is the rule's code, name and severity."""
    pages = Path(diagnostics.__file__).parent / "rules"
    headings = {page.stem: page.read_text().partition("\n")[0] for page in pages.glob("*.md")}
    assert headings == {rule.code: f"# {rule.code} {rule.name} ({rule.severity})" for rule in RULES}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.code not in ABOUT_FILES], ids=lambda rule: rule.code)
def test_a_rules_examples_do_what_its_page_says(rule: Rule) -> None:
    """The example breaks this rule, the corrected one breaks none."""
    assert rule.code in codes(whole(fenced(sections(rule)["Example"])))
    assert codes(whole(fenced(sections(rule)["Use instead"]))) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rules_code_tells_its_severity(rule: Rule) -> None:
    """Errors are numbered from AWF001, warnings from AWF101."""
    assert (int(rule.code[3:]) > 100) is (rule.severity is RuleSeverity.WARNING)


def test_codes_and_names_are_given_once() -> None:
    """No two rules share a code or a name, and the numbers have no gap."""
    assert len({rule.name for rule in RULES}) == len(RULES)
    numbers = [int(rule.code[3:]) for rule in RULES]
    errors = [number for number in numbers if number < 100]
    warnings = [number for number in numbers if number > 100]
    assert errors == list(range(1, len(errors) + 1))
    assert warnings == list(range(101, 101 + len(warnings)))


def test_all_problems_of_a_file_are_told_at_once_in_order() -> None:
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
    found = [(d.line, d.code) for d in examine(text).diagnostics]
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


def body(lines: str, *, settings: str = "settings { max_visits 5; }") -> str:
    return whole(f"{settings}\n{lines}\n")


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ('stage "a" kind="llm" prompt="x" prompt_file="prompts/plan.md"\ntransition from="a" to="done"', "AWF021"),
        ('stage "a" kind="llm" prompt="  "\ntransition from="a" to="done"', "AWF021"),
        ('stage "a" kind="llm" prompt_file=" , "\ntransition from="a" to="done"', "AWF021"),
        ('stage "a" kind="llm" prompt_file="/etc/passwd"\ntransition from="a" to="done"', "AWF021"),
        ('stage "a" kind="llm" prompt_file="prompts/../../x.md"\ntransition from="a" to="done"', "AWF021"),
        ('stage "a" kind="tool" command="x" cwd="/tmp"\ntransition from="a" to="done"', "AWF032"),
        ('stage "a" kind="tool" command="x" timeout="0s"\ntransition from="a" to="done"', "AWF015"),
        ('stage "a" kind="tool" command="x" { retry max_attempts=2 delay="5s" max_delay="1s"; }', "AWF016"),
        ('stage "a" kind="tool" command="x" { retry max_attempts=2 backoff="none" delay="5s"; }', "AWF016"),
        ('stage "a" kind="tool" command="x" { retry backoff="linear"; }', "AWF016"),
        ('stage "a" kind="tool" command="x"\ntransition from="a" to="done"\ntransition from="done" to="a"', "AWF026"),
        ('stage "a" kind="llm" prompt="x" auto_status="yes"\ntransition from="a" to="done"', "AWF010"),
        ('stage "a" kind="tool" command="x" retry_target="b"\ntransition from="a" to="done"', "AWF020"),
        ('stage "a" kind="parallel" { branch "b"; branch "b"; }\nstage "b" kind="tool" command="x"', "AWF027"),
        ('stage "a" kind="parallel" { branch "done"; branch "b"; }\nstage "b" kind="tool" command="x"', "AWF027"),
        ('stage "a" kind="parallel" join=3 { branch "b"; branch "c"; }', "AWF027"),
        ('stage "a" kind="tool" command="x" meta=1\ntransition from="a" to="done"', "AWF007"),
        ('stage "a" kind="tool" command="x"\ntransition from="a" to="done" priority="high"', "AWF010"),
        ('stage "a" kind="tool" command=5\ntransition from="a" to="done"', "AWF010"),
        ('stage "a" kind="tool" command="x"\nstage kind="tool" command="x"', "AWF009"),
        ('stage "a.b" kind="tool" command="x"\ntransition from="a.b" to="done"', "AWF014"),
        ('stage "a" kind="tool" command="x"\ntransition from="a" to="done" when="output(\\"b.c\\") == 1"', "AWF029"),
        ('stage "a" kind="tool" command="make | tee log"\ntransition from="a" to="done"', "AWF105"),
        ('stage "a" kind="tool" command="make 2>&1 | tail -5"\ntransition from="a" to="done"', "AWF105"),
        (
            'stage "a" kind="tool" command="x"\ntransition from="a" to="done" when="visits(\\"a\\") == \\"1\\""',
            "AWF104",
        ),
    ],
)
def test_a_rule_sees_its_other_forms(lines: str, code: str) -> None:
    """Beside the example of its page a rule covers these."""
    assert code in codes(body(lines))


@pytest.mark.parametrize(
    "lines",
    [
        'stage "a" kind="llm" prompt="x" auto_status="true"\nstage "g" kind="decision" {\n'
        'route when="outcome(\\"a\\") == \\"success\\"" to="done"\nroute when="true" to="a"\n}\n'
        'transition from="a" to="g"',
        'stage "a" kind="tool" command="grep -q x f || true"\ntransition from="a" to="done"',
        'stage "a" kind="tool" command="echo \'a | tee b\'"\ntransition from="a" to="done"',
        'stage "a" kind="tool" command="set -o pipefail; make | tee log"\ntransition from="a" to="done"',
        'stage "a" kind="tool" command="make | grep -q done"\ntransition from="a" to="done"',
        'stage "a" kind="tool" command="x" { retry max_attempts=2 delay="5s"; meta { owner "me"; tags 1 2; }; }\n'
        'transition from="a" to="done"',
        'stage "a" kind="llm" response_key_base="plan" { prompt "Long prompts may be children"; }\n'
        'transition from="a" to="done" when="output(\\"plan.response\\") == \\"x\\""',
        'stage "a" kind="human" prompt="Go?" default="n" timeout="1d" require_feedback_on="n" {\n'
        'option "y" label="Yes" to="done"\noption "n" label="No" to="a"\n}',
        'stage "a" kind="parallel" join=1 max_parallel=1 {\nbranch "b"\nbranch "c"\n}\n'
        'stage "b" kind="tool" command="x"\nstage "c" kind="tool" command="y"\ntransition from="a" to="done"',
    ],
)
def test_what_is_right_is_left_alone(lines: str) -> None:
    """These look like the examples of some rule and break none."""
    assert codes(body(lines)) == []


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        ('transition from="a" to="b"\ntransition from="b" to="done" when="visits(\\"a\\") > 3"\n', False),
        ('transition from="a" to="b"\ntransition from="b" to="done" when="findings() == 0"\n', True),
    ],
)
def test_a_loop_is_bounded_by_counting_visits(lines: str, warned: bool) -> None:  # noqa: FBT001 - a table's column
    """A condition that counts visits bounds a loop as a setting does."""
    stages = 'stage "a" kind="tool" command="x"\nstage "b" kind="tool" command="y"\n'
    text = whole(stages + lines + 'transition from="b" to="a"\n')
    assert ("AWF101" in codes(text)) is warned


def test_a_repeatable_attribute_may_be_given_in_both_ways() -> None:
    """As a property and as a node; a value of the wrong type is an error wherever it is."""
    stage = 'stage "a" kind="human" prompt="Go?" require_feedback_on=%s {\noption "yes" label="Yes" to="done"\n'
    rest = 'option "no" label="No" to="done"\nrequire_feedback_on "no"\n}'
    assert codes(body(stage % '"yes"' + rest)) == []
    assert codes(body(stage % "true" + rest)) == ["AWF010"]


def test_a_stage_of_unknown_kind_whose_id_is_a_number() -> None:
    """Its kind is the first thing to fix."""
    assert "AWF013" in codes(body('stage "a" kind="tool" command="x"\nstage 1\ntransition from="a" to="don"'))


def test_a_loop_through_a_person_is_bounded_by_them() -> None:
    """A person who keeps asking for changes is no runaway loop."""
    text = whole(
        'stage "a" kind="llm" prompt="x"\nstage "ask" kind="human" prompt="Good?" {\n'
        'option "y" label="Yes" to="done"\noption "n" label="No" to="a"\n}\ntransition from="a" to="ask"\n'
    )
    assert codes(text) == []


@pytest.mark.parametrize(
    ("written", "suggested"),
    [
        ('start "biuld"', 'did you mean "build"?'),
        ('stage "x" kind="tol" command="x"', 'did you mean "tool"?'),
        ('stage "x" kind="tool" comand="x"', 'did you mean "command"?'),
        ('transition from="build" to="don"', 'did you mean "done"?'),
        ('transition from="build" to="done" when="outcome(\\"biuld\\") == \\"success\\""', 'did you mean "build"?'),
        ("settngs { max_visits 3; }", 'did you mean "settings"?'),
        ("settings { max_visit 3; }", 'did you mean "max_visits"?'),
        ('transition from="build" to="done" when="outcome(\\"build\\") == \\"sucess\\""', 'did you mean "success"?'),
    ],
)
def test_a_typing_error_is_answered_with_the_nearest_name(written: str, suggested: str) -> None:
    """Whatever is misspelt, the name that was meant is suggested."""
    start = "" if written.startswith("start") else 'start "build"\n'
    text = f'workflow "W" {{\nversion 2\n{start}{written}\nstage "build" kind="tool" command="x"\n'
    report = examine(text + 'stage "done" kind="exit"\ntransition from="build" to="done"\n}\n')
    assert suggested in [diagnostic.help for diagnostic in report.diagnostics]


def test_a_problem_inside_a_condition_is_at_its_own_column() -> None:
    """Escaped quotes before it are counted."""
    text = whole(
        'stage "a" kind="tool" command="x"\n'
        'transition from="a" to="done" when="outcome(\\"a\\") == \\"success\\" && visits(\\"zzz\\") > 1"\n'
    )
    (found,) = examine(text).diagnostics
    assert under_caret(text, found) == 'visits(\\"zzz\\")'


def test_more_stages_than_any_workflow_has_are_refused() -> None:
    """Ten thousand stages are the limit."""
    stages = "\n".join(f'stage "s{index}" kind="exit"' for index in range(10_001))
    assert codes(f'workflow "W" {{\nversion 2\nstart "s0"\n{stages}\n}}') == ["AWF003"]


ROUTED = """
workflow "W" {
  version 2
  start "review"
  settings { max_visits 5; }
  stage "review" kind="llm" prompt="x" auto_status=true on_error="route" %s
  stage "second" kind="llm" prompt="x" auto_status=true
  stage "fix" kind="llm" prompt="x"
  stage "gate" kind="decision" {
    %s
    route when="true" to="done"
  }
  stage "done" kind="exit"
  transition from="second" to="gate"
  transition from="fix" to="second"
  %s
}
"""
COUNTED = 'route when="findings() > 0" to="fix"'
ASKED = r'route when="outcome(\"review\") != \"success\"" to="second"'


@pytest.mark.parametrize(
    ("stage", "route", "transitions", "warned"),
    [
        ("", COUNTED, 'transition from="review" to="gate"', True),
        ("goal_gate=true", COUNTED, 'transition from="review" to="gate"', True),
        ("", COUNTED + "\n" + ASKED, 'transition from="review" to="gate"', False),
        ("", COUNTED, 'transition from="review" to="gate" on="success"; transition from="review" to="second"', False),
        ("", COUNTED, 'transition from="review" to="gate" on="always"; transition from="review" to="second"', True),
        ("", COUNTED, 'transition from="review" to="fix" on="fail"; transition from="review" to="gate"', False),
        ("", COUNTED, 'transition from="review" to="second" on="fail"; transition from="review" to="gate"', False),
        ('retry_target="gate"', COUNTED, 'transition from="review" to="second" on="success"', True),
        ('retry_target="gate"', COUNTED, 'transition from="review" to="second"', True),
        ("", COUNTED, r'transition from="review" to="gate" when="outcome(\"review\") == \"success\""', False),
    ],
)
def test_an_exit_past_a_review_that_could_not_run(stage: str, route: str, transitions: str, *, warned: bool) -> None:
    """It is seen through decisions and retry targets, and not where another review or its outcome bars the way."""
    found = examine(ROUTED % (stage, route, transitions)).diagnostics
    assert [d.code for d in found if d.code == "AWF110"] == ["AWF110"] * warned
    assert all(
        d.stage == "review" and (d.line, d.severity) == (6, RuleSeverity.WARNING) for d in found if d.code == "AWF110"
    )


@pytest.mark.parametrize(("join", "warned"), [('join="all"', False), ('join="any"', True), ("", False)])
def test_an_exit_past_a_branch_that_could_not_run(join: str, *, warned: bool) -> None:
    """A parallel stage that may pass without the review leads on as if all had passed."""
    text = f"""
    workflow "W" {{
      version 2
      start "both"
      stage "both" kind="parallel" {join} {{
        branch "one"
        branch "two"
      }}
      stage "one" kind="llm" prompt="x" auto_status=true on_error="route"
      stage "two" kind="llm" prompt="x" auto_status=true
      stage "done" kind="exit"
      transition from="both" to="done"
      }}
    """
    assert ("AWF110" in codes(text)) is warned


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
    """It stands behind one for every result, behind the same condition, or behind both results."""
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


@pytest.mark.parametrize("kind", ["llm prompt='x'", "tool command='x'", "workspace.create"])
def test_stages_that_run_something_take_on_error(kind: str) -> None:
    """Its values are checked; stages that run nothing, and a parallel stage, do not take it."""
    name, _, rest = kind.partition(" ")
    rest = rest.replace("'", '"')
    text = 'workflow "W" {\nversion 2\nstart "a"\n%s\nstage "done" kind="exit"\ntransition from="a" to="done"\n}\n'
    assert codes(text % f'stage "a" kind="{name}" {rest} on_error="fail"') == []
    assert codes(text % f'stage "a" kind="{name}" {rest} on_error="ignore"') == ["AWF012"]


def test_stages_that_run_nothing_take_no_on_error() -> None:
    """For a parallel stage it is set on the branches."""
    text = """
    workflow "W" {
      version 2
      start "both"
      stage "both" kind="parallel" on_error="fail" {
        branch "one"
        branch "two"
      }
      stage "one" kind="tool" command="x" on_error="fail"
      stage "two" kind="tool" command="x"
      stage "done" kind="exit" on_error="fail"
      transition from="both" to="done"
    }
    """
    assert codes(text) == ["AWF007", "AWF007"]
