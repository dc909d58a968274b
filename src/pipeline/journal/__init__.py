"""The durable history of runs behind the `Journal` port, and the names that runs have in it."""

import re
from datetime import UTC, datetime, timedelta

from pipeline.engine.errors import RunExists
from pipeline.errors import AwfError

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # in ASCII order; without i, l, o and u
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_run_id(milliseconds: int, random: bytes) -> str:
    """Return a name for a run started this many milliseconds after 1970, such as `20261116-083012-4f7kq`.

    Names sort by time.
    """
    seconds, rest = divmod(milliseconds, 1000)
    digits = [_DIGITS[rest >> 5 & 31], _DIGITS[rest & 31]]
    digits += [_DIGITS[int.from_bytes(random) >> shift & 31] for shift in (10, 5, 0)]
    return f"{_EPOCH + timedelta(seconds=seconds):%Y%m%d-%H%M%S}-{''.join(digits)}"


def check_run_id(run_id: str) -> None:
    """Reject a name that is not safe in paths, git refs and shells."""
    if _RUN_ID.fullmatch(run_id) and ".." not in run_id and not run_id.endswith((".", ".lock")):
        return
    raise AwfError(
        f"{run_id!r:.100} is not a valid run name",
        help='use up to 64 of a-z, A-Z, 0-9, ".", "_" and "-", starting with a letter or digit; '
        'no "..", and no "." or ".lock" at the end',
    )


def run_exists(run_id: str) -> RunExists:
    """Return the error for a new run whose name is taken."""
    help = f"choose another name with --run-id, or continue that run: awf resume {run_id}"
    return RunExists(f"run {run_id} already exists", help=help)
