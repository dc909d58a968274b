"""Where workflows are found: a path, or a bare name looked up in a fixed order of directories."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.workflow_files import SUFFIX, workflow_files
from pipeline.errors import AwfError
from pipeline.findings.repository import is_top
from pipeline.text import did_you_mean


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A workflow file: the name it is called by, where it is, and where its prompt files are looked for."""

    name: str
    path: Path
    shown: str  # how messages call the file
    prompt_roots: tuple[Path, ...]

    def prompt(self, path: str) -> Path | None:
        """Where a prompt file is; None when it is missing."""
        return next((root / path for root in self.prompt_roots if (root / path).is_file()), None)


@dataclass(frozen=True, slots=True)
class WorkflowFolder:
    """A directory that is searched for workflows, and what it is called."""

    directory: Path
    title: str
    shipped: bool = False


@dataclass(frozen=True)
class Catalog:
    """The workflows that can be named from a directory."""

    cwd: Path
    home: Path
    shipped: Path

    def folders(self) -> tuple[WorkflowFolder, ...]:
        """The directories searched, the first to have a name winning."""
        root = repository_root(self.cwd)
        bases = [self.cwd, *([root] if root and root != self.cwd else [])]
        local = [WorkflowFolder(base / below, "project") for base in bases for below in ("workflows", ".awf/workflows")]
        personal = WorkflowFolder(self.home / ".config/awf/workflows", "personal")
        return (*local, personal, WorkflowFolder(self.shipped, "shipped", shipped=True))

    def entries(self) -> Iterator[tuple[WorkflowFolder, CatalogEntry]]:
        """Every workflow in every folder, winners before those they shadow."""
        seen: set[Path] = set()
        for folder in self.folders():
            for path in sorted(folder.directory.glob(f"*{SUFFIX}")):
                if path.resolve() not in seen:
                    yield folder, self._entry(path, shipped=folder.shipped)
                seen.add(path.resolve())

    def find(self, reference: str) -> CatalogEntry:
        """The workflow a person means by a path or a name."""
        path = self.cwd / reference
        if is_path(reference) or os.path.isfile(path):  # noqa: PTH113 - as below
            return self._entry(path)
        names = []
        for _, entry in self.entries():
            if entry.name == reference:
                return entry
            names.append(entry.name)
        raise AwfError(f'there is no workflow "{reference}"', help=self._instead(reference, names))

    def expand(self, reference: str) -> list[CatalogEntry]:
        """The workflows meant by a path, a name, or a directory that holds them."""
        directory = self.cwd / reference
        if not os.path.isdir(directory):  # noqa: PTH112 - one that may not be looked at is none, and no error
            return [self.find(reference)]
        entries = [self._entry(path) for path in workflow_files(directory)]
        if not entries:
            raise AwfError(f'the directory "{reference}" holds no workflow', help=f'their names end in "{SUFFIX}"')
        return entries

    def _instead(self, reference: str, names: list[str]) -> str:
        beside = f"{reference}{SUFFIX}"
        if os.path.isfile(self.cwd / beside):  # noqa: PTH113 - as below
            return f'a file is named in full: "{beside}"'
        return did_you_mean(reference, names) or 'see "awf workflows" for those that are found'

    def _entry(self, path: Path, *, shipped: bool = False) -> CatalogEntry:
        root = None if shipped else repository_root(path.parent)
        roots = (*([root] if root else []), path.parent)
        shown = path.relative_to(self.cwd) if path.is_relative_to(self.cwd) else path
        return CatalogEntry(path.name.removesuffix(SUFFIX), path, str(shown), roots)


def is_path(reference: str) -> bool:
    """Whether a file is meant rather than a name."""
    return "/" in reference or reference.endswith(".kdl")


def repository_root(directory: Path) -> Path | None:
    """The root of the git repository or worktree around a directory; None outside of one."""
    folders = (directory, *directory.parents)
    return next(filter(is_top, folders), None)
