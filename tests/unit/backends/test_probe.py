"""Asking an agent's program what it is."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from tests.unit.app.stubs import asked, stub
from tests.unit.backends.conftest import PATH, Bench

from pipeline.backends import probe as module
from pipeline.backends.probe import ProbeResult, forget_probe, probe, probe_cache_path
from pipeline.backends.select import AGENTS


def look(
    bench: Bench, path: Path, cache: Path | None = None, words: tuple[str, ...] = (), name: str = "pi", **options: bool
) -> ProbeResult:
    """Probe a program."""
    return asyncio.run(probe(AGENTS[name], path, bench.processes, {"PATH": PATH}, cache, words, **options))


def test_a_program_has_a_version_and_flags(bench: Bench, tmp_path: Path) -> None:
    """The version is the number in what it prints; no flag is missing."""
    path = stub(tmp_path, "pi", version="0.87.1-beta.2")
    assert look(bench, path) == ProbeResult(str(path), "0.87.1-beta.2")


def test_a_removed_flag_is_missing(bench: Bench, tmp_path: Path) -> None:
    """A longer flag that begins like it does not count: --model is not --mode."""
    found = look(bench, stub(tmp_path, "pi", without="--mode"))
    assert found.missing == ("--mode",)


def test_help_may_be_a_command_of_its_own(bench: Bench, tmp_path: Path) -> None:
    """The flags of codex are printed by `exec --help`; what is printed as an error counts too."""
    flags = " ".join(AGENTS["codex"].flags)
    path = script(
        tmp_path, f'[ "$1" = --version ] && echo "codex-cli 0.166.0" || [ "$*" = "exec --help" ] && echo "{flags}" >&2'
    )
    assert look(bench, path, name="codex") == ProbeResult(str(path), "0.166.0")


def test_a_program_without_a_number_has_its_first_line(bench: Bench, tmp_path: Path) -> None:
    """Better than nothing."""
    path = script(tmp_path, "echo nightly; echo built today")
    assert look(bench, path).version == "nightly"


def script(folder: Path, body: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("echo one >&2; echo 'no node' >&2; exit 3", '"{path} --version" exited with code 3: no node'),
        ("exit 3", '"{path} --version" exited with code 3'),
        ("kill -9 $$", '"{path} --version" failed: SIGKILL'),
        ('[ "$1" = --version ] || exit 2', '"{path} --help" exited with code 2'),
    ],
)
def test_a_program_that_cannot_be_asked_is_a_problem(bench: Bench, tmp_path: Path, body: str, problem: str) -> None:
    """It is reported and not cached."""
    path, cache = script(tmp_path, body), tmp_path / "cache.json"
    found = look(bench, path, cache)
    assert found == ProbeResult(str(path), problem=problem.format(path=path))
    assert not cache.exists()


def test_a_program_that_does_not_end_is_stopped(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login prompt must not hang a run."""
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    path = script(tmp_path, "exec sleep 1000")
    assert look(bench, path).problem == f'"{path} --version" did not finish within 0.1 seconds'


def test_a_missing_program_is_a_problem(bench: Bench, tmp_path: Path) -> None:
    """Removed since it was found."""
    assert "was not found" in look(bench, tmp_path / "gone", tmp_path / "cache.json").problem


def test_a_program_is_asked_once(bench: Bench, tmp_path: Path) -> None:
    """The result is cached in a file, and found through links to the program."""
    path, cache = stub(tmp_path / "a", "pi", without="--mode"), tmp_path / "deep/er/cache.json"
    link = tmp_path / "pi"
    link.symlink_to(path)
    first = look(bench, path, cache)
    assert look(bench, path, cache) == first
    assert look(bench, link, cache) == ProbeResult(str(link), "1.2.3", ("--mode",))
    assert asked(path) == 2  # its version and its flags
    assert [entry.name for entry in cache.parent.iterdir()] == ["cache.json"]


def test_a_changed_program_is_asked_again(bench: Bench, tmp_path: Path) -> None:
    """Even one of the same size and time, as package managers leave behind."""
    path, cache = stub(tmp_path, "pi", version="1.2.3"), tmp_path / "cache.json"
    look(bench, path, cache)
    before = path.stat()
    stub(tmp_path, "pi", version="1.2.4")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert look(bench, path, cache).version == "1.2.4"
    assert len(json.loads(cache.read_text())) == 1


def test_a_program_can_be_asked_anew(bench: Bench, tmp_path: Path) -> None:
    """On request, and after its answer was forgotten; other programs stay known."""
    path, other, cache = stub(tmp_path, "pi"), stub(tmp_path, "codex"), tmp_path / "cache.json"
    look(bench, path, cache)
    look(bench, other, cache, name="codex")
    look(bench, path, cache, refresh=True)
    assert asked(path) == 4
    forget_probe(path, cache)
    forget_probe(tmp_path / "unknown", cache)
    look(bench, path, cache)
    look(bench, other, cache, name="codex")
    assert (asked(path), asked(other)) == (6, 2)


def test_other_arguments_are_another_program(bench: Bench, tmp_path: Path) -> None:
    """The same file may be an interpreter."""
    path, cache = stub(tmp_path, "pi"), tmp_path / "cache.json"
    look(bench, path, cache)
    look(bench, path, cache, ("--quiet",))
    assert asked(path) == 4


@pytest.mark.parametrize("content", ["", "{", "[]", '{"PATH": 1}', '{"PATH": {"of": [], "version": 1}}'])
def test_a_broken_cache_is_replaced(bench: Bench, tmp_path: Path, content: str) -> None:
    """The program is asked again, and the result replaces it."""
    path, cache = stub(tmp_path, "pi"), tmp_path / "cache.json"
    cache.write_text(content.replace("PATH", str(path)))
    assert look(bench, path, cache).version == "1.2.3"
    assert look(bench, path, cache).version == "1.2.3"
    assert asked(path) == 2


def test_an_unwritable_cache_is_ignored(bench: Bench, tmp_path: Path) -> None:
    """The program is asked every time."""
    path = stub(tmp_path, "pi")
    for _ in range(2):
        assert look(bench, path, path / "cache.json").version == "1.2.3"
    assert asked(path) == 4


def test_the_cache_is_in_the_user_s_cache_directory() -> None:
    """XDG_CACHE_HOME counts if it is an absolute path."""
    home = Path("/home/u")
    assert (
        probe_cache_path({}, home)
        == probe_cache_path({"XDG_CACHE_HOME": "x"}, home)
        == Path("/home/u/.cache/awf/agents.json")
    )
    assert probe_cache_path({"XDG_CACHE_HOME": "/c"}, home) == Path("/c/awf/agents.json")
