"""What a pass covered, whose fix wrote a line, and since when a line is as it is."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.findings.identity.made import CODE, FIRST, Files, assessment, draft

from pipeline.findings.events import Coverage, PassRecorded
from pipeline.findings.ledger import Ledger
from pipeline.findings.linemap import LineMap, parse_diff
from pipeline.findings.model import FindingId, Location, ReportStatus
from pipeline.findings.transitions import CodeState, Fix, ReviewScope, same_work

PATH = "src/session.py"
RENAMED = parse_diff(f"diff --git a/x b/y\nrename from {PATH}\nrename to src/tokens.py\n")
DELETED = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n")


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
    assert ReviewScope.by(coverage).has(path) is covered


def test_a_finding_without_a_file_is_told_by_a_pass_over_everything() -> None:
    """One that looked at some files only would not have said it again."""
    bare = draft(locations=())
    assert ReviewScope.by(Coverage()).would_tell(bare, "")
    assert not ReviewScope.by(Coverage(paths=("src",))).would_tell(bare, "")


def test_one_of_those_who_found_it_has_to_answer() -> None:
    """Others who answered never reported it; of a finding that nobody is named for, anybody will do."""
    answered = ReviewScope.by(Coverage(reviewers={"qa": ReportStatus.EMPTY}))
    for sources, told in ((("security",), False), (("security", "qa"), True), ((), True)):
        assert answered.would_tell(draft(sources=sources), PATH) is told


@pytest.mark.parametrize(
    ("maps", "path"),
    [({}, PATH), ({"one": RENAMED}, "src/tokens.py"), ({"one": DELETED}, ""), ({"other": RENAMED}, PATH)],
)
def test_a_file_has_the_name_it_has_now(maps: Mapping[str, LineMap], path: str) -> None:
    """By the map of the pass that last saw the finding; a deleted one has none, and neither has no file."""
    ground = CodeState(Files(), maps)
    assert ground.path_now(draft()) == path
    assert ground.path_now(draft(locations=())) == ""


@pytest.mark.parametrize(
    ("place", "cause"),
    [
        (Location(path=PATH, start=3), "fnd_1"),
        (Location(path=PATH, start=4), None),
        (Location(path="src/other.py", start=3), None),
        (Location(path=PATH, start=1, end=3), "fnd_1"),
        (Location(path=PATH, start=4, end=6), "fnd_3"),  # of two fixes the later
        (Location(path=PATH, start=9, end=3), None),  # an end before its start is none
        (Location(path=PATH), None),
        (Location(path=PATH, start=100, end=500), "fnd_1"),
        (Location(path=PATH, start=99, end=500), None),  # no more lines are looked at
        (None, None),
    ],
)
def test_the_fix_that_wrote_a_line(place: Location | None, cause: str | None) -> None:
    """The finding whose fix wrote some of these lines; nobody is blamed for lines that nobody wrote."""
    fixes = (
        Fix(FindingId("fnd_1"), frozenset({(PATH, 3), (PATH, 500)})),
        Fix(FindingId("fnd_2"), frozenset({(PATH, 6)})),
        Fix(FindingId("fnd_3"), frozenset({(PATH, 6), ("", 0), (PATH, 1_000)})),
    )
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

    ground = CodeState(Counting())
    pages = [ground.page(path) for path in (PATH, PATH, "gone", "gone", "")]
    assert [page is not None for page in pages] == [True, True, False, False, False]
    assert asked == [PATH, "gone"]
