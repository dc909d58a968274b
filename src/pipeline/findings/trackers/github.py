"""Tickets as GitHub issues. A finding has one issue: it is looked for before it is made, among closed ones too."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.backends.environment import child_environment
from pipeline.backends.process import run_program
from pipeline.findings.git import query_git
from pipeline.findings.model import Finding, FindingState, Severity
from pipeline.findings.trackers.ticket import (
    Filed,
    Redact,
    TicketFailed,
    comment,
    comment_mark,
    label,
    marked,
    ticket,
    unfit,
)

PROGRAM = "gh"
SECONDS = 60.0
_VARIABLES = (
    *("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_CONFIG_DIR"),
    "DBUS_SESSION_BUS_ADDRESS",  # a login may be kept in the desktop's keyring
)
_QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "GH_PAGER": "cat"}
_REASON = 400  # characters


@dataclass(frozen=True, slots=True)
class GhReply:
    """How a command ended: what it said, and why it failed, if it did."""

    out: str = ""
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Gh:
    """The program in one directory."""

    directory: Path
    environ: Mapping[str, str]
    seconds: float = SECONDS

    def run(self, *arguments: str, stdin: str = "") -> GhReply:
        """Run it to its end; a command that cannot be run is a failure too."""
        try:
            done = run_program(
                [PROGRAM, *arguments],
                cwd=self.directory,
                env={**child_environment(self.environ, extra_names=_VARIABLES), **_QUIET},
                stdin=stdin.encode(errors="replace"),
                timeout=self.seconds,
            )
        except FileNotFoundError:
            return GhReply(failure=f"the program {PROGRAM} was not found")
        except TimeoutError:
            return GhReply(failure=f"{PROGRAM} gave no answer within {self.seconds:g} s")
        except OSError as error:
            return GhReply(failure=f"{PROGRAM} could not be started: {error.strerror}")
        return _reply(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _reply(code: int, out: str, err: str) -> GhReply:
    if code == 0:
        return GhReply(out)
    words = " ".join((err.strip() or out.strip() or f"{PROGRAM} ended with code {code}").split())
    return GhReply(out, words[:_REASON])


_PUBLIC = "github.com"
_URL = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9.-]+)(?::\d+(?=/))?[:/]/?"
    r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)


def find_repository(root: Path, environ: Mapping[str, str]) -> str:
    """`host/owner/name` of the remote that a person chose for gh, else of `origin`, else of the first on GitHub."""
    remotes = _remotes(root, environ)
    chosen = _chosen(root, environ)
    order = sorted(remotes, key=lambda name: (name != chosen, name != "origin"))
    found = (parse_remote(remotes[name], environ.get("GH_HOST", "")) for name in order)
    return next((repository for repository in found if repository), "")


def parse_remote(url: str, host: str = "") -> str:
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
    for line in query_git(root, environ, "remote", "--verbose").splitlines():
        name, _, rest = line.partition("\t")
        found.setdefault(name, rest.removesuffix(" (fetch)").removesuffix(" (push)"))
    return found


def _chosen(root: Path, environ: Mapping[str, str]) -> str:
    line = query_git(root, environ, "config", "--get-regexp", r"^remote\..*\.gh-resolved$", "^base$").partition("\n")[0]
    return line.partition(" ")[0].removeprefix("remote.").removesuffix(".gh-resolved")


NAME = "GitHub Issues"
_FOUND = 50  # issues that a search may give: it finds words, not marks
_COLOURS = {
    Severity.CRITICAL: "b60205",
    Severity.HIGH: "d93f0b",
    Severity.MEDIUM: "fbca04",
    Severity.LOW: "0e8a16",
    Severity.INFO: "c5def5",
}


@dataclass(frozen=True, slots=True)
class Issue:
    """An issue that is a finding's."""

    number: int
    url: str
    closed: bool
    comments: tuple[str, ...] = ()


class GitHubIssues:
    """The issues of one repository, given as `host/owner/name`."""

    name = NAME

    def __init__(self, gh: Gh, repository: str, redact: Redact) -> None:
        self._gh = gh
        self._repository = repository
        self._redact = redact
        self._numbers: dict[str, int] = {}  # of this session: what was made just now is not yet found by a search
        self._labels: dict[str, bool] = {}  # whether each can be used

    def file(self, finding: Finding) -> Filed | TicketFailed:
        """The finding's issue: made, or found and brought back to mind."""
        if reason := unfit(finding):
            return TicketFailed(reason)
        known = self._known(finding)
        if isinstance(known, TicketFailed):
            return known
        done = self._create(finding) if known is None else self._remind(known, finding)
        if isinstance(done, Issue):
            self._numbers[finding.id] = done.number
            return Filed(done.url)
        return done

    def _known(self, finding: Finding) -> Issue | TicketFailed | None:
        """By its number where that is on record: a search knows nothing of the last minutes."""
        for number in self._recorded(finding):
            read = self._json("issue", "view", "--json=number,url,state,body,comments", last=str(number))
            if isinstance(read, dict) and (issue := _issue(read, finding)):
                return issue
        return self._searched(finding)

    def _recorded(self, finding: Finding) -> Iterator[int]:
        if finding.id in self._numbers:
            yield self._numbers[finding.id]
        ours = re.compile(re.escape(f"https://{self._repository}/issues/") + r"(\d{1,9})", re.IGNORECASE)
        for decision in reversed(finding.decisions):
            if found := ours.fullmatch(decision.ref):
                yield int(found[1])

    def _searched(self, finding: Finding) -> Issue | TicketFailed | None:
        asked = (f"--search={finding.id} in:body", "--state=all", f"--limit={_FOUND}")
        read = self._json("issue", "list", *asked, "--json=number,url,state,body")
        if isinstance(read, TicketFailed):
            return read
        issues = [issue for one in _listed(read) if (issue := _issue(one, finding))]
        if not issues:
            return None
        first = min(issues, key=lambda issue: issue.number)
        return self._with_comments(first) if _is_back(first, finding) else first

    def _with_comments(self, issue: Issue) -> Issue | TicketFailed:
        read = self._json("issue", "view", "--json=comments", last=str(issue.number))
        if isinstance(read, TicketFailed):
            return read
        return Issue(issue.number, issue.url, issue.closed, _comments(read))

    def _create(self, finding: Finding) -> Issue | TicketFailed:
        made = ticket(finding, self._redact)
        labels = [f"--label={label(finding)}"] if self._has_label(finding) else []
        reply = self._gh.run(
            "issue", "create", self._repo, f"--title={made.title}", *labels, "--body-file=-", stdin=made.body
        )
        if reply.failure:
            return TicketFailed(reply.failure)
        found = re.search(r"https?://\S+/issues/(\d{1,9})\s*$", reply.out)
        if found is None:
            return TicketFailed("gh did not say where the issue is; look for it before it is filed again")
        return Issue(int(found[1]), found[0].strip(), closed=False)

    def _remind(self, issue: Issue, finding: Finding) -> Issue | TicketFailed:
        """Say once that the finding is back, and open its issue again."""
        if not _is_back(issue, finding):
            return issue
        if not any(comment_mark(finding) in one for one in issue.comments):
            text = comment(finding, self._redact)
            reply = self._gh.run("issue", "comment", self._repo, "--body-file=-", "--", str(issue.number), stdin=text)
            if reply.failure:
                return TicketFailed(reply.failure)
        if issue.closed and (failure := self._gh.run("issue", "reopen", self._repo, "--", str(issue.number)).failure):
            return TicketFailed(failure)
        return issue

    def _has_label(self, finding: Finding) -> bool:
        """Whether the severity can be a label. Who may not make one files without: the body says it too."""
        name = label(finding)
        if name not in self._labels:
            looks = (f"--color={_COLOURS[finding.severity]}", "--description=Of a finding of a review")
            failure = self._gh.run("label", "create", self._repo, *looks, "--", name).failure
            self._labels[name] = not failure or "already exists" in failure
        return self._labels[name]

    @property
    def _repo(self) -> str:
        return f"--repo={self._repository}"

    def _json(self, *arguments: str, last: str = "") -> Any:
        """What gh answers to a question, or a Failed."""
        reply = self._gh.run(*arguments, self._repo, *(("--", last) if last else ()))
        if reply.failure:
            return TicketFailed(reply.failure)
        try:
            return json.loads(reply.out)
        except (ValueError, RecursionError) as error:
            return TicketFailed(f"gh answered what is no JSON: {error}")


def _is_back(issue: Issue, finding: Finding) -> bool:
    return finding.state is FindingState.REOPENED or (issue.closed and finding.state.active)


def _issue(read: Any, finding: Finding) -> Issue | None:
    """An issue as gh tells of it; None when it is not this finding's."""
    match read:
        case {"number": int(number), "url": str(url), "state": str(state), "body": str(body)}:
            if marked(body) == finding.id:
                return Issue(number, url, state.upper() == "CLOSED", _comments(read))
    return None


def _listed(read: Any) -> Iterable[Any]:
    return read if isinstance(read, list) else ()


def _comments(read: Any) -> tuple[str, ...]:
    said = read.get("comments") if isinstance(read, dict) else None
    return tuple(str(one.get("body", "")) for one in _listed(said) if isinstance(one, dict))
