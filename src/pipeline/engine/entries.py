"""Lists that grow: one that grew out of another shares with it what they have in common.

A run adds to its list of reports with every review that fails. To copy the list each time would cost a stage more the
longer the run is.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, overload


class Entries(Sequence[Any]):
    """The first so many items of a list that others share, which only ever gets longer."""

    __slots__ = ("_count", "shared")

    def __init__(self, shared: list[Any], count: int) -> None:
        self.shared = shared
        self._count = count

    def plus(self, item: Any) -> "Entries":
        """These and one more."""
        shared, count = self.shared, self._count
        if count == len(shared):
            shared.append(item)
        if shared[count] is not item:  # somebody else has gone on from here, maybe just now and in another thread
            shared = [*shared[:count], item]
        return Entries(shared, count + 1)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return islice(self.shared, self._count)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        place = range(self._count)[index]
        return self.shared[place] if isinstance(place, int) else [self.shared[at] for at in place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entries | list):
            return NotImplemented
        return len(self) == len(other) and all(own == its for own, its in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as that of a list

    def __repr__(self) -> str:
        return repr(list(self))


def only_added(before: Sequence[Any], after: Sequence[Any]) -> bool:
    """Whether a list is known to be another with something added, or nothing. None of the items is looked at."""
    if not before or after is before:
        return True
    shares = isinstance(before, Entries) and isinstance(after, Entries) and after.shared is before.shared
    return shares and len(after) >= len(before)
