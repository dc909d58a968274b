"""Paths of claims: what is one of the repository, and what is refused."""

import os
from pathlib import Path

import pytest

from pipeline.findings.evidence import LARGEST, MemoryFiles, RepositoryFiles
from pipeline.findings.normalize import LONGEST, PathRefused, normalise


@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src\\win\\a.py", "src/win/a.py"),
        ("src/x/../a.py", "src/a.py"),
        ("src/", "src"),
        (".", "."),
        ("Src/A.py", "Src/A.py"),
        ("TASK-42", "TASK-42"),
        ("src/~x", "src/~x"),
    ],
)
def test_a_path_is_written_one_way(path: str, normal: str) -> None:
    """000-34: posix, from the root, without detours, and case counts."""
    assert normalise(path) == normal


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../../etc/passwd", "leads out"),
        ("src/../../x", "leads out"),
        ("..\\..\\x", "leads out"),
        ("/etc/passwd", "absolute"),
        ("C:\\windows", "absolute"),
        ("file:///etc/passwd", "absolute"),
        ("~/.ssh/id", "absolute"),
        ("src/a\0.py", "no text has"),
        ("a\x1b[31m.py", "no text has"),
        ("\ud800", "no text has"),
        (" ", "empty"),
        ("a" * (LONGEST + 1), "longer"),
    ],
)
def test_a_path_outside_is_refused_with_the_reason(path: str, reason: str) -> None:
    """000-37: escaping, absolute or impossible paths; the reason is one short line whatever the path holds."""
    refused = normalise(path)
    assert isinstance(refused, PathRefused)
    assert reason in refused.reason
    assert refused.reason.isprintable()
    assert len(refused.reason) < 250


def test_a_work_item_may_be_an_address() -> None:
    """000-36: a requirement's path is the id of a work item; for code an address is no file of the repository."""
    assert normalise("https://tracker/TASK-1", work_item=True) == "https://tracker/TASK-1"
    assert normalise("https://tracker/TASK-1") == "https:/tracker/TASK-1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (tmp_path / "secret").write_text("password\n")
    (tmp_path / "repository-2").mkdir()
    (tmp_path / "repository-2" / "x").write_text("beside\n")
    (root / "a.py").write_text("one\r\ntwo\x0cstill two\nthree")
    (root / "good").symlink_to(root / "a.py")
    (root / "bad").symlink_to(tmp_path / "secret")
    (root / "beside").symlink_to(tmp_path / "repository-2")
    (root / "loop").symlink_to(root / "loop")
    return root


def test_only_files_of_the_repository_are_read(root: Path) -> None:
    """000-37: a link inside is followed; one that leads out is never opened, not even to a name that begins alike."""
    files = RepositoryFiles(root)
    assert files.lines("a.py") == ("one", "two\x0cstill two", "three")
    assert files.lines("good") == files.lines("a.py")
    for path in ("bad", "beside/x", "../secret", str(root / "a.py"), "a.py\0", "loop", ".", "none", "x" * 300):
        assert files.lines(path) is None, path
    assert [files.outside(path) for path in ("bad", "beside/x", "../secret")] == [True, True, True]
    assert [files.outside(path) for path in ("good", "none", ".", "a.py")] == [False, False, False, False]


def test_a_pipe_or_a_huge_file_is_not_read(root: Path) -> None:
    """A named pipe would wait for ever, and a file without end would fill the memory."""
    os.mkfifo(root / "pipe")
    with (root / "huge").open("wb") as file:
        file.truncate(LARGEST + 1)
    with (root / "large").open("wb") as file:
        file.truncate(LARGEST)
    files = RepositoryFiles(root)
    assert files.lines("pipe") is None
    assert files.lines("huge") is None
    assert files.lines("large") is not None


def test_a_file_of_any_bytes_has_lines(root: Path) -> None:
    """What is not text is shown as well as can be, and an empty file has no lines."""
    (root / "bytes").write_bytes(b"\xff\xfe\n\n")
    (root / "empty").write_bytes(b"")
    files = RepositoryFiles(root)
    assert files.lines("bytes") == ("��", "")
    assert files.lines("empty") == ()


def test_files_in_memory_are_files() -> None:
    """The files that tests use answer as those on a disk do."""
    files = MemoryFiles({"a.py": "one\ntwo\n"})
    assert files.lines("a.py") == ["one", "two"]
    assert files.lines("b.py") is None
    assert files.outside("../a.py")
    assert not files.outside("a.py")
