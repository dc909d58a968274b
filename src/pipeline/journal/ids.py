"""Names of runs: readable, in the order of time, and safe in paths, git refs and shells."""

import re
from datetime import UTC, datetime, timedelta

from pipeline.engine.ports import RunExists
from pipeline.errors import AwfError

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # in the order of ASCII; without i, l, o and u
_VALID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_run_id(milliseconds: int, random: bytes) -> str:
    """A name for a run begun so many milliseconds after 1970, such as `20261116-083012-4f7kq`."""
    seconds, rest = divmod(milliseconds, 1000)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment:%Y%m%d-%H%M%S}-{_written(rest, 2)}{_written(int.from_bytes(random), 3)}"


def _written(number: int, length: int) -> str:
    return "".join(_DIGITS[number >> 5 * place & 31] for place in reversed(range(length)))


def check_run_id(run_id: str) -> None:
    """Refuse a name that is not safe everywhere a run's name is used."""
    if _VALID.fullmatch(run_id) and ".." not in run_id and not run_id.endswith((".", ".lock")):
        return
    raise AwfError(
        f"{run_id!r:.100} cannot be the name of a run",
        help='use up to 64 of a-z, A-Z, 0-9, ".", "_" and "-", the first a letter or a digit; '
        'no "..", and neither "." nor ".lock" at the end',
    )


def run_exists(run_id: str) -> RunExists:
    """What to say when a run is to be begun and there is one of its name."""
    help = f"choose another name with --run-id, or go on with that one: awf resume {run_id}"
    return RunExists(f"there is already a run {run_id}", help=help)
