"""Whether a directory still holds what it held, at the price of one look at the directory itself."""

import os
import time

_SETTLED = 1_000_000_000  # nanoseconds: a directory changed later than that before a look may change again unseen


class Listing:
    """Remembers how a directory was when its entries were last checked. In doubt they have changed."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._checked: tuple[int, int, int] | None = None

    def unchanged(self) -> bool:
        """Whether nothing was added, removed or renamed in it since `checked`."""
        return self._checked is not None and self._looked() == self._checked

    def checked(self) -> None:
        """Its entries are about to be looked at, and will be found as they should be."""
        seen = self._looked()
        self._checked = seen if seen and time.time_ns() - seen[2] > _SETTLED else None

    def _looked(self) -> tuple[int, int, int] | None:
        try:
            status = os.stat(self._directory)  # noqa: PTH116 - asked at every stage, and a path would cost more
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns
