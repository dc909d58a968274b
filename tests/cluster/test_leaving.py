"""How a command that has spoken to a server ends."""

import subprocess
import sys

PROGRAM = """
import atexit, sys, threading
import temporalio.client
from pipeline.cli.main import main

atexit.register(print, "taken apart")
threading.Thread(target=threading.Event().wait).start()  # as one of the library's that is still at something
sys.argv = ["awf", *sys.argv[1:]]
main()
"""


def test_no_thread_of_the_library_changes_the_exit_code() -> None:
    """The interpreter is not taken apart while threads may be in it; all that was printed is there, and the code."""
    for words, code, told in (("--version",), 0, "awf "), (("why", "--store", "nowhere"), 2, "error"):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, "taken apart" in done.stdout) == (code, False)
        assert told in done.stdout + done.stderr.lower()
