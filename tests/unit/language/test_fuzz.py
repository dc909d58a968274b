"""Whatever a file contains, checking it ends in diagnostics and never in an exception."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.app.check import check_draft
from pipeline.language.reader import parse_workflow
from pipeline.language.source import SourceText

SEED = r"""workflow "Quick" {
  version 2
  start "plan"
  settings { max_visits 8; max_duration "4h"; }
  models { default "fast"; profile "fast" model="m"; }
  stage "plan" kind="llm" prompt="Plan $goal" auto_status=true model_profile="fast" {
    retry max_attempts=3 backoff="exponential" delay="500ms"
    meta { a 1; }
  }
  stage "check" kind="tool" command="make | tee log" timeout="10m" goal_gate=true retry_target="plan"
  stage "both" kind="parallel" join=1 { branch "b1"; branch "b2"; }
  stage "b1" kind="tool" command="x"
  stage "b2" kind="llm" prompt_file="a.md"
  stage "gate" kind="decision" {
    route when="findings() > 0 && outcome(\"plan\") == \"success\"" to="plan" priority=3
    route when="true" to="ask"
  }
  stage "ask" kind="human" prompt="Go?" timeout="2d" {
    option "yes" label="Yes" to="exit" approves=true
    option "no" label="No" to="plan"
    default "no"
  }
  stage "sort" kind="triage" { apply to="plan"; done to="ask" }
  stage "exit" kind="exit"
  transition from="plan" to="check"
  transition from="check" to="both" when="!(visits(\"check\") < 3)"
  transition from="both" to="gate"
}
"""
WORDS = sorted(
    {*SEED.split(), '""', "0", "-1", "1e400", "null", "true", "2.5", "{", "}", ";", '"', "\\", "/-", "//", "\n", "="}
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """The seed with words replaced, removed, repeated or inserted."""
    words = SEED.split(" ")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(words) - 1))
        words[at : at + draw(st.integers(0, 2))] = draw(st.lists(st.sampled_from(WORDS), max_size=2))
        if not words:
            break
    return " ".join(words)


def examine(text: str) -> None:
    source = SourceText("fuzz", text)
    report = check_draft(parse_workflow(source), {"a.md": "Do it"}.get)
    for found in report.diagnostics:
        assert 1 <= found.line <= text.count("\n") + 1
        assert found.column >= 1
        assert found.width >= 1
        assert found.message
    assert report.workflow is not None or report.diagnostics


@given(mutated())
@settings(max_examples=400, deadline=None)
def test_a_mutated_workflow_gives_diagnostics(text: str) -> None:
    """Words are replaced: every diagnostic is inside the file, and no exception escapes."""
    examine(text)


@given(st.integers(0, len(SEED)), st.integers(0, 40), st.text('{}"\\;=/*#\n x0', max_size=4))
@settings(max_examples=300, deadline=None)
def test_a_damaged_workflow_gives_diagnostics(at: int, cut: int, inserted: str) -> None:
    """Characters are removed and inserted anywhere."""
    examine(SEED[:at] + inserted + SEED[at + cut :])


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_gives_diagnostics(text: str) -> None:
    """Text that was never a workflow."""
    examine(text.replace("\r", "\n"))
