"""The reference is what the program is: parts made from it are never stale, and links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.pages import DOCS, ROOT

PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_CODE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)


def test_generated_parts_are_up_to_date() -> None:
    """What a page says of stages, settings, rules and commands is what is there now; `make docs` mends it."""
    done = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link to a file, or to a heading in one, has its target."""
    text = _CODE.sub("", page.read_text())
    inside = [link for link in _LINK.findall(text) if not link.startswith(("http:", "https:"))]
    assert [link for link in inside if not _is_there(page, link)] == []


def _is_there(page: Path, link: str) -> bool:
    name, _, heading = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not heading:
        return target.exists()
    return target.is_file() and heading in _anchors(_CODE.sub("", target.read_text()))


def _anchors(text: str) -> set[str]:
    """The headings of a page as links name them."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in _HEADING.findall(text)}
