"""What a pass makes of known findings: every cell of the table of states, by example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.unit.findings.builders import CODE, FIRST, SECOND, Files, assessment, draft, known

from pipeline.findings.events import (
    Coverage,
    FieldsEdited,
    FindingRaised,
    FixAttempted,
    LedgerEvent,
    LinkAdded,
    NotReported,
    Pass,
    PassRecorded,
    ReportedAgain,
    StateChanged,
    decode_event,
    encode_event,
)
from pipeline.findings.fingerprints import VERDICT, add_fingerprints, evidence_digest
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import LineMap, parse_diff
from pipeline.findings.match import match
from pipeline.findings.merge import Decisions, decide
from pipeline.findings.model import (
    Actor,
    AutofixClass,
    Category,
    Confidence,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Gate,
    GateDecision,
    Link,
    Location,
    Observed,
    Owner,
    PassId,
    ReportStatus,
    Severity,
    Strength,
    Suppression,
    Vote,
)
from pipeline.findings.transitions import CodeState, ReviewScope, dismissed_drafts, same_work, transitions

PATH = "src/session.py"
HERE = Files({PATH: CODE})
CHANGED = Files({PATH: [*CODE[:2], "    store.replace(token)", *CODE[3:]]})
SHIFTED = Files({PATH: ["import log", *CODE]})
OPEN = (FindingState.OPEN, FindingState.REOPENED, FindingState.UNCERTAIN)
DISMISSED = (FindingState.FALSE_POSITIVE, FindingState.WONT_FIX)
REOPENED = FindingState.REOPENED
QUOTED: dict[str, Any] = {"quote": "store.save(token)"}
RENAMED = parse_diff(f"diff --git a/x b/y\nrename from {PATH}\nrename to src/tokens.py\n")
DELETED = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n")


@dataclass(slots=True)
class Second:
    """A second pass over findings that a first one raised."""

    ledger: Ledger
    events: list[LedgerEvent]
    ids: tuple[str, ...]
    decisions: Decisions

    @property
    def kinds(self) -> list[str]:
        """What happened, in order."""
        return [event.kind for event in self.events]

    def event(self, kind: str) -> Any:
        """The only event of a kind."""
        (one,) = [event for event in self.events if event.kind == kind]
        return one

    def after(self) -> Ledger:
        """The ledger with what happened."""
        return self.ledger.extended(self.events)


def second(
    before: Sequence[Finding],
    after: Sequence[Finding],
    *,
    old: Files | None = None,
    new: Files | None = None,
    state: FindingState = FindingState.OPEN,
    events: Sequence[LedgerEvent] = (),
    passed: Pass | None = None,
    first: Pass | None = None,
    maps: Mapping[str, LineMap] | None = None,
    fixes: Mapping[tuple[str, int], FindingId] | None = None,
    suppression: Suppression | None = None,
    **more: Any,
) -> Second:
    """Raise some findings, put them into a state, and assess again."""
    old = old or Files({"src/session.py": CODE})
    new = new or old
    ledger = Ledger([PassRecorded(at=FIRST, assessment=first or assessment("one"))])
    for finding in known(before, old, state=state, suppression=suppression, **more):
        ledger.apply(FindingRaised(at=FIRST, finding=finding))
    for event in events:
        ledger.apply(event)
    drafts = add_fingerprints([finding if finding.votes else voted(finding) for finding in after], new)
    matching = match(tuple(ledger.findings.values()), drafts, maps)
    decisions = decide(drafts, {}, dismissed_drafts(ledger, matching.matches, drafts, SECOND))
    code = CodeState(new, maps or {}, fixes or {})
    done, found = transitions(ledger, matching, decisions, passed or assessment(), SECOND, code)
    ids = tuple(str(found[index].id) if index in found else "" for index in range(len(drafts)))
    return Second(ledger, done, ids, decisions)


def voted(finding: Finding) -> Finding:
    """A draft with the vote of its source, as every draft has one."""
    manual, human = AutofixClass("manual"), Owner("human")
    votes = [
        Vote(reviewer=name, severity=finding.severity, confidence=75, autofix_class=manual, owner=human)
        for name in finding.sources or ("security",)
    ]
    return replace(finding, votes=tuple(votes))


def one(passed: Second) -> Finding:
    """The first known finding after the pass."""
    return next(iter(passed.after().findings.values()))


def reopened(passed: Second, id: str = "") -> bool:
    """Whether the second pass itself reopened a finding, the first if none is named."""
    event = passed.event("turned")
    assert event.note
    chosen = id or next(iter(passed.ledger.findings))
    return (event.id, event.state, event.by, event.pass_id) == (chosen, REOPENED, Actor.ORCHESTRATOR, "two")


# --- seen again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", OPEN)
def test_an_open_finding_that_is_reported_stays_open(state: FindingState) -> None:
    """000-44: the pass is refreshed and history grows; nothing is duplicated, nothing else changes."""
    passed = second([draft()], [draft()], state=state)
    assert passed.kinds == ["seen"]
    after = one(passed)
    assert (after.state, after.observed, after.strength) == (state, Observed.UNCHANGED, Strength.EXACT)
    assert (after.pass_id, len(after.history), len(passed.ledger.findings)) == ("two", 2, 1)
    assert (passed.event("seen").changes, passed.event("seen").note) == ({}, "")


def test_every_finding_that_is_reported_again_is_seen() -> None:
    """Not only the first."""
    three = [draft(), draft(5, "Returned twice"), draft(8, "Delete is slow")]
    assert second(three, three).kinds == ["seen"] * 3


def test_a_moved_finding_is_recorded_as_moved() -> None:
    """000-23: another line is not another finding; the new place is kept, and so is the old name."""
    passed = second([draft(**QUOTED)], [draft(4, **QUOTED)], new=SHIFTED)
    after = one(passed)
    assert (after.observed, after.location and after.location.start) == (Observed.MOVED, 4)
    assert [alias[-2:] for alias in after.aliases] == ["-3", "-4"]


def test_a_finding_matched_by_name_moves_to_its_reported_location() -> None:
    """Only a vague report is put back on the line that is known; who is known by name is where the report says."""
    passed = second([draft(aliases=("ticket-7",))], [draft(5, "Told anew", aliases=("ticket-7",))])
    after = one(passed)
    assert (after.strength, after.location and after.location.start) == (Strength.EXACT, 5)


def test_only_fields_that_differ_change() -> None:
    """The title and the severity are new; the fix that nobody repeated is kept, and the id is frozen."""
    before = draft(fix="Revoke the old token", impact="It can be used again", **QUOTED)
    passed = second([before], [draft(title="Old tokens stay valid", severity=Severity.HIGH)])
    assert set(passed.event("seen").changes) == {"title", "severity", "gate", "evidence"}
    after = one(passed)
    assert (after.observed, after.title, after.fix) == (
        Observed.UPDATED,
        "Old tokens stay valid",
        "Revoke the old token",
    )
    assert after.signature == before.signature


def test_a_new_signature_becomes_a_name() -> None:
    """Later matches keep the id and know the finding by the new words too."""
    told = draft(title="Old tokens stay valid", **QUOTED)
    after = one(second([draft(**QUOTED)], [told]))
    assert told.signature in after.aliases


def test_an_edit_of_a_person_stays() -> None:
    """A field that was edited by hand is not overwritten by a later pass, and a person's gate not by a policy."""
    id = known([draft(**QUOTED)], HERE)[0].id
    edit = FieldsEdited(at=FIRST, id=id, by="user", changes={"title": "Rotation is broken"})
    passed = second([draft(**QUOTED)], [draft(impact="Serious", **QUOTED)], events=[edit], gate=GateDecision(by="user"))
    after = one(passed)
    assert (after.title, after.impact, after.gate.by) == ("Rotation is broken", "Serious", "user")


def test_votes_evidence_and_flags_only_grow() -> None:
    """A second quotation is added, the first is moved along, and a flag that one report raised stays."""
    vote = Vote(
        reviewer="b", severity=Severity.LOW, confidence=50, autofix_class=AutofixClass("manual"), owner=Owner("human")
    )
    more = (
        Evidence(path=PATH, start=4, quote="store.save(token)"),
        Evidence(path=PATH, start=5, quote="log.info('rotated')"),
    )
    again = draft(4, evidence=more, votes=(vote,), sources=("qa",), locations=draft(4).locations)
    after = one(second([draft(system_breaking=True, **QUOTED)], [again], new=SHIFTED))
    assert [item.start for item in after.evidence] == [4, 5]
    assert (after.votes, after.sources, after.system_breaking) == ((vote,), ("security", "qa"), True)


def test_a_claimed_fix_that_is_reported_is_reopened() -> None:
    """The failed attempt is recorded under the name of the fixer."""
    tried = FixAttempted(at=FIRST, id=known([draft()], HERE)[0].id, attempt=FixAttempt(by="fixer", outcome="claimed"))
    passed = second(
        [draft()], [draft()], state=FindingState.FIX_CLAIMED, events=[tried], passed=assessment(round=3, run="r")
    )
    assert passed.kinds == ["seen", "turned", "tried"]
    assert reopened(passed)
    after = one(passed)
    assert after.state is FindingState.REOPENED
    assert after.attempts[-1] == FixAttempt(run="r", round=3, by="fixer", outcome="not_fixed")


def test_a_failed_claim_without_an_attempt_has_no_author() -> None:
    """Where no try is on record, the failed one has no author."""
    assert one(second([draft()], [draft()], state=FindingState.FIX_CLAIMED)).attempts == (
        FixAttempt(round=1, outcome="not_fixed"),
    )


def test_a_fixed_finding_that_is_reported_is_a_regression() -> None:
    """000-45: a fixed finding that returns becomes open again, with a line in its history that says so."""
    passed = second([draft()], [draft()], state=FindingState.VERIFIED_FIXED)
    after = one(passed)
    assert (after.state, after.links) == (FindingState.REOPENED, ())
    assert reopened(passed)
    assert passed.event("turned").note.startswith("regression")


def test_a_regression_names_the_fix_that_brought_it_back() -> None:
    """caused_by: the fix of another finding wrote these lines; its own fix is no cause, and once is enough."""
    ids = [known_one.id for known_one in known([draft(), draft(8, "Slow")], HERE)]
    cause = {(PATH, 3): ids[1]}
    passed = second([draft(), draft(8, "Slow")], [draft()], state=FindingState.VERIFIED_FIXED, fixes=cause)
    assert (passed.event("linked").link.kind, passed.event("linked").link.to) == ("caused_by", ids[1])
    own = second([draft()], [draft()], state=FindingState.VERIFIED_FIXED, fixes={(PATH, 3): ids[0]})
    assert "linked" not in own.kinds
    link = LinkAdded(at=FIRST, id=ids[0], link=Link(kind="caused_by", to=ids[1]))
    twice = second(
        [draft(), draft(8, "Slow")], [draft()], state=FindingState.VERIFIED_FIXED, fixes=cause, events=[link]
    )
    assert "linked" not in twice.kinds


@pytest.mark.parametrize("state", DISMISSED)
def test_a_dismissed_finding_that_is_seen_stays_dismissed(state: FindingState) -> None:
    """000-46: it is counted as re-raised and suppressed, told nowhere differently, and the draft is not shown."""
    passed = second([draft()], [draft(title="Old token is valid still", severity=Severity.LOW)], state=state)
    assert passed.kinds == ["seen"]
    assert passed.event("seen").note.endswith(f"suppressed: {state}")
    after = one(passed)
    assert (after.state, after.title, after.severity) == (state, "Old token stays valid", Severity.MEDIUM)
    ((draft_index, reason),) = passed.decisions.dismissed.items()
    assert draft_index == 0
    assert after.id in reason


@pytest.mark.parametrize("state", FindingState)
def test_a_doubtful_match_is_a_new_finding(state: FindingState) -> None:
    """0-22: what may be a settled finding leaves that as it is, is open itself, and names it."""
    before = draft(**QUOTED, severity=Severity.HIGH)
    vague = draft(5, "The old token stays", quote="return token", aliases=("ticket-9",), severity=Severity.HIGH)
    passed = second([before], [vague], state=state)
    assert passed.kinds == ["raised", "linked"]
    settled, raised = passed.after()
    assert (settled.state, settled.aliases) == (state, known([before], HERE)[0].aliases)
    assert (raised.state, [(link.kind, link.to) for link in raised.links]) == (
        FindingState.OPEN,
        [("may_be", settled.id)],
    )
    assert passed.decisions.dismissed == {}


def test_the_reason_of_a_dismissal_is_kept_with_the_draft() -> None:
    """It is what the person wrote."""
    passed = second(
        [draft()], [draft()], state=FindingState.WONT_FIX, suppression=Suppression(reason="accepted by ops")
    )
    assert passed.decisions.dismissed[0].endswith("accepted by ops")


def dismissal(**more: Any) -> Suppression:
    return Suppression(digest=evidence_digest(known([draft()], HERE)[0]), **more)


@pytest.mark.parametrize(
    ("now", "suppression", "state", "why"),
    [
        (draft(severity=Severity.HIGH), dismissal(), REOPENED, "high"),
        (draft(), dismissal(expires="2026-01-31"), REOPENED, "2026-01-31"),
        (draft(), dismissal(expires="2026-02-01"), FindingState.WONT_FIX, "wont_fix"),
    ],
)
def test_a_dismissal_ends_with_a_higher_severity_or_its_last_day(
    now: Finding, suppression: Suppression, state: FindingState, why: str
) -> None:
    """On its last day it still holds; the history says what ended it."""
    passed = second([draft()], [now], state=FindingState.WONT_FIX, suppression=suppression)
    after = one(passed)
    assert after.state is state
    assert why in after.history[-1].note
    assert bool(passed.decisions.dismissed) is (state is FindingState.WONT_FIX)
    assert (after.suppression is None) is (state is REOPENED)


def test_another_problem_on_dismissed_lines_is_raised() -> None:
    """C-05: the same id in a verdict file, the same line, another defect: new, open and on its own."""
    other = draft(title="Slow in loops", category=Category.PERFORMANCE)
    passed = second([draft()], [other], state=FindingState.WONT_FIX)
    assert passed.kinds == ["raised", "missed"]
    dismissed, raised = passed.after()
    assert (dismissed.state, raised.state, raised.number) == (FindingState.WONT_FIX, FindingState.OPEN, 2)
    assert raised.aliases == (dismissed.fingerprints["verdict/v1"],)


# --- not seen ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", OPEN)
def test_an_unreported_finding_on_unchanged_lines_is_absent(state: FindingState) -> None:
    """open, not seen: absent; its lines are as they were, so nobody claims a fix."""
    passed = second([draft()], [], state=state)
    assert passed.kinds == ["missed"]
    after = one(passed)
    assert (after.state, after.observed, after.absent_passes) == (state, Observed.ABSENT, 1)


@pytest.mark.parametrize("state", OPEN)
@pytest.mark.parametrize("new", [CHANGED, Files()])
def test_an_unreported_finding_on_changed_lines_is_claimed_at_most(state: FindingState, new: Files) -> None:
    """open, not seen, lines changed or file deleted: fix_claimed, never fixed."""
    passed = second([draft()], [], new=new, state=state)
    assert passed.kinds == ["missed", "turned"]
    after = one(passed)
    assert (after.state, after.history[-1].by) == (FindingState.FIX_CLAIMED, "orchestrator")


def test_a_finding_absent_twice_is_proposed_for_verification() -> None:
    """Two passes without a word, and the text is nowhere: propose verify; once, and still never fixed."""
    id = known([draft()], HERE)[0].id
    absent = [NotReported(at=FIRST, id=id, pass_id=PassId("one"))]
    for state in (FindingState.OPEN, FindingState.FIX_CLAIMED):
        passed = second([draft()], [], new=CHANGED, state=state, events=absent)
        assert passed.event("turned").note.endswith("propose verify")
        assert one(passed).state is FindingState.FIX_CLAIMED
    standing = second([draft()], [], state=FindingState.FIX_CLAIMED, events=absent)
    assert standing.kinds == ["missed"]
    third = second([draft()], [], new=CHANGED, state=FindingState.FIX_CLAIMED, events=absent * 2)
    assert third.kinds == ["missed"]


def test_an_unreported_claimed_fix_stays_claimed() -> None:
    """Not being reported verifies nothing."""
    passed = second([draft()], [], state=FindingState.FIX_CLAIMED)
    assert passed.kinds == ["missed"]
    assert one(passed).state is FindingState.FIX_CLAIMED


def test_an_unreported_fixed_finding_stays_fixed() -> None:
    """Nothing is recorded."""
    assert second([draft()], [], state=FindingState.VERIFIED_FIXED).kinds == []


@pytest.mark.parametrize("state", DISMISSED)
def test_an_unreported_dismissal_stays(state: FindingState) -> None:
    """dismissed, not seen: it stays, even when its lines changed."""
    passed = second([draft()], [], new=CHANGED, state=state)
    assert passed.kinds == ["missed"]
    assert one(passed).state is state


@pytest.mark.parametrize("state", list(FindingState))
@pytest.mark.parametrize(
    "coverage",
    [
        Coverage(paths=("src/other.py", "src/session")),
        Coverage(paths=()),
        Coverage(reviewers={"security": ReportStatus.MISSING, "qa": ReportStatus.RETURNED}),
        Coverage(reviewers={"security": ReportStatus.MALFORMED}),
        Coverage(reviewers={"qa": ReportStatus.EMPTY}),
    ],
)
def test_a_finding_that_was_not_covered_is_unchanged(state: FindingState, coverage: Coverage) -> None:
    """Another file, no answer, or an answer of reviewers who never reported it."""
    assert second([draft()], [], new=CHANGED, state=state, passed=assessment(coverage=coverage)).kinds == []


@pytest.mark.parametrize(
    "coverage",
    [
        Coverage(paths=(PATH,)),
        Coverage(paths=("src/",)),
        Coverage(reviewers={"security": ReportStatus.EMPTY, "qa": ReportStatus.MISSING}),
    ],
)
def test_a_covered_finding_that_is_not_reported_is_missed(coverage: Coverage) -> None:
    """Its file, its folder or everything was covered, and a reviewer who had reported it answered."""
    assert second([draft()], [], passed=assessment(coverage=coverage)).kinds == ["missed"]


def test_a_renamed_file_is_covered_under_either_name() -> None:
    """Git says where the lines are now: they stand there, so nobody claims a fix."""
    lines = parse_diff(f"diff --git a/x b/y\nrename from {PATH}\nrename to src/tokens.py\n")
    new = Files({"src/tokens.py": CODE})
    for path in (PATH, "src/tokens.py"):
        covered = assessment(coverage=Coverage(paths=(path,)))
        assert second([draft()], [], new=new, maps={"one": lines}, passed=covered).kinds == ["missed"]


def test_a_finding_without_lines_is_never_claimed_fixed() -> None:
    """Nobody can say whether its lines have changed."""
    assert second([draft(None)], [], new=Files()).kinds == ["missed"]
    assert second([draft(locations=())], [], new=Files()).kinds == ["missed"]


# --- new ---------------------------------------------------------------------------------------------------------


def test_a_new_finding_is_raised_with_all_its_names() -> None:
    """000-22: an id from the signature, a number from the ledger, the pass, and its name in a verdict file."""
    passed = second([], [draft(votes=(), task="TASK-1")])
    (raised,) = passed.after()
    assert raised.id == f"fnd_{raised.signature[7:15]}"
    assert (raised.number, raised.pass_id, raised.task, raised.created_at) == (1, "two", "TASK-1", SECOND)
    assert raised.aliases == (raised.fingerprints["verdict/v1"],)
    assert passed.ids == (raised.id,)


def test_a_new_finding_without_a_place_has_no_name_by_place() -> None:
    """Only its signature names it."""
    (raised,) = second([], [draft(None, locations=())]).after()
    assert raised.aliases == ()


def test_ids_that_collide_grow() -> None:
    """000-22: another signature with the same beginning gets a longer id; both are there."""
    twins = [
        draft(3, "A token", signature="sha256:" + "a" * 64),
        draft(8, "B slow", signature="sha256:" + "a" * 63 + "b"),
    ]
    passed = second([], twins)
    assert passed.ids == ("fnd_aaaaaaaa", "fnd_aaaaaaaaaaaa")
    assert len(passed.after().findings) == 2


def test_a_finding_on_lines_of_a_fix_is_caused_by_it() -> None:
    """caused_by: what the fix of another finding wrote is where the new one is."""
    fix = {(PATH, 4): FindingId("fnd_1"), (PATH, 5): FindingId("fnd_1")}
    link = second([], [draft(3, end=4)], fixes=fix).event("linked").link
    assert (link.kind, link.to) == ("caused_by", "fnd_1")
    assert second([], [draft(3)], fixes=fix).kinds == ["raised"]
    assert second([], [draft(locations=())], fixes=fix).kinds == ["raised"]


BLAMED = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ b/{PATH}\n@@ -3 +3 @@\n-x\n+y\n")


@pytest.mark.parametrize(
    ("line", "first", "late"),
    [
        (5, {"task": "T"}, True),
        (3, {"task": "T"}, False),
        (5, {"task": "U"}, False),
        (5, {"run": "R"}, True),
        (5, {}, False),
        (5, {"task": "T", "coverage": Coverage(paths=("src/other.py",))}, False),
        (5, {"task": "T", "coverage": Coverage(reviewers={"qa": ReportStatus.MISSING})}, False),
        (None, {"task": "T"}, False),
    ],
)
def test_a_finding_on_lines_reviewed_before_is_late(line: int | None, first: dict[str, Any], *, late: bool) -> None:
    """late: an earlier pass of the same work covered these lines, and they are as they were."""
    passed = second(
        [], [draft(line)], first=assessment("one", **first), passed=assessment(task="T", run="R"), maps={"one": BLAMED}
    )
    assert next(iter(passed.after())).late is late


def test_without_a_map_only_the_same_commit_makes_a_finding_late() -> None:
    """A commit that is out of reach says nothing of what changed since."""
    for head, late in (("abc", True), ("def", False), ("", False)):
        passed = second(
            [], [draft()], first=assessment("one", task="T", head=head), passed=assessment(task="T", head="abc")
        )
        assert next(iter(passed.after())).late is late


def test_a_new_file_is_never_late() -> None:
    """It was not there to be reviewed."""
    fresh = parse_diff(f"diff --git a/x b/x\n--- /dev/null\n+++ b/{PATH}\n@@ -0,0 +1,10 @@\n" + "+x\n" * 10)
    passed = second([], [draft()], first=assessment("one", task="T"), passed=assessment(task="T"), maps={"one": fresh})
    assert not next(iter(passed.after())).late


# --- and besides -------------------------------------------------------------------------------------------------


def test_a_filtered_report_keeps_its_finding_present() -> None:
    """Below a gate it raises nothing and changes nothing, but the finding it is about is not absent."""
    low = Confidence(value=50)
    passed = second([draft()], [draft(confidence=low), draft(8, "Slow", confidence=low)])
    assert passed.kinds == []
    assert passed.ids == (known([draft()], HERE)[0].id, "")


def test_a_report_of_a_member_reopens_its_leader() -> None:
    """Both are recorded as reported; an unreported member changes nothing."""
    part, whole = (one.id for one in known([draft(), draft(8, "Delete is slow")], HERE))
    merged = [LinkAdded(at=FIRST, id=part, link=Link(kind="duplicate_of", to=whole))]
    both = [draft(), draft(8, "Delete is slow")]
    passed = second(both, [draft()], state=FindingState.FIX_CLAIMED, events=merged)
    told = [(event.kind, event.id) for event in passed.events if isinstance(event, ReportedAgain | StateChanged)]
    assert told == [("seen", part), ("seen", whole), ("turned", whole)]
    assert passed.kinds == ["seen", "seen", "turned", "tried"]
    assert [event.note for event in passed.events if isinstance(event, ReportedAgain)] == ["", f"seen as {part}"]
    assert passed.ids == (whole,)
    together = second(both, both, events=merged)
    assert together.kinds == ["seen", "seen"]
    assert together.ids == (whole, whole)
    assert second(both, [both[1]], events=merged).kinds == ["seen"]


def test_two_reports_of_members_reopen_their_leader_once() -> None:
    """Each member is recorded as reported, the leader once."""
    three = [draft(), draft(5, "Returned twice"), draft(8, "Delete is slow")]
    one, other, whole = (each.id for each in known(three, HERE))
    merged = [LinkAdded(at=FIRST, id=part, link=Link(kind="duplicate_of", to=whole)) for part in (one, other)]
    passed = second(three, three[:2], state=FindingState.FIX_CLAIMED, events=merged)
    told = [event.id for event in passed.events if isinstance(event, ReportedAgain)]
    assert sorted(told) == sorted([one, other, whole])
    assert passed.kinds.count("turned") == 1


def test_a_report_of_a_member_decides_about_its_dismissed_leader() -> None:
    """A higher severity reopens the leader; otherwise it stays dismissed."""
    both = [draft(), draft(8, "Delete is slow")]
    part, whole = (one.id for one in known(both, HERE))
    merged = [LinkAdded(at=FIRST, id=part, link=Link(kind="duplicate_of", to=whole))]
    passed = second(both, [draft(severity=Severity.HIGH)], state=FindingState.WONT_FIX, events=merged)
    assert reopened(passed, whole)
    held = Suppression(digest=evidence_digest(known(both, HERE)[0]), reason="accepted")
    silent = second(both, [draft()], state=FindingState.WONT_FIX, events=merged, suppression=held)
    assert silent.kinds == ["seen", "seen"]
    assert list(silent.decisions.dismissed) == [0]
    assert whole in silent.decisions.dismissed[0]


def test_events_round_trip_through_a_file() -> None:
    """What is applied at once and what is read back later give one ledger."""
    before = [draft(**QUOTED), draft(8, "Delete is slow")]
    now = [draft(4, "Old tokens stay valid", severity=Severity.HIGH, **QUOTED), draft(5, "Log tells a secret")]
    passed = second(before, now, new=SHIFTED, state=FindingState.FIX_CLAIMED)
    read: list[LedgerEvent] = [decode_event(encode_event(event)) for event in passed.events]
    assert read == list(passed.events)


def test_history_only_grows() -> None:
    """000-41: the old history is the beginning of the new one, whatever the pass says."""
    for state in FindingState:
        passed = second([draft()], [draft()], state=state)
        before = next(iter(passed.ledger.findings.values())).history
        assert one(passed).history[: len(before)] == before


# --- what a report changes -------------------------------------------------------------------------------------------


def changed(before: Finding, after: Finding, **more: Any) -> dict[str, Any]:
    """The fields that a second report of the same finding changes."""
    found: dict[str, Any] = second([before], [after], **more).event("seen").changes
    return found


@pytest.mark.parametrize("severity", Severity)
def test_a_report_changes_a_severity_either_way(severity: Severity) -> None:
    """It is the last word of who found it."""
    assert changed(draft(), draft(severity=severity)).get("severity") == (
        None if severity is Severity.MEDIUM else severity
    )


def test_one_report_that_raises_a_flag_is_enough() -> None:
    """A flag goes up, and does not come down by silence."""
    flags: dict[str, Any] = {"system_breaking": True, "requires_verification": True}
    assert changed(draft(), draft(**flags)) == flags
    assert changed(draft(**flags), draft()) == {}


@pytest.mark.parametrize(("by", "told"), [("policy", True), ("user", False)])
def test_a_gate_is_moved_by_who_set_it(by: str, *, told: bool) -> None:
    """A person's gate stays where it is, a policy's goes with the policy."""
    before = draft(gate=GateDecision(value=Gate.SUGGEST, by=by))
    assert ("gate" in changed(before, draft(severity=Severity.HIGH))) is told


def test_only_fingerprints_that_differ_are_recorded() -> None:
    """The others are known; and a dismissed finding is told where it is, not what is said of it."""
    after = draft(4, title="Old token is valid still", severity=Severity.LOW, **QUOTED)
    told = changed(draft(**QUOTED), after, new=SHIFTED, state=FindingState.WONT_FIX)
    assert set(told["fingerprints"]) == {"ctx/v1", VERDICT}
    assert set(told) == {"fingerprints", "locations", "evidence", "aliases"}


@pytest.mark.parametrize(
    ("more", "how"),
    [
        ({}, Observed.UNCHANGED),
        ({"sources": ("security", "qa")}, Observed.UNCHANGED),
        ({"impact": "It can be used again"}, Observed.UPDATED),
        ({"line": 4, "impact": "It can be used again"}, Observed.MOVED),
    ],
)
def test_how_a_finding_was_observed(more: dict[str, Any], how: Observed) -> None:
    """Moved if its line is another, updated if anything else changed than where it is and who said so."""
    assert second([draft(**QUOTED)], [draft(**{**QUOTED, **more})]).event("seen").observed is how


# --- the code at the end of a pass -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coverage", "path", "covered"),
    [
        (Coverage(), PATH, True),
        (Coverage(), "", True),
        (Coverage(paths=(PATH,)), PATH, True),
        (Coverage(paths=("src",)), PATH, True),
        (Coverage(paths=("src/",)), PATH, True),
        (Coverage(paths=("srcX/",)), "srcX/a.py", True),
        (Coverage(paths=("src/ses",)), PATH, False),
        (Coverage(paths=("src/session.py/x",)), PATH, False),
        (Coverage(paths=("src",)), "", False),
        (Coverage(paths=()), PATH, False),
        (Coverage(reviewers={"qa": ReportStatus.EMPTY}), PATH, True),
        (Coverage(reviewers={"qa": ReportStatus.MISSING, "security": ReportStatus.RETURNED}), PATH, True),
        (Coverage(reviewers={"qa": ReportStatus.MISSING, "security": ReportStatus.MALFORMED}), PATH, False),
        (Coverage(paths=(PATH,), reviewers={"qa": ReportStatus.MISSING}), PATH, False),
    ],
)
def test_a_file_is_covered_or_not(coverage: Coverage, path: str, *, covered: bool) -> None:
    """By name, by a folder above it, or because nothing was left out; and somebody has to have answered."""
    assert ReviewScope.of(coverage).covers(path) is covered


def test_a_finding_without_a_file_needs_a_pass_over_everything() -> None:
    """One that looked at some files only would not have said it again."""
    bare = draft(locations=())
    assert ReviewScope.of(Coverage()).expects(bare, "")
    assert not ReviewScope.of(Coverage(paths=("src",))).expects(bare, "")


def test_absence_needs_an_answer_of_a_reviewer_who_found_it() -> None:
    """A finding without a named reviewer needs any answer."""
    answered = ReviewScope.of(Coverage(reviewers={"qa": ReportStatus.EMPTY}))
    for sources, told in ((("security",), False), (("security", "qa"), True), ((), True)):
        assert answered.expects(draft(sources=sources), PATH) is told


@pytest.mark.parametrize(
    ("maps", "path"),
    [({}, PATH), ({"one": RENAMED}, "src/tokens.py"), ({"one": DELETED}, ""), ({"other": RENAMED}, PATH)],
)
def test_the_current_name_of_a_file(maps: Mapping[str, LineMap], path: str) -> None:
    """By the map of the pass that last saw the finding; a deleted file has none."""
    code = CodeState(Files(), maps)
    assert code.path_now(draft()) == path
    assert code.path_now(draft(locations=())) == ""


@pytest.mark.parametrize(
    ("place", "cause"),
    [
        (Location(path=PATH, start=3), "fnd_1"),
        (Location(path=PATH, start=4), None),
        (Location(path="src/other.py", start=3), None),
        (Location(path=PATH, start=1, end=3), "fnd_1"),
        (Location(path=PATH, start=4, end=6), "fnd_3"),
        (Location(path=PATH, start=9, end=3), None),  # an end before its start is none
        (Location(path=PATH), None),
        (Location(path=PATH, start=100, end=500), "fnd_1"),
        (Location(path=PATH, start=99, end=500), None),  # no more lines are looked at
        (None, None),
    ],
)
def test_the_fix_that_wrote_a_line(place: Location | None, cause: str | None) -> None:
    """The finding whose fix wrote some of these lines; nobody is blamed for lines that nobody wrote."""
    lines = {(PATH, 3): "fnd_1", (PATH, 500): "fnd_1", (PATH, 6): "fnd_3", ("", 0): "fnd_3", (PATH, 1_000): "fnd_3"}
    fixes = {line: FindingId(id) for line, id in lines.items()}
    assert CodeState(Files(), {}, fixes).fixed_here(place) == cause


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({}, {}, False),
        ({"task": "T"}, {"task": "T"}, True),
        ({"task": "T"}, {"task": "U"}, False),
        ({"run": "r"}, {"run": "r"}, True),
        ({"run": "r"}, {"run": "s"}, False),
        ({"run": "r"}, {}, False),
        ({"task": "T", "run": "r"}, {"task": "U", "run": "r"}, True),
    ],
)
def test_passes_of_the_same_work(one: dict[str, str], other: dict[str, str], *, same: bool) -> None:
    """The same task or the same run; having neither is nothing in common."""
    assert same_work(assessment("one", **one), assessment("two", **other)) is same


EDITED = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ b/{PATH}\n@@ -5 +5 @@\n-x\n+y\n")


@pytest.mark.parametrize(
    ("place", "maps", "heads", "late"),
    [
        (Location(path=PATH, start=3), {"one": EDITED}, ("", ""), True),
        (Location(path=PATH, start=3, end=4), {"one": EDITED}, ("", ""), True),
        (Location(path=PATH, start=3, end=6), {"one": EDITED}, ("", ""), False),
        (Location(path=PATH, start=5), {"one": EDITED}, ("", ""), False),
        (Location(path=PATH, start=6, end=2), {"one": EDITED}, ("", ""), True),
        (Location(path="src/tokens.py", start=3), {"one": RENAMED}, ("", ""), True),
        (Location(path=PATH), {"one": EDITED}, ("", ""), False),
        (None, {"one": EDITED}, ("", ""), False),
        (Location(path=PATH, start=3), {}, ("abc", "abc"), True),
        (Location(path=PATH, start=3), {}, ("abc", "def"), False),
        (Location(path=PATH, start=3), {}, ("", ""), False),
    ],
)
def test_lines_that_an_earlier_pass_saw_as_they_are(
    place: Location | None, maps: Mapping[str, LineMap], heads: tuple[str, str], *, late: bool
) -> None:
    """By the map from its commit, or because the commit is the same; without either nobody knows."""
    covered = Coverage(paths=(PATH,))
    earlier = assessment("one", task="T", head=heads[0], coverage=covered)
    ledger = Ledger([PassRecorded(at=FIRST, assessment=earlier)])
    now = assessment("two", task="T", head=heads[1])
    assert CodeState(Files({PATH: CODE}), maps).is_late(place, now, ledger) is late


def test_a_pass_does_not_make_itself_late() -> None:
    """Only earlier ones count."""
    now: Any = assessment("two", task="T", head="abc")
    ledger = Ledger([PassRecorded(at=FIRST, assessment=now)])
    assert not CodeState(Files()).is_late(Location(path=PATH, start=3), now, ledger)


def test_a_file_is_read_once() -> None:
    """Also one that is not there."""
    asked = list[str]()

    class Counting(Files):
        def lines(self, path: str) -> list[str] | None:
            asked.append(path)
            return CODE if path == PATH else None

    code = CodeState(Counting())
    pages = [code.page(path) for path in (PATH, PATH, "gone", "gone", "")]
    assert [page is not None for page in pages] == [True, True, False, False, False]
    assert asked == [PATH, "gone"]
