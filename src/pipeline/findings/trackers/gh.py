"""GitHub's own program, `gh`: started without a shell, with a time limit, and with few variables.

No text from outside is ever a word of its own in a command: it goes in after an `=`, or on the standard input.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.backends.environment import child_environment
from pipeline.backends.process import run_program

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
            done = run_program(
                [PROGRAM, *arguments],
                cwd=self.directory,
                env={**child_environment(self.environ, extra_names=_VARIABLES), **_QUIET},
                stdin=stdin.encode(errors="replace"),
                timeout=self.seconds,
            )
        except FileNotFoundError:
            return Reply(failure=f"the program {PROGRAM} was not found")
        except TimeoutError:
            return Reply(failure=f"{PROGRAM} gave no answer within {self.seconds:g} s")
        except OSError as error:
            return Reply(failure=f"{PROGRAM} could not be started: {error.strerror}")
        return _reply(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _reply(code: int, out: str, err: str) -> Reply:
    if code == 0:
        return Reply(out)
    words = " ".join((err.strip() or out.strip() or f"{PROGRAM} ended with code {code}").split())
    return Reply(out, words[:_REASON])
