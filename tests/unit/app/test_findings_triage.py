"""One decision about many findings: previewed, and recorded whole or not at all."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.unit.findings.passes import HUNDRED_LINES, draft, report

from pipeline.app.findings.intake import import_reports
from pipeline.app.findings.ledger import Repository, read_snapshot
from pipeline.app.findings.queries import ALL_STATES, FindingFilter, narrow, select
from pipeline.app.findings.triage import (
    ChosenFindings,
    TriageRequest,
    TriageResult,
    apply_triage,
    merge,
    plan_triage,
    split,
)
from pipeline.errors import AwfError
from pipeline.findings import ledger as book
from pipeline.findings.events import LedgerEvent, encode_event
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import Actor, FindingId, FindingState, Severity

AT = "2026-03-01T10:00:00Z"
NOW = datetime(2026, 3, 1, 10, tzinfo=UTC)
LOW = TriageRequest("wont-fix", Actor.USER, note="not worth it")


def repository(root: Path) -> Repository:
    return Repository(root, {"PATH": os.environ["PATH"]})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with four findings, two of them low."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text(HUNDRED_LINES)
    drafts = [
        draft(
            line=20 * number, n=number, title=f"Defect {number}", severity=Severity.LOW if number % 2 else Severity.HIGH
        )
        for number in range(1, 5)
    ]
    import_reports([report("correctness", *drafts)], tmp_path / ".awf", repository(tmp_path), NOW)
    return tmp_path


def ledger(root: Path) -> Ledger:
    return read_snapshot(root / ".awf", root, AT).ledger


def low(ledger: Ledger) -> ChosenFindings:
    wanted = FindingFilter(severities=frozenset({Severity.LOW}))
    return ChosenFindings(tuple(line.id for line in select(ledger.lines(), wanted)))


def decided(root: Path, **more: Any) -> TriageResult:
    return apply_triage(low, LOW, root / ".awf", repository(root), NOW, **more)


def preview(root: Path) -> TriageResult:
    return plan_triage(low, LOW, read_snapshot(root / ".awf", root, AT), AT)


def states(root: Path) -> list[FindingState]:
    return [finding.state for finding in ledger(root).findings.values()]


def test_a_preview_writes_nothing(root: Path) -> None:
    """It changes what the preview said."""
    files = [root / ".awf/awf.db", root / ".code-review/review-latest.json"]
    before = [file.read_bytes() for file in files]
    planned = preview(root)
    assert [file.read_bytes() for file in files] == before
    assert {change[1:] for change in planned.changes} == {(FindingState.OPEN, FindingState.WONT_FIX)}
    assert decided(root, agreed=planned.digest).changes == planned.changes
    assert sorted(states(root)) == [FindingState.OPEN, FindingState.OPEN, FindingState.WONT_FIX, FindingState.WONT_FIX]


def test_the_plan_and_the_result_as_json(root: Path) -> None:
    """They differ in one key."""
    planned = preview(root)
    moves = [
        {"id": move.finding.id, "number": move.finding.number, "from": "open", "state": "wont_fix"}
        for move in planned.moves
    ]
    assert planned.as_json("planned") == {"planned": moves, "refused": {}, "problems": []}
    assert decided(root).as_json("applied") == {"applied": moves, "refused": {}, "problems": []}


def test_what_changed_since_the_preview_is_not_decided(root: Path) -> None:
    """The person agreed to something else."""
    planned = preview(root)
    first = planned.moves[0].finding.id
    fixed = TriageRequest("fixed", Actor.USER)
    apply_triage(lambda _: ChosenFindings((first,)), fixed, root / ".awf", repository(root), NOW)
    with pytest.raises(AwfError):
        decided(root, agreed=planned.digest)
    assert FindingState.WONT_FIX not in states(root)


def test_a_decision_is_recorded_whole(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure halfway through the events leaves none of them."""
    written: list[str] = []

    def stops(event: LedgerEvent) -> str:
        if written:
            raise AwfError("stopped halfway")
        written.append(encode_event(event))
        return written[0]

    with monkeypatch.context() as patched:
        patched.setattr(book, "encode_event", stops)
        with pytest.raises(AwfError, match="halfway"):
            decided(root)
    assert len(written) == 1
    assert set(states(root)) == {FindingState.OPEN}
    assert len(decided(root).moves) == 2


def test_filters_narrow_what_is_named(root: Path) -> None:
    """Named findings that do not match are returned apart; an unknown name stays, to be refused."""
    wanted = FindingFilter(states=ALL_STATES, severities=frozenset({Severity.LOW}))
    lows = {str(one.number) for one in ledger(root).findings.values() if one.severity is Severity.LOW}
    names, left = narrow(["1", "2", "3", "4", "1", "nope", ""], ledger(root), wanted)
    assert (set(names), set(left)) == (lows | {"nope", ""}, {"1", "2", "3", "4"} - lows)
    assert len(names) == 4


def test_a_filter_may_list_findings(root: Path) -> None:
    """Only those match; an empty list matches none."""
    known = ledger(root)
    one = next(iter(known.findings))
    among = FindingFilter(among=frozenset({one, FindingId("other")}))
    assert [line.id for line in select(known.lines(), among)] == [one]
    assert select(known.lines(), FindingFilter(among=frozenset())) == []


def test_a_decision_counts_for_the_whole_line_of_work(root: Path) -> None:
    """The result lists every member; `only` keeps it to the finding that is named, and a split ends the line."""
    store, here = root / ".awf", repository(root)
    moved, line, _ = merge(["2", "3"], "1", store, here, NOW)
    assert ([one.number for one in moved], [one.number for one in line.members]) == ([2, 3], [1, 2, 3])

    def decide(name: str, *, only: bool = False) -> list[int]:
        wish = TriageRequest("wont-fix", Actor.USER, note="so", only=only)
        return [
            one.finding.number for one in apply_triage(lambda _: ChosenFindings((name,)), wish, store, here, NOW).moves
        ]

    assert decide("2", only=True) == [2]
    assert decide("1") == [1, 3]
    assert states(root) == [FindingState.WONT_FIX] * 3 + [FindingState.OPEN]
    split(["1"], store, here, NOW)
    assert [[one.number for one in line.members] for line in ledger(root).lines()] == [[1], [2, 3], [4]]


def test_notes_about_the_choice_are_in_the_result(root: Path) -> None:
    """They are among its problems."""
    nothing = ChosenFindings((), ("left out",))
    result = apply_triage(lambda _: nothing, LOW, root / ".awf", repository(root), NOW)
    assert (result.moves, result.problems) == ((), ("left out",))
