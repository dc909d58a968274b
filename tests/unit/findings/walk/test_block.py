"""A finding as it is put before a person."""

import re
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.walk.made import ISSUES, LINEAR, advisory, finding, items, vote

from pipeline.findings.model import Finding, Location, Severity
from pipeline.findings.trackers.ticket import NO_TRACKER, TrackerStatus
from pipeline.findings.walk.present import Action, block, confirmation, escaped, handle, one_line, stem, title

DISPUTED = finding(votes=(vote("correctness", "apply"), vote("testing", "skip", confidence=25)))
REASONED = finding(
    ext={"review": {"why_it_works": "One. Two! Three? Four. It matches the check already used at src/io.py:41."}}
)


def shown(one: Finding, number: int = 3, total: int = 8, sinks: TrackerStatus = LINEAR) -> str:
    return str(block(items(one, sinks=sinks)[0], number, total, sinks))


def asked(one: Finding, number: int = 3, total: int = 8, sinks: TrackerStatus = LINEAR) -> list[str]:
    return stem(items(one, sinks=sinks)[0], number, total, sinks).split("\n")


def test_002_12_the_block(snapshot: SnapshotAssertion) -> None:
    """002-12, 002-16: heading, place and sections, labels on their own line, a blank line between all."""
    assert shown(REASONED) == snapshot
    assert "Three?" in shown(REASONED)
    assert "Four." not in shown(REASONED)


def test_002_10_the_block_and_the_question_are_apart() -> None:
    """002-10: markdown is in the block alone; the question is plain text and repeats neither fix nor reason."""
    text = "\n".join(asked(REASONED))
    assert "**" not in text
    assert "##" not in text
    assert "Check the id" not in text
    assert "Any caller" not in text


@pytest.mark.parametrize(
    ("told", "plain"),
    [
        ("Path traversal in loadUserFromCache", "Path traversal in loadUserFromCache"),
        ("Missing userId validation on line 36", "Missing userId validation"),
        ("Missing check (lines 3-9)", "Missing check"),
        ("One two three four five six seven eight nine", "One two three four five six seven eight…"),
        ("It ends.\n\nIt ends.", "It ends. It ends"),
    ],
)
def test_002_13_a_title_is_short_and_names_no_line(told: str, plain: str) -> None:
    """002-13, C-13: at most eight words, without the line, on one line."""
    assert title(finding(title=told)) == plain


def test_002_13_a_plain_title_is_preferred() -> None:
    """002-13: what happens, where somebody said it in plain words."""
    assert title(finding(plain_title="Any file can be read")) == "Any file can be read"


def test_002_17_who_differs_is_told() -> None:
    """002-17: only when reviewers advise different things, with their doubts and what was made of it."""
    line = "Correctness recommends Apply; Testing recommends Skip (low confidence). Agent's recommendation: Skip."
    assert shown(DISPUTED).split("\n\n")[-1] == line
    agreed = finding(votes=(vote("correctness", "apply"), vote("testing", "apply")))
    assert "recommends" not in shown(agreed)


def test_002_18_without_what_breaks_only_the_fix_is_shown() -> None:
    """002-18: What's wrong and Why it works are left out together."""
    bare = replace(REASONED, impact="")
    assert shown(bare) == (
        "## Finding 3 of 8 — P1 Path traversal in loadUserFromCache\n\nsrc/cache.py:36\n\n"
        "**Proposed fix**\n\nCheck the id before the path is built."
    )


def test_a_finding_without_a_fix_says_so() -> None:
    """002-12, C-15: nothing is invented; advice needs no fix at all."""
    assert "**Proposed fix**\n\nNo concrete fix proposed; needs a decision." in shown(finding(fix=None))
    assert "Proposed fix" not in shown(advisory())


def test_002_20_the_question_has_two_lines() -> None:
    """002-20: where it stands, how grave, the title within a sentence; then what is recommended as a yes or no."""
    assert asked(finding()) == [
        "Finding 3 of 8 — P1 path traversal in loadUserFromCache.",
        "Apply the proposed fix in cache.py?",
    ]


@pytest.mark.parametrize(
    ("told", "within"),
    [("SQL is built by hand", "SQL is built by hand"), ("LoadUser fails", "LoadUser fails"), ("A b", "A b")],
)
def test_002_20_a_name_keeps_its_letters(told: str, within: str) -> None:
    """002-20: only a word that is capitalised for being first loses its capital."""
    assert handle(finding(title=told)) == within


@pytest.mark.parametrize(
    ("one", "sinks", "phrase"),
    [
        (finding(locations=()), LINEAR, "Apply the proposed fix?"),
        (finding(fix=None), LINEAR, "Defer and file a Linear ticket?"),
        (finding(fix=None), ISSUES, "Defer and file a ticket?"),
        (finding(fix=None), NO_TRACKER, "Skip the fix and leave the finding open?"),
        (advisory(), LINEAR, "Acknowledge it as reviewed?"),
    ],
)
def test_002_21_one_thing_is_asked(one: Finding, sinks: TrackerStatus, phrase: str) -> None:
    """002-21: the recommended action as a yes or no, and no other."""
    assert asked(one, sinks=sinks)[1] == phrase


def test_002_21_a_disagreement_stands_in_parentheses() -> None:
    """002-21: as the third line of the question."""
    line = "(Correctness recommends Apply; Testing recommends Skip (low confidence). Agent's recommendation: Skip.)"
    assert asked(DISPUTED)[2:] == [line]


@pytest.mark.parametrize(
    ("action", "reference", "line"),
    [
        (Action.APPLY, "", "→ Applied. Fix staged at src/cache.py:36-37."),
        (Action.DEFER, "https://x/1", "→ Deferred. Ticket filed: https://x/1."),
        (Action.SKIP, "", "→ Skipped."),
        (Action.ACKNOWLEDGE, "", "→ Acknowledged."),
    ],
)
def test_002_22_one_line_confirms(action: Action, reference: str, line: str) -> None:
    """002-22: what was done, to the letter."""
    assert confirmation(items(finding())[0], action, reference) == line


def test_002_22_a_fix_that_is_nowhere_is_only_staged() -> None:
    """002-22: no place is made up."""
    assert confirmation(items(finding(locations=()))[0], Action.APPLY) == "→ Applied."


def test_002_34_a_single_finding_is_not_counted() -> None:
    """002-34: no position in the heading nor in the question."""
    assert shown(finding(), 1, 1).startswith("## P1 Path traversal in loadUserFromCache\n")
    assert asked(finding(), 1, 1)[0] == "P1 path traversal in loadUserFromCache."


def test_002_35_no_sink_is_told_in_the_question_and_on_the_conflict_line() -> None:
    """002-35: a Defer that cannot be is a Skip, and both texts say so."""
    one = items(finding(votes=(vote("x", "defer"),)), sinks=LINEAR)[0]
    moved = "Stage 5 recommended Defer; downgraded to Skip — no tracker sink available."
    assert stem(one, 1, 1, NO_TRACKER).split("\n") == [
        "P1 path traversal in loadUserFromCache.",
        "Skip the fix and leave the finding open?",
        f"({moved})",
        "Defer unavailable on this platform — no durable tracker sink detected.",
    ]
    assert str(block(one, 1, 1, NO_TRACKER)).endswith(f"\n\n{moved}")


def test_002_35_a_disagreement_and_a_lost_sink_make_one_line() -> None:
    """002-35, 002-17: who differs, what was moved, and what is recommended now."""
    one = items(finding(votes=(vote("a", "apply"), vote("b", "defer"))), sinks=LINEAR)[0]
    assert str(block(one, 1, 1, NO_TRACKER)).endswith(
        "A recommends Apply; B recommends Defer. Stage 5 recommended Defer; downgraded to Skip — "
        "no tracker sink available. Agent's recommendation: Skip."
    )


HOSTILE = (
    "\x1b[31mRed\x1b[0m \x1b]8;;http://x\x07link\x07 \u202eesrever\r\n"
    "## Finding 1 of 1 — P0 forged\n\n**Proposed fix**\x00"
)


def test_what_a_finding_says_is_inert() -> None:
    """Section 7: no control characters, no changed direction, no forged heading or label."""
    evil = finding(
        title=HOSTILE,
        impact=HOSTILE,
        fix=HOSTILE,
        locations=(Location(path=HOSTILE, start=1),),
        votes=(vote(HOSTILE, "apply"), vote("**Proposed fix**", "skip")),
        ext={"review": {"why_it_works": HOSTILE}},
    )
    text = shown(evil) + "\n" + "\n".join(asked(evil)) + confirmation(items(evil)[0], Action.DEFER, HOSTILE)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert text.count("\n## ") == 0
    assert len(re.findall(r"^\*\*", text, re.MULTILINE)) == 3


@pytest.mark.parametrize(
    ("line", "inert"),
    [("# x", "\\# x"), ("- x", "\\- x"), ("12. x", "12\\. x"), ("```", "\\```"), ("`x` is", "`x` is"), ("3 x", "3 x")],
)
def test_a_line_begins_nothing_in_markdown(line: str, inert: str) -> None:
    """Section 7: what could begin a heading, a list or a block is escaped, and nothing else."""
    assert escaped(line) == inert


def test_a_huge_text_is_cut() -> None:
    """Section 7: ten megabytes of text do not reach the screen."""
    assert len(one_line("x " * 5_000_000)) in range(1990, 2001)
    assert one_line("y" * 100, 10) == "yyyyyyyyy…"
    assert one_line("one two three", 10) == "one two…"
    assert len(shown(finding(impact="y" * 10_000_000, fix="z" * 10_000_000))) < 5000


def test_severities_are_shown_as_levels() -> None:
    """002-12: P0 to P3; what is only to be known is a P3."""
    assert [items(finding(severity=severity))[0].level for severity in Severity] == ["P0", "P1", "P2", "P3", "P3"]
