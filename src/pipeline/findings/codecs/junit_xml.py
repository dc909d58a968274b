"""The XML of a test report, read as a stream: the failures are kept, the tests that passed are counted."""

from dataclasses import dataclass, field
from xml.parsers import expat

from pipeline.findings.codecs.reading import LARGEST, Unreadable

_DEEPEST = 100  # elements within elements
_PROBLEMS = ("failure", "error")


@dataclass(frozen=True, slots=True)
class Problem:
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
class Report:
    """What a report says, as far as it has been read."""

    cases: int = 0
    skipped: int = 0
    declared: int = 0  # failures and errors, as its suites count them
    problems: list[Problem] = field(default_factory=list)


def read(data: bytes) -> Report:
    """The report; raises Unreadable when it is not XML, was cut off, or declares what no report needs."""
    if len(data) > LARGEST:
        raise Unreadable(f"it has {len(data):,} bytes, and at most {LARGEST:,} are read; split it")
    reader = _Reader()
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise Unreadable(f"{error}; it may have been cut off") from error
    except (LookupError, ValueError) as error:
        raise Unreadable(f"its text cannot be decoded: {error}") from error
    return reader.report


class _Reader:
    def __init__(self) -> None:
        self.report = Report()
        self.path: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.said
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse

    def refuse(self, *_: object) -> None:
        raise Unreadable("it declares a document type or an entity, which no test report needs")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if not self.path and name not in ("testsuites", "testsuite"):
            raise Unreadable(f"its first element is {name!r}, and testsuites or testsuite was expected")
        if len(self.path) >= _DEEPEST:
            raise Unreadable(f"its elements are nested more than {_DEEPEST} levels deep")
        self.path.append((name, attributes))
        self.text.clear()
        self.report.cases += name == "testcase"
        self.report.skipped += name == "skipped" and self.path[-2][0] == "testcase"
        if name == "testsuite":
            self.report.declared += sum(_number(attributes.get(key)) for key in ("failures", "errors"))

    def said(self, text: str) -> None:
        if self.path[-1][0] in _PROBLEMS:
            self.text.append(text)

    def end(self, _: str) -> None:
        name, attributes = self.path.pop()
        if name in _PROBLEMS and self.path[-1][0] in ("testcase", "testsuite"):
            self.report.problems.append(self.problem(attributes))

    def problem(self, attributes: dict[str, str]) -> Problem:
        owner = self.path[-1][1]
        suite = next((told for name, told in reversed(self.path) if name == "testsuite"), {})
        return Problem(
            name=owner.get("name", ""),
            classname=owner.get("classname", ""),
            suite=suite.get("name", ""),
            file=owner.get("file", "") or suite.get("file", "") or suite.get("filepath", ""),
            line=_number(owner.get("line")),
            message=attributes.get("message", "") or attributes.get("type", ""),
            text="".join(self.text),
        )


def _number(digits: str | None) -> int:
    return int(digits) if digits and digits.isascii() and digits.isdigit() and len(digits) < 10 else 0
