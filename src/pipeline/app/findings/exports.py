"""Findings in the formats that other programs and people read."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from pipeline.app.findings.queries import ALL_STATES, NEEDS_ATTENTION
from pipeline.findings.formats import EXPORT_FORMATS, FORMATS
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState

EXPORTS: Mapping[str, Callable[[Sequence[Finding], Ledger], str]] = MappingProxyType(
    {name: FORMATS[name].write for name in EXPORT_FORMATS}
)


def default_states(format: str) -> frozenset[FindingState]:
    """The states that a format can express; where it cannot, what is settled would come back as open."""
    return ALL_STATES if FORMATS[format].all_states else NEEDS_ATTENTION
