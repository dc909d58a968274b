"""The file formats that findings are read from and written to: one module each, and one line in the list below."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeline.findings.ledger import Ledger
    from pipeline.findings.model import Finding, Report

_HEAD = 64 * 1024  # characters of a file that it is recognised by
_LARGE = 1024 * 1024  # characters above which a file is not parsed just to recognise it
_XML_ELEMENT = re.compile(
    r"(?:\s|<\?.*?\?>|<!--.*?-->|<!(?!--)[^>\[]*(?:\[.*?\])?[^>]*>)*<(?:[\w.-]+:)?(\w+)", re.DOTALL
)
_KEY = re.compile(r'"([^"\\]*)"\s*:')


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format. Its modules are imported on first use: all take 0.15 s, and most commands need only the names."""

    name: str
    reader: str = ""  # "module:function" in this package; empty if the format is only written
    writer: str = ""  # the same; empty if the format is only read
    keys: tuple[str, ...] = ()  # a JSON object with all the keys of one of these is in this format
    elements: tuple[str, ...] = ()  # so is XML that starts with one of these
    line: str = ""  # and text with a line that starts with this expression
    suffixes: tuple[str, ...] = ()  # of file names, for files without any of these
    is_tool: bool = False  # its name is that of the tool that writes it
    all_states: bool = False  # it can express that a finding is fixed or dismissed
    label: str = ""  # of a download in the dashboard; empty if there is none
    file_name: str = ""
    media_type: str = "application/json"

    def read(self, data: bytes, *, reviewer: str = "", root: str = "") -> "Report":
        """Return the report in a file, a malformed one if it cannot be read. Paths below `root` are made relative."""
        from pipeline.findings.formats import items  # noqa: PLC0415 - see the class

        try:
            report: Report = _load(self.reader)(data, reviewer=reviewer, root=root)
        except ValueError as error:
            problem = f"{items.explain_error(error)} (read as {self.name})"
            return items.malformed_report(reviewer or self.name, self.name, problem)
        return report

    def fits(self, head: str, element: str, keys: set[str]) -> bool:
        """Return whether a file that begins like this is in this format."""
        if element in self.elements or any(keys.issuperset(names.split()) for names in self.keys):
            return True
        return bool(self.line and re.search(f"^(?:{self.line})", head, re.MULTILINE))

    def write(self, findings: "Iterable[Finding]", ledger: "Ledger") -> str:
        """The findings as a file. Some formats also report on the last pass of the ledger."""
        text: str = _load(self.writer)(findings, ledger)
        return text


_ALL = (
    Format(
        name="sarif",
        reader="sarif:read",
        writer="sarif:write",
        keys=("runs version", "runs $schema", "runs tool"),
        suffixes=(".sarif",),
        all_states=True,
        label="SARIF",
        file_name="findings.sarif",
        media_type="application/sarif+json",
    ),
    Format(name="junit", reader="junit:read", elements=("testsuites", "testsuite")),
    Format(
        name="rdjson",
        reader="rdjson:read",
        writer="rdjson:write",
        keys=("diagnostics", "message location"),
        suffixes=(".rdjson", ".rdjsonl"),
        label="Reviewdog (rdjson)",
        file_name="findings.rdjson.json",
    ),
    Format(name="verdict", reader="verdict:read", keys=("reviewId verdict",)),
    Format(
        name="review",
        reader="review:read",
        writer="review:write",
        keys=("reviewer findings",),
        label="Review",
        file_name="review.json",
    ),
    Format(name="eslint", reader="eslint:read", keys=("filePath messages",), is_tool=True),
    Format(
        name="mypy",
        reader="mypy:read",
        keys=("file line message severity",),
        line=r"\S.*?:\d+(?::\d+)*: (?:error|note): |Found \d+ errors? in |Success: no issues found",
        is_tool=True,
    ),
    Format(name="github", writer="github:write"),
    Format(
        name="markdown",
        writer="markdown:write",
        all_states=True,
        label="Markdown",
        file_name="findings.md",
        media_type="text/markdown; charset=utf-8",
    ),
    Format(name="json", writer="strict_json:write", all_states=True, label="JSON", file_name="findings.json"),
)
FORMATS: Mapping[str, Format] = MappingProxyType({format.name: format for format in _ALL})
IMPORT_FORMATS = tuple(format.name for format in _ALL if format.reader)
EXPORT_FORMATS = tuple(format.name for format in _ALL if format.writer)


def detect(data: bytes, file_name: str = "") -> Format | None:
    """Return the format of a file, by its content, or by its name if the content is not enough.

    A file that was cut off is recognised too: it is for its reader to report that.
    """
    text = data.decode("utf-8-sig", errors="replace").lstrip()
    element = _XML_ELEMENT.match(text[:_HEAD])
    keys = _object_keys(text) if text.startswith(("{", "[")) else set()
    fitting = (format for format in _ALL if format.fits(text[:_HEAD], element[1] if element else "", keys))
    named = (format for format in _ALL if file_name.endswith(format.suffixes))
    return next(chain(fitting, named), None)


def _object_keys(text: str) -> set[str]:
    """Return the keys of the first JSON object of a text, or of a list; all keys in sight if it cannot be parsed."""
    with suppress(ValueError, RecursionError):
        value, _ = json.JSONDecoder().raw_decode(text[:_LARGE])
        first = next(iter(value), None) if isinstance(value, list) else value
        return set(first) if isinstance(first, dict) else set()
    return set(_KEY.findall(text[:_HEAD] + text[-_HEAD:]))


def _load(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(f"{__name__}.{module}"), function)
    return loaded
