"""Agreement, age, advice and confidence: what is promoted, set apart, demoted, kept back and let through."""

from itertools import product

import pytest

from pipeline.findings.events import Disposition
from pipeline.findings.merge import CAPS, Policy, passes, promoted
from pipeline.findings.model import AutofixClass, Confidence, Gate, Severity
from pipeline.findings.scales import confidence_from_anchor

from .conftest import MakeClaim, Run

P0, P1, P2, P3, INFO = Severity
ADVISORY = AutofixClass.ADVISORY


@pytest.mark.parametrize(
    ("anchors", "merged"),
    [([50, 50], 75), ([75, 50], 100), ([100, 75], 100), ([25, 25], 25), ([0, 0], 0), ([75, 75], 100), ([50], 50)],
)
def test_agreement_promotes_by_one_anchor(claim: MakeClaim, run: Run, anchors: list[int], merged: int) -> None:
    """Two independent reviewers are worth one step; what is speculative stays so, and alone nothing rises."""
    claims = [claim(f"r{n}", confidence=anchor, pre_existing=True) for n, anchor in enumerate(anchors)]
    done = run(*claims)
    assert done.drafts[0].confidence.value == merged
    assert ("raised" in done.entries[0].reason) == (max(anchors) != merged)


def test_the_same_reviewer_twice_is_one_voice(claim: MakeClaim, run: Run) -> None:
    """Who repeats himself does not agree with anybody."""
    (draft,) = run(claim("a", 10), claim("a", 11, n=2)).drafts
    assert (draft.confidence.value, draft.agreement) == (75, 1)


@pytest.mark.parametrize(("value", "after"), [(49, 49), (50, 75), (60, 75), (74, 75), (83, 100), (100, 100)])
def test_other_scales_rise_to_an_anchor(value: int, after: int) -> None:
    """A tool's 83 rises to the next anchor, and no longer says what its native number was."""
    confidence = Confidence(value=value, scale="fraction", native=value / 100)
    assert promoted(confidence, 2) == (confidence_from_anchor(after) if after != value else confidence)
    assert promoted(confidence, 1) == confidence


@pytest.mark.parametrize(("severity", "anchor"), list(product(Severity, (0, 25, 50, 75, 100))))
def test_the_gate(claim: MakeClaim, run: Run, severity: Severity, anchor: int) -> None:
    """003-16: below 75 out, a critical one from 50 on in; whoever is out has an entry with the anchor."""
    done = run(claim(severity=severity, confidence=anchor))
    through = anchor >= (50 if severity is P0 else 75)
    assert passes(severity, confidence_from_anchor(anchor)) == through
    assert len(done.drafts) == through
    assert done.entries[0].disposition is (Disposition.SURVIVING if through else Disposition.FILTERED)
    if not through:
        assert f"confidence, {anchor}, is below {50 if severity is P0 else 75}" in done.entries[0].reason


@pytest.mark.parametrize("anchor", [0, 25, 50, 75, 100])
def test_what_was_there_before_is_set_apart_before_the_gate(claim: MakeClaim, run: Run, anchor: int) -> None:
    """C-34: it is reported whatever its anchor, even as advice on tests, and never gates."""
    old = {"pre_existing": True, "confidence": anchor}
    (draft,) = run(claim(severity=P0, **old)).drafts
    assert draft.gate.value is Gate.SUGGEST
    done = run(claim("testing", severity=P3, autofix_class=ADVISORY, **old))
    assert len(done.drafts) == 1
    assert "before the change" in done.entries[0].reason


@pytest.mark.parametrize(
    ("change", "preset", "gate"),
    [
        ({"severity": P0}, "default", "must"),
        ({"severity": P1}, "default", "must"),
        ({"severity": P2}, "default", "suggest"),
        ({"severity": P2}, "strict", "must"),
        ({"severity": P3}, "strict", "suggest"),
        ({"severity": P0, "autofix_class": ADVISORY}, "default", "suggest"),
        ({"severity": P0, "pre_existing": True}, "default", "suggest"),
        ({"severity": P0, "confidence": 50}, "default", "must"),
    ],
)
def test_what_keeps_a_change_from_shipping(
    claim: MakeClaim, run: Run, change: dict[str, object], preset: str, gate: str
) -> None:
    """000-28: by policy, which is on record; severity is not touched by it."""
    policy = Policy(preset="strict" if preset == "strict" else "default")
    (draft,) = run(claim(**change), policy=policy).drafts
    assert (draft.gate.value, draft.gate.by, draft.gate.policy) == (gate, "policy", preset)
    assert draft.severity is change["severity"]


def test_what_is_outside_the_change_never_gates(claim: MakeClaim, run: Run) -> None:
    """000-58: it is recorded, and suggested."""
    claims = [claim("a"), claim("a", path="src/b.py", n=2), claim("a", path="", n=3)]
    done = run(*claims, changed_paths=["src/a.py"])
    gates = {draft.location.path if draft.location else "": draft.gate.value for draft in done.drafts}
    assert gates == {"src/a.py": "must", "src/b.py": "suggest", "": "must"}


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
def test_soft_advice_is_demoted_to_a_note(claim: MakeClaim, run: Run, change: dict[str, object], note: str) -> None:
    """P2 and P3, advisory, from testing or maintainability alone: a note beside the findings, with file and line."""
    done = run(claim(**{"severity": P2, "autofix_class": ADVISORY, **change}))
    text = ("src/a.py:10 -- Lock is never released",)
    assert done.coverage.testing_gaps == (text if note == "gap" else ())
    assert done.coverage.residual_risks == (text if note == "risk" else ())
    assert len(done.drafts) == (not note)
    assert done.entries[0].disposition is (Disposition.DEMOTED if note else Disposition.SURVIVING)


def test_soft_advice_that_another_shares_is_a_finding(claim: MakeClaim, run: Run) -> None:
    """As soon as somebody else says so it is more than advice; two who look after tests and upkeep are not."""
    soft = {"severity": P2, "autofix_class": ADVISORY}
    assert len(run(claim("testing", **soft), claim("correctness", **soft)).drafts) == 1
    done = run(claim("testing", **soft), claim("maintainability", **soft))
    assert (len(done.drafts), len(done.coverage.testing_gaps), len(done.coverage.residual_risks)) == (0, 1, 0)


def test_a_note_names_as_much_of_the_place_as_is_known(claim: MakeClaim, run: Run) -> None:
    """Without a line the file, without a file nothing."""
    soft = {"severity": P2, "autofix_class": ADVISORY, "title": "T"}
    done = run(claim("testing", None, **soft), claim("testing", n=2, path="", **soft))
    assert done.coverage.testing_gaps == ("no place -- T", "src/a.py -- T")


def test_nobody_reads_notes_in_a_headless_pass(claim: MakeClaim, run: Run) -> None:
    """Then they are suppressed, and counted."""
    soft = claim("testing", severity=P2, autofix_class=ADVISORY)
    done = run(soft, policy=Policy(mode="headless"))
    assert (done.drafts, done.coverage.testing_gaps) == ((), ())
    assert done.entries[0].disposition is Disposition.SUPPRESSED


def test_a_limit_leaves_out_the_least(claim: MakeClaim, run: Run) -> None:
    """001-18, C-11: lowest severity, then lowest confidence; each has an entry; without a limit all stay."""
    claims = [
        claim("a", 10, n=1, severity=P2, confidence=100),
        claim("a", 20, n=2, severity=P2, confidence=75),
        claim("a", 30, n=3, severity=P1, confidence=75),
        claim("a", 40, n=4, severity=P3, pre_existing=True),
        claim("a", 50, n=5, severity=P3, suppressed="known"),
    ]
    done = run(*claims, policy=Policy(cap=2))
    assert [draft.locations[0].start for draft in done.drafts] == [30, 10, 40, 50]
    assert done.entries[1].disposition is Disposition.FILTERED
    assert "limit of this pass is 2" in done.entries[1].reason
    assert len(run(*claims).drafts) == 5
    assert dict(CAPS) == {"file": 25, "changeset": 30, "package": 30, "team": 40}


def test_the_worst_and_surest_come_first(claim: MakeClaim, run: Run) -> None:
    """Severity, then confidence, then path, then line."""
    claims = [
        claim("a", 20, n=1, path="src/b.py", title="one"),
        claim("a", 90, n=2, title="two"),
        claim("a", 20, n=3, title="three"),
        claim("a", 50, n=4, severity=P0, confidence=50, title="four"),
        claim("a", 50, n=5, confidence=100, title="five"),
        claim("a", 50, n=6, severity=P2, confidence=100, title="six"),
    ]
    assert [draft.title for draft in run(*claims).drafts] == ["four", "five", "three", "two", "one", "six"]
