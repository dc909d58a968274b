"""Text from outside, made safe where it is shown: on a terminal, in a prompt, on a page, in a picture or a log.

A fence is longer than any run of backticks or tildes inside it, and a line of a prompt cannot start a heading, a rule
or a fence. Sanitizing never makes a text longer.
"""

import re
import unicodedata
from functools import lru_cache

from pipeline.text.layout import truncate, truncate_length

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

SHORTEST_FENCE = 3

_ESCAPE_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colors and cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links and other strings
    r"|\x1b[ -/]*[0-~]?"
)
_NOT_PLAIN = re.compile(r"[^\n\t -~]")
_CONTROL_CATEGORIES = ("Cc", "Cf", "Cs", "Zl", "Zp")

# What an agent could interpret.
_PROMPT_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # colors and cursors
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,2000}(?:\x07|\x1b\\|\x9c)"  # titles and links
)
_LINE_BREAK = re.compile("\r\n?|[\x85\u2028\u2029]")
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for newline and tab, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction marks
    "\u200b\u2060-\u2064\ufeff\U000e0000-\U000e01ef]"  # invisible to people, but read by an agent
)
_SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold
_UNSAFE = re.compile(f"{_INVISIBLE.pattern[:-1]}\u2028\u2029\ud800-\udfff]")
_RUNS = (re.compile("```+"), re.compile("~~~+"))  # two patterns: with a fixed start they are found fast
_LINE_START = re.compile(r"[#`>]|(?:[-=*_] ?){3}")
_FENCE_LINE = re.compile(r"^ {0,3}(`{3,}|~{3,})([^\n]*)$", re.MULTILINE)

# What a page or a picture could interpret.
_SPECIAL = re.compile(r"[\\`*_\[\]<>~&$]|^[-+=]|:(?=//)|(?<=www)\.", re.IGNORECASE)
_NUMBERED = re.compile(r"^(\d+)([.)])(?=\s|$)")
_MENTION = re.compile(r"([@#])")  # where the page is shown, these call a person or an issue, escaped or not
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # not allowed by XML 1.0, even escaped
_XML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;", "\t": "&#9;", "\n": "&#10;", "\r": "&#13;"}
)
_MERMAID_UNSAFE = re.compile(r"[^\w ,:=/?·…→≤≥≠-]")
_LIST_ITEM = re.compile(r"^(?=[-+*]|\d)")  # Mermaid reads what looks like a list as Markdown and rejects it


def sanitize_line(text: str) -> str:
    """Return the text on one line, without anything that controls a terminal or reverses the reading direction."""
    line = " ".join(_ESCAPE_SEQUENCE.sub("", text).split())
    return _NOT_PLAIN.sub(_replace_control, line)


def sanitize_block(text: str) -> str:
    """Do the same for a text of several lines; line breaks and spaces are kept."""
    lines = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return _NOT_PLAIN.sub(_replace_control, lines)


def sanitize(text: str) -> str:
    """Do the same for a line in which each character stays in its column, such as a path or a line of a source."""
    return "".join(REPLACEMENT if is_control(c) else c for c in text.replace("\t", " ").replace("\n", " "))


def one_line(text: str, width: int = 300) -> str:
    """Return the beginning of a text on one sanitized line of at most `width` columns."""
    return truncate(sanitize_line(text[: 4 * width]), width)


def _replace_control(found: re.Match[str]) -> str:
    return REPLACEMENT if is_control(found[0]) else found[0]


def is_control(character: str) -> bool:
    """Whether a character controls a terminal instead of being shown."""
    return unicodedata.category(character) in _CONTROL_CATEGORIES


def last_line(text: str) -> str:
    """Return the last line that is not blank, sanitized."""
    lines = (sanitize_line(line) for line in reversed(text.splitlines()))
    return next((line for line in lines if line), "")


def sanitize_prompt(text: str) -> str:
    """Return a text for an agent without control characters, invisible ones, and empty lines at its ends."""
    if _UNSAFE.search(text):
        text = _LINE_BREAK.sub("\n", _PROMPT_ESCAPE.sub("", text))
        text = _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", _INVISIBLE.sub("", text))
    return text.strip("\n") if text.strip() else ""


def prompt_line(text: str, limit: int) -> str:
    """Return a text for an agent as one line of at most `limit` characters that starts no heading, rule or fence."""
    start = text[: 2 * limit]
    line = _one_line(start)
    return truncate_length(f"{line}…" if len(text) > len(start) else line, limit)


@lru_cache(maxsize=1 << 10)  # a summary lists the same visits at every stage: a tenth of what a stage takes
def _one_line(text: str) -> str:
    line = " ".join(sanitize_prompt(text).split())
    for runs in _RUNS:
        line = runs.sub("'''", line)
    return f"\\{line}" if _LINE_START.match(line) else line


def prompt_path(path: str, limit: int) -> str:
    """Return a path for an agent as one line; its spaces are part of the name."""
    return truncate_length(re.sub(r"\s", " ", sanitize_prompt(path)), limit)


def fence(text: str, kind: str = "") -> str:
    """Return a sanitized text in a fence that it cannot close, with the kind of the text on its first line."""
    marks = "`" * _fence_width(text)
    return f"{marks}{kind}\n{text}\n{marks}"


def code_span(line: str) -> str:
    """Return a sanitized line as Markdown code; a backtick in it cannot end it."""
    line = line or " "  # two backticks without anything between them would begin one
    longest = max(map(len, re.findall("`+", line)), default=0)
    marks = "`" * (longest + 1)
    return f"{marks} {line} {marks}" if longest else f"`{line}`"


def longest_run(text: str) -> int:
    """Return the length of the longest run of backticks or tildes that could be a fence."""
    return max((len(run) for runs in _RUNS for run in runs.findall(text)), default=0)


def start_that_fits(text: str, room: int) -> str:
    """Return as much of a text's start as fits into `room` characters together with its fence."""
    return text[: _fitting_length(text[: max(room, 0)], room)]


def end_that_fits(text: str, room: int) -> str:
    """Return as much of a text's end as fits into `room` characters together with its fence."""
    length = _fitting_length(text[-room:], room) if room > 0 else 0
    return text[-length:] if length else ""


def _fitting_length(text: str, room: int) -> int:
    """Return how many characters fit. A third of the room always does: no run in it needs a longer fence."""
    if room <= 2 + 2 * SHORTEST_FENCE:
        return 0
    return max(room - 2 - 2 * _fence_width(text), (room - 4) // 3)


def _fence_width(text: str) -> int:
    return max(SHORTEST_FENCE, longest_run(text) + 1)


def close_fence(text: str) -> str:
    """Return a text whose last fence is closed."""
    marks = ""
    for found in _FENCE_LINE.finditer(text):
        run, rest = found.groups()
        if not marks:
            marks = "" if run[0] == "`" and "`" in rest else run
        elif run.startswith(marks) and not rest.strip():
            marks = ""
    return f"{text}\n{marks}" if marks else text


def escape_markdown(text: str) -> str:
    """Return a line that a page of Markdown shows as it is and that does nothing there."""
    escaped = _NUMBERED.sub(r"\1\\\2", _SPECIAL.sub(r"\\\g<0>", text))
    return _MENTION.sub(r"\1<!-- -->", escaped).replace("|", "&#124;")  # readers differ on a backslash before it


def escape_xml(text: str) -> str:
    """Escape a text for the content of an element or the value of an attribute."""
    return _NOT_XML.sub(REPLACEMENT, text).translate(_XML)


def escape_mermaid(text: str) -> str:
    """Write every character that Mermaid, Markdown or HTML could interpret as its number."""
    return _LIST_ITEM.sub("#8203;", _MERMAID_UNSAFE.sub(lambda match: f"#{ord(match[0])};", text))


def quote_dot(text: str) -> str:
    """Quote a text. Graphviz interprets backslashes and named HTML characters even in quotes."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") + '"'


def escape_command(value: object, also: str = "") -> str:
    """Percent-encode what would end a line or a property of a workflow command of GitHub's."""
    return "".join(f"%{ord(c):02X}" if c in f"%\r\n{also}" else c for c in str(value))
