"""Lists that grow: one that grew out of another shares with it what they have in common.

A run adds to its list of reports with every review that fails. To copy the list each time would cost a stage more the
longer the run is.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from threading import Lock
from typing import Any, overload

_GROWING = Lock()  # two threads may add to what they share


class Entries(Sequence[Any]):
    """The first so many items of a list that others share, which only ever gets longer."""

    __slots__ = ("_count", "_shared")

    def __init__(self, items: list[Any]) -> None:
        self._shared = items
        self._count = len(items)

    def plus(self, item: Any) -> "Entries":
        """These and one more."""
        with _GROWING:
            alone = self._count == len(self._shared)  # else somebody has gone on from here in another way
            shared = self._shared if alone else self._shared[: self._count]
            shared.append(item)
            return Entries(shared)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return islice(self._shared, self._count)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        place = range(self._count)[index]
        return self._shared[place] if isinstance(place, int) else [self._shared[at] for at in place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries | list):
            return NotImplemented
        return len(self) == len(other) and all(own == its for own, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as that of a list

    def __repr__(self) -> str:
        return repr(list(self))
