"""Records of findings and passes: written from the ledger; only the triage of a finding is read back."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from tests.unit.findings.ledgers import changed as change_of
from tests.unit.findings.ledgers import look
from tests.unit.findings.strategies import findings

from pipeline.findings.events import Coverage, FindingChanged, FindingRaised, Look, Pass, PassRecorded, Pattern
from pipeline.findings.fingerprints import norm_title
from pipeline.findings.formats import strict_json
from pipeline.findings.formats.record import import_record, read_record_edits, render_pass, render_record
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Finding, FindingId, FindingState, Gate, PassId, ReportStatus, Severity, What
from pipeline.findings.reviews import review
from pipeline.findings.triage import decision
from pipeline.language.model import Lens

AT = "2026-06-01T00:00:00Z"
WHERE = ".wystack/findings/fnd_a1b2c3d4.json"
KEYS = [
    *("schemaVersion", "kind", "role", "authority", "type", "findingId", "reviewId", "task", "scope", "title"),
    *("category", "gate", "severity", "confidence", "evidence", "reasoning", "reproduction", "recommendation"),
    *("min_fix_scope", "suggested_regression_tests", "status", "triage_history", "signature", "sources", "lens"),
    *("agreement_count", "createdAt", "updatedAt"),
]


def a_finding(**fields: Any) -> Finding:
    known: dict[str, Any] = {
        "id": "fnd_a1b2c3d4",
        "line": "fnd_a1b2c3d4",
        "signature": "sha256:a1b2c3d4",
        "title": "Rotation does not revoke the previous token",
        "impact": "A captured token can be exchanged after rotation.",
        "fix": "Revoke the prior token.",
        "category": "security",
        "severity": "high",
        "confidence": {"value": 100, "scale": "anchor", "native": 100},
        "gate": "must",
        "locations": [{"path": "src/auth/session.ts", "start": 84}],
        "evidence": [
            {"path": "src/auth/session.ts", "start": 84, "end": 91, "symbol": "rotate", "quote": "save(new)"},
            {"raw": "nobody calls revoke"},
        ],
        "reviewer": "code-reviewer",
        "task": "TASK-7",
        "pass_id": "REV-1767322800-abc1234",
        "created_at": "2026-01-02T03:04:05Z",
        "updated_at": "2026-01-02T03:04:05Z",
    }
    return Finding.model_validate(known | fields)


def ledger_of(*found: Finding) -> Ledger:
    return Ledger(FindingRaised(at=finding.created_at, finding=finding) for finding in found)


def shown(finding: Finding, *others: Finding) -> dict[str, Any]:
    """The record of a finding, as JSON gives it back."""
    ledger = ledger_of(finding, *others)
    text = strict_json.dumps(render_record(ledger.findings[finding.id], ledger.line(finding.id)))
    record: dict[str, Any] = strict_json.loads(text)
    return record


def read(finding: Finding, record: dict[str, Any], by: str = "stage:fix") -> ViewEdits:
    return read_record_edits(finding, ledger_of(finding).line(finding.id), record, WHERE, by)


def edited(finding: Finding, **fields: Any) -> ViewEdits:
    return read(finding, {**shown(finding), **fields})


def changes(edits: ViewEdits) -> list[FindingChanged]:
    """The edits of a record, all of which are changes of findings."""
    found = [event for event in edits.events if isinstance(event, FindingChanged)]
    assert len(found) == len(edits.events)
    return found


def after(finding: Finding, *events: Any) -> Finding:
    ledger = ledger_of(finding)
    for event in events:
        ledger.apply(event)
    return ledger.findings[finding.id]


SUGGESTED = {"gate": "suggest"}


def entries(*statuses: str) -> list[dict[str, str]]:
    """Entries that somebody adds to a triage, one for each day of May."""
    return [
        {"at": f"2026-05-{day:02}T10:12:00Z", "status": status, "note": f"n{day}", "by": "user"}
        for day, status in enumerate(statuses, 1)
    ]


def ours(*given: dict[str, str]) -> list[dict[str, str]]:
    """The same entries as a record shows them: said by the one who edited the file."""
    return [{**entry, "by": "orchestrator", "x_by": "stage:fix"} for entry in given]


# --- what is written -------------------------------------------------------------------------------------------------


def test_a_record_has_exactly_these_keys_in_this_order() -> None:
    """000-20, 000-21, 000-05: ids and dates have one style, the rest the other, and its kind has four names."""
    record = shown(a_finding())
    assert list(record) == KEYS
    assert [record[key] for key in KEYS[:5]] == [1, "entity", "claim", "computed", "review.finding"]
    assert (record["findingId"], record["reviewId"]) == ("fnd_a1b2c3d4", "REV-1767322800-abc1234")
    assert (record["gate"], record["severity"], record["confidence"]) == ("must", "high", "high")
    assert (record["reproduction"], record["task"], record["lens"]) == (None, "TASK-7", "code-review")


def test_sources_are_all_reviewers_of_the_line_of_work() -> None:
    """000-33: the reviewer of the finding comes first, and two independent reviewers are a higher signal."""
    first = a_finding()
    second = a_finding(id="fnd_2", signature="sha256:2", reviewer="qa", line=first.id)
    assert (shown(first, second)["sources"], shown(first, second)["agreement_count"]) == (["code-reviewer", "qa"], 2)
    ledger = ledger_of(first, second)
    other = render_record(ledger.findings[second.id], ledger.line(second.id))
    assert (other["sources"], other["x_line"]) == (["qa", "code-reviewer"], first.id)


def test_every_change_of_a_finding_is_an_entry_of_its_triage() -> None:
    """000-23, 000-24, 000-40, 000-44: each has its status, its role and who said it, and the last pass is named."""
    seen = {"pass_id": "REV-2-b"}
    id = FindingId("fnd_a1b2c3d4")
    said = (
        change_of(1, What.SEEN, by=Actor.ORCHESTRATOR, who="qa", note="exact", fields=seen),
        change_of(1, What.CLAIM, by=Actor.FINISH_TASK, who="fix", word="fixed", state=FindingState.FIX_CLAIMED),
        change_of(1, What.RULING, who="qa", word="fixed", note="gone", state=FindingState.VERIFIED_FIXED),
        change_of(1, What.MAY_BE, who="qa", ref="fnd_2"),
        change_of(1, What.TRIAGE, who="user", by=Actor.USER, word="open", note="no", state=FindingState.REOPENED),
    )
    record = shown(after(a_finding(), *(replace(event, id=id) for event in said)))
    assert record["reviewId"] == "REV-2-b"
    assert [(one["status"], one["note"], one["by"], one.get("x_by")) for one in record["triage_history"]] == [
        ("open", "exact", "orchestrator", "qa"),
        ("uncertain", "fixed", "finish-task", "fix"),
        ("fixed", "gone", "revalidate", "qa"),
        ("open", "no", "user", None),
    ]


def test_states_that_the_scale_lacks_are_kept_in_an_extra_field() -> None:
    """C-01, C-02, C-03, C-07: a claimed fix and a reopened finding have a field beside; information is `low`."""
    claimed = shown(a_finding(state="fix_claimed", severity="info"))
    assert (claimed["status"], claimed["x_state"], claimed["severity"]) == ("uncertain", "fix_claimed", "low")
    reopened = shown(a_finding(state="reopened"))
    assert (reopened["status"], reopened["x_state"]) == ("open", "reopened")
    assert "x_state" not in shown(a_finding(state="uncertain"))


def test_a_missing_fix_or_reason_is_marked() -> None:
    """C-15, 000-30: the required fields are never empty, and what was not said has its own flag."""
    record = shown(a_finding(fix=None))
    assert record["recommendation"].endswith(a_finding().impact)
    assert record["x_fix_absent"] is True
    silent = shown(a_finding(impact="Rotation does not revoke the previous token."))
    assert silent["reasoning"]
    assert norm_title(silent["reasoning"]) != norm_title(silent["title"])


def test_what_rests_on_no_file_rests_on_its_task() -> None:
    """000-36: a requirement that is not met names its work item, and quotes it."""
    record = shown(a_finding(locations=[], evidence=[{"raw": "AC 3: users stay signed in"}]))
    assert record["evidence"] == [{"path": "TASK-7", "quote": "AC 3: users stay signed in"}]
    assert shown(a_finding(evidence=[]))["evidence"] == [
        {"path": "src/auth/session.ts", "startLine": 84, "endLine": 84}
    ]


# --- what is read back -----------------------------------------------------------------------------------------------


@given(findings())
@settings(max_examples=60, deadline=None)
def test_what_is_left_alone_changes_nothing(finding: Finding) -> None:
    """A record that nobody edited says nothing, whatever the finding."""
    known = ledger_of(finding).findings[finding.id]
    assert list(shown(known))[:28] == KEYS
    assert read(known, shown(known)) == ViewEdits()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("schemaVersion", 0), ("findingId", "fnd_0"), ("signature", "sha256:0"), ("sources", ["qa"])),
        *(("title", "Another"), ("gate", "suggest"), ("severity", "low"), ("severity", "critical"), ("scope", None)),
        *(("evidence", []), ("recommendation", "Revoke both."), ("updatedAt", "yesterday"), ("jira", "ABC-1")),
        *(("agreement_count", True), ("x_state", "reopened"), ("x_system_breaking", True)),
    ],
)
def test_every_other_field_is_put_back(key: str, value: Any) -> None:
    """000-42: only the triage is read, and one sentence names the field that was edited."""
    result = edited(a_finding(), **{key: value})
    assert result.events == ()
    (problem,) = result.problems
    assert f"`{key}`" in problem
    assert WHERE in problem


def test_a_field_that_is_missing_is_put_back() -> None:
    """The sentence names it too."""
    record = shown(a_finding())
    del record["title"]
    assert "`title`" in read(a_finding(), record).problems[0]


def test_entries_that_are_added_are_applied_in_order() -> None:
    """000-40, 000-41: the history afterwards is the old one and then what was added, and it is applied once."""
    finding = a_finding(**SUGGESTED)
    first = edited(finding, status="open", triage_history=entries("false-positive", "open"))
    assert first.problems == ()
    then = after(finding, *first.events)
    assert shown(then)["triage_history"] == ours(*entries("false-positive", "open"))
    *known, added = entries("false-positive", "open", "wont-fix")
    file = {**shown(then), "status": "wont-fix", "triage_history": [*ours(*known), added]}
    again = after(then, *read(then, file).events)
    assert shown(again)["triage_history"] == ours(*known, added)
    assert again.state is FindingState.WONT_FIX
    late = read(again, file)
    assert (late.events, "`triage_history`" in late.problems[0]) == ((), True)


def test_a_dismissal_is_an_agents_and_tied_to_what_was_dismissed() -> None:
    """000-46, 0-37: whoever the entry names, and it is asked again when the evidence has changed."""
    finding = a_finding(**SUGGESTED)
    (event,) = changes(edited(finding, status="false-positive", triage_history=entries("false-positive")))
    then = after(finding, event)
    assert then.state is FindingState.FALSE_POSITIVE
    assert then.suppression is not None
    assert then.suppression.digest
    assert (event.change.by, then.suppression.by, event.change.who) == ("orchestrator", "orchestrator", "stage:fix")


@pytest.mark.parametrize(
    ("status", "word", "state"),
    [
        ("fixed", "fixed", FindingState.FIX_CLAIMED),
        ("wont-fix", "wrong", FindingState.OPEN),
        ("false-positive", "wrong", FindingState.OPEN),
    ],
)
def test_an_entry_never_closes_what_must_be_fixed(status: str, word: str, state: FindingState) -> None:
    """000-43, 0-37: `fixed` claims a fix, and a dismissal disputes; the finding stays open whoever the entry names."""
    finding = a_finding()
    (event,) = changes(edited(finding, status=status, triage_history=entries(status)))
    assert (event.change.what, event.change.word) == (What.CLAIM, word)
    assert after(finding, event).state is state


def test_a_fixed_finding_that_is_set_to_open_is_reopened() -> None:
    """C-03: an agent may take back a fix."""
    for state in (FindingState.VERIFIED_FIXED, FindingState.FIX_CLAIMED):
        finding = a_finding(state=state)
        then = after(finding, *edited(finding, status="open", triage_history=entries("open")).events)
        assert then.state is FindingState.REOPENED


@pytest.mark.parametrize("status", ["fixed", "wont-fix", "done", None])
def test_a_status_without_an_entry_says_nothing(status: Any) -> None:
    """000-42: status and history are changed together."""
    result = edited(a_finding(), status=status)
    assert (result.events, len(result.problems)) == ((), 1)
    assert "`triage_history`" in result.problems[0]


def test_an_entry_that_changes_nothing_is_not_dropped_in_silence() -> None:
    """It is no event, and one sentence says so."""
    for state, status in (("open", "open"), ("fix_claimed", "fixed")):
        result = edited(a_finding(state=state), triage_history=entries(status))
        assert (result.events, len(result.problems)) == ((), 1)


@pytest.mark.parametrize("status", ["fixed", "open", "wont-fix"])
def test_an_entry_takes_nothing_back_that_a_person_decided(status: str) -> None:
    """What a person dismissed stays dismissed, and the sentence says so."""
    finding = a_finding(**SUGGESTED)
    said = decision(finding, "false-positive", at=AT, by=Actor.USER, note="by design")
    known = after(finding, said)
    history = [*shown(known)["triage_history"], *entries(status)]
    result = read(known, {**shown(known), "status": status, "triage_history": history})
    assert [event for event in changes(result) if event.change.state] == []
    assert after(known, *result.events).state is FindingState.FALSE_POSITIVE
    assert len(result.problems) == 1


OUT_OF_RANGE = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")


@pytest.mark.parametrize(
    "entry",
    [
        *({}, {"at": AT, "status": "fixed"}, {"at": AT, "status": "done", "by": "user", "note": ""}),
        *({"at": AT, "status": "fixed", "by": "me", "note": ""}, {"at": AT, "status": 3, "by": "user", "note": ""}),
        *({"at": at, "status": "fixed", "by": "user", "note": ""} for at in ("yesterday", *OUT_OF_RANGE)),
        {"at": AT, "status": "fixed", "by": "user", "note": 3},
    ],
)
def test_an_incomplete_entry_is_refused(entry: Any) -> None:
    """000-40: an entry has a time, a status, a note and one of four actors."""
    result = edited(a_finding(), status="fixed", triage_history=[entry])
    assert (result.events, len(result.problems)) == ((), 1)


@pytest.mark.parametrize(
    "history", [[], entries("false-positive"), list(reversed(entries("false-positive", "open"))), "none", ["fixed"]]
)
def test_a_history_is_neither_shortened_nor_reordered(history: Any) -> None:
    """000-41: it is put back, and no status changes."""
    finding = a_finding(**SUGGESTED)
    added = edited(finding, status="open", triage_history=entries("false-positive", "open"))
    then = after(finding, *added.events)
    result = read(then, {**shown(then), "triage_history": history})
    assert (result.events, "`triage_history`" in result.problems[0]) == ((), True)


def test_a_record_of_an_earlier_moment_takes_nothing_back() -> None:
    """As after a checkout of an old commit: it is put back; what was added to its triage is judged by today."""
    finding = a_finding(**SUGGESTED)
    old = shown(finding)
    now = after(finding, decision(finding, "false-positive", at=AT, by=Actor.USER, note="by design"))
    assert read(now, old).events == ()
    late = read(now, {**old, "status": "wont-fix", "triage_history": entries("wont-fix")})
    assert after(now, *late.events).state is FindingState.FALSE_POSITIVE


def test_the_triage_of_another_clone_is_added_once() -> None:
    """000-41: the history of a file that another clone wrote is united with that of this one."""
    finding = a_finding(**SUGGESTED)
    here = after(finding, decision(finding, "wont-fix", at="2026-05-20T00:00:00Z", by=Actor.ORCHESTRATOR, note="late"))
    there = after(
        finding, decision(finding, "false-positive", at="2026-05-10T00:00:00Z", by=Actor.ORCHESTRATOR, note="no")
    )
    file = shown(there)
    both = after(here, *read(here, file).events)
    assert [one["status"] for one in shown(both)["triage_history"]] == ["wont-fix", "false-positive"]
    assert read(both, file).events == ()


# --- what is imported ------------------------------------------------------------------------------------------------


@given(findings())
@settings(max_examples=60, deadline=None)
def test_a_record_is_complete_by_itself(finding: Finding) -> None:
    """000-06, 000-34, 000-35: from a record alone comes a finding with the same record, which has four severities."""
    record = shown(finding)
    again = import_record(record, AT)
    assert isinstance(again, Finding)
    severity = Severity.LOW if finding.severity is Severity.INFO else finding.severity
    state = FindingState.UNCERTAIN if finding.state is FindingState.UNCERTAIN else FindingState.OPEN
    assert (again.id, again.state, again.severity, again.fix) == (finding.id, state, severity, finding.fix)
    here = ("status", "triage_history", "x_state", "createdAt", "updatedAt")
    then = shown(again)
    assert {key: then[key] for key in then if key not in here} == {
        key: record[key] for key in record if key not in here
    }
    for ref in record["evidence"]:
        assert ref["path"]
        assert len(ref.get("quote", "")) <= 240


def test_unknown_keys_of_an_imported_record_are_kept() -> None:
    """They are shown again, and never in place of a field."""
    again = import_record({**shown(a_finding()), "jira": "ABC-1"}, AT)
    assert isinstance(again, Finding)
    assert shown(again)["jira"] == "ABC-1"
    assert shown(a_finding(ext={"record": {"title": "not this one"}}))["title"] == a_finding().title


def test_what_an_imported_record_says_is_in_the_history_and_decides_nothing() -> None:
    """A record that says `fixed` is open here, and its history says what it was."""
    record = {**shown(a_finding()), "status": "fixed", "triage_history": entries("fixed")}
    again = import_record(record, AT)
    assert isinstance(again, Finding)
    assert again.state is FindingState.OPEN
    assert [one["status"] for one in shown(again)["triage_history"]] == ["open", "open"]
    assert "fixed: n1" in [one["note"] for one in shown(again)["triage_history"]]


@pytest.mark.parametrize("time", ["yesterday", 3, None, OUT_OF_RANGE[0]])
def test_an_odd_time_loses_no_record(time: Any) -> None:
    """The finding is as old as its import."""
    again = import_record({**shown(a_finding()), "createdAt": time}, AT)
    assert isinstance(again, Finding)
    assert (again.created_at, again.history[0].at, again.updated_at) == (AT, AT, a_finding().updated_at)


@pytest.mark.parametrize("key", ["findingId", "title", "status", "signature", "lens"])
def test_an_incomplete_record_is_not_imported(key: str) -> None:
    """000-21: without a required key there is no finding, and the reason names it."""
    record = shown(a_finding())
    del record[key]
    assert f"`{key}`" in str(import_record(record, AT))


@pytest.mark.parametrize(
    "odd",
    [
        *({"confidence": "sure"}, {"status": "done"}, {"triage_history": [{}]}, {"sources": 3}, {"sources": []}),
        *({"evidence": [{}]}, {"evidence": [{"path": "a.py", "startLine": 5, "endLine": 3}]}, {"title": " "}),
        *({"evidence": [{"path": "a.py", "quote": "x" * 241}]}, {"task": "7"}, {"severity": "info"}),
        {"reasoning": "rotation does not revoke the PREVIOUS token!"},
    ],
)
def test_an_invalid_record_is_not_imported(odd: dict[str, Any]) -> None:
    """000-22 to 000-36: fields outside their scales and limits make a record unusable."""
    assert isinstance(import_record({**shown(a_finding()), **odd}, AT), str)


# --- passes ----------------------------------------------------------------------------------------------------------


def pass_records(*looks: Look, ids: tuple[str, ...] = ("fnd_1", "fnd_2", "fnd_3")) -> list[dict[str, Any]]:
    """The records of a pass with these looks, which reported three of four findings."""
    passed = Pass(
        id=PassId("REV-1767322800-abc1234"),
        started_at="2026-01-02T03:00:00Z",
        review="0badcafe",
        task="7",
        branch="topic",
        base="main",
        head="abc1234" + "0" * 33,
        caller="finish-task",
        round=2,
        finding_ids=ids,
        patterns=(Pattern(id="P1", name="n", location="l", rationale="r", destination="CLAUDE.md"),),
        coverage=Coverage(looks=looks),
    )
    gates = (Gate.MUST, Gate.SUGGEST, Gate.SUGGEST, Gate.MUST)
    lenses = (Lens.CODE_REVIEW, Lens.QA, Lens.CODE_REVIEW, Lens.QA)
    found = [
        a_finding(id=f"fnd_{n}", line=f"fnd_{n}", gate=gate, lens=lens, signature=f"sha256:{n}")
        for n, (gate, lens) in enumerate(zip(gates, lenses, strict=True), 1)
        if ids
    ]
    raised = [FindingRaised(at=AT, finding=finding) for finding in found]
    ledger = Ledger([PassRecorded(at=AT, assessment=passed), *raised])
    return [strict_json.loads(strict_json.dumps(one)) for one in render_pass(review(ledger), passed)]


def test_the_record_of_a_pass_counts_by_itself() -> None:
    """000-10 to 000-13, 000-50, 000-51: the keys are in order, and the gates of its findings are counted."""
    (record,) = pass_records(look("qa", verdict="SHIP", argument="fine"))
    assert list(record)[:17] == [
        *("schemaVersion", "id", "type", "task", "skill", "branch", "base", "diff_sha", "started_at", "verdict"),
        *("must_count", "suggest_count", "caller", "round", "finding_ids", "patterns", "reviewer_verdicts"),
    ]
    assert all(key.startswith("x_") for key in list(record)[17:])
    assert (record["must_count"], record["suggest_count"], record["finding_ids"]) == (1, 2, ["fnd_1", "fnd_2", "fnd_3"])
    assert (record["verdict"], record["task"], record["type"]) == ("block-on-MUSTs", "TASK-7", "review")
    assert (record["skill"], record["diff_sha"]) == ("code-review", "abc1234" + "0" * 33)
    assert list(record["patterns"][0]) == ["id", "name", "location", "rationale", "destination"]
    assert record["reviewer_verdicts"] == [{"reviewer": "qa", "verdict": "SHIP", "argument": "fine"}]


def test_a_clean_pass_ships_and_one_with_a_gap_does_not() -> None:
    """000-12, 000-15, 000-17: the list is empty, and silence does not look like a pass."""
    (clean,) = pass_records(look("qa"), ids=())
    assert (clean["finding_ids"], clean["must_count"], clean["suggest_count"], clean["verdict"]) == ([], 0, 0, "ship")
    (gap,) = pass_records(look("qa", ReportStatus.MISSING, problem="timed out"), ids=())
    assert (gap["verdict"], gap["x_looks"][0]["problem"]) == ("block-on-rejection", "timed out")


def test_several_lenses_have_a_record_each_below_that_of_the_pass() -> None:
    """000-56: the full review has all findings, each lens its own, and all have the one verdict."""
    whole, code, qa = pass_records(look("a"), look("b", lens=Lens.QA, verdict="SHIP"))
    assert [one["skill"] for one in (whole, code, qa)] == ["full-review", "code-review", "code-review"]
    assert [one.get("x_lens") for one in (whole, code, qa)] == [None, "code-review", "qa"]
    assert [one["finding_ids"] for one in (whole, code, qa)] == [
        ["fnd_1", "fnd_2", "fnd_3"],
        ["fnd_1", "fnd_3"],
        ["fnd_2"],
    ]
    assert [len(one["reviewer_verdicts"]) for one in (whole, code, qa)] == [1, 0, 1]
    assert {one["verdict"] for one in (whole, code, qa)} == {"block-on-MUSTs"}
