"""The context's remaining values: whatever has no section of its own and is no bookkeeping of the engine."""

from collections.abc import Iterable
from functools import lru_cache

from pipeline.engine.bookkeeping import SHOWN
from pipeline.engine.context import Context, Key, is_private
from pipeline.summary import fence
from pipeline.summary.budget import Part, line, quoted, worth

_KEY = 120
_SHORT = 200  # characters of a value that stands beside its key
_LONGEST = 4_000  # characters of a value that are shown
_ELSEWHERE = ("graph.", "human.", "workspace.", "last_")


def values(context: Context, shown: Iterable[str], room: float) -> tuple[list[Part], int]:
    """Keys and values, sorted, as many as there may be room for, and how many there are besides.

    Texts that are `shown` already are left out. A long text that two keys hold stands once.
    """
    reported = {text[:SHOWN] for text in shown if text.strip()}
    keys = sorted(filter(is_listed, context))
    if reported:
        keys = [key for key in keys if fence.as_text(context.get(key))[:SHOWN] not in reported]
    known: dict[str, str] = {}
    parts: list[Part] = []
    for key in keys:
        if room < 0:
            break
        text = fence.as_text(context.get(key))
        parts.append(_part(key, text, known.setdefault(text, key)))
        room -= worth(parts[-1])
    return parts, len(keys) - len(parts)


@lru_cache(maxsize=50_000)  # all keys of a run come again with every prompt
def is_listed(key: str) -> bool:
    """Whether a key is neither private, nor the engine's bookkeeping, nor shown in a section of its own."""
    if is_private(key) or key in (Key.FINDINGS, Key.CHOSEN, Key.OUTCOME) or key.startswith(_ELSEWHERE):
        return False
    return not key.endswith(".status") and ".usage." not in key


def _part(key: str, text: str, first: str) -> Part:
    if len(text) <= _SHORT:
        return _short_value(key, text)
    if first == key:
        return _value(key, text)
    return line(f"- {fence.flat(key, _KEY)}: the same as {fence.flat(first, _KEY)}")


def _value(key: str, text: str) -> Part:
    name, text = fence.flat(key, _KEY), fence.clean(text)
    if "\n" in text or len(text) > _SHORT:
        return quoted(f"- {name}:", text, _LONGEST)
    return line(f"- {name}: {fence.flat(text, 2 * _SHORT) or '(empty)'}")


_short_value = lru_cache(maxsize=5_000)(_value)  # most values are short, and come again with every prompt of a run
