"""What a report changes in a finding that is known: only what it tells differently, less when it is a guess."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.findings.identity.made import CODE, Files, draft, known

from pipeline.findings.fingerprints import TEXT, VERDICT, SourceFile, add_fingerprints, fingerprints
from pipeline.findings.model import Finding, Gate, GateDecision, Location, Observed, Severity, Strength
from pipeline.findings.transitions import changes, observed, placed, where_only

PATH = "src/session.py"
HERE = Files({PATH: CODE})
PAGE = SourceFile.of(CODE)
REPEATED = SourceFile.of(["a()", "store.save(token)", "b()", "c()", "store.save(token)", "d()", "e()", "f()", "g()"])


def first(**more: Any) -> Finding:
    """The finding that is known, on the third line of CODE unless told otherwise."""
    return known([draft(**more)], HERE)[0]


def report(line: int | None, page: SourceFile | None = PAGE, **more: Any) -> Finding:
    """A finding of a later pass."""
    made = draft(line, **more)
    return replace(made, fingerprints=fingerprints(made, page))


@pytest.mark.parametrize(
    ("line", "page", "there"),
    [
        (3, PAGE, 3),  # it is there already
        (6, PAGE, 3),  # three lines off
        (7, PAGE, 7),  # four
        (4, REPEATED, 5),  # the nearer of two
        (3, REPEATED, 2),
        (8, REPEATED, 5),
        (9, REPEATED, 9),
        (4, SourceFile.of(["rewritten()"] * 9), 4),
    ],
)
def test_a_vague_report_is_put_on_the_line_that_is_known(line: int, page: SourceFile, there: int) -> None:
    """Where that stands at most three lines away, the nearest of several; elsewhere the report stays as it is."""
    given = report(line, page)
    moved = placed(first(), given, page)
    assert moved.location is not None
    assert moved.location.start == there
    assert moved.fingerprints == fingerprints(moved, page)
    assert (moved is given) is (line == there)


def test_of_two_lines_equally_near_the_upper_one_is_meant() -> None:
    """The choice does not depend on chance."""
    page = SourceFile.of(["store.save(token)", "x()", "store.save(token)"])
    moved = placed(first(), report(2, page), page)
    assert moved.location is not None
    assert moved.location.start == 1


def test_without_a_page_or_a_line_a_report_stays_as_it_is() -> None:
    """There is nothing to put it on."""
    for given, page in ((report(5), None), (report(None), PAGE), (report(5, locations=()), PAGE)):
        assert placed(first(), given, page) is given


def test_a_finding_without_a_text_draws_nobody_to_a_blank_line() -> None:
    """What was never on a line of the file is on none of it, a blank one least of all."""
    given = report(5)
    assert placed(known([draft(3)], Files())[0], given, PAGE) is given


@pytest.mark.parametrize(("end", "there"), [(None, None), (3, None), (4, 4), (6, 6)])
def test_what_is_put_back_is_as_long_as_it_was(end: int | None, there: int | None) -> None:
    """The place has the length of the known one, the symbol of the report, and the other places of the report."""
    other = Location(path="src/other.py", start=9)
    given = report(5, locations=(Location(path=PATH, start=5, symbol="rotate"), other))
    moved = placed(first(end=end), given, PAGE)
    assert moved.locations == (Location(path=PATH, start=3, end=there, symbol="rotate"), other)


@pytest.mark.parametrize("severity", Severity)
def test_a_guess_changes_a_severity_only_for_the_worse(severity: Severity) -> None:
    """A milder word about what is probably the same is no reason to think better of it."""
    told = changes(first(), report(5, title="The old token stays", severity=severity), Strength.FUZZY)
    assert told.get("severity") == (severity if severity.rank < Severity.MEDIUM.rank else None)


@pytest.mark.parametrize("severity", Severity)
def test_a_sure_report_changes_a_severity_either_way(severity: Severity) -> None:
    """It is the last word of who found it."""
    told = changes(first(), report(3, severity=severity), Strength.EXACT)
    assert told.get("severity") == (None if severity is Severity.MEDIUM else severity)


def test_one_report_that_raises_a_flag_is_enough() -> None:
    """A flag goes up, and does not come down by silence."""
    up = changes(first(), report(3, system_breaking=True, requires_verification=True), Strength.CONTENT)
    assert up == {"system_breaking": True, "requires_verification": True}
    assert changes(first(system_breaking=True, requires_verification=True), report(3), Strength.CONTENT) == {}


@pytest.mark.parametrize(("by", "told"), [("policy", True), ("user", False)])
def test_a_gate_is_moved_by_who_set_it(by: str, *, told: bool) -> None:
    """A person's gate stays where it is, a policy's goes with the policy."""
    stricter = report(3, gate=GateDecision(value=Gate.MUST, by="policy"))
    found = changes(first(gate=GateDecision(value=Gate.SUGGEST, by=by)), stricter, Strength.EXACT)
    assert ("gate" in found) is told


def test_only_fingerprints_that_differ_are_told() -> None:
    """The others are known; and a dismissed finding is told where it is, not what is said of it."""
    moved = report(4, SourceFile.of(["import log", *CODE]), title="Told anew", severity=Severity.LOW)
    told = where_only(first(), moved, Strength.CONTENT)
    assert set(told["fingerprints"]) == {"ctx/v1", VERDICT}
    assert set(told) == {"fingerprints", "locations", "evidence", "aliases"}


def test_a_report_without_a_place_adds_no_name() -> None:
    """Nothing is called nothing."""
    (bare,) = add_fingerprints([draft(None, locations=(), evidence=())], HERE)
    assert changes(first(), bare, Strength.FUZZY).get("aliases") is None
    assert VERDICT not in bare.fingerprints
    assert TEXT not in bare.fingerprints


@pytest.mark.parametrize(
    ("changed", "line", "how"),
    [
        ((), 3, Observed.UNCHANGED),
        (("fingerprints", "aliases", "sources", "locations"), 3, Observed.UNCHANGED),
        (("sources", "title"), 3, Observed.UPDATED),
        (("evidence",), 3, Observed.UPDATED),
        (("title",), 4, Observed.MOVED),
    ],
)
def test_how_a_finding_stands_that_was_reported_again(changed: tuple[str, ...], line: int, how: Observed) -> None:
    """Moved if its line is another, updated if anything else is told than where it is and who said so."""
    assert observed(first(), changed, report(line)) is how
    assert observed(first(), (), report(None, locations=())) is Observed.UNCHANGED
