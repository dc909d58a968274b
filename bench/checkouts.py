"""What it costs that agents without write access have a checkout of their own, in a large repository.

Once per run all files are written; at the beginning of each later round, what changed. Beside it, what git takes to
list the changes of the same repository.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.app.reading import BorrowedCheckout
from pipeline.findings.git import TreeSnapshots

USUAL, SMALLEST = 50_000, 200  # files
PER_FOLDER = 100
TEXT = "value = 1\n" * 40


@contextmanager
def repository(files: int) -> Iterator[tuple[Path, dict[str, str]]]:
    """Make a repository with that many files in one commit, and an environment for git."""
    with tempfile.TemporaryDirectory(prefix="awf-bench-") as name:
        root, environ = Path(name, "project"), {"PATH": os.environ["PATH"], "HOME": name}
        for number in range(files):
            file = root / f"folder{number // PER_FOLDER}" / f"file{number % PER_FOLDER}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"# {number}\n{TEXT}")
        identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
        for words in (("init", "--quiet"), ("add", "--all"), (*identity, "commit", "--quiet", "--message", "all")):
            subprocess.run(["git", *words], cwd=root, env=environ, check=True)
        yield root, environ


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder, without git's own."""
    return sum(file.stat().st_size for file in folder.rglob("*.py"))


def measure(files: int) -> None:
    """Measure two rounds of one run, and print them."""
    with repository(files) as (root, environ):
        store = root / ".awf"
        checkout = BorrowedCheckout(store / "checkouts/run", environ)

        def show() -> None:
            taken = TreeSnapshots(environ, store).take(root)
            checkout.show(root, taken.head, taken.tree)

        def status() -> None:
            subprocess.run(["git", "status", "--porcelain"], cwd=root, env=environ, check=True, capture_output=True)

        (root / "folder0/file0.py").write_text("changed = 1\n")
        first = seconds(show)
        (root / "folder0/file1.py").write_text("changed = 2\n")
        later, noticed, listed = seconds(show), seconds(checkout.written), seconds(status)
        size = size_of(checkout.path) / 2**20
        removed = seconds(checkout.remove)
        shutil.rmtree(store)
    print(f"{files:,} files, {size:.0f} MB")
    print(f"first round {first:6.2f} s\nlater round {later:6.2f} s\nwhat was written {noticed:6.2f} s")
    print(f"removed     {removed:6.2f} s\ngit status  {listed:6.2f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smallest", action="store_true", help="a few files, to see that it works")
    measure(SMALLEST if parser.parse_args().smallest else USUAL)


if __name__ == "__main__":
    main()
