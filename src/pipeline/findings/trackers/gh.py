"""GitHub's own program, `gh`: started without a shell, with a time limit, and with few variables.

No text from outside is ever a word of its own in a command: it goes in after an `=`, or on the standard input.
"""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.backends.environment import child_environment

PROGRAM = "gh"
SECONDS = 60.0
_VARIABLES = (
    *("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_CONFIG_DIR"),
    "DBUS_SESSION_BUS_ADDRESS",  # a login may be kept in the desktop's keyring
)
_QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "GH_PAGER": "cat"}
_REASON = 400  # characters


@dataclass(frozen=True, slots=True)
class Reply:
    """How a command ended: what it said, and why it failed, if it did."""

    out: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Gh:
    """The program in one directory."""

    directory: Path
    environ: Mapping[str, str]
    seconds: float = SECONDS

    def run(self, *arguments: str, stdin: str = "") -> Reply:
        """Run it to its end; a command that cannot be run is a failure too."""
        try:
            process = subprocess.Popen(
                [PROGRAM, *arguments],
                cwd=self.directory,
                env={**child_environment(self.environ, extra_names=_VARIABLES), **_QUIET},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except FileNotFoundError:
            return Reply(failure=f"the program {PROGRAM} was not found")
        except (OSError, ValueError) as error:
            return Reply(failure=f"{PROGRAM} could not be started: {error}")
        return self._seen_through(process, stdin)

    def _seen_through(self, process: "subprocess.Popen[bytes]", stdin: str) -> Reply:
        with process:
            try:
                out, err = process.communicate(stdin.encode(errors="replace"), timeout=self.seconds)
            except subprocess.TimeoutExpired:
                return Reply(failure=f"{PROGRAM} gave no answer within {self.seconds:g} s")
            finally:
                _kill(process)  # whatever is left of it, also when we are interrupted
        return _reply(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _reply(code: int, out: str, err: str) -> Reply:
    if code == 0:
        return Reply(out)
    words = " ".join((err.strip() or out.strip() or f"{PROGRAM} ended with code {code}").split())
    return Reply(out, words[:_REASON])
