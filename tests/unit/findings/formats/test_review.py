"""A reviewer's return is read to the letter: nothing is guessed, nothing is repaired, and nothing is lost silently."""

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from pydantic import ValidationError
from tests.unit.findings.strategies import ledgers

from pipeline.findings.formats import FORMATS, review
from pipeline.findings.formats.review import ReviewItem
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import AutofixClass, Evidence, Finding, RawFinding, ReportStatus, ReviewerReport, Severity

ITEM: dict[str, Any] = {
    "title": "Path traversal in loadUserFromCache",
    "severity": "P1",
    "file": "src/cache.py",
    "line": 36,
    "why_it_matters": "Anybody reads any file.",
    "autofix_class": "gated_auto",
    "owner": "downstream-resolver",
    "requires_verification": True,
    "suggested_fix": "Refuse names with a slash.",
    "confidence": 75,
    "evidence": ["src/cache.py:36 -- open(base + name)"],
    "pre_existing": False,
}
read = FORMATS["review"].read
COMPACT = {key: value for key, value in ITEM.items() if key not in ("why_it_matters", "evidence")}
SCHEMA = Draft7Validator(
    json.loads(resources.files("pipeline.findings.formats").joinpath("findings-schema.json").read_text())
)


def returned(*items: Any, **top: Any) -> dict[str, Any]:
    return {"reviewer": "security", "findings": list(items), "residual_risks": [], "testing_gaps": [], **top}


def decoded(document: Any, **options: str) -> ReviewerReport:
    return read(json.dumps(document).encode(), **options)


def written(*found: Finding) -> dict[str, Any]:
    return json.loads(FORMATS["review"].write(found, Ledger()))  # type: ignore[no-any-return]


def only(document: Any) -> RawFinding:
    (raw,) = decoded(document).findings
    return raw


def test_a_whole_item_is_a_raw_finding() -> None:
    """003-02, 003-04, 003-08, 003-09, C-14, C-16: every field of the full form has its place."""
    raw = only(returned(ITEM))
    assert (raw.input_id, raw.reviewer, raw.title) == ("security#1", "security", ITEM["title"])
    assert (raw.severity, raw.confidence.value, raw.category) == ("high", 75, "security")
    assert (raw.impact, raw.fix) == (ITEM["why_it_matters"], ITEM["suggested_fix"])
    assert (raw.autofix_class, raw.owner) == ("gated_auto", "downstream-resolver")
    assert (raw.requires_verification, raw.pre_existing) == (True, False)
    assert [(place.path, place.start, place.end) for place in raw.locations] == [("src/cache.py", 36, None)]


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ({"autofix_class": "safe_auto", "suggested_fix": None}, "apply"),
        ({"autofix_class": "gated_auto"}, "apply"),
        ({"autofix_class": "gated_auto", "suggested_fix": None}, "defer"),
        ({"autofix_class": "manual"}, "apply"),
        ({"autofix_class": "manual", "suggested_fix": "  "}, "defer"),
        ({"autofix_class": "manual", "owner": "release"}, "defer"),
        ({"autofix_class": "advisory", "owner": "release"}, "acknowledge"),
    ],
)
def test_the_action_follows_from_class_and_fix(said: dict[str, Any], action: str) -> None:
    """002-04, 002-17, 003-19: by class and fix; the format names no action, and no title for people either."""
    raw = only(returned({**ITEM, **said}))
    assert (raw.action, raw.plain_title) == (action, "")


def test_the_compact_form_is_a_review() -> None:
    """003-18: reason and evidence may be left out."""
    result = decoded(returned(COMPACT))
    assert result.status is ReportStatus.RETURNED
    assert (result.findings[0].impact, result.findings[0].evidence) == ("", ())


@pytest.mark.parametrize("key", ["reviewer", "findings", "residual_risks", "testing_gaps"])
def test_a_return_without_one_of_its_parts_is_malformed(key: str) -> None:
    """003-01: the whole return is dropped, with its reason."""
    document = returned(ITEM)
    del document[key]
    result = decoded(document, reviewer="asked")
    assert (result.status, result.findings, result.reviewer) == (ReportStatus.MALFORMED, (), "asked")
    assert f"`{key}`" in result.problem


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reviewer", 7),
        ("findings", {}),
        ("findings", "none"),
        ("residual_risks", "none"),
        ("residual_risks", [1]),
        ("testing_gaps", None),
    ],
)
def test_a_part_of_the_wrong_kind_makes_a_return_malformed(key: str, value: Any) -> None:
    """003-01: a part of the wrong type drops the whole return."""
    result = decoded(returned(**{key: value}))
    assert (result.status, result.reviewer) == (ReportStatus.MALFORMED, "review" if key == "reviewer" else "security")
    assert f"`{key}" in result.problem


@pytest.mark.parametrize(
    "data",
    [
        b'{"reviewer": "a", "reviewer": "b", "findings": [], "residual_risks": [], "testing_gaps": []}',
        b'{"reviewer": "a", "findings": [{"line": 1, "line": 2}], "residual_risks": [], "testing_gaps": []}',
        b'{"reviewer": "a", "findings": [], "residual_risks": [], "testing_gaps": [], "x": NaN}',
        b'{"reviewer": "a", "findings": [], "residual_risks": [], "testing_gaps": [], "x": 1e999}',
        b'{"reviewer": "a", "findings": [',
        b'{"reviewer": "\xff"}',
        b'{"x":' * 90 + b"1" + b"}" * 90,
        b"[" * 100_000,
        b"[]",
        b"",
    ],
)
def test_ambiguous_json_is_malformed(data: bytes) -> None:
    """003-01: duplicate keys, non-JSON numbers and truncated text are never repaired."""
    result = read(data, reviewer="a")
    assert (result.status, result.inputs) == (ReportStatus.MALFORMED, 0)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("title", "x" * 101),
        ("title", "   "),
        ("title", None),
        ("severity", "P4"),
        ("severity", "p1"),
        ("severity", 1),
        ("file", None),
        ("line", 0),
        ("line", True),
        ("line", "36"),
        ("line", 36.0),
        ("why_it_matters", None),
        ("autofix_class", "auto"),
        ("owner", "me"),
        ("requires_verification", None),
        ("requires_verification", 1),
        ("pre_existing", None),
        ("confidence", 0.73),
        ("confidence", 75.0),
        ("confidence", True),
        ("confidence", 74),
        ("confidence", "75"),
        ("evidence", "src/cache.py:36"),
        ("evidence", []),
        ("evidence", [1]),
        ("suggested_fix", 3),
    ],
)
def test_one_bad_item_is_unreadable_and_the_others_stay(key: str, value: Any) -> None:
    """003-03 to 003-12, 003-20: one bad field makes one item unreadable, and names the field."""
    result = decoded(returned(ITEM, {**ITEM, key: value}, ITEM))
    assert [raw.input_id for raw in result.findings] == ["security#1", "security#3"]
    (item,) = result.unreadable
    assert item.input_id == "security#2"
    assert f"`{key}" in item.reason


@pytest.mark.parametrize("key", sorted(set(COMPACT) - {"suggested_fix"}))
def test_an_item_without_a_required_field_is_unreadable(key: str) -> None:
    """003-02: all but the fix are required."""
    result = decoded(returned({name: value for name, value in ITEM.items() if name != key}))
    assert [item.reason for item in result.unreadable] == [f"`{key}` is missing"]


def test_every_item_is_read_or_unreadable() -> None:
    """003-20: an item that is not an object is counted too."""
    result = decoded(returned(ITEM, 7, None, [], {}))
    assert (result.inputs, len(result.findings)) == (5, 1)
    assert {item.input_id for item in result.unreadable} == {f"security#{number}" for number in (2, 3, 4, 5)}


def test_a_title_may_have_a_hundred_characters() -> None:
    """003-03: more than ten words are noted, but no fault."""
    assert only(returned({**ITEM, "title": "x" * 100})).notes == ()
    assert len(only(returned({**ITEM, "title": "a b c d e f g h i j k"})).notes) == 1


def test_an_empty_list_is_an_answer() -> None:
    """It differs from no answer."""
    assert decoded(returned()).status is ReportStatus.EMPTY


def test_the_requested_name_is_the_reviewer() -> None:
    """The name that a review gives itself does not matter if it is known who was asked."""
    result = decoded(returned(ITEM), reviewer="security-2")
    assert (result.reviewer, result.findings[0].input_id) == ("security-2", "security-2#1")


def test_unknown_keys_are_kept() -> None:
    """003-14: unknown keys of an item are kept; those of the return are ignored."""
    result = decoded(returned({**ITEM, "cwe": "CWE-22"}, model="m1"))
    assert result.findings[0].ext == {"review": {"cwe": "CWE-22"}}


def test_a_lone_surrogate_does_not_lose_the_review() -> None:
    """It is replaced."""
    raw = only(json.loads('{"a":0}') | returned({**ITEM, "title": "half \ud83d of it", "tags": ["\udc00"]}))
    assert (raw.title, raw.ext["review"]["tags"]) == ("half \ufffd of it", ["\ufffd"])


def test_a_path_that_begins_at_the_root_is_made_relative() -> None:
    """003-05: paths are relative to the root of the repository; others are left for the intake to judge."""
    item = {**ITEM, "file": "/repo/src/a.py", "evidence": ["/repo/src/a.py:3 -- x = compute(y)"]}
    (raw,) = decoded(returned(item), root="/repo").findings
    assert (raw.locations[0].path, raw.evidence[0].path) == ("src/a.py", "src/a.py")
    (raw,) = decoded(returned({**ITEM, "file": "/repository/a.py"}), root="/repo").findings
    assert raw.locations[0].path == "/repository/a.py"


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        ("src/a.py:36 -- open(x)", Evidence(path="src/a.py", start=36, quote="open(x)")),
        ("src/a.py:36-38 — open(x)", Evidence(path="src/a.py", start=36, end=38, quote="open(x)")),
        ("`src/a.py:36` -- `open(x)`", Evidence(path="src/a.py", start=36, quote="open(x)")),
        ("src/a.py:36", Evidence(path="src/a.py", start=36)),
        ("src/a.py:3 -- a\nb", Evidence(path="src/a.py", start=3, quote="a\nb")),
        ("src/a.py:3 -- " + "y" * 300, Evidence(path="src/a.py", start=3, quote="y" * 240)),
        ("the loop never ends", Evidence()),
        ("Risk: 5 -- high", Evidence()),
        ("src/a.py:0 -- x", Evidence()),
        ("src/a.py:9-3 -- x", Evidence()),
    ],
)
def test_evidence_that_names_lines_is_parsed_and_kept_as_it_was(raw: str, parsed: Evidence) -> None:
    """C-12: `path:line -- code` is parsed; whatever it is, the text itself is kept."""
    assert review.parse_evidence(raw) == replace(parsed, raw=raw)


def test_advisory_items_of_the_lowest_level_are_information() -> None:
    """C-07: the lowest level with the class `advisory` is for information, unless it says otherwise."""
    advisory = {**ITEM, "severity": "P3", "autofix_class": "advisory"}
    assert only(returned(advisory)).severity is Severity.INFO
    assert only(returned({**advisory, "x_severity": "low"})).severity is Severity.LOW
    assert only(returned({**ITEM, "severity": "P3"})).severity is Severity.LOW
    assert only(returned({**ITEM, "severity": "P1", "x_severity": "info"})).severity is Severity.HIGH


@given(ledgers(3))
@settings(max_examples=40, deadline=None)
def test_every_finding_round_trips_as_a_valid_artifact(found: list[Finding]) -> None:
    """003-18, C-12, C-13: any finding can be told in this format, and comes back as it was."""
    document = written(*found)
    SCHEMA.validate(document)
    result = decoded(document)
    assert (result.reviewer, result.unreadable) == ("awf", ())
    for finding, raw in zip(found, result.findings, strict=True):
        for name in ("title", "severity", "impact", "fix", "autofix_class", "owner", "pre_existing"):
            assert getattr(raw, name) == getattr(finding, name), name
        assert raw.system_breaking == finding.system_breaking
        assert [item.raw for item in raw.evidence] == [review.format_evidence(item) for item in finding.evidence]


def test_a_long_title_is_truncated_and_round_trips() -> None:
    """C-13: the view has its limit; the finding keeps its title."""
    finding = whole_finding(title="y" * 130)
    (item,) = written(finding)["findings"]
    assert item["title"] == "y" * 99 + "…"
    assert only(returned(item)).title == "y" * 130


def test_unknown_keys_of_an_item_round_trip() -> None:
    """003-14: what came with a finding in this format goes out with it."""
    finding = whole_finding(ext={"review": {"cwe": "CWE-22"}, "sarif": {"rule": "x"}})
    (item,) = written(finding)["findings"]
    assert item["cwe"] == "CWE-22"
    assert "rule" not in item


def whole_finding(**fields: Any) -> Finding:
    known: dict[str, Any] = {
        "id": "fnd_0badcafe",
        "signature": "sha256:0badcafe",
        "title": "t",
        "category": "bug",
        "severity": "high",
        "confidence": {"value": 75},
        "autofix_class": AutofixClass.MANUAL,
        "pass_id": "REV-1-abc",
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
    }
    return Finding.model_validate(known | fields)


GOOD = json.dumps(returned(ITEM))


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Here it is:\n```json\n{GOOD}\n```\nThat is all. {{not json}}",
        f"{{ a stray brace, {{}} and {GOOD} after it",
        f'First {json.dumps(returned())}, then {GOOD}, and {{"another": "object"}}',
        f'In Python: {{"a": f(x)}} and then {GOOD}',
    ],
)
def test_the_review_is_found_in_an_agents_response(text: str) -> None:
    """003-01: fenced or bare, every object with `findings` is a return."""
    assert review.find_reviews(text)[-1] == GOOD


@given(st.integers(len('{"reviewer": '), len(GOOD) - 1), st.sampled_from(("", "\n```", "\n\n")))
@settings(max_examples=60, deadline=None)
def test_a_return_that_was_cut_off_is_found_and_malformed(end: int, after: str) -> None:
    """003-01: wherever it was cut, it is found, and it is never repaired into fewer findings."""
    (found,) = review.find_reviews(f"Done.\n```json\n{GOOD[:end]}{after}")
    assert read(found.encode()).status is ReportStatus.MALFORMED


def test_a_truncated_review_after_a_complete_one_is_the_last() -> None:
    """The complete one before it is not used instead."""
    *_, found = review.find_reviews(f"{json.dumps(returned())} and now {GOOD[:-9]}")
    assert read(found.encode()).status is ReportStatus.MALFORMED


def test_a_return_in_a_wrapper_or_without_a_reviewer_is_found() -> None:
    """What holds findings is never taken for mere words."""
    assert len(review.find_reviews('{"review": {"findings": []}} and {"findings": [{"title": "x"}]}')) == 2


@pytest.mark.parametrize("text", ["", "no findings", "{", '{"reviewer" is missing', '{"findings"', '{"a": {"b": 1}}'])
def test_a_text_without_a_review_has_none(text: str) -> None:
    """Plain words stay plain words."""
    assert review.find_reviews(text) == []


@pytest.mark.parametrize("item", [ITEM, {**ITEM, "suggested_fix": None}])
def test_the_shipped_schema_allows_what_we_allow(item: dict[str, Any]) -> None:
    """003-01 to 003-14: the models follow the schema that is shipped with the package."""
    SCHEMA.validate(returned(item))
    ReviewItem.model_validate(item)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_whatever_the_shipped_schema_refuses_is_refused(data: st.DataObject) -> None:
    """003-02 to 003-12: whatever one field is changed to, we are as strict as the schema, or stricter."""
    odd: st.SearchStrategy[Any] = (
        st.none() | st.booleans() | st.integers(-1, 101) | st.floats(0, 100) | st.text(max_size=3) | st.just([])
    )
    item = {**ITEM, data.draw(st.sampled_from(sorted(ITEM))): data.draw(odd)}
    if not SCHEMA.is_valid(returned(item)):
        with pytest.raises(ValidationError):
            ReviewItem.model_validate(item)
