"""The demo's project: a shop's stock in a few files, with tests and a checker of its own, in a git repository."""

import os
import shlex
import sys
from pathlib import Path

from pipeline.backends.git import git_in
from pipeline.errors import AwfError

GOAL = "Add report.py: the stock in pages, its mean price, and the articles that match a condition"

_AUTHOR = (
    *("-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "init.defaultBranch=main"),
    *("-c", "core.autocrlf=false"),
)
_SECONDS = 60.0  # for one git command
_README = """\
# A small shop

`stock.py` reads what is in stock. `.awf/self-check` runs the unit tests and `check.py`.
"""
_STOCK = '''\
"""Reads what the shop has in stock."""


def read_stock(path):
    """The articles of a file with their prices: a name and a price on each line."""
    return dict(_article(line) for line in open(path))


def _article(line):
    name, price = line.split()
    return name, float(price)
'''
_TEST_STOCK = """\
import pathlib
import tempfile
import unittest

import stock


class ReadStock(unittest.TestCase):
    def test_every_line_is_an_article(self):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "stock.txt")
            path.write_text("pen 2\\nbook 12.5\\n")
            self.assertEqual(stock.read_stock(path), {"pen": 2.0, "book": 12.5})
"""
_TEST_REPORT = """\
import unittest

import report


class Pages(unittest.TestCase):
    def test_full_pages(self):
        self.assertEqual(report.pages(["a", "b", "c", "d"], 2), [["a", "b"], ["c", "d"]])

    def test_the_last_line_is_kept(self):
        self.assertEqual(report.pages(["a", "b", "c"], 2), [["a", "b"], ["c"]])


class Matching(unittest.TestCase):
    def test_by_price(self):
        self.assertEqual(report.matching({"pen": 2.0, "book": 12.5}, "price < 10"), ["pen"])
"""
_CHECK = '''\
"""A checker of this project: every file that is opened must be closed, whatever happens."""

import ast
import pathlib
import sys


def unclosed(path):
    """The lines of a module that open a file outside a `with`."""
    tree = ast.parse(path.read_text())
    managed = {id(item.context_expr) for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "open" and id(node) not in managed:
            yield f"{path}:{node.lineno}: the file opened here is never closed"


problems = [problem for path in sorted(pathlib.Path().glob("*.py")) for problem in unclosed(path)]
print("\\n".join(problems) or "check.py: no problems")
sys.exit(1 if problems else 0)
'''
_SELF_CHECK = """\
#!/bin/sh
# Both run, whatever the first says: whoever repairs should see everything at once.
{python} -B -m unittest; tests=$?
{python} -B check.py; check=$?
exit $((tests | check))
"""
_FILES = {
    "README.md": _README,
    "stock.py": _STOCK,
    "test_stock.py": _TEST_STOCK,
    "test_report.py": _TEST_REPORT,
    "check.py": _CHECK,
    ".gitignore": "__pycache__/\n.awf/*\n!.awf/self-check\n",
    ".awf/self-check": _SELF_CHECK.format(python=shlex.quote(sys.executable)),
}


def make_project(directory: Path) -> None:
    """Write the project into an empty directory and commit it."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise AwfError(f'"{directory}" is not an empty directory', help="name one that is not there yet")
    for name, text in _FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (directory / ".awf/self-check").chmod(0o755)
    git(directory, "init", "--quiet")
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "Read the stock")


def git(directory: Path, *arguments: str) -> str:
    """What a git command in the project prints."""
    try:
        done = git_in(directory, os.environ).run_sync(*arguments, timeout=_SECONDS, options=_AUTHOR)
    except FileNotFoundError:
        raise AwfError("git was not found", help="the demo needs git and nothing else") from None
    except TimeoutError:
        raise AwfError(f"git {arguments[0]} took longer than {_SECONDS:.0f} seconds") from None
    if done.returncode:
        raise AwfError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(errors="replace")
