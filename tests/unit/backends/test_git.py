"""Git runs no program that the repository's own configuration names, and reports every failure."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from pipeline.backends.git import Git, git_in
from pipeline.engine.ports import WorkspaceError


class Repository:
    """A repository with one commit, and a program that leaves a mark when it runs."""

    def __init__(self, folder: Path) -> None:
        self.path, self.mark, self.trap = folder / "repository", folder / "mark", folder / "trap"
        self.path.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
        self.trap.write_text(f"#!/bin/sh\ntouch {self.mark}\nexit 1\n")
        self.trap.chmod(0o755)
        self.git("init", "--quiet")
        (self.path / "a.txt").write_text("a")
        self.git("add", "--all")
        self.git("-c", "user.name=P", "-c", "user.email=p@example.org", "commit", "--quiet", "--message", "first")

    def git(self, *arguments: str) -> str:
        """Git as a person runs it."""
        done = subprocess.run(["git", *arguments], cwd=self.path, env=self.env, check=True, capture_output=True)
        return done.stdout.decode().strip()

    def lose(self, name: str) -> str:
        """Remove an object from the repository."""
        id = self.git("rev-parse", name)
        (self.path / ".git/objects" / id[:2] / id[2:]).unlink()
        return id

    def promise(self, **settings: str) -> None:
        """Name a remote that git may fetch missing objects from."""
        self.git("config", "core.repositoryFormatVersion", "1")
        self.git("config", "extensions.partialClone", "origin")
        for name, value in {"promisor": "true", **settings}.items():
            self.git("config", f"remote.origin.{name}", value)

    @property
    def ours(self) -> Git:
        return git_in(self.path, self.env)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.mark.parametrize("command", [("cat-file", "-p", "HEAD:a.txt"), ("archive", "HEAD")])
def test_a_missing_object_is_not_fetched_by_a_program_of_the_repository(
    repository: Repository, command: tuple[str, ...]
) -> None:
    """An agent may name a remote with a program of its own, and remove an object: git fails instead of running it."""
    repository.promise(url=str(repository.path), uploadpack=str(repository.trap))
    repository.lose("HEAD:a.txt")
    assert repository.ours.run_sync(*command, timeout=10).returncode != 0
    assert not repository.mark.exists()


def test_a_missing_object_is_not_fetched_over_an_ssh_of_the_repository(repository: Repository) -> None:
    """A command that needs no server contacts none."""
    repository.promise(url="ssh://nowhere.invalid/x")
    repository.git("config", "core.sshCommand", str(repository.trap))
    repository.lose("HEAD")
    assert asyncio.run(repository.ours.resolve_commit("HEAD")) is None
    assert not repository.mark.exists()


@pytest.mark.parametrize(
    ("setting", "url"), [("core.gitProxy", "git://127.0.0.1:1/x"), ("core.alternateRefsCommand", ".")]
)
def test_a_fetch_runs_no_program_of_the_repository(repository: Repository, setting: str, url: str) -> None:
    """Neither a proxy nor a command that lists the refs of a borrowed object store."""
    repository.git("config", setting, str(repository.trap))
    repository.git("init", "--quiet", "../other")
    (repository.path / ".git/objects/info/alternates").write_text("../../../other/.git/objects\n")
    repository.ours.run_sync("fetch", "--quiet", url, timeout=10)
    assert not repository.mark.exists()
    subprocess.run(["git", "fetch", "--quiet", url], cwd=repository.path, env=repository.env, check=False)
    assert repository.mark.exists(), "the trap is not set"


def test_the_traps_are_set(repository: Repository) -> None:
    """Git as a person runs it runs the program."""
    repository.promise(url=str(repository.path), uploadpack=str(repository.trap))
    repository.lose("HEAD:a.txt")
    with pytest.raises(subprocess.CalledProcessError):
        repository.git("cat-file", "-p", "HEAD:a.txt")
    assert repository.mark.exists()


def test_a_failed_command_raises_git_s_own_words(repository: Repository) -> None:
    """The message names the command."""
    with pytest.raises(WorkspaceError, match=r"^git rev-parse failed: .*no-such-thing"):
        asyncio.run(repository.ours.output("rev-parse", "no-such-thing"))


def test_output_has_a_limit(repository: Repository) -> None:
    """A longer output is an error, not a part of it."""
    assert repository.ours.run_sync("cat-file", "-p", "HEAD:a.txt", timeout=10, max_output=1).stdout == b"a"
    with pytest.raises(OSError, match="more than 0 bytes"):
        repository.ours.run_sync("cat-file", "-p", "HEAD:a.txt", timeout=10, max_output=0)
