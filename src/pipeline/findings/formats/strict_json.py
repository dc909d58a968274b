"""JSON without ambiguity: duplicate keys and numbers that are not JSON are refused, and nothing is repaired.

The format `json` is everything the ledger knows about each finding.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic_core import to_json

if TYPE_CHECKING:
    from pipeline.findings.ledger import Ledger
    from pipeline.findings.model import Finding

_HALF_PAIR = re.compile(r"\\u[dD]")  # half of a surrogate pair comes only from an escape


def loads(data: bytes) -> Any:
    """The value of JSON bytes; raises ValueError."""
    return parse(decode_text(data))


def decode_text(data: bytes) -> str:
    """UTF-8 as text, without a byte order mark; raises ValueError."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start}") from error


def parse(text: str) -> Any:
    """The value of a JSON text; raises ValueError."""
    try:
        value = _decoder.decode(text)
        return replace_half_pairs(value) if _HALF_PAIR.search(text) else value
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")  # "Unterminated string starting at"
        problem = f"{what} at line {error.lineno}, column {error.colno}"
        raise ValueError(f"not valid JSON, perhaps cut off: {problem}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_at(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at a position of a text, and its end; raises ValueError or RecursionError."""
    value, end = _decoder.raw_decode(text, start)
    return replace_half_pairs(value) if _HALF_PAIR.search(text, start, end) else value, end


def dumps(value: Any) -> bytes:
    """JSON for people and for git: indented, in the order given, with a newline at the end."""
    return to_json(value, indent=2) + b"\n"


def write(findings: "Iterable[Finding]", ledger: "Ledger") -> str:
    """The findings in the order given."""
    return dumps([finding_record(finding, ledger) for finding in findings]).decode()


def finding_record(finding: "Finding", ledger: "Ledger") -> dict[str, Any]:
    """Return everything known about a finding, with all findings of its line of work as `members`."""
    number = finding.number
    members: tuple[Finding, ...] = (finding,)
    if finding.id in ledger.findings:
        line = ledger.line(finding.id)
        number, members = line.number, line.members
    shown = {"line_number": number, "members": [_member(member) for member in members]}
    return finding.model_dump(mode="json") | shown


def _member(finding: "Finding") -> dict[str, Any]:
    """Return what a list shows of a member of a line of work."""
    return {
        "id": finding.id,
        "number": finding.number,
        "reviewer": finding.reviewer,
        "severity": str(finding.severity),
        "state": str(finding.state),
        "title": finding.title,
    }


def is_int(value: Any) -> bool:
    """Whether a JSON value is an integer; in Python a boolean is one too."""
    return isinstance(value, int) and not isinstance(value, bool)


def unique_keys(given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these keys and values; raises ValueError if a key occurs twice."""
    pairs = list(given)
    found = dict(pairs)
    if len(found) < len(pairs):
        key = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"duplicate key {key[:40]!a}")
    return found


def replace_half_pairs(value: Any) -> Any:
    """The value with U+FFFD for each half of a surrogate pair, which no file can hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [replace_half_pairs(item) for item in value]
    if isinstance(value, dict):
        return unique_keys([(replace_half_pairs(key), replace_half_pairs(item)) for key, item in value.items()])
    return value


def finite(text: str) -> float:
    """The number; raises ValueError if it is too large."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and infinities."""
    raise ValueError(f"{name} is not a JSON number")


_decoder = json.JSONDecoder(object_pairs_hook=unique_keys, parse_float=finite, parse_constant=refuse_constant)
