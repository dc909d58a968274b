"""JUnit reports: failures are findings, and a run without tests is not clean."""

from pathlib import Path

import pytest
from tests.unit.findings.drafts import readable, unreadable

from pipeline.findings.formats import FORMATS
from pipeline.findings.model import Category, ReportStatus, Severity

read = FORMATS["junit"].read


SAMPLES = Path(__file__).parent / "samples"
BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE testsuites [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;">]>
<testsuites><testcase name="x"><failure message="&c;"/></testcase></testsuites>"""
OUTSIDE = b"""<!DOCTYPE testsuites [<!ENTITY x SYSTEM "file:///etc/passwd">]>
<testsuites><testcase name="x"><failure>&x;</failure></testcase></testsuites>"""


def suite(*cases: str, told: str = "") -> bytes:
    return f"<testsuites><testsuite name='s' {told}>{''.join(cases)}</testsuite></testsuites>".encode()


def case(problem: str = "", told: str = "name='t' classname='c'") -> str:
    return f"<testcase {told}>{problem}</testcase>"


@pytest.mark.parametrize("name", ["pytest.xml", "pytest-xunit1.xml"])
def test_the_failures_and_the_error_of_a_real_run_are_findings(name: str) -> None:
    """Three failures and an error; what passed, was skipped or was expected to fail is none."""
    found = read((SAMPLES / name).read_bytes())
    assert (found.reviewer, found.status, len(found.drafts)) == ("junit", ReportStatus.RETURNED, 4)
    first, *_, last = readable(found)
    assert first.title.startswith("test_total_without_discount: TypeError: ")
    assert [(place.path, place.start) for place in first.locations] == [
        ("src/orders.py", 10),
        ("tests/test_orders.py", 12),
    ]
    assert (first.category, first.severity, first.confidence.value) == (Category.BUG, Severity.HIGH, 100)
    assert first.evidence[0].raw.startswith("def test_total_without_discount():")
    assert "<localhost> & nowhere" in last.impact
    assert first.tool_ids == {"junit": "tests.test_orders::test_total_without_discount"}


def test_a_linters_report_has_the_places_of_its_lints() -> None:
    """A file of tests that are lints: the suite is the file, and the test is called like the rule."""
    found = read((SAMPLES / "ruff.junit.xml").read_bytes(), root="/srv/shop", reviewer="lint")
    assert (found.reviewer, len(readable(found))) == ("lint", 21)
    place = readable(found)[1].locations[0]
    assert (place.path, place.start) == ("src/odd dir/ünï code.py", 1)
    assert [raw.tool_ids for raw in readable(found) if "F401" in raw.title] == [
        {},
        {},
        {"junit": "/srv/shop/src/orders::org.ruff.F401"},
    ]


def test_clean_needs_a_test_that_ran() -> None:
    """Silence is never a pass: no test, or only skipped ones, is an answer that cannot be used."""
    assert read((SAMPLES / "pytest-clean.xml").read_bytes()).status is ReportStatus.EMPTY
    assert read((SAMPLES / "pytest-none.xml").read_bytes()).status is ReportStatus.MALFORMED
    assert read(suite(case("<skipped/>"))).status is ReportStatus.MALFORMED
    assert read(suite(case("<skipped/><skipped/>"))).status is ReportStatus.MALFORMED
    assert read(suite(case("<skipped/>"), case())).status is ReportStatus.EMPTY


@pytest.mark.parametrize(
    ("data", "findings", "lost"),
    [
        (suite(case(), told="failures='2' errors='1'"), 0, 1),
        (suite(case("<failure message='m'/>"), told="failures='5'"), 1, 1),
        (suite(case("<failure message='m'/>"), told="tests='3' failures='many'"), 1, 2),
        (suite(case(), told="tests='-1' failures='' errors='1e3'"), 0, 3),
        (suite(case(), told="failures='99999999999999'"), 0, 1),
        (suite(case(), case("<FAILURE message='m'/>")), 1, 0),
        (suite(case(), case("<properties><failure message='m'/></properties>")), 0, 1),
        (suite(case(), case(told="name='t' status='Failed'")), 0, 1),
        (suite(case("<failure message='m'/>", told="name='t' status='failed'")), 1, 0),
        (suite(case(told="name='t' status='run' result='completed'"), told="tests='1' failures='0'"), 0, 0),
        (
            suite(suite(case("<error message='m'/>"), told="tests='1'").decode()[12:-13], told="tests='1' errors='1'"),
            1,
            0,
        ),
    ],
)
def test_what_a_report_counts_and_does_not_show_is_unreadable(data: bytes, findings: int, lost: int) -> None:
    """0-12: the failures that are shown stay, and each contradiction is an item of its own."""
    found = read(data)
    assert (len(readable(found)), len(unreadable(found))) == (findings, lost)
    assert found.status is (ReportStatus.RETURNED if findings or lost else ReportStatus.EMPTY)


@pytest.mark.parametrize("data", [BOMB, OUTSIDE, BOMB.decode().encode("utf-16")])
def test_declarations_are_refused_before_anything_is_made_of_them(data: bytes) -> None:
    """A bomb of entities, and one that reads a file, in any encoding."""
    found = read(data)
    assert (found.status, len(found.drafts)) == (ReportStatus.MALFORMED, 0)


def test_a_page_quoted_in_a_failure_is_only_text() -> None:
    """`<!DOCTYPE` in a quotation declares nothing."""
    found = read(suite(case("<failure message='m'><![CDATA[<!DOCTYPE html><!ENTITY x 'y'>]]></failure>")))
    assert readable(found)[0].evidence[0].raw == "<!DOCTYPE html><!ENTITY x 'y'>"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<testsuites>",
        b"<html/>",
        b"not xml",
        (SAMPLES / "pytest.xml").read_bytes()[:-30],
        b"\xff\xfe\x00",
        b"<testsuites>" + b"<a>" * 5000,
        b"<?xml version='1.0' encoding='none-such'?><testsuite/>",
    ],
)
def test_what_cannot_be_read_to_its_end_is_malformed(data: bytes) -> None:
    """A report that was cut off is never read as fewer failures."""
    found = read(data)
    assert (found.status, len(found.drafts), bool(found.problem)) == (ReportStatus.MALFORMED, 0, True)


def test_nested_suites_and_several_problems_of_a_test() -> None:
    """Each failure is its own item, at any depth; one beside the tests belongs to its suite."""
    both = case("<failure message='a'/><error type='b'/>")
    inner = f"<testsuite name='in'>{both}</testsuite>"
    found = read(suite(inner, "<error message='no setup'/>"))
    assert [raw.title for raw in readable(found)] == ["t: a", "t: b", "s: no setup"]
    assert [raw.input_id for raw in readable(found)] == ["junit#1", "junit#2", "junit#3"]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('File "/srv/shop/a.py", line 3, in f', [("a.py", 3)]),
        ("a/b.py:7: in test\n/usr/lib/python3/x.py:9: Error", [("a/b.py", 7)]),
        ("    at run (/srv/shop/web/a.js:4:12)", [("web/a.js", 4)]),
        ("  sum_test.go:12: wrong", [("sum_test.go", 12)]),
        ("at 10:30: nothing", []),
    ],
)
def test_places_come_from_tracebacks_of_several_languages(text: str, places: list[tuple[str, int]]) -> None:
    """Only what lies in the repository, innermost first."""
    found = read(suite(case(f"<failure message='m'><![CDATA[{text}]]></failure>")), root="/srv/shop")
    assert [(place.path, place.start) for place in readable(found)[0].locations] == places


def test_the_attributes_give_the_location_without_a_traceback() -> None:
    """`file` and `line` of the test."""
    told = "name='t' file='/srv/shop/tests/t.py' line='5'"
    found = read(suite(case("<failure message='m'/>", told)), root="/srv/shop")
    assert [(place.path, place.start) for place in readable(found)[0].locations] == [("tests/t.py", 5)]


def test_a_failure_without_a_text_is_unreadable() -> None:
    """It would have no title."""
    found = read(suite(case("<failure/>", "time='1'")))
    assert (found.status, len(readable(found)), unreadable(found)[0].input_id) == (ReportStatus.RETURNED, 0, "junit#1")
