"""Which repository on GitHub a checkout belongs to, as its remotes say."""

import re
from collections.abc import Mapping
from pathlib import Path

from pipeline.findings.repository import asked

_PUBLIC = "github.com"
_URL = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9.-]+)(?::\d+(?=/))?[:/]/?"
    r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)


def repository_of(root: Path, environ: Mapping[str, str]) -> str:
    """`host/owner/name` of the remote that a person chose for gh, else of `origin`, else of the first on GitHub."""
    remotes = _remotes(root, environ)
    chosen = _chosen(root, environ)
    order = sorted(remotes, key=lambda name: (name != chosen, name != "origin"))
    found = (parsed(remotes[name], environ.get("GH_HOST", "")) for name in order)
    return next((repository for repository in found if repository), "")


def parsed(url: str, host: str = "") -> str:
    """`host/owner/name` of an address on GitHub, or on a host of one's own; nothing for any other."""
    found = _URL.fullmatch(url)
    if found is None:
        return ""
    name = found["host"].lower().removeprefix("ssh.") if found["host"].lower() == f"ssh.{_PUBLIC}" else found["host"]
    known = name.lower() in (_PUBLIC, host.lower()) or name.lower().endswith(".ghe.com")
    return f"{name.lower()}/{found['owner']}/{found['name']}" if known else ""


def _remotes(root: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The address of each remote, with what a person has git put in its place."""
    found: dict[str, str] = {}
    for line in asked(root, environ, "remote", "--verbose").splitlines():
        name, _, rest = line.partition("\t")
        found.setdefault(name, rest.removesuffix(" (fetch)").removesuffix(" (push)"))
    return found


def _chosen(root: Path, environ: Mapping[str, str]) -> str:
    line = asked(root, environ, "config", "--get-regexp", r"^remote\..*\.gh-resolved$", "^base$").partition("\n")[0]
    return line.partition(" ")[0].removeprefix("remote.").removesuffix(".gh-resolved")
