"""Playwright and a Chromium, which only these tests need; without them the tests are skipped, or fail if required."""

import importlib
import os
import shutil
from typing import Any, NoReturn

import pytest

REQUIRED = "AWF_REQUIRED_BROWSER"  # when set, a missing one is a failure
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def sync_api() -> Any:
    """Playwright; without it the calling test module is skipped."""
    try:
        return importlib.import_module("playwright.sync_api")
    except ModuleNotFoundError:
        _missing("Playwright for Python is not installed")


def program() -> str:
    """The Chromium on PATH."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name))), None)
    return found or _missing(f"none of {', '.join(PROGRAMS)} is on PATH")


def _missing(reason: str) -> NoReturn:
    message = f'{reason}; "make test-web" installs it'
    if os.environ.get(REQUIRED):
        pytest.fail(message)
    pytest.skip(message, allow_module_level=True)
