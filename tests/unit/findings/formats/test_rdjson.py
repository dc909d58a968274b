"""Reviewdog's diagnostics, in both shapes and both directions."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from tests.unit.findings.drafts import readable, unreadable
from tests.unit.findings.strategies import ledgers, plain

from pipeline.findings.formats import FORMATS
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Category, Finding, FindingState, ReportStatus, Severity
from pipeline.findings.scales import RDJSON_SEVERITY

read = FORMATS["rdjson"].read


def write(findings: Iterable[Finding]) -> str:
    return FORMATS["rdjson"].write(findings, Ledger())


SAMPLE = (Path(__file__).parent / "samples" / "ruff.rdjson").read_bytes()
GOOD = {"message": "good", "location": {"path": "a.py", "range": {"start": {"line": 3}}}}


def of(*items: object, **told: object) -> bytes:
    return json.dumps({"diagnostics": list(items), **told}).encode()


def test_ruffs_diagnostics_are_all_read() -> None:
    """21 diagnostics with their places, rules and suggestions; the severity is that of the whole."""
    found = read(SAMPLE, root="/srv/shop")
    assert (found.reviewer, found.status, len(found.drafts)) == ("ruff", ReportStatus.RETURNED, 21)
    second = readable(found)[1]
    assert (second.locations[0].path, second.locations[0].start) == ("src/odd dir/ünï code.py", 1)
    assert second.fix == "Replace with: import os\nimport sys"
    assert readable(found)[2].fix == "Remove it."
    assert {raw.severity for raw in readable(found)} == {Severity.MEDIUM}
    assert [raw.category for raw in readable(found)].count(Category.SECURITY) == 12
    assert second.ext["rdjson"]["code"]["value"] == "E401"


def test_one_diagnostic_on_each_line_is_the_same() -> None:
    """Both shapes, rdjsonl and rdjson, hold the same diagnostics, one line or many."""
    items = json.loads(SAMPLE)["diagnostics"]
    lines = "".join(json.dumps(item) + "\n" for item in items).encode()
    assert [raw.title for raw in readable(read(lines))] == [raw.title for raw in readable(read(SAMPLE))]
    assert len(readable(read(json.dumps(items[0]).encode()))) == 1


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        ("ERROR", "high"),
        ("WARNING", "medium"),
        ("INFO", "low"),
        (1, "high"),
        (3, "low"),
        ("UNKNOWN_SEVERITY", "medium"),
    ],
)
def test_severities(value: Any, severity: str) -> None:
    """A word or its number; what is not said is in the middle."""
    assert readable(read(of({**GOOD, "severity": value})))[0].severity == severity
    assert readable(read(of(GOOD, severity=value)))[0].severity == severity


def test_an_end_before_the_first_column_is_on_the_line_above() -> None:
    """A range up to the beginning of line 5 does not touch line 5."""
    place = {"path": "a.py", "range": {"start": {"line": 3, "column": 1}, "end": {"line": 5, "column": 1}}}
    assert readable(read(of({"message": "m", "location": place})))[0].locations[0].end == 4


def test_related_places_are_evidence() -> None:
    """What a diagnostic points at besides is kept with its words."""
    found = read(of({**GOOD, "related_locations": [{"message": "declared", "location": GOOD["location"]}]}))
    assert (readable(found)[0].evidence[0].raw, readable(found)[0].evidence[0].start) == ("declared", 3)


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ({"location": {"path": "a"}}, "message"),
        ({"message": ""}, "message"),
        ({"message": "m", "severity": "LOUD"}, "LOUD"),
        ({"message": "m", "severity": True}, "severity"),
        ({"message": "m", "location": {"path": "a", "range": {"start": {"line": True}}}}, "line"),
        ({"message": "m", "location": {"path": "a", "range": {"start": {"line": 9}, "end": {"line": 2}}}}, "before"),
        (3, "object"),
        ({"message": "m", "deep": json.loads("[" * 90 + "]" * 90)}, "nested"),
        ({"message": "a", "location": {"range": {"start": {"line": 3}}}}, "path"),
    ],
)
def test_one_bad_diagnostic_is_unreadable_and_the_others_stay(item: Any, reason: str) -> None:
    """An item that cannot be read is kept as such, with the reason."""
    found = read(of(GOOD, item))
    assert [raw.title for raw in readable(found)] == ["good"]
    assert (unreadable(found)[0].input_id, reason in unreadable(found)[0].unreadable) == ("rdjson#2", True)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        SAMPLE[:-9],
        b'{"message": "a"}\n{"message": "b',
        b'{"diagnostics": {}}',
        b"\xff",
        b'{"diagnostics": [], "diagnostics": []}',
        b'{"diagnostics": [NaN]}',
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_to_its_end_is_malformed(data: bytes) -> None:
    """A broken line, a duplicate key, no diagnostics at all: never fewer findings."""
    found = read(data)
    assert (found.status, len(found.drafts), bool(found.problem)) == (ReportStatus.MALFORMED, 0, True)


def test_no_diagnostics_is_clean() -> None:
    """The tool says so itself."""
    assert read(of()).status is ReportStatus.EMPTY


@settings(max_examples=60, deadline=None)
@given(ledgers())
def test_what_is_written_can_be_read(found: list[Finding]) -> None:
    """Every finding that needs attention comes back with its place and its severity as rdjson has it."""
    text = write(found)
    assert text == write(reversed(found))
    assert text.endswith("}\n")
    shown = [item for item in found if not item.state.dismissed and item.state is not FindingState.VERIFIED_FIXED]
    back = read(text.encode())
    for item, raw in zip(shown, readable(back), strict=True):
        assert RDJSON_SEVERITY[raw.severity] == RDJSON_SEVERITY[item.severity]
        place = replace(item.location, symbol="") if item.location else None
        assert raw.locations == ((place,) if place else ())


def test_a_fix_is_part_of_the_message_and_the_rule_is_the_code() -> None:
    """A suggestion would have a place: reviewers would apply the words."""
    raw = readable(read(SAMPLE, root="/srv/shop"))[1]
    out = json.loads(write([plain(ext=dict(raw.ext), fix="Think again.", number=7, reviewer="security")]))
    (worded,) = out["diagnostics"]
    assert "suggestions" not in worded
    assert worded["message"].endswith("Fix: Think again.\n\n(#7)")
    assert (worded["code"], worded["source"]) == ({"value": "E401"}, {"name": "security"})
    (other,) = json.loads(write([plain(ext={"rdjson": {"ruleId": ["no", "text"]}})]))["diagnostics"]
    assert other["code"] == {"value": "bug"}
