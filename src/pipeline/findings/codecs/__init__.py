"""The formats in which findings come and go, one module each, loaded when it is used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from pipeline.findings.claims import Return

_PACKAGE = __name__


def _lazily(module: str, name: str) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(f"{_PACKAGE}.{module}"), name)(*args, **options)

    call.__name__ = name
    call.__qualname__ = f"{module}.{name}"
    return call


FORMATS: Mapping[str, Callable[..., Return]] = MappingProxyType(
    {name: _lazily(name, "decode") for name in ("sarif", "junit", "rdjson", "review", "verdict", "eslint", "mypy")}
)
OUTPUTS: Mapping[str, Callable[..., str]] = MappingProxyType(
    {name: _lazily(name, "encode") for name in ("sarif", "rdjson", "github")}
)


def detect(data: bytes, name: str = "") -> str | None:
    """The format of some bytes, by what they say; by the file's name where they could be of two. None if unknown."""
    found = import_module(f"{_PACKAGE}.detection").detect(data, name)
    return found if isinstance(found, str) else None
