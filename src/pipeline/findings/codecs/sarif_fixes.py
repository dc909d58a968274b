"""Fixes in SARIF: replacements of text. Only a concrete one is written; a fix in words stays words."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from pipeline.findings.codecs.reading import excerpt, replacement
from pipeline.findings.codecs.sarif_places import Bases, mapping, sequence, text
from pipeline.findings.codecs.strict import is_int

_REGION = ("startLine", "startColumn", "endLine", "endColumn", "charOffset", "charLength")


def fix_text(fixes: Any) -> str | None:
    """The first fix in words: its description, or what it puts where."""
    if not fixes:
        return None
    fix = mapping(next(iter(sequence(fixes)), None))
    described = text(mapping(fix.get("description")).get("text")).strip()
    return excerpt(described, 400) or next(map(replacement, _inserted(fix)), None)


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
