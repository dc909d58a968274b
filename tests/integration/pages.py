"""Pages of the documentation as tests read them: the files they show, the commands they give, and what these print."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.integration.conftest import COMMAND

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ANYTHING = "..."  # in an output: any lines, or none

_FENCED = re.compile(r"^(?P<fence>`{3,})(?P<language>\w*)\n(?P<text>.*?)^(?P=fence)$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`([^`\s]+)`:$")
_VARYING = (  # what is another one at every run, and what stands in its place
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?s\b"), "SECONDS"),
    (re.compile(r"^.*\bKilled\b.*$"), "Killed"),  # a shell without a terminal says more
    (re.compile(r"\bfnd_[0-9a-f]{8}\b"), "FINDING"),
    (re.compile(r"\bREV-\d+-[0-9a-z]+"), "PASS"),
    (re.compile(r"\s+"), " "),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code, with the name of the file it is when the words before it say so."""

    language: str
    text: str
    name: str


@dataclass(frozen=True, slots=True)
class Step:
    """A command, and the lines it prints."""

    command: str
    output: tuple[str, ...]


def blocks(text: str) -> list[Block]:
    """The blocks of a page, or of a part of one. A line before a block that ends in `name`: names a file."""
    return [
        Block(found["language"], found["text"], _name(text[: found.start()].rstrip()))
        for found in _FENCED.finditer(text)
    ]


def files(text: str) -> dict[str, str]:
    """The files that a page tells its reader to write."""
    return {block.name: block.text for block in blocks(text) if block.name and block.language != "console"}


def table_rows(page: Path) -> list[list[str]]:
    """The rows of all tables of a page, without their headings."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    rules = [number for number, row in enumerate(cells) if set("".join(row)) <= set("-: ")]
    return [row for number, row in enumerate(cells) if number not in rules and number + 1 not in rules]


def named_tests(cell: str) -> list[str]:
    """The tests that a cell names, each of which must be a function in the file that is named."""
    links: list[tuple[str, str]] = re.findall(r"`(tests/\w+/\w+\.py)::(test_\w+)`", cell)
    for file, name in links:
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"
    return [name for _, name in links]


def steps(text: str) -> list[Step]:
    """The commands of a page in their order."""
    return [step for block in blocks(text) if block.language == "console" for step in _steps(block.text)]


def sections(text: str) -> dict[str, str]:
    """The second-level sections of a page by their titles."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def follow(text: str, here: Path, home: Path) -> None:
    """Write the files of a page, run its commands one after the other, and find that each prints what is shown."""
    for name, content in files(text).items():
        (here / name).write_text(content)
    for step in steps(text):
        printed = _printed(step.command, here, home)
        assert alike(step.output, printed.splitlines()), f"$ {step.command}\n{printed}"


def alike(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether a program printed what a page shows, but for times, names made by chance and what is left out."""
    pattern = "".join(r"(?:.*\n)*?" if line == ANYTHING else re.escape(plain(line)) + r"\n" for line in shown)
    return re.fullmatch(pattern, "".join(f"{plain(line)}\n" for line in printed)) is not None


def plain(line: str) -> str:
    """A line without what is another one at every run."""
    for pattern, instead in _VARYING:
        line = pattern.sub(instead, line)
    return line.rstrip()


def _printed(command: str, here: Path, home: Path) -> str:
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=here,
        env={"PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}", "HOME": str(home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    return done.stdout


def _name(before: str) -> str:
    found = _NAMED.search(before)
    return found[1] if found else ""


def _steps(text: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield Step(command, tuple(output.rstrip("\n").splitlines()))
