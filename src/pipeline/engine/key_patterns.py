"""What keys of well-known kinds look like, for those whose values nobody told us.

None is tried twice on the same characters, so that the time is in proportion to the text.
"""

import re
from dataclasses import dataclass

MARK = "[redacted]"
LONG = 16  # characters: each of these keys has so many in a row that are letters, digits or one of `_+/=-`
WIDEST = 20_480  # characters: no key but a private one is longer

_WORD = "[A-Za-z0-9_-]"
_AUTHORIZATION = (
    r"""(uthorization["']?\s{0,4}[:=]\s{0,4}["']?(?:[Bb]earer|[Bb]asic|[Tt]oken)\s{1,4})"""
    r"""[A-Za-z0-9._~+/=-]{8,4096}+"""
)
# What stands between the lines of a private key: in a file, a quotation, a difference, a JSON string.
# Groups are not repeated possessively, which Python before 3.11.5 gets wrong. No two parts of these begin alike, so
# that going back finds nothing and costs little.
_BETWEEN = r"""(?:[\s"',>|#*]++|-(?!-)|\\[nr])*"""
_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_LINE = _BETWEEN + r"(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]{0,200}+|[A-Za-z0-9+/=]{16,}+)"
_LAST = rf"(?:{_BETWEEN}[A-Za-z0-9+/=]{{1,15}}+)?{_BETWEEN}"
_END = r"\+?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"

# A private key that the text breaks off in; its first line alone is one too, since the others may follow.
OPEN_KEY = re.compile(rf"({_BEGIN})(?:{_LINE})*{_LAST}\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class KeyPattern:
    """A kind of key, and what stands in each of them: looking for that first makes a text without keys cheap."""

    needed: str
    expression: re.Pattern[str]
    instead: str = MARK


def _starting(start: str, rest: str) -> KeyPattern:
    """A key that begins with a literal, and at the beginning of a word: `sk-` is not that of `task-`.

    In a JSON string the letter before it may be the end of a line. The literal comes first, since that is quickest.
    """
    begins = rf"(?:(?<![A-Za-z0-9_-]{start})|(?<=\\[nrt]{start}))"
    return KeyPattern(start, re.compile(f"{start}{begins}{rest}", re.ASCII))


# One long word each.
WORDS = (
    _starting("sk-", rf"(?=[A-Za-z_-]{{0,500}}+[0-9]){_WORD}{{20,512}}+"),
    *(_starting(f"gh{kind}_", r"[A-Za-z0-9]{30,255}+") for kind in "opsur"),
    _starting("github_pat_", r"[A-Za-z0-9_]{22,255}+"),
    _starting("glpat-", rf"{_WORD}{{20,255}}+"),
    *(_starting(kind, r"[0-9A-Z]{16}(?![0-9A-Za-z])") for kind in ("AKIA", "ASIA")),
    _starting("AIza", rf"{_WORD}{{35}}"),
    _starting("xox", r"[abeoprs]-[A-Za-z0-9-]{15,255}+"),
    _starting("eyJ", rf"{_WORD}{{17,8192}}+\.eyJ{_WORD}{{8,8192}}+\.{_WORD}{{8,2048}}+"),
)
# Known by what stands around them.
FRAMED = (
    KeyPattern("uthorization", re.compile(_AUTHORIZATION, re.ASCII), rf"\1{MARK}"),
    KeyPattern("-----BEGIN ", re.compile(rf"{_BEGIN}(?:{_LINE})+(?:{_LAST}(?:{_END}|\Z))?", re.ASCII)),
)

_MASK = bytes(120 if chr(code).isalnum() or chr(code) in "_+/=-" else 32 for code in range(128)) + b" " * 128
_RUN = b"x" * LONG


def long_words(text: str) -> str:
    """All that could be a key by itself: everything in which so many such characters follow each other."""
    masked = text.encode("latin-1", errors="replace").translate(_MASK)
    words = []
    start = masked.find(_RUN)
    while start >= 0:
        stop = masked.find(b" ", start + LONG)
        words.append(text[start : stop if stop >= 0 else None])
        start = masked.find(_RUN, stop) if stop >= 0 else -1
    return " ".join(words)
