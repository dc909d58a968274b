"""SARIF 2.1.0 in: every result of every run is a claim, or rejected with the reason."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipeline.findings.claims import Claim, Return, Returned
from pipeline.findings.codecs import tools
from pipeline.findings.codecs.reading import (
    TOOL,
    ItemRefused,
    NothingWrong,
    Unreadable,
    beyond,
    excerpt,
    gather,
    headline,
    json_of,
    malformed,
    shallow,
    title_of,
    uncollected,
)
from pipeline.findings.codecs.sarif_carried import DRIVER, KEY, SarifWords, restored
from pipeline.findings.codecs.sarif_fixes import fix_text, portable
from pipeline.findings.codecs.sarif_places import SarifLocation, mapping, places_of, sequence, text
from pipeline.findings.codecs.sarif_run import SarifRun, rule_id
from pipeline.findings.model import Category, Confidence, Evidence, FindingState, Severity
from pipeline.findings.scales import handling

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


def decode(data: bytes, *, reviewer: str = "", root: str = "") -> Return:
    """The results of a SARIF file. `root` is the repository's directory, for tools that write absolute paths."""
    with uncollected():
        try:
            runs = _runs(json_of(data), root)
        except Unreadable as error:
            return malformed(reviewer or FORMAT, FORMAT, f"it cannot be read as SARIF: {error}")
        return _return(runs, reviewer)


def _return(runs: list[SarifRun], reviewer: str) -> Return:
    names = dict.fromkeys(run.reviewer for run in runs)
    found = gather(
        reviewer or "+".join(names),
        FORMAT,
        _results(runs),
        lambda item, input_id: _claim(*item, input_id, reviewer),
        lambda item: title_of(item[1]),
    )
    problems = "; ".join(run.problem for run in runs if run.problem)
    return replace(found, status=Returned.MALFORMED, problem=problems) if problems else found


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
        raise Unreadable(f"its version is {version!r}, and {VERSION} was expected")
    if not isinstance(runs, list) or not runs:
        raise Unreadable("it has no runs: no tool looked at anything")
    return [SarifRun.of(run, root) for run in runs]


def _claim(run: SarifRun, value: Any, input_id: str, reviewer: str) -> Claim:
    result = _result(value)
    rule = run.rule(result)
    message = run.message(result.get("message"), rule)
    if not message:
        raise ItemRefused("it has no message, neither a text nor an id that its run defines")
    severity, fix = _severity(result, rule), fix_text(result.get("fixes"))
    autofix_class, owner = handling(fix, severity)
    suppressed, state = _fate(result)
    places = places_of(result.get("locations"), run.bases)
    claim = Claim(
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
        raise ItemRefused(f"it is {type(value).__name__}, and a result is an object")
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
        raise ItemRefused(f"its level is {level!r}, and error, warning, note or none was expected")
    return level


def _severity(result: Mapping[str, Any], rule: Mapping[str, Any]) -> Severity:
    """By the number for security where there is one: it tells more than the level."""
    level = _LEVELS[_level(result, rule)]
    bags = mapping(result.get("properties")), mapping(rule.get("properties"))
    number = next((bag["security-severity"] for bag in bags if "security-severity" in bag), None)
    if number is None:
        return level
    if not _NUMBER.fullmatch(str(number)):
        raise ItemRefused(f"its security-severity is {number!r}, and a number from 0 to 10 was expected")
    return next((severity for least, severity in _BANDS if float(number) >= least), Severity.INFO)


def _confidence(result: Mapping[str, Any], rule: Mapping[str, Any]) -> Confidence:
    rank = result.get("rank")
    if isinstance(rank, int | float) and not isinstance(rank, bool) and 0 <= rank <= 100:
        return Confidence(value=int(rank), scale="rank", native=float(rank))
    precision = text(mapping(rule.get("properties")).get("precision"))
    if precision in _PRECISION:
        return Confidence(value=_PRECISION[precision], scale="precision", native=precision)
    return TOOL


def _category(run: SarifRun, result: Mapping[str, Any], rule: Mapping[str, Any]) -> Category:
    bags = mapping(rule.get("properties")), mapping(result.get("properties"))
    tags = [tag for bag in bags for tag in sequence(bag.get("tags")) if isinstance(tag, str)]
    if any("security-severity" in bag for bag in bags):
        tags.append("security")
    return tools.category(run.reviewer, rule_id(result), tuple(tags))


def _impact(message: str, rule: Mapping[str, Any]) -> str:
    """What the message says beyond the title, and what the rule is for."""
    told = (
        text(mapping(rule.get(name)).get("text")).strip() for name in ("fullDescription", "shortDescription", "help")
    )
    reason = next((item for item in told if item and item != message), "")
    return "\n\n".join(part for part in (beyond(message), excerpt(reason, 600)) if part)


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
    shallow(kept, "what it says beyond a claim")
    if words := run.words.get(text(rule.get("id"))):
        kept["rule"] = words
    made = {FORMAT: kept}
    return run.shared.setdefault(repr(made), made)  # the results of a rule often say nothing else
