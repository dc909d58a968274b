"""Which finding or pass a person means."""

from difflib import get_close_matches

from pipeline.app.store import MAX_NAMES, NEWEST, join_names
from pipeline.errors import AwfError
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, PassId
from pipeline.findings.passes import Pass


def find_finding(name: str, ledger: Ledger) -> Finding:
    """The finding of an id, the beginning of one, a number or another name it has."""
    found = ledger.find(name) if name else None
    if found is None:
        raise AwfError(f'there is no finding "{name}"', help=near(name, ledger))
    return found


def near(name: str, ledger: Ledger) -> str:
    """What may be meant by a name that is no finding's."""
    ids = list(map(str, ledger.findings))
    if not ids:
        return "there are no findings yet; take some in with: awf findings import FILE"
    if begun := [id for id in ids if name and id.startswith((name, f"fnd_{name}"))]:
        return f"{len(begun)} ids begin so: {join_names(begun)}"
    close = get_close_matches(name, ids, n=MAX_NAMES, cutoff=0.6)
    return f"did you mean {join_names(close)}?" if close else '"awf findings list --state all" lists them'


def find_pass(name: str, ledger: Ledger) -> Pass:
    """The pass of an id, the beginning of one, or the last for `latest` and `-`."""
    passes = ledger.passes
    if not passes:
        raise AwfError("there are no passes yet", help="make one with: awf findings import FILE")
    if name in NEWEST:
        return next(reversed(passes.values()))
    if PassId(name) in passes:
        return passes[PassId(name)]
    meant = [passed for id, passed in passes.items() if name and id.startswith((name, f"REV-{name}"))]
    if len(meant) == 1:
        return meant[0]
    if meant:
        help = f"write more of the id: {join_names([one.id for one in meant])}"
        raise AwfError(f'{len(meant)} passes begin with "{name}"', help=help)
    raise AwfError(f'there is no pass "{name}"', help=f"the newest are {join_names([*reversed(passes)])}")
