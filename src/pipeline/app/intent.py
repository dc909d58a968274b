"""What a change is meant to do, and by which rules: its commit messages, and the project's own instructions."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from pipeline.findings.git import GitRefusedError, run_git

RULES = ("AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md", "REVIEW.md")
_MAX_COMMITS = 50
_MAX_FILE = 256 * 1024  # bytes; nobody writes rules as long as that


def commit_messages(root: Path, environ: Mapping[str, str], base: str) -> tuple[str, ...]:
    """Return the messages of the commits since a base, the oldest first; none if git cannot tell."""
    log = ("log", "--reverse", f"--max-count={_MAX_COMMITS}", "--format=%B%x00", f"{base}..HEAD")
    try:
        found = run_git(root, environ, *log)
    except GitRefusedError:
        return ()
    return tuple(message.strip() for message in found.split("\0") if message.strip())


def rules_for(root: Path, changed: Iterable[str]) -> dict[str, str]:
    """Return the rules that are nearest to changed files, by their paths from the root: those of most files first.

    Rules that are changed themselves may have been written to please a reviewer, and are marked.
    """
    names, counts = set(changed), dict[str, int]()
    for name in names:
        for path in _nearest(root, name):
            counts[path] = counts.get(path, 0) + 1
    paths = sorted(counts, key=lambda path: (-counts[path], path))
    texts = {path: _read(root / path) for path in paths}
    return {f"{path} (part of this change)" if path in names else path: text for path, text in texts.items() if text}


def _nearest(root: Path, name: str) -> Iterator[str]:
    """Yield of each kind of rules the path of the file that is nearest to another file."""
    folders = [str(folder) for folder in PurePosixPath(name).parents]
    for rules in RULES:
        candidates = (f"{folder}/{rules}".removeprefix("./") for folder in folders)
        path = next((path for path in candidates if (root / path).is_file()), "")
        if path:
            yield path


def _read(path: Path) -> str:
    try:
        is_usual = not path.is_symlink() and path.stat().st_size <= _MAX_FILE
        return path.read_text(encoding="utf-8", errors="replace").strip() if is_usual else ""
    except OSError:
        return ""
