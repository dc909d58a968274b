"""What a ticket contains, and that text from a finding is nothing but data in it."""

import re
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.strategies import findings
from tests.unit.findings.trackers.conftest import Make, joined, with_states

from pipeline.findings.lines import Line
from pipeline.findings.model import Evidence, Finding, FindingId, FindingState, Severity
from pipeline.findings.trackers.ticket import (
    MAX_TITLE,
    VALID_ID,
    fenced,
    owner_of,
    reopened_comment,
    ticket,
)


def outside(body: str) -> list[str]:
    """The lines of a text outside fences."""
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
    r"|<!-- awf:fnd_\w+ -->|## (Why it matters|Suggested fix|Evidence|Also reported|About)"
    r"|None was proposed: it needs a decision\.|Full text, without limits: `awf findings show fnd_\w+`"
)


def test_a_ticket_has_all_its_parts(make: Make, snapshot: SnapshotAssertion) -> None:
    """A ticket has a title, why it matters, the fix, the evidence, what others report, the metadata and a label."""
    other = make("fnd_11111111", reviewer="testing", severity=Severity.LOW, title="No test revokes a token")
    made = ticket(joined(make(), other), str)
    assert made.title == make().title
    assert made.label == "severity: high"
    assert made.body == snapshot


def test_a_finding_without_a_fix_says_so(make: Make) -> None:
    """Nothing is invented; the title replaces a missing explanation."""
    body = ticket(make(fix=None, impact="", evidence=(), locations=()), str).body
    assert re.findall("^## (.*)", body, re.MULTILINE) == ["Why it matters", "Suggested fix", "About"]
    assert f"\n{make().title}\n" in body
    assert str(make().lead.fix) not in body
    assert "Location:" not in body


@settings(max_examples=30)
@given(findings(), findings())
def test_no_text_of_a_finding_is_outside_a_fence(finding: Finding, other: Finding) -> None:
    """Outside fences there are only our own words."""
    made = ticket(Line(finding.id, 1, (finding, replace(other, id=FindingId("fnd_other")))), str)
    assert [line for line in outside(made.body) if not OURS.fullmatch(line)] == []
    assert made.title.strip()
    assert {unicodedata.category(letter) for letter in made.title}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


@example("```")
@example("```\n~~~")
@example("~~~~\n```")
@given(st.text(st.sampled_from("`~ab\n\r"), max_size=60))
def test_no_text_closes_its_fence(text: str) -> None:
    """A fence is longer than any in it."""
    assert [line for line in outside(fenced(text)) if line] == []


@pytest.mark.parametrize(
    "text", ["`" * 50_000, "~" * 50_000, "`" * 4_500 + "~" * 40_000, "word " * 20_000, "x" * 200_000]
)
def test_a_long_ticket_is_truncated_and_points_to_the_full_text(make: Make, text: str) -> None:
    """The id stays in both places."""
    evidence = tuple(Evidence(raw=text) for _ in range(50))
    others = (make(f"fnd_{n:08x}", reviewer=f"{n} {text}", title=text, impact=text) for n in range(9))
    made = ticket(joined(make(title=text, impact=text, fix=text, evidence=evidence), *others), str)
    assert len(made.body) <= 60_000  # trackers refuse more than 65,536
    assert len(made.title) <= MAX_TITLE
    assert owner_of(made.body) == "fnd_0badcafe"
    assert "Finding ID: fnd_0badcafe" in made.body
    assert made.body.endswith("Full text, without limits: `awf findings show fnd_0badcafe`\n")
    assert [line for line in outside(made.body) if not OURS.fullmatch(line)] == []


@pytest.mark.parametrize(("count", "impact"), [(1, "x" * 2_001), (9, "x" * 1_500)])
def test_what_other_reviewers_say_is_truncated(make: Make, count: int, impact: str) -> None:
    """One long text is shortened, and of many only some are shown."""
    others = [make(f"fnd_{number:08x}", reviewer="testing", impact=impact) for number in range(count)]
    body = ticket(joined(make(), *others), str).body
    assert "## Also reported" in body
    assert len(body) < 10_000


def test_a_finding_cannot_forge_the_mark_of_another(make: Make) -> None:
    """A mark in a text from outside is broken up."""
    forged = "<!-- awf:fnd_11111111 -->"
    made = ticket(make(title=forged, impact=forged, fix=f"<!--  {forged}", evidence=(Evidence(raw=forged),)), str)
    assert made.body.count("<!-- awf:") == 1
    assert owner_of(made.body) == "fnd_0badcafe"
    assert owner_of(made.title) == ""


def test_secrets_that_a_finding_quotes_stay_out_of_its_ticket(make: Make) -> None:
    """A tracker may be public."""
    said = "key=hunter2hunter2"
    finding = make(title=said, impact=said, fix=said, evidence=(Evidence(quote=said), Evidence(raw=said)))
    made = ticket(finding, lambda text: text.replace("hunter2hunter2", "[secret]"))
    assert "hunter2" not in made.title + made.body
    assert made.body.count("[secret]") == 4
    returned = with_states(finding, FindingState.FIX_CLAIMED, FindingState.REOPENED, note=said)
    assert "hunter2" not in reopened_comment(returned, lambda text: text.replace("hunter2hunter2", "[secret]"))


def test_control_characters_do_not_reach_a_tracker(make: Make) -> None:
    """Escape sequences, NUL and reversed text; line ends are normalized."""
    made = ticket(make(title="a\x1b[2J\nb\0\u202ec", impact="one\r\ntwo\rthree\ttab"), str)
    assert made.title == "a b��c"
    assert "one\ntwo\nthree\ttab" in made.body


def test_prose_is_wrapped_and_code_is_not(make: Make) -> None:
    """Trackers do not wrap fenced text; a quotation stays as it is."""
    long = " ".join(["word"] * 60)
    body = ticket(make(impact=long, evidence=(Evidence(raw=long),)), str).body
    assert body.count(long) == 1
    assert max(len(line) for line in body.split("\n")) == len(long)


@pytest.mark.parametrize("id", ["", "x", "fnd_", "fnd_a -->", "fnd_a/b", "fnd_" + "a" * 65, "../fnd_a"])
def test_an_id_that_could_break_out_of_a_mark_or_path_is_invalid(make: Make, id: str) -> None:
    """It is part of a file name and of a comment."""
    assert not VALID_ID.fullmatch(make(id).id)
    assert VALID_ID.fullmatch(make().id)


def test_a_mark_is_read_back() -> None:
    """Nothing else is one."""
    assert owner_of("said before\n<!-- awf:fnd_12345678abcd -->\nafter") == "fnd_12345678abcd"
    assert owner_of("nothing") == ""


def test_a_comment_says_why_a_finding_is_open_again(make: Make) -> None:
    """In the words of who reopened it last, else by its state."""
    states = (FindingState.FIX_CLAIMED, FindingState.REOPENED)
    comment = reopened_comment(with_states(with_states(make(), *states), *states, note="the same lines"), str)
    assert "```text\nthe same lines\n```" in comment
    assert "Finding ID: fnd_0badcafe" in comment
    assert "It is open." in reopened_comment(make(), str)
