"""Which format some bytes are in.

A file that was cut off is still recognised, by its first words: it is its reader that must say so.
"""

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

_HEAD = 64 * 1024  # characters that are looked at where the whole cannot be read
_LARGE = 1024 * 1024  # characters above which only both ends are looked at
_XML = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->|<!(?!--)[^>\[]*(?:\[.*?\])?[^>]*>)*<(?:[\w.-]+:)?(\w+)", re.DOTALL)
_MYPY = re.compile(
    r"^(?:\S.*?:\d+(?::\d+)*: (?:error|note): |Found \d+ errors? in |Success: no issues found)", re.MULTILINE
)
_NAME = re.compile(r'"([^"\\]*)"\s*:')
_ENDINGS: Mapping[str, str] = MappingProxyType({".sarif": "sarif", ".rdjson": "rdjson", ".rdjsonl": "rdjson"})
_KEYS: tuple[tuple[str, Callable[[set[str]], bool]], ...] = (
    ("sarif", lambda names: "runs" in names and bool(names & {"version", "$schema", "tool"})),
    ("verdict", lambda names: {"reviewId", "verdict"} <= names),
    ("review", lambda names: {"reviewer", "findings"} <= names),
    ("rdjson", lambda names: "diagnostics" in names or {"message", "location"} <= names),
    ("mypy", lambda names: {"file", "line", "message", "severity"} <= names),
    ("eslint", lambda names: {"filePath", "messages"} <= names),
)


def detect(data: bytes, name: str = "") -> str | None:
    """The format of some bytes, or None."""
    text = data.decode("utf-8-sig", errors="replace").lstrip()
    if text.startswith("<"):
        return _of_xml(text[:_HEAD])
    found = _of_names(_names(text)) if text.startswith(("{", "[")) else None
    if not found and _MYPY.search(text[:_HEAD]):
        return "mypy"
    return found or next((kind for end, kind in _ENDINGS.items() if name.endswith(end)), None)


def _of_xml(head: str) -> str | None:
    match = _XML.match(head)
    return "junit" if match and match[1] in ("testsuites", "testsuite") else None


def _of_names(names: set[str]) -> str | None:
    return next((kind for kind, fits in _KEYS if fits(names)), None)


def _names(text: str) -> set[str]:
    """The names of the object, of the first of a list, of the first line; of all in sight where it cannot be read."""
    for part in (text, text.partition("\n")[0]):
        with suppress(ValueError, RecursionError):
            return _outer(json.loads(part if len(part) <= _LARGE else ""))
    return set(_NAME.findall(text[:_HEAD] + text[-_HEAD:]))


def _outer(value: Any) -> set[str]:
    first = value[0] if isinstance(value, list) and value else value
    return set(first) if isinstance(first, dict) else set()
