"""What each field of a record may be changed to, and what that is in a finding: one rule for each field."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pipeline.findings.codecs import strict
from pipeline.findings.codecs.record_view import reason_absent, refs
from pipeline.findings.model import Category, Evidence, Finding, Gate, GateDecision, Severity
from pipeline.findings.scales import RECORD_SEVERITY, of_word
from pipeline.findings.signature import QUOTE

_LEVELS = tuple(dict.fromkeys(RECORD_SEVERITY.values()))
_REF = frozenset({"path", "startLine", "endLine", "symbol", "quote"})


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a field may not be what somebody wrote, to be read after the field's name."""

    reason: str


Rule = Callable[[Mapping[str, Any], Finding, str], dict[str, Any] | Refused]


def _text(key: str, name: str, *, empty: bool) -> Rule:
    def rule(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
        value = edited[key]
        if not isinstance(value, str):
            return Refused("is no text")
        return {name: value} if empty or value.strip() else Refused("is empty")

    return rule


def _one_of(key: str, allowed: tuple[str, ...]) -> Rule:
    def rule(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
        if not isinstance(edited[key], str) or edited[key] not in allowed:
            return Refused(f"is none of {', '.join(allowed)}")
        return {key: edited[key]}

    return rule


def _task(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
    task = edited["task"]
    if not isinstance(task, str) or (task and not task.startswith("TASK-")):
        return Refused("does not begin with TASK-")
    return {"task": task}


def _gate(edited: Mapping[str, Any], finding: Finding, by: str) -> dict[str, Any] | Refused:
    checked = _one_of("gate", tuple(Gate))(edited, finding, by)
    if isinstance(checked, Refused):
        return checked
    return {"gate": GateDecision(value=Gate(edited["gate"]), by=by, policy="edited").model_dump(mode="json")}


def _confidence(edited: Mapping[str, Any], finding: Finding, by: str) -> dict[str, Any] | Refused:
    checked = _one_of("confidence", ("high", "medium", "low"))(edited, finding, by)
    return checked if isinstance(checked, Refused) else {"confidence": of_word(edited["confidence"]).model_dump()}


def _reasoning(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
    reason, title = edited["reasoning"], edited.get("title")
    if not isinstance(reason, str):
        return Refused("is no text")
    if reason_absent(reason, title if isinstance(title, str) else ""):
        return Refused("says no more than the title")
    return {"impact": reason}


def _reproduction(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
    value = edited["reproduction"]
    return {"reproduction": value} if value is None or isinstance(value, str) else Refused("is neither a text nor null")


def _scope_of_fix(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
    value = edited["min_fix_scope"]
    return {"min_fix_scope": value or None} if isinstance(value, str) else Refused("is no text")


def _tests(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
    value = edited["suggested_regression_tests"]
    return {"regression_tests": list(value)} if strict.is_texts(value) else Refused("is no list of texts")


def _finer_severity(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
    if edited.get("severity") != RECORD_SEVERITY[Severity.INFO] or edited["x_severity"] not in ("low", "info"):
        return Refused('is neither "low" nor "info" beside the severity "low"')
    return {"severity": edited["x_severity"]}


def _breaking(edited: Mapping[str, Any], _finding: Finding, _by: str) -> dict[str, Any] | Refused:
    value = edited["x_system_breaking"]
    return {"system_breaking": value} if isinstance(value, bool) else Refused("is neither true nor false")


def _evidence(edited: Mapping[str, Any], finding: Finding, _by: str) -> dict[str, Any] | Refused:
    """Evidence that was left alone stays as it was, with what a record does not show of it."""
    given = edited["evidence"]
    if not isinstance(given, list) or not given:
        return Refused("needs at least one reference")
    known = list(zip(refs(finding), finding.evidence, strict=False))
    items: list[Evidence] = []
    for number, ref in enumerate(given, 1):
        if fault := _ref_fault(ref):
            return Refused(f"{number} {fault}")
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
    return strict.is_int(start) and strict.is_int(end) and 1 <= int(start or 0) <= int(end or 0)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "task": _task,
        "scope": _text("scope", "scope", empty=True),
        "title": _text("title", "title", empty=False),
        "category": _one_of("category", tuple(Category)),
        "gate": _gate,
        "severity": _one_of("severity", _LEVELS),
        "confidence": _confidence,
        "evidence": _evidence,
        "reasoning": _reasoning,
        "reproduction": _reproduction,
        "recommendation": _text("recommendation", "fix", empty=False),
        "min_fix_scope": _scope_of_fix,
        "suggested_regression_tests": _tests,
        "x_severity": _finer_severity,
        "x_system_breaking": _breaking,
    }
)
