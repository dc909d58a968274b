"""The real command, started as a user starts it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Awf = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = str(Path(sys.executable).with_name("awf"))


@pytest.fixture
def awf(tmp_path: Path) -> Awf:
    """Run `awf` in an empty directory with an empty home."""

    def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        return subprocess.run(
            [COMMAND, *arguments],
            cwd=cwd or tmp_path,
            env={"PATH": os.environ["PATH"], "HOME": str(home), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    return run
