"""Where a SARIF result is: its URIs and regions as paths and lines.

A path is relative to the repository wherever the file says enough to make it so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import join
from typing import Any
from urllib.parse import quote

from pipeline.findings import scales as tools
from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats.items import (
    TOOL_CONFIDENCE,
    ItemError,
    NothingWrong,
    UnreadableFile,
    collect_items,
    excerpt,
    headline,
    is_absolute,
    json_of,
    limit_nesting,
    malformed_report,
    path_from_uri,
    relative_path,
    replacement_text,
    rest_of_message,
    title_of,
    uncollected,
)
from pipeline.findings.formats.strict_json import is_int
from pipeline.findings.model import (
    Category,
    Confidence,
    Evidence,
    Finding,
    FindingState,
    Location,
    RawFinding,
    ReportStatus,
    ReviewerReport,
    Severity,
)
from pipeline.findings.scales import SARIF_LEVEL, default_autofix, reviewer_name

_ROOTS = frozenset(("%SRCROOT%", "SRCROOT", "ROOTPATH", "PROJECTROOT", "REPOROOT", "%REPOROOT%"))


@dataclass(frozen=True, slots=True)
class Bases:
    """What the URIs of one run are relative to."""

    root: str  # of the repository, on this machine
    bases: Mapping[str, Any]
    artifacts: Sequence[Any]
    roots: frozenset[str] = _ROOTS  # bases that are the repository's root, wherever the tool had it
    known: dict[tuple[str, str], str] = field(default_factory=dict)  # many results are in one file

    @classmethod
    def of(cls, run: Mapping[str, Any], root: str) -> "Bases":
        """Those of a run."""
        mapped = (mapping(item).get("mappedTo") for item in sequence(run.get("versionControlProvenance")))
        named = (mapping(place).get("uriBaseId") for place in mapped)
        roots = _ROOTS.union(name for name in named if isinstance(name, str))
        return cls(root, mapping(run.get("originalUriBaseIds")), sequence(run.get("artifacts")), roots)

    def path(self, artifact: Mapping[str, Any]) -> str:
        """The path of an artifact location; empty when it names none."""
        told = self._indexed(artifact)
        uri, base = told.get("uri", ""), told.get("uriBaseId", "")
        if not isinstance(uri, str) or not isinstance(base, str):
            raise ItemError("the uri of its location is not a text")
        if (uri, base) not in self.known:
            self.known[uri, base] = self._resolved(uri, base)
        return self.known[uri, base]

    def _resolved(self, uri: str, base: str) -> str:
        path = path_from_uri(uri)
        whole = self._below(path, base)
        below = relative_path(whole, self.root)
        return relative_path(path) if is_absolute(below) and base in self.roots else below

    def _indexed(self, artifact: Mapping[str, Any]) -> Mapping[str, Any]:
        if "uri" in artifact:
            return artifact
        return mapping(mapping(at(self.artifacts, artifact.get("index"))).get("location")) or artifact

    def _below(self, path: str, base: str) -> str:
        """The path with all that its base and the bases of that stand for."""
        met: set[str] = set()
        while base and not is_absolute(path):
            if base in met:
                raise ItemError(f"the base {base!r} of its location is defined by itself")
            met.add(base)
            told = mapping(self.bases.get(base))
            path, base = join(path_from_uri(text(told.get("uri"))), path), text(told.get("uriBaseId"))
        return path


@dataclass(frozen=True, slots=True)
class SarifLocation:
    """One location of a result, with all that it says."""

    path: str
    start: int | None
    end: int | None
    symbol: str
    quote: str
    raw: str

    def location(self) -> Location:
        """It as where a defect is."""
        return Location(path=self.path, **self._said("start", "end", "symbol"))

    def evidence(self) -> Evidence:
        """It as what supports a claim."""
        return Evidence(**self._said("path", "start", "end", "symbol", "quote", "raw"))

    def _said(self, *names: str) -> dict[str, Any]:
        """What is not at its default: a model keeps a set of the names that it was given, and there are many."""
        return {name: value for name in names if (value := getattr(self, name))}


def places_of(items: Any, bases: Bases) -> list[SarifLocation]:
    """Each location in a list of them."""
    if not isinstance(items, list | None):
        raise ItemError("its locations are not a list")
    return [_place(mapping(item), bases) for item in items or ()]


def _place(told: Mapping[str, Any], bases: Bases) -> SarifLocation:
    physical = mapping(told.get("physicalLocation"))
    region = mapping(physical.get("region"))
    start, end = lines_of(region)
    return SarifLocation(
        path=bases.path(mapping(physical.get("artifactLocation"))),
        start=start,
        end=end,
        symbol=_symbol(told) if "logicalLocations" in told else "",
        quote=text(mapping(region.get("snippet")).get("text")).strip()[:QUOTE],
        raw=text(mapping(told.get("message")).get("text")),
    )


def lines_of(region: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """The first and the last line of a region. One that ends before a line's first column does not touch that line."""
    start, end = line_of(region, "startLine"), line_of(region, "endLine")
    if start and end and end > start and region.get("endColumn") == 1:
        end -= 1
    if start and end and end < start:
        raise ItemError(f"its region ends on line {end}, before it begins on line {start}")
    return start, end if start else None


def line_of(region: Mapping[str, Any], name: str) -> int | None:
    """A line number; none for 0, which tools write for a whole file."""
    line = region.get(name)
    if line is not None and (not is_int(line) or line < 0):
        raise ItemError(f"its {name} is {line!r}, and a line is a number from 1")
    return line or None


def _symbol(location: Mapping[str, Any]) -> str:
    logical = (mapping(item) for item in sequence(location.get("logicalLocations")))
    names = (text(item.get("fullyQualifiedName")) or text(item.get("name")) for item in logical)
    return next((name for name in names if name), "")


def at(items: Sequence[Any], index: Any) -> Any:
    """The item at an index, or None where there is none."""
    return items[index] if is_int(index) and 0 <= index < len(items) else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def sequence(value: Any) -> Sequence[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else ()


def text(value: Any) -> str:
    """The value if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


_RULE_WORDS = ("id", "name", "shortDescription", "helpUri")
_HOLE = re.compile(r"\{\{|\}\}|\{(\d{1,4})\}")
_LINK = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]\(\d+\)")  # a reference to a related location by its number

_NOTIFICATIONS = ("toolExecutionNotifications", "toolConfigurationNotifications")
_KILLED = ("processStartFailureMessage", "exitSignalName", "exitSignalNumber")
_SHOWN = 100  # characters of an exit code


@dataclass(frozen=True, slots=True)
class SarifRun:
    """What the results of a run have in common."""

    tool: str  # as it calls itself
    reviewer: str  # as we call it
    rules: Mapping[str, Mapping[str, Any]]  # of the driver and its extensions, by id
    components: Sequence[Sequence[Any]]  # the same by index: the driver's, then those of each extension
    strings: Mapping[str, Any]
    words: Mapping[str, Mapping[str, Any]]  # what is kept of a rule with its results, by id
    bases: Bases
    results: list[Any]
    problem: str = ""  # why its results may not be all
    shared: dict[str, dict[str, Any]] = field(default_factory=dict)  # what several claims keep beside

    @classmethod
    def of(cls, value: Any, root: str) -> "SarifRun":
        """A run as it stands in the file."""
        run = mapping(value)
        tool = mapping(run.get("tool"))
        parts = [mapping(tool.get("driver")), *map(mapping, sequence(tool.get("extensions")))]
        name = text(parts[0].get("name"))
        components = [sequence(part.get("rules")) for part in parts]
        rules = {rule["id"]: rule for rule in _named(components)}
        return cls(
            tool=name,
            reviewer=reviewer_name(name) or "sarif",
            rules=rules,
            words={key: {word: rule[word] for word in _RULE_WORDS if word in rule} for key, rule in rules.items()},
            components=components,
            strings=mapping(parts[0].get("globalMessageStrings")),
            bases=Bases.of(run, root),
            results=_results_of_run(run, name),
            problem=_failure(run, name),
        )

    def rule(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rule that a result breaks; an empty one when the run does not describe it."""
        told = mapping(result.get("rule"))
        name = rule_id(result)
        while name and name not in self.rules:
            name = name.rpartition("/")[0]  # a rule's id may go on with that of a part of the rule
        return self.rules[name] if name else self._numbered(told, result.get("ruleIndex", told.get("index")))

    def _numbered(self, told: Mapping[str, Any], index: Any) -> Mapping[str, Any]:
        driver, *extensions = self.components
        component = mapping(told.get("toolComponent")).get("index")
        return mapping(at(driver if component is None else sequence(at(extensions, component)), index))

    def message(self, value: Any, rule: Mapping[str, Any]) -> str:
        """A message in full: its text, or the one its id stands for, with its arguments in their places."""
        told = mapping(value)
        said = text(told.get("text")) or self._defined(text(told.get("id")), rule) or text(told.get("markdown"))
        whole = filled(said, sequence(told.get("arguments")))
        return (_LINK.sub(r"\1", whole) if "](" in whole else whole).strip()

    def _defined(self, name: str, rule: Mapping[str, Any]) -> str:
        found = mapping(rule.get("messageStrings")).get(name) or self.strings.get(name)
        return text(mapping(found).get("text"))


def filled(template: str, arguments: Sequence[Any]) -> str:
    """A template with its arguments; one for which there is none stays as it stands."""

    def fill(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        index = int(match[1])
        return str(arguments[index]) if index < len(arguments) else match[0]

    return _HOLE.sub(fill, template) if arguments else template


def rule_id(result: Mapping[str, Any]) -> str:
    """What a result calls the rule it breaks."""
    return text(result.get("ruleId")) or text(mapping(result.get("rule")).get("id"))


def _named(components: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for rules in reversed(components):  # the driver's own win
        yield from (rule for rule in rules if isinstance(rule, dict) and isinstance(rule.get("id"), str))


def _results_of_run(run: Mapping[str, Any], name: str) -> list[Any]:
    if mapping(run.get("externalPropertyFileReferences")).get("results"):
        raise UnreadableFile(f"the run of {name or 'a tool'} keeps its results in other files; put them into one")
    results = run.get("results")
    if not isinstance(results, list):
        raise UnreadableFile(f"the run of {name or 'a tool'} has no results; one that found nothing has an empty list")
    return results


def _failure(run: Mapping[str, Any], name: str) -> str:
    """Why the results of a run may not be all: what it says about how the tool was run."""
    invocations = run.get("invocations", [])
    if not isinstance(invocations, list):
        return f"{name or 'a tool'} does not say how it was run: its invocations are not a list"
    reason = next((reason for item in invocations if (reason := _unsuccessful(item, run["results"]))), "")
    return f"{name or 'a tool'} may have found more: {reason}" if reason else ""


def _unsuccessful(invocation: Any, results: Sequence[Any]) -> str:
    if not isinstance(invocation, dict):
        return "an invocation is not an object"
    if invocation.get("executionSuccessful", True) is not True:
        return "its run did not succeed"
    if any(invocation.get(key) is not None for key in _KILLED):
        return "its process did not start, or was killed"
    if "executionSuccessful" not in invocation and invocation.get("exitCode", 0) != 0 and not results:
        return f"its exit code is {str(invocation['exitCode'])[:_SHOWN]}, and it has no results"
    for key in _NOTIFICATIONS:
        notes = invocation.get(key, [])
        if not isinstance(notes, list) or not all(map(_harmless, notes)):
            return f"its {key} report an error"
    return ""


def _harmless(notification: Any) -> bool:
    return isinstance(notification, dict) and notification.get("level", "warning") in ("warning", "note", "none")


KEY = "x_finding"
UNKNOWN = "x_sarif"
DRIVER = "awf"


_CARRIED = (
    *("title", "severity", "category", "confidence", "plain_title", "impact", "fix", "reproduction", "min_fix_scope"),
    *("regression_tests", "autofix_class", "owner", "requires_verification", "pre_existing", "system_breaking"),
    *("evidence", "lens", "scope", "state", "signature", "fingerprints", "sources"),
)  # the fields of a finding for which SARIF has no place
_BLANK = {"id": "", "signature": "", "pass_id": "", "created_at": "", "updated_at": ""}  # what only a ledger can say


def properties_of(finding: Finding) -> dict[str, Any]:
    """The property bag of a finding's result."""
    bag: dict[str, Any] = {
        "id": finding.id,
        "number": finding.number,
        "state": str(finding.state),
        "observed": str(finding.observed),
        "gate": str(finding.gate.value),
        "confidence": finding.confidence.value,
        "tags": [str(finding.category)],
        KEY: finding.model_dump(mode="json", include=set(_CARRIED), exclude_defaults=True),
    }
    unknown = finding.ext.get("sarif")
    return bag | ({UNKNOWN: unknown} if unknown else {})


@dataclass(frozen=True, slots=True)
class SarifWords:
    """What SARIF itself says of how bad a result is and what became of it."""

    level: str
    kind: str = "fail"
    suppressed: bool = False
    absent: bool = False

    @classmethod
    def of(cls, severity: Severity, state: FindingState) -> "SarifWords":
        """The words for a severity and a state. A result that is not a failure has no level."""
        kind = {FindingState.FIX_CLAIMED: "review", FindingState.UNCERTAIN: "open"}.get(state, "fail")
        level = SARIF_LEVEL[severity] if kind == "fail" else "none"
        return cls(level, kind, state.dismissed, state is FindingState.VERIFIED_FIXED)


def restored(claim: RawFinding, bag: Mapping[str, Any], said: SarifWords) -> RawFinding:
    """A claim with what was carried; severity and state only where SARIF still says what was written."""
    written = mapping(bag.get(KEY))
    carried = Finding.model_validate(_BLANK | {name: written[name] for name in _CARRIED if name in written})
    told = {name: getattr(carried, name) for name in _CARRIED if name in RawFinding.__dataclass_fields__}
    wrote = SarifWords.of(carried.severity, carried.state)
    if said.level != wrote.level:
        told["severity"] = claim.severity
    if replace(said, level=wrote.level) != wrote:
        told["state"] = claim.state
    unknown = bag.get(UNKNOWN)
    ids = {**carried.fingerprints, "awf/id": str(bag.get("id", "")), "awf/v1": carried.signature}
    return replace(claim, tool_ids=ids, ext={"sarif": unknown} if unknown else {}, **told)


_REGION = ("startLine", "startColumn", "endLine", "endColumn", "charOffset", "charLength")


def fix_text(fixes: Any) -> str | None:
    """The first fix in words: its description, or what it puts where."""
    if not fixes:
        return None
    fix = mapping(next(iter(sequence(fixes)), None))
    described = text(mapping(fix.get("description")).get("text")).strip()
    return excerpt(described, 400) or next(map(replacement_text, _inserted(fix)), None)


def _inserted(fix: Mapping[str, Any]) -> Iterator[str]:
    for change in sequence(fix.get("artifactChanges")):
        for item in sequence(mapping(change).get("replacements")):
            yield text(mapping(mapping(item).get("insertedContent")).get("text"))


def portable(fixes: Any, bases: Bases) -> Any:
    """The same fixes with paths relative to the repository, which mean something outside their run."""
    return [_fix(mapping(fix), bases) for fix in sequence(fixes)]


def _fix(fix: Mapping[str, Any], bases: Bases) -> dict[str, Any]:
    changes = [mapping(change) for change in sequence(fix.get("artifactChanges"))]
    moved = [{**change, "artifactLocation": {"uri": _path(change, bases)}} for change in changes]
    return {**fix, "artifactChanges": moved}


def _path(change: Mapping[str, Any], bases: Bases) -> str:
    return quote(bases.path(mapping(change.get("artifactLocation"))))


def concrete(fixes: Any) -> list[dict[str, Any]]:
    """Those fixes that a tool can apply, with nothing in them that SARIF does not know."""
    found = [_rebuilt(mapping(fix)) for fix in sequence(fixes)]
    return [fix for fix in found if fix["artifactChanges"]]


def _rebuilt(fix: Mapping[str, Any]) -> dict[str, Any]:
    described = text(mapping(fix.get("description")).get("text"))
    changes = [change for item in sequence(fix.get("artifactChanges")) if (change := _change(mapping(item)))]
    return ({"description": {"text": described}} if described else {}) | {"artifactChanges": changes}


def _change(change: Mapping[str, Any]) -> dict[str, Any]:
    uri = text(mapping(change.get("artifactLocation")).get("uri"))
    replacements = [item for one in sequence(change.get("replacements")) if (item := _replacement(mapping(one)))]
    return {"artifactLocation": {"uri": uri}, "replacements": replacements} if uri and replacements else {}


def _replacement(item: Mapping[str, Any]) -> dict[str, Any]:
    told = mapping(item.get("deletedRegion"))
    region = {name: told[name] for name in _REGION if is_int(told.get(name)) and told[name] >= 1}
    if "startLine" not in region:
        return {}
    return {
        "deletedRegion": region,
        "insertedContent": {"text": text(mapping(item.get("insertedContent")).get("text"))},
    }


FORMAT = "sarif"
VERSION = "2.1.0"
_LEVELS = {"error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.INFO}
_BANDS = ((9.0, Severity.CRITICAL), (7.0, Severity.HIGH), (4.0, Severity.MEDIUM), (0.1, Severity.LOW))
_PRECISION = {"very-high": 100, "high": 75, "medium": 50, "low": 25}
_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,9})?", re.ASCII)
_SILENT = ("pass", "notApplicable")
_READ = frozenset(  # what a claim has a place for
    {
        "message",
        "level",
        "locations",
        "relatedLocations",
        "guid",
        "correlationGuid",
        "fingerprints",
        "partialFingerprints",
        "baselineState",
        "suppressions",
        "ruleIndex",
        "rank",
    }
)
_IDS = frozenset({"partialFingerprints", "fingerprints", "guid", "correlationGuid"})
FALSE_POSITIVE, WONT_FIX = "false positive", "won't fix"
_DISMISSALS = {FALSE_POSITIVE: FindingState.FALSE_POSITIVE, WONT_FIX: FindingState.WONT_FIX}


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> ReviewerReport:
    """The results of a SARIF file. `root` is the repository's directory, for tools that write absolute paths."""
    with uncollected():
        try:
            runs = _runs(json_of(data), root)
        except UnreadableFile as error:
            return malformed_report(reviewer or FORMAT, FORMAT, f"it cannot be read as SARIF: {error}")
        return _return(runs, reviewer)


def _return(runs: list[SarifRun], reviewer: str) -> ReviewerReport:
    names = dict.fromkeys(run.reviewer for run in runs)
    found = collect_items(
        reviewer or "+".join(names),
        FORMAT,
        _results(runs),
        lambda item, input_id: _claim(*item, input_id, reviewer),
        lambda item: title_of(item[1]),
    )
    problems = "; ".join(run.problem for run in runs if run.problem)
    return replace(found, status=ReportStatus.MALFORMED, problem=problems) if problems else found


def _results(runs: list[SarifRun]) -> Iterator[tuple[SarifRun, Any]]:
    """Each result once. What has been read is let go: the file and its claims need not be in memory at once."""
    for run in runs:
        for index, result in enumerate(run.results):
            run.results[index] = None
            yield run, result


def _runs(value: Any, root: str) -> list[SarifRun]:
    log = mapping(value)
    version, runs = log.get("version"), log.get("runs")
    if version != VERSION:
        raise UnreadableFile(f"its version is {version!r}, and {VERSION} was expected")
    if not isinstance(runs, list) or not runs:
        raise UnreadableFile("it has no runs: no tool looked at anything")
    return [SarifRun.of(run, root) for run in runs]


def _claim(run: SarifRun, value: Any, input_id: str, reviewer: str) -> RawFinding:
    result = _result(value)
    rule = run.rule(result)
    message = run.message(result.get("message"), rule)
    if not message:
        raise ItemError("it has no message, neither a text nor an id that its run defines")
    severity, fix = _severity(result, rule), fix_text(result.get("fixes"))
    autofix_class, owner = default_autofix(fix, severity)
    suppressed, state = _fate(result)
    places = places_of(result.get("locations"), run.bases)
    claim = RawFinding(
        input_id=input_id,
        reviewer=reviewer or run.reviewer,
        title=headline(message),
        severity=severity,
        confidence=_confidence(result, rule),
        category=_category(run, result, rule),
        impact=_impact(message, rule),
        fix=fix,
        autofix_class=autofix_class,
        owner=owner,
        locations=tuple(place.location() for place in places if place.path),
        evidence=(*_quoted(places), *_related(result, run)),
        tool_ids=_tool_ids(result),
        state=state,
        suppressed=suppressed,
        ext=_ext(run, result, rule),
    )
    bag = mapping(result.get("properties"))
    return restored(claim, bag, _words(result, rule)) if run.tool == DRIVER and KEY in bag else claim


def _result(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ItemError(f"it is {type(value).__name__}, and a result is an object")
    if value.get("kind") in _SILENT:
        raise NothingWrong(f"its kind is {value['kind']!r}: it reports that nothing is wrong")
    return value


def _words(result: Mapping[str, Any], rule: Mapping[str, Any]) -> SarifWords:
    absent = result.get("baselineState") == "absent"
    return SarifWords(
        _level(result, rule), text(result.get("kind")) or "fail", _suppression(result) is not None, absent
    )


def _level(result: Mapping[str, Any], rule: Mapping[str, Any]) -> str:
    usual = text(mapping(rule.get("defaultConfiguration")).get("level")) or "warning"
    level = result.get("level", usual if result.get("kind", "fail") == "fail" else "none")
    if not isinstance(level, str) or level not in _LEVELS:
        raise ItemError(f"its level is {level!r}, and error, warning, note or none was expected")
    return level


def _severity(result: Mapping[str, Any], rule: Mapping[str, Any]) -> Severity:
    """By the number for security where there is one: it tells more than the level."""
    level = _LEVELS[_level(result, rule)]
    bags = mapping(result.get("properties")), mapping(rule.get("properties"))
    number = next((bag["security-severity"] for bag in bags if "security-severity" in bag), None)
    if number is None:
        return level
    if not _NUMBER.fullmatch(str(number)):
        raise ItemError(f"its security-severity is {number!r}, and a number from 0 to 10 was expected")
    return next((severity for least, severity in _BANDS if float(number) >= least), Severity.INFO)


def _confidence(result: Mapping[str, Any], rule: Mapping[str, Any]) -> Confidence:
    rank = result.get("rank")
    if isinstance(rank, int | float) and not isinstance(rank, bool) and 0 <= rank <= 100:
        return Confidence(value=int(rank), scale="rank", native=float(rank))
    precision = text(mapping(rule.get("properties")).get("precision"))
    if precision in _PRECISION:
        return Confidence(value=_PRECISION[precision], scale="precision", native=precision)
    return TOOL_CONFIDENCE


def _category(run: SarifRun, result: Mapping[str, Any], rule: Mapping[str, Any]) -> Category:
    bags = mapping(rule.get("properties")), mapping(result.get("properties"))
    tags = [tag for bag in bags for tag in sequence(bag.get("tags")) if isinstance(tag, str)]
    if any("security-severity" in bag for bag in bags):
        tags.append("security")
    return tools.category_of_rule(run.reviewer, rule_id(result), tuple(tags))


def _impact(message: str, rule: Mapping[str, Any]) -> str:
    """What the message says beyond the title, and what the rule is for."""
    told = (
        text(mapping(rule.get(name)).get("text")).strip() for name in ("fullDescription", "shortDescription", "help")
    )
    reason = next((item for item in told if item and item != message), "")
    return "\n\n".join(part for part in (rest_of_message(message), excerpt(reason, 600)) if part)


def _quoted(places: list[SarifLocation]) -> list[Evidence]:
    return [place.evidence() for place in places if place.quote or (place.symbol and not place.path)]


def _related(result: Mapping[str, Any], run: SarifRun) -> list[Evidence]:
    places = places_of(result.get("relatedLocations"), run.bases)
    return [place.evidence() for place in places if place.path or place.raw]


def _tool_ids(result: Mapping[str, Any]) -> dict[str, str]:
    """A tool's own names for a result. A partial fingerprint tells places apart only within one rule."""
    if _IDS.isdisjoint(result):
        return {}
    rule = rule_id(result)
    partial = mapping(result.get("partialFingerprints")).items()
    found = {name: f"{rule}:{value}" for name, value in partial if isinstance(value, str)}
    found |= {name: value for name, value in mapping(result.get("fingerprints")).items() if isinstance(value, str)}
    return found | {name: result[name] for name in ("guid", "correlationGuid") if text(result.get(name))}


def _suppression(result: Mapping[str, Any]) -> str | None:
    """The reason why a result is not to be shown. One that is under review or was refused is none."""
    items = [mapping(item) for item in sequence(result.get("suppressions"))] if "suppressions" in result else []
    if not items or any(item.get("status", "accepted") != "accepted" for item in items):
        return None
    reason = next((text(item.get("justification")) for item in items if item.get("justification")), "")
    return reason or ("suppressed in the source" if items[0].get("kind") == "inSource" else "suppressed by the tool")


def _fate(result: Mapping[str, Any]) -> tuple[str | None, FindingState | None]:
    """Whether it is suppressed and why, and its state. That a tool misses it, or asks for a look, proves nothing."""
    reason = _suppression(result)
    for word, state in _DISMISSALS.items():
        if reason is not None and reason.casefold().startswith(word):
            return reason[len(word) :].removeprefix(": ") or word, state
    if result.get("baselineState") == "absent":
        return reason, FindingState.FIX_CLAIMED
    return reason, FindingState.UNCERTAIN if result.get("kind") in ("open", "review") else None


def _ext(run: SarifRun, result: Mapping[str, Any], rule: Mapping[str, Any]) -> dict[str, Any]:
    """What a claim has no place for, to be written again: the rule's words, and all that is unknown here."""
    kept = {name: value for name, value in result.items() if name not in _READ}
    if "fixes" in kept:
        kept["fixes"] = portable(kept["fixes"], run.bases)
    kept["tool"] = run.tool
    limit_nesting(kept, "what it says beyond a claim")
    if words := run.words.get(text(rule.get("id"))):
        kept["rule"] = words
    made = {FORMAT: kept}
    return run.shared.setdefault(repr(made), made)  # the results of a rule often say nothing else
