"""Findings that an agent lists in YAML or in a Markdown table although JSON was asked for.

Only what is plainly an item is read: the agent is asked again in any case.
"""

import re
from collections.abc import Iterator
from typing import Any

from pipeline.findings.formats.review_item import KEYS, is_item, with_known_keys

_ENTRY = re.compile(r"(?P<indent>\s*)-\s+(?P<rest>\w[\w -]{0,40}:(?:\s.*)?)$")
_FIELD = re.compile(r"(?P<key>\w[\w -]{0,40}):(?:\s+(?P<value>.*))?$")
_BLOCK = re.compile(r"[|>][+-]?")
_DIVIDER = re.compile(r"\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*(?::?-{2,}:?\s*)?")
_CELL = re.compile(r"(?<!\\)\|")


def listed_items(words: str) -> list[dict[str, Any]]:
    """Return the items in a text, those of tables first."""
    lines = words.splitlines()
    return [item for item in (*_table_items(lines), *_yaml_items(lines)) if is_item(item)]


def _table_items(lines: list[str]) -> Iterator[dict[str, Any]]:
    """Return the rows of all tables; the cells of a header are the keys."""
    header: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if "|" not in line:
            header = []
        elif _DIVIDER.fullmatch(line):
            header = _cells(before)
        elif header:
            yield with_known_keys(dict(zip(header, _cells(line), strict=False)), KEYS)


def _cells(line: str) -> list[str]:
    return [cell.replace("\\|", "|").strip().strip("*`").strip() for cell in _CELL.split(line.strip().strip("|"))]


def _yaml_items(lines: list[str]) -> Iterator[dict[str, Any]]:
    """Return the mappings of block lists: `- key: value` and what is indented below it."""
    item: dict[str, Any] = {}
    indent, key = -1, ""
    for line in lines:
        text = line.strip()
        entry = _ENTRY.fullmatch(line)
        depth = len(line) - len(line.lstrip())
        if entry and (indent < 0 or depth <= indent):
            yield with_known_keys(item, KEYS)
            item, indent, key = {}, depth, ""
            text = entry["rest"]
        elif indent < 0 or not text:
            continue
        elif depth <= indent:
            yield with_known_keys(item, KEYS)
            item, indent = {}, -1
            continue
        field = _FIELD.fullmatch(text)
        if field and not text.startswith("- "):
            key = field["key"]
            item[key] = _scalar(field["value"] or "")
        elif key:
            item[key] = _continued(item[key], text)
    yield with_known_keys(item, KEYS)


def _scalar(value: str) -> Any:
    """Return a value without its quotation marks; nothing yet for one that stands on the lines below."""
    value = value.strip()
    if _BLOCK.fullmatch(value) or value in ("null", "~"):
        return ""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return {"true": True, "false": False}.get(value.lower(), value)


def _continued(value: Any, text: str) -> Any:
    """Return a value with one more line of it: an entry of its list, or more of its text."""
    if text.startswith("- "):
        return [*(value if isinstance(value, list) else []), _scalar(text[2:])]
    return " ".join(filter(None, (str(value), text)))
