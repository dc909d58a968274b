"""How much of a report's response is shown: all of it, its beginning and end, or where it stands."""

from dataclasses import dataclass

from pipeline.summary import fence

SMALLEST = 160  # characters of an excerpt below which the place alone is given


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a response."""

    text: str
    whole: bool


def least(response: str, path: str) -> Shown:
    """The shortest way to show a response: whole when it is tiny, else where it stands."""
    pointer = left_out(len(response), path)
    if len(response) > len(pointer):
        return Shown(pointer, whole=False)
    whole = _whole(fence.clean(response))
    return Shown(whole, whole=True) if len(whole) <= len(pointer) else Shown(pointer, whole=False)


def fitting(response: str, room: int, path: str, shortest: Shown) -> Shown:
    """As much of a response as fits. There is room for the shortest way."""
    if shortest.whole or room < min(len(shortest.text) + SMALLEST, len(response)):
        return shortest
    text = fence.clean(response)
    whole = _whole(text)
    if len(whole) <= room:
        return Shown(whole, whole=True)
    excerpt = _excerpt(text, room, path)
    return Shown(excerpt, whole=False) if excerpt else shortest


def left_out(characters: int, path: str) -> str:
    """What stands in the place of a response, or of its middle."""
    return f"[... {characters:,} characters left out; whole text in {path}]"


def _whole(text: str) -> str:
    return fence.quote(text) if text else ""


def _excerpt(text: str, room: int, path: str) -> str:
    """Two fences, with the note between them, where no response can write one."""
    left = room - len(left_out(len(text), path)) - 4
    if left < SMALLEST:
        return ""
    head = _to_line_end(fence.beginning(text, left * 2 // 3))
    tail = _from_line_start(fence.ending(text[len(head) + 1 :], left - len(fence.quote(head))))
    middle = left_out(len(text) - len(head) - len(tail), path)
    return f"{fence.quote(head)}\n\n{middle}\n\n{fence.quote(tail)}"


def _to_line_end(text: str) -> str:
    """The text without its last, broken line, where that costs little."""
    end = text.rfind("\n")
    return text[:end] if end > len(text) * 3 // 4 else text


def _from_line_start(text: str) -> str:
    start = text.find("\n") + 1
    return text[start:] if start < len(text) // 4 else text
