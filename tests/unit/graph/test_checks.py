"""Checks that need the graph."""

import pytest
from tests.unit.language.examples import check_text, codes, whole

from pipeline.language.diagnostics import RuleSeverity


@pytest.mark.parametrize(
    ("lines", "warned"),
    [
        ('transition from="a" to="b"\ntransition from="b" to="done" when="visits(\\"a\\") > 3"\n', False),
        ('transition from="a" to="b"\ntransition from="b" to="done" when="findings() == 0"\n', True),
    ],
)
def test_a_loop_is_bounded_by_counting_visits(lines: str, warned: bool) -> None:  # noqa: FBT001 - a table's column
    """A condition that counts visits limits a loop as a setting does."""
    stages = 'stage "a" kind="tool" command="x"\nstage "b" kind="tool" command="y"\n'
    text = whole(stages + lines + 'transition from="b" to="a"\n')
    assert ("AWF101" in codes(text)) is warned


def test_a_loop_through_a_person_is_bounded_by_them() -> None:
    """A person who keeps asking for changes is not a runaway loop."""
    text = whole(
        'stage "a" kind="llm" prompt="x"\nstage "ask" kind="human" prompt="Good?" {\n'
        'option "y" label="Yes" to="done"\noption "n" label="No" to="a"\n}\ntransition from="a" to="ask"\n'
    )
    assert codes(text) == []


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
    """Decisions and retry targets may lead there, unless another review or its outcome comes first."""
    found = check_text(ROUTED % (stage, route, transitions)).diagnostics
    assert [d.code for d in found if d.code == "AWF110"] == ["AWF110"] * warned
    assert all(
        d.stage == "review" and (d.line, d.severity) == (6, RuleSeverity.WARNING) for d in found if d.code == "AWF110"
    )


@pytest.mark.parametrize(("join", "warned"), [('join="all"', False), ('join="any"', True), ("", False)])
def test_an_exit_past_a_branch_that_could_not_run(join: str, *, warned: bool) -> None:
    """A parallel stage that may pass without the review continues as if all had passed."""
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
