"""Finds in a ledger what people name, and says what to do about a name that means nothing."""

from difflib import get_close_matches

from pipeline.app.run_names import MAX_NAMES, NEWEST
from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, PassId
from pipeline.text import listing


def find_finding(name: str, ledger: Ledger) -> Finding:
    """Return the finding with this id, prefix of an id, number or alias."""
    found = ledger.find(name) if name else None
    if found is None:
        raise AwfError(f'there is no finding "{name}"', help=suggest_finding(name, ledger))
    return found


def suggest_finding(name: str, ledger: Ledger) -> str:
    """What to do about a name that matches no finding, or several."""
    ids = list(map(str, ledger.findings))
    if not ids:
        return "there are no findings yet; add some with: awf findings import FILE"
    if matching := [id for id in ids if name and id.startswith((name, f"fnd_{name}"))]:
        return f"{len(matching)} ids start with that: {listing(matching, MAX_NAMES)}"
    close = get_close_matches(name, ids, n=MAX_NAMES, cutoff=0.6)
    return f"did you mean {listing(close, MAX_NAMES)}?" if close else '"awf findings list --state all" lists them'


def is_verifiable(ledger: Ledger) -> bool:
    """Return whether the last review was a full one, which a verification can continue."""
    last = ledger.last
    return last is not None and any(one.mode == "full" for one in ledger.passes.values() if one.review == last.review)


def require_full_review(ledger: Ledger) -> None:
    """Raise AwfError unless a verification has a full review to continue."""
    if not is_verifiable(ledger):
        looked = "the last review was a quick one" if ledger.last else "nothing was reviewed yet"
        raise AwfError(f"nothing to verify: {looked}", help="run a full review first; nothing was recorded")


def find_pass(name: str, ledger: Ledger) -> Pass:
    """The pass with this id or prefix of an id; the last one for `latest` and `-`."""
    passes = ledger.passes
    if ledger.last is None:
        raise AwfError("there are no passes yet", help="make one with: awf findings import FILE")
    if name in NEWEST:
        return ledger.last
    matching = [id for id in passes if name and id.startswith((name, f"REV-{name}"))]
    exact = PassId(name)
    if len(matching) == 1 or exact in matching:
        return passes[exact if exact in matching else matching[0]]
    if matching:
        help = f"give more of the id: {listing(matching, MAX_NAMES)}"
        raise AwfError(f'{len(matching)} passes start with "{name}"', help=help)
    raise AwfError(f'there is no pass "{name}"', help=f"the newest are {listing([*reversed(passes)], MAX_NAMES)}")
