"""Each tier recognises what it is for, and leaves what fits two equally."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.findings.identity.made import CODE, Files, draft, found, known, tiers

from pipeline.findings.fingerprints import VERDICT, add_fingerprints, content_words
from pipeline.findings.linemap import parse_diff
from pipeline.findings.match import JUDGED, Pair, assign, likeness, match, of_draft
from pipeline.findings.model import Category, Finding, FindingState, Strength

PATH = "src/session.py"
BEFORE = Files({PATH: CODE})
SHIFTED = Files({PATH: ["import log", "", *CODE]})
MOVED = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ b/{PATH}\n@@ -0,0 +1,2 @@\n+import log\n+\n")
OTHER = Category.PERFORMANCE


def test_a_signature_is_enough() -> None:
    """T1, 000-23: the same claim about the same quoted code is the same finding wherever it stands."""
    quoted: dict[str, Any] = {"quote": "store.save(token)"}
    matching = found([draft(3, **quoted)], BEFORE, [draft(5, **quoted)], SHIFTED)
    assert tiers(matching) == {0: "name"}
    assert matching.matches[0].strength is Strength.EXACT


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ({"aliases": ("ticket-7",)}, {"aliases": ("ticket-7",)}),
        ({"fingerprints": {"guid": "g-1"}}, {"fingerprints": {"guid": "g-1"}}),
        ({"id": "fnd_12345678"}, {"fingerprints": {"awf/id": "fnd_12345678"}}),
    ],
)
def test_a_name_of_its_own_is_enough(then: dict[str, Any], now: dict[str, Any]) -> None:
    """T1: an alias, a tool's id or ours that another format carried back."""
    matching = found([draft(3, **then)], BEFORE, [draft(8, "All is new", **now)], BEFORE)
    assert tiers(matching) == {0: "name"}


def test_an_id_by_position_is_no_name() -> None:
    """C-05, 001-08: another problem on the same lines has the same id in a verdict file, and is another finding."""
    one = known([draft(3)], BEFORE)[0]
    one = replace(one, aliases=(one.fingerprints[VERDICT], "security-0badcafe-3"))
    other = draft(3, "Slow in loops", category=OTHER, aliases=one.aliases)
    assert match([one], add_fingerprints([other], BEFORE)).new == (0,)


def test_git_says_where_a_line_went() -> None:
    """T2: of equal lines the one that git followed, in other words and of another kind."""
    twice = [*CODE, *CODE]
    after = Files({PATH: ["import log", "", *twice]})
    matching = found([draft(3)], Files({PATH: twice}), [draft(15), draft(5, "Token stays valid")], after, MOVED)
    assert tiers(matching) == {1: "mapped"}
    assert matching.matches[0].strength is Strength.MAPPED


def test_a_text_that_stands_once_is_the_same_one() -> None:
    """T3: without git, a line that the file has once, then and now."""
    matching = found([draft(3)], BEFORE, [draft(5, "A token stays")], SHIFTED)
    assert tiers(matching) == {0: "unique"}


def test_of_equal_texts_the_surroundings_tell() -> None:
    """T4: two equal lines, each in its own function."""
    one = ["def a():", "    x = load(1)", "    check(x)", "    use(x)", "    end_of_a()", "    return x"]
    other = ["def b():", "    x = load(2)", "    check(x)", "    drop(x)", "    end_of_b()", "    return None"]
    drafts = [draft(3, "Stays valid"), draft(9, "Stays valid")]
    matching = found([draft(3)], Files({PATH: [*one, *other]}), drafts, Files({PATH: [*other, *one]}))
    assert tiers(matching) == {1: "surrounded"}


def test_the_only_one_of_its_kind_in_a_function_is_the_same_one() -> None:
    """T5: the line was rewritten and moved, the function and the claim are the same."""
    after = Files({PATH: [f"    rewritten_{number}()" for number in range(20)]})
    matching = found([draft(3, symbol="rotate")], BEFORE, [draft(15, "Token never revoked", symbol="rotate")], after)
    assert tiers(matching) == {0: "symbol"}
    assert matching.matches[0].strength is Strength.FUZZY


@pytest.mark.parametrize(
    "drafts",
    [
        [draft(15, "Token is kept", symbol="rotate"), draft(18, "Token is logged", symbol="rotate")],
        [draft(15, "Slow rotate", symbol="rotate")],
        [draft(15, "Token is kept", symbol="rotate", category=OTHER)],
    ],
)
def test_a_function_alone_is_no_identity(drafts: list[Finding]) -> None:
    """T5: two candidates, no word but the function's name, or another kind: nothing is recognised."""
    after = Files({PATH: [f"    rewritten_{number}()" for number in range(20)]})
    assert found([draft(3, symbol="rotate")], BEFORE, drafts, after).matches == ()


@pytest.mark.parametrize("mapped", [True, False])
def test_a_report_that_is_a_line_off_is_close_enough(*, mapped: bool) -> None:
    """T6: two lines off and of another kind, in the same words."""
    report = draft(7, "The old token stays valid", category=OTHER)
    matching = found([draft(3)], BEFORE, [report], SHIFTED, MOVED if mapped else None)
    assert tiers(matching) == {0: "close"}
    assert matching.matches[0].strength is Strength.FUZZY


def test_four_lines_off_is_too_far_with_git_and_other_code_is_too_far_without() -> None:
    """T6: closeness has an end."""
    far = draft(9, "The old token stays valid for ever", path=PATH)
    assert found([draft(3)], BEFORE, [far], SHIFTED, MOVED).matches == ()
    other = Files({PATH: [f"other({number})" for number in range(20)]})
    assert found([draft(3)], BEFORE, [draft(3, "The old token stays")], other).matches == ()


def test_code_that_moved_to_another_file_takes_its_findings_along() -> None:
    """T7: a long line and something of what was around it."""
    after = Files({PATH: ["x = 1"], "src/tokens.py": ["import x", *CODE[:5]]})
    drafts = [draft(3, "Token stays", path="src/tokens.py"), draft(1, "Magic number", category=OTHER)]
    assert tiers(found([draft(2)], BEFORE, drafts, after)) == {0: "moved"}


def test_a_short_line_in_another_file_is_another() -> None:
    """T7: `return token` may stand anywhere."""
    after = Files({PATH: ["x = 1"], "src/tokens.py": ["import x", *CODE[:5]]})
    drafts = [draft(6, "Token stays", path="src/tokens.py"), draft(1, "Magic number", category=OTHER)]
    assert found([draft(5)], BEFORE, drafts, after).matches == ()


def test_a_renamed_file_is_noticed_without_git() -> None:
    """The old name is reported no more, and all its lines are in one new file."""
    after = Files({"src/tokens.py": CODE})
    drafts = [draft(5, "Token stays", path="src/tokens.py"), draft(9, "Unlogged token", path="src/tokens.py")]
    matching = found([draft(5), draft(9, "Token unlogged")], BEFORE, drafts, after)
    assert tiers(matching) == {0: "unique", 1: "unique"}


def test_a_claim_without_code_is_matched_last() -> None:
    """000-23: the same signature is the same finding; but which line is meant was never said, and that is on record."""
    other = Files({PATH: [f"other({number})" for number in range(20)]})
    matching = found([draft(3)], BEFORE, [draft(12)], other)
    assert tiers(matching) == {0: "loose"}
    assert matching.matches[0].strength is Strength.FUZZY


def test_the_second_of_two_is_not_taken_for_the_first_when_that_goes() -> None:
    """C-05: linters that quote nothing count their findings; one that is fixed must not pass its state on."""
    lines = ["import a_module_here", "import b_module_here", "import c_module_here"]
    first, last = draft(1, "Unused import"), draft(3, "Unused import", signature="sha256:second")
    dismissed, still_open = known([first, last], Files({PATH: lines}))
    now = add_fingerprints([draft(2, "Unused import")], Files({PATH: lines[1:]}))  # the last, now counted as the first
    (one,) = match([dismissed, still_open], now).matches
    assert one.known == still_open.id


def test_a_different_problem_on_the_same_line_is_new() -> None:
    """C-05: neither kind nor words agree; the place alone is no identity, in whatever state the known one is."""
    for state in FindingState:
        one = known([draft(3)], BEFORE, state=state)
        assert match(one, add_fingerprints([draft(3, "Slow in loops", category=OTHER)], BEFORE)).matches == ()


@pytest.mark.parametrize("state", FindingState)
def test_the_same_line_and_kind_make_nothing_one(state: FindingState) -> None:
    """C-05, 0-21: of the same kind on the same line, but with no word in common, it is another."""
    unlike = add_fingerprints([draft(3, "Missing permission check")], BEFORE)
    assert match(known([draft(3)], BEFORE, state=state), unlike).matches == ()


@pytest.mark.parametrize("state", FindingState)
def test_a_guess_is_taken_for_an_open_finding_alone(state: FindingState) -> None:
    """0-22: what is only likely inherits no dismissal and reopens nothing; it is named, and nobody is missed."""
    matching = match(
        known([draft(3)], BEFORE, state=state), add_fingerprints([draft(4, "The old token stays")], BEFORE)
    )
    taken, doubtful = matching.matches, matching.doubtful
    assert [one.strength for one in (*taken, *doubtful)] == [Strength.FUZZY]
    assert bool(taken) is state.active
    assert (matching.new, matching.unseen) == (() if state.active else (0,), ())


def test_two_problems_on_one_line_stay_apart() -> None:
    """What is said decides between findings of one place, in any order."""
    before = [draft(3, "Old token stays valid"), draft(3, "Save is not atomic")]
    matching = found(before, BEFORE, [draft(5, "Atomic save needed"), draft(5, "Token valid after rotation")], SHIFTED)
    ids = [one.id for one in known(before, BEFORE)]
    assert [one.known for one in matching.matches] == [ids[1], ids[0]]


def test_what_fits_two_equally_is_left() -> None:
    """No coin is tossed: the same words between two equal places are a new finding."""
    twice = Files({PATH: ["same()", "same()", "same()", "same()"]})
    before = known([draft(1, "Token red"), draft(3, "Token blue")], twice)
    assert match(before, add_fingerprints([draft(2, "Token green")], twice)).matches == ()


def test_an_open_finding_is_preferred() -> None:
    """Of two that fit, the one that still counts is meant."""
    fixed, still_open = known([draft(3, "Token stays red"), draft(3, "Token stays blue")], BEFORE)
    fixed = replace(fixed, state=FindingState.VERIFIED_FIXED)
    (one,) = match([fixed, still_open], add_fingerprints([draft(3, "Token stays green")], BEFORE)).matches
    assert one.known == still_open.id


def test_a_judge_is_asked_about_what_is_left() -> None:
    """T8: of one file, one by one, and only so often."""
    other = Files({PATH: [f"other({number})" for number in range(200)]})
    before = known([draft(3, "Old token")], BEFORE)
    drafts = add_fingerprints([draft(9, "Session survives"), draft(3, "X", path="b.py")], other)
    (one,) = match(before, drafts, judge=lambda _, report: report.title == "Session survives").matches
    assert (one.draft, one.strength, one.tier) == (0, Strength.JUDGED, "judge")


def test_a_judge_is_asked_about_the_likeliest_first_and_not_about_who_is_found() -> None:
    """T8: what has most of the surroundings comes first, and neither half of a pair is asked about again."""
    other = [f"other({number})" for number in range(30)]
    later = Files({PATH: [*other, "x()", *CODE[:2], "y()", "z()", *other]})
    before = known([draft(3, "Old token"), draft(8, "Slow")], BEFORE)
    drafts = add_fingerprints([draft(9, "Far", category=OTHER), draft(34, "Near", category=OTHER)], later)
    asked = list[tuple[str, str]]()

    def judge(one: Finding, report: Finding) -> bool:
        asked.append((one.title, report.title))
        return True

    matching = match(before, drafts, judge=judge)
    assert asked == [("Old token", "Near"), ("Slow", "Far")]
    assert [one.draft for one in matching.matches] == [0, 1]


def test_a_judge_is_not_asked_for_ever() -> None:
    """T8: the number of questions has an end."""
    asked = list[str]()

    def judge(one: Finding, report: Finding) -> bool:
        asked.append(one.title + report.title)
        return False

    lines = Files({PATH: [f"other({number})" for number in range(200)]})
    before = known([draft(number, f"A{number}") for number in range(1, 60)], lines)
    later = Files({PATH: [f"new({number})" for number in range(200)]})
    drafts = add_fingerprints([draft(number, f"B{number}", category=OTHER) for number in range(1, 60)], later)
    match(before, drafts, judge=judge)
    assert len(asked) == len(set(asked)) == JUDGED


def test_of_two_that_fit_equally_by_name_the_same_one_is_taken_in_any_order() -> None:
    """T1: who has the name is the one, and which of two does not depend on who reported first."""
    named: dict[str, Any] = {"aliases": ("ticket-7",)}
    before = known([draft(3, **named)], BEFORE)
    reports = add_fingerprints([draft(3, impact=impact, **named) for impact in ("less", "more", "most")], BEFORE)
    for drafts in (reports, reports[::-1], reports[1:] + reports[:1]):
        (one,) = match(before, drafts).matches
        assert (drafts[one.draft].impact, one.tier) == ("less", "name")


def test_of_two_loose_claims_that_fit_equally_the_same_one_is_taken_in_any_order() -> None:
    """Last of all: one of them is the known one, and a second of the same words is no reason to lose it."""
    other = Files({PATH: [f"other({number})" for number in range(20)]})
    before = known([draft(3)], BEFORE)
    reports = add_fingerprints([draft(line) for line in (12, 17)], other)
    for drafts in (reports, reports[::-1]):
        (one,) = match(before, drafts).matches
        assert (drafts[one.draft].location, one.tier) == (reports[0].location, "loose")


def test_a_finding_without_a_place_is_known_by_its_claim() -> None:
    """000-36: a product finding has no file; its words and what it quotes are all there is."""
    product: dict[str, Any] = {"locations": (), "quote": "Tokens end after an hour", "category": Category.PRODUCT}
    assert tiers(found([draft(None, **product)], Files(), [draft(None, **product)], Files())) == {0: "name"}


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a\0b", "", "x" * 5000])
def test_hostile_paths_are_just_names(path: str) -> None:
    """A path that leads nowhere is compared, never opened, and breaks nothing."""
    matching = found([draft(3, path=path)], Files(), [draft(3, path=path)], Files())
    assert len(matching.matches) == 1


def test_words_are_compared_without_endings() -> None:
    """Rotation and rotate are one word; words that say nothing are none."""
    assert content_words(("The rotation is missing",)) == content_words(("Rotate",))
    one, other = of_draft(0, draft(title="Token stays valid")), of_draft(1, draft(title="Valid tokens"))
    assert likeness(one, other) == pytest.approx(2 / 3)


def test_the_name_of_a_variable_is_no_claim() -> None:
    """C-05: two problems of different kinds that both name what stands on the line are two."""
    other = add_fingerprints([draft(3, "Slow save of the token", category=OTHER)], BEFORE)
    assert match(known([draft(3)], BEFORE), other).matches == ()


def test_an_equal_text_in_other_surroundings_is_another() -> None:
    """T4: `check(x)` elsewhere, with nothing around it that was around the first, is not it."""
    before = Files({PATH: ["a1()", "a2()", "check(x)", "a3()", "a4()"]})
    after = Files({PATH: ["b1()", "b2()", "check(x)", "b3()", "b4()", "b5()", "b6()", "check(x)"]})
    assert found([draft(3)], before, [draft(3, "Token stays valid")], after).matches == ()


def test_who_is_tied_is_not_given_a_worse_partner() -> None:
    """Two known findings fit one draft equally: neither takes another draft in this tier."""
    pairs = [Pair((1.0,), 0, 0), Pair((1.0,), 1, 0), Pair((0.5,), 0, 1)]
    assert list(assign(pairs)) == []
    assert list(assign(pairs, by_order=True)) == [pairs[0]]
    assert list(assign(pairs[1:])) == pairs[1:]
