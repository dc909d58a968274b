"""Findings that are one: a link from one to the other, so that taking it back gives both as they were."""

from pipeline.errors import AwfError
from pipeline.findings.events import Linked, Unlinked
from pipeline.findings.ledger import MERGED, Ledger, merged_into
from pipeline.findings.model import Finding, FindingId, Link

CAUSED = "caused_by"


def merge(ledger: Ledger, name: str, into: str, at: str, note: str = "") -> list[Linked]:
    """Make one finding part of another. Both keep their ids, names and history."""
    one, other = _found(ledger, name), _found(ledger, into)
    whole = root(ledger, other.id)
    if merged_into(one):
        raise AwfError(f"{one.id} is already part of {merged_into(one)}", help="split it first")
    if whole == one.id:
        raise AwfError(f"{one.id} cannot be part of {other.id}", help="name two findings that are not one already")
    return [Linked(at=at, id=one.id, link=Link(kind=MERGED, to=whole, note=note))]


def split(ledger: Ledger, name: str, at: str, note: str = "") -> list[Unlinked]:
    """Take a merge back: the finding stands for itself again."""
    one = _found(ledger, name)
    if not merged_into(one):
        raise AwfError(f"{one.id} is not part of another finding", help="there is nothing to split")
    return [Unlinked(at=at, id=one.id, link=Link(kind=MERGED, to=merged_into(one), note=note))]


def root(ledger: Ledger, id: FindingId) -> FindingId:
    """The finding that stands for another, itself when it was not merged. Links in a circle end where they began."""
    seen = {id}
    while (to := FindingId(merged_into(ledger.findings[id]))) in ledger.findings and to not in seen:
        seen.add(to)
        id = to
    return id


def _found(ledger: Ledger, name: str) -> Finding:
    found = ledger.find(name)
    if found is None:
        raise AwfError(f"there is no finding {name}", help="list the findings to see their ids and numbers")
    return found
