"""Finding and reading workflow files: by path, or by a name that is looked up in several directories."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.source_file import read_source
from pipeline.errors import AwfError
from pipeline.files import repository_root
from pipeline.language.reader import UNREADABLE_FILE, WorkflowDraft, parse_workflow
from pipeline.language.source import START, SourceText
from pipeline.text import did_you_mean

SUFFIX = ".awf.kdl"
_NEVER_SEARCHED = frozenset({".git", ".hg", ".venv", "venv", "node_modules", "__pycache__"})


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

    def prompt_text(self, path: str) -> str | None:
        """The text of a prompt file as far as it can be read; None if it does not exist."""
        found = self.prompt(path)
        try:
            return found.read_text("utf-8", errors="replace") if found else None
        except OSError:
            return ""  # reported when the run needs it

    def read(self) -> WorkflowDraft:
        """Read and parse the file. One that cannot be read is a diagnostic, never an exception."""
        name = self.display_path
        try:
            source, hits = read_source(self.path, name)
            return WorkflowDraft(source, None, tuple(hits)) if hits else parse_workflow(source)
        except FileNotFoundError:
            beside = did_you_mean(self.path.name, sorted(one.name for one in self.path.parent.glob(f"*{SUFFIX}")))
            message, help = f'"{name}" does not exist', beside or '"awf workflows" lists what can be run by name'
        except IsADirectoryError:
            message, help = f'"{name}" is a directory', f'name a file in it that ends in "{SUFFIX}"'
        except PermissionError:
            message, help = f'no permission to read "{name}"', "chmod u+r"
        except OSError as error:
            message, help = f'cannot read "{name}": {error.strerror or error}', "name a readable file"
        return WorkflowDraft(SourceText(name, ""), None, (UNREADABLE_FILE.hit(START, message, help),))


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
        found = []
        for folder, folders, names in os.walk(directory):
            folders[:] = [name for name in folders if name not in _NEVER_SEARCHED]
            found += [Path(folder, name) for name in names if name.endswith(SUFFIX)]
        if not found:
            raise AwfError(f'no workflow in directory "{reference}"', help=f'their names end in "{SUFFIX}"')
        return [self._entry(path) for path in sorted(found)]

    def _entry(self, path: Path, *, shipped: bool = False) -> CatalogEntry:
        root = None if shipped else repository_root(path.parent)
        roots = (*([root] if root else []), path.parent)
        display_path = path.relative_to(self.cwd) if path.is_relative_to(self.cwd) else path
        return CatalogEntry(path.name.removesuffix(SUFFIX), path, str(display_path), roots)


def is_path(reference: str) -> bool:
    """Whether a reference is a path rather than a name."""
    return "/" in reference or reference.endswith(".kdl")
