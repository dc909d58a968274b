"""JUnit XML in: a draft for each failure and error of a test run.

A report in which no test was run is not a clean one, nor is one that counts more failures than it shows.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NoReturn
from xml.etree import ElementTree as ET

from pipeline.findings.formats import items
from pipeline.findings.model import Draft, Evidence, Location, Report, Severity
from pipeline.findings.scales import category_of_rule

FORMAT = "junit"
_MAX_DEPTH = 100  # of elements
_MAX_LINES = 40  # of a failure that are kept
_SUITES = ("testsuites", "testsuite")
_FAILED = re.compile(r"fail|err|broke|crash|abort|time.?out", re.IGNORECASE)  # the `status` or `result` of a test
_FRAME = re.compile(  # of Python, of pytest, Go and others, of JavaScript: each with a path and a line
    r"""^[ \t]*File\ "([^"\n]+)",\ line\ (\d+)
      | ^(?:E[ \t]+)?[ \t]*([^\s:()<>"']*[^\s:()<>"'/]\.\w+):(\d+)(?=:|\s|$)
      | \((/[^():\n]+):(\d+):\d+\)""",
    re.MULTILINE | re.VERBOSE,
)
_FILE_NAME = re.compile(r"^.*/[^/]+\.\w{1,5}$")
_COUNT = re.compile(r"\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Failure:
    """One failure or error, and the test it belongs to."""

    name: str
    classname: str
    file: str  # that the test or its suite names
    line: int  # 0 if it names none
    message: str
    text: str

    @property
    def test(self) -> str:
        """The full name of the test."""
        return _full_name(self.classname, self.name)


@dataclass(slots=True)
class _TestRun:
    """What a report says, as far as it has been read."""

    tests: int = 0
    skipped: int = 0
    ran: set[str] = field(default_factory=set)  # the full names of tests
    failures: list[_Failure] = field(default_factory=list)
    contradictions: list[str] = field(default_factory=list)


class _Builder(ET.TreeBuilder):
    """Builds the tree of a document without a document type: an entity could expand to gigabytes or read a file."""

    def doctype(self, *_: object) -> NoReturn:
        raise items.UnreadableFile("it declares a document type, which no test report needs")


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return the failures of a test run; raise ValueError."""
    run = _TestRun()
    _visit(_parse(data), (), run)
    if run.tests == run.skipped and not run.failures:
        raise items.UnreadableFile(f"no test was run: of {run.tests} test cases, {run.skipped} were skipped")
    name, times = reviewer or FORMAT, Counter(failure.test for failure in run.failures)

    def read_item(failure: _Failure, input_id: str) -> Draft:
        tool_ids = {FORMAT: failure.test} if times[failure.test] == 1 else {}
        return _read_failure(failure, input_id, name, root, tool_ids)

    report = items.collect_items(name, FORMAT, run.failures, read_item, run.contradictions)
    return replace(report, checked=frozenset(run.ran))


def _full_name(classname: str, name: str) -> str:
    return f"{classname}::{name}"


def _parse(data: bytes) -> ET.Element:
    try:
        root = ET.fromstring(data, ET.XMLParser(target=_Builder()))  # noqa: S314 - see the builder
    except ET.ParseError as error:
        raise items.UnreadableFile(f"not valid XML, perhaps cut off: {error}") from error
    except LookupError as error:
        raise items.UnreadableFile(f"unknown encoding: {error}") from error
    if _tag(root) not in _SUITES:
        raise items.UnreadableFile(f"its first element is <{_tag(root)[:40]}>, not <testsuites> or <testsuite>")
    return root


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2].lower()


def _visit(element: ET.Element, parents: tuple[ET.Element, ...], run: _TestRun) -> tuple[int, int]:
    """Add what is inside an element to the run; return how many tests and failures that was."""
    if len(parents) >= _MAX_DEPTH:
        raise items.UnreadableFile(f"its elements are nested more than {_MAX_DEPTH} levels deep")
    tag = _tag(element)
    if tag in ("failure", "error"):
        _add_failure(element, parents, run)
        return 0, 1
    inside = [_visit(child, (*parents, element), run) for child in element]
    tests, failures = sum(count for count, _ in inside), sum(count for _, count in inside)
    if tag == "testcase":
        tests += 1
        run.tests += 1
        skipped = any(_tag(child) == "skipped" for child in element)
        run.skipped += skipped
        if not skipped:
            run.ran.add(_full_name(element.get("classname", ""), element.get("name", "")))
        status = f"{element.get('status', '')} {element.get('result', '')}".strip()
        if _FAILED.search(status) and not failures:
            run.contradictions.append(f"{_label(element)} has the status {status!r} and shows no failure")
    elif tag in _SUITES:
        run.contradictions += _miscounts(element, tests, failures)
    return tests, failures


def _add_failure(element: ET.Element, parents: tuple[ET.Element, ...], run: _TestRun) -> None:
    parent = parents[-1]
    suite = next((one for one in reversed(parents) if _tag(one) == "testsuite"), parent)
    files = (parent.get("file"), suite.get("file"), suite.get("filepath"), *_FILE_NAME.findall(suite.get("name", "")))
    failure = _Failure(
        name=parent.get("name", ""),
        classname=parent.get("classname", ""),
        file=next(filter(None, files), ""),
        line=max(_count(parent.get("line", "")), 0),
        message=element.get("message") or element.get("type") or "",
        text="".join(element.itertext()),
    )
    if _tag(parent) in ("testcase", "testsuite"):
        run.failures.append(failure)
    else:
        message = items.excerpt(f"{failure.message}\n{failure.text}")
        run.contradictions.append(f"<{_tag(element)}> in <{_tag(parent)}> does not belong to a test\n{message}")


def _miscounts(suite: ET.Element, tests: int, failures: int) -> Iterator[str]:
    """Yield the counts of a suite that exceed what it shows. A count may be left out."""
    stated = {key: _count(suite.get(key, "0")) for key in ("tests", "failures", "errors")}
    for key, count in stated.items():
        if count < 0:
            yield f"{_label(suite)}: `{key}` is not a count: {items.excerpt(suite.get(key, ''))!r}"
    if stated["tests"] > tests + failures:  # pytest counts a test and the error of its teardown as two
        yield f"{_label(suite)} counts {stated['tests']} tests and shows {tests}"
    failed = max(stated["failures"], 0) + max(stated["errors"], 0)
    if failed > failures:
        yield f"{_label(suite)} counts {failed} failures and shows {failures}"


def _label(element: ET.Element) -> str:
    return f"{_tag(element)} {element.get('name', '')[:100]}".strip()


def _count(digits: str) -> int:
    """Return a number; -1 for what is none."""
    return int(digits) if _COUNT.fullmatch(digits) else -1


def _read_failure(failure: _Failure, input_id: str, reviewer: str, root: str, tool_ids: dict[str, str]) -> Draft:
    message = failure.message.strip() or items.headline(failure.text)
    if not failure.name and not message:
        raise items.ItemError("it has neither a test's name nor a message")
    text = items.excerpt("\n".join(failure.text.strip().splitlines()[:_MAX_LINES]))
    return items.tool_finding(
        input_id,
        reviewer,
        f"{failure.name}: {items.headline(message)}" if message else f"{failure.name} fails",
        Severity.HIGH,
        category_of_rule(FORMAT),
        impact=items.excerpt(message),
        locations=tuple(_locations(failure, root)),
        evidence=(Evidence(raw=text),) if text else (),
        tool_ids=tool_ids,
    )


def _locations(failure: _Failure, root: str) -> list[Location]:
    """Return where it failed, innermost first; the test itself if no traceback leads into the repository."""
    frames = []
    for match in _FRAME.finditer(failure.text):
        path, line = (group for group in match.groups() if group)
        frames.append(Location(path=items.relative_path(path, root), start=int(line) or None))
    frames = [frame for frame in frames if not items.is_absolute(frame.path)]
    if failure.file and not frames:
        frames = [Location(path=items.relative_path(failure.file, root), start=failure.line or None)]
    return list(dict.fromkeys(reversed(frames)))
