"""The XML of a test report, read as a stream: the failures are kept, the tests that passed are counted."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from xml.parsers import expat

from pipeline.findings import scales as tools
from pipeline.findings.formats.items import (
    MAX_BYTES,
    TOOL_CONFIDENCE,
    ItemError,
    UnreadableFile,
    collect_items,
    excerpt,
    headline,
    is_absolute,
    malformed_report,
    relative_path,
)
from pipeline.findings.model import AutofixClass, Evidence, Location, Owner, RawFinding, ReviewerReport, Severity

_DEEPEST = 100  # elements within elements
_NAME = 100  # characters of a name in a contradiction
_TOLD = 2000  # characters of what a report says there
_PROBLEMS = ("failure", "error")
_SUITES = ("testsuites", "testsuite")
_COUNTS = ("tests", "failures", "errors")
_FAILED = re.compile(r"fail|err|broke|crash|abort|time.?out", re.IGNORECASE)  # in a test's `status` or `result`


@dataclass(frozen=True, slots=True)
class JUnitProblem:
    """One failure or error, and the test it belongs to."""

    name: str
    classname: str
    suite: str
    file: str
    line: int
    message: str
    text: str

    @property
    def test(self) -> str:
        """What the test is called in full."""
        return f"{self.classname}::{self.name}"


@dataclass(slots=True)
class JUnitReport:
    """What a report says, as far as it has been read."""

    cases: int = 0
    skipped: int = 0
    problems: list[JUnitProblem] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)  # what it states and does not show


@dataclass(slots=True)
class _Element:
    """An element that is being read, and what was found inside it so far."""

    name: str
    attributes: dict[str, str]
    cases: int = 0
    problems: int = 0
    skipped: bool = False


def parse_report(data: bytes) -> JUnitReport:
    """The report; raises Unreadable when it is not XML, was cut off, or declares what no report needs."""
    if len(data) > MAX_BYTES:
        raise UnreadableFile(f"it has {len(data):,} bytes, and at most {MAX_BYTES:,} are read; split it")
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise UnreadableFile(f"{error}; it may have been cut off") from error
    except (LookupError, ValueError) as error:
        raise UnreadableFile(f"its text cannot be decoded: {error}") from error
    return reader.report


class _Reader:
    def __init__(self) -> None:
        self.report = JUnitReport()
        self.path: list[_Element] = []
        self.text: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.said
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse

    def refuse(self, *_: object) -> None:
        raise UnreadableFile("it declares a document type or an entity, which no test report needs")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2].lower()
        if not self.path and name not in _SUITES:
            raise UnreadableFile(f"its first element is {name!r}, and testsuites or testsuite was expected")
        if len(self.path) >= _DEEPEST:
            raise UnreadableFile(f"its elements are nested more than {_DEEPEST} levels deep")
        self.path.append(_Element(name, attributes))
        self.text.clear()

    def said(self, text: str) -> None:
        if self.path[-1].name in _PROBLEMS:
            self.text.append(text)

    def end(self, _: str) -> None:
        element = self.path.pop()
        if element.name == "testcase":
            element.cases += 1
            self.report.cases += 1
            self.report.skipped += element.skipped
            self.report.contradictions += _of_case(element)
        elif element.name in _SUITES:
            self.report.contradictions += _of_suite(element)
        elif element.name in _PROBLEMS:
            element.problems += 1
            self.problem(element)
        if self.path:
            parent = self.path[-1]
            parent.cases += element.cases
            parent.problems += element.problems
            parent.skipped |= element.name == "skipped"

    def problem(self, element: _Element) -> None:
        parent = self.path[-1]
        owner, attributes = parent.attributes, element.attributes
        suite = next((one.attributes for one in reversed(self.path) if one.name == "testsuite"), {})
        problem = JUnitProblem(
            name=owner.get("name", ""),
            classname=owner.get("classname", ""),
            suite=suite.get("name", ""),
            file=owner.get("file", "") or suite.get("file", "") or suite.get("filepath", ""),
            line=_number(owner.get("line")) or 0,
            message=attributes.get("message", "") or attributes.get("type", ""),
            text="".join(self.text),
        )
        if parent.name in ("testcase", "testsuite"):
            self.report.problems.append(problem)
        else:
            told = f"{problem.message}\n{problem.text}"[:_TOLD]
            self.report.contradictions.append(f"<{element.name}> inside <{parent.name}> belongs to no test\n{told}")


def _of_case(case: _Element) -> Iterator[str]:
    for key in ("status", "result"):
        if _FAILED.search(case.attributes.get(key, "")) and not case.problems:
            yield f"{_called(case)} has the {key} {case.attributes[key]!r} and shows no failure"


def _of_suite(suite: _Element) -> Iterator[str]:
    """The counts of a suite that exceed what it and the suites inside it show. A count may be left out."""
    counts = {key: _number(suite.attributes[key]) for key in _COUNTS if key in suite.attributes}
    for key, count in counts.items():
        if count is None:
            yield f"{_called(suite)}: `{key}` is not a count of tests: {suite.attributes[key][:_TOLD]!r}"
    tests, failed = counts.get("tests") or 0, (counts.get("failures") or 0) + (counts.get("errors") or 0)
    if tests > suite.cases + suite.problems:  # pytest counts a test and the error of its teardown as two
        yield f"{_called(suite)} counts {tests} tests and shows {suite.cases}"
    if failed > suite.problems:
        yield f"{_called(suite)} counts {failed} failures and shows {suite.problems}"


def _called(element: _Element) -> str:
    return f"{element.name} {element.attributes.get('name', '')[:_NAME]}".strip()


def _number(digits: str | None) -> int | None:
    """A whole number of at most nine digits."""
    return int(digits) if digits and digits.isascii() and digits.isdigit() and len(digits) < 10 else None


FORMAT = "junit"
_LINES = 40  # of a failure that are kept
_FRAME = re.compile(
    r"""^[ \t]*File\ "(?P<python>[^"\n]+)",\ line\ (?P<python_line>\d+)
      | ^(?:E[ \t]+)?[ \t]*(?P<path>[^\s:()<>"']*[^\s:()<>"'/]\.\w+):(?P<line>\d+)(?=:|\s|$)
      | \((?P<call>/[^():\n]+):(?P<call_line>\d+):\d+\)""",
    re.MULTILINE | re.VERBOSE,
)
_FILE = re.compile(r".*/[^/]+\.\w{1,5}")


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """The failures of a test run. `root` is the repository's directory, for tracebacks with absolute paths."""
    name = reviewer or FORMAT
    try:
        report = parse_report(data)
        _check(report)
    except UnreadableFile as error:
        return malformed_report(name, FORMAT, f"it cannot be read as JUnit XML: {error}")
    items: list[JUnitProblem | str] = [*report.problems, *report.contradictions]
    return collect_items(
        name, FORMAT, items, _claims(name, root, report), lambda item: "" if isinstance(item, str) else item.name
    )


def _check(report: JUnitReport) -> None:
    if not report.cases and not report.problems:
        raise UnreadableFile("it has no test case: no test was run")
    if report.cases == report.skipped and not report.problems:
        raise UnreadableFile(f"all of its tests ({report.skipped}) were skipped: no test was run")


def _claims(reviewer: str, root: str, report: JUnitReport) -> Callable[[JUnitProblem | str, str], RawFinding]:
    times = Counter(problem.test for problem in report.problems)

    def claim(problem: JUnitProblem | str, input_id: str) -> RawFinding:
        if isinstance(problem, str):
            raise ItemError("the report contradicts itself: failures may be missing")
        made = _claim(problem, input_id, reviewer, root)
        return replace(made, tool_ids={FORMAT: problem.test}) if times[problem.test] == 1 else made

    return claim


def _claim(problem: JUnitProblem, input_id: str, reviewer: str, root: str) -> RawFinding:
    message = problem.message.strip() or headline(problem.text)
    if not problem.name and not message:
        raise ItemError("it names no test and says nothing")
    places = tuple(_places(problem, root))
    told = excerpt("\n".join(problem.text.strip().splitlines()[:_LINES]))
    return RawFinding(
        input_id=input_id,
        reviewer=reviewer,
        title=headline(f"{problem.name}: {headline(message)}" if message else f"{problem.name} fails"),
        severity=Severity.HIGH,
        confidence=TOOL_CONFIDENCE,
        category=tools.category_of_rule(*_rule(problem)),
        impact=excerpt(message),
        autofix_class=AutofixClass.MANUAL,
        owner=Owner.HUMAN,
        locations=places,
        evidence=(Evidence(raw=told),) if told else (),
    )


def _rule(problem: JUnitProblem) -> tuple[str, str]:
    """The linter and its rule, where a linter writes its findings as tests: `org.ruff.F401`."""
    parts = problem.name.split(".")
    return (parts[1], parts[-1]) if len(parts) == 3 and parts[0] == "org" else (FORMAT, "")


def _places(problem: JUnitProblem, root: str) -> Iterator[Location]:
    """Where it failed, innermost first, then the test itself; only what lies in the repository."""
    frames = [(path, line) for path, line in _frames(problem.text, root) if not is_absolute(path)]
    file = problem.file or (problem.suite if _FILE.fullmatch(problem.suite) else "")
    if file and not frames:
        frames = [(relative_path(file, root), problem.line)]
    for path, line in dict.fromkeys(reversed(frames)):
        yield Location(path=path, start=line or None)


def _frames(text: str, root: str) -> Iterator[tuple[str, int]]:
    for match in _FRAME.finditer(text):
        path = match["python"] or match["path"] or match["call"]
        yield relative_path(path, root), int(match["python_line"] or match["line"] or match["call_line"])
