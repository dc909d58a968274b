"""Findings for property tests: every value is one that the ledger could hold."""

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from pipeline.findings.fingerprints import QUOTE, finding_id, signature
from pipeline.findings.model import (
    Actor,
    AutofixClass,
    Category,
    Change,
    Confidence,
    Evidence,
    Finding,
    FindingState,
    Gate,
    Location,
    Owner,
    PassId,
    Severity,
    Suppression,
    What,
)
from pipeline.findings.scales import ANCHORS, confidence_from_anchor, confidence_from_fraction, confidence_from_word
from pipeline.language.model import Lens

TIMES = st.sampled_from(("2026-01-02T03:04:05Z", "2026-03-04T05:06:07Z", "2026-05-06T07:08:09Z"))
NAMES = st.sampled_from(("correctness", "security", "testing", "ruff", "bandit", "mypy", "qa"))
PASSES = st.sampled_from(("REV-1767322800-abc1234", "REV-1767409200-def5678"))
LETTERS = st.characters(codec="utf-8")


@cache
def texts(*, least: int = 0, most: int = 60) -> st.SearchStrategy[str]:
    """Any text: line ends, quotes, braces, control characters and all."""
    return st.text(LETTERS, min_size=least, max_size=most)


@cache
def titles() -> st.SearchStrategy[str]:
    """A title that says something."""
    return texts(least=1).filter(lambda text: bool(text.strip()))


@cache
def paths() -> st.SearchStrategy[str]:
    """A path below the root, in its shortest form."""
    odd = st.text(st.characters(codec="utf-8", exclude_characters="/\\\0", min_codepoint=32), min_size=1)
    name = st.sampled_from(("src", "api", "a b", "ünï", "main.py", "100%25.py", "c:d", "#x", "?y")) | odd
    return st.lists(name.filter(lambda part: part not in (".", "..")), min_size=1, max_size=4).map("/".join)


@cache
def lines() -> st.SearchStrategy[tuple[int | None, int | None]]:
    """A whole file, one line, or some."""
    some = st.tuples(st.integers(1, 5000), st.integers(0, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))
    one = st.integers(1, 5000).map(lambda line: (line, None))
    return st.just((None, None)) | one | some


@st.composite
def locations(draw: st.DrawFn) -> Location:
    """Where a defect is."""
    start, end = draw(lines())
    return Location(path=draw(paths()), start=start, end=end, symbol=draw(st.just("") | texts(least=1, most=20)))


@st.composite
def evidences(draw: st.DrawFn) -> Evidence:
    """Lines of a file, or a text that names none."""
    if draw(st.booleans()):
        return Evidence(raw=draw(titles()))
    start, end = draw(lines())
    quote = draw(texts(most=80)).strip()[:QUOTE]
    return Evidence(path=draw(paths()), start=start, end=end, symbol=draw(texts(most=10)), quote=quote)


@cache
def confidences() -> st.SearchStrategy[Confidence]:
    """A confidence as each kind of source gives it."""
    tool = st.integers(0, 100).map(lambda value: Confidence(value=value, scale="tool"))
    fraction = st.integers(50, 100).map(lambda hundredths: confidence_from_fraction(hundredths / 100))
    word = st.sampled_from(("high", "medium", "low")).map(confidence_from_word)
    return st.sampled_from(ANCHORS).map(confidence_from_anchor) | word | fraction | tool


def few(items: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    """None, one or some."""
    return st.lists(items, max_size=most).map(tuple)


@cache
def _said() -> st.SearchStrategy[dict[str, Any]]:
    """What a finding says."""
    maybe = st.none() | titles()
    return st.fixed_dictionaries(
        {
            "title": titles(),
            "category": st.sampled_from(Category),
            "evidence": few(evidences()),
            "locations": few(locations()),
            "severity": st.sampled_from(Severity),
            "confidence": confidences(),
            "plain_title": texts(most=30),
            "impact": texts(most=120),
            "fix": maybe,
            "reproduction": maybe,
            "min_fix_scope": maybe,
            "regression_tests": few(titles(), 2),
            "autofix_class": st.sampled_from(AutofixClass),
            "owner": st.sampled_from(Owner),
            "requires_verification": st.booleans(),
            "pre_existing": st.booleans(),
            "system_breaking": st.booleans(),
            "lens": st.sampled_from(Lens),
            "scope": texts(most=12),
        }
    )


_AT = "2026-01-02T03:04:05Z"
_RAISED = Change(at=_AT, what=What.RAISED, who="ruff", by=Actor.ORCHESTRATOR)
_CLAIM = Change(at=_AT, what=What.CLAIM, who="fix", by=Actor.FINISH_TASK, word="fixed", note="a guard")
_DECISION = Change(at=_AT, what=What.DECISION, who="user", by=Actor.USER, word="skip", note="later, perhaps")


@cache
def _kept() -> st.SearchStrategy[dict[str, Any]]:
    """What the ledger keeps with a finding."""
    return st.fixed_dictionaries(
        {
            "number": st.integers(0, 9999),
            "aliases": st.sampled_from(((), ("security-69bbc8bb-45-50",))),
            "fingerprints": st.dictionaries(st.sampled_from(("sig/v1", "text/v1")), texts(least=1, most=12)),
            "gate": st.sampled_from(Gate),
            "reviewer": NAMES,
            "tool": st.booleans(),
            "task": st.sampled_from(("", "TASK-7")),
            "pass_id": PASSES.map(PassId),
            "created_at": TIMES,
            "updated_at": TIMES,
            "may_be": st.sampled_from(((), ("fnd_0badcafe",))),
            "history": st.sampled_from(((), (_RAISED,), (_RAISED, _CLAIM), (_RAISED, _DECISION))),
        }
    )


@cache
def suppressions() -> st.SearchStrategy[Suppression]:
    """Why a finding is not shown."""
    return st.builds(Suppression, reason=texts(most=30), by=NAMES)


@st.composite
def _built(draw: st.DrawFn, states: st.SearchStrategy[FindingState]) -> Finding:
    said, state = draw(_said()), draw(states)
    signed = signature(said["category"], said["evidence"], said["title"])
    return Finding(
        id=finding_id(signed, ()),
        signature=signed,
        state=state,
        suppression=draw(st.none() | suppressions()) if state.dismissed else None,
        **said,
        **draw(_kept()),
    )


def findings(states: st.SearchStrategy[FindingState] | None = None) -> st.SearchStrategy[Finding]:
    """One finding, in any state or in one of those given."""
    return _built(st.sampled_from(FindingState) if states is None else states)


def ledgers(most: int = 3) -> st.SearchStrategy[list[Finding]]:
    """Some findings, each with an id and a number of its own."""

    def numbered(found: list[Finding]) -> list[Finding]:
        return [replace(finding, number=number) for number, finding in enumerate(found, 1)]

    return st.lists(findings(), max_size=most, unique_by=lambda finding: finding.id).map(numbered)


def plain(**told: Any) -> Finding:
    """A finding that gates, with what is given in place of what it usually says."""
    usual: dict[str, Any] = {
        "id": "fnd_1",
        "signature": "sha256:1",
        "title": "Totals are wrong",
        "category": Category.BUG,
        "severity": Severity.HIGH,
        "confidence": Confidence(value=100),
        "gate": Gate.MUST,
        "reviewer": "correctness",
        "locations": (Location(path="src/a.py", start=3, end=5),),
        "pass_id": "REV-1767322800-abc1234",
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
    }
    return Finding.model_validate(usual | told)
