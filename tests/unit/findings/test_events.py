"""Events as lines: whatever happens to a finding can be written down and read back as the same thing."""

import json
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.strategies import TIMES, findings, suppressions, texts, votes

from pipeline.findings.answers import RULINGS
from pipeline.findings.events import (
    Coverage,
    DecisionMade,
    Disposition,
    FieldsEdited,
    FindingRaised,
    FixAttempted,
    ItemOutcome,
    LedgerEvent,
    LinkAdded,
    LinkRemoved,
    NotReported,
    Pass,
    PassRecorded,
    ReportedAgain,
    RulingMade,
    StateChanged,
    VotesWithdrawn,
    decode_event,
    encode_event,
)
from pipeline.findings.model import (
    Decision,
    Finding,
    FindingId,
    FindingState,
    FixAttempt,
    Gate,
    GateDecision,
    Link,
    Observed,
    PassId,
    ReportStatus,
    Severity,
    Strength,
)

ID = FindingId("fnd_0badcafe")
IDS = st.just(ID)
LINKS = st.builds(Link, kind=st.sampled_from(("related", "duplicate_of")), to=texts(least=1), note=texts())
ENTRIES = st.builds(
    ItemOutcome,
    input_id=texts(least=1),
    disposition=st.sampled_from(Disposition),
    reason=texts(),
    into=texts(),
    title=texts(),
)
COVERAGE = st.builds(
    Coverage,
    reviewers=st.dictionaries(texts(most=5), st.sampled_from(ReportStatus), max_size=2),
    residual_risks=st.lists(texts(), max_size=2).map(tuple),
    paths=st.none() | st.lists(texts(), max_size=2).map(tuple),
)
PASSES = st.builds(
    Pass,
    id=texts(least=1).map(PassId),
    started_at=TIMES,
    round=st.integers(1, 9),
    mode=st.sampled_from(("full", "quick", "verify")),
    coverage=COVERAGE,
    entries=st.lists(ENTRIES, max_size=2).map(tuple),
    finding_ids=st.lists(texts(least=1), max_size=2).map(tuple),
)
EVENTS: dict[str, st.SearchStrategy[LedgerEvent]] = {
    "assessed": st.builds(PassRecorded, at=TIMES, assessment=PASSES),
    "raised": st.builds(FindingRaised, at=TIMES, finding=findings()),
    "seen": st.builds(
        ReportedAgain,
        at=TIMES,
        id=IDS,
        pass_id=texts(),
        observed=st.sampled_from(Observed),
        strength=st.sampled_from(Strength),
        votes=st.lists(votes(), max_size=2).map(tuple),
        changes=st.dictionaries(st.sampled_from(("title", "impact")), texts(), max_size=2),
        note=texts(),
    ),
    "missed": st.builds(NotReported, at=TIMES, id=IDS, pass_id=texts()),
    "withdrawn": st.builds(
        VotesWithdrawn, at=TIMES, id=IDS, pass_id=texts(), reviewers=st.lists(texts()).map(tuple), note=texts()
    ),
    "turned": st.builds(
        StateChanged,
        at=TIMES,
        id=IDS,
        state=st.sampled_from(FindingState),
        by=texts(),
        note=texts(),
        pass_id=texts(),
        suppression=st.none() | suppressions(),
    ),
    "tried": st.builds(
        FixAttempted,
        at=TIMES,
        id=IDS,
        attempt=st.builds(FixAttempt, run=texts(), round=st.integers(0, 9), by=texts(), what=texts(), outcome=texts()),
    ),
    "ruled": st.builds(
        RulingMade,
        at=TIMES,
        id=IDS,
        by=texts(),
        ruling=st.sampled_from(RULINGS),
        why=texts(),
        severity=st.none() | st.sampled_from(Severity),
        gate=st.none() | st.builds(GateDecision, value=st.sampled_from(Gate), by=texts(), policy=texts()),
        pass_id=texts(),
    ),
    "decided": st.builds(
        DecisionMade,
        at=TIMES,
        id=IDS,
        decision=st.builds(Decision, at=TIMES, action=st.sampled_from(("apply", "skip")), reason=texts(), ref=texts()),
    ),
    "linked": st.builds(LinkAdded, at=TIMES, id=IDS, link=LINKS),
    "unlinked": st.builds(LinkRemoved, at=TIMES, id=IDS, link=LINKS),
    "edited": st.builds(
        FieldsEdited, at=TIMES, id=IDS, by=texts(), changes=st.dictionaries(st.just("title"), texts()), note=texts()
    ),
}


@pytest.mark.parametrize("kind", EVENTS)
def test_an_event_is_read_back_as_it_was_written(kind: str) -> None:
    """Law: decoding what was encoded gives the same event, for every kind; and it is one line."""

    @settings(max_examples=25)
    @given(EVENTS[kind])
    def check(event: LedgerEvent) -> None:
        line = encode_event(event)
        assert decode_event(line) == event
        assert "\n" not in line
        assert json.loads(line)["kind"] == kind

    check()


def test_every_kind_of_event_is_covered_by_the_law() -> None:
    """A new kind has to be added here."""
    union = get_args(LedgerEvent)[0]
    assert {member.__dataclass_fields__["kind"].default for member in get_args(union)} == set(EVENTS)


def test_defaults_are_left_out() -> None:
    """A ledger has many lines, so each has only what differs."""
    assert encode_event(NotReported(at="t", id=ID, pass_id=ID)) == (
        '{"kind":"missed","at":"t","id":"fnd_0badcafe","pass_id":"fnd_0badcafe"}'
    )
    turned = StateChanged(at="t", id=ID, state=FindingState.OPEN, by="user")
    assert encode_event(turned) == '{"kind":"turned","at":"t","id":"fnd_0badcafe","state":"open","by":"user"}'


@given(findings())
def test_defaults_of_a_raised_finding_are_left_out(finding: Finding) -> None:
    """Also in the finding's parts."""
    plain = FindingRaised(at="t", finding=finding)
    written = json.loads(encode_event(plain))["finding"]
    absent: dict[str, Any] = {
        "suppression": None,
        "decisions": [],
        "links": [],
        "state": "open",
        "late": False,
        "ext": {},
    }
    assert not [name for name, default in absent.items() if name in written and written[name] == default]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{}",
        "null",
        '{"kind":"missed"}',
        '{"kind":"other","at":"t"}',
        '{"kind":"missed","at":"t","x":1}',
    ],
)
def test_an_invalid_event_is_refused(line: str) -> None:
    """No line that cannot be read is guessed at."""
    with pytest.raises(ValueError, match="validation error"):
        decode_event(line)
