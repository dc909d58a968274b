"""GitHub issues through a program that plays `gh`: one issue for a finding, whatever happens."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.findings.trackers.conftest import AT, Make, turned
from tests.unit.findings.trackers.fake_gh import FakeGh, checkout

from pipeline.findings.model import Decision, FindingState
from pipeline.findings.trackers import TrackerContext, open_github
from pipeline.findings.trackers.github import Gh, GhError, GitHubIssues, find_repository, parse_remote
from pipeline.findings.trackers.ticket import Filed, TicketFailed, Tracker

URL = "https://github.com/acme/shop/issues/1"


@pytest.fixture
def issues(context: TrackerContext, gh: FakeGh) -> Tracker:
    """The tracker of `acme/shop`, as a session finds it."""
    return again(context, gh)


def again(context: TrackerContext, gh: FakeGh) -> Tracker:
    """The tracker as a new session finds it; the calls that found it are forgotten."""
    opened = open_github(context)
    assert isinstance(opened, GitHubIssues), opened
    gh.set(calls=[])
    return opened


def test_a_finding_becomes_an_issue(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """Title, body and the label of the severity, which is made when it is not there."""
    assert issues.file(make()) == Filed(URL)
    (issue,) = gh["issues"]
    assert (issue["title"], issue["label"]) == ("Old token stays valid", "severity: high")
    assert issue["body"].startswith("<!-- awf:fnd_0badcafe -->\n")
    assert gh.commands == ["issue list", "label create", "issue create"]


def test_filing_twice_makes_one_issue(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Another session looks the finding up before it makes an issue."""
    assert again(context, gh).file(make()) == Filed(URL)
    assert again(context, gh).file(make()) == Filed(URL)
    assert len(gh["issues"]) == 1
    assert gh.commands == ["issue list"]


def test_an_issue_of_this_session_is_known_before_a_search_finds_it(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """The search of GitHub is minutes behind; within a session it is not needed."""
    gh.set(indexing=False)
    assert issues.file(make()) == issues.file(make()) == Filed(URL)
    assert len(gh["issues"]) == 1


def test_an_issue_on_record_is_known_before_a_search_finds_it(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Nor is it needed where the ledger has the reference."""
    gh.set(indexing=False)
    again(context, gh).file(make())
    other = Decision(at=AT, action="defer", ref="https://github.com/acme/other/issues/7")
    recorded = make(decisions=(Decision(at=AT, action="defer", ref=URL), other))
    assert again(context, gh).file(recorded) == Filed(URL)
    assert len(gh["issues"]) == 1
    assert gh.commands == ["issue view"]


def test_a_reference_that_is_another_findings_is_not_trusted(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """An issue is a finding's by the mark in it; one that is gone, or another's, is passed over."""
    again(context, gh).file(make("fnd_11111111"))
    gone = Decision(at=AT, action="defer", ref="https://github.com/acme/shop/issues/99")
    wrong = make(decisions=(Decision(at=AT, action="defer", ref=URL), gone))
    assert again(context, gh).file(wrong) == Filed("https://github.com/acme/shop/issues/2")


def test_an_id_that_begins_like_another_is_another(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """A search finds words that begin so; the mark decides."""
    again(context, gh).file(make("fnd_0badcafe1234"))
    assert again(context, gh).file(make("fnd_0badcafe")) == Filed("https://github.com/acme/shop/issues/2")


def test_of_several_issues_the_first_is_the_findings(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Where two sessions at once made two, everybody goes on with the same."""
    again(context, gh).file(make())
    (issue,) = gh["issues"]
    gh.set(issues=[issue, issue | {"number": 2, "url": "https://github.com/acme/shop/issues/2"}])
    assert again(context, gh).file(make()) == Filed(URL)


def test_a_finding_that_came_back_is_told_of_on_its_old_issue(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """A re-opened finding comments on the old issue and opens it again, and says so once."""
    again(context, gh).file(make())
    gh.change(1, state="CLOSED")
    back = turned(make(), FindingState.FIX_CLAIMED, FindingState.REOPENED, note="the fix did not hold")
    assert again(context, gh).file(back) == Filed(URL)
    assert gh.commands == ["issue list", "issue view", "issue comment", "issue reopen"]
    assert again(context, gh).file(back) == Filed(URL)
    assert gh.commands == ["issue list", "issue view"]
    (issue,) = gh["issues"]
    assert issue["state"] == "OPEN"
    assert [one["body"].count("the fix did not hold") for one in issue["comments"]] == [1]


def test_what_was_interrupted_after_the_comment_is_finished(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """A comment that is there is not made again; the issue is opened all the same."""
    again(context, gh).file(make())
    gh.change(1, state="CLOSED")
    back = turned(make(), FindingState.FIX_CLAIMED, FindingState.REOPENED)
    gh.set(fails={"issue reopen": "HTTP 502"})
    assert again(context, gh).file(back) == TicketFailed("HTTP 502")
    gh.set(fails={})
    assert again(context, gh).file(back) == Filed(URL)
    (issue,) = gh["issues"]
    assert (issue["state"], len(issue["comments"])) == ("OPEN", 1)


def test_a_closed_issue_of_an_open_finding_is_opened_again(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Nothing that is put off is lost behind a closed issue; one that is said to be fixed is left alone."""
    again(context, gh).file(make())
    gh.change(1, state="CLOSED")
    assert again(context, gh).file(turned(make(), FindingState.FIX_CLAIMED)) == Filed(URL)
    assert gh["issues"][0]["state"] == "CLOSED"
    assert again(context, gh).file(make()) == Filed(URL)
    assert gh["issues"][0]["state"] == "OPEN"


@pytest.mark.parametrize("command", ["issue list", "issue create"])
def test_a_failure_has_the_trackers_own_reason(issues: Tracker, gh: FakeGh, make: Make, command: str) -> None:
    """Ticket creation failures are told with the tracker's reason; an unanswered search makes no issue."""
    gh.set(fails={command: "HTTP 410: Issues has been disabled\nin this repository"})
    assert issues.file(make()) == TicketFailed("HTTP 410: Issues has been disabled in this repository")
    assert gh["issues"] == []


@pytest.mark.parametrize("command", ["issue view", "issue comment"])
def test_a_failure_to_comment_is_a_failure(context: TrackerContext, gh: FakeGh, make: Make, command: str) -> None:
    """A return that could not be told is not told of as filed."""
    again(context, gh).file(make())
    gh.set(fails={command: "HTTP 403: locked"})
    back = turned(make(), FindingState.FIX_CLAIMED, FindingState.REOPENED)
    assert again(context, gh).file(back) == TicketFailed("HTTP 403: locked")


def test_an_answer_that_is_no_answer_is_a_failure(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """What cannot be read makes no issue, and an issue without an address is not taken for filed."""
    gh.set(says={"issue list": "<html>"})
    assert isinstance(issues.file(make()), TicketFailed)
    gh.set(says={"issue create": "done\n"})
    assert isinstance(issues.file(make()), TicketFailed)
    gh.set(says={"issue list": '{"odd": 1}', "issue create": ""})
    assert isinstance(issues.file(make()), TicketFailed)


def test_who_may_not_make_labels_files_without(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """The label is a help; without it the severity still stands in the body."""
    gh.set(fails={"label create": "HTTP 403: Resource not accessible"})
    assert issues.file(make()) == Filed(URL)
    (issue,) = gh["issues"]
    assert issue["label"] is None
    assert "Severity: high" in issue["body"]


def test_a_label_that_is_there_is_used_and_asked_for_once(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """A label is made once in a session."""
    gh.set(labels=["severity: high"])
    issues.file(make())
    issues.file(make("fnd_11111111"))
    assert [issue["label"] for issue in gh["issues"]] == ["severity: high"] * 2
    assert gh.commands.count("label create") == 1


def test_a_title_is_never_an_option(issues: Tracker, gh: FakeGh, make: Make) -> None:
    """No text from a finding is a word of its own in a command."""
    assert issues.file(make(title="--repo=evil/evil --web", impact="--body-file=/etc/passwd")) == Filed(URL)
    for call in gh["calls"]:
        words = call["words"]
        bare = words[words.index("--") + 1 :] if "--" in words else []
        flags = words[: words.index("--")] if "--" in words else words
        assert all(re.match(r"--[a-z-]+=", flag) for flag in flags)
        assert all(re.fullmatch(r"\d+|severity: \w+", word) for word in bare)
    assert gh["issues"][0]["title"] == "--repo=evil/evil --web"


def test_the_program_gets_few_variables(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """The program gets what every program gets and its own token, and asks nobody anything."""
    secret = {"GH_TOKEN": "t1", "GITHUB_TOKEN": "t2", "AWS_SECRET_ACCESS_KEY": "no", "MY_PASSWORD": "no", "OTHER": "no"}
    opened = open_github(replace(context, environ={**context.environ, **secret}))
    assert isinstance(opened, GitHubIssues)
    opened.file(make(evidence=()))
    for call in gh["calls"]:
        assert [call["env"][name] for name in ("GH_TOKEN", "GITHUB_TOKEN")] == ["t1", "t2"]
        assert call["env"]["GH_PROMPT_DISABLED"] == "1"
        assert "no" not in call["env"].values()


def test_secrets_of_the_environment_stay_out_of_issues(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """A finding may quote a key; an issue may be open to everybody."""
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
            Gh(tmp_path, {"PATH": str(tmp_path)}).run("auth", argument)
    gh.set(fails={"issue list": ""})
    with pytest.raises(GhError, match="code 1"):
        Gh(context.root, context.environ).run("issue", "list")


def test_it_is_used_only_where_somebody_is_logged_in(context: TrackerContext, gh: FakeGh) -> None:
    """GitHub Issues via gh, authenticated at the host of the remote."""
    gh.set(hosts=[])
    assert open_github(context) == TicketFailed("gh cannot be used: You are not logged into github.com")
    assert gh["calls"][0]["words"] == ["--hostname=github.com"]


def test_it_is_used_only_for_a_remote_on_github(tmp_path: Path, context: TrackerContext, gh: FakeGh) -> None:
    """A repository that is elsewhere has no issues there, and gh is not even asked."""
    elsewhere = checkout(tmp_path / "elsewhere", origin="https://gitlab.com/acme/shop.git")
    assert open_github(replace(context, root=elsewhere)) == TicketFailed("no remote of this repository is on GitHub")
    assert open_github(replace(context, root=tmp_path / "bin")) == TicketFailed(
        "no remote of this repository is on GitHub"
    )
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
    """Every form of an address on GitHub, or on the host that a person set, and no other."""
    assert parse_remote(url, "git.acme.example") == repository


def test_no_host_is_not_every_host() -> None:
    """Without a host of one's own only GitHub's are taken."""
    assert parse_remote("https://git.acme.example/acme/shop") == ""


def test_the_remote_that_a_person_chose_goes_first(tmp_path: Path, context: TrackerContext) -> None:
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


def test_origin_goes_before_others(tmp_path: Path, context: TrackerContext) -> None:
    """Issues go to where one pushes, not to the project one has forked."""
    root = checkout(tmp_path / "x", a="https://github.com/a/a", origin="https://github.com/me/shop")
    assert find_repository(root, context.environ) == "github.com/me/shop"
