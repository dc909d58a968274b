"""Paths that an agent names, bound to its directory: none leads out of it, neither by name nor by a symbolic link.

It guards the tools that take a path. An agent that may run commands is not held by it.
"""

from pathlib import Path


class OutOfBounds(Exception):
    """A path that is not an agent's to use."""


def inside(root: Path, name: str) -> Path:
    """The real path of what an agent names; raises OutOfBounds when that is not within `root`."""
    try:
        home, target = root.resolve(), (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # resolve() calls a loop of links a RuntimeError
        raise OutOfBounds(f'"{name}" is no path that can be followed: {error}') from error
    if not target.is_relative_to(home):
        raise OutOfBounds(f'"{name}" is outside of "{root}": only what is within may be used')
    return target
