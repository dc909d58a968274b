"""Paths as tools write them, made relative to the repository's root.

A path that lies elsewhere is kept as it is: it is refused later, where it can be told.
"""

import re
from posixpath import normpath
from urllib.parse import unquote

_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")
_FILE = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>/.*)", re.IGNORECASE | re.DOTALL)


def relative(path: str, root: str = "") -> str:
    """A path below the root, without the root; any other in its shortest form."""
    if not path:
        return ""
    plain, base = _posix(path), _posix(root).rstrip("/") if root else ""
    if base and plain.startswith(f"{base}/"):
        plain = plain[len(base) + 1 :].lstrip("/") or "."
    return normpath(plain)


def absolute(path: str) -> bool:
    """Whether a path does not depend on where one stands."""
    return path.startswith("/") or bool(_WINDOWS.match(path))


def of_uri(uri: str) -> str:
    """The path that a URI names; another scheme than `file` is kept with its name."""
    match = _FILE.fullmatch(uri)
    if match is None:
        return unquote(uri)
    path = unquote(match["path"])
    if _WINDOWS.match(path[1:]):
        return path[1:]
    host = match["host"] or ""
    return path if host in ("", "localhost") else f"//{host}{path}"


def _posix(path: str) -> str:
    return path.replace("\\", "/") if _WINDOWS.match(path) else path
