"""Links in a circle, as two processes can make them."""

import pytest
from tests.unit.findings.identity.made import FIRST, SECOND, Files, draft, known

from pipeline.findings.events import FindingRaised, LinkAdded
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import FindingId, Link


@pytest.mark.parametrize(
    ("links", "end"), [([(0, 1), (1, 0)], 1), ([(0, 1), (1, 2), (2, 1)], 2), ([(0, 1), (1, 2)], 2), ([], 0)]
)
def test_the_leader_of_linked_findings(links: list[tuple[int, int]], end: int) -> None:
    """It is the finding at the end of the links; links in a circle end too."""
    made = known([draft(1, "One"), draft(2, "Two"), draft(3, "Three")], Files())
    ledger = Ledger(FindingRaised(at=FIRST, finding=one) for one in made)
    ids = list(map(FindingId, ledger.findings))
    for one, to in links:
        ledger.apply(LinkAdded(at=SECOND, id=ids[one], link=Link(kind="duplicate_of", to=ids[to])))
    assert ledger.leader(ids[0]) == ids[end]
