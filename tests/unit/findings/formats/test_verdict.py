"""The verdict file: agents of a team may move a status in it, and nothing else; other tools' files are read too."""

import itertools
import json
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import ledgers

from pipeline.findings.events import FieldsEdited, FindingRaised, StateChanged
from pipeline.findings.formats import FORMATS, strict_json, verdict
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingState, ReportStatus, ReviewerReport, Severity
from pipeline.findings.verdicts import verdicts

AT = "2026-06-01T00:00:00Z"
_numbers = itertools.count()


def a_finding(**fields: Any) -> Finding:
    name = fields.pop("id", f"fnd_{next(_numbers):08x}")
    known: dict[str, Any] = {
        "id": name,
        "signature": f"sha256:{name}",
        "title": "Missing error handling on async route handler",
        "impact": "A rejected promise ends the process.",
        "fix": "Wrap it in try-catch.",
        "category": "api-contract",
        "severity": "high",
        "confidence": {"value": 100, "scale": "fraction", "native": 0.9},
        "locations": [{"path": "src/api/routes.ts", "start": 45, "end": 50}],
        "sources": ["api-patterns"],
        "pass_id": "REV-1-abc",
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
    }
    return Finding.model_validate(known | fields)


def shown(found: Sequence[Finding], mode: str = "full", before: dict[str, Any] | None = None) -> dict[str, Any]:
    document = verdict.render_verdict(
        found,
        review_id="a3f8c12b",
        timestamp=AT,
        scope="changeset",
        target="origin/master..HEAD",
        mode=mode,
        report_path="docs/code-reviews/2026-06-01-changeset-a3f8c12b.md",
        verdicts=verdicts(found),
        before=before or {"findings": []},
    )
    written: dict[str, Any] = strict_json.loads(strict_json.dumps(document))
    return written


def put(document: dict[str, Any], found: Sequence[Finding], written: dict[str, Any] | None = None) -> ViewEdits:
    """What was changed in a file, by default in a fresh one of these findings."""
    known = {finding.id: finding for finding in found}
    return verdict.read_verdict_edits(document, written or shown(found), known, at=AT, by="stage:fix")


def after(found: Sequence[Finding], edits: ViewEdits) -> list[Finding]:
    raised = [FindingRaised(at=finding.created_at, finding=finding) for finding in found]
    return list(Ledger([*raised, *edits.events]).findings.values())


def test_the_file_has_the_keys_of_its_format() -> None:
    """001-03, 001-05, 001-07: the keys, their order, and the words of the scales."""
    document = shown([a_finding(id="fnd_1")])
    assert list(document)[:9] == [
        *("reviewId", "timestamp", "scope", "target", "mode", "verdict", "summary", "reportPath", "findings"),
    ]
    assert document["summary"] == {"blocker": 0, "high": 1, "medium": 0, "low": 0, "info": 0}
    (one,) = document["findings"]
    assert one == {
        "id": "api-patterns-69bbc8bb-45-50",
        "domain": "api-patterns",
        "severity": "High",
        "confidence": 0.9,
        "file": "src/api/routes.ts",
        "lineRange": "45-50",
        "title": "Missing error handling on async route handler",
        "recommendation": "Wrap it in try-catch.",
        "status": "open",
        "x_finding": "fnd_1",
    }
    assert document["verdict"] == "WARN"


@pytest.mark.parametrize(
    ("place", "lines", "id"),
    [
        ({"start": 45, "end": 50}, "45-50", "api-patterns-69bbc8bb-45-50"),
        ({"start": 42, "end": 42}, "42", "api-patterns-69bbc8bb-42"),
        ({"start": 42}, "42", "api-patterns-69bbc8bb-42"),
        ({}, None, "api-patterns-69bbc8bb-0"),
    ],
)
def test_an_id_is_made_of_who_where_and_which_lines(place: dict[str, int], lines: str | None, id: str) -> None:
    """001-08, 001-21: the id to the letter; one line is one number, and no line is 0."""
    (one,) = shown([a_finding(locations=[{"path": "src/api/routes.ts", **place}])])["findings"]
    assert (one["id"], one.get("lineRange")) == (id, lines)


@given(ledgers())
@settings(max_examples=60, deadline=None)
def test_what_is_left_alone_changes_nothing(found: list[Finding]) -> None:
    """GetPut for all findings, in a fresh file and in a continued one, also with digests of the first version in it."""
    full = shown(found)
    for document in (full, shown(found, "verify", full), shown(found, "quick")):
        assert put(document, found, document) == ViewEdits()
        legacy = [{**one, "x_written": "0a1b2c"} for one in document["findings"]]
        sealed = {**document, "findings": legacy, "x_written": "0a1b2c", "x_findings": ["fnd_1"]}
        assert put(sealed, found, document) == put(document, found, sealed) == ViewEdits()


@given(ledgers())
@settings(max_examples=60, deadline=None)
def test_a_fresh_file_has_what_counts_and_it_is_open(found: list[Finding]) -> None:
    """001-13, C-04, 001-07, 001-17: neither dismissed nor pre-existing ones are in it; the rest is open, in order."""
    document = shown(found)
    items = [one for first in document["findings"] for one in (first, *first.get("x_shadowed", []))]
    counting = [one for one in found if one.state.active and not one.pre_existing and one.confidence.value]
    assert {one["x_finding"] for one in items} == {one.id for one in counting}
    assert {one["status"] for one in items} <= {"open"}
    ids = [one["id"] for one in document["findings"]]
    assert len(ids) == len(set(ids))
    assert all(0.5 <= one["confidence"] <= 1 and len(one["title"]) <= 120 and one["recommendation"] for one in items)
    ranks = ["Blocker", "High", "Medium", "Low", "Info"]
    order = [(ranks.index(one["severity"]), -one["confidence"], one["file"]) for one in document["findings"]]
    assert order == sorted(order)


def test_the_summary_counts_what_counts() -> None:
    """C-31, 001-11, C-03: open, reopened and uncertain count; a claimed fix does not."""
    states = ("open", "reopened", "uncertain", "fix_claimed", "verified_fixed", "wont_fix")
    found = [a_finding(state=state, severity="critical") for state in states]
    assert shown(found)["summary"]["blocker"] == 3


@pytest.mark.parametrize(
    ("state", "status", "becomes"),
    [
        ("open", "fixed", "fix_claimed"),
        ("open", "wont_fix", "wont_fix"),
        ("reopened", "fixed", "fix_claimed"),
        ("reopened", "wont_fix", "wont_fix"),
        ("uncertain", "fixed", "fix_claimed"),
    ],
)
def test_a_team_may_set_fixed_or_wont_fix(state: str, status: str, becomes: str) -> None:
    """001-09, 001-10, C-01, C-35, PutGet: the move is one event with its note, and is shown afterwards."""
    found = [a_finding(state=state)]
    before = shown(found, "verify", shown(found))
    written = deepcopy(before)
    before["findings"][0] |= {"status": status, "note": "by design"}
    edits = put(before, found, written)
    event = edits.events[-1]
    assert isinstance(event, StateChanged)
    assert (event.state, event.by, edits.problems) == (becomes, "stage:fix", ())
    assert event.note.endswith(f"open→{status}, by design")
    assert shown(after(found, edits), "verify", before)["findings"][0]["status"] == status


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({}, None),
        ({}, " "),
        ({}, 3),
        ({"gate": {"value": "must"}}, "by design"),
        ({"severity": "critical", "system_breaking": True}, "by design"),
    ],
)
def test_a_team_dismisses_nothing_without_a_note_nor_what_must_be_fixed(fields: dict[str, Any], note: Any) -> None:
    """0-37: it is refused, stays open, and its history says so."""
    found = [a_finding(**fields)]
    document = shown(found)
    document["findings"][0] |= {"status": "wont_fix"} | ({} if note is None else {"note": note})
    edits = put(document, found)
    assert not [event for event in edits.events if isinstance(event, StateChanged)]
    assert "open→wont_fix" in edits.problems[0]
    (told,) = edits.notes
    assert isinstance(told, FieldsEdited)
    assert (told.changes, told.by) == ({}, "stage:fix")
    (then,) = after(found, ViewEdits(edits.notes))
    assert (then.updated_at, then.state) == (found[0].updated_at, found[0].state)


MOVES = [
    (old, new)
    for old, new in itertools.product(("open", "fixed", "verified", "reopened", "wont_fix"), repeat=2)
    if old != new and (old not in ("open", "reopened") or new not in ("fixed", "wont_fix"))
]
STATE = {
    "open": "open",
    "fixed": "fix_claimed",
    "verified": "verified_fixed",
    "reopened": "reopened",
    "wont_fix": "wont_fix",
}


@pytest.mark.parametrize(("old", "new"), MOVES)
def test_any_other_move_is_refused(old: str, new: str) -> None:
    """001-10: a team that says `verified` or takes a word back is told so, and nothing changes."""
    finding = a_finding(state=STATE[old])
    earlier = shown([a_finding(id=finding.id)])
    earlier["findings"][0]["status"] = old if old != "reopened" else "fixed"
    document = shown([finding], "verify", earlier)
    assert document["findings"][0]["status"] == old
    written = deepcopy(document)
    document["findings"][0]["status"] = new
    edits = put(document, [finding], written)
    assert edits.events == ()
    assert f"{old}→{new}" in edits.problems[0]


@pytest.mark.parametrize("value", ["done", None, 3, ["fixed"], True])
def test_an_unknown_status_is_refused(value: Any) -> None:
    """001-10: it is reported."""
    found = [a_finding()]
    document = shown(found)
    document["findings"][0]["status"] = value
    assert (put(document, found).events, len(put(document, found).problems)) == ((), 1)


@pytest.mark.parametrize(
    "key", ["id", "domain", "severity", "confidence", "file", "lineRange", "title", "recommendation"]
)
@pytest.mark.parametrize("change", ["edit", "remove"])
def test_only_the_status_can_be_edited(key: str, change: str) -> None:
    """001-09: any other difference is reported; a status in the same file still counts."""
    found = [a_finding()]
    document = shown(found)
    one = document["findings"][0]
    one["status"] = "fixed"
    if change == "edit":
        one[key] = "Low"
    else:
        del one[key]
    edits = put(document, found)
    assert [type(event) for event in edits.events] == [StateChanged]
    assert f"`{key}`" in edits.problems[0]


@pytest.mark.parametrize("key", ["reviewId", "timestamp", "target", "mode", "verdict", "summary", "reportPath"])
def test_the_verdict_cannot_be_edited(key: str) -> None:
    """001-09: a team cannot write PASS itself."""
    found = [a_finding(severity="critical")]
    edits = put({**shown(found), key: "PASS"}, found)
    assert edits.events == ()
    assert f"`{key}`" in edits.problems[0]


def test_a_finding_cannot_be_removed_or_added() -> None:
    """001-09: both are reported."""
    found = [a_finding(id="fnd_1"), a_finding(id="fnd_2", sources=["security"])]
    document = shown(found)
    gone = document["findings"].pop()
    document["findings"].append({**gone, "id": "security-00000000-1", "x_finding": "fnd_9"})
    problems = put(document, found).problems
    assert any(f"{gone['x_finding']} was removed" in problem for problem in problems)
    assert any("security-00000000-1" in problem for problem in problems)


def test_a_file_without_our_own_fields_is_matched_by_position() -> None:
    """001-08, 001-10: without our own fields a finding is known by its position, for as long as the file is."""
    found = [a_finding()]
    document = shown(found)
    plain = {key: value for key, value in document.items() if not key.startswith("x_")}
    keys = ("id", "domain", "severity", "confidence", "file", "lineRange", "title", "recommendation")
    plain["findings"] = [{**{key: document["findings"][0][key] for key in keys}, "status": "fixed"}]
    (event,) = put(plain, found).events
    assert isinstance(event, StateChanged)
    assert event.state is FindingState.FIX_CLAIMED


def test_an_old_file_is_not_an_edit() -> None:
    """C-05: what the ledger has learnt since is not taken back by a file that nobody touched."""
    finding = a_finding()
    document = shown([finding])
    for state in FindingState:
        later = [a_finding(id=finding.id, state=state, title="Another")]
        assert put(document, later, document) == ViewEdits()


def test_a_claim_about_a_finding_dismissed_meanwhile_is_ignored() -> None:
    """001-10: the file said open; by now somebody has dismissed it."""
    finding = a_finding()
    document = shown([finding])
    document["findings"][0]["status"] = "fixed"
    edits = put(document, [a_finding(id=finding.id, state="false_positive")], shown([finding]))
    assert edits.events == ()
    assert "false_positive" in edits.problems[0]


def test_a_coarser_status_keeps_the_finer_state() -> None:
    """C-02: `wont_fix` left alone stays a false positive."""
    finding = a_finding(state="false_positive")
    earlier = shown([a_finding(id=finding.id)])
    document = shown([finding], "verify", earlier)
    assert document["findings"][0]["status"] == "wont_fix"
    assert put(document, [finding], document) == ViewEdits()


def test_unknown_keys_are_kept() -> None:
    """Unknown keys survive: what an agent wrote beside the fields, and what stands at the top."""
    found = [a_finding()]
    document = shown(found)
    document["findings"][0]["comment"] = "see abc123"
    (event,) = put(document, found).events
    assert isinstance(event, FieldsEdited)
    assert event.changes == {"ext": {"verdict": {"comment": "see abc123"}}}
    kept = [a_finding(id=found[0].id, ext={"verdict": {"comment": "see abc123"}})]
    again = shown(kept, "verify", {**document, "team": "blue"})
    assert (again["team"], again["findings"][0]["comment"]) == ("blue", "see abc123")
    assert put(again, kept, again) == ViewEdits()


def test_of_findings_that_share_an_id_the_most_severe_is_shown() -> None:
    """C-05, 001-22: one is shown, the rest is beside it, and comes up when the first is verified."""
    low = a_finding(id="fnd_low", severity="low")
    sure = a_finding(id="fnd_sure", severity="critical", confidence={"value": 100})
    unsure = a_finding(id="fnd_unsure", severity="critical", confidence={"value": 50})
    document = shown([low, unsure, sure])
    (one,) = document["findings"]
    assert (one["x_finding"], [other["x_finding"] for other in one["x_shadowed"]]) == (
        "fnd_sure",
        ["fnd_unsure", "fnd_low"],
    )
    claimed = a_finding(id="fnd_sure", severity="critical", confidence={"value": 100}, state="fix_claimed")
    assert shown([low, unsure, claimed], "verify", document)["findings"][0]["x_finding"] == "fnd_sure"
    done = a_finding(id="fnd_sure", severity="critical", confidence={"value": 100}, state="verified_fixed")
    (then,) = shown([low, unsure, done], "verify", document)["findings"]
    assert [then["x_finding"], *(other["x_finding"] for other in then["x_shadowed"])] == [
        "fnd_unsure",
        "fnd_low",
        "fnd_sure",
    ]


def test_a_finding_that_shares_its_id_can_be_claimed_too() -> None:
    """C-05: the finding that is not shown is a finding like any other."""
    found = [a_finding(id="fnd_1", severity="critical"), a_finding(id="fnd_2")]
    document = shown(found)
    document["findings"][0]["x_shadowed"][0]["status"] = "fixed"
    edits = put(document, found)
    (event,) = edits.events
    assert isinstance(event, StateChanged)
    assert (event.id, edits.problems) == ("fnd_2", ())


def test_a_verification_verifies_or_reopens_each_claim() -> None:
    """001-14, 001-10: fixed becomes verified or reopened; what was open stays open."""
    found = [a_finding(id=f"fnd_{number}", sources=[f"s{number}"]) for number in range(4)]
    document = shown(found)
    for one in document["findings"][:2]:
        one["status"] = "fixed"
    order = [one["x_finding"] for one in document["findings"]]
    states = dict(zip(order, ("verified_fixed", "reopened", "reopened", "open"), strict=True))
    now = [a_finding(id=one.id, sources=one.sources, state=states[one.id]) for one in found]
    then = shown(now, "verify", document)
    by_finding = {one["x_finding"]: one["status"] for one in then["findings"]}
    assert by_finding == dict(zip(order, ("verified", "reopened", "open", "open"), strict=True))
    assert (then["mode"], then["reviewId"], then["summary"]["high"]) == ("verify", "a3f8c12b", 3)


def test_every_blocker_says_whether_it_breaks_the_system() -> None:
    """C-24: an abort can be computed again from the file."""
    found = [a_finding(severity="critical", system_breaking=True), a_finding(severity="critical", sources=["b"])]
    document = shown(found)
    assert document["verdict"] == "ABORT"
    assert {one["domain"]: one["x_system_breaking"] for one in document["findings"]} == {
        "api-patterns": True,
        "b": False,
    }
    assert "x_system_breaking" not in shown([a_finding()])["findings"][0]


def test_an_abort_without_its_cause_stays_while_a_blocker_counts() -> None:
    """C-24: a file that does not say what made it an abort is not made harmless by that."""
    finding = a_finding(severity="critical")
    foreign = {**shown([finding]), "verdict": "ABORT"}
    del foreign["findings"][0]["x_system_breaking"]
    assert shown([finding], "verify", foreign)["verdict"] == "ABORT"
    done = a_finding(id=finding.id, severity="critical", state="verified_fixed")
    assert shown([done], "verify", foreign)["verdict"] == "PASS"
    said = {**shown([finding]), "verdict": "ABORT"}
    assert shown([finding], "verify", said)["verdict"] == "FAIL"


def test_a_long_title_is_truncated_and_a_missing_fix_is_marked() -> None:
    """001-07, C-13, C-15: the limits of the file are kept, and what was not said is marked."""
    (one,) = shown([a_finding(title="y" * 121, fix=None)])["findings"]
    assert one["title"] == "y" * 119 + "…"
    assert one["recommendation"].endswith(a_finding().impact)
    assert one["x_fix_absent"] is True
    assert shown([a_finding(title="y" * 120)])["findings"][0]["title"] == "y" * 120


def test_a_quick_review_has_no_report() -> None:
    """001-06, 001-15: and its path is empty."""
    assert shown([], "quick")["reportPath"] == ""
    assert shown([])["reportPath"] == "docs/code-reviews/2026-06-01-changeset-a3f8c12b.md"


EXAMPLE: dict[str, Any] = {
    "reviewId": "a3f8c12b",
    "timestamp": "2026-02-16T14:30:00Z",
    "scope": "changeset",
    "target": "origin/master..HEAD",
    "mode": "full",
    "verdict": "WARN",
    "summary": {"blocker": 0, "high": 1, "medium": 0, "low": 0, "info": 0},
    "reportPath": "docs/code-reviews/2026-02-16-changeset-a3f8c12b.md",
    "findings": [
        {
            "id": "api-patterns-a1b2c3d4-45-50",
            "domain": "api-patterns",
            "severity": "High",
            "confidence": 0.83,
            "file": "src/api/routes.ts",
            "lineRange": "45-50",
            "title": "Missing error handling on async route handler",
            "recommendation": "Wrap it",
            "status": "wont_fix",
        }
    ],
}


def decoded(document: Any, **options: str) -> ReviewerReport:
    return FORMATS["verdict"].read(json.dumps(document).encode(), **options)


def test_a_foreign_file_is_read() -> None:
    """001-07, C-08, C-17: each finding is a claim by its domain, with its state and its number as it was."""
    result = decoded({**EXAMPLE, "team": "blue"})
    (claim,) = result.findings
    assert (result.status, result.reviewer) == (ReportStatus.RETURNED, "verdict")
    assert (claim.input_id, claim.reviewer, claim.category) == ("verdict#1", "api-patterns", "api-contract")
    assert (claim.severity, claim.confidence.value, claim.confidence.native) == ("high", 75, 0.83)
    assert (claim.state, claim.fix, claim.autofix_class) == (FindingState.WONT_FIX, "Wrap it", "manual")
    assert [(place.start, place.end) for place in claim.locations] == [(45, 50)]
    assert claim.tool_ids == {"verdict/v1": "api-patterns-a1b2c3d4-45-50"}
    clean = {**EXAMPLE, "verdict": "PASS", "summary": {}, "findings": []}
    assert decoded(clean).status is ReportStatus.EMPTY


@pytest.mark.parametrize("summary", [None, [], 3, {"high": 1.0}, {"blocker": 1}])
def test_a_summary_that_contradicts_the_findings_is_unreadable(summary: Any) -> None:
    """0-12: the findings are read, and the contradiction is one more item."""
    open_one = {**EXAMPLE["findings"][0], "status": "open"}
    result = decoded({**EXAMPLE, "findings": [open_one], "summary": summary})
    assert ([claim.input_id for claim in result.findings], len(result.unreadable)) == (["verdict#1"], 1)
    assert "a3f8c12b" in result.unreadable[0].raw


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("severity", "high"), ("severity", None), ("confidence", 0.49), ("confidence", 1.01), ("confidence", True)),
        *(("confidence", "0.9"), ("file", ""), ("lineRange", "50-45"), ("lineRange", "0"), ("lineRange", 45)),
        *(("title", "x" * 121), ("title", ""), ("status", "done"), ("status", ["open"]), ("recommendation", None)),
        *(("domain", None), ("id", 3)),
    ],
)
def test_an_invalid_item_is_unreadable_alone(key: str, value: Any) -> None:
    """001-07: each rule, one by one; the other items are read."""
    good = EXAMPLE["findings"][0]
    result = decoded({**EXAMPLE, "findings": [{**good, key: value}, good]})
    assert [claim.input_id for claim in result.findings] == ["verdict#2"]
    assert key in result.unreadable[0].reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("reviewId", "../../etc"), ("reviewId", "A3F8C12B"), ("reviewId", None), ("scope", "all"), ("mode", "slow")),
        *(("verdict", "OK"), ("findings", {}), ("findings", ["x"]), ("timestamp", 3)),
    ],
)
def test_a_file_of_another_shape_is_malformed(key: str, value: Any) -> None:
    """001-04, 001-05: what the whole is must be sure before any of it is believed."""
    result = decoded({**EXAMPLE, key: value})
    assert (result.status, result.inputs) == (ReportStatus.MALFORMED, 0)
    assert f"`{key}" in result.problem
    lacking = {name: part for name, part in EXAMPLE.items() if name != key}
    assert decoded(lacking).status is ReportStatus.MALFORMED


def test_broken_json_is_malformed() -> None:
    """001-23: it is never read as fewer findings."""
    assert FORMATS["verdict"].read(b"{").status is ReportStatus.MALFORMED


@given(ledgers(), st.sampled_from(("full", "verify")))
@settings(max_examples=40, deadline=None)
def test_every_finding_of_a_written_file_can_be_imported(found: list[Finding], mode: str) -> None:
    """001-07, C-05: every finding of our file, shadowed or not, is a claim with its severity and state."""
    found = [finding for finding in found if finding.confidence.value]  # those with none are counted and not shown
    document = shown(found, mode, shown(found))
    result = decoded(document)
    items = [one for first in document["findings"] for one in (first, *first.get("x_shadowed", []))]
    assert result.inputs == len(items)
    by_id = {str(finding.id): finding for finding in found}
    refused = {one.input_id for one in result.unreadable}
    read = [one for number, one in enumerate(items, 1) if f"verdict#{number}" not in refused]
    for one, claim in zip(read, result.findings, strict=True):
        finding = by_id[one["x_finding"]]
        assert (claim.severity, claim.fix) == (finding.severity, finding.fix)
        assert claim.system_breaking == (finding.system_breaking and finding.severity is Severity.CRITICAL)
    assert all(not one["file"].strip() for number, one in enumerate(items, 1) if f"verdict#{number}" in refused)
