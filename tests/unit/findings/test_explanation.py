"""Why a finding is what it is, and what became of an item."""

from dataclasses import replace

from tests.unit.findings.ledgers import FIRST, LATER, SECOND, assessed, changed, finding, ledger_of, seen

from pipeline.findings.events import Disposition, ItemOutcome
from pipeline.findings.explanation import explain, explain_item, line_size, possible_duplicates
from pipeline.findings.model import FindingState, What

ID = finding(1).id


def test_the_explanation_of_a_finding_names_its_line_of_work_and_everything_that_was_said() -> None:
    """Members keep their own history, merged items their reasons, and a long history is cut in the middle."""
    entries = (ItemOutcome(input_id="lint#2", disposition=Disposition.MERGED, reason="same title", into="lint#1"),)
    other = finding(2, reviewer="security", line=ID)
    ledger = ledger_of(finding(1, reviewer="lint", input_id="lint#1"), other, entries=entries)
    ledger.apply(assessed(SECOND, LATER))
    parts = explain(ledger.findings[other.id], ledger)
    assert list(parts) == ["Now", "Line of work", "History", "History of #1 by lint"]
    assert parts["Line of work"][0].startswith("#1 lint (medium, open) src/a.py:1")
    assert "part of line of work #1" in parts["Now"]
    [merged] = explain(ledger.findings[ID], ledger)["Merged"]
    assert merged == f"lint#2 of {FIRST}: same title"
    for _ in range(20):
        ledger.apply(seen(2))
    ledger.apply(changed(2, What.CLAIM, who="fix", word="fixed", note="a guard", state=FindingState.FIX_CLAIMED))
    history = explain(ledger.findings[other.id], ledger)["History"]
    assert len(history) == 13
    assert history[-1] == f"{LATER}  fix  claim fixed, now fix_claimed: a guard"


def test_a_doubt_names_the_finding_that_it_may_be_and_what_became_of_that() -> None:
    """Whoever reads it can compare the two."""
    ledger = ledger_of(finding(1, state=FindingState.WONT_FIX), finding(2, may_be=(ID,)))
    assert possible_duplicates(ledger.findings[finding(2).id], ledger) == "may be #1, dismissed"
    assert "may be #1, dismissed" in explain(ledger.findings[finding(2).id], ledger)["Now"]
    assert possible_duplicates(ledger.findings[ID], ledger) == ""


def test_a_line_of_work_says_how_many_reviewers_reported_it() -> None:
    """A single finding says nothing, and findings that a person joined are counted if one reviewer reported them."""
    ledger = ledger_of(finding(1), finding(2, line=ID))
    assert line_size(ledger.line(ID)) == "2 findings"
    line = ledger.line(ID)
    assert line_size(replace(line, members=(line.members[0], finding(2, reviewer="qa", line=ID)))) == "2 reviewers"
    assert line_size(replace(line, members=line.members[:1])) == ""


def test_the_explanation_of_an_item() -> None:
    """The last pass that had it says what became of it; an unknown item has none."""
    entries = (ItemOutcome(input_id="lint#1", disposition=Disposition.SURVIVING, reason="new"),)
    ledger = ledger_of(finding(1, input_id="lint#1", pass_id=SECOND), entries=entries)
    ledger.apply(assessed(SECOND, LATER, entries=entries))
    title, outcome, found = explain_item("lint#1", ledger)
    assert SECOND in title
    assert outcome.startswith("surviving")
    assert ID in found
    assert explain_item("lint#2", ledger) == []
