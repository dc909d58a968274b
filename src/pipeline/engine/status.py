"""How a visit ended, in one word."""

from enum import StrEnum


class Status(StrEnum):
    """How a visit ended."""

    SUCCESS = "success"
    FAIL = "fail"
    PARTIAL_SUCCESS = "partial_success"  # it did part of the work
    RETRY = "retry"  # it got nowhere, but another attempt may
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    ERROR = "error"  # the stage could not do its job, so nothing is known; never recorded as a visit's result

    @property
    def passes(self) -> bool:
        """Whether it satisfies a goal gate."""
        return self in (Status.SUCCESS, Status.PARTIAL_SUCCESS)
