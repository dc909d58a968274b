"""Whether a commit may ship: everybody has looked at exactly its files, and nothing that blocks is open.

What the ledger knows of these files decides. Only if nobody has looked at them here, as in a fresh clone, the record of
a pass that is committed beside them counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from pipeline.app.findings.ledger import Repository
from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.formats import strict_json
from pipeline.findings.git import GitRefusedError, default_branch, is_tree, query_git, run_git, same_files
from pipeline.findings.ledger import Ledger, passes_of
from pipeline.findings.model import Finding, FindingState, PassId, ReportStatus
from pipeline.findings.reviews import Review, review, reviewers_without_a_look
from pipeline.findings.verdicts import Shipping
from pipeline.findings.views.records import DIRECTORY
from pipeline.text import listing

RECORDS = f"{DIRECTORY}/reviews"
_MAX_TREES = 50  # the newest ones that are compared file by file
_MAX_NAMED = 5  # findings in a sentence


@dataclass(frozen=True, slots=True)
class CommitCheck:
    """Whether a commit may ship, and why."""

    commit: str
    ships: bool
    text: str  # in one line
    review: Review | None = None  # of the last pass that saw exactly its files
    record: str = ""  # the path of the record that counts instead

    def as_json(self) -> dict[str, Any]:
        """Return the result for a program."""
        passed = self.review.passed if self.review else None
        return {
            "commit": self.commit,
            "ship": self.ships,
            "reason": self.text,
            "verdict": str(self.review.shipping) if self.review else None,
            "complete": self.review is not None and self.review.complete,
            "unseen": list(self.review.unseen) if self.review else [],
            "pass": str(passed.id) if passed else None,
            "record": self.record or None,
        }


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The files of a commit, apart from what awf itself writes."""

    repository: Repository
    commit: str
    tree: str

    @classmethod
    def find(cls, repository: Repository, revision: str) -> "CommitFiles":
        """Return the files of the commit that a name means; raise AwfError if there is none."""
        root, environ = repository.root, repository.environment
        commit = query_git(root, environ, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        if not commit:
            help = "name a commit, a branch or a tag of this repository"
            raise AwfError(f'there is no commit "{revision}"', help=help)
        return cls(repository, commit, query_git(root, environ, "rev-parse", f"{commit}^{{tree}}"))

    def are_in(self, other: str) -> bool:
        """Return whether another commit or tree has the same files."""
        if other in (self.commit, self.tree):
            return True
        return is_tree(other) and same_files(self.repository.root, self.repository.environment, other, self.commit)

    def git(self, *arguments: str) -> str:
        """Return what git answers; nothing if it does not know."""
        return query_git(self.repository.root, self.repository.environment, *arguments)


def check_commit(ledger: Ledger, repository: Repository, revision: str, base: str = "") -> CommitCheck:
    """Check a commit by the last pass that saw exactly its files.

    The change begins where the commit left `base`, by default the default branch.
    """
    files = CommitFiles.find(repository, revision)
    passes = _passes_that_saw(files, ledger)
    if not passes:
        return _check_records(files, ledger, base)
    name, found = files.commit[:12], review(ledger, passes[-1])
    obstacle = _obstacle(found, _fixed_later(found, passes))
    obstacle = obstacle or later_base(ledger, repository, files.commit, passes[-1], base)
    if obstacle:
        return CommitCheck(files.commit, False, f"{name} does not ship: {obstacle}", found)
    about = f"{passes[-1].mode}, {passes[-1].target}, {passes[-1].id}"
    text = f"ship: {_reviewers(passes[-1])} looked at exactly the files of {name} ({about})"
    return CommitCheck(files.commit, True, text, found)


def _reviewers(passed: Pass) -> str:
    """Return the names of those who looked in a pass, tools last."""
    looks = sorted(passed.coverage.by_reviewer.values(), key=lambda look: look.tool)
    return listing([look.reviewer for look in looks])


def _passes_that_saw(files: CommitFiles, ledger: Ledger) -> list[Pass]:
    """Return the passes that saw exactly the files of a commit, oldest first."""
    trees = dict.fromkeys(passed.tree for passed in reversed(ledger.passes.values()) if passed.tree)
    same = {tree for tree in [*trees][:_MAX_TREES] if files.are_in(tree)}
    return [passed for passed in ledger.passes.values() if passed.tree in same]


def _fixed_later(found: Review, passes: list[Pass]) -> list[Finding]:
    """Return the findings that were open when these files were last seen, and were closed as fixed in other files."""
    seen = {passed.id for passed in passes}
    order = {id: number for number, id in enumerate(found.ledger.passes)}
    last = order[passes[-1].id]

    def is_fixed_elsewhere(finding: Finding) -> bool:
        if finding.state is not FindingState.VERIFIED_FIXED or finding.pre_existing:
            return False
        states = [change for change in finding.history if change.state]
        raised, closed = states[0], states[-1]
        was_there = order.get(PassId(raised.pass_id), -1) <= last
        by_look = (
            order.get(PassId(closed.pass_id), -1) <= last if closed.pass_id else closed.at <= passes[-1].started_at
        )
        return was_there and closed.pass_id not in seen and not by_look

    return list(filter(is_fixed_elsewhere, found.findings))


def _obstacle(found: Review, fixed_later: list[Finding]) -> str:
    """Return why a commit does not ship, and what to do; nothing if it does."""
    if not found.complete:
        return f"the review is incomplete: {'; '.join(found.gaps)}"
    blocking = [*found.blocking, *found.blocking_elsewhere]
    if blocking:
        return f"{_numbers([line.number for line in blocking])} must be dealt with: awf findings list"
    if fixed_later:
        return f"{_numbers([finding.number for finding in fixed_later])} was fixed after it"
    if found.changed:
        return "files changed while the reviewers looked: awf review"
    if found.only_tools:
        return "only tools have looked: awf review"
    if found.unseen:
        return f"{found.missing_looks}: awf review"
    return "" if found.shipping is Shipping.SHIP else str(found.shipping)


def later_base(ledger: Ledger, repository: Repository, commit: str, passed: Pass, base: str) -> str:
    """Return that only a later part of the change of a commit was looked at; empty if it was all of it, or all files.

    The change began where the commit left `base`, by default the default branch. A look at what came after a commit is
    enough if everybody had looked at exactly the files of that commit before, as in one run after another.
    """
    began = passed.base
    for _ in range(_MAX_TREES):
        obstacle = _begins_later(repository, commit, began, base)
        before = _pass_before(ledger, repository, began, passed) if obstacle else None
        if before is None:
            return obstacle
        began = before.base
    return obstacle


def _begins_later(repository: Repository, commit: str, began: str, base: str) -> str:
    """Return that a look at the change since a commit begins after the change of another commit does."""
    git = partial(query_git, repository.root, repository.environment)
    if not began:
        return ""
    name = base or default_branch(repository.root, repository.environment)
    if not name:
        return "git does not know the branch that the change is made for: name it with --base"
    end = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if base and not end:
        raise AwfError(f'unknown ref "{base}"', help="name a branch, a tag or a commit")
    fork = git("merge-base", end, commit) if end else ""
    if not fork:
        return f"git does not know where the commit left {name}: name another base"
    if git("merge-base", began, fork) == git("rev-parse", "--verify", began):
        return ""
    seen = f"only the change since {began[:12]} was looked at, and that of {name} begins at {fork[:12]}"
    return f"{seen}: awf review, or name another base"


def _pass_before(ledger: Ledger, repository: Repository, commit: str, passed: Pass) -> Pass | None:
    """Return the last pass in which everybody had looked at exactly the files of a commit; None if there is none."""
    names = {name for name, look in passed.coverage.by_reviewer.items() if not look.status_only}
    newest = [one for one in reversed(ledger.passes.values()) if one.tree and one is not passed][:_MAX_TREES]
    for one in newest:
        looked = {look.reviewer for each in passes_of(ledger, one.run) or [one] for look in each.coverage.looks}
        if not names <= looked or reviewers_without_a_look(ledger, one) or one.base == commit:
            continue
        if same_files(repository.root, repository.environment, one.tree, commit):
            return one
    return None


def _numbers(numbers: list[int]) -> str:
    named = ", ".join(f"#{number}" for number in numbers[:_MAX_NAMED])
    more = len(numbers) - _MAX_NAMED
    return f"{named} and {more} more" if more > 0 else named


def _check_records(files: CommitFiles, ledger: Ledger, base: str) -> CommitCheck:
    """Check a commit that nobody has looked at here by the last record of its files that is committed with it."""
    name, path = files.commit[:12], next(iter(reversed(list(_records_of(files)))), "")
    if not path:
        return CommitCheck(files.commit, False, f"nobody has looked at exactly the files of {name}: awf review")
    began = str(_read_record(files, path).get("base", ""))
    obstacle = _record_obstacle(files, path, ledger)
    obstacle = obstacle or _begins_later(files.repository, files.commit, began if is_tree(began) else "", base)
    if obstacle:
        text = (
            f"nobody has looked at exactly the files of {name} here, and {path} does not count: {obstacle}: awf review"
        )
        return CommitCheck(files.commit, False, text)
    return CommitCheck(files.commit, True, f"ship: {path} says so of exactly the files of {name}", record=path)


def _records_of(files: CommitFiles) -> Iterator[str]:
    """Yield the paths of the records in a commit that name its very files, oldest first."""
    for path in files.git("ls-tree", "--name-only", files.commit, f"{RECORDS}/").splitlines():
        record = _read_record(files, path)
        if record and files.are_in(str(record.get("diff_sha", ""))):
            yield path


def _read_record(files: CommitFiles, path: str) -> dict[str, Any]:
    """Return the record as it is in the commit; nothing if it cannot be read."""
    try:
        text = run_git(files.repository.root, files.repository.environment, "show", f"{files.commit}:{path}")
        record = strict_json.parse(text)
    except (GitRefusedError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


def _record_obstacle(files: CommitFiles, path: str, ledger: Ledger) -> str:
    """Return why a record does not count; empty if it does."""
    record = _read_record(files, path)
    if record.get("verdict") != Shipping.SHIP:
        return f"it says {record.get('verdict')!a}"
    if not _names_whole_looks(record):
        return "it does not name a reviewer who looked at the whole change"
    if files.git("status", "--porcelain", "--", path) or files.git("diff", "--name-only", files.commit, "--", path):
        return "it was edited since it was committed"
    if len(files.git("log", "--format=%H", files.commit, "--", path).splitlines()) != 1:
        return "it was changed after it was first committed"
    blocking = review(ledger).blocking
    if blocking:
        return f"{_numbers([line.number for line in blocking])} is open here"
    return ""


def _names_whole_looks(record: dict[str, Any]) -> bool:
    """Return whether a record says that somebody looked at all of these very files, and nobody at less."""
    looks = record.get("x_looks")
    if record.get("x_mode", "full") == "quick" or record.get("x_tree_changed") or not isinstance(looks, list):
        return False
    reviewers = [look for look in looks if isinstance(look, dict) and look.get("tool") is not True]
    answered = (look.get("status") in (ReportStatus.RETURNED, ReportStatus.EMPTY) for look in reviewers)
    return bool(reviewers) and all(answered)
