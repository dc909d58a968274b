"""Measure every Python process of one environment, whatever environment variables a test gives it.

`make coverage` makes that environment from `.venv` and has this module loaded at the start of each interpreter in it.
"""

import os
import site
import sys
import sysconfig
from pathlib import Path

ROOT = Path(sys.prefix).parent
PACKAGES = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)

site.addsitedir(str(ROOT / ".venv" / PACKAGES))

import coverage  # noqa: E402 - it is among the packages that the line above brings in

ASKED = {
    "COVERAGE_PROCESS_START": str(ROOT / "pyproject.toml"),
    "COVERAGE_FILE": str(ROOT / ".measured" / "data"),
    "MEASURED_ROOT": str(ROOT),
}
os.environ.update(ASKED)
coverage.process_startup()
for name in ASKED:
    del os.environ[name]  # what the process sees is what it was given
