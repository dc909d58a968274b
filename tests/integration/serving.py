"""`awf serve` in a process of its own."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.conftest import COMMAND


@contextmanager
def serving_at(directory: Path, *options: str, **environ: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command in a process of its own, and the address that it printed."""
    process = subprocess.Popen(
        [COMMAND, "serve", *options],
        cwd=directory,
        env={"PATH": os.environ["PATH"], "HOME": str(directory), **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()
