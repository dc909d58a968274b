"""Why a finding is what it is, and when it was last seen."""

from tests.unit.findings.ledgers import AT, FIRST, LATER, SECOND, assessed, finding, ledger_of, seen, vote

from pipeline.findings.events import Disposition, FixAttempted, ItemOutcome, LinkAdded
from pipeline.findings.explanation import explain, explain_item, last_seen
from pipeline.findings.model import FixAttempt, Link, Observed, Strength

ID = finding(1).id


def test_the_explanation_of_a_finding() -> None:
    """Votes, merged items, promotion, attempts, links both ways; a long history is cut in the middle."""
    entries = (ItemOutcome(input_id="sec#1", disposition=Disposition.MERGED, reason="same line", into="lint#1"),)
    votes = (vote(input_id="lint#1", pass_id=FIRST, title="One"), vote(input_id="sec#1", pass_id=FIRST, title="Two"))
    ledger = ledger_of(finding(1, votes=votes, agreement=2), finding(2), entries=entries)
    attempt = FixAttempt(round=2, by="fix", what="a guard", outcome="not_fixed")
    ledger.apply(FixAttempted(at=AT, id=ID, attempt=attempt))
    ledger.apply(LinkAdded(at=AT, id=finding(2).id, link=Link(kind="caused_by", to=ID)))
    ledger.apply(LinkAdded(at=AT, id=ID, link=Link(kind="related", to=finding(2).id, note="close by")))
    ledger.apply(assessed(SECOND, LATER))
    for _ in range(20):
        ledger.apply(seen(1))
    parts = explain(ledger.findings[ID], ledger)
    assert list(parts) == ["Now", "Reported by", "Merged", "Gate", "History", "Attempts", "Links"]
    assert [line.split(",")[0] for line in parts["Reported by"]] == ["lint#1", "sec#1"]
    [merged] = parts["Merged"]
    assert merged.startswith("sec#1 into lint#1")
    assert "from 50" in parts["Gate"][1]
    assert [finding(2).id in line for line in parts["Links"]] == [True, True]
    assert len(parts["History"]) == 13
    assert sum(len(lines) + 1 for lines in parts.values()) <= 40


def test_when_a_finding_was_last_seen() -> None:
    """The pass that did not report it is not the one that saw it last."""
    assert all(word in last_seen(finding()) for word in ("new", FIRST))
    moved = last_seen(finding(observed=Observed.MOVED, strength=Strength.MAPPED))
    assert all(word in moved for word in ("moved", "mapped", FIRST))
    assert FIRST in last_seen(finding(observed=Observed.ABSENT, absent_passes=2))


def test_the_explanation_of_an_item() -> None:
    """The last pass that had it says what became of it; earlier ones are named, and an unknown item has none."""
    entries = (ItemOutcome(input_id="lint#1", disposition=Disposition.SURVIVING, reason="new"),)
    ledger = ledger_of(finding(1, votes=(vote(input_id="lint#1", pass_id=SECOND),)), entries=entries)
    ledger.apply(assessed(SECOND, LATER, entries=entries))
    title, outcome, part, earlier = explain_item("lint#1", ledger)
    assert SECOND in title
    assert outcome.startswith("surviving")
    assert ID in part
    assert FIRST in earlier
    assert explain_item("lint#2", ledger) == []
