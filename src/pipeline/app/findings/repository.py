"""The repository that findings are about. Outside of git everything still works, without commits."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.backends.git import Git, git_in
from pipeline.engine.workspace import WorkspaceError


@dataclass(frozen=True, slots=True)
class Repository:
    """Where files are read and views are written, and what git says of it."""

    root: Path
    environment: Mapping[str, str]
    head: str = ""  # the commit; nothing outside of git, or before the first one
    branch: str = ""


def repository(given: Path | None, cwd: Path, environment: Mapping[str, str]) -> Repository:
    """The directory that was given, or else the repository around the current one."""
    start = (given or cwd).absolute()
    try:
        return asyncio.run(_asked(start, environment, fixed=given is not None))
    except WorkspaceError:  # there is no git command
        return Repository(start, environment)


async def _asked(start: Path, environment: Mapping[str, str], *, fixed: bool) -> Repository:
    git = git_in(start, environment)
    top = await git.ask("rev-parse", "--show-toplevel")
    if top.code:
        return Repository(start, environment)
    root = start if fixed else Path(top.out.removesuffix("\n"))
    return Repository(root, environment, await git.commit_at("HEAD") or "", await _branch(git))


async def _branch(git: Git) -> str:
    reply = await git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    return "" if reply.code else reply.out.removesuffix("\n")
