"""Keeps secrets out of what is written and shown. What holds none is handed back as the very same object.

Known values are looked for first, in every form they are likely to be printed in, then keys of well-known kinds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.engine.context import Operation
from pipeline.engine.key_patterns import FRAMED, MARK, OPEN_KEY, WIDEST, WORDS, long_words
from pipeline.engine.outcome import Failure, Outcome
from pipeline.engine.secret import SHORTEST, Secret, forms, secret_values

_PATTERNS = (*WORDS, *FRAMED)
_REMEMBERED = 50  # texts; a long one is not kept alive for long
_SAID = ("reason", "response", "updates", "preferred_label", "preferred_next", "notes")
_SAID_OF_FAILURE = ("digest", "stdout_tail", "stderr_tail")


@dataclass(frozen=True, slots=True)
class _Signs:
    """Without any of these there is no secret: `anywhere` in a text, or `in_words` of it that are long."""

    anywhere: tuple[str, ...]
    in_words: tuple[str, ...]

    def found(self, text: str) -> bool:
        for sign in self.anywhere:  # a loop: `any` with a generator would cost more than the search
            if sign in text:
                return True
        words = long_words(text)
        return bool(words) and any(sign in words for sign in self.in_words)


@dataclass(frozen=True, slots=True)
class Redactor:
    """Puts a mark in the place of every secret. What it has marked it leaves alone."""

    secrets: tuple[Secret, ...] = ()
    _literals: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)  # and their marks
    _signs: _Signs = field(init=False, repr=False, compare=False)
    # The last texts without a secret: a stage's answer comes by several times, in its outcome and in what plugins add,
    # and the names of keys, stages and statuses with every stage.
    _clean: dict[str, None] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        held = ((form, secret.name) for secret in reversed(self.secrets) for form in forms(secret.value))
        names = {form: name for form, name in held if form not in MARK}
        marks = {name: _mark(name, names) for name in set(names.values())}
        longest_first = sorted(names, key=lambda form: (-len(form), form))
        object.__setattr__(self, "_literals", tuple((form, marks[names[form]]) for form in longest_first))
        object.__setattr__(self, "_signs", _signs(longest_first))

    @property
    def overlap(self) -> int:
        """How many bytes before a cut have to be looked at again together with those that follow."""
        return max([WIDEST, *(len(literal) for literal, _ in self._literals)])

    def text(self, text: str) -> str:
        """The text without secrets."""
        if len(text) < SHORTEST or text in self._clean:
            return text
        if self._signs.found(text):
            return self._redacted(text)
        if len(self._clean) >= _REMEMBERED:
            self._clean.clear()
        self._clean[text] = None
        return text

    def data(self, data: bytes) -> bytes:
        """Bytes without secrets; whatever else they are, text or not, stays as it was."""
        text = data.decode("latin-1")
        return self._redacted(text).encode("latin-1") if self._signs.found(text) else data

    def value(self, value: Any) -> Any:
        """A value without secrets, however deep they stand in its dictionaries, lists and tuples."""
        clean: Any
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            clean = {self.value(key): self.value(part) for key, part in value.items()}
        elif isinstance(value, list):
            clean = [self.value(part) for part in value]
        elif isinstance(value, tuple):
            clean = tuple([self.value(part) for part in value])
        else:
            return value
        return value if clean == value else clean

    def settled(self, data: bytes, end: int) -> tuple[bytes, int]:
        """What stands before `end` without secrets, and where it was cut: at `end`, or before a secret that it is in.

        A private key that may go on after `end` is not settled either.
        """
        text = data.decode("latin-1")
        if not self._signs.found(text):
            return data[:end], end
        cut = self._cut(text, end)
        return self._redacted(text[:cut]).encode("latin-1"), cut

    def _redacted(self, text: str) -> str:
        for literal, mark in self._literals:
            text = text.replace(literal, mark)
        for pattern in _PATTERNS:
            if pattern.needed in text:
                text = pattern.expression.sub(pattern.instead, text)
        return text

    def _cut(self, text: str, end: int) -> int:
        if found := OPEN_KEY.search(text, 0, end):
            end = found.start()
        while (start := self._across(text, end)) < end:
            end = start
        return end

    def _across(self, text: str, end: int) -> int:
        """Where the first secret begins that `end` would cut through; `end` if there is none."""
        sizes = ((literal, len(literal) - 1) for literal, _ in self._literals)
        starts = [text.find(literal, max(0, end - size), end + size) for literal, size in sizes]
        for pattern in _PATTERNS:
            if pattern.needed in text:
                spans = (found.span() for found in pattern.expression.finditer(text))
                starts += [start for start, stop in spans if start < end < stop]
        return min((start for start in starts if start >= 0), default=end)


def redactor_of(environ: Mapping[str, str]) -> Redactor:
    """The redactor that knows the secrets of an environment."""
    return Redactor(secret_values(environ))


def open_key(data: bytes) -> bytes:
    """The first line of the private key that data breaks off in; nothing if it does not."""
    found = OPEN_KEY.search(data.decode("latin-1"))
    return found[1].encode("latin-1") if found else b""


def redact_outcome(redactor: Redactor, outcome: Outcome) -> Outcome:
    """An outcome without secrets, in everything that a stage can say."""
    changed = _changed(redactor, outcome, _SAID)
    if outcome.failure is not None and (words := _changed(redactor, outcome.failure, _SAID_OF_FAILURE)):
        changed["failure"] = outcome.failure.model_copy(update=words)
    return outcome.model_copy(update=changed) if changed else outcome


def _changed(redactor: Redactor, said: Outcome | Failure, names: tuple[str, ...]) -> dict[str, Any]:
    """The fields that hold secrets, without them. Most fields are empty, and few of the others are long."""
    return {
        name: clean
        for name in names
        if (value := getattr(said, name)) and (clean := redactor.value(value)) is not value
    }


def redact_operation(redactor: Redactor, operation: Operation) -> Operation:
    """An operation that puts no secret into the context."""
    value = redactor.value(operation.value)
    return operation if value is operation.value else operation._replace(value=value)


def _mark(name: str, literals: Mapping[str, str]) -> str:
    """A mark that names the variable, unless the name itself would be taken for a secret."""
    mark = f"[redacted {name}]"
    plain = name.isascii() and name.isidentifier() and PATTERNS_ONLY.text(name) == name
    return mark if plain and not any(literal in mark for literal in literals) else MARK


def _signs(literals: list[str]) -> _Signs:
    """A literal that has a long word is looked for among long words, by that word; any other everywhere."""
    words = {literal: max(long_words(literal).split(" "), key=len) for literal in literals}
    anywhere = {literal for literal, word in words.items() if not word} | {pattern.needed for pattern in FRAMED}
    in_words = {word for word in words.values() if word} | {pattern.needed for pattern in WORDS}
    return _Signs(tuple(sorted(anywhere)), tuple(sorted(in_words)))


PATTERNS_ONLY = Redactor()
