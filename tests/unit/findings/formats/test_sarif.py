"""SARIF in and out: no result is lost, nothing is guessed, and what is written is SARIF for everybody."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from tests.unit.findings.drafts import readable
from tests.unit.findings.strategies import ledgers, plain

from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Actor,
    Category,
    Change,
    Draft,
    Finding,
    FindingState,
    ReportStatus,
    Severity,
    Suppression,
    What,
)

read = FORMATS["sarif"].read


def write(findings: Iterable[Finding]) -> str:
    return FORMATS["sarif"].write(findings, Ledger())


HERE = Path(__file__).parent
SCHEMA = Draft202012Validator(json.loads((HERE / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8")))
SAMPLES = {name: (HERE / "samples" / f"{name}.sarif").read_bytes() for name in ("ruff", "bandit", "eslint")}


def log(*results: object, rules: object = (), **run: object) -> bytes:
    driver = {"name": "Tool X", "rules": list(rules) if isinstance(rules, list | tuple) else rules}
    return json.dumps({"version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results, **run}]}).encode()


def result(**told: object) -> dict[str, object]:
    return {"message": {"text": "Wrong"}, **told}


def at(uri: str, base: str = "", **region: object) -> dict[str, object]:
    artifact = {"uri": uri} | ({"uriBaseId": base} if base else {})
    return {"physicalLocation": {"artifactLocation": artifact} | ({"region": region} if region else {})}


def one(data: bytes, **told: str) -> Draft:
    found = read(data, **told)
    assert found.status is ReportStatus.RETURNED
    (raw,) = readable(found)
    return raw


# What real tools write


@pytest.mark.parametrize(
    ("name", "count", "status"), [("ruff", 36, "returned"), ("bandit", 7, "returned"), ("eslint", 9, "malformed")]
)
def test_every_result_of_a_real_tool_is_read(name: str, count: int, status: str) -> None:
    """The counts are those of the tools; ESLint says itself that its run failed, and its findings are kept."""
    found = read(SAMPLES[name], root="/srv/shop")
    assert (found.reviewer, found.status, len(found.drafts)) == (name, status, count)
    assert [raw.input_id for raw in readable(found)] == [f"{name}#{number}" for number in range(1, count + 1)]
    assert all(not raw.locations[0].path.startswith("/") for raw in readable(found))


def test_a_bandit_file_is_read_into_our_fields() -> None:
    """Level, place, quotation, category and the tool's own properties."""
    found = read(SAMPLES["bandit"], reviewer="scan")
    raw = readable(found)[3]
    assert (raw.reviewer, raw.severity, raw.category) == ("scan", Severity.HIGH, Category.SECURITY)
    assert (raw.locations[0].path, raw.locations[0].start) == ("src/orders.py", 19)
    assert raw.evidence[0].quote.startswith("return subprocess.call(")
    assert raw.ext["sarif"]["properties"] == {"issue_confidence": "HIGH", "issue_severity": "HIGH"}
    assert raw.ext["sarif"]["ruleId"] == "B602"
    assert raw.confidence.value == 100


def test_a_ruff_file_is_read_with_fixes_and_categories() -> None:
    """A file URI with escapes is a path, a fix is kept in words, and a rule's letters tell its category."""
    found = read(SAMPLES["ruff"], root="/srv/shop/")
    raw = next(raw for raw in readable(found) if raw.fix == "Split imports")
    assert raw.locations[0].path == "src/odd dir/ünï code.py"
    by_category = [raw.category for raw in readable(found)]
    assert (by_category.count(Category.SECURITY), by_category.count(Category.DOCS_GAP)) == (12, 15)


def test_a_suppression_in_the_source_is_kept_with_its_result() -> None:
    """ESLint's disabled rule is a finding that is not shown, not a missing one."""
    assert [c.suppressed for c in readable(read(SAMPLES["eslint"])) if c.suppressed] == ["suppressed in the source"]


# What SARIF can say


@pytest.mark.parametrize(
    ("told", "rule", "severity"),
    [
        ({}, {}, "medium"),
        ({"level": "error"}, {}, "high"),
        ({"level": "note"}, {}, "low"),
        ({"level": "none"}, {}, "info"),
        ({"kind": "informational"}, {}, "info"),
        ({"kind": "pass", "level": "error"}, {}, "high"),
        ({}, {"defaultConfiguration": {"level": "error"}}, "high"),
        ({"level": "note"}, {"properties": {"security-severity": "9.8"}}, "critical"),
        ({}, {"properties": {"security-severity": "7.0"}}, "high"),
        ({}, {"properties": {"security-severity": 4}}, "medium"),
        ({}, {"properties": {"security-severity": "0.1"}}, "low"),
        ({"properties": {"security-severity": "0.0"}}, {"properties": {"security-severity": "9"}}, "info"),
    ],
)
def test_severity(told: dict[str, Any], rule: dict[str, Any], severity: str) -> None:
    """C-07: by the level, or finer by the number for security."""
    assert one(log(result(ruleId="r", **told), rules=[{"id": "r", **rule}])).severity == severity


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({}, None),
        ({"kind": "open"}, FindingState.UNCERTAIN),
        ({"kind": "review"}, FindingState.UNCERTAIN),
        ({"baselineState": "absent"}, FindingState.FIX_CLAIMED),
        ({"baselineState": "updated"}, None),
    ],
)
def test_a_state_that_a_tool_reports_is_not_proof(told: dict[str, Any], state: FindingState | None) -> None:
    """That a tool no longer reports a result is at most a claim that it is fixed."""
    assert one(log(result(**told))).state is state


@pytest.mark.parametrize(
    ("suppressions", "reason"),
    [
        ([], None),
        ([{"kind": "external", "justification": "False positive"}], "False positive"),
        ([{"kind": "inSource"}], "suppressed in the source"),
        ([{"kind": "external", "justification": "agreed", "status": "accepted"}], "agreed"),
        ([{"kind": "external", "status": "underReview"}], None),
        ([{"kind": "inSource"}, {"kind": "external", "status": "rejected"}], None),
    ],
)
def test_only_an_accepted_suppression_suppresses(suppressions: list[Any], reason: str | None) -> None:
    """One under review, or refused, leaves the result in sight."""
    assert one(log(result(suppressions=suppressions))).suppressed == reason


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"text": "Use {0} of {1}", "arguments": ["a", "b"]}, "Use a of b"),
        ({"id": "bad", "arguments": ["x"]}, "x is {bad}"),
        ({"id": "global"}, "Said by the tool"),
        ({"text": "{0} and {9}", "arguments": ["a"]}, "a and {9}"),
        ({"text": "see [the call](1) and {0}"}, "see the call and {0}"),
        ({"markdown": "**x**"}, "**x**"),
    ],
)
def test_messages_are_resolved(message: dict[str, Any], text: str) -> None:
    """By their id, with their arguments; braces without arguments are text."""
    rules = [{"id": "r", "messageStrings": {"bad": {"text": "{0} is {{bad}}"}}}]
    driver = {"name": "X", "rules": rules, "globalMessageStrings": {"global": {"text": "Said by the tool"}}}
    assert one(log({"ruleId": "r/part", "message": message}, tool={"driver": driver})).title == text


def test_a_rule_is_found_by_its_index_in_the_driver_or_an_extension() -> None:
    """A result need not repeat its rule's id."""
    driver = {"name": "X", "rules": [{"id": "a", "shortDescription": {"text": "A rule"}}]}
    tool = {"driver": driver, "extensions": [{"name": "E", "rules": [{"id": "b", "help": {"text": "B helps"}}]}]}
    parts = [result(ruleIndex=0), result(rule={"index": 0, "toolComponent": {"index": 0}}), result(ruleIndex=7)]
    assert [raw.impact for raw in readable(read(log(*parts, tool=tool)))] == ["A rule", "B helps", ""]


def test_confidence_is_full() -> None:
    """A rank or a low precision orders results; it keeps none of them from being reported."""
    rules = [{"id": "low", "properties": {"precision": "low"}}]
    assert one(log(result(ruleId="low", rank=4.5), rules=rules)).confidence.value == 100


def test_tags_give_the_category() -> None:
    """A weakness by its number is a matter of security."""
    tags = {"properties": {"tags": ["external/cwe/cwe-089", "maintainability"]}}
    assert one(log(result(ruleId="r"), rules=[{"id": "r", **tags}])).category is Category.SECURITY
    assert one(log(result(properties={"tags": ["performance"]}))).category is Category.PERFORMANCE


def test_the_tools_own_ids_are_kept() -> None:
    """A partial fingerprint counts only within its rule: two rules may share a line."""
    told = {"partialFingerprints": {"line": "1"}, "fingerprints": {"v1": "f"}, "guid": "g", "ruleId": "R"}
    assert one(log(result(**told))).tool_ids == {"line": "R:1", "v1": "f", "guid": "g"}


def test_related_places_and_symbols() -> None:
    """What a result points at is evidence; a logical location is a symbol, with or without a file."""
    place = at("a.py", startLine=3, endLine=5, endColumn=1, snippet={"text": "  x = 1\n"})
    place["logicalLocations"] = [{"name": "f", "fullyQualifiedName": "m.f"}]
    related = {**at("b.py", startLine=7), "message": {"text": "declared"}}
    raw = one(log(result(locations=[place, {"logicalLocations": [{"name": "Only"}]}], relatedLocations=[related])))
    assert [(item.path, item.start, item.end, item.symbol) for item in raw.locations] == [("a.py", 3, 4, "m.f")]
    told = [(item.path, item.start, item.quote, item.symbol, item.raw) for item in raw.evidence]
    assert told == [("a.py", 3, "x = 1", "m.f", ""), ("", None, "", "Only", ""), ("b.py", 7, "", "", "declared")]


@pytest.mark.parametrize(("text", "words"), [("x = 2", "Replace with: x = 2"), ("", "Remove it.")])
def test_a_fix_without_a_description_is_described_by_its_replacement(text: str, words: str) -> None:
    """C-15: a replacement is a fix in words."""
    change = {"deletedRegion": {"startLine": 3}, "insertedContent": {"text": text}}
    fix = {"artifactChanges": [{"artifactLocation": {"uri": "a.py"}, "replacements": [change]}]}
    assert one(log(result(fixes=[fix]))).fix == words


@pytest.mark.parametrize(
    ("rule", "category"),
    [("E902", "bug"), ("E501", "maintainability"), ("S101", "security"), ("PERF401", "performance"), ("odd", "bug")],
)
def test_the_prefix_of_a_rule_gives_the_category(rule: str, category: str) -> None:
    """The same rule has the same category in every run."""
    assert one(log(result(ruleId=rule), tool={"driver": {"name": "ruff"}})).category == category


BASES = {
    "SRC": {"uri": "src/", "uriBaseId": "HOME"},
    "HOME": {"uri": "file:///srv/shop/"},
    "ELSE": {"uri": "file:///opt/"},
    "%SRCROOT%": {"uri": "file:///github/workspace/"},
    "MINE": {"uri": "file:///build/"},
    "A": {"uriBaseId": "B"},
    "B": {"uriBaseId": "A"},
}


@pytest.mark.parametrize(
    ("uri", "base", "path"),
    [
        ("a.py", "", "a.py"),
        ("./x/../a%20b%25.py", "", "a b%.py"),
        ("file:///srv/shop/a.py", "", "a.py"),
        ("file://localhost/srv/shop/a.py", "", "a.py"),
        ("/srv/shop/a.py", "", "a.py"),
        ("/srv/shopping/a.py", "", "/srv/shopping/a.py"),
        ("a.py", "SRC", "src/a.py"),
        ("a.py", "ELSE", "/opt/a.py"),
        ("a.py", "%SRCROOT%", "a.py"),
        ("a.py", "MINE", "/build/a.py"),
        ("a.py", "NOWHERE", "a.py"),
        ("file:///etc/passwd", "%SRCROOT%", "/etc/passwd"),
        ("../../etc/passwd", "", "../../etc/passwd"),
        ("file:///C:/code/a.py", "", "C:/code/a.py"),
        ("https://example.org/a.py", "", "https:/example.org/a.py"),
    ],
)
def test_uris_become_paths_of_the_repository(uri: str, base: str, path: str) -> None:
    """What cannot be is kept as it is: ingest refuses it, with the reason."""
    data = log(result(locations=[at(uri, base)]), originalUriBaseIds=BASES)
    assert one(data, root="/srv/shop").locations[0].path == path


def test_an_artifact_may_be_named_by_its_index() -> None:
    """A URI can be in the run's list of artifacts."""
    place = {"physicalLocation": {"artifactLocation": {"index": 1}}}
    artifacts = [{}, {"location": {"uri": "a.py", "index": 1}}]
    assert one(log(result(locations=[place]), artifacts=artifacts)).locations[0].path == "a.py"


def test_several_runs_are_one_return() -> None:
    """Every run's results, each with its own tool as reviewer, numbered through."""
    runs = [{"tool": {"driver": {"name": name}}, "results": [result(), result()]} for name in ("Bandit", "Semgrep OSS")]
    found = read(json.dumps({"version": "2.1.0", "runs": runs}).encode())
    assert found.reviewer == "bandit+semgrep-oss"
    assert [raw.reviewer for raw in readable(found)] == ["bandit", "bandit", "semgrep-oss", "semgrep-oss"]
    assert [raw.input_id for raw in readable(found)][-1] == "bandit+semgrep-oss#4"


# What is wrong


@pytest.mark.parametrize(
    ("item", "field"),
    [
        ("text", ""),
        ({}, "message"),
        ({"message": {"id": "unknown"}}, "message"),
        (result(kind="pass"), "kind"),
        (result(level="loud"), "level"),
        (result(level=["error"]), "level"),
        (result(locations="here"), "locations"),
        (result(locations=[at("a", startLine=True)]), "startLine"),
        (result(locations=[at("a", startLine=-1)]), "startLine"),
        (result(locations=[at("a", startLine="3")]), "startLine"),
        (result(locations=[at("a", startLine=9, endLine=3)]), "before"),
        (result(locations=[at("a", "A")]), "base"),
        (result(locations=[{"physicalLocation": {"artifactLocation": {"uri": 3}}}]), "uri"),
        (result(properties={"security-severity": "high"}), "security-severity"),
        (result(properties={"security-severity": "nan"}), "security-severity"),
        (result(properties={"security-severity": True}), "security-severity"),
        (result(properties={"deep": json.loads("[" * 90 + "]" * 90)}), ""),
    ],
)
def test_one_bad_result_is_unreadable_and_the_others_stay(item: Any, field: str) -> None:
    """An item that cannot be read is kept as such, with the field that is wrong."""
    found = read(log(item, result(locations=[at("a", startLine=0)]), originalUriBaseIds=BASES))
    assert (found.status, len(readable(found)), len(found.drafts)) == (ReportStatus.RETURNED, 1, 2)
    assert readable(found)[0].locations[0].start is None
    bad = found.drafts[0]
    assert bad.input_id == "tool-x#1"
    assert field in (bad.unreadable or bad.harmless)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SAMPLES["ruff"][:-100],
        SAMPLES["ruff"][: len(SAMPLES["ruff"]) // 2],
        b'{"version": "2.1.0", "version": "2.1.0", "runs": []}',
        b'{"version": "2.1.0", "runs": [NaN]}',
        b'{"version": "2.1.0", "runs": [1e999]}',
        b"[" * 200_000,
        b'{"version": "2.0.0", "runs": []}',
        b'{"version": "2.1.0", "runs": []}',
        b'{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "X"}}}]}',
        log(externalPropertyFileReferences={"results": [{}]}),
        b"\xff\xfe",
        b"[]",
    ],
)
def test_a_file_that_cannot_be_trusted_as_a_whole_is_malformed(data: bytes) -> None:
    """A file that was cut off is never read as fewer findings, and a run without results is not a clean one."""
    found = read(data, reviewer="scan")
    assert (found.reviewer, found.status, len(found.drafts)) == ("scan", ReportStatus.MALFORMED, 0)
    assert found.problem


@pytest.mark.parametrize(
    "invocation",
    [
        3,
        {"executionSuccessful": False},
        {"executionSuccessful": None},
        {"executionSuccessful": True, "exitSignalNumber": 9},
        {"exitCode": 2},
        {"exitCode": None},
        {"executionSuccessful": True, "toolExecutionNotifications": [{"level": "error"}]},
        {"executionSuccessful": True, "toolConfigurationNotifications": [{"level": None}]},
        {"executionSuccessful": True, "toolExecutionNotifications": None},
    ],
)
def test_a_run_that_may_have_found_more_is_malformed(invocation: Any) -> None:
    """What a run says about itself counts, however oddly it says so."""
    assert read(log(invocations=[invocation])).status is ReportStatus.MALFORMED
    assert read(log(invocations=[{"executionSuccessful": True, "exitCode": 1}])).status is ReportStatus.EMPTY
    assert read(log(result(), invocations=[{"exitCode": 1}])).status is ReportStatus.RETURNED


@pytest.mark.parametrize("invocations", ["failed", {"executionSuccessful": True}, None, [None], ["failed"]])
def test_invocations_that_are_no_list_of_runs_are_malformed(invocations: Any) -> None:
    """Nobody knows then whether the tool succeeded."""
    assert read(log(invocations=invocations)).status is ReportStatus.MALFORMED


def test_an_empty_list_of_results_is_clean() -> None:
    """The tool looked and found nothing."""
    assert read(log()).status is ReportStatus.EMPTY


def test_half_a_character_does_not_stop_the_others() -> None:
    """Tools cut texts in the middle of a character."""
    assert one(log(result()).replace(b"Wrong", b"W\\ud83d")).title == "W\ufffd"


# What we write


@settings(max_examples=60, deadline=None)
@given(ledgers())
def test_what_is_written_is_sarif(found: list[Finding]) -> None:
    """By the official schema, whatever the findings say, and the same for any order of them."""
    text = write(found)
    assert text.endswith("}\n")
    SCHEMA.validate(json.loads(text))
    assert text == write(reversed(found))


@pytest.mark.parametrize("name", ["ruff", "bandit"])
def test_the_rules_of_a_tool_keep_their_ids(name: str) -> None:
    """Each result has the rule that its tool gave it, and the driver lists all of them."""
    raws = readable(read(SAMPLES[name], root="/srv/shop"))
    found = [plain(id=f"fnd_{number}", number=number, ext=dict(raw.ext)) for number, raw in enumerate(raws)]
    text = write(found)
    SCHEMA.validate(json.loads(text))
    run = json.loads(text)["runs"][0]
    assert [item["ruleId"] for item in run["results"]] == [raw.ext["sarif"]["ruleId"] for raw in raws]
    assert {item["ruleId"] for item in run["results"]} == {rule["id"] for rule in run["tool"]["driver"]["rules"]}


SEEN = Change(at="2026-01-02T03:04:05Z", what=What.SEEN, who="ruff", by=Actor.ORCHESTRATOR)


@pytest.mark.parametrize(
    ("state", "history", "told"),
    [
        (FindingState.OPEN, (), {"kind": "fail", "level": "error", "baselineState": "new"}),
        (FindingState.OPEN, (SEEN,), {"kind": "fail", "level": "error", "baselineState": "unchanged"}),
        (FindingState.REOPENED, (SEEN,), {"kind": "fail", "level": "error", "baselineState": "updated"}),
        (FindingState.FIX_CLAIMED, (SEEN,), {"kind": "review", "level": "none", "baselineState": "unchanged"}),
        (FindingState.UNCERTAIN, (), {"kind": "open", "level": "none", "baselineState": "new"}),
        (FindingState.VERIFIED_FIXED, (SEEN,), {"kind": "fail", "level": "error", "baselineState": "absent"}),
    ],
)
def test_states_are_written_as_baseline_states(
    state: FindingState, history: tuple[Change, ...], told: dict[str, Any]
) -> None:
    """Only what was verified is absent."""
    out = json.loads(write([plain(state=state, history=history)]))["runs"][0]["results"][0]
    assert {name: out[name] for name in told} == told
    assert out["suppressions"] == []


def test_a_dismissed_finding_is_suppressed_and_not_left_out() -> None:
    """C-02: both kinds of dismissal are told apart, with the reason."""
    false = plain(state=FindingState.FALSE_POSITIVE, suppression=Suppression(reason="guarded above"))
    out = json.loads(write([false, plain(id="fnd_2", state=FindingState.WONT_FIX)]))["runs"][0]["results"]
    assert [item["suppressions"] for item in out] == [
        [{"kind": "external", "status": "accepted", "justification": "false positive: guarded above"}],
        [{"kind": "external", "status": "accepted", "justification": "won't fix"}],
    ]


def test_a_result_has_number_state_gate_and_confidence() -> None:
    """Number, state, gate and confidence are in plain sight, and the id gives the same guid every time."""
    out = json.loads(write([plain(number=7, fix="Round once.", category=Category.SECURITY)]))["runs"][0]["results"][0]
    names = ("id", "number", "line", "reviewer", "state", "gate", "confidence", "fix")
    told = {name: out["properties"][name] for name in names}
    assert told == {
        "id": "fnd_1",
        "number": 7,
        "line": 7,
        "reviewer": "correctness",
        "state": "open",
        "gate": "must",
        "confidence": 100,
        "fix": "Round once.",
    }
    assert out["ruleId"] == "awf/security"
    assert out["properties"]["security-severity"] == "8.0"
    assert out["partialFingerprints"] == {"awf/v1": "sha256:1"}
    assert out["correlationGuid"] == json.loads(write([plain()]))["runs"][0]["results"][0]["correlationGuid"]
    assert "fixes" not in out
