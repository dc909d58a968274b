"""Loops in a file."""

import pytest
from tests.unit.language.test_rules import codes, examine, whole

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
    """Its stages in order, its rounds, and where it leads; it bounds what it goes round."""
    report = examine(whole(STAGES + LOOP))
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
def test_a_loop_that_is_wrong_is_told(change: tuple[str, str], code: str) -> None:
    """Each mistake by its own rule."""
    assert code in codes(whole(STAGES + LOOP.replace(*change)))


def test_a_stage_is_in_one_loop_only() -> None:
    """Rounds are counted once."""
    twice = LOOP + LOOP.replace("fixing", "again")
    assert codes(whole(STAGES + twice)).count("AWF039") == 4
