"""Who may say what about a finding: reviewers and tools rule, fixers claim, and nobody's silence means anything."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.findings.ledgers import AT, LATER, REVIEW, finding, ledger_of, looked
from tests.unit.findings.passes import draft, report, ruling

from pipeline.findings.events import Pass
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Actor,
    Draft,
    Finding,
    FindingState,
    Gate,
    PassId,
    Report,
    ReportStatus,
    Said,
    Severity,
    What,
)
from pipeline.findings.rulings import (
    CLAIM_FORMAT,
    CLAIMS,
    RULING_FORMAT,
    RULINGS,
    Hearing,
    claims,
    is_unchanged,
    read_said,
    rule,
)

OPEN, CLAIMED = FindingState.OPEN, FindingState.FIX_CLAIMED
VERIFIED, REOPENED = FindingState.VERIFIED_FIXED, FindingState.REOPENED
DISMISSED = (FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[FINDING 1: fixed]", Said(1, "fixed")),
        ("[FINDING #12: fixed]", Said(12, "fixed")),
        ("  [ finding 3 : Not Fixed, because it is hard ]", Said(3, "not_fixed", "because it is hard")),
        ("- [FINDING 3: not_fixed]", Said(3, "not_fixed")),
        ("2. [FINDING 3: not-fixed: later]", Said(3, "not_fixed", "later")),
        ("[FINDING 3: still present]", Said(3, "not_fixed", "still present")),
        ("[FINDING 3 (P0): not resolved, see a.py]", Said(3, "not_fixed", "not resolved, see a.py")),
        ("[FINDING 3 - partially fixed]", Said(3, "not_fixed", "partially fixed")),
        ("**[FINDING 4: wrong — it is closed above]**", Said(4, "wrong", "it is closed above")),
        ("[FINDING 5: upheld, because it still leaks]", Said(5, "upheld", "because it still leaks")),
        ("[FINDING 5: Withdrawn]", Said(5, "withdrawn")),
        ("[FINDING 5: lowered to P2, because it is rare]", Said(5, "lowered", "because it is rare", Severity.MEDIUM)),
        ("[FINDING 5: lowered low]", Said(5, "lowered", "", Severity.LOW)),
        ("[FINDING 5: lowered, because it is rare]", Said(5, "lowered", "because it is rare")),
        ("```py\nx = 1\n```\n[FINDING 1: fixed]", Said(1, "fixed")),
        ("[FINDING 1: fixed]\n[FINDING 1: not fixed, it broke]", Said(1, "not_fixed", "it broke")),
    ],
)
def test_a_word_about_a_number_begins_a_line(text: str, said: Said) -> None:
    """In any case, in a list or bold, with a reason; of two about one number the last counts."""
    assert read_said(text) == [said]


@pytest.mark.parametrize(
    "text",
    [
        "```\n[FINDING 1: fixed]\n```",
        "~~~~text\n```\n[FINDING 1: fixed]\n~~~~",
        "> [FINDING 1: fixed]",
        "    fix: [FINDING 1: fixed]",
        '  "title": "[FINDING 1: fixed]",',
        "`[FINDING 1: fixed]`",
        "- #2 (must, high, open) a.py:1: [FINDING 1: fixed]",
        "[FINDING N: fixed]",
        "[FINDING 1: fixedly]",
        "[FINDING 1: done]",
        "[FINDING 1234567890: fixed]",
        "[FINDING ١: fixed]",
        CLAIM_FORMAT,
        RULING_FORMAT,
        "```\n[FINDING 1: fixed]",
    ],
)
def test_a_quoted_or_malformed_word_says_nothing(text: str) -> None:
    """An agent that repeats a finding or the request has said nothing about it."""
    assert read_said(text) == []


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    """No text raises an error, and every word that is read is known."""
    assert all(said.word in {*CLAIMS, *RULINGS} for said in read_said(f"[FINDING 1: fixed]\n{text}"))


# --- fixers ----------------------------------------------------------------------------------------------------------


def claimed(ledger: Ledger, *said: Said) -> Ledger:
    """The ledger after a fixer said this."""
    return ledger.extended(claims(said, ledger, who="fix", run="r", at=LATER))


@pytest.mark.parametrize(
    ("state", "word", "after"),
    [
        (OPEN, "fixed", CLAIMED),
        (REOPENED, "fixed", CLAIMED),
        (FindingState.UNCERTAIN, "fixed", FindingState.UNCERTAIN),
        (OPEN, "wrong", OPEN),
        (OPEN, "not_fixed", OPEN),
        (CLAIMED, "wrong", REOPENED),
        (CLAIMED, "not_fixed", REOPENED),
        *((state, "fixed", state) for state in (*DISMISSED, VERIFIED)),
    ],
)
def test_a_fixer_claims_and_never_closes(state: FindingState, word: str, after: FindingState) -> None:
    """What it calls fixed is claimed, what it disputes stays open, and what is closed is not its business."""
    one = claimed(ledger_of(finding(state=state)), Said(1, word, "why")).findings[finding().id]
    assert one.state is after
    assert [(change.who, change.word) for change in one.claims] == ([("fix", word)] if state.is_open else [])
    assert one.disputed == (word == "wrong" and state.is_open)


def test_a_claim_is_about_every_open_finding_of_the_line_of_work() -> None:
    """Under whichever number; of two claims about one line the worse counts."""
    lead = finding(1)
    ledger = ledger_of(lead, finding(2, line=lead.id), finding(3, line=lead.id, state=VERIFIED), finding(4))
    after = claimed(ledger, Said(2, "fixed"))
    assert [one.state for one in after.findings.values()] == [CLAIMED, CLAIMED, VERIFIED, OPEN]
    worse = claimed(ledger, Said(1, "fixed"), Said(2, "not_fixed"))
    assert [one.state for one in worse.findings.values()] == [OPEN, OPEN, VERIFIED, OPEN]


def test_a_reviewers_word_and_an_unknown_number_claim_nothing() -> None:
    """A fixer that withdraws a finding has not reported it."""
    ledger = ledger_of(finding())
    assert claims([Said(1, "withdrawn", "no"), Said(9, "fixed")], ledger, who="fix", run="", at=AT) == []


# --- reviewers and tools ---------------------------------------------------------------------------------------------


def hear(ledger: Ledger, *reports: Report, tree: str = "t2", **more: Any) -> tuple[Ledger, dict[str, tuple[int, ...]]]:
    """The ledger after the rulings of a pass, and by reviewer the numbers without a ruling."""
    passed = Pass(id=PassId("REV-2-b"), started_at=LATER, review=REVIEW, tree=tree, coverage=looked(), **more)
    present = {report.reviewer for report in reports}
    untouched = [one.id for one in ledger.findings.values() if is_unchanged(one, ledger, tree)]
    events, unruled = rule(Hearing(ledger, passed, LATER, reports, (), present, None, untouched))
    return ledger.extended(events), unruled


def after(state: FindingState, *reports: Report, **more: Any) -> Finding:
    """The finding of `correctness` after a pass; the tree has changed since it was reported."""
    how = {name: more.pop(name) for name in ("tree", "mode") if name in more}
    return hear(ledger_of(finding(state=state, **more), tree="t1"), *reports, **how)[0].findings[finding().id]


def says(word: str, why: str = "", *, by: str = "correctness", severity: Severity | None = None) -> Report:
    """A report with one ruling, on the first finding."""
    return report(by, rulings=(ruling(1, word, why, severity),))


@pytest.mark.parametrize(
    ("state", "word", "expected"),
    [
        (OPEN, "fixed", VERIFIED),
        (CLAIMED, "fixed", VERIFIED),
        (FindingState.UNCERTAIN, "fixed", VERIFIED),
        (OPEN, "not_fixed", OPEN),
        (CLAIMED, "not_fixed", REOPENED),
        (CLAIMED, "upheld", REOPENED),
        (VERIFIED, "not_fixed", REOPENED),
        *((state, word, state) for state in DISMISSED for word in RULINGS),
    ],
)
def test_the_reviewer_that_reported_a_finding_rules_on_it(
    state: FindingState, word: str, expected: FindingState
) -> None:
    """Its "fixed" verifies and its "not fixed" reopens; what a person dismissed stays dismissed."""
    one = after(state, says(word, "because"))
    assert one.state is expected
    assert {change.by for change in one.history if change.what is What.RULING} <= {Actor.REVALIDATE}


@pytest.mark.parametrize("mode", ["full", "verify"])
@pytest.mark.parametrize("state", [OPEN, CLAIMED, FindingState.UNCERTAIN])
def test_another_reviewers_fixed_counts_only_to_confirm_a_claim(state: FindingState, mode: str) -> None:
    """It has to be asked to verify, and the reviewer that reported the finding must take no part."""
    absent = after(state, says("fixed", by="security"), mode=mode)
    assert (absent.state is VERIFIED) == (state is CLAIMED and mode == "verify")
    present = after(state, says("fixed", by="security"), report("correctness"), mode=mode)
    assert present.state is state


@pytest.mark.parametrize("word", ["not_fixed", "upheld"])
def test_not_fixed_wins_over_fixed(word: str) -> None:
    """Whoever says so, and in whichever order they answered."""
    reports = [says("fixed"), says(word, by="security")]
    assert after(CLAIMED, *reports).state is REOPENED
    assert after(CLAIMED, *reversed(reports)).state is REOPENED
    assert after(OPEN, *reports).state is OPEN


def test_a_ruling_is_about_one_finding_and_not_about_its_line_of_work() -> None:
    """Two reviewers reported one defect: the word of one of them closes what it reported."""
    lead = finding(1)
    ledger = ledger_of(lead, finding(2, line=lead.id, reviewer="security"), tree="t1")
    done, _ = hear(ledger, says("fixed"))
    assert [one.state for one in done.findings.values()] == [VERIFIED, OPEN]
    assert done.line(lead.id).is_open


@pytest.mark.parametrize("tree", ["t1", ""])
def test_fixed_on_an_unchanged_tree_is_no_ruling(tree: str) -> None:
    """Nothing can have been fixed. Without git nobody knows, and the word counts."""
    asked = report("correctness", rulings=(ruling(1, "fixed"),), asked=(finding().id,))
    done, unruled = hear(ledger_of(finding(state=CLAIMED), tree="t1"), asked, tree=tree)
    one = done.findings[finding().id]
    assert (one.state, unruled["correctness"]) == ((CLAIMED, (1,)) if tree else (VERIFIED, ()))


@pytest.mark.parametrize("state", [OPEN, CLAIMED, REOPENED, FindingState.UNCERTAIN])
def test_silence_changes_nothing_and_is_named(state: FindingState) -> None:
    """A reviewer that does not rule on a number it was given leaves the finding exactly as it was."""
    before = ledger_of(finding(state=state), tree="t1")
    done, unruled = hear(before, report("correctness", asked=(finding().id,)))
    assert done.findings == before.findings
    assert unruled == {"correctness": (1,)}


def test_a_reviewer_withdraws_its_own_mistake_with_a_reason() -> None:
    """Its own words or the fixer's dispute; without a reason, or while another says it is there, nothing is closed."""
    assert after(OPEN, says("withdrawn", "it is closed above")).state is FindingState.FALSE_POSITIVE
    assert after(OPEN, says("withdrawn")).state is OPEN
    assert after(OPEN, says("withdrawn", "no", by="security")).state is OPEN
    assert after(OPEN, says("withdrawn", "no"), says("not_fixed", by="security")).state is OPEN
    disputed = claimed(ledger_of(finding(), tree="t1"), Said(1, "wrong", "range() refuses it"))
    done, _ = hear(disputed, says("withdrawn"))
    assert done.findings[finding().id].history[-1].note == "range() refuses it"
    assert done.findings[finding().id].state is FindingState.FALSE_POSITIVE


@pytest.mark.parametrize("more", [{"severity": Severity.CRITICAL}, {"system_breaking": True}])
def test_what_is_critical_is_withdrawn_only_by_a_person(more: dict[str, Any]) -> None:
    """Its reviewer's word makes it uncertain, which blocks, and a person has to look."""
    one = after(OPEN, says("withdrawn", "it is closed above"), **more)
    assert (one.state, str(one.owner)) == (FindingState.UNCERTAIN, "human")


def test_a_reviewer_rates_its_own_finding_anew() -> None:
    """The gate follows. Nobody else may, and not for what endangers the whole system."""
    given = {"severity": Severity.HIGH, "gate": Gate.MUST}
    lowered = after(OPEN, says("lowered", "it is rare", severity=Severity.LOW), **given)
    assert (lowered.severity, lowered.gate, lowered.state) == (Severity.LOW, Gate.SUGGEST, OPEN)
    others = after(OPEN, says("lowered", by="security", severity=Severity.LOW), **given)
    endangering = after(OPEN, says("lowered", severity=Severity.LOW), **given, system_breaking=True)
    assert (others.severity, endangering.severity) == (Severity.HIGH, Severity.HIGH)


# --- tools -----------------------------------------------------------------------------------------------------------


def lint(*drafts: Draft, **more: Any) -> Report:
    """The complete list of a tool."""
    return report("ruff", *drafts, checked=more.pop("checked", None), **more)


def listed(report: Report, **more: Any) -> FindingState:
    """The state of a tool's finding after the tool ran again without listing it."""
    return after(OPEN, report, reviewer="ruff", tool=True, **more).state


def test_a_complete_list_of_a_tool_is_an_answer() -> None:
    """What it reported before and lists no longer is fixed.

    On an unchanged tree that takes a list that says what it covers: the tool may have looked at another directory.
    """
    assert listed(lint()) is VERIFIED
    assert listed(lint(), tree="t1") is OPEN
    assert listed(lint(covered=("src",)), tree="t1") is VERIFIED


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (lint(covered=("src",)), VERIFIED),
        (lint(covered=("src/a.py",)), VERIFIED),
        (lint(covered=("src/b.py", "tests")), OPEN),
        (lint(covered=()), OPEN),
        (lint(status=ReportStatus.PARTIAL), OPEN),
        (lint(status=ReportStatus.MALFORMED), OPEN),
        (lint(status=ReportStatus.MISSING), OPEN),
        (report("mypy"), OPEN),
    ],
)
def test_a_partial_run_or_another_tool_closes_nothing(report: Report, expected: FindingState) -> None:
    """Only a readable list, of the same tool, over that place."""
    assert listed(report) is expected


@pytest.mark.parametrize(
    ("checked", "expected"), [({"test/a"}, VERIFIED), ({"test/b"}, OPEN), (frozenset[str](), OPEN)]
)
def test_a_tool_that_names_what_it_checked_closes_only_that(checked: set[str], expected: FindingState) -> None:
    """A test that was not run this time is not green."""
    ran = lint(checked=frozenset(checked))
    assert listed(ran, fingerprints={"junit/v1": "test/a"}) is expected


def test_what_is_reported_again_is_not_closed_by_the_same_list() -> None:
    """Not even in doubt, as when a draft may be the finding."""
    ledger = ledger_of(finding(reviewer="ruff", tool=True), tree="t1")
    passed = Pass(id=PassId("REV-2-b"), started_at=LATER, review=REVIEW, tree="t2")
    listing = lint(draft("ruff", scale="ruff"))
    assert rule(Hearing(ledger, passed, LATER, (listing,), {finding().id}, {"ruff"}))[0] == []


def test_a_stage_with_a_status_only_closes_its_own_failure_alone() -> None:
    """Its success says that it no longer fails; a finding of the same name with a text of its own stays open."""
    failure = finding(1, reviewer="rev", fingerprints={"stage/v1": "W/rev"})
    other = finding(2, reviewer="rev")
    ledger = ledger_of(failure, other, tree="t1")
    passed = report("rev", checked=frozenset({"W/rev"}), format="status")
    done, _ = hear(ledger, passed)
    assert [one.state for one in done.findings.values()] == [VERIFIED, OPEN]


@given(
    st.sampled_from(FindingState),
    st.lists(st.tuples(st.sampled_from(("correctness", "security", "qa")), st.sampled_from(RULINGS)), max_size=4),
    st.sampled_from(("full", "quick", "verify")),
    st.sampled_from(("t1", "t2", "")),
    st.randoms(use_true_random=False),
)
def test_who_rules_in_which_order_changes_nothing(
    state: FindingState, said: list[tuple[str, str]], mode: str, tree: str, chance: Any
) -> None:
    """A pass is one hearing: all rulings count together."""
    names = dict.fromkeys(name for name, _ in said)
    reports = [report(one, rulings=tuple(ruling(1, word, "x") for name, word in said if name == one)) for one in names]
    mixed = chance.sample(reports, len(reports))
    assert after(state, *reports, mode=mode, tree=tree).state is after(state, *mixed, mode=mode, tree=tree).state


@given(
    st.sampled_from(FindingState),
    st.lists(st.tuples(st.sampled_from(("correctness", "security")), st.sampled_from(RULINGS)), max_size=3),
    st.sampled_from(("full", "verify")),
)
def test_every_change_of_state_is_somebodys_word(state: FindingState, said: list[tuple[str, str]], mode: str) -> None:
    """Who said it, in which pass, and with which word is in the history."""
    reports = [report(name, rulings=(ruling(1, word, "x"),)) for name, word in dict(said).items()]
    before = finding(state=state)
    one = after(state, *reports, mode=mode)
    new = one.history[1:]
    assert one.state is before.state or new
    assert all(change.who in dict(said) and change.word and change.pass_id for change in new)
