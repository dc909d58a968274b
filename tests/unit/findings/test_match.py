"""A known finding is recognised by its names, its place and its claim, and what is only likely is called so."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.findings.builders import CODE, Files, draft, found, known

from pipeline.findings.fingerprints import add_fingerprints, content_words
from pipeline.findings.linemap import LineMap, parse_diff
from pipeline.findings.match import Match, Strength, match
from pipeline.findings.model import Category, Draft, FindingState

PATH = "src/session.py"
BEFORE = Files({PATH: CODE})
SHIFTED = Files({PATH: ["import log", "", *CODE]})
MOVED = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ b/{PATH}\n@@ -0,0 +1,2 @@\n+import log\n+\n")
REWRITTEN = Files({PATH: [f"    rewritten_{number}()" for number in range(20)]})
OTHER = Category.PERFORMANCE
SAME = LineMap()


def strengths(matches: Sequence[Match]) -> dict[int, Strength]:
    """How each draft that is a known finding was recognised."""
    return {one.draft: one.strength for one in matches if one.is_sure}


def doubts(matches: Sequence[Match]) -> list[int]:
    """The drafts that may be a known finding."""
    return [one.draft for one in matches if not one.is_sure]


def edited(line: int, text: str, code: list[str] = CODE) -> tuple[Files, LineMap]:
    """The files after an edit of one line, and what git says of it."""
    after = [*code[: line - 1], text, *code[line:]]
    diff = f"diff --git a/x b/x\n--- a/{PATH}\n+++ b/{PATH}\n@@ -{line} +{line} @@\n-{code[line - 1]}\n+{text}\n"
    return Files({PATH: after}), parse_diff(diff)


def test_a_signature_is_enough() -> None:
    """The same claim about the same quoted code is the same finding wherever it is."""
    quoted: dict[str, Any] = {"quote": "store.save(token)"}
    assert strengths(found([draft(3, **quoted)], BEFORE, [draft(5, **quoted)], SHIFTED)) == {0: Strength.EXACT}


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"aliases": ("sha256:later",)}, {"signature": "sha256:later", "quote": "return token"}),
        ({"fingerprints": {"guid": "g-1"}}, {"tool_ids": {"guid": "g-1"}}),
        ({"id": "fnd_12345678"}, {"tool_ids": {"awf/id": "fnd_12345678"}}),
    ],
)
def test_a_name_of_its_own_is_enough(then: dict[str, Any], now: dict[str, Any]) -> None:
    """An earlier signature, a tool's id, or an id of ours that another format carried back."""
    after = add_fingerprints([draft(8, "All is new", **now)], BEFORE)
    assert strengths(match(known([draft(3)], BEFORE, **then), after, {})) == {0: Strength.EXACT}


def test_the_id_of_a_tool_needs_a_common_word_if_another_reviewer_gives_it() -> None:
    """Two tools may call different defects the same."""
    guid: dict[str, Any] = {"tool_ids": {"guid": "g-1"}}
    before = [draft(3, **guid)]
    for title, matches in (("All is new", {}), ("The token leaks", {0: Strength.EXACT})):
        assert strengths(found(before, BEFORE, [draft(8, title, reviewer="lint", **guid)], BEFORE)) == matches


def test_an_id_by_position_is_not_a_name() -> None:
    """C-05: another defect on the same lines has the same id in a verdict file, and is another finding."""
    assert found([draft(3)], BEFORE, [draft(3, "Slow in loops", category=OTHER)], BEFORE) == []


def test_of_two_with_one_name_the_same_one_is_taken_in_any_order() -> None:
    """A shared name decides, and which of two has it does not depend on the order of reports."""
    before = known([draft(3, tool_ids={"guid": "g"})], BEFORE)
    reports = add_fingerprints(
        [draft(3, impact=impact, tool_ids={"guid": "g"}) for impact in ("less", "more", "most")], BEFORE
    )
    for drafts in (reports, reports[::-1], reports[1:] + reports[:1]):
        (one,) = match(before, drafts, {})
        assert drafts[one.draft].impact == "less"


def test_git_tells_where_a_line_went() -> None:
    """Of equal lines the one that git followed, in other words."""
    twice = [*CODE, *CODE]
    after = Files({PATH: ["import log", "", *twice]})
    drafts = [draft(15, "Token stays valid too"), draft(5, "Token stays valid")]
    matches = found([draft(3)], Files({PATH: twice}), drafts, after, MOVED)
    assert strengths(matches) == {1: Strength.MAPPED}


@pytest.mark.parametrize("line", [3, 4, 5])
def test_an_edited_line_keeps_its_finding(line: int) -> None:
    """The line was changed, the defect is still there; the report cites it, or is a line or two off."""
    after, lines = edited(3, "    store.save(token, old.user)")
    matches = found([draft(3)], BEFORE, [draft(line, "The old token stays valid")], after, lines)
    assert strengths(matches) == {0: Strength.MAPPED}


def test_edited_surroundings_keep_the_finding() -> None:
    """Everything around the line was rewritten, and git still knows the line."""
    code = [*(f"    other_{number}()" for number in range(5)), CODE[2], "    done()"]
    hunks = ["@@ -1,2 +1,5 @@", "-x", "-x", *["+x"] * 5, "@@ -4,7 +7,1 @@", *["-x"] * 7, "+x"]
    lines = parse_diff("\n".join([f"diff --git a/x b/x\n--- a/{PATH}\n+++ b/{PATH}", *hunks]))
    matches = found([draft(3)], BEFORE, [draft(6, "Old token valid after rotation")], Files({PATH: code}), lines)
    assert strengths(matches) == {0: Strength.MAPPED}


@pytest.mark.parametrize("line", [3, 5])
def test_a_fix_that_rewrote_the_line_leaves_another_claim_new(line: int) -> None:
    """A different defect in the code that replaced the line is not the one that was there."""
    after, lines = edited(3, "    store.save(token, old.user)")
    assert found([draft(3)], BEFORE, [draft(line, "User may be None")], after, lines) == []


def test_a_text_that_is_in_its_file_once_is_the_same_one() -> None:
    """Without git, a line that the file has once, then and now."""
    matches = found([draft(3)], BEFORE, [draft(5, "Old tokens stay valid")], SHIFTED)
    assert strengths(matches) == {0: Strength.CONTENT}


def test_of_equal_texts_the_surroundings_decide() -> None:
    """Two equal lines, each in its own function."""
    one = ["def a():", "    x = load(1)", "    check(x)", "    use(x)", "    end_of_a()", "    return x"]
    other = ["def b():", "    x = load(2)", "    check(x)", "    drop(x)", "    end_of_b()", "    return None"]
    drafts = [draft(3, "Stays valid"), draft(9, "Stays valid")]
    matches = found([draft(3)], Files({PATH: [*one, *other]}), drafts, Files({PATH: [*other, *one]}))
    assert strengths(matches) == {1: Strength.CONTENT}


def test_an_equal_text_in_other_surroundings_is_another() -> None:
    """`check(x)` elsewhere, with nothing around it that was around the first, is not it."""
    before = Files({PATH: ["a1()", "a2()", "check(x)", "a3()", "a4()"]})
    after = Files({PATH: ["b1()", "b2()", "check(x)", "b3()", "b4()", "b5()", "b6()", "check(x)"]})
    assert found([draft(3)], before, [draft(3, "Token stays valid")], after) == []


def test_a_quotation_leads_to_the_finding() -> None:
    """The same code is quoted, from a line that nobody named."""
    quote: dict[str, Any] = {"quote": "store.save(token)"}
    matches = found([draft(None, **quote)], Files(), [draft(None, "Old tokens stay valid", **quote)], Files())
    assert strengths(matches) == {0: Strength.CONTENT}


def test_code_in_another_file_is_another_finding_unless_git_says_that_it_is_the_same_file() -> None:
    """The same line somewhere else may have the same defect, and is reported for itself."""
    after = Files({PATH: ["x = 1"], "src/tokens.py": CODE})
    moved = draft(2, "Token stays valid", path="src/tokens.py")
    assert found([draft(2)], BEFORE, [moved], after) == []
    renamed = parse_diff(f"diff --git a/x b/x\nrename from {PATH}\nrename to src/tokens.py\n")
    assert strengths(found([draft(2)], BEFORE, [moved], after, renamed)) == {0: Strength.MAPPED}


@pytest.mark.parametrize("state", FindingState)
@pytest.mark.parametrize("title", ["Missing permission check", "Slow save of the token in the store"])
def test_the_same_line_and_category_make_nothing_one(state: FindingState, title: str) -> None:
    """Without a common word, names of the code aside, two reports on one line are two findings."""
    before = known([draft(3)], BEFORE, state=state)
    for reviewer in ("security", "bandit"):
        other = add_fingerprints([draft(3, title, reviewer=reviewer, quote="store.save(token)")], BEFORE)
        assert match(before, other, {"one": SAME}) == []


@pytest.mark.parametrize(
    ("line", "then", "now", "sure"),
    [
        (3, {"category": OTHER}, {"category": OTHER}, True),
        (3, {"category": OTHER}, {"category": Category.SECURITY}, False),
        (3, {"category": Category.BUG}, {"category": Category.BUG}, False),  # what it is called if nobody chooses
        (4, {"category": OTHER}, {"category": OTHER}, False),
        (3, {"category": OTHER}, {"category": OTHER, "reviewer": "bandit"}, False),
    ],
)
def test_one_common_word_needs_the_very_line_and_a_chosen_category(
    line: int, then: dict[str, Any], now: dict[str, Any], *, sure: bool
) -> None:
    """One word in common is a doubt, unless one reviewer cites the same line and chooses the same category."""
    before = known([draft(3, "Rotation leaves sessions", **then)], BEFORE)
    after = add_fingerprints([draft(line, "Stale sessions survive", **now)], BEFORE)
    (one,) = match(before, after, {"one": SAME})
    assert one.is_sure is sure


def test_one_common_word_about_a_line_that_is_there_twice_is_a_doubt() -> None:
    """Which of two equal lines a reviewer means is not certain enough for one word."""
    twice = Files({PATH: [*CODE, *CODE]})
    reports = [draft(3, title, category=OTHER) for title in ("Rotation leaves sessions", "Stale sessions survive")]
    matches = found(reports[:1], twice, reports[1:], twice, SAME)
    assert (strengths(matches), doubts(matches)) == ({}, [0])


def test_the_same_quotation_of_the_same_reviewer_is_always_a_doubt() -> None:
    """In other words altogether it may be the same defect, which a person is told; two reviewers may mean two."""
    quote: dict[str, Any] = {"quote": "store.save(token)"}
    for reviewer, marked in (("correctness", [0]), ("security", [])):
        other = draft(3, "Disk fills up", category=OTHER, reviewer=reviewer, **quote)
        matches = found([draft(3, **quote)], BEFORE, [other], BEFORE, SAME)
        assert (strengths(matches), doubts(matches)) == ({}, marked)


def test_different_reasons_cast_doubt_on_common_words_of_a_title() -> None:
    """Two common words are enough for short reports, and chance where both say a lot and agree in nothing else."""
    reasons = ("a b c d e f g h i j k l m n o p q r s t u v w x y z".replace(" ", f"{end} ") for end in ("one", "two"))
    reports = [
        draft(3, title, impact=reason, category=Category.BUG)
        for title, reason in zip(("Rotation leaves old sessions", "Stale old sessions survive"), reasons, strict=True)
    ]
    assert strengths(found(reports[:1], BEFORE, reports[1:], BEFORE, SAME)) == {}
    bare = [replace(one, impact="") for one in reports]
    assert len(strengths(found(bare[:1], BEFORE, bare[1:], BEFORE, SAME))) == 1


@pytest.mark.parametrize("state", FindingState)
@pytest.mark.parametrize(
    "report",
    [
        draft(5, "The old token stays"),
        draft(5, "The old token stays", quote="return token"),
        draft(9, "Old tokens stay usable", symbol="rotate"),
        draft(10),
    ],
)
def test_what_is_only_likely_is_a_doubt(state: FindingState, report: Draft) -> None:
    """Near without git, in one function, or word for word about some line: named, and never taken for it."""
    before = known([draft(3, symbol=report.evidence[0].symbol)], BEFORE, state=state)
    assert match(before, add_fingerprints([report], BEFORE), {}) == [Match(0, before[0].id, Strength.DOUBTFUL)]


def test_far_from_where_git_says_is_another() -> None:
    """More than three lines off, the same words are a doubt at most."""
    assert strengths(found([draft(3)], BEFORE, [draft(9, "The old token stays valid")], SHIFTED, MOVED)) == {}


def test_two_defects_on_one_line_stay_apart() -> None:
    """What is said decides between findings of one place."""
    before = [draft(3, "Old token stays valid"), draft(3, "Write is not atomic")]
    drafts = [draft(5, "Atomic write needed"), draft(5, "Old token valid after rotation")]
    matches = found(before, BEFORE, drafts, SHIFTED, MOVED)
    ids = [one.id for one in known(before, BEFORE)]
    assert [(one.known, one.is_sure) for one in matches] == [(ids[1], True), (ids[0], True)]


def test_what_fits_two_equally_is_new() -> None:
    """The same words between two equal places are nobody's."""
    twice = Files({PATH: ["same()", "same()", "same()", "same()"]})
    before = known([draft(1, "Old red session stays"), draft(3, "Old blue session stays")], twice)
    drafts = add_fingerprints([draft(2, "Old green session stays")], twice)
    assert strengths(match(before, drafts, {"one": SAME})) == {}


def test_of_two_reports_near_one_finding_the_better_one_must_be_clearly_better() -> None:
    """Two reports that fit nearly as well leave a doubt; of two that do not, the better one is the finding."""
    before = [draft(3, "Old red session stays open")]
    rivals = [draft(5, "Old red session leaks"), draft(6, "Old red session remains open")]
    matches = found(before, BEFORE, rivals, SHIFTED, MOVED)
    assert (strengths(matches), len(doubts(matches))) == ({}, 1)
    clear = [draft(5, "Old red session remains open"), draft(6, "Old red flag")]
    assert strengths(found(before, BEFORE, clear, SHIFTED, MOVED)) == {0: Strength.MAPPED}


def test_an_open_finding_is_preferred() -> None:
    """Of two that fit, the one that still counts is meant."""
    (fixed,) = known([draft(3, "Old key stays red")], BEFORE, state=FindingState.VERIFIED_FIXED)
    (still_open,) = known([draft(3, "Old key stays blue")], BEFORE)
    (one,) = match([fixed, still_open], add_fingerprints([draft(3, "Old key stays green")], BEFORE), {})
    assert (one.known, one.is_sure) == (still_open.id, True)


def test_the_second_of_two_is_not_taken_for_the_first_when_that_is_fixed() -> None:
    """Linters that quote nothing count their findings; one that is fixed must not pass its state on."""
    lines = ["import a_module_here", "import b_module_here", "import c_module_here"]
    first, last = draft(1, "Unused import"), draft(3, "Unused import", signature="sha256:second")
    dismissed, still_open = known([first, last], Files({PATH: lines}))
    now = add_fingerprints([draft(2, "Unused import")], Files({PATH: lines[1:]}))  # the last, now counted as the first
    (one,) = match([dismissed, still_open], now, {})
    assert (one.known, one.is_sure) == (still_open.id, True)


def test_a_dismissed_report_does_not_cover_the_next_one_of_its_kind() -> None:
    """The same title about another line is new: only the line tells which one was dismissed."""
    before = known([draft(1, "Unused import")], Files({PATH: ["import a_module_here"]}), state=FindingState.WONT_FIX)
    after = add_fingerprints([draft(1, "Unused import")], Files({PATH: ["import quite.another as thing"]}))
    assert strengths(match(before, after, {})) == {}


def test_a_finding_without_a_place_is_known_by_its_claim() -> None:
    """A product finding has no file; its words and what it quotes are all there is."""
    product: dict[str, Any] = {"locations": (), "quote": "Tokens end after an hour", "category": Category.PRODUCT}
    matches = found([draft(None, **product)], Files(), [draft(None, **product)], Files())
    assert strengths(matches) == {0: Strength.EXACT}


def test_what_cannot_be_read_is_recognised_by_its_text_alone() -> None:
    """An unreadable item is never taken for a finding that can be read."""
    report = draft(3, "Token stays valid", unreadable="not JSON")
    assert found([draft(3)], BEFORE, [report], BEFORE, SAME) == []


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a\0b", "", "x" * 5000])
def test_hostile_paths_are_just_names(path: str) -> None:
    """A path that leads nowhere is compared, never opened, and breaks nothing."""
    assert len(strengths(found([draft(3, path=path)], Files(), [draft(3, path=path)], Files()))) == 1


def test_words_are_compared_without_endings() -> None:
    """Rotation and rotate are one word; words that say nothing are none."""
    assert content_words(("The rotation is missing",)) == content_words(("Rotate",))


@pytest.mark.parametrize("text", ["value = load(1)", "value_{number} = load({number})"])
def test_the_time_of_many_findings_in_one_file_is_not_quadratic(text: str) -> None:
    """Equal lines or not, four times as many findings take about four times as long, not sixteen times."""

    def seconds(count: int) -> float:
        lines = Files({PATH: [text.format(number=number) for number in range(count)]})
        reports = [draft(line, f"Defect {line:05} of load") for line in range(1, count + 1)]
        before = known(reports, lines)
        drafts = add_fingerprints([draft(line, f"The defect {line:05}") for line in range(1, count + 1)], lines)
        began = time.process_time()
        assert len(strengths(match(before, drafts, {"one": SAME}))) == count
        return time.process_time() - began

    few, many = (min(seconds(count) for _ in range(3)) for count in (200, 800))  # the least other programs disturbed
    assert many < 12 * few
