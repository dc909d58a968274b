"""A real Chromium at a real `awf serve`. If Playwright or Chromium is missing, the tests are skipped unless required.

Whatever a test is about, it fails after an error on the console, a script error, a browser dialog or a violation of
the content policy.
"""

import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.conftest import COMMAND
from tests.integration.serving import serving_at
from tests.web.needed import program, sync_api
from tests.web.visitor import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

QUIET = (
    "--no-sandbox",  # not available to root in a container; only pages of this machine are opened
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_FAILED = pytest.StashKey[bool]()

Awf = Callable[..., subprocess.CompletedProcess[str]]
Open = Callable[..., Visitor]


@pytest.fixture(scope="session")
def chromium() -> Iterator["Browser"]:
    """The browser, started once."""
    with sync_api().sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program(), args=list(QUIET))
        yield browser
        browser.close()


def command_environment(home: Path) -> dict[str, str]:
    """The environment of a command, without the settings of the user."""
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


@pytest.fixture
def awf(tmp_path: Path) -> Awf:
    """Run `awf` in the project that is served."""

    def run(*arguments: str, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [COMMAND, *arguments],
            check=False,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=command_environment(tmp_path),
            timeout=60,
        )
        assert done.returncode in codes, done.stderr
        return done

    return run


@pytest.fixture
def visit(chromium: "Browser", tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open the dashboard of the test's directory in a new window: `visit("/findings", width=400)`."""
    addresses: dict[tuple[str, ...], str] = {}
    visitors: list[Visitor] = []
    with ExitStack() as stack:

        def open_page(path: str = "/runs", *options: str, width: int = 1280, **context: Any) -> Visitor:
            if options not in addresses:
                _, addresses[options] = stack.enter_context(serving_at(tmp_path, "--port", "0", *options))
            window = chromium.new_context(viewport={"width": width, "height": 800}, **context)
            stack.callback(window.close)
            visitor = Visitor(window.new_page(), addresses[options])
            visitors.append(visitor)
            visitor.enter(path)
            return visitor

        yield open_page
        if request.node.stash.get(_FAILED, False):
            for number, visitor in enumerate(visitors, 1):
                screenshot = tmp_path / f"failure-{number}.png"
                visitor.page.screenshot(path=screenshot, full_page=True)
                print(f"Screenshot: {screenshot}")  # noqa: T201 - pytest shows it with the failure
        assert [problem for visitor in visitors for problem in visitor.problems] == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember whether a test failed, for its screenshots."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report
