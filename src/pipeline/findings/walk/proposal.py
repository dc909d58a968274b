"""A proposed fix in prose: what it achieves, not how it is typed.

One that breaks the rules is told in short, with the place where the whole of it can be read.
"""

import re
from collections.abc import Iterator

from pipeline.findings.walk.wording import ELLIPSIS, escaped, flat, sentences

_SENTENCES = 3
_SPANS = 2  # in a sentence
_SPAN_WORDS = 4
_SPAN = 40  # characters
_CODE = 5  # lines
_SUMMARY = 200  # characters
_SUMMARY_WORDS = 3
_FENCE = re.compile(
    r"^[ \t]*(?:```|~~~)[ \t]*(?P<language>[\w+-]*)[^\n]*\n(?P<code>.*?)^[ \t]*(?:```|~~~)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_INLINE = re.compile(r"`([^`]*)`")
_NESTED = re.compile(r"`(?:.*`|.*$)")  # from the first to the last
_TICKS = re.compile(r"`+")
_DIFF = re.compile(r"^(?:@@ .* @@|diff --git |--- a/|\+\+\+ b/)", re.MULTILINE)
_CHANGED = re.compile(r"^(?:\+|-\S)", re.MULTILINE)
_STATEMENT = re.compile(r"[;{}]|\$\{|=>|\b(?:if|for|while|return|throw|raise|await|const|let|var|def)\b.*\s")
_BEFORE = ("", " ", "(")
_AFTER = ("", " ", ".", ",", ";", ":", "!", "?", ")")  # a sentence may end with a name
_LONGEST = 20_000  # characters that are looked at


def lint(fix: str) -> list[str]:
    """What keeps a proposed fix from being shown as it is, all of it at once."""
    text = fix[:_LONGEST]
    prose = _FENCE.sub("\n\n", text)
    told = list(_prose(prose))
    found = [*_code_faults(text, prose), *_tick_faults(prose)]
    found += [fault for sentence in told for fault in _span_faults(sentence)]
    if len(fix) > _LONGEST or len(told) > _SENTENCES:
        found.append(f"it has more than {_SENTENCES} sentences: one that says what it achieves is enough")
    return list(dict.fromkeys(found))


def proposal(fix: str, place: str, pointer: str) -> str:
    """A proposed fix as markdown: itself where it keeps the rules, else a summary, the place and where the rest is."""
    if not lint(fix):
        return "\n\n".join(_shown(fix))
    told = _summary(next(_prose(_FENCE.sub("\n\n", fix[:_LONGEST])), ""))
    where = f" At {place}." if place else ""
    return f"{escaped(told)}{where}\n\nFull fix: {pointer}"


def _summary(sentence: str) -> str:
    """A sentence without the code in it; where that was most of it, one that says no more than that there is some."""
    coded = any(_tick_faults(sentence)) or any(_is_code(span) for span in _INLINE.findall(sentence))
    told = flat(_NESTED.sub(ELLIPSIS, sentence) if coded else sentence.replace("`", ""), _SUMMARY)
    words = [word for word in told.split() if word.strip("….,;:")]
    return told if len(words) >= _SUMMARY_WORDS and not _DIFF.match(told) else "Change the code."


def _code_faults(text: str, prose: str) -> Iterator[str]:
    for block in _FENCE.finditer(text):
        if block["language"] == "diff" or _DIFF.search(block["code"]) or _CHANGED.search(block["code"]):
            yield "it has a diff: say in a sentence what changes"
        elif block["code"].count("\n") > _CODE:
            yield f"its code has more than {_CODE} lines: say in a sentence what it does"
    if _DIFF.search(prose):
        yield "it has a diff: say in a sentence what changes"


def _tick_faults(prose: str) -> Iterator[str]:
    ticks = _TICKS.findall(prose)
    if any(len(run) > 1 for run in ticks) or len(ticks) % 2:
        yield "its backticks are nested or left open"


def _span_faults(sentence: str) -> Iterator[str]:
    spans = list(_INLINE.finditer(sentence))
    if len(spans) > _SPANS:
        yield f"a sentence has more than {_SPANS} code spans"
    for span in spans:
        code = span[1]
        if _is_code(code):
            yield f"`{code[:_SPAN]}` is more than a name, an operator or a short phrase"
        if sentence[: span.start()][-1:] not in _BEFORE or sentence[span.end() :][:1] not in _AFTER:
            yield f"`{code[:_SPAN]}` has no space around it"


def _is_code(span: str) -> bool:
    """Whether a span is more than a name, an operator or a short phrase."""
    return len(span) > _SPAN or len(span.split()) > _SPAN_WORDS or bool(_STATEMENT.search(span))


def _prose(text: str) -> Iterator[str]:
    """The sentences of a text without its code, each on a line."""
    for paragraph in re.split(r"\n\s*\n", text):
        yield from sentences(flat(paragraph))


def _shown(fix: str) -> Iterator[str]:
    """The paragraphs of a fix that keeps the rules, and its code as code."""
    at = 0
    for block in _FENCE.finditer(fix):
        yield from _paragraphs(fix[at : block.start()])
        yield "\n".join(["```", *(_kept(line) for line in block["code"].splitlines()), "```"])
        at = block.end()
    yield from _paragraphs(fix[at:])


def _paragraphs(text: str) -> Iterator[str]:
    return (escaped(line) for part in re.split(r"\n\s*\n", text) if (line := flat(part)))


def _kept(line: str) -> str:
    """A line of code with its indentation, and nothing that acts."""
    body = line.lstrip(" ")
    return " " * (len(line) - len(body)) + flat(body, 200)
