"""A review is read leniently: what was guessed is noted, what was cut off is never completed, and nothing is lost."""

import json
from dataclasses import replace
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from tests.unit.findings.drafts import readable, unreadable
from tests.unit.findings.strategies import ledgers

from pipeline.findings.formats import FORMATS, review
from pipeline.findings.formats.review_item import parse_evidence
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import AutofixClass, Draft, Evidence, Finding, Report, ReportStatus, Said, Severity

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


def decoded(document: Any, **options: str) -> Report:
    return read(json.dumps(document).encode(), **options)


def written(*found: Finding) -> dict[str, Any]:
    return json.loads(FORMATS["review"].write(found, Ledger()))  # type: ignore[no-any-return]


def only(document: Any) -> Draft:
    (draft,) = readable(decoded(document))
    return draft


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
        ({"autofix_class": "gated_auto", "suggested_fix": None}, ""),
        ({"autofix_class": "manual"}, "apply"),
        ({"autofix_class": "manual", "suggested_fix": "  "}, ""),
        ({"autofix_class": "manual", "owner": "human"}, "defer"),
        ({"autofix_class": "manual", "owner": "release"}, "defer"),
        ({"autofix_class": "advisory", "owner": "release"}, "acknowledge"),
    ],
)
def test_the_action_follows_from_class_and_fix(said: dict[str, Any], action: str) -> None:
    """0-41, 003-19: apply what has a fix, defer what a person or a release owns; a missing fix is not a vote."""
    raw = only(returned({**ITEM, **said}))
    assert (raw.action, raw.plain_title) == (action, "")


def test_the_compact_form_is_a_review() -> None:
    """003-18: reason and evidence may be left out."""
    result = decoded(returned(COMPACT))
    assert result.status is ReportStatus.RETURNED
    assert (readable(result)[0].impact, readable(result)[0].evidence) == ("", ())


@pytest.mark.parametrize("key", ["reviewer", "residual_risks", "testing_gaps"])
def test_a_return_may_leave_out_all_but_its_findings(key: str) -> None:
    """003-01: the reviewer is known from the stage, and missing lists are empty."""
    document = returned(ITEM)
    del document[key]
    result = decoded(document, reviewer="asked")
    assert (result.status, len(result.drafts), result.reviewer) == (ReportStatus.RETURNED, 1, "asked")


@pytest.mark.parametrize("value", [{}, "none", None, 7])
def test_findings_that_are_not_a_list_make_a_return_malformed(value: Any) -> None:
    """003-01: nobody knows what was found."""
    result = decoded(returned(findings=value))
    assert (result.status, result.reviewer) == (ReportStatus.MALFORMED, "security")


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
        b"",
        b"Looks good to me.",
    ],
)
def test_ambiguous_json_is_malformed(data: bytes) -> None:
    """003-01: duplicate keys, non-JSON numbers and truncated text are never repaired; silence is not a review."""
    result = read(data, reviewer="a")
    assert (result.status, len(result.drafts)) == (ReportStatus.MALFORMED, 0)


@pytest.mark.parametrize(
    ("key", "value", "field", "read_as"),
    [
        ("title", "x" * 101, "title", "x" * 101),
        *(("severity", word, "severity", "critical") for word in ("P0", "critical", "Blocker", "p0")),
        *(("severity", word, "severity", "critical") for word in ("CVSS 9.8", "Sev-0", "kritisch", "严重", "P0/P1")),
        *(("severity", word, "severity", "high") for word in ("High", "major", "P4", None, 1)),
        *(("severity", word, "severity_text", word) for word in ("P4", "sehr wichtig")),
        ("severity", "P1", "severity_text", ""),
        *(("severity", word, "severity", "medium") for word in ("medium", "MODERATE")),
        *(("severity", word, "severity", "low") for word in ("minor", "low")),
        ("severity", "info", "severity", "info"),
        *(("line", given, "place", ("src/cache.py", 36, None)) for given in ("36", 36.0, "L36", "line 36")),
        *(("line", given, "place", ("src/cache.py", 36, 38)) for given in ("36-38", [36, 38], "36–38")),
        *(("line", given, "place", ("src/cache.py", None, None)) for given in (0, None, "somewhere", True)),
        ("file", "src/cache.py:40", "place", ("src/cache.py", 36, None)),
        *(
            ("confidence", given, "sure", 75)
            for given in (0.9, "high", 80, 75.0, "75", "80%", "8/10", None, True, "sure")
        ),
        *(("confidence", given, "sure", 50) for given in (0.5, "medium", 74, "0.74")),
        *(("confidence", given, "sure", 100) for given in (1.0, 100, "certain")),
        ("autofix_class", "auto", "autofix_class", "manual"),
        ("owner", "me", "owner", "downstream-resolver"),
        ("requires_verification", "true", "requires_verification", True),
        ("pre_existing", "no", "pre_existing", False),
        ("pre_existing", None, "pre_existing", False),
        ("evidence", "src/cache.py:36", "quoted", [("src/cache.py", 36)]),
        ("evidence", [{"file": "a.py", "line": 3, "code": "x()"}], "quoted", [("a.py", 3)]),
        ("evidence", [], "quoted", []),
        ("suggested_fix", None, "fix", None),
        ("why_it_matters", None, "impact", ""),
        ("category", "Design / API", "category", "api-contract"),
        ("category", "unheard of", "category", "security"),
        ("recommendation", "skip", "action", "skip"),
        ("system_breaking", True, "system_breaking", True),
        ("why_it_works", "Names have no slash.", "why_it_works", "Names have no slash."),
    ],
)
def test_a_field_is_read_as_the_reviewer_meant_it(key: str, value: Any, field: str, read_as: Any) -> None:
    """0-11: other scales, other types and missing fields are understood."""
    raw = only(returned({**ITEM, key: value}))
    (place,) = raw.locations
    shown = {
        "place": (place.path, place.start, place.end),
        "sure": raw.confidence.value,
        "quoted": [(one.path, one.start) for one in raw.evidence],
    }
    assert shown.get(field, getattr(raw, field, None)) == read_as


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("severity", "critical"),
        ("severity", None),
        ("confidence", 0.9),
        ("confidence", None),
        ("autofix_class", None),
        ("owner", "me"),
        ("requires_verification", "true"),
        ("line", "somewhere"),
        ("file", "src/cache.py:40"),
    ],
)
def test_what_was_changed_is_noted(key: str, value: Any) -> None:
    """0-11: every reading that is not to the letter leaves a note on the finding."""
    assert only(returned(ITEM)).notes == ()
    assert only(returned({**ITEM, key: value})).notes


@pytest.mark.parametrize(
    "item", [{}, {"title": " "}, {"title": "Only a title", "severity": "P1"}, {"severity": "P0", "file": "a.py"}]
)
def test_an_item_that_says_too_little_is_unreadable(item: dict[str, Any]) -> None:
    """0-11: the minimum is a title and a place or a reason; the others of the return stay."""
    result = decoded(returned(ITEM, item, ITEM))
    assert [raw.input_id for raw in readable(result)] == ["security#1", "security#3"]
    assert [lost.input_id for lost in unreadable(result)] == ["security#2"]


def test_every_item_is_read_or_unreadable() -> None:
    """003-20: an item that is not an object is counted too."""
    result = decoded(returned(ITEM, 7, None, [], {}))
    assert (len(result.drafts), len(readable(result))) == (5, 1)
    assert {item.input_id for item in unreadable(result)} == {f"security#{number}" for number in (2, 3, 4, 5)}


def test_a_title_may_have_a_hundred_characters() -> None:
    """003-03: more than ten words are noted, but no fault."""
    assert only(returned({**ITEM, "title": "x" * 100})).notes == ()
    assert len(only(returned({**ITEM, "title": "a b c d e f g h i j k"})).notes) == 1


def test_the_requested_name_is_the_reviewer() -> None:
    """The name that a review gives itself does not matter if it is known who was asked."""
    result = decoded(returned(ITEM), reviewer="security-2")
    assert (result.reviewer, readable(result)[0].input_id) == ("security-2", "security-2#1")


def test_unknown_keys_are_kept() -> None:
    """003-14: unknown keys of an item are kept; those of the return are ignored."""
    result = decoded(returned({**ITEM, "cwe": "CWE-22"}, model="m1"))
    assert readable(result)[0].ext == {"review": {"cwe": "CWE-22"}}


def test_a_lone_surrogate_does_not_lose_the_review() -> None:
    """It is replaced."""
    raw = only(json.loads('{"a":0}') | returned({**ITEM, "title": "half \ud83d of it", "tags": ["\udc00"]}))
    assert (raw.title, raw.ext["review"]["tags"]) == ("half \ufffd of it", ["\ufffd"])


def test_a_path_that_begins_at_the_root_is_made_relative() -> None:
    """003-05: paths are relative to the root of the repository; one that leads elsewhere is asked for again."""
    item = {**ITEM, "file": "/repo/src/a.py", "evidence": ["/repo/src/a.py:3 -- x = compute(y)"]}
    (raw,) = readable(decoded(returned(item), root="/repo"))
    assert (raw.locations[0].path, raw.evidence[0].path) == ("src/a.py", "src/a.py")
    assert len(unreadable(decoded(returned({**ITEM, "file": "/repository/a.py"}), root="/repo"))) == 1
    for long in ("/" + "a/" * 9000, "b/" + "a" * 9000, "a" * 9000 + ":4"):
        assert len(decoded(returned({**ITEM, "file": long}), root="/repo").drafts) == 1


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
    assert parse_evidence(raw) == replace(parsed, raw=raw)


def test_advisory_items_of_the_lowest_level_are_information() -> None:
    """C-07: the lowest level with the class `advisory` is for information."""
    advisory = {**ITEM, "severity": "P3", "autofix_class": "advisory"}
    assert only(returned(advisory)).severity is Severity.INFO
    assert only(returned({**ITEM, "severity": "P3"})).severity is Severity.LOW


@given(ledgers(3))
@settings(max_examples=40, deadline=None)
def test_every_finding_round_trips_as_a_valid_artifact(found: list[Finding]) -> None:
    """003-18, C-12, C-13: any finding can be told in this format, and comes back as far as it has words for it."""
    document = written(*found)
    SCHEMA.validate(document)
    result = decoded(document)
    assert (result.reviewer, unreadable(result)) == ("awf", [])
    for finding, raw in zip(found, readable(result), strict=True):
        assert finding.title.startswith(raw.title.removesuffix("…"))
        assert min(raw.severity.rank, Severity.LOW.rank) == min(finding.severity.rank, Severity.LOW.rank)
        for name in ("autofix_class", "owner", "pre_existing", "category"):
            assert getattr(raw, name) == getattr(finding, name), name
        for name in ("impact", "fix"):  # blank is as good as absent
            assert (getattr(raw, name) or "").strip() == (getattr(finding, name) or "").strip(), name
        assert raw.system_breaking == finding.system_breaking
        told = [review.format_evidence(item) for item in finding.evidence]
        assert [item.raw for item in raw.evidence][: len(told)] == told


def test_a_long_title_is_truncated() -> None:
    """C-13: the view has its limit; the finding keeps its title."""
    (item,) = written(whole_finding(title="y" * 130))["findings"]
    assert item["title"] == "y" * 99 + "…"


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
        "reviewer": "correctness",
        "pass_id": "REV-1-abc",
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
    }
    return Finding.model_validate(known | fields)


GOOD = json.dumps(returned(ITEM))


LATER = json.dumps({**ITEM, "title": "Another"})


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (GOOD, 1),
        (f"Here it is:\n```json\n{GOOD}\n```\nThat is all. {{not json}}", 1),
        (f"{{ a stray brace, {{}} and {GOOD} after it", 1),
        (f'First {json.dumps(returned())}, then {GOOD}, and {{"another": "object"}}', 1),
        (f'In Python: {{"a": f(x)}} and then {GOOD}', 1),
        (f"[{json.dumps(ITEM)}, {LATER}]", 2),
        (f"{json.dumps(ITEM)}\n{LATER}\n", 2),
        (f'{{"review": {GOOD}}}', 1),
        (f'{{"issues": [{LATER}]}}', 1),
        (f"[{GOOD}, {GOOD.replace('Path', 'Other')}]", 2),
        (f"{GOOD}\n\nAnd on second thought:\n\n{json.dumps(returned(json.loads(LATER)))}", 2),
        ('{"findings": []}', 0),
        (GOOD.replace('"security"', "'security'").replace("}]", "},]").replace("[{", "[ // the worst first\n{"), 1),
        (GOOD.replace('"title":', "title:"), 1),
    ],
)
def test_reviews_are_found_in_an_agents_response(text: str, titles: int) -> None:
    """0-11, 003-01: fenced or bare, a list, in a wrapper, several objects, or not quite JSON: all of it is read."""
    report = review.read_answer(text, reviewer="security")
    assert report is not None
    assert (len(readable(report)), unreadable(report)) == (titles, [])


@given(st.integers(len('{"reviewer": '), len(GOOD) - 1), st.sampled_from(("", "\n```", "\n\n", "\n[STATUS: success]")))
@settings(max_examples=60, deadline=None)
def test_a_return_that_was_cut_off_is_malformed(end: int, after: str) -> None:
    """0-12: wherever it was cut, it is never repaired into fewer findings."""
    assert read(f"Done.\n```json\n{GOOD[:end]}{after}".encode()).status is ReportStatus.MALFORMED


def test_a_truncated_review_after_a_complete_one_is_malformed() -> None:
    """The complete one before it is not used instead."""
    assert read(f"{json.dumps(returned())} and now {GOOD[:-9]}".encode()).status is ReportStatus.MALFORMED


@pytest.mark.parametrize(
    "text",
    ["", "no findings", "{", "[]", '{"issues": []}', '{"reviewer" is missing', '{"a": {"b": 1}}', "[STATUS: fail]"],
)
def test_a_text_without_a_review_has_none(text: str) -> None:
    """Plain words stay plain words."""
    assert review.read_answer(text) is None


@pytest.mark.parametrize(
    ("given", "ruling"),
    [
        ({"number": 3, "ruling": "Not fixed", "reason": "it still\nleaks"}, Said(3, "not_fixed", "it still leaks")),
        ({"number": "#3", "status": "still present"}, Said(3, "not_fixed")),
        ({"finding": 3, "verdict": "partially fixed"}, Said(3, "not_fixed")),
        ({"number": 3, "ruling": "fixed, but only for lists"}, Said(3, "fixed", vague=True)),
        ({"number": 3, "ruling": "perhaps"}, Said(3, "not_fixed")),
        ({"number": 3}, Said(3, "not_fixed")),
        ({"number": 3, "status": "Resolved"}, Said(3, "fixed")),
        ({"number": 3, "fixed": True}, Said(3, "not_fixed")),
        ({"number": 3, "fixed": False}, Said(3, "not_fixed")),
        ({"number": 3, "ruling": "upheld", "why": "as before"}, Said(3, "upheld", "as before")),
        ({"number": 3, "ruling": "false positive", "note": "n"}, Said(3, "withdrawn", "n")),
        ({"number": 3, "ruling": "lowered", "severity": "P2"}, Said(3, "lowered", "", Severity.MEDIUM)),
        ({"ruling": "still there"}, Said(0, "not_fixed")),
        ({"3": "fixed"}, Said(0, "not_fixed")),
        ("#3: fixed", None),
        ({"number": "six", "ruling": "fixed"}, None),
        ({"ruling": "fixed"}, None),
        ("fixed", None),
    ],
)
def test_rulings_come_with_a_review(given: Any, ruling: Said | None) -> None:
    """0-51: they are read in other words too, and a word that cannot be read is "not fixed", never "fixed"."""
    expected = () if ruling is None else (ruling,)
    assert decoded(returned(rulings=[given])).rulings == expected
    assert decoded(returned(rulings=given)).rulings == expected


def test_a_verdict_and_patterns_come_with_a_review() -> None:
    """0-34: a reviewer may judge the whole change, and name what was done well."""
    pattern = {"name": "One door", "location": "a.py", "rationale": "r", "destination": "docs"}
    report = decoded(returned(verdict="block", argument="no", patterns=[pattern, {"rationale": "unnamed"}]))
    assert (report.verdict, report.argument, report.patterns) == ("BLOCK", "no", (pattern,))


@pytest.mark.parametrize(
    "answer",
    [
        {"findings": [], "argument": ITEM},
        {"findings": [], "reviewer": {"name": "a", "issues": [ITEM]}},
        {"findings": [], "high": [{**ITEM, "severity": None}]},
        {"issues": ["SQL injection in a.py:3"]},
        {"findings": {"a.py": ["SQL injection"]}},
    ],
)
def test_what_looks_like_a_finding_is_one_wherever_it_stands(answer: dict[str, Any]) -> None:
    """Nothing is dropped because of the key that it stands under."""
    assert len(decoded({**answer, "reviewed": ["a.py: all"]}).drafts) == 1


@pytest.mark.parametrize("other", [{"approved": False}, {"total": 2}, {"note": ["P0"]}])
def test_what_lists_no_finding_is_said_beside_those_that_do(other: dict[str, Any]) -> None:
    """Whether it stands in the same object, in another one, or in a list with it."""
    empty = {"findings": [], "reviewed": ["a.py: all"]}
    for text in (json.dumps(empty | other), f"{json.dumps(other)}\n{json.dumps(empty)}", json.dumps([other, empty])):
        report = review.read_answer(text)
        assert report is not None
        assert len(report.beside) + len(report.drafts) == 1


@pytest.mark.parametrize("said", ["REJECT", {"answer": "no"}, ["no"], False])
def test_a_verdict_in_other_words_is_said_beside_the_findings(said: Any) -> None:
    """It may reject the change: the reviewer is asked for a finding, and what stays is kept as an uncertain one."""
    report = decoded(returned(verdict=said))
    assert (report.verdict, len(report.beside)) == ("", 1)


def test_the_shipped_schema_allows_what_the_format_shows() -> None:
    """003-01 to 003-14: the example that agents are given is valid, and read to the letter."""
    example = resources.files("pipeline.findings").joinpath("review-format.md").read_text()
    report = review.read_answer(example)
    assert report is not None
    assert [(raw.title, raw.notes) for raw in readable(report)] == [("Empty cart crashes the checkout", ())]
    SCHEMA.validate(json.loads(example.split("```json\n")[1].split("```")[0]))
