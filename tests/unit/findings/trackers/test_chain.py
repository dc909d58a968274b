"""Which tracker is used, when it is looked for, and what happens when it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.unit.findings.trackers.conftest import Make
from tests.unit.findings.trackers.fake_gh import FakeGh

from pipeline.errors import AwfError
from pipeline.findings.model import Finding
from pipeline.findings.trackers import TRACKERS, OpenTracker, TrackerContext, all_trackers
from pipeline.findings.trackers.chain import TrackerChain
from pipeline.findings.trackers.ticket import NO_TRACKER, Filed, TicketFailed, Tracker, TrackerStatus


@dataclass
class Fake:
    """A tracker that does as a test says."""

    name: str
    broken: str = ""
    filed: list[str] = field(default_factory=list)

    def file(self, finding: Finding) -> Filed | TicketFailed:
        """Take a finding, or refuse it."""
        if self.broken:
            return TicketFailed(self.broken)
        self.filed.append(finding.id)
        return Filed(f"{self.name}/{finding.id}")


@dataclass
class Fakes:
    """Trackers in an order, with a count of how often each was looked at."""

    trackers: list[Fake]
    unusable: dict[str, str] = field(default_factory=dict)
    looked: list[str] = field(default_factory=list)

    def registry(self) -> Mapping[str, OpenTracker]:
        """As the chain wants them."""
        return {fake.name.lower(): self._open(fake) for fake in self.trackers}

    def _open(self, fake: Fake) -> OpenTracker:
        def opened(context: TrackerContext) -> Tracker | TicketFailed:
            del context
            self.looked.append(fake.name)
            return TicketFailed(self.unusable[fake.name]) if fake.name in self.unusable else fake

        return opened


@pytest.fixture
def nowhere(tmp_path: Path) -> TrackerContext:
    """A context without anything."""
    return TrackerContext(tmp_path, tmp_path / ".awf", {})


def three() -> Fakes:
    """Three trackers that work."""
    return Fakes([Fake("Linear"), Fake("GitHub"), Fake("Files")])


def test_nothing_is_looked_at_before_a_ticket_is_to_be_made(nowhere: TrackerContext) -> None:
    """Probe at most once per session and only when a Defer is imminent."""
    fakes = three()
    chain = TrackerChain(nowhere, "linear", fakes.registry())
    assert fakes.looked == []
    assert [chain.status() for _ in range(3)] == [TrackerStatus("Linear", "high", True, True)] * 3
    assert fakes.looked == ["Linear"]


def test_a_named_tracker_goes_first_and_is_sure(nowhere: TrackerContext, make: Make) -> None:
    """The tuple says which tracker, how surely, and whether it and any works."""
    fakes = three()
    chain = TrackerChain(nowhere, "github", fakes.registry())
    assert chain.status().named == "GitHub"
    assert chain.file(make()) == Filed("GitHub/fnd_0badcafe")


def test_without_a_name_nothing_is_sure(nowhere: TrackerContext) -> None:
    """A tracker that nobody named has the general label."""
    sinks = TrackerChain(nowhere, "", three().registry()).status()
    assert sinks == TrackerStatus("Linear", "low", False, True)
    assert sinks.named == ""


def test_a_named_tracker_that_cannot_be_used_is_passed_over(nowhere: TrackerContext) -> None:
    """Chain named, GitHub, folder; why each was passed over is kept."""
    fakes = Fakes(three().trackers, {"Linear": "no key", "GitHub": "not logged in"})
    chain = TrackerChain(nowhere, "linear", fakes.registry())
    assert chain.status() == TrackerStatus("Files", "high", False, True)


def test_a_failed_named_tracker_is_not_named_again(nowhere: TrackerContext, make: Make) -> None:
    """A failed named tracker sets named_sink_available=false for the session; it may still be tried again."""
    fakes = three()
    fakes.trackers[0].broken = "HTTP 500"
    chain = TrackerChain(nowhere, "linear", fakes.registry())
    assert chain.file(make()) == TicketFailed("HTTP 500")
    assert chain.status() == TrackerStatus("Linear", "high", False, True)
    fakes.trackers[0].broken = ""
    assert chain.file(make()) == Filed("Linear/fnd_0badcafe")
    assert not chain.status().named_sink_available


def test_falling_back_leads_to_the_next_tracker_and_never_back(nowhere: TrackerContext, make: Make) -> None:
    """A tracker that was given up stays so; after the last there is none."""
    fakes = three()
    chain = TrackerChain(nowhere, "github", fakes.registry())
    chain.fall_back()
    assert chain.status().tracker_name == "Linear"
    chain.fall_back()
    assert chain.file(make()) == Filed("Files/fnd_0badcafe")
    for _ in range(2):
        chain.fall_back()
        assert chain.status() == NO_TRACKER
    assert isinstance(chain.file(make()), TicketFailed)
    assert fakes.looked == ["GitHub", "Linear", "Files"]


def test_an_unknown_name_is_an_error(nowhere: TrackerContext) -> None:
    """A misspelt tracker is not passed over."""
    with pytest.raises(AwfError) as raised:
        TrackerChain(nowhere, "gihtub")
    assert "gihtub" in raised.value.message
    assert "github" in str(raised.value.help)


def test_a_bad_id_costs_no_tracker(nowhere: TrackerContext, make: Make) -> None:
    """Any_sink is false only when all tiers failed; a finding that cannot be filed is not a failed tier."""
    chain = TrackerChain(nowhere, "linear", three().registry())
    assert isinstance(chain.file(make("nonsense")), TicketFailed)
    assert chain.status().named_sink_available


def test_the_real_chain_ends_in_a_folder(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """GitHub where gh is logged in, else files in the store, which every machine has."""
    assert list(TRACKERS) == ["github", "folder"]
    assert TrackerChain(context).file(make()) == Filed("https://github.com/acme/shop/issues/1")
    gh.set(hosts=[])
    assert TrackerChain(context).file(make()) == Filed(str(context.store / "tickets" / "fnd_0badcafe.md"))
    assert TrackerChain(context, "folder").status() == TrackerStatus("local folder", "high", True, True)


def test_an_issue_that_cannot_be_made_becomes_a_file(context: TrackerContext, gh: FakeGh, make: Make) -> None:
    """Where issues are switched off the finding is still not lost."""
    gh.set(fails={"issue create": "HTTP 410: Issues are disabled"})
    chain = TrackerChain(context, "github")
    assert chain.file(make()) == TicketFailed("HTTP 410: Issues are disabled")
    chain.fall_back()
    assert chain.file(make()) == Filed(str(context.store / "tickets" / "fnd_0badcafe.md"))


def test_trackers_of_plugins_come_first_and_replace_ours() -> None:
    """The folder always works: what came after it would never be tried."""
    theirs = lambda _context: TicketFailed("no")  # noqa: E731 - the shortest tracker
    assert list(all_trackers({"linear": theirs})) == ["linear", *TRACKERS]
    assert all_trackers({"github": theirs})["github"] is theirs
