"""Tickets as GitHub issues, filed with `gh`. A finding has one issue: it is searched for first, even if closed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.backends.environment import child_environment
from pipeline.backends.program import run_program
from pipeline.findings.git import query_git
from pipeline.findings.lines import Line
from pipeline.findings.model import Severity
from pipeline.findings.trackers.ticket import (
    Filed,
    Ticket,
    TicketFailed,
    Tracker,
    TrackerContext,
    owner_of,
    reopened_comment,
    ticket,
)
from pipeline.redaction import redactor_of

_SECONDS = 60.0  # for one command
_VARIABLES = (
    *("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_CONFIG_DIR"),
    "DBUS_SESSION_BUS_ADDRESS",  # a login may be kept in the desktop's keyring
)
_QUIET = {"GH_PROMPT_DISABLED": "1", "GH_NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "GH_PAGER": "cat"}
_MAX_REASON = 400  # characters
_MAX_FOUND = 50  # issues in a search result: it matches words, not marks
_COLORS = {
    Severity.CRITICAL: "b60205",
    Severity.HIGH: "d93f0b",
    Severity.MEDIUM: "fbca04",
    Severity.LOW: "0e8a16",
    Severity.INFO: "c5def5",
}
_PUBLIC = "github.com"
_URL = re.compile(
    r"(?:[a-z+]+://)?(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9.-]+)(?::\d+(?=/))?[:/]/?"
    r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?"
)


class GhError(Exception):
    """A command of `gh` failed, with its reason."""


def run_gh(context: TrackerContext, *arguments: str, stdin: str = "") -> str:
    """Run a command of `gh` to its end with few variables, and return its output. Raises GhError if it fails.

    Text from outside is never an argument of its own: it follows an `=`, or goes to the standard input.
    """
    try:
        done = run_program(
            ["gh", *arguments],
            cwd=context.root,
            env={**child_environment(context.environ, extra_names=_VARIABLES), **_QUIET},
            stdin=stdin.encode(errors="replace"),
            timeout=_SECONDS,
        )
    except FileNotFoundError:
        raise GhError("gh is not installed") from None
    except OSError as error:
        raise GhError(f"gh could not be run: {error.strerror}") from None
    output = done.stdout.decode(errors="replace")
    if done.returncode:
        reason = done.stderr.decode(errors="replace").strip() or output.strip()
        raise GhError(" ".join(reason.split())[:_MAX_REASON] or f"gh exited with code {done.returncode}")
    return output


def open_github(context: TrackerContext) -> Tracker | TicketFailed:
    """Use the issues of the repository that a remote names, if gh is logged in to its host."""
    repository = find_repository(context.root, context.environ)
    if not repository:
        return TicketFailed("no remote of this repository is on GitHub")
    try:
        run_gh(context, "auth", "status", f"--hostname={repository.partition('/')[0]}")
    except GhError as error:
        return TicketFailed(f"gh cannot be used: {error}")
    return GitHubIssues(context, repository)


@dataclass(frozen=True, slots=True)
class Issue:
    """The issue of a finding."""

    number: int
    url: str
    closed: bool


class GitHubIssues:
    """The issues of one repository, given as `host/owner/name`."""

    name = "GitHub Issues"

    def __init__(self, context: TrackerContext, repository: str) -> None:
        self._context = context
        self._repository = repository
        self._redact = redactor_of(context.environ).text

    def file(self, line: Line) -> Filed | TicketFailed:
        """Create the issue of a line of work, or find it and reopen it if the line is open again."""
        try:
            issue = self._find(line) or self._create(line)
            if issue.closed and line.state.active:
                comment = reopened_comment(line, self._redact)
                self._run("issue", "reopen", f"--comment={comment}", "--", str(issue.number))
        except GhError as error:
            return TicketFailed(str(error))
        return Filed(issue.url)

    def _find(self, line: Line) -> Issue | None:
        """Return the issue of a line of work, by its recorded number if possible: a search is minutes behind."""
        for number in self._recorded_numbers(line):
            try:
                found = self._json("issue", "view", "--json=number,url,state,body", "--", number)
            except GhError:  # it may be gone
                continue
            if issue := _issue(found, line):
                return issue
        search = (f"--search={line.id} in:body", "--state=all", f"--limit={_MAX_FOUND}")
        listed = self._json("issue", "list", *search, "--json=number,url,state,body")
        if not isinstance(listed, list):
            raise GhError("gh did not answer with a list of issues")
        issues = filter(None, (_issue(one, line) for one in listed))
        return min(issues, key=lambda issue: issue.number, default=None)

    def _recorded_numbers(self, line: Line) -> list[str]:
        """Return the numbers of the issues to which a line of work was deferred, the last first."""
        ours = re.compile(re.escape(f"https://{self._repository}/issues/") + r"(\d{1,9})", re.IGNORECASE)
        matches = (ours.fullmatch(decision.ref) for decision in reversed(line.decisions))
        return [found[1] for found in matches if found]

    def _create(self, line: Line) -> Issue:
        made = ticket(line, self._redact)
        options = [f"--title={made.title}", *self._label(made, line.severity), "--body-file=-"]
        output = self._run("issue", "create", *options, stdin=made.body)
        found = re.search(r"https?://\S+/issues/(\d{1,9})\s*$", output)
        if found is None:
            raise GhError("gh did not say where the issue is; look for it before filing it again")
        return Issue(int(found[1]), found[0].strip(), closed=False)

    def _label(self, made: Ticket, severity: Severity) -> list[str]:
        """Return the option for the label if it exists or could be created; the body states the severity anyway."""
        options = (f"--color={_COLORS[severity]}", "--description=Severity of a review finding")
        try:
            self._run("label", "create", *options, "--", made.label)
        except GhError as error:
            if "already exists" not in str(error):
                return []
        return [f"--label={made.label}"]

    def _run(self, noun: str, verb: str, *arguments: str, stdin: str = "") -> str:
        return run_gh(self._context, noun, verb, f"--repo={self._repository}", *arguments, stdin=stdin)

    def _json(self, noun: str, verb: str, *arguments: str) -> Any:
        try:
            return json.loads(self._run(noun, verb, *arguments))
        except (ValueError, RecursionError) as error:
            raise GhError(f"gh did not answer in JSON: {error}") from None


def _issue(answer: Any, line: Line) -> Issue | None:
    """Return an issue as gh describes it; None if it is not that of this line."""
    match answer:
        case {"number": int(number), "url": str(url), "state": str(state), "body": str(body)}:
            if owner_of(body) == line.id:
                return Issue(number, url, state.upper() == "CLOSED")
    return None


def find_repository(root: Path, environ: Mapping[str, str]) -> str:
    """Return `host/owner/name` of the remote chosen for gh, else of `origin`, else of the first remote on GitHub."""
    remotes: dict[str, str] = {}
    for line in query_git(root, environ, "remote", "--verbose").splitlines():
        name, _, rest = line.partition("\t")
        remotes.setdefault(name, rest.removesuffix(" (fetch)").removesuffix(" (push)"))
    resolved = query_git(root, environ, "config", "--get-regexp", r"^remote\..*\.gh-resolved$", "^base$")
    chosen = resolved.partition(" ")[0].removeprefix("remote.").removesuffix(".gh-resolved")
    order = sorted(remotes, key=lambda name: (name != chosen, name != "origin"))
    found = (parse_remote(remotes[name], environ.get("GH_HOST", "")) for name in order)
    return next((repository for repository in found if repository), "")


def parse_remote(url: str, own_host: str = "") -> str:
    """Return `host/owner/name` of an address on GitHub or on one's own host; empty for any other."""
    found = _URL.fullmatch(url)
    if found is None:
        return ""
    host = found["host"].lower()
    host = _PUBLIC if host == f"ssh.{_PUBLIC}" else host
    known = host in (_PUBLIC, own_host.lower()) or host.endswith(".ghe.com")
    return f"{host}/{found['owner']}/{found['name']}" if known else ""
