"""The rules for one item of a review's return: those of the schema that is shipped beside this module, and stricter.

A number that only looks like an anchor is refused, and a title that says nothing.
"""

from typing import Any

from pipeline.findings.codecs import strict
from pipeline.findings.model import AutofixClass, Owner
from pipeline.findings.scales import ANCHORS

DETAIL = ("why_it_matters", "evidence", "x_evidence_absent")  # what the compact form leaves out
TITLE = 100  # characters
_OPTIONAL = ("suggested_fix",)


def faults(item: Any, *, compact: bool) -> list[str]:
    """What is wrong with an item, all of it at once."""
    if not isinstance(item, dict):
        return ["it is no JSON object"]
    return strict.faults(item, _RULES, (*_OPTIONAL, *DETAIL) if compact else _OPTIONAL)


def _title(value: Any) -> str:
    return strict.words(value) or ("" if len(value) <= TITLE else f"has {len(value)} characters; {TITLE} is the most")


def _line(value: Any) -> str:
    return "" if strict.is_int(value) and value >= 1 else "is no line number from 1"


def _anchor(value: Any) -> str:
    allowed = ", ".join(map(str, ANCHORS))
    return "" if strict.is_int(value) and value in ANCHORS else f"is none of the integers {allowed}"


def _evidence(value: Any) -> str:
    return strict.texts(value) or ("" if value else "is empty: a claim needs at least one")


_RULES: dict[str, strict.Rule] = {
    "title": _title,
    "severity": strict.one_of(("P0", "P1", "P2", "P3")),
    "file": strict.text,
    "line": _line,
    "why_it_matters": strict.text,
    "autofix_class": strict.one_of(AutofixClass),
    "owner": strict.one_of(Owner),
    "requires_verification": strict.flag,
    "suggested_fix": lambda value: "" if value is None else strict.text(value),
    "confidence": _anchor,
    "evidence": _evidence,
    "pre_existing": strict.flag,
}
KEYS = frozenset(
    {*_RULES, "x_title", "x_severity", "x_system_breaking", "x_line_absent", "x_evidence_absent"}
)  # those that have a meaning here
