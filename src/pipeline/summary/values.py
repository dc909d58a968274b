"""The context's remaining values: whatever has no section of its own and is no bookkeeping of the engine."""

from collections.abc import Iterable, Iterator

from pipeline.engine.bookkeeping import SHOWN
from pipeline.engine.context import Context, Key, is_private
from pipeline.summary import fence
from pipeline.summary.budget import Part, line, quoted

_KEY = 120
_SHORT = 200  # characters of a value that stands beside its key
_LONGEST = 4_000  # characters of a value that are shown
_ELSEWHERE = ("graph.", "human.", "workspace.", "last_")


def values(context: Context, shown: Iterable[str]) -> Iterator[Part]:
    """Keys and values, sorted, without the texts that are shown already. A long text that two keys hold stands once."""
    reported = {text[:SHOWN] for text in shown}
    known: dict[str, str] = {}
    for key in sorted(filter(is_listed, context)):
        text = fence.as_text(context.get(key))
        if text.strip() and text[:SHOWN] in reported:
            continue
        first = known.setdefault(text, key)
        yield _same(key, first) if first != key and len(text) > _SHORT else _value(key, text)


def is_listed(key: str) -> bool:
    """Whether a key is neither private, nor the engine's bookkeeping, nor shown in a section of its own."""
    if is_private(key) or key in (Key.FINDINGS, Key.CHOSEN, Key.OUTCOME) or key.startswith(_ELSEWHERE):
        return False
    return not key.endswith(".status") and ".usage." not in key


def _same(key: str, first: str) -> Part:
    return line(f"- {fence.flat(key, _KEY)}: the same as {fence.flat(first, _KEY)}")


def _value(key: str, text: str) -> Part:
    name, text = fence.flat(key, _KEY), fence.clean(text)
    if "\n" in text or len(text) > _SHORT:
        return quoted(f"- {name}:", text, _LONGEST)
    return line(f"- {name}: {fence.flat(text, 2 * _SHORT) or '(empty)'}")
