"""Text of findings in our own markdown: short, sanitized, and nothing in it passes for a heading, a label or code."""

import re
from collections.abc import Iterator, Mapping

from pipeline.text import sanitize_block, sanitize_line, truncate

_MAX_PROSE = 2000  # characters of a paragraph
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")
_START = re.compile(r"^(\d+(?=[.)])|(?=[#>*+\-=|~<]|```|___))")  # of a list, a heading ...: `12. x` becomes `12\. x`
_ESCAPED = re.compile(r"^(\d*)\\(?=[#>*+\-=|~<`_.)])")
_MAX_TEXT = 20_000  # characters of a text that are looked at
_MAX_SENTENCES = 3
_MAX_SPANS = 2  # in a sentence
_MAX_SUMMARY = 200  # characters
_CODE = re.compile(r"^[ \t]*(?:```|~~~)|^(?:@@ .* @@|diff --git |--- a/|\+\+\+ b/)", re.MULTILINE)
# In "Call `close` (`a.b`)." both spans are short and have space around them; in "Call`close`s" none has.
_SPAN = re.compile(r"(?<![^ (])`([^`]{1,40})`(?![^ .,;:!?)])")
_STATEMENT = re.compile(r"[;{}]|\$\{|=>|\b(?:if|for|while|return|throw|raise|await|const|let|var|def)\b.*\s")


def one_line(text: str, limit: int = _MAX_PROSE) -> str:
    """Return a text from outside on one sanitized line of at most `limit` columns."""
    return truncate(sanitize_line(text[: 4 * limit]), limit)


def escape(line: str) -> str:
    """Return a line that starts no heading, list, quotation, label or code in markdown."""
    return _START.sub(r"\1\\", line)


def read_markdown(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of our own markdown, each as heading, label, item, code or text, without its marks.

    Nothing in the text of a finding becomes a heading or a label: that was escaped.
    """
    code = False
    for line in text.split("\n"):
        if line == "```":
            code = not code
        elif code:
            yield "code", line
        elif line.startswith("## "):
            yield "heading", line.removeprefix("## ")
        elif line.startswith("**") and line.endswith("**"):
            yield "label", line.strip("*")
        elif line.startswith("- "):
            yield "item", line.removeprefix("- ")
        else:
            yield "text", _ESCAPED.sub(r"\1", line)


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a text from outside, each on one sanitized line."""
    return list(filter(None, map(one_line, re.split(r"\n\s*\n", text[:_MAX_TEXT]))))


def sentences(line: str) -> list[str]:
    """Return the sentences of one line."""
    return list(filter(None, _SENTENCE_END.split(line)))


def prose(text: str) -> str:
    """Return a text from outside as paragraphs."""
    return "\n\n".join(map(escape, paragraphs(text)))


def code(text: str) -> str:
    """Return a text from outside line by line as it was written, sanitized; empty if it is."""
    shown = sanitize_block(text[:_MAX_TEXT].strip("\n").expandtabs(4)).replace("```", "'''")  # ends no fence
    return f"```\n{shown}\n```" if shown else ""


def labelled(sections: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts that are not empty, each below its label."""
    for label, text in sections.items():
        if text.strip():
            yield f"**{label}**\n\n{text}"


def present_fix(fix: str, where: str, pointer: str) -> str:
    """Return a proposed fix as prose that says what it achieves, not how it is typed.

    A fix with code, with many sentences or with more than short names in code spans becomes its first sentence, its
    location and a pointer to the whole of it.
    """
    parts = [sentence for paragraph in paragraphs(fix) for sentence in sentences(paragraph)]
    is_prose = len(fix) <= _MAX_PROSE and len(parts) <= _MAX_SENTENCES and not _CODE.search(fix)
    if is_prose and all(map(_has_few_spans, parts)):
        return prose(fix)
    before_code = paragraphs(_CODE.split(fix[:_MAX_TEXT])[0].replace("`", ""))
    summary = "The fix is given as code."
    if before_code:
        summary = escape(one_line(sentences(before_code[0])[0], _MAX_SUMMARY))
    if where:
        summary = f"{summary} At {where}."
    return f"{summary}\n\nFull fix: {pointer}"


def _has_few_spans(sentence: str) -> bool:
    """Return whether a sentence has at most two code spans, each a name or a short phrase with space around it."""
    spans = _SPAN.findall(sentence)
    if "`" in _SPAN.sub("", sentence) or len(spans) > _MAX_SPANS:
        return False
    return not any(map(_STATEMENT.search, spans))
