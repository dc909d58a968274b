"""Whether a commit may ship: a review of exactly its files says so."""

from dataclasses import dataclass
from typing import Any

from pipeline.app.findings.ledger import Repository
from pipeline.errors import AwfError
from pipeline.findings.events import Pass
from pipeline.findings.git import query_git, same_files
from pipeline.findings.ledger import Ledger
from pipeline.findings.reviews import TREE_UNKNOWN, Review, review_of
from pipeline.findings.verdicts import Shipping

_MAX_TREES = 50  # the newest ones that are compared file by file


@dataclass(frozen=True, slots=True)
class CommitCheck:
    """Whether a commit may ship, and the last review of its files."""

    commit: str
    review: Review | None

    @property
    def ships(self) -> bool:
        """Whether a complete review of exactly these files says so."""
        return self.review is not None and _ships(self.review)

    @property
    def text(self) -> str:
        """The result in one line."""
        commit = self.commit[:12]
        if self.review is None:
            return f"No review saw exactly the files of {commit}"
        last = self.review.passes[-1]
        if self.ships:
            return f"ship: {last.id} reviewed exactly the files of {commit} ({last.mode})"
        if not self.review.coverage.complete:
            return f"{commit} does not ship: review {last.id} is incomplete"
        if _looked_at_a_part(self.review):
            return f"{commit} does not ship: review {last.id} looked at a part of it only"
        if self.review.tree_changed:
            return f"{commit} does not ship: files changed during review {last.id}"
        return f"{commit} does not ship: {self.review.verdicts.shipping} in review {last.id}"

    def as_json(self) -> dict[str, Any]:
        """The result for a program."""
        return {
            "commit": self.commit,
            "ship": self.ships,
            "verdict": str(self.review.verdicts.shipping) if self.review else None,
            "complete": self.review is not None and self.review.coverage.complete,
            "tree_changed": self.review is not None and self.review.tree_changed,
            "passes": [str(passed.id) for passed in self.review.passes] if self.review else [],
        }


def check_commit(ledger: Ledger, repository: Repository, revision: str, reports: str) -> CommitCheck:
    """Check a commit against the last review of its files; what awf itself writes, and `reports`, does not count."""
    root, environ = repository.root, repository.environment
    commit = query_git(root, environ, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit:
        raise AwfError(f'there is no commit "{revision}"', help="name a commit, a branch or a tag of this repository")
    tree = query_git(root, environ, "rev-parse", f"{commit}^{{tree}}")
    compared: dict[str, bool] = {"": False, commit: True, tree: True}

    def saw(passed: Pass) -> bool:
        """Whether a pass saw exactly the files of the commit."""
        in_workspace = passed.run and not passed.ext.get(TREE_UNKNOWN)  # where everything is committed
        seen = passed.tree or (passed.head if in_workspace else "")
        if seen not in compared:
            few = len(compared) <= _MAX_TREES
            compared[seen] = few and same_files(root, environ, seen, commit, reports)
        return compared[seen]

    for passed in reversed(ledger.passes.values()):
        if saw(passed):
            review = review_of(ledger, passed)
            return CommitCheck(commit, review if all(map(saw, review.passes)) else None)
    return CommitCheck(commit, None)


def _ships(review: Review) -> bool:
    complete = review.coverage.complete and all(passed.coverage.complete for passed in review.passes)
    return complete and not _looked_at_a_part(review) and review.verdicts.shipping is Shipping.SHIP


def _looked_at_a_part(review: Review) -> bool:
    return any(passed.scope in ("package", "file") for passed in review.passes)
