"""The rules for one item of a review's return: those of the schema that is shipped beside this module, and stricter.

A number that only looks like an anchor is refused, and a title that says nothing.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from pipeline.findings.codecs import strict
from pipeline.findings.model import AutofixClass, Owner
from pipeline.findings.scales import ANCHORS

DETAIL = ("why_it_matters", "evidence", "x_evidence_absent")  # what the compact form leaves out
_TITLE = 100  # characters


def faults(item: Any, *, compact: bool) -> list[str]:
    """What is wrong with an item, all of it at once."""
    if not isinstance(item, dict):
        return ["it is no JSON object"]
    return [fault for key, rule in _RULES.items() if (fault := _fault(item, key, rule, compact=compact))]


def _fault(item: Mapping[str, Any], key: str, rule: "Rule", *, compact: bool) -> str:
    if key in item:
        return rule(key, item[key])
    required = key not in _OPTIONAL and not (compact and key in DETAIL)
    return f"`{key}` is missing" if required else ""


Rule = Callable[[str, Any], str]


def _text(key: str, value: Any) -> str:
    return "" if isinstance(value, str) else f"`{key}` is no text"


def _title(key: str, value: Any) -> str:
    if not isinstance(value, str):
        return _text(key, value)
    if not value.strip():
        return f"`{key}` is empty"
    return f"`{key}` has {len(value)} characters; {_TITLE} is the most" if len(value) > _TITLE else ""


def _fix(key: str, value: Any) -> str:
    return "" if value is None else _text(key, value)


def _line(key: str, value: Any) -> str:
    return "" if strict.is_int(value) and value >= 1 else f"`{key}` is no line number from 1"


def _flag(key: str, value: Any) -> str:
    return "" if isinstance(value, bool) else f"`{key}` is neither true nor false"


def _anchor(key: str, value: Any) -> str:
    allowed = ", ".join(map(str, ANCHORS))
    return "" if strict.is_int(value) and value in ANCHORS else f"`{key}` is none of the integers {allowed}"


def _evidence(key: str, value: Any) -> str:
    if not strict.is_texts(value):
        return f"`{key}` is no list of texts"
    return "" if value else f"`{key}` is empty: a claim needs at least one"


def _one_of(*allowed: str) -> Rule:
    words = ", ".join(allowed)
    return lambda key, value: "" if isinstance(value, str) and value in allowed else f"`{key}` is none of {words}"


_RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "title": _title,
        "severity": _one_of("P0", "P1", "P2", "P3"),
        "file": _text,
        "line": _line,
        "why_it_matters": _text,
        "autofix_class": _one_of(*AutofixClass),
        "owner": _one_of(*Owner),
        "requires_verification": _flag,
        "suggested_fix": _fix,
        "confidence": _anchor,
        "evidence": _evidence,
        "pre_existing": _flag,
    }
)
_OPTIONAL = frozenset({"suggested_fix"})
KEYS = frozenset(
    {*_RULES, "x_title", "x_severity", "x_system_breaking", "x_line_absent", "x_evidence_absent"}
)  # those that have a meaning here
