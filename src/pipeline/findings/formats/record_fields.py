"""What each field of a record may be changed to, and what that is in a finding: one rule for each field."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats import strict_json as strict
from pipeline.findings.formats.items import ItemError
from pipeline.findings.formats.record_view import reason_absent, refs
from pipeline.findings.model import Category, Evidence, Finding, Gate, GateDecision, Severity
from pipeline.findings.scales import RECORD_SEVERITY, confidence_from_word

_LAST = 10**9  # line of a file
_REF = frozenset({"path", "startLine", "endLine", "symbol", "quote"})

Field = Callable[[Mapping[str, Any], Finding, str], dict[str, Any]]
"""What an edited record says of a finding, and by whose hand; raises Refused, to be read after the field's name."""


def read_fields(
    edited: Mapping[str, Any], keys: Iterable[str], finding: Finding, by: str
) -> tuple[dict[str, Any], list[str]]:
    """What some fields of a record change in a finding, and what is wrong with the others."""
    changes: dict[str, Any] = {}
    problems: list[str] = []
    for key in keys:
        try:
            changes |= FIELDS[key](edited, finding, by)
        except ItemError as refused:
            problems.append(f"`{key}` {refused}")
    return changes, problems


def _sound(value: Any, rule: strict.Rule) -> Any:
    if fault := rule(value):
        raise ItemError(fault)
    return value


def _taken(key: str, name: str, rule: strict.Rule) -> Field:
    """A field that a finding has under a name, as it is."""
    return lambda edited, _finding, _by: {name: _sound(edited[key], rule)}


def _task(value: Any) -> str:
    sound = isinstance(value, str) and (not value or value.startswith("TASK-"))
    return "" if sound else "does not begin with TASK-"


def _text_or_null(value: Any) -> str:
    return "" if value is None or isinstance(value, str) else "is neither a text nor null"


def _gate(edited: Mapping[str, Any], _finding: Finding, by: str) -> dict[str, Any]:
    value = Gate(_sound(edited["gate"], strict.one_of(Gate)))
    return {"gate": GateDecision(value=value, by=by, policy="edited").model_dump(mode="json")}


def _confidence(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any]:
    word = _sound(edited["confidence"], strict.one_of(("high", "medium", "low")))
    return {"confidence": confidence_from_word(word).model_dump()}


def _reasoning(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any]:
    reason, title = _sound(edited["reasoning"], strict.text), edited.get("title")
    if reason_absent(reason, title if isinstance(title, str) else ""):
        raise ItemError("says no more than the title")
    return {"impact": reason}


def _scope_of_fix(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any]:
    return {"min_fix_scope": _sound(edited["min_fix_scope"], strict.text) or None}


def _finer_severity(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any]:
    if edited.get("severity") != RECORD_SEVERITY[Severity.INFO] or edited["x_severity"] not in ("low", "info"):
        raise ItemError('is neither "low" nor "info" beside the severity "low"')
    return {"severity": edited["x_severity"]}


def _evidence(edited: Mapping[str, Any], finding: Finding, _by: str) -> dict[str, Any]:
    """Evidence that was left alone stays as it was, with what a record does not show of it."""
    given = edited["evidence"]
    if not isinstance(given, list) or not given:
        raise ItemError("needs at least one reference")
    known = list(zip(refs(finding), finding.evidence, strict=False))
    items: list[Evidence] = []
    for number, ref in enumerate(given, 1):
        if fault := _ref_fault(ref):
            raise ItemError(f"{number} {fault}")
        items.append(next((item for shown, item in known if shown == ref), _ref(ref)))
    return {"evidence": [item.model_dump(mode="json", exclude_defaults=True) for item in items]}


def _ref(ref: Mapping[str, Any]) -> Evidence:
    return Evidence(
        path=ref["path"],
        start=ref.get("startLine"),
        end=ref.get("endLine"),
        symbol=ref.get("symbol", ""),
        quote=ref.get("quote", ""),
    )


def _ref_fault(ref: Any) -> str:
    if not isinstance(ref, dict) or not isinstance(ref.get("path"), str) or not ref["path"]:
        return "has no `path`"
    if unknown := sorted(ref.keys() - _REF):
        return f"has `{unknown[0]}`, which is not known"
    if not all(isinstance(ref.get(key, ""), str) for key in ("symbol", "quote")):
        return "has a `symbol` or a `quote` that is no text"
    if len(ref.get("quote", "")) > QUOTE:
        return f"quotes more than {QUOTE} characters"
    return "" if _lines_are_sound(ref) else "has lines that are no range from 1"


def _lines_are_sound(ref: Mapping[str, Any]) -> bool:
    if "startLine" not in ref and "endLine" not in ref:
        return True
    start, end = ref.get("startLine"), ref.get("endLine")
    return strict.is_int(start) and strict.is_int(end) and 1 <= int(start or 0) <= int(end or 0) <= _LAST


FIELDS: Mapping[str, Field] = MappingProxyType(
    {
        "task": _taken("task", "task", _task),
        "scope": _taken("scope", "scope", strict.text),
        "title": _taken("title", "title", strict.words),
        "category": _taken("category", "category", strict.one_of(Category)),
        "gate": _gate,
        "severity": _taken("severity", "severity", strict.one_of(dict.fromkeys(RECORD_SEVERITY.values()))),
        "confidence": _confidence,
        "evidence": _evidence,
        "reasoning": _reasoning,
        "reproduction": _taken("reproduction", "reproduction", _text_or_null),
        "recommendation": _taken("recommendation", "fix", strict.words),
        "min_fix_scope": _scope_of_fix,
        "suggested_regression_tests": _taken("suggested_regression_tests", "regression_tests", strict.texts),
        "x_severity": _finer_severity,
        "x_system_breaking": _taken("x_system_breaking", "system_breaking", strict.flag),
    }
)
