"""The scales of the formats, one table each. What a coarse scale cannot say is kept beside it, never guessed."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from pipeline.findings.model import AutofixClass, Category, Confidence, FindingState, Owner, Severity

P_LEVEL: Mapping[Severity, str] = MappingProxyType(
    {
        Severity.CRITICAL: "P0",
        Severity.HIGH: "P1",
        Severity.MEDIUM: "P2",
        Severity.LOW: "P3",
        Severity.INFO: "P3",
    }
)
VERDICT_SEVERITY: Mapping[Severity, str] = MappingProxyType(
    {
        Severity.CRITICAL: "Blocker",
        Severity.HIGH: "High",
        Severity.MEDIUM: "Medium",
        Severity.LOW: "Low",
        Severity.INFO: "Info",
    }
)
RECORD_SEVERITY: Mapping[Severity, str] = MappingProxyType(
    {severity: ("low" if severity is Severity.INFO else str(severity)) for severity in Severity}
)
SARIF_LEVEL: Mapping[Severity, str] = MappingProxyType(
    {
        Severity.CRITICAL: "error",
        Severity.HIGH: "error",
        Severity.MEDIUM: "warning",
        Severity.LOW: "note",
        Severity.INFO: "note",
    }
)
SECURITY_SEVERITY: Mapping[Severity, str] = MappingProxyType(
    {
        Severity.CRITICAL: "9.5",
        Severity.HIGH: "8.0",
        Severity.MEDIUM: "5.5",
        Severity.LOW: "2.0",
        Severity.INFO: "0.1",
    }
)
RDJSON_SEVERITY: Mapping[Severity, str] = MappingProxyType(
    {
        Severity.CRITICAL: "ERROR",
        Severity.HIGH: "ERROR",
        Severity.MEDIUM: "WARNING",
        Severity.LOW: "INFO",
        Severity.INFO: "INFO",
    }
)
VERDICT_STATUS: Mapping[FindingState, str] = MappingProxyType(
    {
        FindingState.OPEN: "open",
        FindingState.REOPENED: "reopened",
        FindingState.FIX_CLAIMED: "fixed",
        FindingState.VERIFIED_FIXED: "verified",
        FindingState.FALSE_POSITIVE: "wont_fix",
        FindingState.WONT_FIX: "wont_fix",
        FindingState.UNCERTAIN: "open",
    }
)
RECORD_STATUS: Mapping[FindingState, str] = MappingProxyType(
    {
        FindingState.OPEN: "open",
        FindingState.REOPENED: "open",
        FindingState.FIX_CLAIMED: "uncertain",
        FindingState.VERIFIED_FIXED: "fixed",
        FindingState.FALSE_POSITIVE: "false-positive",
        FindingState.WONT_FIX: "wont-fix",
        FindingState.UNCERTAIN: "uncertain",
    }
)
ANCHORS = (0, 25, 50, 75, 100)
_WORDS = {"high": 75, "medium": 50, "low": 25}
_FRACTIONS = {100: 1.0, 75: 0.75, 50: 0.6, 25: 0.5}
_BANDS = ((0.9, 100), (0.75, 75), (0.6, 50), (0.5, 25))

CATEGORY_OF: Mapping[str, Category] = MappingProxyType(
    {
        "correctness": Category.BUG,
        "adversarial": Category.BUG,
        "reliability": Category.BUG,
        "security": Category.SECURITY,
        "performance": Category.PERFORMANCE,
        "api-contract": Category.API_CONTRACT,
        "api-patterns": Category.API_CONTRACT,
        "data-migrations": Category.DATA_LOSS,
        "testing": Category.TEST_GAP,
        "qa": Category.TEST_GAP,
        "docs": Category.DOCS_GAP,
        "maintainability": Category.MAINTAINABILITY,
        "project-standards": Category.MAINTAINABILITY,
        "simplify": Category.MAINTAINABILITY,
        "ci": Category.BUILD_RELEASE,
        "deployment": Category.BUILD_RELEASE,
        "pm": Category.PRODUCT,
        "plan": Category.REQUIREMENT,
        "races": Category.CONCURRENCY,
        "julik-races": Category.CONCURRENCY,
    }
)
CATEGORY_LABEL: Mapping[Category, str] = MappingProxyType(
    {
        Category.BUG: "Bug",
        Category.SECURITY: "Security",
        Category.PERFORMANCE: "Performance",
        Category.CONCURRENCY: "Concurrency",
        Category.API_CONTRACT: "Design / API",
        Category.DATA_LOSS: "Data loss",
        Category.TEST_GAP: "Coverage",
        Category.DOCS_GAP: "Doc",
        Category.BUILD_RELEASE: "Build / release",
        Category.MAINTAINABILITY: "Maintainability / Style",
        Category.PRODUCT: "Product",
        Category.REQUIREMENT: "Requirement",
    }
)


def confidence_from_anchor(anchor: int) -> Confidence:
    """A reviewer's anchor."""
    return Confidence(value=anchor, scale="anchor", native=anchor)


def confidence_from_word(word: str) -> Confidence:
    """A word."""
    return Confidence(value=_WORDS[word], scale="word", native=word)


def confidence_from_fraction(fraction: float) -> Confidence:
    """A number from 0.50 to 1.00; one below is as good as none."""
    value = next((anchor for least, anchor in _BANDS if fraction >= least), 0)
    return Confidence(value=value, scale="fraction", native=fraction)


def confidence_to_anchor(confidence: Confidence) -> int:
    """The anchor at or below a confidence."""
    return ANCHORS[bisect_right(ANCHORS, confidence.value) - 1]


def confidence_to_word(confidence: Confidence) -> str:
    """A confidence as a word; the one its source used, if it did."""
    if confidence.scale == "word" and isinstance(confidence.native, str):
        return confidence.native
    return {100: "high", 75: "high", 50: "medium"}.get(confidence_to_anchor(confidence), "low")


def confidence_to_fraction(confidence: Confidence) -> float:
    """A confidence from 0.50 to 1.00; the number its source gave, if it did."""
    if confidence.scale == "fraction" and isinstance(confidence.native, float):
        return confidence.native
    return _FRACTIONS.get(confidence_to_anchor(confidence), 0.5)


def default_category(source: str) -> Category:
    """The category of what a reviewer, a domain or a stage finds, where it does not say."""
    name = source.lower()
    if name in CATEGORY_OF:
        return CATEGORY_OF[name]
    if name in set(Category):
        return Category(name)
    return next((category for word, category in CATEGORY_OF.items() if word in name.split("-")), Category.BUG)


def default_autofix(fix: str | None, severity: Severity) -> tuple[AutofixClass, Owner]:
    """Class and owner where a source gives none. A safe fix is never assumed."""
    if severity is Severity.INFO:
        return AutofixClass.ADVISORY, Owner.HUMAN
    if fix and severity.rank >= Severity.MEDIUM.rank:
        return AutofixClass.GATED_AUTO, Owner.DOWNSTREAM_RESOLVER
    return AutofixClass.MANUAL, Owner.HUMAN


_TOOLS: Mapping[str, Category] = MappingProxyType(
    dict.fromkeys(
        ("bandit", "brakeman", "checkov", "gitleaks", "gosec", "njsscan", "snyk", "tfsec", "trivy", "trufflehog"),
        Category.SECURITY,
    )
    | dict.fromkeys(("junit", "mypy", "pyright", "pytest", "tsc"), Category.BUG)
)
_TAGS: Mapping[str, Category] = MappingProxyType(
    {
        **CATEGORY_OF,
        **{str(category_of_rule): category_of_rule for category_of_rule in Category},
        "cwe": Category.SECURITY,
        "vulnerability": Category.SECURITY,
        "concurrency": Category.CONCURRENCY,
        "documentation": Category.DOCS_GAP,
        "readability": Category.MAINTAINABILITY,
        "style": Category.MAINTAINABILITY,
    }
)
_RUFF: Mapping[str, Category] = MappingProxyType(
    {
        "S": Category.SECURITY,
        "F": Category.BUG,
        "B": Category.BUG,
        "PLE": Category.BUG,
        "D": Category.DOCS_GAP,
        "DOC": Category.DOCS_GAP,
        "PERF": Category.PERFORMANCE,
        "ASYNC": Category.CONCURRENCY,
    }
)
_CODE = re.compile(r"([A-Z]+)\d+")
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


@lru_cache(maxsize=4096)
def category_of_rule(tool: str, rule: str = "", tags: tuple[str, ...] = ()) -> Category:
    """By the tags of a rule, then by the rule, then by the tool."""
    tagged = next((found for tag in tags if (found := _tagged(tag))), None)
    if tagged:
        return tagged
    if tool in ("ruff", "flake8"):
        return _of_code(rule)
    return _TOOLS.get(tool) or default_category(tool)


def reviewer_name(tool: str) -> str:
    """A tool's name as a reviewer's: `Bandit` and `Semgrep OSS` are bandit and semgrep-oss."""
    return "-".join(tool.lower().split())


def _tagged(tag: str) -> Category | None:
    return next((_TAGS[word] for word in _WORD.findall(tag.lower()) if word in _TAGS), None)


def _of_code(rule: str) -> Category:
    match = _CODE.fullmatch(rule)
    if match is None or rule.startswith("E9"):
        return Category.BUG
    return _RUFF.get(match[1], Category.MAINTAINABILITY)
