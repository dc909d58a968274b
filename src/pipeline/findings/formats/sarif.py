"""SARIF 2.1.0 in and out.

Every result of every run that is read is a draft, and says why if it cannot be read. One run is written, with a result
for every finding whatever its state: a dismissed one is suppressed and never left out, as if it were gone.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from posixpath import join
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import UUID, uuid5

from pydantic import AliasChoices, AliasPath, BaseModel, Field, TypeAdapter, ValidationError

from pipeline import __version__
from pipeline.findings.fingerprints import QUOTE
from pipeline.findings.formats import items, strict_json
from pipeline.findings.formats.fields import filled
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Draft,
    Evidence,
    Finding,
    FindingState,
    Location,
    Report,
    ReportStatus,
    Severity,
    What,
)
from pipeline.findings.scales import (
    CATEGORY_LABEL,
    SARIF_LEVEL,
    SECURITY_SEVERITY,
    category_of_rule,
    reviewer_name,
    severity_of_score,
)

FORMAT = "sarif"
_VERSION = "2.1.0"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_BASE = "%SRCROOT%"
_ROOTS = (_BASE, "SRCROOT", "ROOTPATH", "PROJECTROOT", "REPOROOT", "%REPOROOT%")  # the repository, wherever it was
_GUID_NAMESPACE = UUID("6f0e3f0c-7d0b-5b43-9d5e-0a6a1c0f2a11")
_DRIVER = "awf"

_SEVERITY = {"error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.INFO}
_SECURITY_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,9})?", re.ASCII)
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{\d{1,4}\}")
_LINK = re.compile(r"\[([^\[\]]*)\]\(\d+\)")  # to a related location, by its number
_READ_KEYS = frozenset(
    (
        *("message", "level", "locations", "relatedLocations", "guid", "correlationGuid", "fingerprints"),
        *("partialFingerprints", "baselineState", "suppressions", "ruleIndex", "fixes"),
    )
)  # of a result, for which a draft has a field

# How the state of a finding is written. Only a failure has a level, and only what was verified is absent.
_KIND = {FindingState.FIX_CLAIMED: "review", FindingState.UNCERTAIN: "open"}
_BASELINE = {FindingState.VERIFIED_FIXED: "absent", FindingState.REOPENED: "updated"}
_DISMISSAL = {FindingState.FALSE_POSITIVE: "false positive", FindingState.WONT_FIX: "won't fix"}

Level = Literal["error", "warning", "note", "none"]
Text = Annotated[str, items.OrElse("")]
Names = Annotated[dict[str, str], items.OrElse({})]


def _at(*path: str, default: Any) -> Any:
    """Return a field that is read from inside other objects."""
    return Field(default, validation_alias=AliasPath(*path))


class _Message(items.CamelModel):
    text: str = ""
    id: str = ""
    markdown: str = ""
    arguments: items.Many[Any] = ()


class _ArtifactLocation(items.CamelModel):
    uri: str = ""
    uri_base_id: str = ""
    index: int = -1


class _Region(items.CamelModel):
    start_line: int = Field(0, ge=0)
    end_line: int = Field(0, ge=0)
    end_column: int = Field(0, ge=0)
    snippet: Text = _at("snippet", "text", default="")


class _LogicalLocation(items.CamelModel):
    name: str = ""
    fully_qualified_name: str = ""


class _Location(items.CamelModel):
    artifact: _ArtifactLocation = _at("physicalLocation", "artifactLocation", default=_ArtifactLocation())
    region: _Region = _at("physicalLocation", "region", default=_Region())
    logical_locations: items.Many[_LogicalLocation] = ()
    message: Text = _at("message", "text", default="")


class _Replacement(items.CamelModel):
    inserted: Text = _at("insertedContent", "text", default="")


class _ArtifactChange(items.CamelModel):
    replacements: items.Many[_Replacement] = ()


class _Fix(items.CamelModel):
    description: Text = _at("description", "text", default="")
    artifact_changes: items.Many[_ArtifactChange] = ()


class _Suppression(items.CamelModel):
    kind: str = ""
    status: str = "accepted"
    justification: str = ""


class _Properties(items.CamelModel):
    tags: Annotated[items.Many[str], items.OrElse(())] = ()
    security_severity: Any = Field(None, validation_alias="security-severity")


class _Result(items.CamelModel):
    message: _Message = _Message()
    level: Level | None = None
    kind: str = "fail"
    rule_id: str = Field("", validation_alias=AliasChoices("ruleId", AliasPath("rule", "id")))
    rule_index: int = Field(-1, validation_alias=AliasChoices("ruleIndex", AliasPath("rule", "index")))
    extension: int = _at("rule", "toolComponent", "index", default=-1)
    locations: items.Many[_Location] = ()
    related_locations: items.Many[_Location] = ()
    fingerprints: Names = Field(default_factory=dict)
    partial_fingerprints: Names = Field(default_factory=dict)
    guid: Text = ""
    correlation_guid: Text = ""
    baseline_state: Text = ""
    suppressions: items.Many[_Suppression] = ()
    fixes: Annotated[items.Many[_Fix], items.OrElse(())] = ()
    properties: _Properties = _Properties()


class _Rule(items.CamelModel):
    """A rule. Most of it only describes: an odd text must not make a whole run unreadable."""

    id: Text = ""
    short_description: Text = _at("shortDescription", "text", default="")
    full_description: Text = _at("fullDescription", "text", default="")
    help: Text = _at("help", "text", default="")
    level: Level = _at("defaultConfiguration", "level", default="warning")
    message_strings: Annotated[dict[str, _Message], items.OrElse({})] = Field(default_factory=dict)
    properties: Annotated[_Properties, items.OrElse(_Properties())] = _Properties()


class _ToolComponent(items.CamelModel):
    name: str = ""
    rules: items.Many[_Rule] = ()
    global_message_strings: dict[str, _Message] = Field(default_factory=dict)


class _Artifact(items.CamelModel):
    location: _ArtifactLocation = _ArtifactLocation()
    roles: items.Many[str] = ()


class _Notification(BaseModel):
    level: Level = "warning"


class _Invocation(BaseModel):
    """How the tool was run. Unlike elsewhere null does not mean left out: what is not known is not a success."""

    model_config = items.CamelModel.model_config

    execution_successful: bool = True
    exit_code: int | None = 0
    process_start_failure_message: Any = None
    exit_signal_name: Any = None
    exit_signal_number: Any = None
    tool_execution_notifications: items.Many[_Notification] = ()
    tool_configuration_notifications: items.Many[_Notification] = ()

    def failure(self, results: Sequence[Any]) -> str:
        """Return why there may be more than these results; nothing if there is no sign of that.

        A linter may exit with 1 for what it lists.
        """
        stopped = (self.process_start_failure_message, self.exit_signal_name, self.exit_signal_number)
        notes = (*self.tool_execution_notifications, *self.tool_configuration_notifications)
        claims_success = "execution_successful" in self.model_fields_set
        signs = {
            "its run did not succeed": not self.execution_successful,
            "its process did not start, or was killed": stopped != (None, None, None),
            f"its exit code is {self.exit_code}": self.exit_code != 0 and not claims_success and not results,
            "it reported an error": any(note.level == "error" for note in notes),
        }
        return next((reason for reason, is_given in signs.items() if is_given), "")


class _Run(items.CamelModel):
    faulty_nulls = frozenset({"invocations"})

    driver: _ToolComponent = _at("tool", "driver", default=_ToolComponent())
    extensions: items.Many[_ToolComponent] = _at("tool", "extensions", default=())
    results: list[Any]
    artifacts: items.Many[_Artifact] = ()
    original_uri_base_ids: dict[str, _ArtifactLocation] = Field(default_factory=dict)
    external_results: Any = _at("externalPropertyFileReferences", "results", default=None)
    invocations: Any = ()


class _Log(items.CamelModel):
    version: Literal["2.1.0"]
    runs: list[_Run] = Field(min_length=1)
    inline_external_properties: items.Many[Any] = ()


_invocations = TypeAdapter(items.Many[_Invocation])


class _RunReader:
    """Reads the results of one run, which refer to its rules, message strings, artifacts and base URIs."""

    def __init__(self, run: _Run, root: str) -> None:
        self.run = run
        self.root = root
        self.tool = run.driver.name or "a tool"
        self.reviewer = reviewer_name(run.driver.name) or FORMAT
        if run.external_results:
            raise items.UnreadableFile(f"{self.tool} keeps its results in other files; put them into one")
        self.rules: dict[str, _Rule] = {}
        self.rules_by_index: dict[tuple[int, int], _Rule] = {}  # the driver is component -1
        for component, part in enumerate((run.driver, *run.extensions), -1):
            for index, rule in enumerate(part.rules):
                self.rules.setdefault(rule.id, rule)
                self.rules_by_index[component, index] = rule

    def problem(self) -> str:
        """Return why the results may not be all of them; nothing if there is no sign of that."""
        try:
            invocations = _invocations.validate_python(self.run.invocations)
        except ValidationError as error:
            return f"{self.tool} may have found more: how it was run cannot be read: {items.explain_error(error)}"
        failures = filter(None, (invocation.failure(self.run.results) for invocation in invocations))
        return next((f"{self.tool} may have found more: {reason}" for reason in failures), "")

    def read_result(self, value: Any, input_id: str, reviewer: str) -> Draft:
        """Return a result as a draft; raise ValueError."""
        result = _Result.model_validate(value)
        if result.kind in ("pass", "notApplicable") and result.level in (None, "none"):
            raise items.NothingWrong(f"its kind is {result.kind!r}: nothing is wrong")
        rule = self._rule(result)
        message = self._message(result.message, rule)
        if not message:
            raise items.ItemError("it has no message text, and no message id that its run defines")
        places = [self._evidence(location) for location in result.locations]
        related = [self._evidence(location, location.message) for location in result.related_locations]
        quoted = (place for place in places if place.quote or (place.symbol and not place.path))
        return items.tool_finding(
            input_id,
            reviewer or self.reviewer,
            message,
            _severity(result, rule),
            self._category(result, rule),
            impact=_impact(message, rule),
            fix=_fix_text(result.fixes),
            locations=tuple(
                Location(path=place.path, start=place.start, end=place.end, symbol=place.symbol)
                for place in places
                if place.path
            ),
            evidence=(*quoted, *(place for place in related if place.path or place.raw)),
            tool_ids=_tool_ids(result),
            state=_state(result),
            suppressed=_suppression(result),
            ext=items.unread_keys(FORMAT, value, _READ_KEYS),
        )

    def _rule(self, result: _Result) -> _Rule:
        """Return the rule that a result breaks; an empty one if the run does not describe it."""
        name = result.rule_id
        while name and name not in self.rules:
            name = name.rpartition("/")[0]  # an id may continue with that of a part of the rule
        if name:
            return self.rules[name]
        return self.rules_by_index.get((result.extension, result.rule_index), _Rule())

    def _message(self, message: _Message, rule: _Rule) -> str:
        """Return the text of a message, or the one its id stands for, with its arguments filled in."""
        strings = self.run.driver.global_message_strings | rule.message_strings
        text = message.text or strings.get(message.id, _Message()).text or message.markdown
        if message.arguments:
            text = _fill_in(text, message.arguments)
        return _LINK.sub(r"\1", text).strip()

    def _category(self, result: _Result, rule: _Rule) -> Category:
        tags = (*rule.properties.tags, *result.properties.tags)
        if _security_severity(result, rule) is not None:
            tags = (*tags, "security")
        return category_of_rule(self.reviewer, result.rule_id, tags)

    def _evidence(self, location: _Location, raw: str = "") -> Evidence:
        region = location.region
        start, end = items.check_lines(region.start_line, region.end_line, region.end_column)
        symbols = (logical.fully_qualified_name or logical.name for logical in location.logical_locations)
        return Evidence(
            path=self.path(location.artifact),
            start=start,
            end=end,
            symbol=next(filter(None, symbols), ""),
            quote=region.snippet.strip()[:QUOTE],
            raw=raw,
        )

    def targets(self) -> list[str]:
        """Return the paths of the files that were analysed, if the run lists them."""
        return [self.path(one.location) for one in self.run.artifacts if "analysisTarget" in one.roles]

    def path(self, artifact: _ArtifactLocation) -> str:
        """Return the path of an artifact, relative to the repository if the run says enough; empty if it names none.

        With the bases `SRC: src/, below HOME` and `HOME: file:///srv/shop/`, the URI `a.py` below `SRC` is
        `/srv/shop/src/a.py`, and so `src/a.py` in the repository `/srv/shop`. A tool that ran on another machine had
        the repository elsewhere: below a base that is called like its root, the URI itself is the path.
        """
        if not artifact.uri and 0 <= artifact.index < len(self.run.artifacts):
            artifact = self.run.artifacts[artifact.index].location
        path = full = items.path_from_uri(artifact.uri)
        base, bases = artifact.uri_base_id, dict(self.run.original_uri_base_ids)
        while base in self.run.original_uri_base_ids and not items.is_absolute(full):
            parent = bases.pop(base, None)
            if parent is None:
                raise items.ItemError(f"the base {base!r} of its location refers to itself")
            full, base = join(items.path_from_uri(parent.uri), full), parent.uri_base_id
        below = items.relative_path(full, self.root)
        if items.is_absolute(below) and artifact.uri_base_id in _ROOTS:
            return items.relative_path(path)
        return below


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """Return the results of a SARIF file; raise ValueError."""
    log = _Log.model_validate(strict_json.loads(data))
    if log.inline_external_properties:
        raise items.UnreadableFile("it keeps parts of its runs in `inlineExternalProperties`; put them into the runs")
    runs = [_RunReader(run, root) for run in log.runs]
    report = items.collect_items(
        reviewer or "+".join(dict.fromkeys(run.reviewer for run in runs)),
        FORMAT,
        ((run, result) for run in runs for result in run.run.results),
        lambda item, input_id: item[0].read_result(item[1], input_id, reviewer),
    )
    if all(targets := [run.targets() for run in runs]):  # it names the files that it looked at
        named = (place.path for draft in report.drafts for place in draft.locations)
        report = replace(report, covered=tuple(dict.fromkeys((*chain(*targets), *named))))
    problem = "; ".join(filter(None, (run.problem() for run in runs)))
    return replace(report, status=ReportStatus.MALFORMED, problem=problem) if problem else report


def _fill_in(text: str, arguments: Iterable[Any]) -> str:
    """Return a text with its arguments: `{0} is {{bad}}` with `x` is `x is {bad}`."""
    known = {f"{{{index}}}": str(argument) for index, argument in enumerate(arguments)} | {"{{": "{", "}}": "}"}

    def fill(match: re.Match[str]) -> str:
        return known.get(match[0], match[0])

    return _PLACEHOLDER.sub(fill, text)


def _security_severity(result: _Result, rule: _Rule) -> Any:
    given = result.properties.security_severity
    return rule.properties.security_severity if given is None else given


def _severity(result: _Result, rule: _Rule) -> Severity:
    """Return the severity by the number for security where there is one: it is finer than the level."""
    number = _security_severity(result, rule)
    if number is None:
        usual = rule.level if result.kind == "fail" else "none"
        return _SEVERITY[result.level or usual]
    if not _SECURITY_NUMBER.fullmatch(str(number)):
        raise items.ItemError(f"its security-severity should be a number from 0 to 10, not {number!r}")
    return severity_of_score(float(number))


def _impact(message: str, rule: _Rule) -> str:
    """Return what the message says beyond its first line, and what the rule is for."""
    beyond = "" if items.headline(message) == message else items.excerpt(message)
    texts = (text.strip() for text in (rule.full_description, rule.short_description, rule.help))
    purpose = next((text for text in texts if text not in ("", message)), "")
    return "\n\n".join(filter(None, (beyond, items.excerpt(purpose, 600))))


def _fix_text(fixes: Iterable[_Fix]) -> str | None:
    """Return the first fix in words: its description, or what it inserts."""
    for fix in fixes:
        if described := fix.description.strip():
            return items.excerpt(described, 400)
        inserted = (item.inserted for change in fix.artifact_changes for item in change.replacements)
        return next(map(items.replacement_text, inserted), None)
    return None


def _tool_ids(result: _Result) -> dict[str, str]:
    """Return the tool's own ids for a result. A partial fingerprint identifies a place only within one rule."""
    ids = {name: f"{result.rule_id}:{value}" for name, value in result.partial_fingerprints.items() if value}
    ids |= result.fingerprints | {"guid": result.guid, "correlationGuid": result.correlation_guid}
    return {name: value for name, value in ids.items() if value}


def _suppression(result: _Result) -> str | None:
    """Return why a result is suppressed. A suppression that is under review or was rejected leaves it visible."""
    if not result.suppressions or any(item.status != "accepted" for item in result.suppressions):
        return None
    reasons = (item.justification for item in result.suppressions)
    in_source = result.suppressions[0].kind == "inSource"
    return next(filter(None, reasons), "suppressed in the source" if in_source else "suppressed by the tool")


def _state(result: _Result) -> FindingState | None:
    """Return the state that a tool gives a result: one that it no longer sees, or wants reviewed, proves nothing."""
    if result.baseline_state == "absent":
        return FindingState.FIX_CLAIMED
    return FindingState.UNCERTAIN if result.kind in ("open", "review") else None


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Return the findings as a SARIF file, by number, each with the number of its line of work."""
    ordered = items.by_number(findings)
    label_of = {_rule_id(finding): CATEGORY_LABEL[finding.category] for finding in reversed(ordered)}
    rules = [{"id": name, "shortDescription": {"text": label_of[name]}} for name in sorted(label_of)]
    run = {
        "tool": {"driver": {"name": _DRIVER, "version": __version__, "rules": rules}},
        "originalUriBaseIds": {_BASE: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, items.line_number(finding, ledger)) for finding in ordered],
    }
    return strict_json.dumps({"$schema": _SCHEMA, "version": _VERSION, "runs": [run]}).decode()


def _rule_id(finding: Finding) -> str:
    return items.rule_id(finding) or f"{_DRIVER}/{finding.category}"


def _result(finding: Finding, number: int) -> dict[str, Any]:
    kind = _KIND.get(finding.state, "fail")
    seen = any(change.what is What.SEEN for change in finding.history)
    return {
        "ruleId": _rule_id(finding),
        "kind": kind,
        "level": SARIF_LEVEL[finding.severity] if kind == "fail" else "none",
        "message": {"text": "\n\n".join(filter(None, (finding.title, finding.impact)))},
        "locations": [_location(location) for location in finding.locations],
        "relatedLocations": [
            {"id": number} | _location(item) | filled(message=_text(item.raw))
            for number, item in enumerate(finding.evidence, 1)
            if item.path
        ],
        "correlationGuid": str(uuid5(_GUID_NAMESPACE, finding.id)),
        "partialFingerprints": {**finding.fingerprints, "awf/v1": finding.signature},
        "baselineState": _BASELINE.get(finding.state, "unchanged" if seen else "new"),
        "suppressions": [_dismissal(finding)] if finding.state.dismissed else [],  # without a list, nobody knows
        "properties": _properties(finding, number),
    }


def _text(words: str) -> dict[str, str]:
    return filled(text=words)


def _location(place: Location) -> dict[str, Any]:
    quoted = place.quote if isinstance(place, Evidence) else ""
    region = filled(startLine=place.start, endLine=place.end, snippet=_text(quoted)) if place.start else {}
    physical = {"artifactLocation": {"uri": quote(place.path), "uriBaseId": _BASE}} | filled(region=region)
    logical = [{"fullyQualifiedName": place.symbol}] if place.symbol else []
    return {"physicalLocation": physical} | filled(logicalLocations=logical)


def _dismissal(finding: Finding) -> dict[str, str]:
    reason = finding.suppression.reason if finding.suppression else ""
    justification = ": ".join(filter(None, (_DISMISSAL[finding.state], reason)))
    return {"kind": "external", "status": "accepted", "justification": justification}


def _properties(finding: Finding, number: int) -> dict[str, Any]:
    bag = {
        "id": finding.id,
        "number": finding.number,
        "line": number,
        "reviewer": finding.reviewer,
        "state": str(finding.state),
        "gate": str(finding.gate),
        "confidence": finding.confidence.value,
        "tags": [str(finding.category)],
    }
    if finding.category is Category.SECURITY or finding.severity is Severity.CRITICAL:  # no level says that
        bag["security-severity"] = SECURITY_SEVERITY[finding.severity]
    return bag | filled(fix=finding.fix)
