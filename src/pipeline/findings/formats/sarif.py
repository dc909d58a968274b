"""SARIF 2.1.0 in and out.

Every result of every run that is read is a draft, and says why if it cannot be read. One run is written, with a result
for every finding whatever its state: a dismissed one is suppressed and never left out, as if it were gone.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from pipeline.findings.ledger import Ledger
from pipeline.findings.model import (
    Category,
    Confidence,
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
_GUID_NAMESPACE = UUID("6f0e3f0c-7d0b-5b43-9d5e-0a6a1c0f2a11")
_DRIVER = "awf"

_DISMISSALS = {  # by how a justification begins
    "false positive": FindingState.FALSE_POSITIVE,
    "won't fix": FindingState.WONT_FIX,
}
_KIND = {FindingState.FIX_CLAIMED: "review", FindingState.UNCERTAIN: "open"}
_SEVERITY = {"error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.INFO}
_SECURITY_NUMBER = re.compile(r"\d{1,2}(?:\.\d{1,9})?", re.ASCII)
_PRECISION = {"very-high": 100, "high": 75, "medium": 50, "low": 25}
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\d{1,4})\}")
_LINK = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]\(\d+\)")  # to a related location, by its number
_ROOTS = ("%SRCROOT%", "SRCROOT", "ROOTPATH", "PROJECTROOT", "REPOROOT", "%REPOROOT%")
_READ_KEYS = frozenset(
    (
        *("message", "level", "locations", "relatedLocations", "guid", "correlationGuid", "fingerprints"),
        *("partialFingerprints", "baselineState", "suppressions", "ruleIndex", "rank", "fixes"),
    )
)  # of a result, for which a draft has a field

Level = Literal["error", "warning", "note", "none"]
Text = Annotated[str, items.OrElse("")]


def _at(*path: str, default: Any) -> Any:
    """A field that is read from inside other objects."""
    return Field(default, validation_alias=AliasPath(*path))


class _Message(items.CamelModel):
    text: str = ""
    id: str = ""
    markdown: str = ""
    arguments: items.Many[Any] = ()


class _ArtifactLocation(items.CamelModel):
    uri: str | None = None
    uri_base_id: str = ""
    index: int = -1


class _Region(items.CamelModel):
    start_line: int = Field(0, ge=0)
    start_column: int = Field(0, ge=0)
    end_line: int = Field(0, ge=0)
    end_column: int = Field(0, ge=0)
    snippet: Text = _at("snippet", "text", default="")

    @property
    def lines(self) -> tuple[int | None, int | None]:
        """The first and last line."""
        return items.check_lines(self.start_line, self.end_line, self.end_column)


class _LogicalLocation(items.CamelModel):
    name: str = ""
    fully_qualified_name: str = ""


class _Location(items.CamelModel):
    artifact: _ArtifactLocation = _at("physicalLocation", "artifactLocation", default=_ArtifactLocation())
    region: _Region = _at("physicalLocation", "region", default=_Region())
    logical_locations: items.Many[_LogicalLocation] = ()
    message: Text = _at("message", "text", default="")


class _Replacement(items.CamelModel):
    deleted_region: _Region = _Region()
    inserted: Text = _at("insertedContent", "text", default="")


class _ArtifactChange(items.CamelModel):
    artifact_location: _ArtifactLocation = _ArtifactLocation()
    replacements: items.Many[_Replacement] = ()


class _Fix(items.CamelModel):
    description: Text = _at("description", "text", default="")
    artifact_changes: items.Many[_ArtifactChange] = ()


class _Suppression(items.CamelModel):
    kind: str = ""
    status: str = "accepted"
    justification: str = ""


class _Result(items.CamelModel):
    message: _Message = _Message()
    level: Level | None = None
    kind: str = "fail"
    rule_id: str = Field("", validation_alias=AliasChoices("ruleId", AliasPath("rule", "id")))
    rule_index: int = Field(-1, validation_alias=AliasChoices("ruleIndex", AliasPath("rule", "index")))
    extension: int | None = _at("rule", "toolComponent", "index", default=None)
    locations: items.Many[_Location] = ()
    related_locations: items.Many[_Location] = ()
    fingerprints: Annotated[dict[str, Any], items.OrElse({})] = Field(default_factory=dict)
    partial_fingerprints: Annotated[dict[str, Any], items.OrElse({})] = Field(default_factory=dict)
    guid: Text = ""
    correlation_guid: Text = ""
    rank: Annotated[float | None, Field(ge=0, le=100), items.OrElse(None)] = None
    baseline_state: Text = ""
    suppressions: items.Many[_Suppression] = ()
    fixes: Annotated[items.Many[_Fix], items.OrElse(())] = ()
    properties: dict[str, Any] = Field(default_factory=dict)


class _Rule(items.CamelModel):
    """A rule. Most of it only describes: an odd text must not make a whole run unreadable."""

    id: Text = ""
    name: Text = ""
    short_description: Text = _at("shortDescription", "text", default="")
    full_description: Text = _at("fullDescription", "text", default="")
    help: Text = _at("help", "text", default="")
    help_uri: Text = ""
    level: Level = _at("defaultConfiguration", "level", default="warning")
    message_strings: Annotated[dict[str, _Message], items.OrElse({})] = Field(default_factory=dict)
    properties: Annotated[dict[str, Any], items.OrElse({})] = Field(default_factory=dict)


class _ToolComponent(items.CamelModel):
    name: str = ""
    rules: items.Many[_Rule] = ()
    global_message_strings: dict[str, _Message] = Field(default_factory=dict)


class _Artifact(items.CamelModel):
    location: _ArtifactLocation = _ArtifactLocation()
    roles: items.Many[str] = ()


class _Repository(items.CamelModel):
    base_id: str = _at("mappedTo", "uriBaseId", default="")


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


class _Run(items.CamelModel):
    faulty_nulls = frozenset({"invocations"})

    driver: _ToolComponent = _at("tool", "driver", default=_ToolComponent())
    extensions: items.Many[_ToolComponent] = _at("tool", "extensions", default=())
    results: list[Any]
    artifacts: items.Many[_Artifact] = ()
    original_uri_base_ids: dict[str, _ArtifactLocation] = Field(default_factory=dict)
    version_control_provenance: items.Many[_Repository] = ()
    external_results: Any = _at("externalPropertyFileReferences", "results", default=None)
    invocations: Any = ()


class _Log(items.CamelModel):
    version: Literal["2.1.0"]
    runs: list[_Run] = Field(min_length=1)


_invocations = TypeAdapter(items.Many[_Invocation])
_fixes = TypeAdapter(items.Many[_Fix])


class _RunReader:
    """Reads the results of one run, which refer to its rules, message strings, artifacts and base URIs."""

    def __init__(self, run: _Run, root: str) -> None:
        self.run = run
        self.root = root
        self.tool = run.driver.name or "a tool"
        self.reviewer = reviewer_name(run.driver.name) or FORMAT
        if run.external_results:
            raise items.UnreadableFile(f"{self.tool} keeps its results in other files; put them into one")
        components = (run.driver, *run.extensions)
        self.rules = {rule.id: rule for part in reversed(components) for rule in part.rules if rule.id}
        self.descriptions = {name: _describe(rule) for name, rule in self.rules.items()}
        mapped = (repository.base_id for repository in run.version_control_provenance)
        self.root_ids = {*_ROOTS, *mapped}  # bases that are the root of the repository, wherever the tool had it

    def problem(self) -> str:
        """Why the results may not be all of them; empty if there is no sign of that."""
        try:
            invocations = _invocations.validate_python(self.run.invocations)
            reason = next(filter(None, map(self._failure, invocations)), "")
        except ValidationError as error:
            reason = f"how it was run cannot be read: {items.explain_error(error)}"
        return f"{self.tool} may have found more: {reason}" if reason else ""

    def _failure(self, invocation: _Invocation) -> str:
        if not invocation.execution_successful:
            return "its run did not succeed"
        signal = invocation.exit_signal_name, invocation.exit_signal_number
        if any(part is not None for part in (invocation.process_start_failure_message, *signal)):
            return "its process did not start, or was killed"
        claims_success = "execution_successful" in invocation.model_fields_set
        if invocation.exit_code != 0 and not claims_success and not self.run.results:
            return f"its exit code is {invocation.exit_code}, and it has no results"
        notes = (*invocation.tool_execution_notifications, *invocation.tool_configuration_notifications)
        return "it reported an error" if any(note.level == "error" for note in notes) else ""

    def results(self) -> Iterator[Any]:
        """The results, each only once: 100,000 need 75 MB less if each is let go when it is read."""
        for index, result in enumerate(self.run.results):
            self.run.results[index] = None
            yield result

    def read_result(self, value: Any, input_id: str, reviewer: str) -> Draft:
        """One result as a draft; raises ValueError."""
        result = _Result.model_validate(value)
        if result.kind in ("pass", "notApplicable"):
            raise items.NothingWrong(f"its kind is {result.kind!r}: nothing is wrong")
        rule = self._rule(result)
        message = self._message(result.message, rule)
        if not message:
            raise items.ItemError("it has no message text, and no message id that its run defines")
        level = result.level or (rule.level if result.kind == "fail" else "none")
        reason, state = _suppression(result)
        places = [self._evidence(location) for location in result.locations]
        related = [self._evidence(location, location.message) for location in result.related_locations]
        quoted = (place for place in places if place.quote or (place.symbol and not place.path))
        return items.tool_finding(
            input_id,
            reviewer or self.reviewer,
            message,
            _severity(level, result, rule),
            self._category(result, rule),
            confidence=_confidence(result, rule),
            impact=_impact(message, rule),
            fix=_fix_text(result.fixes),
            locations=tuple(
                Location(path=place.path, start=place.start, end=place.end, symbol=place.symbol)
                for place in places
                if place.path
            ),
            evidence=(*quoted, *(place for place in related if place.path or place.raw)),
            tool_ids=_tool_ids(result),
            state=state,
            suppressed=reason,
            ext=self._unknown_keys(value, result, rule),
        )

    def _rule(self, result: _Result) -> _Rule:
        """The rule that a result breaks; an empty one if the run does not describe it."""
        name = result.rule_id
        while name and name not in self.rules:
            name = name.rpartition("/")[0]  # an id may continue with that of a part of the rule
        if name:
            return self.rules[name]
        extension = result.extension
        components = [self.run.driver] if extension is None else self.run.extensions[max(extension, 0) :][:1]
        rules = components[0].rules if components else []
        return rules[result.rule_index] if 0 <= result.rule_index < len(rules) else _Rule()

    def _message(self, message: _Message, rule: _Rule) -> str:
        """The text of a message, or the one its id stands for, with its arguments filled in."""
        strings = self.run.driver.global_message_strings
        defined = rule.message_strings.get(message.id) or strings.get(message.id) or _Message()
        text = message.text or defined.text or message.markdown

        def fill(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            index = int(match[1])
            return str(message.arguments[index]) if index < len(message.arguments) else match[0]

        filled = _PLACEHOLDER.sub(fill, text) if message.arguments else text
        return (_LINK.sub(r"\1", filled) if "](" in filled else filled).strip()

    def _category(self, result: _Result, rule: _Rule) -> Category:
        bags = rule.properties, result.properties
        lists = (bag.get("tags") for bag in bags)
        tags = [tag for tags in lists if isinstance(tags, list) for tag in tags if isinstance(tag, str)]
        if any("security-severity" in bag for bag in bags):
            tags.append("security")
        return category_of_rule(self.reviewer, result.rule_id, tuple(tags))

    def _evidence(self, location: _Location, raw: str = "") -> Evidence:
        start, end = location.region.lines
        symbols = (logical.fully_qualified_name or logical.name for logical in location.logical_locations)
        return Evidence(
            path=self.path(location.artifact),
            start=start,
            end=end,
            symbol=next(filter(None, symbols), ""),
            quote=location.region.snippet.strip()[:QUOTE],
            raw=raw,
        )

    def targets(self) -> list[str]:
        """The paths of the files that were analysed, if the run lists them."""
        return [self.path(one.location) for one in self.run.artifacts if "analysisTarget" in one.roles]

    def path(self, artifact: _ArtifactLocation) -> str:
        """The path of an artifact, relative to the repository if the run says enough; empty if it names none."""
        if artifact.uri is None and 0 <= artifact.index < len(self.run.artifacts):
            artifact = self.run.artifacts[artifact.index].location
        path = items.path_from_uri(artifact.uri or "")
        full, base, seen = path, artifact.uri_base_id, set[str]()
        while base and not items.is_absolute(full):
            if base in seen:
                raise items.ItemError(f"the base {base!r} of its location refers to itself")
            seen.add(base)
            parent = self.run.original_uri_base_ids.get(base, _ArtifactLocation())
            full, base = join(items.path_from_uri(parent.uri or ""), full), parent.uri_base_id
        below = items.relative_path(full, self.root)
        from_root = items.is_absolute(below) and artifact.uri_base_id in self.root_ids
        return items.relative_path(path) if from_root else below

    def _unknown_keys(self, value: Mapping[str, Any], result: _Result, rule: _Rule) -> dict[str, Any]:
        """Return what a draft has no field for, with the tool, the rule and the fixes that a tool can apply."""
        kept = items.unread_keys(FORMAT, value, _READ_KEYS)
        kept[FORMAT]["tool"] = self.run.driver.name
        if rule.id:
            kept[FORMAT]["rule"] = self.descriptions[rule.id]
        fixes = _concrete_fixes(result.fixes, lambda artifact: quote(self.path(artifact)))
        if fixes:
            kept[FORMAT]["fixes"] = fixes
        return kept


def read(data: bytes, *, reviewer: str = "", root: str = "") -> Report:
    """The results of a SARIF file; raises ValueError."""
    log = _Log.model_validate(strict_json.loads(data))
    runs = [_RunReader(run, root) for run in log.runs]
    report = items.collect_items(
        reviewer or "+".join(dict.fromkeys(run.reviewer for run in runs)),
        FORMAT,
        ((run, result) for run in runs for result in run.results()),
        lambda item, input_id: item[0].read_result(item[1], input_id, reviewer),
    )
    problem = "; ".join(filter(None, (run.problem() for run in runs)))
    if all(targets := [run.targets() for run in runs]):  # it names the files that it looked at
        named = (place.path for draft in report.drafts for place in draft.locations)
        report = replace(report, covered=tuple(dict.fromkeys((*chain(*targets), *named))))
    return replace(report, status=ReportStatus.MALFORMED, problem=problem) if problem else report


def _describe(rule: _Rule) -> dict[str, Any]:
    """What is kept of a rule with each of its results."""
    short = {"text": rule.short_description} if rule.short_description else {}
    words = {"id": rule.id, "name": rule.name, "shortDescription": short, "helpUri": rule.help_uri}
    return {key: word for key, word in words.items() if word}


def _severity(level: str, result: _Result, rule: _Rule) -> Severity:
    """By the number for security where there is one: it is finer than the level."""
    bags = result.properties, rule.properties
    number = next((bag["security-severity"] for bag in bags if "security-severity" in bag), None)
    if number is None:
        return _SEVERITY[level]
    if not _SECURITY_NUMBER.fullmatch(str(number)):
        raise items.ItemError(f"its security-severity should be a number from 0 to 10, not {number!r}")
    return severity_of_score(float(number))


def _confidence(result: _Result, rule: _Rule) -> Confidence:
    if result.rank is not None:
        return Confidence(value=int(result.rank), scale="rank", native=result.rank)
    precision = rule.properties.get("precision")
    if isinstance(precision, str) and precision in _PRECISION:
        return Confidence(value=_PRECISION[precision], scale="precision", native=precision)
    return items.TOOL_CONFIDENCE


def _impact(message: str, rule: _Rule) -> str:
    """What the message says beyond its first line, and what the rule is for."""
    beyond = "" if items.headline(message) == message else items.excerpt(message)
    texts = (text.strip() for text in (rule.full_description, rule.short_description, rule.help))
    purpose = next((text for text in texts if text and text != message), "")
    return "\n\n".join(filter(None, (beyond, items.excerpt(purpose, 600))))


def _fix_text(fixes: Sequence[_Fix]) -> str | None:
    """The first fix in words: its description, or what it inserts."""
    if not fixes:
        return None
    if description := fixes[0].description.strip():
        return items.excerpt(description, 400)
    inserted = (item.inserted for change in fixes[0].artifact_changes for item in change.replacements)
    return next(map(items.replacement_text, inserted), None)


def _tool_ids(result: _Result) -> dict[str, str]:
    """The tool's own ids for a result. A partial fingerprint identifies a place only within one rule."""
    partial = {name: f"{result.rule_id}:{value}" for name, value in _texts(result.partial_fingerprints)}
    own = {"guid": result.guid, "correlationGuid": result.correlation_guid}
    return {**partial, **dict(_texts(result.fingerprints)), **dict(_texts(own))}


def _texts(items: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in items.items() if value and isinstance(value, str))


def _suppression(result: _Result) -> tuple[str | None, FindingState | None]:
    """Why a result is suppressed, if it is, and the state that SARIF's words give it.

    A suppression that is under review or was rejected leaves the result visible. That a tool no longer sees a result,
    or asks for a review, proves nothing.
    """
    reason = None
    if result.suppressions and all(item.status == "accepted" for item in result.suppressions):
        in_source = result.suppressions[0].kind == "inSource"
        default = "suppressed in the source" if in_source else "suppressed by the tool"
        reason = next((item.justification for item in result.suppressions if item.justification), default)
        for word, state in _DISMISSALS.items():
            if reason.casefold().startswith(word):
                return reason[len(word) :].removeprefix(": ") or word, state
    if result.baseline_state == "absent":
        return reason, FindingState.FIX_CLAIMED
    return reason, FindingState.UNCERTAIN if result.kind in ("open", "review") else None


def _concrete_fixes(
    fixes: Any, uri: Callable[[_ArtifactLocation], str] = lambda artifact: artifact.uri or ""
) -> list[dict[str, Any]]:
    """The fixes that a tool can apply, as SARIF: those that replace lines of a file."""
    try:
        found = _fixes.validate_python(fixes or ())
    except ValidationError:
        return []
    return [concrete for fix in found if (concrete := _concrete(fix, uri))]


def _concrete(fix: _Fix, uri: Callable[[_ArtifactLocation], str]) -> dict[str, Any]:
    changes = []
    for change in fix.artifact_changes:
        replacements = [
            {
                "deletedRegion": item.deleted_region.model_dump(
                    by_alias=True, exclude_defaults=True, exclude={"snippet"}
                ),
                "insertedContent": {"text": item.inserted},
            }
            for item in change.replacements
            if item.deleted_region.start_line
        ]
        if replacements and (name := uri(change.artifact_location)):
            changes.append({"artifactLocation": {"uri": name}, "replacements": replacements})
    if not changes:
        return {}
    described = {"description": {"text": fix.description}} if fix.description else {}
    return described | {"artifactChanges": changes}


def write(findings: Iterable[Finding], ledger: Ledger) -> str:
    """Return the findings as a SARIF file, by number, each with the number of its line of work."""
    ordered = items.by_number(findings)
    first_of_rule = {_rule_id(finding): finding for finding in reversed(ordered)}
    rules = [_write_rule(name, first_of_rule[name]) for name in sorted(first_of_rule)]
    run = {
        "tool": {"driver": {"name": _DRIVER, "version": __version__, "rules": rules}},
        "originalUriBaseIds": {_BASE: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, items.line_number(finding, ledger)) for finding in ordered],
    }
    return strict_json.dumps({"$schema": _SCHEMA, "version": _VERSION, "runs": [run]}).decode()


def _rule_id(finding: Finding) -> str:
    return items.rule_id(finding) or f"{_DRIVER}/{finding.category}"


def _write_rule(name: str, finding: Finding) -> dict[str, Any]:
    kept = items.kept_keys(finding, FORMAT).get("rule")
    known = _Rule.model_validate(kept if isinstance(kept, dict) else {})
    rule: dict[str, Any] = {
        "id": name,
        "shortDescription": {"text": known.short_description or CATEGORY_LABEL[finding.category]},
    }
    if known.name:
        rule["name"] = known.name
    if known.help_uri.startswith("https://"):
        rule["helpUri"] = quote(known.help_uri, safe=":/?#[]@!$&'()*+,;=%")
    return rule


def _result(finding: Finding, number: int) -> dict[str, Any]:
    kind = _KIND.get(finding.state, "fail")
    result: dict[str, Any] = {
        "ruleId": _rule_id(finding),
        "kind": kind,
        "level": SARIF_LEVEL[finding.severity] if kind == "fail" else "none",  # only a failure has a level
        "message": {"text": "\n\n".join(filter(None, (finding.title, finding.impact)))},
        "locations": [_location(location, _quote_at(finding, location)) for location in finding.locations],
        "relatedLocations": [
            {"id": number} | _location(item, item.quote) | ({"message": {"text": item.raw}} if item.raw else {})
            for number, item in enumerate(finding.evidence, 1)
            if item.path
        ],
        "correlationGuid": str(uuid5(_GUID_NAMESPACE, finding.id)),
        "partialFingerprints": {**finding.fingerprints, "awf/v1": finding.signature},
        "baselineState": _baseline(finding),
        "suppressions": _suppressions(finding),
        "fixes": _concrete_fixes(items.kept_keys(finding, FORMAT).get("fixes")) if finding.state.active else [],
        "properties": _properties(finding, number),
    }
    return {name: value for name, value in result.items() if value or name not in ("relatedLocations", "fixes")}


def _location(location: Location, quoted: str) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": quote(location.path), "uriBaseId": _BASE}}
    if location.start:
        physical["region"] = {"startLine": location.start}
        if location.end:
            physical["region"]["endLine"] = location.end
        if quoted:
            physical["region"]["snippet"] = {"text": quoted}
    logical = {"logicalLocations": [{"fullyQualifiedName": location.symbol}]} if location.symbol else {}
    return {"physicalLocation": physical} | logical


def _quote_at(finding: Finding, location: Location) -> str:
    place = (location.path, location.start)
    return next((item.quote for item in finding.evidence if item.quote and (item.path, item.start) == place), "")


def _baseline(finding: Finding) -> str:
    """Return how a result differs from the run before; `absent` means that it is fixed."""
    if finding.state is FindingState.VERIFIED_FIXED:
        return "absent"
    if finding.state is FindingState.REOPENED:
        return "updated"
    return "unchanged" if any(change.what is What.SEEN for change in finding.history) else "new"


def _suppressions(finding: Finding) -> list[dict[str, Any]]:
    """Empty for a finding that is not dismissed: to SARIF an empty list means "not suppressed", none "not known"."""
    if not finding.state.dismissed:
        return []
    word = next(word for word, state in _DISMISSALS.items() if state is finding.state)
    reason = finding.suppression.reason if finding.suppression else ""
    return [{"kind": "external", "status": "accepted", "justification": f"{word}: {reason}" if reason else word}]


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
    if finding.category is Category.SECURITY:
        bag["security-severity"] = SECURITY_SEVERITY[finding.severity]
    if finding.fix:
        bag["fix"] = finding.fix
    return bag
