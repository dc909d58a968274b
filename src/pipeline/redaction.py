"""Secrets in text, bytes and values, and their replacement by a mark.

Two kinds are replaced: the values of secret environment variables, in every encoding they are likely to be printed in,
and keys of well-known formats, such as `sk-…` or a PEM private key.
"""

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote, quote_plus, unquote

SECRET_NAMES = (
    *("*_KEY", "*_ACCESS_KEY_*", "*_SECRET", "*_SECRET_*", "SECRET_*", "*_SECRETS", "*_TOKEN", "*_PAT"),
    *("*PASSWORD", "*_PASSWD", "*_PASSPHRASE", "*_PWD", "*_PRIVATE_KEY_*", "*_CREDENTIAL*", "*_DSN", "DATABASE_URL"),
    *("SECRET", "TOKEN", "PASSWD", "API_KEY"),
)
MIN_LENGTH = 8  # characters: shorter values occur in ordinary text
_MIN_LINE = 16  # characters: each line of a multi-line value is replaced on its own from this length on
_MARK = "[redacted]"

_FILE_NAMES = ("*_FILE", "*_PATH", "*_DIR", "*_CREDENTIALS")  # may hold the path of a file with the secret
_URL_NAMES = ("*_URL", "*_DSN")  # only the password in the URL is secret
_USER_VARIABLES = ("HOME", "PWD", "OLDPWD", "TMPDIR", "USER", "LOGNAME", "HOSTNAME", "SHELL")
_COMMON_VALUES = frozenset(
    {"__token__", "anonymous", "changeme", "development", "disabled", "localhost", "password", "postgres"}
    | {"production", "redacted", "required", "undefined", "username"}
)
_URL_PASSWORD = re.compile(r"^[a-z][a-z0-9+.-]*://[^\s/:@]*:([^\s/@]+)@", re.IGNORECASE)
_PATH = re.compile(r"(?:~|\.{1,2})?/\S+")


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret value and the variable that holds it."""

    name: str
    value: str = field(repr=False)


def secret_values(environ: Mapping[str, str]) -> tuple[Secret, ...]:
    """Return the secrets of an environment: values of variables with secret names, and passwords in URLs."""
    return tuple(secret for name, value in environ.items() for secret in _secrets_in(name, value, environ))


def _secrets_in(name: str, value: str, environ: Mapping[str, str]) -> Iterator[Secret]:
    if found := _URL_PASSWORD.match(value):
        passwords = {found[1], unquote(found[1])}
        yield from (Secret(name, password) for password in sorted(passwords) if len(password) >= MIN_LENGTH)
    if matches_any(name.upper(), SECRET_NAMES) and not _is_public(name.upper(), value, environ):
        yield Secret(name, value)


def _is_public(name: str, value: str, environ: Mapping[str, str]) -> bool:
    """Whether a value is harmless despite its variable's name: a common word, a path of the user, a URL."""
    if len(value.strip()) < MIN_LENGTH or value.lower() in _COMMON_VALUES or matches_any(name, _URL_NAMES):
        return True
    if value in {environ.get(other) for other in _USER_VARIABLES}:
        return True
    if value.startswith(f"{environ.get('HOME') or value}/"):
        return True
    return matches_any(name, _FILE_NAMES) and _PATH.fullmatch(value) is not None


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Whether a variable's name matches one of the glob patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def encodings(value: str) -> frozenset[str]:
    """Return the forms in which a value may be printed: plain, JSON, URL and base64, and each of its long lines."""
    lines = (line.strip() for line in value.splitlines())
    parts = {value, value.strip(), *(line for line in lines if len(line) >= _MIN_LINE)}
    found: set[str] = set()
    for part in parts:
        data = part.encode(errors="surrogateescape")
        escaped = json.dumps(part)[1:-1]
        found |= {part, data.decode("latin-1")}  # bytes are searched as latin-1
        found |= {escaped, escaped.replace("/", r"\/"), json.dumps(part, ensure_ascii=False)[1:-1]}
        found |= {quote(data), quote(data, safe=""), quote_plus(data)}
        for offset in range(3):  # how many bytes precede the value in its group of three
            encoded = b64encode(bytes(offset) + data).decode()
            own = encoded[(0, 2, 3)[offset] : (offset + len(data)) * 8 // 6]  # the characters of the value alone
            found |= {own, own.replace("+", "-").replace("/", "_")}
    return frozenset(form for form in found if len(form) >= MIN_LENGTH)


@dataclass(frozen=True, slots=True)
class _KeyFormat:
    """A well-known kind of key. A text without `needle` holds none, which is cheaper to find out."""

    needle: str
    pattern: re.Pattern[str]
    replacement: str = _MARK


def _prefixed(prefix: str, rest: str) -> _KeyFormat:
    r"""A key that starts with a literal at the start of a word, or after `\n`, `\r` or `\t` in a JSON string."""
    at_start = rf"(?:(?<![A-Za-z0-9_-]{prefix})|(?<=\\[nrt]{prefix}))"
    return _KeyFormat(prefix, re.compile(f"{prefix}{at_start}{rest}", re.ASCII))


# Possessive quantifiers and disjoint alternatives keep the time linear in the length of the text. Groups are not
# repeated possessively: Python before 3.11.5 gets that wrong.
_WORD = "[A-Za-z0-9_-]"
_AUTHORIZATION = (
    r"""(uthorization["']?\s{0,4}[:=]\s{0,4}["']?(?:[Bb]earer|[Bb]asic|[Tt]oken)\s{1,4})"""
    r"""[A-Za-z0-9._~+/=-]{8,4096}+"""
)
_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_SEPARATOR = r"""(?:[\s"',>|#*]++|-(?!-)|\\[nr])*"""  # between lines: in a file, a quotation, a diff, a JSON string
_LINE = _SEPARATOR + r"(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]{0,200}+|[A-Za-z0-9+/=]{16,}+)"
_LAST_LINE = rf"(?:{_SEPARATOR}[A-Za-z0-9+/=]{{1,15}}+)?{_SEPARATOR}"
_END = r"\+?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_UNFINISHED_KEY = re.compile(rf"({_BEGIN})(?:{_LINE})*{_LAST_LINE}\Z", re.ASCII)  # the text ends within a private key
_LONGEST_KEY = 20_480  # characters, except for private keys

_KEY_FORMATS = (
    _prefixed("sk-", rf"(?=[A-Za-z_-]{{0,500}}+[0-9]){_WORD}{{20,512}}+"),
    *(_prefixed(f"gh{kind}_", r"[A-Za-z0-9]{30,255}+") for kind in "opsur"),
    _prefixed("github_pat_", r"[A-Za-z0-9_]{22,255}+"),
    _prefixed("glpat-", rf"{_WORD}{{20,255}}+"),
    *(_prefixed(kind, r"[0-9A-Z]{16}(?![0-9A-Za-z])") for kind in ("AKIA", "ASIA")),
    _prefixed("AIza", rf"{_WORD}{{35}}"),
    _prefixed("xox", r"[abeoprs]-[A-Za-z0-9-]{15,255}+"),
    _prefixed("eyJ", rf"{_WORD}{{17,8192}}+\.eyJ{_WORD}{{8,8192}}+\.{_WORD}{{8,2048}}+"),
    _KeyFormat("uthorization", re.compile(_AUTHORIZATION, re.ASCII), rf"\1{_MARK}"),
    _KeyFormat("-----BEGIN ", re.compile(rf"{_BEGIN}(?:{_LINE})+(?:{_LAST_LINE}(?:{_END}|\Z))?", re.ASCII)),
)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces secrets by a mark. Text that holds none, or only marks, is returned unchanged."""

    secrets: tuple[Secret, ...] = ()
    _literals: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)  # (encoding, mark)

    def __post_init__(self) -> None:
        names = {form: secret.name for secret in reversed(self.secrets) for form in encodings(secret.value)}
        literals = sorted((form for form in names if form not in _MARK), key=lambda form: (-len(form), form))
        marks = {name: _mark_for(name, literals) for name in set(names.values())}
        object.__setattr__(self, "_literals", tuple((form, marks[names[form]]) for form in literals))

    @property
    def overlap(self) -> int:
        """How many bytes before a cut must be searched again together with those that follow."""
        return max([_LONGEST_KEY, *(len(literal) for literal, _ in self._literals)])

    def text(self, text: str) -> str:
        """Return the text without secrets."""
        for literal, mark in self._literals:
            text = text.replace(literal, mark)
        for key in _KEY_FORMATS:
            if key.needle in text:
                text = key.pattern.sub(key.replacement, text)
        return text

    def data(self, data: bytes) -> bytes:
        """Return bytes without secrets; everything else in them, text or not, is unchanged."""
        return self.text(data.decode("latin-1")).encode("latin-1")

    def value(self, value: Any) -> Any:
        """Return a value without secrets at any depth of its dictionaries, lists and tuples."""
        clean: Any
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            clean = {self.value(key): self.value(item) for key, item in value.items()}
        elif isinstance(value, list):
            clean = [self.value(item) for item in value]
        elif isinstance(value, tuple):
            clean = tuple([self.value(item) for item in value])
        else:
            return value
        return value if clean == value else clean

    def redact_prefix(self, data: bytes, end: int) -> tuple[bytes, int]:
        """Redact what precedes `end`; return it and its end, which is earlier if a secret would be cut in two.

        A private key that may continue after `end` is left for the next call as well.
        """
        text = data.decode("latin-1")
        if found := _UNFINISHED_KEY.search(text, 0, end):
            end = found.start()
        while (start := self._secret_across(text, end)) < end:
            end = start
        return self.text(text[:end]).encode("latin-1"), end

    def _secret_across(self, text: str, end: int) -> int:
        """Return where the first secret starts that `end` would cut in two, or `end`."""
        starts = [text.find(one, max(0, end - len(one) + 1), end + len(one) - 1) for one, _ in self._literals]
        for key in _KEY_FORMATS:
            if key.needle in text:
                spans = (found.span() for found in key.pattern.finditer(text))
                starts += [start for start, stop in spans if start < end < stop]
        return min((start for start in starts if start >= 0), default=end)


def redactor_of(environ: Mapping[str, str]) -> Redactor:
    """Return the redactor for the secrets of an environment."""
    return Redactor(secret_values(environ))


def unfinished_key(data: bytes) -> bytes:
    """Return the first line of a private key that the data ends in, or nothing."""
    found = _UNFINISHED_KEY.search(data.decode("latin-1"))
    return found[1].encode("latin-1") if found else b""


def _mark_for(name: str, literals: Iterable[str]) -> str:
    """A mark that names the variable, unless the name itself looks like a secret."""
    mark = f"[redacted {name}]"
    plain = name.isascii() and name.isidentifier() and PATTERNS_ONLY.text(name) == name
    return mark if plain and not any(literal in mark for literal in literals) else _MARK


PATTERNS_ONLY = Redactor()
