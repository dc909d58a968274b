"""Many claims, one finding: what each field is made of, and what stays as votes."""

import pytest

from pipeline.findings.events import Disposition
from pipeline.findings.fingerprints import signature
from pipeline.findings.merge import Policy
from pipeline.findings.model import AutofixClass, Evidence, FindingId, FindingState, Lens, Owner, RawFinding, Severity

from .conftest import MakeClaim, Run

P0, P1, P2, P3 = Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM, Severity.LOW
SAFE, GATED, MANUAL, ADVISORY = AutofixClass


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
def test_severity_and_confidence_come_from_one_vote(
    claim: MakeClaim, run: Run, votes: list[tuple[Severity, int]], severity: Severity, confidence: int
) -> None:
    """The worst of those that pass the gate, then promoted: never the worst of one with the confidence of another."""
    claims = [claim(f"r{n}", severity=worst, confidence=sure) for n, (worst, sure) in enumerate(votes)]
    for order in (claims, claims[::-1]):
        (draft,) = run(*order).drafts
        assert (draft.severity, draft.confidence.value) == (severity, confidence)
        assert {(vote.severity, vote.confidence) for vote in draft.votes} == set(votes)


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
def test_the_most_careful_class_wins(
    claim: MakeClaim, run: Run, classes: list[AutofixClass], merged: AutofixClass
) -> None:
    """C-19: safe, gated, manual; advisory only when all say so."""
    claims = [claim(f"r{n}", autofix_class=kind) for n, kind in enumerate(classes)]
    assert [run(*order).drafts[0].autofix_class for order in (claims, claims[::-1])] == [merged, merged]


@pytest.mark.parametrize("pair", list(zip(Owner, list(Owner)[1:], strict=False)))
def test_the_most_careful_owner_wins(claim: MakeClaim, run: Run, pair: tuple[Owner, Owner]) -> None:
    """A fixer gives way to a resolver, that to a person, and nobody turns a release matter into code."""
    for one, other in (pair, pair[::-1]):
        (draft,) = run(claim("a", owner=one), claim("b", owner=other)).drafts
        assert draft.owner is pair[1]


def test_flags_are_joined_on_the_safe_side(claim: MakeClaim, run: Run) -> None:
    """One wish for verification is enough, one vote for the change too, and one for a stop."""
    careful = claim("a", requires_verification=True, pre_existing=True, system_breaking=True)
    (draft,) = run(careful, claim("b")).drafts
    assert (draft.requires_verification, draft.pre_existing, draft.system_breaking) == (True, False, True)
    (old,) = run(careful, claim("b", pre_existing=True)).drafts
    assert old.pre_existing


def test_words_come_from_the_first_that_tells_them(claim: MakeClaim, run: Run) -> None:
    """What the worst claim leaves out another may tell; tests and ids are collected."""
    worst = claim("b", severity=P0, regression_tests=("t1",), tool_ids={"x": "1"}, ext={"k": 1}, lens=Lens.QA)
    other = claim(
        "a", 11, impact="data is lost", fix="close it", plain_title="File stays open", reproduction="run it",
        min_fix_scope="save()", regression_tests=("t1", "t2"), tool_ids={"x": "2", "y": "3"}, ext={"k": 2, "l": 3},
    )  # fmt: skip
    (draft,) = run(other, worst).drafts
    assert (draft.impact, draft.fix, draft.plain_title) == ("data is lost", "close it", "File stays open")
    assert (draft.reproduction, draft.min_fix_scope, draft.lens) == ("run it", "save()", Lens.QA)
    assert draft.regression_tests == ("t1", "t2")
    assert draft.fingerprints == {"x": "1", "y": "3"}
    assert draft.ext == {"k": 1, "l": 3}
    assert [place.start for place in draft.locations] == [10, 11]
    assert draft.scope == "src"
    assert run(claim("a", scope="billing")).drafts[0].scope == "billing"


def test_evidence_is_the_union_of_all(claim: MakeClaim, run: Run) -> None:
    """Each piece once, that of the claim that stands first."""
    shared, own = Evidence(raw="shared"), Evidence(raw="own")
    (draft,) = run(claim("a", evidence=(own, shared)), claim("b", severity=P0, evidence=(shared,))).drafts
    assert [item.raw for item in draft.evidence] == ["", "shared", "own"]


def test_a_draft_has_votes_and_no_identity(claim: MakeClaim, run: Run) -> None:
    """Votes stay apart, each with the item it comes from; the first is of the item that survives."""
    made = [claim("b", action="skip", stage="deep"), claim("a", severity=P0)]
    done = run(*made, task="TASK-1", run="run-1", stage="review")
    (draft,) = done.drafts
    assert draft.id == FindingId("")
    assert [vote.input_id for vote in draft.votes] == ["a#1", "b#1"]
    assert [(vote.stage, vote.run, vote.pass_id, vote.action) for vote in draft.votes] == [
        ("review", "run-1", "REV-1", ""),
        ("deep", "run-1", "REV-1", "skip"),
    ]
    assert (draft.task, draft.pass_id, draft.created_at) == ("TASK-1", "REV-1", "2026-11-16T00:00:00Z")
    assert draft.sources == ("a", "b")
    assert [(entry.input_id, entry.disposition, entry.into) for entry in done.entries] == [
        ("a#1", Disposition.SURVIVING, ""),
        ("b#1", Disposition.MERGED, "a#1"),
    ]
    assert "a (critical), b (high): critical kept" in done.entries[0].reason


def test_agreement_counts_independent_voices(claim: MakeClaim, run: Run) -> None:
    """000-33: one model with one prompt is one voice under two names, and some have none."""
    claims = [claim("security"), claim("security-again"), claim("fast-pass")]
    voices = {"security-again": "security", "fast-pass": ""}
    assert run(*claims).drafts[0].agreement == 3
    (draft,) = run(*claims, policy=Policy(origin=lambda name: voices.get(name, name))).drafts
    assert (draft.agreement, draft.confidence.value) == (1, 75)
    assert run(claims[2], policy=Policy(origin=lambda _: "")).drafts[0].agreement == 1


def test_one_sure_claim_makes_a_finding_sure(claim: MakeClaim, run: Run) -> None:
    """A finding is uncertain only when nobody's claim has a hold."""
    doubtful = claim("a", severity=P0, quote="nowhere to be found")
    assert run(doubtful).drafts[0].state is FindingState.UNCERTAIN
    assert run(doubtful, claim("b")).drafts[0].state is FindingState.OPEN


def test_a_state_that_a_store_gives_is_kept(claim: MakeClaim, run: Run) -> None:
    """What comes from a store has a state already."""
    assert run(claim(state=FindingState.FIX_CLAIMED)).drafts[0].state is FindingState.FIX_CLAIMED


def test_what_its_source_suppresses_is_kept_as_dismissed(claim: MakeClaim, run: Run) -> None:
    """A suppressed result is recorded with its reason and never gates; one voice against it brings it back."""
    quiet = claim("ruff", suppressed="noqa: generated", severity=P0, confidence=25)
    done = run(quiet)
    (draft,) = done.drafts
    assert draft.state is FindingState.WONT_FIX
    assert draft.suppression is not None
    assert (draft.suppression.reason, draft.suppression.by) == ("noqa: generated", "ruff")
    assert draft.gate.value == "suggest"
    assert done.entries[0].disposition is Disposition.SUPPRESSED
    assert (
        run(claim("ruff", suppressed="", state=FindingState.FALSE_POSITIVE)).drafts[0].state
        is FindingState.FALSE_POSITIVE
    )
    (heard,) = run(quiet, claim("b")).drafts
    assert (heard.state, heard.suppression) == (FindingState.OPEN, None)


def test_a_reason_that_repeats_the_title_is_left_out(claim: MakeClaim, run: Run) -> None:
    """000-30: the finding stays, its reason does not, and the entry says so."""
    done = run(claim(title="Lock leaks", impact="lock leaks."))
    assert done.drafts[0].impact == ""
    assert "only repeats its title" in done.entries[0].reason
    assert run(claim(title="Lock leaks", impact="Lock leaks and all wait")).drafts[0].impact


def signatures(run: Run, claims: list[RawFinding]) -> dict[int | None, str]:
    return {draft.locations[0].start: draft.signature for draft in run(*claims).drafts}


def test_equal_findings_are_told_apart_by_their_order(claim: MakeClaim, run: Run) -> None:
    """Without a quotation the line's order counts, not its number: what is added above changes nothing."""
    made = [claim("a", line, n=line) for line in (50, 10, 30)]
    found = signatures(run, made)
    evidence = [Evidence(path="src/a.py")]
    assert [found[line] for line in (10, 30, 50)] == [
        signature(made[0].category, evidence, made[0].title, nth=nth) for nth in range(3)
    ]


def test_equal_quotations_are_told_apart_too(claim: MakeClaim, run: Run) -> None:
    """The same line of code twice in a file is two findings, with two signatures."""
    text = "\n".join(["eval(request.body)"] + ["other line"] * 40 + ["eval(request.body)"])
    made = [claim("a", line, n=line, quote="eval(request.body)") for line in (1, 42)]
    drafts = run(*made, files={"src/a.py": text}).drafts
    assert len({draft.signature for draft in drafts}) == 2
    assert drafts[0].signature == signature(made[0].category, made[0].evidence, made[0].title)
