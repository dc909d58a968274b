"""A merge is a link, and can be taken back."""

import pytest
from tests.unit.findings.identity.made import FIRST, SECOND, Files, draft, known

from pipeline.errors import AwfError
from pipeline.findings.events import FindingRaised, LinkAdded, LinkRemoved
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import FindingId, Link
from pipeline.findings.transitions import merge, split


@pytest.fixture
def ledger() -> Ledger:
    """Three findings, numbered from 1."""
    made = known([draft(1, "One"), draft(2, "Two"), draft(3, "Three")], Files())
    return Ledger(FindingRaised(at=FIRST, finding=one) for one in made)


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
    assert [ledger.leader(id) for id in ledger.findings] == [whole.id] * 3


NOT_THERE = ("there is no finding #9", "list the findings to see their ids and numbers")
TWICE = ("{one} is already part of {two}", "split it first")


@pytest.mark.parametrize(
    ("one", "into", "told"),
    [
        ("#1", "#1", TWICE),
        ("#1", "#3", TWICE),
        ("#2", "#1", ("{two} cannot be part of {one}", "name two findings that are not one already")),
        ("#9", "#1", NOT_THERE),
        ("#1", "#9", NOT_THERE),
    ],
)
def test_a_merge_that_makes_no_sense_is_refused(ledger: Ledger, one: str, into: str, told: tuple[str, str]) -> None:
    """Twice, into its own part, or of what is not there: it says which finding it is, and what to do."""
    for event in merge(ledger, "#1", "#2", SECOND):
        ledger.apply(event)
    ids = dict(zip(("one", "two", "three"), ledger.findings, strict=True))
    with pytest.raises(AwfError) as refused:
        merge(ledger, one, into, SECOND)
    assert (str(refused.value), refused.value.help) == (told[0].format_map(ids), told[1])


def test_only_what_was_merged_can_be_split(ledger: Ledger) -> None:
    """There is nothing to take back."""
    one, *_ = ledger.findings
    with pytest.raises(AwfError) as refused:
        split(ledger, "#1", SECOND)
    assert (str(refused.value), refused.value.help) == (
        f"{one} is not part of another finding",
        "there is nothing to split",
    )


@pytest.mark.parametrize("note", [(), ("one fix resolves both",)])
def test_a_merge_and_a_split_say_when_and_why(ledger: Ledger, note: tuple[str, ...]) -> None:
    """The note that somebody gave, and none that nobody gave."""
    one, two, _ = (FindingId(id) for id in ledger.findings)
    link = Link(kind="duplicate_of", to=two, note="".join(note))
    assert merge(ledger, "#1", "#2", SECOND, *note) == [LinkAdded(at=SECOND, id=one, link=link)]
    ledger.apply(LinkAdded(at=SECOND, id=one, link=link))
    assert split(ledger, "#1", SECOND, *note) == [LinkRemoved(at=SECOND, id=one, link=link)]


def test_links_in_a_circle_end(ledger: Ledger) -> None:
    """Two processes may merge two findings into each other; nobody walks for ever."""
    one, two, _ = ledger.findings
    for id, to in ((one, two), (two, one)):
        ledger.apply(LinkAdded(at=SECOND, id=id, link=Link(kind="duplicate_of", to=to)))
    assert ledger.leader(FindingId(one)) == two


def test_links_into_a_circle_end(ledger: Ledger) -> None:
    """Also where the finding that is asked about is not in it."""
    one, two, three = ledger.findings
    for id, to in ((one, two), (two, three), (three, two)):
        ledger.apply(LinkAdded(at=SECOND, id=id, link=Link(kind="duplicate_of", to=to)))
    assert ledger.leader(FindingId(one)) == three
