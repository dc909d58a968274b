"""Finding workflows: by path, or by a name that is looked up in several directories."""

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
    """A workflow file, its name, and where its prompt files are looked up."""

    name: str
    path: Path
    display_path: str  # as messages show it
    prompt_roots: tuple[Path, ...]

    def prompt(self, path: str) -> Path | None:
        """The path of a prompt file; None if it does not exist."""
        return next((root / path for root in self.prompt_roots if (root / path).is_file()), None)


@dataclass(frozen=True, slots=True)
class WorkflowFolder:
    """A directory that is searched for workflows."""

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
        """The directories that are searched; the first that has a name wins."""
        root = repository_root(self.cwd)
        bases = [self.cwd, *([root] if root and root != self.cwd else [])]
        local = [WorkflowFolder(base / below, "project") for base in bases for below in ("workflows", ".awf/workflows")]
        personal = WorkflowFolder(self.home / ".config/awf/workflows", "personal")
        return (*local, personal, WorkflowFolder(self.shipped, "shipped", shipped=True))

    def entries(self) -> Iterator[tuple[WorkflowFolder, CatalogEntry]]:
        """Every workflow in every folder, before those that it shadows."""
        seen: set[Path] = set()
        for folder in self.folders():
            for path in sorted(folder.directory.glob(f"*{SUFFIX}")):
                if path.resolve() not in seen:
                    yield folder, self._entry(path, shipped=folder.shipped)
                seen.add(path.resolve())

    def find(self, reference: str) -> CatalogEntry:
        """The workflow that a path or a name refers to. Raises AwfError for an unknown name."""
        path = self.cwd / reference
        if is_path(reference) or os.path.isfile(path):  # noqa: PTH113 - as in expand
            return self._entry(path)
        names = []
        for _, entry in self.entries():
            if entry.name == reference:
                return entry
            names.append(entry.name)
        if os.path.isfile(f"{path}{SUFFIX}"):  # noqa: PTH113 - as in expand
            help = f'use the full name of the file: "{reference}{SUFFIX}"'
        else:
            help = did_you_mean(reference, names) or '"awf workflows" lists those that are found'
        raise AwfError(f'unknown workflow "{reference}"', help=help)

    def expand(self, reference: str) -> list[CatalogEntry]:
        """The workflows that a path, a name or a directory refers to. Raises AwfError if there are none."""
        directory = self.cwd / reference
        if not os.path.isdir(directory):  # noqa: PTH112 - Path.is_dir raises where this has no permission to look
            return [self.find(reference)]
        entries = [self._entry(path) for path in workflow_files(directory)]
        if not entries:
            raise AwfError(f'no workflow in directory "{reference}"', help=f'their names end in "{SUFFIX}"')
        return entries

    def _entry(self, path: Path, *, shipped: bool = False) -> CatalogEntry:
        root = None if shipped else repository_root(path.parent)
        roots = (*([root] if root else []), path.parent)
        display_path = path.relative_to(self.cwd) if path.is_relative_to(self.cwd) else path
        return CatalogEntry(path.name.removesuffix(SUFFIX), path, str(display_path), roots)


def is_path(reference: str) -> bool:
    """Whether a reference is a path rather than a name."""
    return "/" in reference or reference.endswith(".kdl")


def repository_root(directory: Path) -> Path | None:
    """The root of the git repository or worktree around a directory; None outside of one."""
    return next(filter(is_top, (directory, *directory.parents)), None)
