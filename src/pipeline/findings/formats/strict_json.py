"""JSON read to the letter: what two readers could take differently is refused, and nothing is repaired."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from io import BytesIO
from typing import Any, NoReturn


def loads(data: bytes) -> Any:
    """The value in a JSON text; raises ValueError saying what is wrong with it."""
    try:
        text = data.decode("utf-8-sig")
        value = _decoder.decode(text)
        return _whole(value) if _HALF.search(text) else value
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: byte {error.start} cannot be read") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def dumps(value: Any) -> bytes:
    """A JSON text for people and for git: one key on each line, in the order given, with a newline at the end."""
    made = BytesIO()  # piece by piece: a file may have very many items, and several copies of them would take much room
    for piece in _pieces(value):
        made.write(piece.encode())
    return made.getvalue()


def is_int(value: Any) -> bool:
    """Whether a value is an integer; a boolean is none, though Python says so."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_texts(value: Any) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


Rule = Callable[[Any], str]
"""What is wrong with a value, to be read after its name; nothing when it is sound."""


def faults(item: Mapping[str, Any], rules: Mapping[str, Rule], optional: Container[str] = ()) -> list[str]:
    """What is wrong with the fields of an object, all of it at once."""
    found = {key: rule(item[key]) if key in item else "is missing" for key, rule in rules.items()}
    return [f"`{key}` {fault}" for key, fault in found.items() if fault and (key in item or key not in optional)]


def text(value: Any) -> str:
    """The rule of a text, which may be empty."""
    return "" if isinstance(value, str) else "is no text"


def words(value: Any) -> str:
    """The rule of a text that says something."""
    return text(value) or ("" if value.strip() else "is empty")


def texts(value: Any) -> str:
    """The rule of a list of texts."""
    return "" if is_texts(value) else "is no list of texts"


def flag(value: Any) -> str:
    """The rule of what is true or false."""
    return "" if isinstance(value, bool) else "is neither true nor false"


def one_of(allowed: Iterable[str]) -> Rule:
    """The rule of a closed set of words."""
    known = tuple(allowed)
    return lambda value: "" if isinstance(value, str) and value in known else f"is none of {', '.join(known)}"


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for at, (key, field) in enumerate(value.items()):
            yield f"{',' if at else '{'}\n  {_flat.encode(key)}: "
            yield from _field(field)
        yield "\n}\n"
    else:
        yield f"{_indented(value)}\n"


def _field(value: Any) -> Iterator[str]:
    """A value two columns in. What is flat goes the quick way, and most fields of most files are."""
    if isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield f"{',' if at else '['}\n    " + _indented(item).replace("\n", "\n    ")
        yield "\n  ]"
    elif isinstance(value, dict) and value:
        yield _indented(value).replace("\n", "\n  ")  # a text has no line ends of its own in JSON
    else:
        yield _flat.encode(value)


def _indented(value: Any) -> str:
    return _deep.encode(value)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice[:40]!a} is there twice in one object")
    return found


def _whole(value: Any) -> Any:
    """A value whose texts hold whole characters: half of a pair, which no file can hold, becomes the sign for it."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return _object([(_whole(key), _whole(item)) for key, item in value.items()])
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


_HALF = re.compile(r"\\u[dD]")  # half of a pair comes only from an escape
_flat = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_deep = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=2)
_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_float=_finite, parse_constant=_no_number)
