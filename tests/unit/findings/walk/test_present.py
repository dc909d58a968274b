"""A walk as people see it: menus, blocks, questions and plans, to the letter; and that no finding can forge them."""

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.walk.builders import (
    ISSUES,
    LINEAR,
    Drive,
    advisory,
    ask,
    decision,
    finding,
    items,
    joined,
    recommending,
    walk_of,
)

from pipeline.findings.excerpts import Excerpt
from pipeline.findings.model import Evidence, Finding, FindingState, Location, Severity
from pipeline.findings.scales import confidence_from_anchor
from pipeline.findings.trackers.ticket import NO_TRACKER, TicketFailed, TrackerStatus
from pipeline.findings.walk.present import confirmation, details, title
from pipeline.findings.walk.prose import escape, one_line, present_fix
from pipeline.findings.walk.state import Action, Choice, Route, Turn, Validation
from pipeline.handlers.questions import Question
from pipeline.text import display_width

TRACKERS = {"named": LINEAR, "generic": ISSUES, "none": NO_TRACKER}
DISPUTED = joined(
    finding(1, action="apply"),
    finding(2, reviewer="testing", action="skip", confidence=confidence_from_anchor(25)),
)
REASONED = finding(why_it_works="One. Two! Three? Four. It matches the check already used at src/io.py:41.")
HOSTILE = (
    "\x1b[31mRed\x1b[0m \x1b]8;;http://x\x07link\x07 \u202eesrever\r\n"
    "## Finding 1 of 1 — P0 forged\n\n**Proposed fix**\x00"
)


def at_third_of_eight(*found: Finding, trackers: TrackerStatus = LINEAR) -> Question:
    """What is asked about a line of work that is the third of eight."""
    before = [finding(number, severity=Severity.CRITICAL) for number in (91, 92)]
    after = [finding(number, severity=Severity.INFO, locations=()) for number in range(93, 98)]
    return ask(walk_of(*before, *found, *after, trackers=trackers), "skip", "skip")


def labels(question: Question) -> list[str]:
    return [str(option) for option in question.options]


def block(*found: Finding, trackers: TrackerStatus = LINEAR) -> str:
    return at_third_of_eight(*found, trackers=trackers).block


def stem(*found: Finding, trackers: TrackerStatus = LINEAR) -> list[str]:
    return at_third_of_eight(*found, trackers=trackers).text.split("\n")


def menus(*, seed_wording: bool = False) -> dict[str, list[str]]:
    """One or many findings, with a named, some or no tracker, to fix or to acknowledge."""
    made = {True: ("advisory", advisory), False: ("actionable", finding)}

    def menu(total: int, trackers: TrackerStatus, make: Callable[[int], Finding]) -> list[str]:
        found = map(make, range(1, total + 1))
        return labels(ask(walk_of(*found, trackers=trackers, seed_wording=seed_wording)))

    return {
        f"{total} {name} {made[is_advisory][0]}": menu(total, trackers, made[is_advisory][1])
        for total, (name, trackers), is_advisory in product((8, 1), TRACKERS.items(), (False, True))
    }


def test_the_twelve_menus(snapshot: SnapshotAssertion) -> None:
    """The labels of the original walk-through, to the letter."""
    found = menus(seed_wording=True)
    assert len(found) == 12
    assert found == snapshot


def test_without_the_original_wording_one_label_differs() -> None:
    """What applies to all remaining findings is spelt out, in all menus that have it; the order is the same."""
    for name, menu in menus(seed_wording=True).items():
        plain = [f"Apply {one[4:12]}" if one.startswith("LFG") else one for one in menu]
        assert [one.partition(" — this")[0] for one in menus()[name]] == plain


def test_the_labels_and_their_order() -> None:
    """Four labels, in a fixed order; the recommended one is marked."""
    assert labels(at_third_of_eight(finding(action="skip"))) == [
        "Apply the proposed fix",
        "Defer — file a Linear ticket",
        "Skip — don't apply, don't track (recommended)",
        "Apply the rest — this and all remaining findings, as recommended",
    ]


@pytest.mark.parametrize(
    ("trackers", "label"),
    [
        (LINEAR, "Defer — file a Linear ticket"),
        (replace(LINEAR, certain=False), "Defer — file a ticket"),
        (NO_TRACKER, None),
    ],
)
def test_a_tracker_is_named_only_if_it_is_certain(trackers: TrackerStatus, label: str | None) -> None:
    """Its name is in the label if somebody named it, and it works; without any tracker there is no option."""
    found: dict[str, str] = {
        option.key: option.label for option in at_third_of_eight(finding(), trackers=trackers).options
    }
    assert found.get(Action.DEFER) == label


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("apply", Action.APPLY),
        (" A \n", Action.APPLY),
        ("2", Action.DEFER),
        ("defer — file a linear ticket", Action.DEFER),
        ("Apply the proposed fix (recommended)", Action.APPLY),
        ("LFG the rest", Turn.REST),
        ("lfg", Turn.REST),
        ("r", Turn.REST),
        ("5", None),
        ("", None),
        ("acknowledge", None),
    ],
)
def test_an_answer_is_a_key_however_it_is_written(typed: str, key: str | None) -> None:
    """Key, letter, number, long and short label all mean the same option; nothing else does."""
    assert at_third_of_eight(finding()).parse(typed) == key


def test_every_option_has_a_letter_of_its_own() -> None:
    """No two options of a question share a first letter, and every question has its labels."""
    failed = ask(walk_of(finding()), "defer", drive=Drive(tickets=lambda _one: TicketFailed("x")))
    confirming = ask(walk_of(finding(), confirms=True), "defer")
    for asked in (at_third_of_eight(advisory()), failed, confirming, ask(walk_of(finding()), route=Route.ASK)):
        assert len({option.key[0] for option in asked.options}) == len(asked.options)


@pytest.mark.parametrize("name", TRACKERS)
def test_the_routing_question(name: str, snapshot: SnapshotAssertion) -> None:
    """Without a tracker no tickets are offered, and the question says why."""
    asked = ask(walk_of(*map(finding, range(1, 9)), trackers=TRACKERS[name], seed_wording=True), route=Route.ASK)
    assert [asked.text, *map(str, asked.options)] == snapshot


def test_the_questions_about_tickets() -> None:
    """The name of the tracker is in both; after a failure so is its reason, sanitized."""
    begun = walk_of(finding(), trackers=LINEAR)
    assert ask(walk_of(finding(), confirms=True), "defer").text == "This files a ticket on GitHub Issues. Proceed?"
    failed = ask(begun, "defer", drive=Drive(tickets=lambda _one: TicketFailed("HTTP 503.")))
    assert [failed.text, *labels(failed)] == [
        "Defer failed: Linear returned HTTP 503. How should the agent handle this finding?",
        "Retry on Linear",
        "Fall back to next sink",
        "Convert to Skip — record the failure",
    ]
    silent = ask(begun, "defer", drive=Drive(tickets=lambda _one: TicketFailed("\x1b[2J\n")))
    assert "Linear returned no reason given." in silent.text


def test_the_block(snapshot: SnapshotAssertion) -> None:
    """Heading, location and sections, labels on their own line, a blank line between all."""
    assert block(REASONED) == snapshot


def test_the_question_is_plain_text_and_does_not_repeat_the_block() -> None:
    """Where it is, its severity and its title within a sentence; then what is recommended, as a yes or no."""
    assert stem(REASONED) == [
        "Finding 3 of 8 — P1 path traversal in loadUserFromCache.",
        "Apply the proposed fix in cache.py?",
    ]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("Path traversal in loadUserFromCache", "Path traversal in loadUserFromCache"),
        ("Missing userId validation on line 36", "Missing userId validation"),
        ("Missing check (lines 3-9)", "Missing check"),
        ("One two three four five six seven eight nine", "One two three four five six seven eight…"),
        ("It ends.\n\nIt ends.", "It ends. It ends"),
    ],
)
def test_a_title_is_short_and_names_no_line(given: str, shown: str) -> None:
    """At most eight words, on one line; a plain title is preferred."""
    assert title(finding(title=given)) == shown
    assert title(finding(title=given, plain_title="Any file can be read")) == "Any file can be read"


@pytest.mark.parametrize("given", ["SQL is built by hand", "LoadUser fails", "A b"])
def test_a_name_keeps_its_capital_in_the_question(given: str) -> None:
    """Only a word that is capitalized for being first loses its capital."""
    assert stem(finding(title=given))[0] == f"Finding 3 of 8 — P1 {given}."


def test_reviewers_who_disagree_are_named() -> None:
    """With their doubts and the recommendation, once: at the end of the block."""
    line = "Correctness recommends Apply; Testing recommends Skip (low confidence). Agent's recommendation: Skip."
    assert block(*DISPUTED).split("\n\n")[-1] == line
    assert len(stem(*DISPUTED)) == 2
    assert "recommends" not in block(*recommending("apply", "apply"))


def test_a_lost_tracker_is_on_the_conflict_line_and_in_the_question() -> None:
    """A Defer that is not available becomes a Skip; the block says so, and the question that there is no tracker."""
    downgraded = "The review recommended Defer; downgraded to Skip — no tracker sink available."
    asked = ask(walk_of(finding(action="defer"), trackers=NO_TRACKER))
    assert asked.text.split("\n") == [
        "P1 path traversal in loadUserFromCache.",
        "Skip the fix and leave the finding open?",
        "Defer unavailable on this platform — no durable tracker sink detected.",
    ]
    assert asked.block.endswith(f"\n\n{downgraded}")
    assert ask(walk_of(*recommending("apply", "defer"), trackers=NO_TRACKER)).block.endswith(
        f"A recommends Apply; B recommends Defer. {downgraded} Agent's recommendation: Skip."
    )


def test_without_what_is_wrong_only_the_fix_is_shown() -> None:
    """What's wrong and Why it works are left out together."""
    assert block(replace(REASONED, impact="")) == (
        "## Finding 3 of 8 — P1 Path traversal in loadUserFromCache\n\nsrc/cache.py:36\n\n"
        "**Proposed fix**\n\nCheck the id before the path is built."
    )


def test_a_finding_without_a_fix_says_so() -> None:
    """Nothing is invented; advice needs no fix at all."""
    assert "**Proposed fix**\n\nNo concrete fix proposed; needs a decision." in block(finding(fix=None))
    assert "Proposed fix" not in block(advisory())


def test_a_single_finding_is_not_counted() -> None:
    """No position in the heading nor in the question."""
    asked = ask(walk_of(finding()))
    assert asked.block.startswith("## P1 Path traversal in loadUserFromCache\n")
    assert asked.text.startswith("P1 path traversal in loadUserFromCache.\n")


def test_a_line_of_work_is_one_entry_with_the_texts_of_its_members() -> None:
    """The reviewers are counted; each member keeps its own severity, title and text, also if it is closed."""
    second = finding(2, reviewer="security", title="Reads any file", impact="**Bad**.", severity=Severity.MEDIUM)
    closed = finding(3, reviewer="testing", state=FindingState.VERIFIED_FIXED)
    asked = ask(walk_of(*joined(finding(1), second, closed)))
    assert asked.block.endswith(
        "**Reported by 3 reviewers**\n\n- correctness, P1 Path traversal in loadUserFromCache\n"
        "- security, P2 Reads any file: **Bad**.\n"
        "- testing, P1 Path traversal in loadUserFromCache (verified fixed): "
        "Any caller reads any file. That is bad."
    )


def test_the_fix_of_any_open_member_is_shown() -> None:
    """What is recommended is what is shown: the worst finding may be without a fix."""
    second = finding(2, reviewer="security", severity=Severity.MEDIUM, fix="Check the id first.")
    asked = ask(walk_of(*joined(finding(1, fix=None), second)))
    assert asked.text.splitlines()[1] == "Apply the proposed fix in cache.py?"
    assert "**Proposed fix**\n\nCheck the id first." in asked.block
    closed = replace(second, state=FindingState.VERIFIED_FIXED)
    asked = ask(walk_of(*joined(finding(1, fix=None), closed)))
    assert asked.text.splitlines()[1] == "Defer and file a ticket?"
    assert "Check the id first." not in asked.block.partition("**Reported by")[0]


@pytest.mark.parametrize(
    ("one", "trackers", "phrase"),
    [
        (finding(locations=()), LINEAR, "Apply the proposed fix?"),
        (finding(fix=None), LINEAR, "Defer and file a Linear ticket?"),
        (finding(fix=None), ISSUES, "Defer and file a ticket?"),
        (finding(fix=None), NO_TRACKER, "Skip the fix and leave the finding open?"),
        (advisory(), LINEAR, "Acknowledge it as reviewed?"),
    ],
)
def test_one_action_is_asked_about(one: Finding, trackers: TrackerStatus, phrase: str) -> None:
    """The recommended one, as a yes or no."""
    assert stem(one, trackers=trackers)[1] == phrase


@pytest.mark.parametrize(
    ("one", "action", "reference", "line"),
    [
        (finding(), Action.APPLY, "", "→ Applied. Fix staged at src/cache.py:36-37."),
        (finding(locations=()), Action.APPLY, "", "→ Applied."),
        (finding(), Action.DEFER, "https://x/1", "→ Deferred. Ticket filed: https://x/1."),
        (finding(), Action.SKIP, "", "→ Skipped."),
        (finding(), Action.ACKNOWLEDGE, "", "→ Acknowledged."),
    ],
)
def test_one_line_confirms(one: Finding, action: Action, reference: str, line: str) -> None:
    """What was done, to the letter."""
    assert confirmation(items(one)[0], Choice(action, ref=reference)) == line


def test_severities_are_shown_as_levels() -> None:
    """P0 to P3; information is a P3."""
    assert [items(finding(severity=severity))[0].level for severity in Severity] == ["P0", "P1", "P2", "P3", "P3"]


def test_text_from_a_finding_is_inert() -> None:
    """No control characters, no changed direction, no forged heading or label."""
    evil = finding(
        title=HOSTILE,
        impact=HOSTILE,
        fix=HOSTILE,
        locations=(Location(path=HOSTILE, start=1),),
        reviewer=HOSTILE,
        action="apply",
        why_it_works=HOSTILE,
    )
    found = joined(evil, replace(evil, id=finding(2).id, reviewer="**Proposed fix**", action="skip"))
    deferred = confirmation(items(*found)[0], Choice(Action.DEFER, ref=HOSTILE))
    text = block(*found) + "\n" + "\n".join(stem(*found)) + deferred
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202e]", text)
    assert text.count("\n## ") == 0
    assert len(re.findall(r"^\*\*", text, re.MULTILINE)) == 4


@pytest.mark.parametrize(
    ("line", "inert"),
    [("# x", "\\# x"), ("- x", "\\- x"), ("12. x", "12\\. x"), ("```", "\\```"), ("`x` is", "`x` is"), ("3 x", "3 x")],
)
def test_a_line_starts_nothing_in_markdown(line: str, inert: str) -> None:
    """What could start a heading, a list or a block is escaped, and nothing else."""
    assert escape(line) == inert


def test_a_huge_text_is_truncated() -> None:
    """Ten megabytes of text do not reach the screen."""
    assert len(one_line("x " * 5_000_000)) in range(1990, 2001)
    assert one_line("y" * 100, 10) == "yyyyyyyyy…"
    assert len(block(finding(impact="y" * 10_000_000, fix="z" * 10_000_000))) < 5000


MIXED = (
    finding(1, severity=Severity.CRITICAL, plain_title="Any caller can read any file of the whole machine now"),
    finding(2, locations=(Location(path="src/a/very/long/path/that/takes/most/of/the/line.py", start=1234),)),
    finding(3, fix=None),
    finding(4, action="skip", locations=()),
    advisory(5),
)


def plan(route: Route, trackers: TrackerStatus = LINEAR, *answers: str) -> list[str]:
    asked = ask(walk_of(*MIXED, trackers=trackers), *answers, route=route)
    return [*asked.plan.split("\n"), "", *asked.text.split("\n"), *labels(asked)]


@pytest.mark.parametrize("name", ["named", "generic"])
@pytest.mark.parametrize("route", [Route.ALL, Route.FILE])
def test_the_plan_for_all(route: Route, name: str, snapshot: SnapshotAssertion) -> None:
    """Heading, groups in order without empty ones, a line for each finding, and two options."""
    assert plan(route, TRACKERS[name]) == snapshot


def test_the_plan_for_the_rest(snapshot: SnapshotAssertion) -> None:
    """It counts what was decided already."""
    assert plan(Route.EACH, LINEAR, "skip", "rest") == snapshot


def test_the_plan_without_a_tracker(snapshot: SnapshotAssertion) -> None:
    """What was to be deferred is told apart from what was to be skipped anyway."""
    asked = ask(walk_of(*MIXED, finding(6, action="defer"), trackers=NO_TRACKER), route=Route.ALL)
    assert asked.plan.split("\n") == snapshot


def test_a_plan_with_nothing_left_still_asks() -> None:
    """If everything was refused the person sees that, and can go back."""
    drive = Drive(validate=lambda _one: Validation(validated=False, reason="no"))
    asked = ask(walk_of(finding(1), finding(2), validates=True), "rest", drive=drive)
    assert asked.keys == ("proceed", "cancel")
    assert asked.plan.startswith("Plan — 0 remaining findings (0 already decided):\n\nDropping")


def test_every_line_of_a_plan_fits() -> None:
    """In eighty columns, with an ellipsis where it is truncated; a wide letter takes two."""
    lines = plan(Route.ALL)
    assert max(map(display_width, lines)) <= 80
    assert any(line.endswith("…") for line in lines)
    asked = ask(walk_of(finding(1, title="検" * 100), finding(2)), route=Route.ALL)
    [line] = [line for line in asked.plan.split("\n") if line.endswith("…")]
    assert len(line) + line.count("検") == 80


@pytest.mark.parametrize(
    "fix",
    [
        "Throw on non-2xx response before parsing JSON.",
        "Replace `==` with `===` on line 42.",
        "Add a `response.ok` check after the fetch and throw on non-2xx.",
        "Extract the request-building logic into a helper and call it from both sites.",
        "Call `close`.",
        "Use `a` `b` here.",
    ],
)
def test_prose_that_keeps_the_rules_is_shown_as_it_is(fix: str) -> None:
    """Intent in a sentence, few and short spans with space around them."""
    assert present_fix(fix, "a.py:1", "p") == fix


@pytest.mark.parametrize(
    "fix",
    [
        "Add `if (!response.ok) throw new Error(`HTTP ${response.status}`);` after `await fetch(...)` then.",
        "Use `a` and `b` and `c` here.",
        "Call`close`now.",
        "Call `close`d.",
        "Call ``close`` here.",
        "Call `close here.",
        "Write `return a + b if c else d` there.",
        "Write `x = y;` there.",
        "So:\n\n```diff\n-a\n+b\n```",
        "So:\n\n```\n-a\n+b\n```",
        "So:\n\n@@ -1,2 +1,2 @@\n-a\n+b",
        "So:\n\n```python\nif not id:\n    raise KeyError\n```",
        "One. Two. Three. Four.",
    ],
)
def test_a_fix_that_breaks_the_rules_is_summarized(fix: str) -> None:
    """It becomes a summary, a location and a pointer."""
    told = present_fix(fix, "a.py:1", "runs/1/correctness.json → findings[].suggested_fix")
    assert told.endswith("At a.py:1.\n\nFull fix: runs/1/correctness.json → findings[].suggested_fix")
    assert "`" not in told
    assert not re.search("^[-+@]", told, re.MULTILINE)


def test_the_summary_is_the_first_sentence_without_backticks() -> None:
    """Never a placeholder; of code alone there is none."""
    told = present_fix("Build the path from checked parts. Two. Three. Four.", "", "p")
    assert told == "Build the path from checked parts.\n\nFull fix: p"
    told = present_fix("Guard the path before it is opened with `if (!ok) { throw x; }` please.", "", "p")
    assert told.startswith("Guard the path before it is opened with if (!ok) { throw x; } please.\n")
    assert present_fix("```\n-a\n+b\n```", "", "p") == "The fix is given as code.\n\nFull fix: p"


@given(st.text(st.sampled_from("ab `.\n+-@{};#*~\x1b"), max_size=80))
def test_whatever_is_proposed_can_be_shown(fix: str) -> None:
    """No text controls a terminal or forges a heading or a label."""
    lines, code = [], False
    for line in present_fix(fix, "a.py:1", "p").split("\n"):
        code ^= line == "```"
        lines += [] if code else [line]
    assert "\x1b" not in "".join(lines)
    assert not any(line.startswith(("#", "**")) for line in lines)


def test_the_plan_in_the_original_wording() -> None:
    """Its heading has the original words."""
    asked = ask(walk_of(finding(1), finding(2), seed_wording=True), "rest")
    assert asked.plan.startswith("LFG plan — 2 remaining findings (0 already decided):")


def test_earlier_decisions_and_tickets_are_shown() -> None:
    """The last two with the day, and the ticket or the reason; the details have all of them."""
    history = (
        decision("skip", "2026-01-01T00:00:00Z", note="Not now."),
        decision("defer", "2026-01-02T00:00:00Z", ref="https://x/1"),
        decision("skip", "2026-01-03T00:00:00Z", note="Later."),
    )
    found = joined(finding(1, history=history), finding(2, history=history))
    lines = block(*found).split("\n\n")
    assert lines[2] == "Earlier: deferred on 2026-01-02, https://x/1; skipped on 2026-01-03, Later."
    assert details(items(*found)[0], ()).count(" on 2026-01-0") == 3


def test_details_are_whole_and_inert() -> None:
    """The whole fix line by line and the code with its line numbers; nothing in them ends a code block."""
    fix = "Change it:\n```\n\tif x:\x1b[31m\n```\nand test it."
    code = Excerpt(Evidence(path="src/cache.py", start=36), ((35, "a", False), (36, "b", True)), "It has changed.")
    text = details(items(finding(fix=fix))[0], [code])
    assert "```\nChange it:\n'''\n    if x:\n'''\nand test it.\n```" in text
    assert "```\n    35  a\n>   36  b\n```\n\nIt has changed." in text
    assert "\x1b" not in text


def test_a_finding_that_was_not_validated_is_flagged_in_the_plan() -> None:
    """It is severe, so it stays; the plan says that nobody has looked."""
    drive = Drive(validate=lambda one: None if one.number == 1 else Validation(validated=True))
    asked = ask(walk_of(finding(1), finding(2), validates=True), "rest", drive=drive)
    flagged = [line.endswith(" (not validated)") for line in asked.plan.splitlines() if "[P1]" in line]
    assert flagged == [True, False]
