"""Findings to file, a repository on GitHub, and a fake `gh` that keeps issues in a file and records every call."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.findings.events import FindingChanged, FindingRaised
from pipeline.findings.ledger import Ledger
from pipeline.findings.lines import Line
from pipeline.findings.model import (
    Actor,
    Category,
    Change,
    Confidence,
    Evidence,
    Finding,
    FindingId,
    FindingState,
    Location,
    PassId,
    Severity,
    What,
)
from pipeline.findings.trackers.ticket import TrackerContext

AT = "2026-01-01T00:00:00Z"
Make = Callable[..., Line]


@pytest.fixture
def make() -> Make:
    """A function that makes lines of work with one finding."""

    def made(id: str = "fnd_0badcafe", **more: Any) -> Line:
        values: dict[str, Any] = {
            "id": FindingId(id),
            "signature": f"sha256:{id}",
            "title": "Old token stays valid",
            "impact": "A stolen token works for ever.",
            "fix": "Revoke it when a new one is made.",
            "category": Category.SECURITY,
            "severity": Severity.HIGH,
            "confidence": Confidence(value=75),
            "locations": (Location(path="src/session.py", start=3, end=5),),
            "evidence": (Evidence(path="src/session.py", start=3, quote="store.save(token)"),),
            "reviewer": "security",
            "pass_id": PassId("one"),
            "created_at": AT,
            "updated_at": AT,
        }
        return Line(values["id"], 1, (Finding(**values | more),))

    return made


def with_states(line: Line, *states: FindingState, note: str = "it is back") -> Line:
    """A line of work after some changes of the state of its finding."""
    ledger = Ledger([FindingRaised(at=AT, finding=line.lead)])
    for state in states:
        change = Change(at=AT, what=What.RULING, who="security", by=Actor.REVALIDATE, note=note, state=state)
        ledger.apply(FindingChanged(id=line.id, change=change))
    return ledger.line(line.id)


def deferred(ref: str) -> Change:
    """A person deferred a finding to a ticket."""
    return Change(at=AT, what=What.DECISION, who="anna", by=Actor.USER, word="defer", ref=ref)


def joined(*lines: Line) -> Line:
    """One line of work with the findings of all of them, under the number of the first."""
    members = tuple(member for line in lines for member in line.members)
    return Line(lines[0].id, lines[0].number, tuple(replace(member, line=lines[0].id) for member in members))


_PROGRAM = r"""
import json, os, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))
STORE = os.path.join(HERE, "gh.json")

def end(code, text="", error=""):
    sys.stdout.write(text)
    sys.stderr.write(error)
    with open(STORE, "w") as file:
        json.dump(store, file)
    sys.exit(code)

def parse(words):
    flags, rest, bare = {}, [], False
    for word in words:
        if bare:
            rest.append(word)
        elif word == "--":
            bare = True
        elif word.startswith("--") and "=" in word:
            name, _, value = word[2:].partition("=")
            flags[name] = value
        else:
            end(2, error="unknown word: " + word)
    return flags, rest

with open(STORE) as file:
    store = json.load(file)
command, words, stdin = " ".join(sys.argv[1:3]), sys.argv[3:], sys.stdin.read()
store["calls"].append({"command": command, "words": words, "stdin": stdin, "env": dict(os.environ)})
if command in store["fails"]:
    end(1, error=store["fails"][command] + "\n")
if command in store["says"]:
    end(0, store["says"][command])
if command in store["hangs"]:
    time.sleep(600)
flags, rest = parse(words)
issues = store["issues"]
if command == "auth status":
    end(0 if flags["hostname"] in store["hosts"] else 1, error="You are not logged into " + flags["hostname"])
if flags["repo"] != "github.com/acme/shop":
    end(1, error="no such repository")

def shown(issue):
    return {name: issue[name] for name in flags["json"].split(",")}

if command == "issue list":
    word = flags["search"].split(" ")[0]
    states = ("OPEN", "CLOSED") if flags["state"] == "all" else (flags.get("state", "open").upper(),)
    found = [one for one in issues if word in one["body"] and one["state"] in states and one["indexed"]]
    end(0, json.dumps([shown(one) for one in reversed(found)][: int(flags["limit"])]))
if command == "label create":
    if rest[0] in store["labels"]:
        end(1, error="label with name already exists; use --force to update")
    store["labels"].append(rest[0])
    end(0)
if command == "issue create":
    if flags.get("label") not in (None, *store["labels"]):
        end(1, error="could not add label: not found")
    number = len(issues) + 1
    url = "https://github.com/acme/shop/issues/%d" % number
    issues.append({"number": number, "url": url, "state": "OPEN", "title": flags["title"], "body": stdin,
                   "label": flags.get("label"), "comments": [], "indexed": store["indexing"]})
    end(0, url + "\n", "Creating issue in acme/shop\n")
found = [one for one in issues if str(one["number"]) == rest[0]]
if not found:
    end(1, error="Could not resolve to an issue or pull request with the number of %s." % rest[0])
(issue,) = found
if command == "issue view":
    end(0, json.dumps(shown(issue)))
if command == "issue reopen":
    issue["state"] = "OPEN"
    issue["comments"].append({"body": flags["comment"]})
    end(0)
end(2, error="unknown command " + command)
"""


class FakeGh:
    """The program and its data."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self.directory = directory
        program = directory / "gh"
        program.write_text(f"#!{sys.executable} -IS\n{_PROGRAM}")
        program.chmod(0o755)
        self._store = directory / "gh.json"
        empty: dict[str, list[Any]] = {"calls": [], "issues": [], "labels": [], "hangs": []}
        more = {"fails": {}, "says": {}, "hosts": ["github.com"], "indexing": True}
        self._store.write_text(json.dumps(empty | more))

    def __getitem__(self, name: str) -> Any:
        return json.loads(self._store.read_text())[name]

    def set(self, **changes: Any) -> None:
        """Change its data."""
        self._store.write_text(json.dumps(json.loads(self._store.read_text()) | changes))

    def change(self, number: int, **changes: Any) -> None:
        """Change an issue, as on the website."""
        self.set(issues=[one | changes if one["number"] == number else one for one in self["issues"]])

    @property
    def commands(self) -> list[str]:
        """What it was called for, in order."""
        return [call["command"] for call in self["calls"]]


def checkout(path: Path, **remotes: str) -> Path:
    """A repository with some remotes."""
    subprocess.run(["git", "init", "--quiet", str(path)], check=True)
    for name, url in remotes.items():
        subprocess.run(["git", "-C", str(path), "remote", "add", name, url], check=True)
    return path


@pytest.fixture
def gh(tmp_path: Path) -> FakeGh:
    """A fake `gh` without issues."""
    return FakeGh(tmp_path / "bin")


@pytest.fixture
def context(tmp_path: Path, gh: FakeGh) -> TrackerContext:
    """A checkout of `acme/shop`, with `gh` on its PATH."""
    root = checkout(tmp_path / "shop", origin="https://github.com/acme/shop.git")
    (tmp_path / "home").mkdir()
    path = f"{gh.directory}{os.pathsep}{os.environ['PATH']}"
    return TrackerContext(root, root / ".awf", {"PATH": path, "HOME": str(tmp_path / "home")})
