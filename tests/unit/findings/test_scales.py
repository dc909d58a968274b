"""The tables between scales: each way is a table of its own, and no value is lost on a way there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.findings import scales
from pipeline.findings.model import AutofixClass, Category, Confidence, FindingState, Owner, Severity
from pipeline.findings.scales import (
    confidence_from_anchor,
    confidence_from_fraction,
    confidence_from_word,
    confidence_to_anchor,
    confidence_to_fraction,
    confidence_to_word,
    default_autofix,
    default_category,
)

SEVERITIES = [
    ("critical", "P0", "Blocker", "critical", "error", "ERROR"),
    ("high", "P1", "High", "high", "error", "ERROR"),
    ("medium", "P2", "Medium", "medium", "warning", "WARNING"),
    ("low", "P3", "Low", "low", "note", "INFO"),
    ("info", "P3", "Info", "low", "note", "INFO"),
]
STATES = [
    ("open", "open", "open"),
    ("reopened", "open", "reopened"),
    ("fix_claimed", "uncertain", "fixed"),
    ("verified_fixed", "fixed", "verified"),
    ("false_positive", "false-positive", "wont_fix"),
    ("wont_fix", "wont-fix", "wont_fix"),
    ("uncertain", "uncertain", "open"),
]
BANDS = {100: (0.9, 1.0), 75: (0.75, 0.89), 50: (0.6, 0.74), 25: (0.5, 0.59), 0: (0.0, 0.49)}


@pytest.mark.parametrize("row", SEVERITIES, ids=lambda row: row[0])
def test_a_severity_has_its_word_in_every_format(row: tuple[str, ...]) -> None:
    """C-07: the table of severities, one row at a time."""
    severity = Severity(row[0])
    tables = (scales.P_LEVEL, scales.VERDICT_SEVERITY, scales.RECORD_SEVERITY, scales.SARIF_LEVEL)
    assert tuple(table[severity] for table in (*tables, scales.RDJSON_SEVERITY)) == row[1:]


def test_the_number_of_a_severity_lies_in_the_range_of_its_word() -> None:
    """3.2: 9.0 and more is critical, 7.0 to 8.9 high, 4.0 to 6.9 medium, 0.1 to 3.9 low."""
    least = {Severity.CRITICAL: 9.0, Severity.HIGH: 7.0, Severity.MEDIUM: 4.0, Severity.LOW: 0.1, Severity.INFO: 0.1}
    most = {Severity.CRITICAL: 10.0, Severity.HIGH: 8.9, Severity.MEDIUM: 6.9, Severity.LOW: 3.9, Severity.INFO: 3.9}
    assert all(least[one] <= float(scales.SECURITY_SEVERITY[one]) <= most[one] for one in Severity)


def test_severities_are_ranked_from_the_worst() -> None:
    """3.2: critical comes first and info last."""
    assert [severity.rank for severity in Severity] == [0, 1, 2, 3, 4]
    assert sorted(Severity, key=lambda one: one.rank) == [Severity(row[0]) for row in SEVERITIES]


@pytest.mark.parametrize("row", STATES, ids=lambda row: row[0])
def test_a_state_has_its_word_in_the_record_and_in_the_verdict_file(row: tuple[str, str, str]) -> None:
    """C-01, C-02, C-03: the table of states; a claimed fix is `uncertain` in the one and `fixed` in the other."""
    state = FindingState(row[0])
    assert (scales.RECORD_STATUS[state], scales.VERDICT_STATUS[state]) == row[1:]


def test_every_table_has_every_value() -> None:
    """3.2: no severity, state or category is without a word."""
    by_severity = (scales.P_LEVEL, scales.VERDICT_SEVERITY, scales.RECORD_SEVERITY, scales.SARIF_LEVEL)
    assert all(
        set(table) == set(Severity) for table in (*by_severity, scales.SECURITY_SEVERITY, scales.RDJSON_SEVERITY)
    )
    assert set(scales.VERDICT_STATUS) == set(scales.RECORD_STATUS) == set(FindingState)
    assert set(scales.CATEGORY_LABEL) == set(Category)


def test_active_and_dismissed_states() -> None:
    """C-03: an uncertain finding counts, on the safe side; a claimed fix and a dismissed one do not."""
    assert [state for state in FindingState if state.active] == [
        FindingState.OPEN,
        FindingState.REOPENED,
        FindingState.UNCERTAIN,
    ]
    assert [state for state in FindingState if state.dismissed] == [FindingState.FALSE_POSITIVE, FindingState.WONT_FIX]


@pytest.mark.parametrize(
    ("anchor", "word", "fraction"),
    [(100, "high", 1.0), (75, "high", 0.75), (50, "medium", 0.6), (25, "low", 0.5), (0, "low", 0.5)],
)
def test_an_anchor_as_a_word_and_as_a_fraction(anchor: int, word: str, fraction: float) -> None:
    """C-08: the table of confidences; both lowest anchors are `low`, and no fraction is below a half."""
    confidence = confidence_from_anchor(anchor)
    assert (confidence_to_word(confidence), confidence_to_fraction(confidence)) == (word, fraction)
    assert confidence_to_anchor(confidence) == anchor


@pytest.mark.parametrize(("word", "value"), [("high", 75), ("medium", 50), ("low", 25)])
def test_a_word_round_trips(word: str, value: int) -> None:
    """C-08: words in are 75, 50 and 25."""
    assert (confidence_from_word(word).value, confidence_to_word(confidence_from_word(word))) == (value, word)


@pytest.mark.parametrize(("anchor", "band"), BANDS.items())
def test_a_fraction_has_the_anchor_of_its_band(anchor: int, band: tuple[float, float]) -> None:
    """001-19: both ends of each band."""
    assert [confidence_from_fraction(end).value for end in band] == [anchor, anchor]


@given(st.floats(0.5, 1.0))
def test_a_fraction_round_trips(fraction: float) -> None:
    """C-08: a native 0.83 is written as 0.83."""
    assert confidence_to_fraction(confidence_from_fraction(fraction)) == fraction


@given(st.integers(0, 100))
def test_any_confidence_has_the_anchor_at_or_below_it(value: int) -> None:
    """C-08: no confidence is rounded up."""
    anchor = confidence_to_anchor(Confidence(value=value))
    assert anchor in scales.ANCHORS
    assert anchor <= value < anchor + 25 or value == anchor == 100


@pytest.mark.parametrize(
    ("source", "category"),
    [
        ("correctness", Category.BUG),
        ("adversarial", Category.BUG),
        ("security", Category.SECURITY),
        ("api-patterns", Category.API_CONTRACT),
        ("data-migrations", Category.DATA_LOSS),
        ("testing", Category.TEST_GAP),
        ("julik-races", Category.CONCURRENCY),
        ("pm", Category.PRODUCT),
        ("plan", Category.REQUIREMENT),
        ("build-release", Category.BUILD_RELEASE),
        ("Security", Category.SECURITY),
        ("our-performance-check", Category.PERFORMANCE),
        ("somebody", Category.BUG),
    ],
)
def test_the_reviewer_gives_the_default_category(source: str, category: Category) -> None:
    """C-17: by the table, by a category's own name, or by a part of the name; otherwise a bug."""
    assert default_category(source) is category


@pytest.mark.parametrize(
    ("fix", "severity", "expected"),
    [
        ("do it", Severity.MEDIUM, (AutofixClass.GATED_AUTO, Owner.DOWNSTREAM_RESOLVER)),
        ("do it", Severity.LOW, (AutofixClass.GATED_AUTO, Owner.DOWNSTREAM_RESOLVER)),
        ("do it", Severity.HIGH, (AutofixClass.MANUAL, Owner.DOWNSTREAM_RESOLVER)),
        (None, Severity.LOW, (AutofixClass.MANUAL, Owner.DOWNSTREAM_RESOLVER)),
        ("do it", Severity.INFO, (AutofixClass.ADVISORY, Owner.HUMAN)),
    ],
)
def test_the_default_autofix_class_and_owner(
    fix: str | None, severity: Severity, expected: tuple[AutofixClass, Owner]
) -> None:
    """3.2: a fix of at most medium severity is gated, information is advisory, and nothing is assumed to be safe."""
    assert default_autofix(fix, severity) == expected
