"""One line that says what went wrong, from the output of a tool."""

import re

_COLOURS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")  # and links, cursors, titles
# From the most telling to the least; the first that is found is the digest.
_TELLING = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^(?:FAILED|ERROR) [^(\s].*$",  # pytest
        r"^--- FAIL: .*$",  # go test
        r"^[ \t]*(?:✕|✖|×|not ok) .*$",  # jest, mocha, TAP
        r"^(?:FAIL|ERROR): .*$",  # unittest
        r"^test .* \.\.\. FAILED$",  # cargo test
        r"^.*\b[1-9]\d* (?:failed|failures?|errors?)\b.*$",
        r"^.*\b(?:[Ee]rror|ERROR|[Ff]atal|FATAL)\b.*$",
        r"^.*\b(?:[Ff]ail(?:ed|ure)?|FAIL(?:ED)?)\b.*$",
    )
)
LONGEST = 200


def digest(stdout: str, stderr: str, otherwise: str) -> str:
    """The first failing test, a count of failures, or the first error line; `otherwise` when none is to be seen."""
    stdout, stderr = (_COLOURS.sub("", text) if "\x1b" in text else text for text in (stdout, stderr))
    for pattern in _TELLING:
        for text in (stdout, stderr):
            if found := pattern.search(text):
                return _one_line(found[0])
    last = next((line for line in reversed((stderr or stdout).splitlines()) if line.strip()), "")
    return _one_line(f"{otherwise}: {last.strip()}" if last else otherwise)


def _one_line(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 10 * LONGEST]).split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
