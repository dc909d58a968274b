"""The formats in which findings come and go, one module each, loaded when it is used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

from pipeline.findings.model import ReviewerReport

_PACKAGE = __name__


def _lazily(module: str, name: str) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(f"{_PACKAGE}.{module}"), name)(*args, **options)

    call.__name__ = name
    call.__qualname__ = f"{module}.{name}"
    return call


FORMATS: Mapping[str, Callable[..., ReviewerReport]] = MappingProxyType(
    {name: _lazily(name, "decode") for name in ("sarif", "junit", "rdjson", "review", "verdict", "eslint", "mypy")}
)
OUTPUTS: Mapping[str, Callable[..., str]] = MappingProxyType(
    {"sarif": _lazily("sarif_export", "encode"), **{name: _lazily(name, "encode") for name in ("rdjson", "github")}}
)
detect: Callable[..., str | None] = _lazily("detection", "detect")
"""The format of some bytes, by what they say; by the file's name where they could be of two. None if unknown."""
