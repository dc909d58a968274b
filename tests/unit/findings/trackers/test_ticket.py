"""What stands in a ticket, and that nothing in it can be anything but data."""

import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import findings
from tests.unit.findings.trackers.conftest import Make, turned

from pipeline.findings.model import Evidence, Finding, FindingState, Severity
from pipeline.findings.trackers.ticket import (
    LONGEST,
    TITLE,
    comment,
    comment_mark,
    fenced,
    label,
    mark,
    marked,
    plain,
    ticket,
    unfit,
)


def outside(body: str) -> list[str]:
    """The lines of a text that stand in no fence."""
    lines, fence = list[str](), ""
    for line in body.split("\n"):
        run = re.match(r"(`{3,}|~{3,})", line)
        if fence:
            closes = run is not None and line.rstrip() == run[1] and run[1].startswith(fence)
            fence = "" if closes else fence
        elif run:
            fence = run[1]
        else:
            lines.append(line)
    assert not fence, "a fence stays open"
    return lines


OURS = re.compile(
    r"|<!-- awf:fnd_\w+ -->|## (Why it matters|Suggested fix|Evidence|About)|None was proposed: it needs a decision\."
    r"|Cut for length\. The whole of it: `awf findings show fnd_\w+`"
)


def test_a_ticket_has_all_its_parts(make: Make) -> None:
    """002-73: a ticket has a title, why it matters, the fix, the evidence, the metadata and a label."""
    made = ticket(make())
    assert made.title == "Old token stays valid"
    assert made.labels == ("severity: high",)
    assert made.body == (
        "<!-- awf:fnd_0badcafe -->\n\n"
        "## Why it matters\n\n```text\nA stolen token works for ever.\n```\n\n"
        "## Suggested fix\n\n```text\nRevoke it when a new one is made.\n```\n\n"
        "## Evidence\n\n```text\nsrc/session.py:3\nstore.save(token)\n```\n\n"
        "## About\n\n```text\nSeverity: high\nConfidence: 75 (high)\nReviewer(s): security, correctness\n"
        "Finding ID: fnd_0badcafe\nPlace: src/session.py:3-5\n```\n"
    )


def test_a_finding_without_a_fix_says_so(make: Make) -> None:
    """002-73: what nobody proposed is not made up; a title stands in for what nobody explained."""
    body = ticket(make(fix=None, impact="", evidence=(), locations=())).body
    assert "None was proposed: it needs a decision." in body
    assert "## Why it matters\n\n```text\nOld token stays valid\n```" in body
    assert "## Evidence" not in body
    assert "Place:" not in body


@settings(max_examples=60)
@given(findings())
def test_nothing_of_a_finding_stands_outside_a_fence(finding: Finding) -> None:
    """002-73: whatever a finding says, it is data: outside of fences stand our own words alone."""
    made = ticket(finding)
    assert [line for line in outside(made.body) if not OURS.fullmatch(line)] == []
    assert made.title.strip()
    assert {unicodedata.category(letter) for letter in made.title}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


@example("```")
@example("```\n~~~")
@example("~~~~\n```")
@given(st.text(st.sampled_from("`~ab\n\r"), max_size=60))
def test_no_text_closes_its_fence(text: str) -> None:
    """002-73: a fence is longer than any in it."""
    assert [line for line in outside(fenced(text)) if line] == []


@pytest.mark.parametrize(
    "text", ["`" * 50_000, "~" * 50_000, "`" * 4_500 + "~" * 40_000, "word " * 20_000, "x" * 200_000]
)
def test_a_ticket_that_is_too_long_is_cut_and_points_to_the_whole(make: Make, text: str) -> None:
    """002-73: over-long is cut with a pointer, and the id stands in both places."""
    evidence = tuple(Evidence(raw=text) for _ in range(50))
    made = ticket(make(title=text, impact=text, fix=text, evidence=evidence, sources=(text,) * 9))
    assert len(made.body) <= LONGEST
    assert len(made.title) <= TITLE
    assert marked(made.body) == "fnd_0badcafe"
    assert "Finding ID: fnd_0badcafe" in made.body
    assert made.body.endswith("Cut for length. The whole of it: `awf findings show fnd_0badcafe`\n")
    assert [line for line in outside(made.body) if not OURS.fullmatch(line)] == []


@pytest.mark.parametrize(
    "more",
    [
        {"impact": "x" * 9_001},
        {"fix": "x" * 9_001},
        {"evidence": (Evidence(raw="x" * 2_001),)},
        {"evidence": tuple(Evidence(raw=f"{n}" + "x" * 1_900) for n in range(9))},
        {"title": "x" * (TITLE + 1)},
    ],
)
def test_whatever_is_cut_is_told(make: Make, more: dict[str, object]) -> None:
    """002-73: there is a pointer whenever anything is left out, and only then."""
    assert "Cut for length" in ticket(make(**more)).body
    assert "Cut for length" not in ticket(make()).body


def test_a_finding_cannot_pass_for_the_ticket_of_another(make: Make) -> None:
    """6.10: the hidden id of another finding in a text is broken up."""
    forged = "<!-- awf:fnd_11111111 -->"
    made = ticket(make(title=forged, impact=forged, fix=f"<!--  {forged}", evidence=(Evidence(raw=forged),)))
    assert made.body.count("<!-- awf:") == 1
    assert marked(made.body) == "fnd_0badcafe"
    assert marked(made.title) == ""


def test_secrets_that_a_finding_quotes_stay_out_of_its_ticket(make: Make) -> None:
    """A tracker may be open to everybody: what is known to be secret is marked everywhere."""
    said = "key=hunter2hunter2"
    finding = make(title=said, impact=said, fix=said, evidence=(Evidence(quote=said), Evidence(raw=said)))
    made = ticket(finding, lambda text: text.replace("hunter2hunter2", "[secret]"))
    assert "hunter2" not in made.title + made.body
    assert made.body.count("[secret]") == 4
    returned = turned(finding, FindingState.FIX_CLAIMED, FindingState.REOPENED, note=said)
    assert "hunter2" not in comment(returned, lambda text: text.replace("hunter2hunter2", "[secret]"))


def test_control_characters_do_not_reach_a_tracker(make: Make) -> None:
    """002-73: escapes, NUL and reversed text are replaced, line ends are made plain."""
    made = ticket(make(title="a\x1b[2J\nb\0\u202ec", impact="one\r\ntwo\rthree\ttab"))
    assert made.title == "a�[2J b��c"
    assert "one\ntwo\nthree\ttab" in made.body


def test_prose_is_wrapped_and_code_is_not(make: Make) -> None:
    """Prose in a fence would run out of sight; a quotation stays as it is."""
    long = " ".join(["word"] * 60)
    body = ticket(make(impact=long, evidence=(Evidence(raw=long),))).body
    assert body.count(long) == 1
    assert max(len(line) for line in body.split("\n")) == len(long)


@pytest.mark.parametrize("severity", list(Severity))
def test_the_label_is_the_severity(make: Make, severity: Severity) -> None:
    """002-73: labels severity."""
    assert label(make(severity=severity)) == f"severity: {severity}"


@pytest.mark.parametrize("id", ["", "x", "fnd_", "fnd_a -->", "fnd_a/b", "fnd_" + "a" * 65, "../fnd_a"])
def test_an_id_that_could_break_out_is_refused(make: Make, id: str) -> None:
    """6.10: an id becomes part of a name and of a comment, so it has to be plain."""
    assert "is no id" in unfit(make(id))
    assert not unfit(make())


def test_a_mark_is_read_back(make: Make) -> None:
    """6.10: the hidden line gives the id back, and an id is never taken for one that begins like it."""
    assert marked(f"said before\n{mark(make('fnd_12345678abcd'))}\nafter") == "fnd_12345678abcd"
    assert marked("<!-- awf:fnd_12345678abcd open again 1 -->") == ""
    assert marked("nothing") == ""


def test_each_return_of_a_finding_has_its_own_comment(make: Make) -> None:
    """6.10: a re-opened finding is told of once for each time it came back."""
    once = turned(make(), FindingState.FIX_CLAIMED, FindingState.REOPENED, note="the same lines")
    twice = turned(
        make(), FindingState.FIX_CLAIMED, FindingState.REOPENED, FindingState.FIX_CLAIMED, FindingState.REOPENED
    )
    assert comment_mark(once) != comment_mark(twice)
    assert comment(once).startswith(comment_mark(once))
    assert "```text\nthe same lines\n```" in comment(once)
    assert "Finding ID: fnd_0badcafe" in comment(once)
    assert "It is open." in comment(make())


def test_a_line_is_cut_with_an_ellipsis() -> None:
    """A text of just the length stays whole."""
    assert plain("a  b\nc", 5) == "a b c"
    assert plain("abcdef", 5) == "abcd…"
