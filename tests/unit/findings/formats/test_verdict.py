"""The verdict file: agents of a team may move a status in it, and nothing else; other tools' files are read too."""

import itertools
import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from tests.unit.findings.drafts import readable, unreadable
from tests.unit.findings.ledgers import REVIEW, look, looked
from tests.unit.findings.strategies import ledgers

from pipeline.findings.events import Coverage, FindingChanged, FindingRaised, Pass, PassRecorded
from pipeline.findings.formats import FORMATS, strict_json, verdict
from pipeline.findings.formats.view_edits import ViewEdits
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, Change, Finding, FindingState, PassId, Report, ReportStatus, Severity, What
from pipeline.findings.reviews import review
from pipeline.findings.scales import VERDICT_STATUS
from pipeline.findings.verdicts import counts

AT, LATER = "2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z"
FIRST, SECOND = PassId("REV-1-abc"), PassId("REV-2-abc")
REPORT = "docs/code-reviews/2026-06-01-changeset-0badcafe.md"
RANKS = ("Blocker", "High", "Medium", "Low", "Info")
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
        "reviewer": "api-patterns",
        "pass_id": FIRST,
        "created_at": AT,
        "updated_at": AT,
    }
    return Finding.model_validate(known | fields)


def a_pass(id: PassId = FIRST, at: str = AT, coverage: Coverage | None = None, **more: Any) -> Pass:
    given: dict[str, Any] = {"review": REVIEW, "target": "origin/master..HEAD"} | more
    return Pass(id=id, started_at=at, coverage=coverage or looked(), **given)


def ledger_of(*found: Finding, passed: Pass | None = None) -> Ledger:
    """A ledger after one pass, which raised these findings."""
    ledger = Ledger([PassRecorded(at=AT, assessment=passed or a_pass())])
    for finding in found:
        known = replace(finding, history=finding.history or (raised(finding),))
        ledger.apply(FindingRaised(at=AT, finding=known))
    return ledger


def raised(finding: Finding) -> Change:
    return Change(at=AT, what=What.RAISED, who=finding.reviewer, by=Actor.ORCHESTRATOR, pass_id=FIRST)


def said(finding: Finding, state: str, what: What = What.CLAIM, at: str = LATER, **more: Any) -> Finding:
    """The finding after somebody said something about it that gave it another state."""
    change = Change(at=at, what=what, who="fix", by=Actor.FINISH_TASK, state=FindingState(state), **more)
    return replace(finding, state=FindingState(state), history=(raised(finding), change))


def shown(*found: Finding, passed: Pass | None = None) -> dict[str, Any]:
    """The file of a review with these findings."""
    return rendered(ledger_of(*found, passed=passed))


def rendered(ledger: Ledger) -> dict[str, Any]:
    """The file of the last review, as JSON gives it back."""
    assert ledger.last is not None
    document = verdict.render_verdict(review(ledger), ledger.last, REPORT)
    written: dict[str, Any] = strict_json.loads(strict_json.dumps(document))
    return written


def put(document: dict[str, Any], *found: Finding, written: dict[str, Any] | None = None) -> ViewEdits:
    """What was said in a file, by default in a fresh one of these findings."""
    ledger = ledger_of(*found)
    where = ".code-review/review-latest.json"
    return verdict.read_verdict_edits(document, written or rendered(ledger), ledger, where, at=LATER, by="stage:fix")


def changes(edits: ViewEdits) -> list[FindingChanged]:
    return [event for event in edits.events if isinstance(event, FindingChanged)]


def after(found: Finding, edits: ViewEdits) -> Finding:
    ledger = ledger_of(found)
    for event in edits.events:
        ledger.apply(event)
    return ledger.findings[found.id]


def every(document: dict[str, Any]) -> list[dict[str, Any]]:
    return list(verdict.items_of(document))


# --- what is written -------------------------------------------------------------------------------------------------


def test_the_file_has_the_keys_of_its_format() -> None:
    """001-03, 001-05, 001-07: the keys, their order, and the words of the scales."""
    document = shown(a_finding(id="fnd_1"))
    assert list(document) == [
        *("reviewId", "timestamp", "scope", "target", "mode", "verdict", "summary", "reportPath", "findings"),
    ]
    assert document["summary"] == {"blocker": 0, "high": 1, "medium": 0, "low": 0, "info": 0}
    assert (document["reviewId"], document["timestamp"], document["verdict"]) == (REVIEW, AT, "WARN")
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
        "x_history": 1,
    }


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
    (one,) = shown(a_finding(locations=[{"path": "src/api/routes.ts", **place}]))["findings"]
    assert (one["id"], one.get("lineRange")) == (id, lines)


@given(ledgers())
@settings(max_examples=60, deadline=None)
def test_a_fresh_file_has_what_is_open_and_nobody_edited_it(found: list[Finding]) -> None:
    """001-13, C-04, 001-07, 001-17: what is dismissed or older is not in it; the rest is `open`, in order."""
    fresh = [replace(one, history=()) for one in found]
    document = shown(*fresh)
    counting = [one for one in found if counts(one)]
    assert {one["x_finding"] for one in every(document)} == {one.id for one in counting}
    assert {one["status"] for one in every(document)} <= {"open"}
    ids = [one["id"] for one in document["findings"]]
    assert len(ids) == len(set(ids))
    assert all(
        0.5 <= one["confidence"] <= 1 and len(one["title"]) <= 120 and one["recommendation"] for one in every(document)
    )
    order = [(RANKS.index(one["severity"]), -one["confidence"], one["file"]) for one in document["findings"]]
    assert order == sorted(order)
    assert sum(document["summary"].values()) == len(counting)
    assert put(document, *fresh) == ViewEdits()


@pytest.mark.parametrize(
    ("state", "what", "more", "status"),
    [
        ("fix_claimed", What.CLAIM, {"word": "fixed"}, "fixed"),
        ("open", What.CLAIM, {"word": "wrong"}, "wont_fix"),
        ("wont_fix", What.TRIAGE, {}, "wont_fix"),
        ("false_positive", What.TRIAGE, {}, "wont_fix"),
        ("verified_fixed", What.RULING, {"pass_id": SECOND}, "verified"),
        ("reopened", What.RULING, {"pass_id": SECOND}, "reopened"),
        ("uncertain", What.TRIAGE, {}, "open"),
    ],
)
def test_what_was_said_since_the_review_is_a_status(state: str, what: What, more: dict[str, Any], status: str) -> None:
    """001-09, 001-10, C-01, C-03: claims and disputes are the team's, rulings are those of a later pass."""
    finding = said(a_finding(severity="critical"), state, what, **more)
    document = shown(finding)
    assert [one["status"] for one in document["findings"]] == [status]
    counts = status in ("open", "reopened")
    assert (document["summary"]["blocker"], document["verdict"]) == ((1, "FAIL") if counts else (0, "PASS"))


def test_what_was_said_before_the_review_is_open_or_gone() -> None:
    """001-13: a claim that this review did not confirm is `open` again, and what was closed before is not listed."""
    claimed = said(a_finding(), "fix_claimed")
    closed = said(a_finding(id="fnd_2", reviewer="qa"), "verified_fixed", What.RULING)
    earlier = a_pass(PassId("REV-0-abc"), review="0" * 8)
    ledger = ledger_of(claimed, closed, passed=earlier)
    ledger.apply(PassRecorded(at=AT, assessment=a_pass()))
    assert [(one["domain"], one["status"]) for one in rendered(ledger)["findings"]] == [("api-patterns", "open")]


def test_a_verification_keeps_the_review_and_has_its_own_time() -> None:
    """001-14: the id is that of the review it verifies, and the statuses are those of today."""
    fixed = said(a_finding(id="fnd_1"), "verified_fixed", What.RULING, pass_id=SECOND)
    still = said(a_finding(id="fnd_2", reviewer="qa"), "reopened", What.RULING, pass_id=SECOND)
    ledger = ledger_of(fixed, still)
    ledger.apply(PassRecorded(at=LATER, assessment=a_pass(SECOND, LATER, mode="verify")))
    document = rendered(ledger)
    assert (document["reviewId"], document["mode"], document["timestamp"]) == (REVIEW, "verify", LATER)
    assert {one["x_finding"]: one["status"] for one in every(document)} == {"fnd_1": "verified", "fnd_2": "reopened"}
    assert (document["verdict"], document["summary"]["high"]) == ("WARN", 1)


def test_of_findings_that_share_an_id_the_most_severe_is_shown() -> None:
    """C-05, 001-22: the others are beside it, and come up when it is closed."""
    low = a_finding(id="fnd_low", severity="low")
    sure = a_finding(id="fnd_sure", severity="critical", confidence={"value": 100})
    unsure = a_finding(id="fnd_unsure", severity="critical", confidence={"value": 50})
    for first, order in (
        (sure, ["fnd_sure", "fnd_unsure", "fnd_low"]),
        (said(sure, "fix_claimed"), ["fnd_sure", "fnd_unsure", "fnd_low"]),
        (said(sure, "verified_fixed", What.RULING, pass_id=SECOND), ["fnd_unsure", "fnd_low", "fnd_sure"]),
    ):
        document = shown(low, unsure, first)
        assert len(document["findings"]) == 1
        assert [one["x_finding"] for one in every(document)] == order


def test_members_of_a_line_of_work_are_listed_one_by_one() -> None:
    """Each has its own id and status, and names the line of work that it is part of."""
    first = a_finding(id="fnd_1")
    second = a_finding(id="fnd_2", reviewer="qa", line="fnd_1", severity="critical")
    assert [(one["x_finding"], one.get("x_line")) for one in shown(first, second)["findings"]] == [
        ("fnd_2", "fnd_1"),
        ("fnd_1", None),
    ]


def test_every_blocker_says_whether_it_breaks_the_system() -> None:
    """C-24: an ABORT can be computed again from the file."""
    document = shown(a_finding(severity="critical", system_breaking=True), a_finding(severity="critical", reviewer="b"))
    assert document["verdict"] == "ABORT"
    assert {one["domain"]: one["x_system_breaking"] for one in document["findings"]} == {
        "api-patterns": True,
        "b": False,
    }
    assert "x_system_breaking" not in shown(a_finding())["findings"][0]


def test_nothing_passes_that_was_not_looked_at() -> None:
    """001-11: an answer that is missing makes the verdict a FAIL, and the file says why."""
    missing = shown(passed=a_pass(coverage=Coverage(looks=(look("qa", ReportStatus.MISSING),))))
    assert (missing["verdict"], len(missing["x_incomplete"])) == ("FAIL", 1)
    breaking = a_finding(severity="critical", system_breaking=True)
    gap = a_pass(coverage=Coverage(looks=(look("qa", ReportStatus.MISSING),)))
    assert shown(breaking, passed=gap)["verdict"] == "ABORT"


def test_a_long_title_is_truncated_and_a_missing_fix_is_marked() -> None:
    """001-07, C-13, C-15: the limits of the file are kept, and what was not said is marked."""
    (one,) = shown(a_finding(title="y" * 121, fix=None))["findings"]
    assert one["title"] == "y" * 119 + "…"
    assert one["recommendation"].endswith(a_finding().impact)
    assert one["x_fix_absent"] is True
    assert shown(a_finding(title="y" * 120))["findings"][0]["title"] == "y" * 120


def test_a_quick_review_has_no_report() -> None:
    """001-06, 001-15: its path is empty."""
    assert shown(passed=a_pass(mode="quick"))["reportPath"] == ""
    assert shown()["reportPath"] == REPORT


# --- what is read back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["open", "reopened", "uncertain"])
@pytest.mark.parametrize(("status", "word"), [("fixed", "fixed"), ("wont_fix", "wrong")])
def test_a_team_may_claim_and_dispute(state: str, status: str, word: str) -> None:
    """001-09, 001-10, C-35: the move is one event with its note, and is shown; what must be fixed is open."""
    found = a_finding(state=state, gate="must")
    document = shown(found)
    document["findings"][0] |= {"status": status, "note": "by design"}
    edits = put(document, found)
    (event,) = changes(edits)
    assert (event.change.what, event.change.word, event.change.who, event.change.note) == (
        What.CLAIM,
        word,
        "stage:fix",
        "by design",
    )
    then = after(found, edits)
    assert (then.state.is_open, edits.problems) == (True, ())
    assert shown(then)["findings"][0]["status"] == status


@pytest.mark.parametrize(
    ("fields", "note", "state"),
    [
        ({}, "by design", "wont_fix"),
        ({}, None, "open"),
        ({}, " ", "open"),
        ({"gate": "must"}, "by design", "open"),
        ({"severity": "critical", "system_breaking": True}, "by design", "open"),
    ],
)
def test_a_team_dismisses_only_a_suggestion_and_only_with_a_note(fields: dict[str, Any], note: Any, state: str) -> None:
    """0-37: any other `wont_fix` is a dispute, which leaves the finding open."""
    found = a_finding(**fields)
    document = shown(found)
    document["findings"][0] |= {"status": "wont_fix"} | ({} if note is None else {"note": note})
    then = after(found, put(document, found))
    assert then.state == state
    assert then.disputed is (state == "open")


def test_a_team_may_take_back_what_it_said() -> None:
    """001-10: a claim or dispute that becomes `open` again reopens the finding; what is uncertain stays so."""
    for state, word, then in (
        ("fix_claimed", "fixed", FindingState.REOPENED),
        ("open", "wrong", FindingState.REOPENED),
        ("uncertain", "fixed", FindingState.UNCERTAIN),
        ("uncertain", "wrong", FindingState.UNCERTAIN),
    ):
        finding = said(a_finding(), state, word=word)
        document = shown(finding)
        document["findings"][0]["status"] = "open"
        edits = put(document, finding)
        now = after(finding, edits)
        assert (now.state, now.disputed, shown(now)["findings"][0]["status"]) == (then, False, VERDICT_STATUS[then])


@pytest.mark.parametrize("status", ["verified", "reopened", "done", None, 3, ["fixed"], True])
def test_any_other_status_is_refused(status: Any) -> None:
    """001-10: a team that says `verified` is told so, and nothing changes."""
    for finding in (a_finding(), said(a_finding(), "fix_claimed")):
        document = shown(finding)
        document["findings"][0]["status"] = status
        edits = put(document, finding)
        assert (edits.events, len(edits.problems)) == ((), 1)


def test_nobody_reopens_what_a_person_dismissed() -> None:
    """It stays dismissed, and the sentence says so."""
    person = {"by": "user", "reason": "by design"}
    finding = replace(said(a_finding(), "wont_fix", What.TRIAGE), suppression=a_finding(suppression=person).suppression)
    for status in ("open", "fixed"):
        document = shown(finding)
        document["findings"][0]["status"] = status
        edits = put(document, finding)
        assert (edits.events, len(edits.problems)) == ((), 1)


@pytest.mark.parametrize(
    "key", ["id", "domain", "severity", "confidence", "file", "lineRange", "title", "recommendation", "comment"]
)
@pytest.mark.parametrize("change", ["edit", "remove"])
def test_only_the_status_can_be_edited(key: str, change: str) -> None:
    """001-09: any other difference is named; a status in the same file still counts."""
    found = a_finding(ext={"verdict": {"comment": "see abc123"}})
    document = shown(found)
    one = document["findings"][0]
    one["status"] = "fixed"
    if change == "edit":
        one[key] = "Low"
    else:
        del one[key]
    edits = put(document, found)
    assert [event.change.word for event in changes(edits)] == ["fixed"]
    assert f"`{key}`" in edits.problems[0]


@pytest.mark.parametrize("key", ["reviewId", "timestamp", "target", "mode", "verdict", "summary", "reportPath", "team"])
def test_the_verdict_cannot_be_edited(key: str) -> None:
    """001-09: a team cannot write PASS itself."""
    found = a_finding(severity="critical")
    edits = put({**shown(found), key: "PASS"}, found)
    assert edits.events == ()
    assert f"`{key}`" in edits.problems[0]


def test_a_finding_cannot_be_removed_or_added() -> None:
    """001-09: both are told."""
    found = a_finding(id="fnd_1"), a_finding(id="fnd_2", reviewer="security")
    removed, added = shown(*found), shown(*found)
    gone = removed["findings"].pop()
    added["findings"].append({**gone, "id": "security-00000000-1", "x_finding": "fnd_9"})
    for document in (removed, added):
        assert "`findings`" in put(document, *found).problems[0]


def test_a_file_without_our_own_fields_is_matched_by_position() -> None:
    """001-08, 001-10: a program that drops fields it does not know can still claim a fix."""
    found = a_finding()
    document = shown(found)
    item = {key: value for key, value in document["findings"][0].items() if not key.startswith("x_")}
    edits = put({**document, "findings": [{**item, "status": "fixed"}]}, found)
    assert [(event.id, event.change.word) for event in changes(edits)] == [(found.id, "fixed")]


@pytest.mark.parametrize("state", list(FindingState))
def test_a_file_that_nobody_edited_takes_nothing_back(state: FindingState) -> None:
    """C-05, C-02: what the ledger has learnt since the file was written is not undone, and no state becomes coarser."""
    finding = a_finding()
    written = shown(finding)
    assert put(deepcopy(written), said(finding, state, What.TRIAGE), written=written) == ViewEdits()


def test_a_claim_about_a_finding_dismissed_meanwhile_is_refused() -> None:
    """001-10: the file said `open`; by now somebody has dismissed it."""
    finding = a_finding()
    written = shown(finding)
    document = deepcopy(written)
    document["findings"][0]["status"] = "fixed"
    edits = put(document, said(finding, "false_positive", What.TRIAGE), written=written)
    assert (edits.events, len(edits.problems)) == ((), 1)


def test_a_finding_that_shares_its_id_can_be_claimed_too() -> None:
    """C-05: the finding that is listed under another is a finding like any other."""
    found = a_finding(id="fnd_1", severity="critical"), a_finding(id="fnd_2")
    document = shown(*found)
    document["findings"][0]["x_shadowed"][0]["status"] = "fixed"
    edits = put(document, *found)
    assert ([event.id for event in changes(edits)], edits.problems) == (["fnd_2"], ())


# --- files of other tools --------------------------------------------------------------------------------------------

EXAMPLE: dict[str, Any] = {
    "reviewId": "a3f8c12b",
    "timestamp": "2026-02-16T14:30:00Z",
    "scope": "changeset",
    "target": "origin/master..HEAD",
    "mode": "full",
    "verdict": "WARN",
    "summary": {"blocker": 0, "high": 2, "medium": 3, "low": 1, "info": 0},
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
            "status": "open",
        }
    ],
}


def decoded(document: Any, **options: str) -> Report:
    return FORMATS["verdict"].read(json.dumps(document).encode(), **options)


def with_item(**fields: Any) -> dict[str, Any]:
    """The example with other values in its finding."""
    return {**EXAMPLE, "findings": [{**EXAMPLE["findings"][0], **fields}]}


def test_a_foreign_file_is_read() -> None:
    """001-07, C-08, C-17: each finding is one of its domain; a summary that its findings do not bear out is a note."""
    result = decoded({**EXAMPLE, "team": "blue"})
    (item,) = result.drafts
    assert (result.status, result.reviewer, result.verdict) == (ReportStatus.RETURNED, "verdict", "")
    assert len(result.notes) == 1
    assert decoded({**EXAMPLE, "summary": {**EXAMPLE["summary"], "high": 1, "medium": 0, "low": 0}}).notes == ()
    assert (item.input_id, item.reviewer, item.category) == ("verdict#1", "api-patterns", "api-contract")
    assert (item.severity, item.confidence.value, item.confidence.native) == ("high", 75, 0.83)
    assert (item.state, item.fix, item.autofix_class) == (FindingState.OPEN, "Wrap it", "manual")
    assert [(place.start, place.end) for place in item.locations] == [(45, 50)]
    assert item.tool_ids == {"verdict/v1": "api-patterns-a1b2c3d4-45-50"}
    clean = {**EXAMPLE, "verdict": "PASS", "summary": {}, "findings": []}
    assert decoded(clean).status is ReportStatus.EMPTY


@pytest.mark.parametrize(
    ("status", "state", "suppressed"),
    [
        ("open", FindingState.OPEN, False),
        ("fixed", FindingState.FIX_CLAIMED, False),
        ("verified", FindingState.VERIFIED_FIXED, False),
        ("reopened", FindingState.REOPENED, False),
        ("wont_fix", FindingState.WONT_FIX, True),
    ],
)
def test_the_statuses_of_a_foreign_file_are_taken_as_they_are(
    status: str,
    state: FindingState,
    suppressed: bool,  # noqa: FBT001 - a column
) -> None:
    """001-09: what a team left is suppressed with a reason."""
    (item,) = decoded(with_item(status=status)).drafts
    assert (item.state, bool(item.suppressed)) == (state, suppressed)


@pytest.mark.parametrize("fraction", [0.5, 0.55, 0.6, 1.0, 1])
def test_no_confidence_of_the_format_is_filtered(fraction: float) -> None:
    """001-19: a file has only findings that were reported, from 0.50."""
    (item,) = decoded(with_item(confidence=fraction)).drafts
    assert item.confidence.value >= 50


@pytest.mark.parametrize(("given", "argues"), [("FAIL", True), ("ABORT", True), ("WARN", False), ("PASS", False)])
def test_a_failing_verdict_without_a_finding_that_says_why_is_a_rejection(given: str, *, argues: bool) -> None:
    """001-11: the file is not made harmless by what it leaves out."""
    result = decoded({**EXAMPLE, "verdict": given})
    assert (result.verdict == "BLOCK", bool(result.argument)) == (argues, argues)
    assert decoded({**with_item(severity="Blocker"), "verdict": given}).verdict == ""


def test_a_blocker_of_an_abort_endangers_the_system_unless_the_file_says_which() -> None:
    """C-24: an ABORT without its cause is not made harmless by that."""
    aborted = {**with_item(severity="Blocker"), "verdict": "ABORT"}
    assert decoded(aborted).drafts[0].system_breaking
    told = {**with_item(severity="Blocker", x_system_breaking=False), "verdict": "ABORT"}
    assert not decoded(told).drafts[0].system_breaking
    assert not decoded({**aborted, "verdict": "FAIL"}).drafts[0].system_breaking


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("severity", "high"), ("severity", None), ("confidence", 0.49), ("confidence", 1.01), ("confidence", True)),
        *(("confidence", "0.9"), ("file", ""), ("lineRange", "50-45"), ("lineRange", "0"), ("lineRange", 45)),
        *(("title", ""), ("status", "done"), ("status", ["open"]), ("recommendation", None)),
        *(("domain", None), ("id", 3)),
    ],
)
def test_an_invalid_item_is_unreadable_alone(key: str, value: Any) -> None:
    """001-07: each rule, one by one; the other items are read."""
    good = EXAMPLE["findings"][0]
    result = decoded({**EXAMPLE, "findings": [{**good, key: value}, good]})
    assert [item.input_id for item in readable(result)] == ["verdict#2"]
    assert key in unreadable(result)[0].unreadable


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("reviewId", "../../etc"), ("reviewId", "A3F8C12B"), ("reviewId", None), ("scope", "all"), ("mode", "slow")),
        *(("verdict", "OK"), ("findings", {}), ("findings", ["x"]), ("timestamp", 3)),
    ],
)
def test_a_file_of_another_shape_is_malformed(key: str, value: Any) -> None:
    """001-04, 001-05, 001-23: what the whole is must be sure before any of it is believed."""
    result = decoded({**EXAMPLE, key: value})
    assert (result.status, result.drafts) == (ReportStatus.MALFORMED, ())
    assert f"`{key}" in result.problem
    lacking = {name: part for name, part in EXAMPLE.items() if name != key}
    assert decoded(lacking).status is ReportStatus.MALFORMED
    assert FORMATS["verdict"].read(b"{").status is ReportStatus.MALFORMED


@given(ledgers())
@settings(max_examples=40, deadline=None)
def test_every_finding_of_a_written_file_can_be_imported(found: list[Finding]) -> None:
    """001-07, C-05: every finding of a file, listed under another or not, comes back with its severity and fix."""
    document = shown(*(replace(one, history=()) for one in found))
    listed = every(document)
    result = decoded(document)
    assert len(result.drafts) == len(listed)
    by_id = {str(finding.id): finding for finding in found}
    for one, item in zip(listed, result.drafts, strict=True):
        finding = by_id[one["x_finding"]]
        if item.unreadable:
            assert not one["file"].strip()
            continue
        severity = Severity.CRITICAL if finding.state is FindingState.UNCERTAIN else finding.severity
        assert (item.severity, item.fix) == (severity, finding.fix)
        assert item.system_breaking == (finding.system_breaking and finding.severity is Severity.CRITICAL)
