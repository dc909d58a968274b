"""GitHub issues with a fake `gh`: one issue for a finding, whatever happens."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.findings.trackers.conftest import FakeGh, Make, checkout, deferred, with_states

from pipeline.findings.model import FindingState
from pipeline.findings.trackers.github import (
    GhError,
    GitHubIssues,
    find_repository,
    open_github,
    parse_remote,
    run_gh,
)
from pipeline.findings.trackers.ticket import Filed, TicketFailed, Tracker, TrackerContext

URL = "https://github.com/acme/shop/issues/1"


@pytest.fixture
def issues(context: TrackerContext, gh: FakeGh) -> Tracker:
    """The tracker of `acme/shop`."""
    return new_session(context, gh)


def new_session(context: TrackerContext, gh: FakeGh) -> Tracker:
    """The tracker as a new session opens it; the calls so far are forgotten."""
    opened = open_github(context)
    assert isinstance(opened, GitHubIssues), opened
    gh.set(calls=[])
    return opened


def test_a_finding_becomes_an_issue(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """With title, body and a label for the severity, which is created if it is missing."""
    assert issues.file(make()) == Filed(URL)
    (issue,) = gh["issues"]
    assert (issue["title"], issue["label"]) == (make().title, "severity: high")
    assert issue["body"].startswith("<!-- awf:fnd_0badcafe -->\n")
    assert gh.commands == ["issue list", "label create", "issue create"]


def test_filing_twice_makes_one_issue(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Another session searches for the finding before it creates an issue."""
    assert new_session(context, gh).file(make()) == Filed(URL)
    assert new_session(context, gh).file(make()) == Filed(URL)
    assert len(gh["issues"]) == 1
    assert gh.commands == ["issue list"]


def test_a_recorded_issue_is_known_before_a_search_finds_it(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """The ledger has its reference."""
    gh.set(indexing=False)
    new_session(context, gh).file(make())
    other = deferred("https://github.com/acme/other/issues/7")
    recorded = make(history=(deferred(URL), other))
    assert new_session(context, gh).file(recorded) == Filed(URL)
    assert len(gh["issues"]) == 1
    assert gh.commands == ["issue view"]


def test_a_reference_to_another_findings_issue_is_not_trusted(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """The mark in an issue decides; a missing issue is passed over."""
    new_session(context, gh).file(make("fnd_11111111"))
    gone = deferred("https://github.com/acme/shop/issues/99")
    wrong = make(history=(deferred(URL), gone))
    assert new_session(context, gh).file(wrong) == Filed("https://github.com/acme/shop/issues/2")


def test_an_id_that_is_a_prefix_of_another_is_another(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """A search matches prefixes; the mark decides."""
    new_session(context, gh).file(make("fnd_0badcafe1234"))
    assert new_session(context, gh).file(make("fnd_0badcafe")) == Filed("https://github.com/acme/shop/issues/2")


def test_of_several_issues_the_first_is_used(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Two sessions at once may have created two."""
    new_session(context, gh).file(make())
    (issue,) = gh["issues"]
    gh.set(issues=[issue, issue | {"number": 2, "url": "https://github.com/acme/shop/issues/2"}])
    assert new_session(context, gh).file(make()) == Filed(URL)


def test_the_closed_issue_of_a_reopened_finding_is_reopened_with_a_comment(
    context: TrackerContext, gh: FakeGh, make: Make
) -> None:
    """Once; while it is open it is left alone, and what fails is no ticket."""
    new_session(context, gh).file(make())
    gh.change(1, state="CLOSED")
    back = with_states(make(), FindingState.FIX_CLAIMED, FindingState.REOPENED, note="the fix did not hold")
    gh.set(fails={"issue reopen": "HTTP 502"})
    assert new_session(context, gh).file(back) == TicketFailed("HTTP 502")
    gh.set(fails={})
    for _ in range(2):
        assert new_session(context, gh).file(back) == Filed(URL)
    (issue,) = gh["issues"]
    assert issue["state"] == "OPEN"
    assert [one["body"].count("the fix did not hold") for one in issue["comments"]] == [1]


def test_a_closed_issue_of_an_open_finding_is_reopened(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Not if a fix is claimed."""
    new_session(context, gh).file(make())
    gh.change(1, state="CLOSED")
    assert new_session(context, gh).file(with_states(make(), FindingState.FIX_CLAIMED)) == Filed(URL)
    assert gh["issues"][0]["state"] == "CLOSED"
    assert new_session(context, gh).file(make()) == Filed(URL)
    assert gh["issues"][0]["state"] == "OPEN"


@pytest.mark.parametrize("command", ["issue list", "issue create"])
def test_a_failure_has_the_trackers_own_reason(issues: Tracker, gh: FakeGh, make: Make, command: str) -> None:
    """No issue is created after a search that failed."""
    gh.set(fails={command: "HTTP 410: Issues has been disabled\nin this repository"})
    assert issues.file(make()) == TicketFailed("HTTP 410: Issues has been disabled in this repository")
    assert gh["issues"] == []


def test_an_answer_that_cannot_be_read_is_a_failure(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """An issue without an address does not count as filed."""
    gh.set(says={"issue list": "<html>"})
    assert isinstance(issues.file(make()), TicketFailed)
    gh.set(says={"issue create": "done\n"})
    assert isinstance(issues.file(make()), TicketFailed)
    gh.set(says={"issue list": '{"odd": 1}', "issue create": ""})
    assert isinstance(issues.file(make()), TicketFailed)


def test_without_the_right_to_create_labels_there_is_none(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """The severity is still in the body."""
    gh.set(fails={"label create": "HTTP 403: Resource not accessible"})
    assert issues.file(make()) == Filed(URL)
    (issue,) = gh["issues"]
    assert issue["label"] is None
    assert "Severity: high" in issue["body"]


def test_an_existing_label_is_used(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """It is left as it is."""
    gh.set(labels=["severity: high"])
    issues.file(make())
    assert [issue["label"] for issue in gh["issues"]] == ["severity: high"]


def test_a_title_is_never_an_option(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """No text from a finding is an argument of its own."""
    assert issues.file(make(title="--repo=evil/evil --web", impact="--body-file=/etc/passwd")) == Filed(URL)
    for call in gh["calls"]:
        words = call["words"]
        bare = words[words.index("--") + 1 :] if "--" in words else []
        flags = words[: words.index("--")] if "--" in words else words
        assert all(re.match(r"--[a-z-]+=", flag) for flag in flags)
        assert all(re.fullmatch(r"\d+|severity: \w+", word) for word in bare)
    assert gh["issues"][0]["title"] == "--repo=evil/evil --web"


def test_the_program_gets_few_variables(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """It gets its own token and no other secret, and prompts for nothing."""
    secret = {"GH_TOKEN": "t1", "GITHUB_TOKEN": "t2", "AWS_SECRET_ACCESS_KEY": "no", "MY_PASSWORD": "no", "OTHER": "no"}
    opened = open_github(replace(context, environ={**context.environ, **secret}))
    assert isinstance(opened, GitHubIssues)
    opened.file(make(evidence=()))
    for call in gh["calls"]:
        assert [call["env"][name] for name in ("GH_TOKEN", "GITHUB_TOKEN")] == ["t1", "t2"]
        assert call["env"]["GH_PROMPT_DISABLED"] == "1"
        assert "no" not in call["env"].values()


def test_secrets_of_the_environment_stay_out_of_issues(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """A finding may quote a key, and an issue may be public."""
    opened = open_github(replace(context, environ={**context.environ, "DEPLOY_TOKEN": "s3cr3t-s3cr3t-s3cr3t"}))
    assert isinstance(opened, GitHubIssues)
    opened.file(make(impact="the key s3cr3t-s3cr3t-s3cr3t is in the code"))
    assert "s3cr3t" not in gh["issues"][0]["body"]


def test_a_program_that_cannot_be_run_or_fails_silently_has_a_reason(
    tmp_path: Path, gh: FakeGh, context: TrackerContext
) -> None:
    """A missing gh, an argument that no program can be given, and an exit without a message."""
    for argument in ("status", "\0"):
        with pytest.raises(GhError, match="gh"):
            run_gh(replace(context, environ={"PATH": str(tmp_path)}), "auth", argument)
    gh.set(fails={"issue list": ""})
    with pytest.raises(GhError, match="code 1"):
        run_gh(context, "issue", "list")


def test_it_is_used_only_if_gh_is_logged_in(context: TrackerContext, gh: FakeGh) -> None:
    """To the host of the remote."""
    gh.set(hosts=[])
    assert isinstance(open_github(context), TicketFailed)
    assert gh["calls"][0]["words"] == ["--hostname=github.com"]


def test_it_is_used_only_for_a_remote_on_github(tmp_path: Path, context: TrackerContext, gh: FakeGh) -> None:
    """Otherwise gh is not run at all."""
    elsewhere = checkout(tmp_path / "elsewhere", origin="https://gitlab.com/acme/shop.git")
    for root in (elsewhere, tmp_path / "bin"):
        assert isinstance(open_github(replace(context, root=root)), TicketFailed)
    assert gh.commands == []


@pytest.mark.parametrize(
    ("url", "repository"),
    [
        ("https://github.com/acme/shop.git", "github.com/acme/shop"),
        ("https://github.com/acme/shop/", "github.com/acme/shop"),
        ("https://user:token@GitHub.com/acme/shop", "github.com/acme/shop"),
        ("git@github.com:acme/shop.git", "github.com/acme/shop"),
        ("ssh://git@github.com/acme/shop.git", "github.com/acme/shop"),
        ("ssh://git@ssh.github.com:443/acme/shop.git", "github.com/acme/shop"),
        ("git@acme.ghe.com:acme/shop.git", "acme.ghe.com/acme/shop"),
        ("https://git.acme.example/acme/shop.js", "git.acme.example/acme/shop.js"),
        ("https://gitlab.com/acme/shop.git", ""),
        ("https://github.com.evil.example/acme/shop", ""),
        ("https://github.com/acme", ""),
        ("/srv/git/github.com/acme/shop", ""),
        ("", ""),
    ],
)
def test_addresses_of_repositories(url: str, repository: str) -> None:
    """Every form of an address on GitHub or on the host that the user set, and no other."""
    assert parse_remote(url, "git.acme.example") == repository
    assert "git.acme.example" not in parse_remote(url)


def test_the_remote_chosen_for_gh_comes_first(tmp_path: Path, context: TrackerContext) -> None:
    """A fork has several remotes: gh's own default, then origin, then the first on GitHub."""
    root = checkout(
        tmp_path / "fork",
        fork="git@github.com:me/shop.git",
        mirror="https://gitlab.com/acme/shop.git",
        upstream="https://github.com/acme/shop",
    )
    assert find_repository(root, context.environ) == "github.com/me/shop"
    config = root / ".git" / "config"
    config.write_text(config.read_text() + '[remote "upstream"]\n\tgh-resolved = base\n')
    assert find_repository(root, context.environ) == "github.com/acme/shop"


def test_origin_comes_before_other_remotes(tmp_path: Path, context: TrackerContext) -> None:
    """Issues go to where one pushes, not to the project that was forked."""
    root = checkout(tmp_path / "x", a="https://github.com/a/a", origin="https://github.com/me/shop")
    assert find_repository(root, context.environ) == "github.com/me/shop"
