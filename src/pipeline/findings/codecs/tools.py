"""Which kind of defect a tool reports, where the tool does not use our words.

The same rule of the same tool always has the same category: a finding is recognised by it.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from pipeline.findings.model import Category
from pipeline.findings.scales import CATEGORY_OF, category_of

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
        **{str(category): category for category in Category},
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
def category(tool: str, rule: str = "", tags: tuple[str, ...] = ()) -> Category:
    """By the tags of a rule, then by the rule, then by the tool."""
    tagged = next((found for tag in tags if (found := _tagged(tag))), None)
    if tagged:
        return tagged
    if tool in ("ruff", "flake8"):
        return _of_code(rule)
    return _TOOLS.get(tool) or category_of(tool)


def name_of(tool: str) -> str:
    """A tool's name as a reviewer's: `Bandit` and `Semgrep OSS` are bandit and semgrep-oss."""
    return "-".join(tool.lower().split())


def _tagged(tag: str) -> Category | None:
    return next((_TAGS[word] for word in _WORD.findall(tag.lower()) if word in _TAGS), None)


def _of_code(rule: str) -> Category:
    match = _CODE.fullmatch(rule)
    if match is None or rule.startswith("E9"):
        return Category.BUG
    return _RUFF.get(match[1], Category.MAINTAINABILITY)
