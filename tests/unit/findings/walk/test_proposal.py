"""A proposed fix as prose, and what keeps it from being shown as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings.walk.present import lint, proposal

GOOD = [
    "Throw on non-2xx response before parsing JSON.",
    "Replace `==` with `===` on line 42.",
    "Add a `response.ok` check after the fetch and throw on non-2xx.",
    "Extract the request-building logic into a helper and call it from both sites.",
    "Call `close`.",
    "Add a guard:\n\n```python\nif not id:\n    raise KeyError\n```",
    "Use `a` `b` here.",
]
BAD = {
    "Add `if (!response.ok) throw new Error(`HTTP ${response.status}`);` after `await fetch(...)` then.": "more than",
    "Use `a` and `b` and `c` here.": "more than 2 code spans",
    "Call`close`now.": "no space",
    "Call `close`d.": "no space",
    "Call ``close`` here.": "nested or left open",
    "Call `close here.": "nested or left open",
    "Write `return a + b if c else d` there.": "more than a name",
    "Write `x = y;` there.": "more than a name",
    "So:\n\n```diff\n-a\n+b\n```": "diff",
    "So:\n\n```\n-a\n+b\n```": "diff",
    "So:\n\n@@ -1,2 +1,2 @@\n-a\n+b": "diff",
    "So:\n\n```\n1\n2\n3\n4\n5\n6\n```": "more than 5 lines",
    "One. Two. Three. Four.": "more than 3 sentences",
}


@pytest.mark.parametrize("fix", GOOD)
def test_002_15_prose_that_keeps_the_rules_is_shown_as_it_is(fix: str) -> None:
    """002-15: intent in a sentence, few and short spans with space around them, a little new code."""
    assert lint(fix) == []
    assert proposal(fix, "a.py:1", "p") == fix.replace("```python", "```")


@pytest.mark.parametrize("fix", BAD)
def test_002_15_what_breaks_the_rules_is_told_in_short(fix: str) -> None:
    """002-15: each rule has its words, and the fix becomes a summary, a place and a pointer."""
    assert any(BAD[fix] in fault for fault in lint(fix)), lint(fix)
    told = proposal(fix, "a.py:1", "runs/1/correctness.json → findings[].suggested_fix")
    assert told.endswith("At a.py:1.\n\nFull fix: runs/1/correctness.json → findings[].suggested_fix")
    assert "`" not in told
    assert "throw new" not in told


def test_002_15_the_summary_is_the_first_sentence() -> None:
    """002-15: what it achieves, without the code in it."""
    told = proposal("Build the path from checked parts. Two. Three. Four.", "", "p")
    assert told == "Build the path from checked parts.\n\nFull fix: p"
    told = proposal("Guard the path before it is opened with `if (!ok) { throw x; }` please.", "", "p")
    assert told.startswith("Guard the path before it is opened with … please.\n")
    assert proposal("`if (a) { b; }`", "", "p").startswith("Change the code.\n")


def test_002_15_code_keeps_its_indentation_and_nothing_that_acts() -> None:
    """002-15: a short block of new code is shown as code."""
    assert proposal("```\nif x:\n    y\x1b[31m()\n```", "", "p") == "```\nif x:\n    y()\n```"


@given(st.text(st.sampled_from("ab `.\n+-@{};#*~\x1b"), max_size=80))
def test_002_15_whatever_is_proposed_can_be_shown(fix: str) -> None:
    """002-15: no text breaks the rules when it is shown, and none forges a heading or a label."""
    told = proposal(fix, "a.py:1", "p")
    assert "\x1b" not in told
    assert not any(line.startswith(("#", "**")) for line in _outside(told))


def _outside(told: str) -> list[str]:
    lines, code = [], False
    for line in told.split("\n"):
        code ^= line == "```"
        lines += [] if code else [line]
    return lines
