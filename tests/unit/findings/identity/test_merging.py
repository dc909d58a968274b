"""A merge is a link, and can be taken back."""

import pytest
from tests.unit.findings.identity.made import FIRST, SECOND, Files, draft, known

from pipeline.errors import AwfError
from pipeline.findings.events import Linked, Raised
from pipeline.findings.identity.merging import merge, root, split
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import FindingId, Link


@pytest.fixture
def ledger() -> Ledger:
    """Three findings, numbered from 1."""
    made = known([draft(1, "One"), draft(2, "Two"), draft(3, "Three")], Files())
    return Ledger(Raised(at=FIRST, finding=one) for one in made)


def test_a_merge_taken_back_leaves_both_as_they_were(ledger: Ledger) -> None:
    """Nothing but history remembers it."""
    before = {id: one.model_dump(exclude={"history", "updated_at"}) for id, one in ledger.findings.items()}
    for event in merge(ledger, "#1", "#2", SECOND, "one fix resolves both"):
        ledger.apply(event)
    assert [one.number for one in ledger] == [2, 3]
    for taken_back in split(ledger, "#1", SECOND):
        ledger.apply(taken_back)
    assert before == {id: one.model_dump(exclude={"history", "updated_at"}) for id, one in ledger.findings.items()}


def test_a_merge_goes_to_the_finding_that_stands_for_the_other(ledger: Ledger) -> None:
    """No chains: what is merged into a part is merged into the whole."""
    for one, into in (("#1", "#2"), ("#3", "#1")):
        for event in merge(ledger, one, into, SECOND):
            ledger.apply(event)
    whole = ledger.find("#2")
    assert whole is not None
    assert [root(ledger, id) for id in ledger.findings] == [whole.id] * 3


@pytest.mark.parametrize(("one", "into"), [("#1", "#1"), ("#2", "#1"), ("#1", "#3"), ("#9", "#1"), ("#1", "#9")])
def test_a_merge_that_makes_no_sense_is_refused(ledger: Ledger, one: str, into: str) -> None:
    """Into itself, into its own part, twice, or of what is not there."""
    for event in merge(ledger, "#1", "#2", SECOND):
        ledger.apply(event)
    with pytest.raises(AwfError):
        merge(ledger, one, into, SECOND)


def test_only_what_was_merged_can_be_split(ledger: Ledger) -> None:
    """There is nothing to take back."""
    with pytest.raises(AwfError, match="not part of another"):
        split(ledger, "#1", SECOND)


def test_links_in_a_circle_end(ledger: Ledger) -> None:
    """Two processes may merge two findings into each other; nobody walks for ever."""
    one, two, _ = ledger.findings
    for id, to in ((one, two), (two, one)):
        ledger.apply(Linked(at=SECOND, id=id, link=Link(kind="duplicate_of", to=to)))
    assert root(ledger, FindingId(one)) == two
