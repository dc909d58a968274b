"""A real Chromium that looks at a real `awf serve`. Where either is missing the tests are skipped, unless required.

A page may say nothing wrong: whatever a test is about, an error on the console, a script that fails, a dialog of the
browser and a breach of the page's policy make it fail.
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
    "--no-sandbox",  # a container's root may not make one; only pages of this machine are opened
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


def surroundings(home: Path) -> dict[str, str]:
    """The environment of a command that is to find no settings but those of the test."""
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
            env=surroundings(tmp_path),
            timeout=60,
        )
        assert done.returncode in codes, done.stderr
        return done

    return run


@pytest.fixture
def visit(chromium: "Browser", tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Open the dashboard of the test's directory in a window of its own: `visit("/findings", width=400)`."""
    addresses: dict[tuple[str, ...], str] = {}
    visitors: list[Visitor] = []
    with ExitStack() as stack:

        def opened(path: str = "/runs", *options: str, width: int = 1280, **context: Any) -> Visitor:
            if options not in addresses:
                _, addresses[options] = stack.enter_context(serving_at(tmp_path, "--port", "0", *options))
            window = chromium.new_context(viewport={"width": width, "height": 800}, **context)
            stack.callback(window.close)
            visitor = Visitor(window.new_page(), addresses[options])
            visitors.append(visitor)
            visitor.enter(path)
            return visitor

        yield opened
        if request.node.stash.get(_FAILED, False):
            for number, visitor in enumerate(visitors, 1):
                picture = tmp_path / f"failure-{number}.png"
                visitor.page.screenshot(path=picture, full_page=True)
                print(f"What the browser showed: {picture}")  # noqa: T201 - pytest shows it with the failure
        assert [wrong for visitor in visitors for wrong in visitor.wrong] == []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep whether a test failed, for the picture of what it saw."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report
