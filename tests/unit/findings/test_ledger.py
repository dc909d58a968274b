"""The ledger is a fold over events: history only grows, and a finding keeps its number and id."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.ledgers import (
    AT,
    FIRST,
    LATER,
    SECOND,
    assessed,
    changed,
    finding,
    ledger_of,
    look,
    looked,
    seen,
    turned,
)
from tests.unit.findings.strategies import TIMES, findings, ledgers

from pipeline.engine.ports import JournalError
from pipeline.errors import AwfError
from pipeline.findings import ledger as ledger_module
from pipeline.findings.events import (
    AnswerOwed,
    Coverage,
    Disposition,
    FindingChanged,
    FindingRaised,
    ItemOutcome,
    LedgerEvent,
    decode_event,
    encode_event,
)
from pipeline.findings.ledger import Ledger, LedgerStore, lock_ledger
from pipeline.findings.model import Actor, Change, Finding, FindingId, FindingState, PassId, ReportStatus, What
from pipeline.journal.memory import MemoryJournal
from pipeline.journal.sqlite import SqliteJournal

ONE, TWO, THREE = (finding(number).id for number in (1, 2, 3))


def raised(*found: Finding) -> Ledger:
    """A ledger in which these findings were raised."""
    return Ledger(FindingRaised(at=AT, finding=one) for one in found)


def numbers(ledger: Ledger) -> list[list[int]]:
    """The numbers of the members of each line of work."""
    return [[member.number for member in line.members] for line in ledger.lines()]


@st.composite
def later(draw: st.DrawFn, id: FindingId) -> FindingChanged:
    """Anything that somebody may say about a known finding."""
    change = Change(
        at=draw(TIMES),
        what=draw(st.sampled_from(What)),
        who="ruff",
        by=draw(st.sampled_from(Actor)),
        state=draw(st.none() | st.sampled_from(FindingState)),
        pass_id=draw(st.sampled_from(("", FIRST, SECOND))),
    )
    fields: tuple[dict[str, Any], ...] = (
        {},
        {"title": "new"},
        {"fingerprints": {"new/v1": "x"}},
        {"aliases": ["new"]},
        {"line": id},
    )
    return FindingChanged(id=id, change=change, fields=draw(st.sampled_from(fields)))


@settings(max_examples=25, deadline=None)
@given(findings(), st.data())
def test_history_only_grows_and_a_finding_keeps_what_it_is_known_by(one: Finding, data: st.DataObject) -> None:
    """000-41: no event replaces, reorders or deletes a line of the history; id, number and fingerprints stay."""
    ledger = raised(one)
    for event in data.draw(st.lists(later(one.id), max_size=6)):
        before = ledger.findings[one.id]
        ledger.apply(event)
        after = ledger.findings[one.id]
        assert after.history == (*before.history, event.change)
        assert (after.id, after.number, after.signature) == (before.id, before.number, before.signature)
        assert (after.created_at, after.updated_at) == (before.created_at, event.change.at)
        assert after.state is (event.change.state or before.state)
        assert before.fingerprints.items() <= after.fingerprints.items()


@settings(max_examples=25, deadline=None)
@given(findings(), st.data())
def test_events_that_were_written_down_give_the_same_ledger(one: Finding, data: st.DataObject) -> None:
    """The same lines give the same ledger, read at once or in two parts."""
    events: list[LedgerEvent] = [
        assessed(),
        FindingRaised(at=AT, finding=one),
        *data.draw(st.lists(later(one.id), max_size=4)),
        assessed(SECOND, LATER),
    ]
    whole = Ledger(events)
    read = Ledger(decode_event(encode_event(event)) for event in events)
    cut = data.draw(st.integers(0, len(events)))
    start = Ledger(events[:cut])
    extended = start.extended(events[cut:])
    for other in (read, extended):
        assert (whole.findings, whole.passes, whole.names) == (other.findings, other.passes, other.names)
        assert (whole.length, list(whole.lines())) == (other.length, list(other.lines()))
    assert start.length == cut, "extending a ledger changed it"


@settings(max_examples=25, deadline=None)
@given(ledgers())
def test_numbers_follow_the_order_of_raising_and_stay(found: list[Finding]) -> None:
    """A number belongs to one finding for good, whatever is raised after it."""
    ledger = Ledger()
    for count, one in enumerate(found, 1):
        ledger.apply(FindingRaised(at=AT, finding=one))
        assert [ledger.findings[known.id].number for known in found[:count]] == list(range(1, count + 1))
        assert ledger.by_number(count) == ledger.findings[one.id]


def test_a_finding_raised_twice_is_one() -> None:
    """000-23: two processes that raise the same finding at once leave one, with both in its history."""
    ledger = raised(finding(1), finding(1, pass_id=SECOND, title="another wording"), finding(2))
    (known, other) = ledger.findings.values()
    assert (known.number, known.title, other.number) == (1, "Defect 1", 2)
    assert [change.what for change in known.history] == [What.RAISED, What.SEEN]


def test_a_finding_reported_again_is_updated_in_place() -> None:
    """000-23, 000-24: the same id and number, the pass that saw it last, and one more line of its history."""
    ledger = ledger_of(finding(1))
    ledger.apply(replace(seen(1), fields={"pass_id": SECOND, "impact": "worse than told"}))
    (known,) = ledger.findings.values()
    assert (known.id, known.number, known.pass_id, known.impact) == (ONE, 1, SECOND, "worse than told")
    assert [(change.what, change.pass_id) for change in known.history] == [(What.RAISED, FIRST), (What.SEEN, SECOND)]
    assert known.updated_at == LATER


def test_a_finding_is_found_by_every_name_it_has() -> None:
    """By its id, the beginning of it, its number, its signature and every alias that it ever had."""
    ledger = raised(finding(1, id="fnd_0badcafe", line="fnd_0badcafe", aliases=("CVE-1",)))
    renamed = turned(1, FindingState.OPEN).change
    ledger.apply(FindingChanged(id=FindingId("fnd_0badcafe"), change=renamed, fields={"aliases": ["CVE-2"]}))
    for name in ("fnd_0badcafe", "fnd_0bad", "0badc", "1", "#1", finding(1).signature, "CVE-1", "CVE-2"):
        known = ledger.find(name)
        assert known is not None, name
    assert [ledger.find(name) for name in ("#2", "2", "0", "nobody")] == [None] * 4


def test_an_ambiguous_beginning_names_no_finding() -> None:
    """The beginning of two ids is that of neither."""
    assert raised(finding(1), finding(2)).find("fnd_000000") is None


def test_findings_of_one_line_of_work_are_under_its_number() -> None:
    """A line has the number of the finding that it began with; one that joins it keeps its own."""
    ledger = raised(finding(1), finding(2, line=ONE, reviewer="security"), finding(3))
    assert numbers(ledger) == [[1, 2], [3]]
    assert [ledger.line(id).number for id in (ONE, TWO, THREE)] == [1, 1, 3]
    assert ledger.findings[TWO].number == 2


def test_a_finding_can_join_a_line_of_work_and_leave_it_again() -> None:
    """Joining and leaving are changes of the finding itself; the others stay, and both are in its history."""
    ledger = raised(finding(1), finding(2))
    ledger.apply(changed(2, What.JOINED, fields={"line": ONE}))
    assert numbers(ledger) == [[1, 2]]
    apart = ledger.extended([changed(2, What.JOINED, fields={"line": TWO})])
    assert (numbers(apart), numbers(ledger)) == ([[1], [2]], [[1, 2]])
    assert [change.what for change in apart.findings[TWO].history] == [What.RAISED, What.JOINED, What.JOINED]


@pytest.mark.parametrize("merged_first", [True, False])
def test_a_finding_raised_into_a_line_while_that_is_merged_goes_with_it(*, merged_first: bool) -> None:
    """Two processes do both at once, in either order: no finding is left in a line that nobody is shown."""
    merged, into = changed(1, What.JOINED, fields={"line": TWO}), FindingRaised(at=AT, finding=finding(3, line=ONE))
    ledger = raised(finding(1), finding(2)).extended([merged, into] if merged_first else [into, merged])
    assert [(line.number, {one.id for one in line.members}) for line in ledger.lines()] == [(2, {ONE, TWO, THREE})]
    assert {one.line for one in ledger.findings.values()} == {TWO}


def test_only_lines_with_an_open_member_are_open() -> None:
    """A line of work is open while one of its findings is; a claimed fix is not closed."""
    ledger = raised(finding(1), finding(2, line=ONE), finding(3))
    ledger.apply(turned(1, FindingState.VERIFIED_FIXED))
    ledger.apply(turned(3, FindingState.FIX_CLAIMED))
    assert [line.number for line in ledger_module.open_lines(ledger)] == [1, 3]
    ledger.apply(turned(2, FindingState.WONT_FIX))
    assert [line.number for line in ledger_module.open_lines(ledger)] == [3]


def test_an_answer_is_owed_until_its_reviewer_gives_one_that_can_be_read() -> None:
    """Another reviewer's answer pays nothing, and neither does one of the same reviewer that cannot be read."""
    ledger = Ledger([AnswerOwed(at=AT, look=look("security", ReportStatus.MISSING))])
    ledger.apply(assessed(coverage=looked("correctness")))
    assert set(ledger.owed()) == {"security"}
    ledger.apply(assessed(coverage=Coverage(looks=(look("security", ReportStatus.MALFORMED),))))
    assert ledger.owed()["security"].status is ReportStatus.MALFORMED
    ledger.apply(assessed(SECOND, coverage=looked("security")))
    assert ledger.owed() == {}


def test_a_file_that_could_not_be_read_is_owed_until_it_is_imported() -> None:
    """It may not have named its reviewer, and is then owed under its own name."""
    ledger = Ledger([AnswerOwed(at=AT, look=look("report.json", ReportStatus.MALFORMED, file="report.json"))])
    ledger.apply(assessed(coverage=Coverage(looks=(look("lint", file="other.json"),))))
    assert set(ledger.owed()) == {"report.json"}
    ledger.apply(assessed(SECOND, coverage=Coverage(looks=(look("lint", file="report.json"),))))
    assert ledger.owed() == {}


def test_the_last_round_of_a_run_is_all_its_passes() -> None:
    """The reviews of a round that came one after the other are last together, with all that the gate hid in them."""
    hidden = ItemOutcome(input_id="a#1", disposition=Disposition.FILTERED, reason="its confidence is too low")
    kept = ItemOutcome(input_id="a#2", disposition=Disposition.SURVIVING, reason="kept")
    ledger = Ledger(
        assessed(PassId(name), run=run, round=number, entries=(hidden, kept))
        for name, run, number in (("a", "r", 1), ("b", "r", 2), ("c", "r", 2), ("d", "", 1))
    )
    assert [passed.id for passed in ledger_module.last_passes(ledger, "r")] == ["b", "c"]
    assert [passed.id for passed in ledger_module.last_passes(ledger)] == ["d"]
    assert [(passed.id, item) for passed, item in ledger_module.hidden_items(ledger, "r")] == [
        ("b", hidden),
        ("c", hidden),
    ]


def test_an_event_about_an_unknown_finding_is_an_error() -> None:
    """A ledger with a missing event is not read past it; the error names the finding."""
    with pytest.raises(AwfError, match=ONE):
        Ledger([turned(1, FindingState.OPEN)])


def test_a_ledger_store_reads_what_another_process_wrote() -> None:
    """Two stores of one journal have the same ledger; what was read is not read again."""
    journal = MemoryJournal()
    mine, theirs = LedgerStore(journal), LedgerStore(journal)
    mine.append([assessed(PassId("one"))])
    assert list(mine.ledger().passes) == ["one"]
    theirs.append([assessed(PassId("two")), assessed(PassId("three"))])
    assert list(mine.ledger().passes) == list(theirs.ledger().passes) == ["one", "two", "three"]
    assert mine.ledger() is mine.ledger()


def test_appending_nothing_creates_no_store(tmp_path: Path) -> None:
    """A command that changes nothing leaves no file behind."""
    store = tmp_path / "store"
    LedgerStore(SqliteJournal(store)).append([])
    assert not store.exists()


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        '{"kind":"unheard of","at":"t"}',
        '{"kind":"changed","id":"fnd_00000001","change":{"at":"t","what":"ruling","who":"a","by":"user"},"fields":{"x":1}}',
    ],
)
def test_an_unreadable_ledger_line_is_an_error_with_its_number(line: str) -> None:
    """The ledger of another version is not read in part: findings would be lost silently."""
    journal = MemoryJournal()
    LedgerStore(journal).append([FindingRaised(at=AT, finding=finding(1))])
    journal.append_ledger([line])
    with pytest.raises(JournalError, match="line 2 "):
        LedgerStore(journal).ledger()


def test_only_one_command_at_a_time_holds_the_ledger_lock(tmp_path: Path) -> None:
    """Two at once would raise the same defect twice."""
    inside, order = threading.Event(), list[str]()

    def second() -> None:
        inside.wait(10)
        with lock_ledger(tmp_path / "store"):
            order.append("second")

    other = threading.Thread(target=second)
    other.start()
    with lock_ledger(tmp_path / "store"):
        inside.set()
        other.join(0.05)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]
