"""Events as lines: whatever happens to a finding can be written down and read back as the same thing."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import turned
from tests.unit.findings.strategies import TIMES, findings, texts

from pipeline.findings.events import (
    AnswerOwed,
    Coverage,
    Disposition,
    FindingChanged,
    FindingRaised,
    ItemOutcome,
    LedgerEvent,
    Look,
    Pass,
    PassRecorded,
    decode_event,
    encode_event,
)
from pipeline.findings.model import Actor, Change, Finding, FindingId, FindingState, PassId, ReportStatus, What

FEW = st.lists(texts(), max_size=2).map(tuple)
ENTRIES = st.builds(
    ItemOutcome,
    input_id=texts(least=1),
    disposition=st.sampled_from(Disposition),
    reason=texts(),
    into=texts(),
    title=texts(),
)
LOOKS = st.builds(
    Look,
    reviewer=texts(),
    status=st.sampled_from(ReportStatus),
    problem=texts(),
    tool=st.booleans(),
    since=texts(most=8),
    paths=st.none() | FEW,
    reviewed=FEW,
    unruled=st.lists(st.integers(1, 99), max_size=2).map(tuple),
    verdict=st.sampled_from(("", "SHIP", "BLOCK")),
    argument=texts(),
)
PASSES = st.builds(
    Pass,
    id=texts(least=1).map(PassId),
    started_at=TIMES,
    review=texts(most=8),
    tree=texts(most=8),
    changed=st.booleans(),
    round=st.integers(1, 9),
    mode=st.sampled_from(("full", "quick", "verify")),
    paths=st.none() | FEW,
    coverage=st.builds(Coverage, looks=st.lists(LOOKS, max_size=2).map(tuple), residual_risks=FEW, testing_gaps=FEW),
    entries=st.lists(ENTRIES, max_size=2).map(tuple),
    finding_ids=FEW,
)
CHANGES = st.builds(
    Change,
    at=TIMES,
    what=st.sampled_from(What),
    who=texts(),
    by=st.sampled_from(Actor),
    word=texts(most=9),
    note=texts(),
    state=st.none() | st.sampled_from(FindingState),
    pass_id=texts(most=9),
    run=texts(most=9),
    ref=texts(most=9),
)
FIELDS = st.dictionaries(st.sampled_from(("title", "impact")), texts(), max_size=2)
EVENTS: dict[str, st.SearchStrategy[LedgerEvent]] = {
    "assessed": st.builds(PassRecorded, at=TIMES, assessment=PASSES),
    "owed": st.builds(AnswerOwed, at=TIMES, look=LOOKS, run=texts()),
    "raised": st.builds(FindingRaised, at=TIMES, finding=findings()),
    "changed": st.builds(FindingChanged, id=st.just(FindingId("fnd_0badcafe")), change=CHANGES, fields=FIELDS),
}


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_is_read_back_as_it_was_written(kind: str) -> None:
    """Decoding what was encoded gives the same event, for every kind; and it is one line."""

    @settings(max_examples=25, deadline=None)
    @given(EVENTS[kind])
    def check(event: LedgerEvent) -> None:
        line = encode_event(event)
        assert decode_event(line) == event
        assert "\n" not in line
        assert json.loads(line)["kind"] == kind

    check()


def test_every_kind_of_event_is_read_back() -> None:
    """No kind of event is missing from the test above."""
    union = get_args(LedgerEvent)[0]
    assert {member.__dataclass_fields__["kind"].default for member in get_args(union)} == set(EVENTS)


def test_the_line_of_a_change_has_no_defaults() -> None:
    """A ledger has many lines, so each has only what differs; `fields` is left out if nothing else changes."""
    assert json.loads(encode_event(turned(1, FindingState.WONT_FIX))) == {
        "kind": "changed",
        "id": "fnd_00000001",
        "change": {
            "at": "2026-03-01T10:00:00Z",
            "what": "triage",
            "who": "anna",
            "by": "user",
            "word": "wont_fix",
            "state": "wont_fix",
        },
    }


@settings(max_examples=25, deadline=None)
@given(findings())
def test_the_line_of_a_raised_finding_has_no_defaults(finding: Finding) -> None:
    """What a finding does not have is not written."""
    written = json.loads(encode_event(FindingRaised(at="t", finding=finding)))["finding"]
    absent: dict[str, Any] = {
        "suppression": None,
        "may_be": [],
        "state": "open",
        "tool": False,
        "history": [],
        "ext": {},
    }
    assert not [name for name, default in absent.items() if name in written and written[name] == default]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "null",
        '{"kind":"changed","id":"fnd_1"}',
        '{"kind":"other","at":"t"}',
        '{"kind":"owed","at":"t","look":{"reviewer":"a","status":"missing"},"x":1}',
        '{"kind":"owed","at":"t","look":{"reviewer":"a","status":"asleep"}}',
        '{"kind":"missed","at":"t","id":"fnd_1","pass_id":"REV-1"}',
    ],
)
def test_an_invalid_event_is_refused(line: str) -> None:
    """A line that cannot be read is not guessed at: nor is a kind, a field or a value that nobody knows."""
    with pytest.raises(ValueError, match="validation error"):
        decode_event(line)
