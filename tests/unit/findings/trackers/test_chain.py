"""Which tracker is used, when it is looked for, and what happens when it fails."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.unit.findings.trackers.conftest import Make
from tests.unit.findings.trackers.stand_in import StandIn

from pipeline.errors import AwfError
from pipeline.findings.model import Finding
from pipeline.findings.trackers import TRACKERS, OpenTracker, TrackerContext
from pipeline.findings.trackers.chain import Chain
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
        def opened(place: TrackerContext) -> Tracker | TicketFailed:
            del place
            self.looked.append(fake.name)
            return TicketFailed(self.unusable[fake.name]) if fake.name in self.unusable else fake

        return opened


@pytest.fixture
def nowhere(tmp_path: Path) -> TrackerContext:
    """A place without anything."""
    return TrackerContext(tmp_path, tmp_path / ".awf", {})


def three() -> Fakes:
    """Three trackers that work."""
    return Fakes([Fake("Linear"), Fake("GitHub"), Fake("Files")])


def test_nothing_is_looked_at_before_a_ticket_is_to_be_made(nowhere: TrackerContext) -> None:
    """002-72: probe at most once per session and only when a Defer is imminent."""
    fakes = three()
    chain = Chain(nowhere, "linear", fakes.registry())
    assert fakes.looked == []
    assert [chain.sinks() for _ in range(3)] == [TrackerStatus("Linear", "high", True, True)] * 3
    assert fakes.looked == ["Linear"]


def test_a_named_tracker_goes_first_and_is_sure(nowhere: TrackerContext, make: Make) -> None:
    """002-03: the tuple says which tracker, how surely, and whether it and any works."""
    fakes = three()
    chain = Chain(nowhere, "github", fakes.registry())
    assert chain.sinks().named == "GitHub"
    assert chain.name == "GitHub"
    assert chain.file(make()) == Filed("GitHub/fnd_0badcafe")


def test_without_a_name_nothing_is_sure(nowhere: TrackerContext) -> None:
    """002-31: a tracker that nobody named has the general label."""
    sinks = Chain(nowhere, "", three().registry()).sinks()
    assert sinks == TrackerStatus("Linear", "low", False, True)
    assert sinks.named == ""


def test_a_named_tracker_that_cannot_be_used_is_passed_over(nowhere: TrackerContext) -> None:
    """002-72: chain named, GitHub, folder; why each was passed over is kept."""
    fakes = Fakes(three().trackers, {"Linear": "no key", "GitHub": "not logged in"})
    chain = Chain(nowhere, "linear", fakes.registry())
    assert chain.sinks() == TrackerStatus("Files", "high", False, True)
    assert chain.failures == {"linear": "no key", "github": "not logged in"}


def test_a_failed_named_tracker_is_not_named_again(nowhere: TrackerContext, make: Make) -> None:
    """002-72: a failed named tracker sets named_sink_available=false for the session; it may still be tried again."""
    fakes = three()
    fakes.trackers[0].broken = "HTTP 500"
    chain = Chain(nowhere, "linear", fakes.registry())
    assert chain.file(make()) == TicketFailed("HTTP 500")
    assert chain.sinks() == TrackerStatus("Linear", "high", False, True)
    fakes.trackers[0].broken = ""
    assert chain.file(make()) == Filed("Linear/fnd_0badcafe")
    assert not chain.sinks().named_sink_available


def test_falling_back_goes_to_the_next_and_never_back(nowhere: TrackerContext, make: Make) -> None:
    """002-43: fall back to the next sink; the tracker that was given up stays so."""
    fakes = three()
    chain = Chain(nowhere, "github", fakes.registry())
    assert chain.fall_back("HTTP 500")
    assert chain.name == "Linear"
    assert chain.fall_back("no key")
    assert chain.file(make()) == Filed("Files/fnd_0badcafe")
    assert chain.sinks().any_sink_available
    assert not chain.fall_back("disk full")
    assert chain.sinks() == NO_TRACKER
    assert not chain.fall_back("again")
    assert isinstance(chain.file(make()), TicketFailed)
    assert chain.name == ""
    assert chain.failures == {"GitHub": "HTTP 500", "Linear": "no key", "Files": "disk full"}
    assert fakes.looked == ["GitHub", "Linear", "Files"]


def test_a_name_that_is_no_trackers_is_a_mistake(nowhere: TrackerContext) -> None:
    """A tracker that was misspelt is told, not passed over."""
    with pytest.raises(AwfError) as raised:
        Chain(nowhere, "gihtub")
    assert 'no tracker "gihtub"' in raised.value.message
    assert "github" in str(raised.value.help)


def test_a_bad_id_costs_no_tracker(nowhere: TrackerContext, make: Make) -> None:
    """002-72: any_sink is false only when all tiers failed; a finding that cannot be filed is not a failed tier."""
    chain = Chain(nowhere, "linear", three().registry())
    assert isinstance(chain.file(make("nonsense")), TicketFailed)
    assert chain.sinks().named_sink_available


def test_the_real_chain_ends_in_a_folder(place: TrackerContext, gh: StandIn, make: Make) -> None:
    """002-72: GitHub where gh is logged in, else files in the store, which every machine has."""
    assert list(TRACKERS) == ["github", "folder"]
    assert Chain(place).file(make()) == Filed("https://github.com/acme/shop/issues/1")
    gh.set(hosts=[])
    assert Chain(place).file(make()) == Filed(str(place.store / "tickets" / "fnd_0badcafe.md"))
    elsewhere = replace(place, folder=place.root / "docs" / "tickets")
    assert Chain(elsewhere, "folder").file(make()) == Filed(str(place.root / "docs" / "tickets" / "fnd_0badcafe.md"))
    assert Chain(elsewhere, "folder").sinks() == TrackerStatus("local folder", "high", True, True)


def test_an_issue_that_cannot_be_made_becomes_a_file(place: TrackerContext, gh: StandIn, make: Make) -> None:
    """002-72: where issues are switched off the finding is still not lost."""
    gh.set(fails={"issue create": "HTTP 410: Issues are disabled"})
    chain = Chain(place, "github")
    assert chain.file(make()) == TicketFailed("HTTP 410: Issues are disabled")
    assert chain.fall_back("HTTP 410: Issues are disabled")
    assert chain.file(make()) == Filed(str(place.store / "tickets" / "fnd_0badcafe.md"))
    assert chain.failures == {"GitHub Issues": "HTTP 410: Issues are disabled"}
