"""JUnit XML in: a claim for each failure and error of a test run.

A report in which no test was run is not a clean one, nor is one that counts more than it shows.
Declarations of types and entities are refused where they begin.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from pipeline.findings.claims import Claim, Return
from pipeline.findings.codecs import tools
from pipeline.findings.codecs.junit_xml import JUnitProblem, JUnitReport, read
from pipeline.findings.codecs.paths import absolute, relative
from pipeline.findings.codecs.reading import TOOL, ItemRefused, Unreadable, excerpt, gather, headline, malformed
from pipeline.findings.model import AutofixClass, Evidence, Location, Owner, Severity

FORMAT = "junit"
_LINES = 40  # of a failure that are kept
_FRAME = re.compile(
    r"""^[ \t]*File\ "(?P<python>[^"\n]+)",\ line\ (?P<python_line>\d+)
      | ^(?:E[ \t]+)?[ \t]*(?P<path>[^\s:()<>"']*[^\s:()<>"'/]\.\w+):(?P<line>\d+)(?=:|\s|$)
      | \((?P<call>/[^():\n]+):(?P<call_line>\d+):\d+\)""",
    re.MULTILINE | re.VERBOSE,
)
_FILE = re.compile(r".*/[^/]+\.\w{1,5}")


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> Return:
    """The failures of a test run. `root` is the repository's directory, for tracebacks with absolute paths."""
    name = reviewer or FORMAT
    try:
        report = read(data)
        _check(report)
    except Unreadable as error:
        return malformed(name, FORMAT, f"it cannot be read as JUnit XML: {error}")
    items: list[JUnitProblem | str] = [*report.problems, *report.contradictions]
    return gather(
        name, FORMAT, items, _claims(name, root, report), lambda item: "" if isinstance(item, str) else item.name
    )


def _check(report: JUnitReport) -> None:
    if not report.cases and not report.problems:
        raise Unreadable("it has no test case: no test was run")
    if report.cases == report.skipped and not report.problems:
        raise Unreadable(f"all of its tests ({report.skipped}) were skipped: no test was run")


def _claims(reviewer: str, root: str, report: JUnitReport) -> Callable[[JUnitProblem | str, str], Claim]:
    times = Counter(problem.test for problem in report.problems)

    def claim(problem: JUnitProblem | str, input_id: str) -> Claim:
        if isinstance(problem, str):
            raise ItemRefused("the report contradicts itself: failures may be missing")
        made = _claim(problem, input_id, reviewer, root)
        return replace(made, tool_ids={FORMAT: problem.test}) if times[problem.test] == 1 else made

    return claim


def _claim(problem: JUnitProblem, input_id: str, reviewer: str, root: str) -> Claim:
    message = problem.message.strip() or headline(problem.text)
    if not problem.name and not message:
        raise ItemRefused("it names no test and says nothing")
    places = tuple(_places(problem, root))
    told = excerpt("\n".join(problem.text.strip().splitlines()[:_LINES]))
    return Claim(
        input_id=input_id,
        reviewer=reviewer,
        title=headline(f"{problem.name}: {headline(message)}" if message else f"{problem.name} fails"),
        severity=Severity.HIGH,
        confidence=TOOL,
        category=tools.category(*_rule(problem)),
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
    frames = [(path, line) for path, line in _frames(problem.text, root) if not absolute(path)]
    file = problem.file or (problem.suite if _FILE.fullmatch(problem.suite) else "")
    if file and not frames:
        frames = [(relative(file, root), problem.line)]
    for path, line in dict.fromkeys(reversed(frames)):
        yield Location(path=path, start=line or None)


def _frames(text: str, root: str) -> Iterator[tuple[str, int]]:
    for match in _FRAME.finditer(text):
        path = match["python"] or match["path"] or match["call"]
        yield relative(path, root), int(match["python_line"] or match["line"] or match["call_line"])
