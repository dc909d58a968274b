"""What is secret: which variables hold one, and in which forms its value gets printed. The one list of their names."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import quote, quote_plus, unquote

SECRET_NAMES = (
    *("*_KEY", "*_ACCESS_KEY_*", "*_SECRET", "*_SECRET_*", "SECRET_*", "*_SECRETS", "*_TOKEN", "*_PAT"),
    *("*PASSWORD", "*_PASSWD", "*_PASSPHRASE", "*_PWD", "*_PRIVATE_KEY_*", "*_CREDENTIAL*", "*_DSN", "DATABASE_URL"),
    *("SECRET", "TOKEN", "PASSWD", "API_KEY"),
)
SHORTEST = 8  # characters: what is shorter stands in many a text by chance
_LONG_LINE = 16  # characters: a line of a value is looked for by itself from here on

_FILES = ("*_FILE", "*_PATH", "*_DIR", "*_CREDENTIALS")  # may name a file instead of holding the secret
_ADDRESSES = ("*_URL", "*_DSN")  # only the password in it is secret
_PLACES = ("HOME", "PWD", "OLDPWD", "TMPDIR", "USER", "LOGNAME", "HOSTNAME", "SHELL")
_COMMON = frozenset(
    {"__token__", "anonymous", "changeme", "development", "disabled", "localhost", "password", "postgres"}
    | {"production", "redacted", "required", "undefined", "username"}
)
_PASSWORD = re.compile(r"^[a-z][a-z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@", re.IGNORECASE)
_PATH = re.compile(r"(?:~|\.{1,2})?/\S+")


@dataclass(frozen=True, slots=True)
class Secret:
    """A value that nobody may see, and the variable that holds it."""

    name: str
    value: str = field(repr=False)


def secret_values(environ: Mapping[str, str]) -> tuple[Secret, ...]:
    """The secrets of an environment: what variables with telling names hold, and passwords in addresses."""
    return tuple(secret for name, value in environ.items() for secret in _secrets(name, value, environ))


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a variable's name fits one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def forms(value: str) -> frozenset[str]:
    """A value as it is, in a JSON string, in an address and within base64; each line of it too, if it has several."""
    found = {form for part in _parts(value) for form in _forms(part)}
    return frozenset(form for form in found if len(form) >= SHORTEST)


def _secrets(name: str, value: str, environ: Mapping[str, str]) -> Iterator[Secret]:
    if found := _PASSWORD.match(value):
        passwords = {found[1], unquote(found[1])}
        yield from (Secret(name, password) for password in sorted(passwords) if len(password) >= SHORTEST)
    if matches(name.upper(), SECRET_NAMES) and not _is_known(name.upper(), value, environ):
        yield Secret(name, value)


def _is_known(name: str, value: str, environ: Mapping[str, str]) -> bool:
    """Whether everybody may know the value, whatever its name: a word, a place, an address."""
    if len(value.strip()) < SHORTEST or value.lower() in _COMMON or matches(name, _ADDRESSES):
        return True
    if value in {environ.get(place) for place in _PLACES} or value.startswith(f"{environ.get('HOME') or value}/"):
        return True
    return matches(name, _FILES) and _PATH.fullmatch(value) is not None


def _parts(value: str) -> set[str]:
    """A program's output is looked at line by line."""
    lines = (line.strip() for line in value.splitlines())
    return {value, value.strip(), *(line for line in lines if len(line) >= _LONG_LINE)}


def _forms(value: str) -> Iterator[str]:
    data = value.encode(errors="surrogateescape")
    yield value
    yield data.decode("latin-1")  # bytes are looked at one by one
    escaped = json.dumps(value)[1:-1]
    yield from (escaped, escaped.replace("/", r"\/"), json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (quote(data), quote(data, safe=""), quote_plus(data))
    for before in range(3):
        yield from _base64(data, before)


def _base64(data: bytes, before: int) -> Iterator[str]:
    """The characters that stand for the value alone when `before` other bytes of its group of three precede it."""
    length = before + len(data)
    encoded = b64encode(bytes(before) + data).decode()
    alone = encoded[(0, 2, 3)[before] : length * 8 // 6]
    yield from (alone, alone.replace("+", "-").replace("/", "_"))
