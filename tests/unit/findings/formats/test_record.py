"""Records of findings and passes: written, edited, imported. Only differences are edits; illegal ones are refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import findings

from pipeline.findings.events import (
    Coverage,
    FieldsEdited,
    FindingRaised,
    LedgerEvent,
    Pass,
    Pattern,
    ReportedAgain,
    ReviewerVerdict,
    StateChanged,
)
from pipeline.findings.fingerprints import norm_title
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.record import import_record, read_record_edits, render_pass, render_record
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Finding, FindingId, FindingState, Observed, PassId, ReportStatus, Strength
from pipeline.findings.triage import change_state
from pipeline.findings.verdicts import Shipping

AT = "2026-06-01T00:00:00Z"
KEYS = [
    *("schemaVersion", "kind", "role", "authority", "type", "findingId", "reviewId", "task", "scope", "title"),
    *("category", "gate", "severity", "confidence", "evidence", "reasoning", "reproduction", "recommendation"),
    *("min_fix_scope", "suggested_regression_tests", "status", "triage_history", "signature", "sources", "lens"),
    *("agreement_count", "createdAt", "updatedAt"),
]


def a_finding(**fields: Any) -> Finding:
    known: dict[str, Any] = {
        "id": "fnd_a1b2c3d4",
        "signature": "sha256:a1b2c3d4",
        "title": "Rotation does not revoke the previous token",
        "impact": "A captured token can be exchanged after rotation.",
        "fix": "Revoke the prior token.",
        "category": "security",
        "severity": "high",
        "confidence": {"value": 100, "scale": "anchor", "native": 100},
        "gate": {"value": "must"},
        "locations": [{"path": "src/auth/session.ts", "start": 84}],
        "evidence": [
            {
                "path": "src/auth/session.ts",
                "start": 84,
                "end": 91,
                "symbol": "rotate",
                "quote": "save(new)",
                "raw": "r",
            },
            {"raw": "nobody calls revoke"},
        ],
        "sources": ["code-reviewer", "qa"],
        "agreement": 2,
        "task": "TASK-7",
        "pass_id": "REV-1767322800-abc1234",
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
    }
    return Finding.model_validate(known | fields)


def after(finding: Finding, *events: LedgerEvent) -> Finding:
    return Ledger([FindingRaised(at=finding.created_at, finding=finding), *events]).findings[finding.id]


def replace_by(finding: Finding, *events: LedgerEvent) -> Finding:
    """A finding of a ledger after more events."""
    ledger = Ledger()
    ledger.findings[finding.id] = finding
    for event in events:
        ledger.apply(event)
    return ledger.findings[finding.id]


def edited(finding: Finding, by: str = "stage:fix", **fields: Any) -> ViewEdits:
    return read_record_edits(finding, {**render_record(finding), **fields}, AT, by)


def test_a_record_has_exactly_these_keys_in_this_order() -> None:
    """000-20, 000-21, 000-05: ids and dates in one style, the rest in the other, and the four names of its kind."""
    shown = render_record(a_finding())
    assert list(shown) == KEYS
    assert [shown[key] for key in KEYS[:5]] == [1, "entity", "claim", "computed", "review.finding"]
    assert (shown["findingId"], shown["reviewId"]) == ("fnd_a1b2c3d4", "REV-1767322800-abc1234")
    assert (shown["gate"], shown["severity"], shown["confidence"]) == ("must", "high", "high")
    assert (shown["sources"], shown["lens"], shown["agreement_count"]) == (["code-reviewer", "qa"], "code-review", 2)
    assert (shown["reproduction"], shown["task"]) == (None, "TASK-7")


@given(findings())
@settings(max_examples=60, deadline=None)
def test_what_is_left_alone_changes_nothing(finding: Finding) -> None:
    """GetPut for all findings, through a file, also one with the digests that the first version wrote into it."""
    shown = render_record(finding)
    assert list(shown)[:28] == KEYS
    for view in (shown, {**shown, "x_written": "0a1b2c"}):
        assert read_record_edits(finding, strict_json.loads(strict_json.dumps(view)), AT, "user") == ViewEdits()


@given(findings())
@settings(max_examples=60, deadline=None)
def test_a_record_is_complete_by_itself(finding: Finding) -> None:
    """000-06, 000-34, 000-35: from a record alone comes a finding with the same record, whatever its scales."""
    shown = strict_json.loads(strict_json.dumps(render_record(finding)))
    again = import_record(shown, AT)
    assert isinstance(again, Finding)
    assert (again.id, again.state, again.severity, again.fix) == (
        finding.id,
        FindingState.OPEN,
        finding.severity,
        finding.fix,
    )
    here = ("status", "triage_history", "x_state", "createdAt", "updatedAt", "agreement_count")
    then, now = render_record(again), render_record(finding)
    assert {key: then.get(key) for key in then if key not in here} == {key: now[key] for key in now if key not in here}
    for ref in shown["evidence"]:
        assert ref["path"]
        assert len(ref.get("quote", "")) <= 240


@pytest.mark.parametrize(
    ("key", "value", "name"),
    [
        ("task", "TASK-8", "task"),
        ("task", "", "task"),
        ("scope", "src/auth", "scope"),
        ("severity", "critical", "severity"),
        ("reproduction", "Rotate twice.", "reproduction"),
        ("recommendation", "Revoke both.", "fix"),
        ("min_fix_scope", "rotate only", "min_fix_scope"),
        ("suggested_regression_tests", ["rotation revokes"], "regression_tests"),
        ("x_system_breaking", True, "system_breaking"),
    ],
)
def test_a_legal_edit_is_an_event_and_is_shown_afterwards(key: str, value: Any, name: str) -> None:
    """PutGet, 000-25 to 000-29, 000-36: one field that differs is one change, and nothing else is."""
    finding = a_finding()
    result = edited(finding, **{key: value})
    (event,) = result.events
    assert isinstance(event, FieldsEdited)
    assert (list(event.changes), event.by, event.at, result.problems) == ([name], "stage:fix", AT, ())
    again = render_record(after(finding, event))
    assert again[key] == value
    same = {other for other in KEYS if other not in (key, "updatedAt")}
    assert {other: again[other] for other in same} == {other: render_record(finding)[other] for other in same}


@given(findings(), st.sampled_from(("critical", "high", "medium", "low")), st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_edit_never_makes_less_of_a_finding(finding: Finding, severity: str, must: bool) -> None:  # noqa: FBT001 - drawn
    """0-37: for all findings, gate and severity can be raised by an edit, never lowered."""
    wanted: dict[str, Any] = {"severity": severity, "gate": "must" if must else "suggest", "x_system_breaking": False}
    edits = edited(finding, "stage:fix", **wanted)
    then = after(finding, *edits.all)
    assert then.severity.rank <= finding.severity.rank
    assert (then.gate.value, then.system_breaking) >= (finding.gate.value, finding.system_breaking) or must
    assert then.system_breaking is finding.system_breaking
    assert finding.gate.value != "must" or then.gate.value == "must"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("schemaVersion", 0), ("kind", "x"), ("role", "x"), ("authority", "x"), ("type", "x")),
        *(("findingId", "fnd_0"), ("reviewId", "REV-1-a"), ("signature", "sha256:0"), ("sources", [])),
        *(("lens", "qa"), ("agreement_count", 9), ("createdAt", "2020-01-01")),
        *(("title", " "), ("title", "Another"), ("category", "bug"), ("gate", "may"), ("gate", None)),
        *(("gate", "suggest"), ("severity", "low"), ("confidence", "low")),
        *(("severity", "info"), ("severity", ["high"]), ("confidence", 0.9), ("task", "7"), ("scope", None)),
        *(("evidence", []), ("evidence", "a.py:3"), ("evidence", [{"quote": "x"}]), ("evidence", [{"path": ""}])),
        ("evidence", [{"path": "a.py", "startLine": 0, "endLine": 3}]),
        ("evidence", [{"path": "a.py", "startLine": 5, "endLine": 3}]),
        ("evidence", [{"path": "a.py", "startLine": 5}]),
        ("evidence", [{"path": "a.py", "startLine": True, "endLine": True}]),
        ("evidence", [{"path": "a.py", "quote": "x" * 241}]),
        ("evidence", [{"path": "a.py", "quote": 3}]),
        ("evidence", [{"path": "a.py", "url": "x"}]),
        ("reasoning", "rotation does not revoke the PREVIOUS token!"),
        *(("reasoning", ""), ("reasoning", 3), ("reproduction", 3), ("recommendation", " "), ("min_fix_scope", None)),
        *(("suggested_regression_tests", "one"), ("x_severity", "info"), ("x_system_breaking", 1)),
        *(
            ("status", "done"),
            ("status", None),
            ("status", "fixed"),
            ("status", "wont-fix"),
            ("x_state", "reopened_"),
            ("x_state", "fix_claimed"),
        ),
    ],
)
def test_an_illegal_edit_is_reported_and_not_applied(key: str, value: Any) -> None:
    """000-26 to 000-37: ids, computed fields and words that no scale has; the field is named, and nothing happens."""
    result = edited(a_finding(), **{key: value})
    assert result.events == ()
    (problem,) = result.problems
    assert f"`{key}`" in problem
    assert "fnd_a1b2c3d4" in problem


@pytest.mark.parametrize("value", [None, 3, [], {}, "", "yesterday"])
def test_the_time_in_a_record_is_not_an_edit(value: Any) -> None:
    """Whatever somebody writes as `updatedAt`, the other fields are read."""
    result = edited(a_finding(), updatedAt=value, scope="src")
    assert ([type(event) for event in result.events], result.problems) == ([FieldsEdited], ())


def test_an_illegal_edit_does_not_cost_a_legal_one() -> None:
    """Each field stands for itself."""
    result = edited(a_finding(), severity="urgent", scope="src")
    assert [event.changes for event in result.events if isinstance(event, FieldsEdited)] == [{"scope": "src"}]
    assert len(result.problems) == 1


def test_a_missing_required_key_is_reported() -> None:
    """000-21: a record without a required key has lost something; an optional one may be missing."""
    shown = render_record(a_finding())
    for key in ("scope", "reproduction", "min_fix_scope", "agreement_count"):
        del shown[key]
    assert read_record_edits(a_finding(), shown, AT, "user") == ViewEdits()
    del shown["title"]
    assert "`title`" in read_record_edits(a_finding(), shown, AT, "user").problems[0]


def test_unknown_keys_are_kept() -> None:
    """Unknown keys survive: they are an edit when they are new, and are shown again."""
    finding = a_finding()
    (event,) = edited(finding, jira="ABC-1").events
    assert isinstance(event, FieldsEdited)
    assert event.changes == {"ext": {"record": {"jira": "ABC-1"}}}
    kept = a_finding(ext={"record": {"jira": "ABC-1", "title": "not this one"}})
    assert render_record(kept)["jira"] == "ABC-1"
    assert render_record(kept)["title"] == finding.title
    assert (
        read_record_edits(a_finding(ext={"record": {"jira": "ABC-1"}}), render_record(kept), AT, "user") == ViewEdits()
    )


def test_a_fixed_finding_that_is_set_to_open_is_reopened() -> None:
    """C-03: the record has no word for it, so that it is beside."""
    for state in (FindingState.VERIFIED_FIXED, FindingState.FIX_CLAIMED):
        then = after(a_finding(state=state), *edited(a_finding(state=state), status="open").events)
        assert then.state is FindingState.REOPENED
        assert (render_record(then)["status"], render_record(then)["x_state"]) == ("open", "reopened")


SUGGESTED = {"gate": {"value": "suggest"}}


def test_a_dismissal_is_tied_to_what_was_dismissed() -> None:
    """000-46: so that it can be asked again when the evidence has changed."""
    finding = a_finding(**SUGGESTED)
    (event,) = edited(finding, status="false-positive", triage_history=entries("false-positive")).events
    assert isinstance(event, StateChanged)
    assert event.suppression is not None
    assert event.suppression.digest
    assert (event.by, event.suppression.by) == ("stage:fix", "stage:fix"), "whoever the entry names"


@pytest.mark.parametrize("by", ["user", "revalidate", "finish-task", "orchestrator"])
@pytest.mark.parametrize("status", ["fixed", "false-positive", "wont-fix", "uncertain"])
def test_an_edit_cannot_close_what_must_be_fixed(by: str, status: str) -> None:
    """000-43, 0-37: whoever an entry names, it is an agent's; it is refused, and the history says so."""
    entry = {"at": AT, "status": status, "note": "done", "by": by}
    for result in (edited(a_finding(), status=status, triage_history=[entry]), edited(a_finding(), status=status)):
        assert (result.events, len(result.problems), len(result.notes)) == ((), 1, 1)


def test_no_dismissal_without_a_note() -> None:
    """0-37: an entry without a word is refused."""
    entry = {"at": AT, "status": "wont-fix", "note": " ", "by": "user"}
    result = edited(a_finding(**SUGGESTED), status="wont-fix", triage_history=[entry])
    assert (result.events, len(result.problems)) == ((), 1)


def entries(*statuses: str, by: str = "user") -> list[dict[str, str]]:
    return [
        {"at": f"2026-05-{day:02}T10:12:00Z", "status": status, "note": f"n{day}", "by": by}
        for day, status in enumerate(statuses, 1)
    ]


def ours(*given: dict[str, str]) -> list[dict[str, str]]:
    return [{**entry, "by": "orchestrator", "x_by": "stage:fix"} for entry in given]


def test_entries_that_are_added_are_applied_in_order() -> None:
    """000-40, 000-41, PutGet: the history afterwards is the old one and then what was added, to the letter."""
    finding = a_finding(**SUGGESTED)
    first = edited(finding, status="open", triage_history=entries("false-positive", "open"))
    then = after(finding, *first.events)
    assert render_record(then)["triage_history"] == ours(*entries("false-positive", "open"))
    *known, added = entries("false-positive", "open", "wont-fix")
    file = {**render_record(then), "status": "wont-fix", "triage_history": [*ours(*known), added]}
    again = after(then, *read_record_edits(then, file, AT, "stage:fix").events)
    assert render_record(again)["triage_history"] == ours(*known, added)
    assert again.state is FindingState.WONT_FIX
    assert read_record_edits(again, file, AT, "stage:fix") == ViewEdits(), "an entry is applied once, whoever it names"


@pytest.mark.parametrize(
    "history",
    [
        [],
        entries("false-positive"),
        list(reversed(entries("false-positive", "open"))),
        [entries("false-positive")[0], {**entries("x", "open")[1], "note": "another"}],
        "none",
    ],
)
def test_a_history_is_neither_shortened_nor_rewritten(history: Any) -> None:
    """000-41: what was there must be the beginning of what is there; else it is refused, and no status changes."""
    finding = a_finding(**SUGGESTED)
    added = edited(finding, status="open", triage_history=entries("false-positive", "open"))
    then = after(finding, *added.events)
    changed = {**render_record(then), "triage_history": history, "status": "open"}
    result = read_record_edits(then, changed, AT, "user")
    assert (result.events, "`triage_history`" in result.problems[0]) == ((), True)
    if history == []:
        dated = {**changed, "updatedAt": "2027-01-01T00:00:00Z"}
        assert read_record_edits(then, dated, AT, "user").problems, "whatever date an agent writes into it"


@pytest.mark.parametrize(
    "entry",
    [
        *("fixed", {}, {"at": AT, "status": "fixed"}, {"at": AT, "status": "done", "by": "user"}),
        {"at": AT, "status": "fixed", "by": "me"},
        {"at": "yesterday", "status": "fixed", "by": "user"},
        {"at": AT, "status": "fixed", "by": "user", "note": 3},
        {"at": AT, "status": 3, "by": "user"},
    ],
)
def test_an_incomplete_history_entry_is_reported(entry: Any) -> None:
    """000-40: an entry has a time, a status and one of four actors."""
    result = edited(a_finding(), status="fixed", triage_history=[entry])
    assert (result.events, len(result.problems)) == ((), 1)


def test_a_status_that_contradicts_the_history_is_reported() -> None:
    """000-42: status and history are changed together."""
    result = edited(a_finding(), status="open", triage_history=entries("wont-fix"))
    assert result.events == ()
    assert "differ" in result.problems[0]


def test_an_old_record_is_not_an_edit() -> None:
    """A record of an earlier moment takes nothing back. Only its triage is read: an old value may not be an edit."""
    finding = a_finding(**SUGGESTED)
    old = render_record(finding)
    now = after(
        finding,
        StateChanged(at=AT, id=finding.id, state=FindingState.FALSE_POSITIVE, by="user"),
        FieldsEdited(at=AT, id=finding.id, by="user", changes={"title": "Another", "severity": "medium"}),
    )
    for changes in ({}, {"scope": "src"}, {"jira": "ABC-1"}):
        result = read_record_edits(now, {**old, **changes}, AT, "user")
        assert (result.events, result.problems, result.outdated) == ((), (), True)
    added = {**old, "status": "wont-fix", "triage_history": entries("wont-fix")}
    late = read_record_edits(now, added, AT, "stage:fix")
    assert (late.events, len(late.problems)) == ((), 1), "a person dismissed it meanwhile"


def test_a_status_of_an_old_record_is_judged_by_what_it_showed() -> None:
    """The status that the record showed at its moment is not an edit; any other is, and an agent may reopen."""
    finding = a_finding(**SUGGESTED)
    dismissed = after(
        finding, change_state(finding, FindingState.WONT_FIX, at="2026-05-01T00:00:00Z", by="stage:a", note="no")
    )
    shown = render_record(dismissed)
    later = PassId("REV-2-b")
    seen = ReportedAgain(at=AT, id=finding.id, pass_id=later, observed=Observed.UNCHANGED, strength=Strength.EXACT)
    now = replace_by(dismissed, seen)
    assert read_record_edits(now, shown, AT, "user").events == ()
    (event,) = read_record_edits(now, {**shown, "status": "open"}, AT, "user").events
    assert isinstance(event, StateChanged)
    assert event.state is FindingState.OPEN


def test_decisions_of_another_clone_are_merged_and_the_later_one_wins() -> None:
    """000-41: the history of a file that another clone wrote is united with ours, and read once."""
    finding = a_finding(**SUGGESTED)
    ours = after(
        finding, change_state(finding, FindingState.WONT_FIX, at="2026-05-20T00:00:00Z", by="stage:a", note="no")
    )
    theirs = after(
        finding, change_state(finding, FindingState.FALSE_POSITIVE, at="2026-05-10T00:00:00Z", by="stage:b", note="n")
    )
    file = render_record(theirs)
    result = read_record_edits(ours, file, AT, "user")
    both = replace_by(ours, *result.events)
    assert both.state is FindingState.WONT_FIX
    shown = render_record(both)["triage_history"]
    assert [entry["status"] for entry in shown] == ["wont-fix", "false-positive", "wont-fix"]
    assert read_record_edits(both, file, AT, "user").events == ()


def test_a_pass_that_sees_it_again_is_in_the_history() -> None:
    """000-23, 000-24, 000-44: seen again, the record names the new pass and has one more entry."""
    finding = a_finding()
    later = PassId("REV-2-b")
    seen = ReportedAgain(at=AT, id=finding.id, pass_id=later, observed=Observed.UNCHANGED, strength=Strength.EXACT)
    shown = render_record(after(finding, seen))
    assert (shown["reviewId"], shown["findingId"]) == ("REV-2-b", "fnd_a1b2c3d4")
    assert shown["triage_history"] == [{"at": AT, "status": "open", "note": "unchanged, exact", "by": "orchestrator"}]


def test_an_actor_that_the_record_cannot_name_is_kept_in_an_extra_field() -> None:
    """000-40: the four actors are all a record has; who it really was is not lost."""
    then = after(
        a_finding(), StateChanged(at=AT, id=a_finding().id, state=FindingState.UNCERTAIN, by="alice", note="?")
    )
    assert render_record(then)["triage_history"] == [
        {"at": AT, "status": "uncertain", "note": "?", "by": "orchestrator", "x_by": "alice"}
    ]


def test_states_and_severities_that_the_scales_lack_are_kept_in_extra_fields() -> None:
    """C-01, C-02, C-03, C-07: a claimed fix, a reopened finding and one for information."""
    claimed = render_record(a_finding(state="fix_claimed", severity="info"))
    assert (claimed["status"], claimed["x_state"]) == ("uncertain", "fix_claimed")
    assert (claimed["severity"], claimed["x_severity"]) == ("low", "info")
    plain = render_record(a_finding(state="uncertain", severity="low"))
    assert not {"x_state", "x_severity"} & set(plain)
    assert edited(a_finding(severity="info"), x_severity=None).problems
    low = after(a_finding(severity="info"), *edited(a_finding(severity="info"), x_severity="low").events)
    assert low.severity == "low"
    uncertain = edited(a_finding(state="fix_claimed"), x_state="uncertain").events
    assert after(a_finding(state="fix_claimed"), *uncertain).state is FindingState.UNCERTAIN


def test_a_missing_fix_is_marked() -> None:
    """C-15, 000-30: the required fields are never empty, and a missing fix has its own flag."""
    shown = render_record(a_finding(fix=None))
    assert shown["recommendation"].endswith(a_finding().impact)
    assert shown["x_fix_absent"] is True
    silent = render_record(a_finding(impact="Rotation does not revoke the previous token."))
    assert norm_title(silent["reasoning"]) != norm_title(silent["title"])
    assert silent["x_reasoning_absent"] is True
    (event,) = edited(a_finding(fix=None), recommendation="Do this.").events
    assert "x_fix_absent" not in render_record(after(a_finding(fix=None), event))


def test_what_rests_on_no_file_rests_on_its_task() -> None:
    """000-36: a requirement that is not met names its work item, and quotes it."""
    shown = render_record(a_finding(locations=[], evidence=[{"raw": "AC 3: users stay signed in"}]))
    assert shown["evidence"] == [{"path": "TASK-7", "quote": "AC 3: users stay signed in"}]
    assert render_record(a_finding(evidence=[]))["evidence"] == [
        {"path": "src/auth/session.ts", "startLine": 84, "endLine": 84}
    ]


@pytest.mark.parametrize("key", ["findingId", "title", "status", "signature", "lens"])
def test_an_incomplete_record_is_not_imported(key: str) -> None:
    """000-21: without a required key there is no finding, and the reason names it."""
    shown = render_record(a_finding())
    del shown[key]
    assert f"`{key}`" in str(import_record(shown, AT))


@pytest.mark.parametrize(
    "odd",
    [{"confidence": "sure"}, {"status": "done"}, {"triage_history": [{}]}, {"sources": 3}, {"evidence": [{}]}],
)
def test_an_invalid_record_is_not_imported(odd: dict[str, Any]) -> None:
    """A foreign record is checked as an edit is."""
    assert isinstance(import_record({**render_record(a_finding()), **odd}, AT), str)


def a_pass(**fields: Any) -> Pass:
    known: dict[str, Any] = {
        "id": "REV-1767322800-abc1234",
        "started_at": "2026-01-02T03:00:00Z",
        "task": "7",
        "branch": "topic",
        "base": "main",
        "head": "abc1234" + "0" * 33,
        "caller": "finish-task",
        "round": 2,
        "finding_ids": ("fnd_1", "fnd_2", "fnd_3"),
        "patterns": (Pattern(id="P1", name="n", location="l", rationale="r", destination="CLAUDE.md"),),
        "reviewer_verdicts": (ReviewerVerdict(reviewer="qa", verdict="SHIP", argument="fine"),),
    }
    return Pass.model_validate(known | fields)


GATED = {
    FindingId(f"fnd_{number}"): a_finding(id=f"fnd_{number}", gate={"value": gate})
    for number, gate in ((1, "must"), (2, "suggest"), (3, "suggest"), (4, "must"))
}


def test_the_record_of_a_pass_counts_by_itself() -> None:
    """000-10 to 000-13, 000-50, 000-51: the keys in order, and the counts from the gates of its findings."""
    shown = render_pass(a_pass(), GATED, Shipping.BLOCK_ON_MUSTS)
    assert list(shown) == [
        *("schemaVersion", "id", "type", "task", "skill", "branch", "base", "diff_sha", "started_at", "verdict"),
        *("must_count", "suggest_count", "caller", "round", "finding_ids", "patterns", "reviewer_verdicts"),
    ]
    assert (shown["must_count"], shown["suggest_count"], shown["finding_ids"]) == (1, 2, ["fnd_1", "fnd_2", "fnd_3"])
    assert (shown["verdict"], shown["task"], shown["type"]) == ("block-on-MUSTs", "TASK-7", "review")
    assert shown["diff_sha"].startswith("abc1234")
    assert list(shown["patterns"][0]) == ["id", "name", "location", "rationale", "destination"]
    assert shown["reviewer_verdicts"] == [{"reviewer": "qa", "verdict": "SHIP", "argument": "fine"}]


def test_the_record_of_a_clean_pass() -> None:
    """000-12, 000-17: a clean pass has an empty list, and ships."""
    shown = render_pass(a_pass(finding_ids=()), GATED, Shipping.SHIP)
    assert (shown["finding_ids"], shown["must_count"], shown["suggest_count"], shown["verdict"]) == ([], 0, 0, "ship")


def test_a_pass_with_gaps_does_not_ship() -> None:
    """000-15, 000-17: who resumes looks at the verdict alone, so that silence must not look like a pass."""
    gaps = Coverage(reviewers={"qa": ReportStatus.MISSING}, problems={"qa": "timed out"})
    shown = render_pass(a_pass(finding_ids=(), coverage=gaps), {}, Shipping.SHIP)
    assert (shown["verdict"], shown["x_incomplete"]) == ("block-on-rejection", {"qa": "timed out"})
