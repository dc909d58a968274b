"""Findings that an agent lists in YAML or in a Markdown table although JSON was asked for.

Only what is plainly an item is read: the agent is asked again in any case.
"""

import re
from collections.abc import Iterator
from typing import Any

from pipeline.findings.formats.review_item import KEYS, is_item, with_known_keys

_FIELD = re.compile(r"\s*(?P<dash>-\s+)?(?P<key>\w[\w -]{0,40}):(?P<value>(?:\s.*)?)")
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
    """Yield the entries of lists: `- key: value`, and the keys and texts on the lines below it."""
    item: dict[str, list[str]] = {}
    texts: list[str] = []  # of the last key, one for each line
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            if line[:1].isspace():
                texts.append(line.strip(" -\"'"))
            continue
        if field["dash"]:
            yield _joined(item)
            item = {}
        texts = item[field["key"]] = [field["value"].strip(" |>\"'")]
    yield _joined(item)


def _joined(item: dict[str, list[str]]) -> dict[str, Any]:
    return with_known_keys({key: " ".join(filter(None, texts)) for key, texts in item.items()}, KEYS)
