"""What these tests need beside the others: Playwright and a Chromium. What is missing is said, and skips or fails."""

import importlib
import os
import shutil
from typing import Any, NoReturn

import pytest

REQUIRED = "AWF_REQUIRED_BROWSER"  # when set, nothing may be missing
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def sync_api() -> Any:
    """Playwright, for modules of tests: without it they are skipped as a whole."""
    try:
        return importlib.import_module("playwright.sync_api")
    except ModuleNotFoundError:
        _missing("Playwright for Python is not installed")


def program() -> str:
    """The Chromium on PATH."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    return found or _missing(f"none of {', '.join(PROGRAMS)} is on PATH")


def _missing(reason: str) -> NoReturn:
    told = f'{reason}; "make test-web" installs it'
    if os.environ.get(REQUIRED):
        pytest.fail(told)
    pytest.skip(told, allow_module_level=True)
