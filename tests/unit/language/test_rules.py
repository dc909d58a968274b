"""Every rule has a page whose examples do what it says."""

import re
from pathlib import Path

import pytest
from tests.unit.language.examples import codes, whole

from pipeline.app.check import every_rule
from pipeline.language import diagnostics
from pipeline.language.diagnostics import Rule, RuleSeverity

RULES = every_rule()
# The examples of these are files, not the text of a workflow.
ABOUT_FILES = {"AWF001", "AWF003"}
_SECTION = re.compile(r"^## (?P<title>.+)\n(?P<body>(?:.*\n?)*?)(?=^## |\Z)", re.MULTILINE)
_FENCE = re.compile(r"```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)


def sections(rule: Rule) -> dict[str, str]:
    return {found["title"]: found["body"].strip() for found in _SECTION.finditer(rule.page)}


def example(rule: Rule, title: str) -> str:
    found = _FENCE.search(sections(rule)[title])
    assert found is not None
    return whole(found["text"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_page_has_all_parts(rule: Rule) -> None:
    """A summary in one sentence, why it is bad, an example, and what to use instead."""
    assert rule.summary.endswith(".")
    assert list(sections(rule)) == ["Why is this bad?", "Example", "Use instead"]
    assert all(sections(rule).values())


def test_every_page_belongs_to_a_rule() -> None:
    """The heading of each page is the rule's code, name and severity."""
    pages = Path(diagnostics.__file__).parent / "rules"
    headings = {page.stem: page.read_text().partition("\n")[0] for page in pages.glob("*.md")}
    assert headings == {rule.code: f"# {rule.code} {rule.name} ({rule.severity})" for rule in RULES}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.code not in ABOUT_FILES], ids=lambda rule: rule.code)
def test_the_examples_do_what_the_page_says(rule: Rule) -> None:
    """The example breaks the rule, the corrected one breaks none."""
    assert rule.code in codes(example(rule, "Example"))
    assert codes(example(rule, "Use instead")) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_code_shows_the_severity(rule: Rule) -> None:
    """Errors are numbered from AWF001, warnings from AWF101."""
    assert (int(rule.code[3:]) > 100) is (rule.severity is RuleSeverity.WARNING)


def test_codes_and_names_are_unique() -> None:
    """No two rules share a code or a name, and the numbers have no gap."""
    assert len({rule.name for rule in RULES}) == len(RULES)
    numbers = [int(rule.code[3:]) for rule in RULES]
    errors = [number for number in numbers if number < 100]
    warnings = [number for number in numbers if number > 100]
    assert errors == list(range(1, len(errors) + 1))
    assert warnings == list(range(101, 101 + len(warnings)))
