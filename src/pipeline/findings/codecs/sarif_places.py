"""Where a SARIF result is: its URIs and regions as paths and lines.

A path is relative to the repository wherever the file says enough to make it so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import join
from typing import Any

from pipeline.findings.codecs.paths import absolute, of_uri, relative
from pipeline.findings.codecs.reading import ItemRefused
from pipeline.findings.codecs.strict import is_int
from pipeline.findings.model import Evidence, Location
from pipeline.findings.signature import QUOTE

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
            raise ItemRefused("the uri of its location is not a text")
        if (uri, base) not in self.known:
            self.known[uri, base] = self._resolved(uri, base)
        return self.known[uri, base]

    def _resolved(self, uri: str, base: str) -> str:
        path = of_uri(uri)
        whole = self._below(path, base)
        below = relative(whole, self.root)
        return relative(path) if absolute(below) and base in self.roots else below

    def _indexed(self, artifact: Mapping[str, Any]) -> Mapping[str, Any]:
        if "uri" in artifact:
            return artifact
        return mapping(mapping(at(self.artifacts, artifact.get("index"))).get("location")) or artifact

    def _below(self, path: str, base: str) -> str:
        """The path with all that its base and the bases of that stand for."""
        met: set[str] = set()
        while base and not absolute(path):
            if base in met:
                raise ItemRefused(f"the base {base!r} of its location is defined by itself")
            met.add(base)
            told = mapping(self.bases.get(base))
            path, base = join(of_uri(text(told.get("uri"))), path), text(told.get("uriBaseId"))
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
        raise ItemRefused("its locations are not a list")
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
        raise ItemRefused(f"its region ends on line {end}, before it begins on line {start}")
    return start, end if start else None


def line_of(region: Mapping[str, Any], name: str) -> int | None:
    """A line number; none for 0, which tools write for a whole file."""
    line = region.get(name)
    if line is not None and (not is_int(line) or line < 0):
        raise ItemRefused(f"its {name} is {line!r}, and a line is a number from 1")
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
