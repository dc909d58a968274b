"""From raw findings to the findings of a pass: equal items, clusters, promotion, the gate, and what was covered."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from tests.unit.findings.passes import raw, reports_of, run_pass

from pipeline.findings.events import Disposition
from pipeline.findings.fingerprints import signature
from pipeline.findings.ingest import IngestResult
from pipeline.findings.ledger import Ledger
from pipeline.findings.merge import passes, promote
from pipeline.findings.model import (
    AutofixClass,
    Confidence,
    Evidence,
    FindingState,
    Gate,
    Location,
    Owner,
    ReportStatus,
    ReviewerReport,
    Severity,
)
from pipeline.findings.scales import confidence_from_anchor
from pipeline.language.model import Lens

P0, P1, P2, P3, INFO = Severity
SAFE, GATED, MANUAL, ADVISORY = AutofixClass
OK, BAD, GONE = ReportStatus.RETURNED, ReportStatus.MALFORMED, ReportStatus.MISSING

# --- equal items -------------------------------------------------------------------------------------------------


def lines_of(done: IngestResult) -> list[list[int]]:
    return sorted(sorted(place.start or 0 for place in finding.locations) for finding in done.findings)


@pytest.mark.parametrize(
    ("lines", "groups"),
    [
        ([10, 13], [[10, 13]]),
        ([10, 14], [[10], [14]]),
        ([10, 13, 16], [[10, 13], [16]]),
        ([16, 10, 13], [[10, 13], [16]]),
        ([10, 12, 13, 14, 17, 18], [[10, 12, 13], [14, 17], [18]]),
    ],
)
def test_equal_titles_within_three_lines_of_the_first_are_one(lines: list[int], groups: list[list[int]]) -> None:
    """C-33: distance is measured to the first, and never added up."""
    assert lines_of(run_pass(*(raw("same", line, n=line) for line in lines))) == groups


def test_titles_are_compared_without_case_and_punctuation() -> None:
    """Another spelling is the same title; another title, even one of signs alone, is not."""
    done = run_pass(raw("a", title="Lock is never released"), raw("b", title="lock is  NEVER released!"))
    assert [len(finding.votes) for finding in done.findings] == [2]
    assert len(run_pass(raw("a", title="???"), raw("b", title="!!!")).findings) == 2


def test_another_file_or_none_is_another_defect() -> None:
    """A title is nothing without its place, and case counts in a path."""
    done = run_pass(raw("a"), raw("b", path="src/b.py"), raw("c", path="SRC/a.py"), raw("d", path="", line=None))
    assert len(done.findings) == 4


def test_without_lines_items_differ_by_symbol_and_quotation() -> None:
    """Items about a whole file are one by title, unless they name another symbol or quote something else."""
    whole = [raw("a", None), raw("b", None)]
    done = run_pass(*whole, raw("a", None, n=2, symbol="save"), raw("a", None, n=3, quote="of a file"))
    assert sorted(len(finding.votes) for finding in done.findings) == [1, 1, 2]
    assert len({finding.signature for finding in done.findings}) == 3


def test_two_lines_of_a_tool_are_two_findings() -> None:
    """A linter's lines are exact: equal messages on neighbouring lines are apart, on one line they are one."""
    done = run_pass(raw("ruff", 10, scale="sarif"), raw("ruff", 11, scale="sarif", n=2), raw("correctness", 12))
    assert lines_of(done) == [[10, 12], [11]]
    assert len(run_pass(raw("ruff", 10, scale="sarif"), raw("ruff", 10, scale="sarif", n=2)).findings) == 1
    assert len(run_pass(raw("ruff", 10, scale="sarif"), raw("mypy", 11, scale="sarif")).findings) == 1


@pytest.mark.parametrize(
    ("votes", "severity", "confidence"),
    [
        ([(P0, 50), (P2, 75)], P0, 75),
        ([(P1, 50), (P2, 75)], P2, 100),
        ([(P1, 75), (P2, 100)], P1, 100),
        ([(P1, 75), (P1, 100)], P1, 100),
        ([(P0, 25), (P3, 75)], P3, 100),
        ([(P1, 25), (P2, 50)], P2, 75),
    ],
)
@pytest.mark.parametrize("titles", [("Lock is never released",) * 2, ("Lock is never released", "Lock never released")])
def test_severity_and_confidence_come_from_one_vote(
    votes: list[tuple[Severity, int]], severity: Severity, confidence: int, titles: tuple[str, str]
) -> None:
    """The worst of those that pass the gate, then promoted: never the worst of one with the confidence of another."""
    findings = [
        raw(f"r{n}", severity=worst, confidence=sure, title=title)
        for n, ((worst, sure), title) in enumerate(zip(votes, titles, strict=True))
    ]
    for order in (findings, findings[::-1]):
        (found,) = run_pass(*order).findings
        assert (found.severity, found.confidence.value) == (severity, confidence)
        assert {(vote.severity, vote.confidence) for vote in found.votes} == set(votes)


@pytest.mark.parametrize(
    ("classes", "merged"),
    [
        ([SAFE, GATED], GATED),
        ([MANUAL, GATED], MANUAL),
        ([ADVISORY, SAFE], SAFE),
        ([ADVISORY, MANUAL], MANUAL),
        ([ADVISORY, ADVISORY], ADVISORY),
    ],
)
@pytest.mark.parametrize("title", ["Lock is never released", "Lock never released"])
def test_the_most_careful_class_wins(classes: list[AutofixClass], merged: AutofixClass, title: str) -> None:
    """C-19: safe, gated, manual; advisory only when all say so; in a cluster as among equal items."""
    findings = [raw("a", autofix_class=classes[0]), raw("b", autofix_class=classes[1], title=title)]
    assert [run_pass(*order).findings[0].autofix_class for order in (findings, findings[::-1])] == [merged, merged]


@pytest.mark.parametrize("pair", list(zip(Owner, list(Owner)[1:], strict=False)))
def test_the_most_careful_owner_wins(pair: tuple[Owner, Owner]) -> None:
    """A fixer gives way to a resolver, that to a person, and nobody turns a release matter into code."""
    for one, other in (pair, pair[::-1]):
        (found,) = run_pass(raw("a", owner=one), raw("b", owner=other)).findings
        assert found.owner is pair[1]


def test_flags_are_joined_on_the_safe_side() -> None:
    """One wish for verification is enough, one vote for the change too, and one for a stop."""
    careful = raw("a", requires_verification=True, pre_existing=True, system_breaking=True)
    (found,) = run_pass(careful, raw("b")).findings
    assert (found.requires_verification, found.pre_existing, found.system_breaking) == (True, False, True)
    (old,) = run_pass(careful, raw("b", pre_existing=True)).findings
    assert old.pre_existing


def test_words_come_from_the_first_that_gives_them() -> None:
    """What the worst item leaves out another may give; tests and ids are collected."""
    worst = raw("b", severity=P0, regression_tests=("t1",), tool_ids={"x": "1"}, ext={"k": 1}, lens=Lens.QA)
    other = raw(
        "a", 11, impact="data is lost", fix="close it", plain_title="File stays open", reproduction="run it",
        min_fix_scope="save()", regression_tests=("t1", "t2"), tool_ids={"x": "2", "y": "3"}, ext={"k": 2, "l": 3},
    )  # fmt: skip
    (found,) = run_pass(other, worst).findings
    assert (found.impact, found.fix, found.plain_title) == ("data is lost", "close it", "File stays open")
    assert (found.reproduction, found.min_fix_scope, found.lens) == ("run it", "save()", Lens.QA)
    assert found.regression_tests == ("t1", "t2")
    assert (found.fingerprints["x"], found.fingerprints["y"], found.ext) == ("1", "3", {"k": 1, "l": 3})
    assert [place.start for place in found.locations] == [10, 11]
    assert found.scope == "src"
    assert run_pass(raw("a", scope="billing")).findings[0].scope == "billing"


def test_evidence_is_the_union_of_all() -> None:
    """Each piece once, that of the item that decides first."""
    shared, own = Evidence(raw="shared"), Evidence(raw="own")
    (found,) = run_pass(raw("a", evidence=(own, shared)), raw("b", severity=P0, evidence=(shared,))).findings
    assert [item.raw for item in found.evidence] == ["", "shared", "own"]


def test_every_vote_is_kept() -> None:
    """Each with the item it comes from; the first is that of the item that survives."""
    done = run_pass(
        raw("b", action="skip", stage="deep"), raw("a", severity=P0), task="TASK-1", run="run-1", stage="review"
    )
    (found,) = done.findings
    assert [(vote.input_id, vote.stage, vote.run, vote.action) for vote in found.votes] == [
        ("a#1", "review", "run-1", ""),
        ("b#1", "deep", "run-1", "skip"),
    ]
    assert {vote.pass_id for vote in found.votes} == {done.passed.id}
    assert (found.task, found.sources, found.agreement) == ("TASK-1", ("a", "b"), 2)
    assert [(item.input_id, item.disposition, item.into) for item in done.passed.entries] == [
        ("a#1", Disposition.SURVIVING, ""),
        ("b#1", Disposition.MERGED, "a#1"),
    ]
    assert all(word in done.passed.entries[0].reason for word in ("a (critical)", "b (high)"))


def test_one_certain_item_makes_a_finding_certain() -> None:
    """A finding is uncertain only if no item has support in the code."""
    doubtful = raw("a", severity=P0, path="src/gone.py")
    assert run_pass(doubtful).findings[0].state is FindingState.UNCERTAIN
    certain = raw("b", path="src/gone.py", scale="tool")
    assert run_pass(doubtful, certain).findings[0].state is FindingState.OPEN


def test_a_state_that_a_store_gives_is_kept() -> None:
    """What comes from a store has a state already."""
    assert run_pass(raw(state=FindingState.FIX_CLAIMED)).findings[0].state is FindingState.FIX_CLAIMED


def test_what_its_source_suppresses_is_kept_as_dismissed() -> None:
    """A suppressed result is recorded with its reason and never gates; one voice against it brings it back."""
    quiet = raw("ruff", suppressed="noqa: generated", severity=P0, confidence=25)
    done = run_pass(quiet)
    (found,) = done.findings
    assert (found.state, found.gate.value) == (FindingState.WONT_FIX, "suggest")
    assert found.suppression is not None
    assert (found.suppression.reason, found.suppression.by) == ("noqa: generated", "ruff")
    assert done.passed.entries[0].disposition is Disposition.SUPPRESSED
    kept = run_pass(raw("ruff", suppressed="", state=FindingState.FALSE_POSITIVE))
    assert kept.findings[0].state is FindingState.FALSE_POSITIVE
    (heard,) = run_pass(quiet, raw("b")).findings
    assert (heard.state, heard.suppression) == (FindingState.OPEN, None)


def test_equal_findings_differ_by_their_order() -> None:
    """Without a quotation the order of lines counts, not their numbers: what is added above changes nothing."""
    made = [raw("a", line, n=line) for line in (50, 10, 30)]
    found = {finding.locations[0].start: finding.signature for finding in run_pass(*made).findings}
    evidence = [Evidence(path="src/a.py")]
    assert [found[line] for line in (10, 30, 50)] == [
        signature(made[0].category, evidence, made[0].title, nth=nth) for nth in range(3)
    ]


def test_equal_quotations_differ_by_their_order() -> None:
    """The same line of code twice in a file is two findings, with two signatures."""
    text = "\n".join(["eval(request.body)"] + ["other line"] * 40 + ["eval(request.body)"])
    made = [raw("a", line, n=line, quote="eval(request.body)") for line in (1, 42)]
    found = run_pass(*made, files={"src/a.py": text}).findings
    assert len({finding.signature for finding in found}) == 2
    assert found[0].signature == signature(made[0].category, made[0].evidence, made[0].title)


# --- clusters ----------------------------------------------------------------------------------------------------

SAID = (
    raw("a", 10, title="Lock is never released", severity=P2),
    raw("b", 11, title="The lock stays held when it fails, never released", severity=P1),
    raw("c", 12, title="Never released lock", severity=P3),
)


def test_different_wordings_of_several_reviewers_are_one_cluster() -> None:
    """0-20: the worst leads, has all votes and more confidence; the others keep their own text and rating."""
    done = run_pass(*SAID)
    (leader,) = done.findings
    assert (leader.title, leader.severity, leader.confidence.value) == (SAID[1].title, P1, 100)
    assert (leader.agreement, leader.sources, len(leader.votes)) == (3, ("b", "a", "c"), 3)
    ledger = Ledger(done.events)
    assert [finding.id for finding in ledger] == [leader.id] == list(done.passed.finding_ids)
    members = {finding.title: finding for finding in ledger.members(leader.id)}
    assert {title: (one.severity, one.sources) for title, one in members.items()} == {
        SAID[0].title: (P2, ("a",)),
        SAID[2].title: (P3, ("c",)),
    }
    assert [(item.input_id, item.disposition, item.into) for item in done.passed.entries] == [
        ("a#1", Disposition.MERGED, "b#1"),
        ("b#1", Disposition.SURVIVING, ""),
        ("c#1", Disposition.MERGED, "b#1"),
    ]


def test_two_items_of_one_reviewer_are_two_findings() -> None:
    """0-20: only different reviewers are clustered."""
    assert len(run_pass(SAID[0], replace(SAID[1], reviewer="a", input_id="a#2")).findings) == 2


def test_a_cluster_that_agrees_passes_the_gate() -> None:
    """003-16: two doubtful reports that agree are worth one that is not; alone each is filtered."""
    doubtful = [replace(one, confidence=Confidence(value=50, scale="anchor")) for one in SAID[:2]]
    assert [finding.confidence.value for finding in run_pass(*doubtful).findings] == [75]
    for one in doubtful:
        assert [item.disposition for item in run_pass(one).passed.entries] == [Disposition.FILTERED]


def test_a_cluster_that_does_not_pass_the_gate_is_filtered_item_by_item() -> None:
    """Agreement does not make a speculation certain."""
    guesses = [replace(one, confidence=Confidence(value=25, scale="anchor")) for one in SAID]
    done = run_pass(*guesses)
    assert {item.disposition for item in done.passed.entries} == {Disposition.FILTERED}
    assert not Ledger(done.events).findings


def test_a_guess_does_not_make_an_old_defect_new() -> None:
    """A member that the gate would filter agrees; only those that are sure say that a defect was there before."""
    guess = Confidence(value=25, scale="anchor")
    for first, second in ((SAID[0], SAID[1]), (SAID[1], SAID[0])):
        old, doubtful = replace(first, pre_existing=True), replace(second, confidence=guess)
        (finding,) = run_pass(old, doubtful).findings
        assert (finding.pre_existing, finding.gate.value) == (True, Gate.SUGGEST)


# --- promotion and the gate --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("anchors", "merged"),
    [([50, 50], 75), ([75, 50], 100), ([100, 75], 100), ([25, 25], 25), ([0, 0], 0), ([75, 75], 100), ([50], 50)],
)
def test_agreement_promotes_by_one_anchor(anchors: list[int], merged: int) -> None:
    """Two independent reviewers are worth one step; what is speculative stays so, and alone nothing rises."""
    findings = [raw(f"r{n}", confidence=anchor, pre_existing=True) for n, anchor in enumerate(anchors)]
    assert run_pass(*findings).findings[0].confidence.value == merged


def test_the_same_reviewer_twice_counts_once() -> None:
    """Repeating an item is not agreement."""
    (found,) = run_pass(raw("a", 10), raw("a", 11, n=2)).findings
    assert (found.confidence.value, found.agreement) == (75, 1)


@pytest.mark.parametrize(("value", "after"), [(49, 49), (50, 75), (60, 75), (74, 75), (83, 100), (100, 100)])
def test_other_scales_rise_to_an_anchor(value: int, after: int) -> None:
    """A tool's 83 rises to the next anchor, and no longer says what its native number was."""
    confidence = Confidence(value=value, scale="fraction", native=value / 100)
    assert promote(confidence, 2) == (confidence_from_anchor(after) if after != value else confidence)
    assert promote(confidence, 1) == confidence


@pytest.mark.parametrize(("severity", "anchor"), list(product(Severity, (0, 25, 50, 75, 100))))
def test_the_gate(severity: Severity, anchor: int) -> None:
    """003-16: below 75 out, a critical one from 50 on in; what is out has an outcome."""
    done = run_pass(raw(severity=severity, confidence=anchor))
    through = anchor >= (50 if severity is P0 else 75)
    assert passes(severity, confidence_from_anchor(anchor)) == through
    assert len(done.findings) == through
    assert done.passed.entries[0].disposition is (Disposition.SURVIVING if through else Disposition.FILTERED)


@pytest.mark.parametrize("anchor", [0, 25, 50, 75, 100])
def test_pre_existing_findings_are_separated_before_the_gate(anchor: int) -> None:
    """C-34: it is reported whatever its anchor, even as advice on tests, and never gates."""
    old: dict[str, Any] = {"pre_existing": True, "confidence": anchor}
    (found,) = run_pass(raw(severity=P0, **old)).findings
    assert found.gate.value is Gate.SUGGEST
    assert len(run_pass(raw("testing", severity=P3, autofix_class=ADVISORY, **old)).findings) == 1


@pytest.mark.parametrize(
    ("change", "gate"),
    [
        ({"severity": P0}, "must"),
        ({"severity": P1}, "must"),
        ({"severity": P2}, "suggest"),
        ({"severity": P3}, "suggest"),
        ({"severity": P0, "autofix_class": ADVISORY}, "suggest"),
        ({"severity": P0, "pre_existing": True}, "suggest"),
        ({"severity": P0, "confidence": 50}, "must"),
    ],
)
def test_what_blocks_a_change(change: dict[str, Any], gate: str) -> None:
    """000-28: by policy, which is recorded; severity is not touched by it."""
    (found,) = run_pass(raw(**change)).findings
    assert (found.gate.value, found.gate.by, found.gate.policy) == (gate, "policy", "default")
    assert found.severity is change["severity"]


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"reviewer": "testing"}, "gap"),
        ({"reviewer": "maintainability"}, "risk"),
        ({"reviewer": "deep-Testing-reviewer"}, "gap"),
        ({"reviewer": "testing", "severity": INFO}, "gap"),
        ({"reviewer": "testing", "confidence": 25}, "gap"),
        ({"reviewer": "testing", "severity": P1}, ""),
        ({"reviewer": "testing", "autofix_class": AutofixClass.MANUAL}, ""),
        ({"reviewer": "correctness"}, ""),
    ],
)
def test_soft_advice_is_demoted_to_a_note(change: dict[str, Any], note: str) -> None:
    """P2 and P3, advisory, from testing or maintainability alone: a note beside the findings, with file and line."""
    done = run_pass(raw(**{"severity": P2, "autofix_class": ADVISORY, **change}))
    text = ("src/a.py:10 -- Lock is never released",)
    assert done.passed.coverage.testing_gaps == (text if note == "gap" else ())
    assert done.passed.coverage.residual_risks == (text if note == "risk" else ())
    assert len(done.findings) == (not note)
    assert done.passed.entries[0].disposition is (Disposition.DEMOTED if note else Disposition.SURVIVING)


def test_soft_advice_that_another_shares_is_a_finding() -> None:
    """As soon as somebody else says so it is more than advice; two who look after tests and maintenance are not."""
    soft: dict[str, Any] = {"severity": P2, "autofix_class": ADVISORY}
    assert len(run_pass(raw("testing", **soft), raw("correctness", **soft)).findings) == 1
    done = run_pass(raw("testing", **soft), raw("maintainability", **soft))
    coverage = done.passed.coverage
    assert (len(done.findings), len(coverage.testing_gaps), len(coverage.residual_risks)) == (0, 1, 0)


def test_a_note_names_as_much_of_the_place_as_is_known() -> None:
    """Without a line the file, without a file nothing."""
    soft: dict[str, Any] = {"severity": P2, "autofix_class": ADVISORY, "title": "T"}
    done = run_pass(raw("testing", None, **soft), raw("testing", n=2, path="", **soft))
    assert done.passed.coverage.testing_gaps == ("no place -- T", "src/a.py -- T")


def test_the_worst_and_surest_come_first() -> None:
    """Severity, then confidence, then path, then line."""
    findings = [
        raw("a", 20, n=1, path="src/b.py", title="one"),
        raw("a", 90, n=2, title="two"),
        raw("a", 20, n=3, title="three"),
        raw("a", 50, n=4, severity=P0, confidence=50, title="four"),
        raw("a", 50, n=5, confidence=100, title="five"),
        raw("a", 50, n=6, severity=P2, confidence=100, title="six"),
    ]
    assert [found.title for found in run_pass(*findings).findings] == ["four", "five", "three", "two", "one", "six"]


# --- coverage ----------------------------------------------------------------------------------------------------


def answers(*parts: tuple[str, ReportStatus, Any]) -> list[ReviewerReport]:
    return [
        ReviewerReport(name, status, covered=covered, problem="cut off" * (status is BAD))
        for name, status, covered in parts
    ]


def test_coverage_says_who_answered_and_what_they_left_open() -> None:
    """A pass with a silent or unreadable reviewer is not complete; of two answers under one name the worse counts."""
    reports = answers(("a", ReportStatus.EMPTY, None), ("b", OK, None), ("b", BAD, None))
    coverage = run_pass(reports=reports).passed.coverage
    assert coverage.reviewers == {"a": ReportStatus.EMPTY, "b": BAD}
    assert (coverage.problems, coverage.complete) == ({"b": "cut off"}, False)
    assert run_pass(reports=reports[::-1]).passed.coverage == coverage
    twice = answers(("a", ReportStatus.EMPTY, None), ("a", GONE, None))
    assert run_pass(reports=twice).passed.coverage.reviewers == {"a": GONE}
    notes = [
        ReviewerReport("a", ReportStatus.EMPTY, residual_risks=("r2", "r1"), testing_gaps=("g",)),
        ReviewerReport("b", ReportStatus.EMPTY, residual_risks=("r1",)),
    ]
    coverage = run_pass(reports=notes).passed.coverage
    assert (coverage.residual_risks, coverage.testing_gaps, coverage.complete) == (("r1", "r2"), ("g",), True)


@pytest.mark.parametrize(
    ("parts", "paths"),
    [
        ([("a", OK, None)], None),
        ([("a", OK, ("x", "y")), ("b", OK, ("z",))], ("x", "y", "z")),
        ([("a", OK, ("x",)), ("b", OK, None)], None),
        ([("a", OK, ("x",)), ("b", BAD, ("z",)), ("c", GONE, None)], ("x",)),
        ([("a", GONE, None)], ()),
    ],
)
def test_what_was_looked_at(parts: list[tuple[str, ReportStatus, Any]], paths: tuple[str, ...] | None) -> None:
    """Nobody who did not answer looked at anything; one who does not say where looked everywhere."""
    assert run_pass(reports=answers(*parts)).passed.coverage.paths == paths


def test_files_that_were_read_whole_are_named() -> None:
    """A file of which any part could not be read is not among them."""
    reports = [
        replace(reports_of([raw("a")])[0], file="one"),
        ReviewerReport("b", OK, file="two"),
        ReviewerReport("two", BAD, file="two", problem="cut off"),
    ]
    coverage = run_pass(reports=reports).passed.coverage
    assert (coverage.files, coverage.unnamed) == (("one",), ("two",))


def test_locations_beyond_the_first_are_checked_too() -> None:
    """A second place on a line that the file does not have names the file alone."""
    places = (Location(path="src/a.py", start=10), Location(path="src/b.py", start=900))
    (found,) = run_pass(raw(locations=places)).findings
    assert found.locations[1] == Location(path="src/b.py")
