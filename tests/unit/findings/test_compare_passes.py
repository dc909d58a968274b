"""What became of findings between two passes."""

from typing import Any

import pytest
from tests.unit.findings.ledgers import AT, FIRST, LATER, SECOND, assessed, changed, finding, ledger_of, seen, turned

from pipeline.errors import AwfError
from pipeline.findings.events import FindingRaised
from pipeline.findings.model import Actor, Change, FindingState, What
from pipeline.findings.rounds import compare_passes


def became(*events: Any) -> dict[str, Any]:
    """What a comparison of both passes tells, with these events after the first one raised finding 1."""
    ledger = ledger_of(finding(1))
    for event in events:
        ledger.apply(event)
    found = compare_passes(ledger, ledger.passes[FIRST], ledger.passes[SECOND])
    return {name: [one.id for one in findings] for name, findings in found.items() if findings}


ID = finding(1).id
PASSED = assessed(SECOND, LATER)
RULED_FIXED = changed(1, What.RULING, word="fixed", state=FindingState.VERIFIED_FIXED, pass_id=SECOND)
RULED_NOT_FIXED = changed(1, What.RULING, word="not_fixed", pass_id=SECOND)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([PASSED, seen(1)], {"carried": [ID]}),
        ([PASSED], {"carried": [ID]}),  # nobody said anything about it
        ([PASSED, RULED_NOT_FIXED], {"carried": [ID]}),
        ([PASSED, RULED_FIXED], {"resolved": [ID]}),
        ([turned(1, FindingState.FIX_CLAIMED), PASSED], {"carried": [ID], "claimed": [ID]}),  # claimed is not closed
        ([turned(1, FindingState.VERIFIED_FIXED), PASSED], {"resolved": [ID]}),
        ([turned(1, FindingState.WONT_FIX), PASSED, seen(1)], {"resolved": [ID]}),
        (
            [turned(1, FindingState.VERIFIED_FIXED), PASSED, turned(1, FindingState.REOPENED, SECOND, LATER)],
            {"regressed": [ID]},
        ),
        (
            [turned(1, FindingState.FIX_CLAIMED), PASSED, turned(1, FindingState.REOPENED, SECOND, LATER)],
            {"carried": [ID]},
        ),
        ([PASSED, seen(1), turned(1, FindingState.VERIFIED_FIXED, at=LATER)], {"carried": [ID]}),  # decided after both
        ([PASSED, turned(1, FindingState.VERIFIED_FIXED, at="2026-03-03T10:00:00Z")], {"carried": [ID]}),
        ([turned(1, FindingState.VERIFIED_FIXED, FIRST), PASSED], {}),  # settled before either
    ],
)
def test_what_became_of_a_finding_between_passes(events: list[Any], expected: dict[str, Any]) -> None:
    """By its state right after each pass, to the second: a decision between them counts for the later one."""
    assert became(*events) == expected


def test_a_finding_of_the_second_pass_is_new() -> None:
    """It is not among those of the first."""
    second = finding(2, pass_id=SECOND)
    assert became(PASSED, FindingRaised(at=LATER, finding=second)) == {"carried": [ID], "new": [second.id]}


def test_a_finding_of_a_record_is_new_in_the_pass_that_took_it_in() -> None:
    """Its history names no pass of this store."""
    change = Change(at=AT, what=What.RAISED, who="rev", by=Actor.ORCHESTRATOR, state=FindingState.OPEN)
    second = finding(2, pass_id=SECOND, history=(change,))
    assert became(PASSED, FindingRaised(at=LATER, finding=second)) == {"carried": [ID], "new": [second.id]}


def test_the_earlier_pass_comes_first() -> None:
    """The other way round is an error, not an empty comparison."""
    ledger = ledger_of(finding(1))
    ledger.apply(PASSED)
    with pytest.raises(AwfError):
        compare_passes(ledger, ledger.passes[SECOND], ledger.passes[FIRST])
